use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use flowcell_kernel::{Authority, Entropy, FileSystem, FsError, FsOptions, Replaced, Workspace};

use crate::support::{ALL, Bench, REFUSED, leftovers, minds_mode_bits, reason, skipped};

fn meta(bench: &Bench, path: &str) -> std::fs::Metadata {
    std::fs::metadata(bench.root.join(path)).unwrap()
}

fn chmod(bench: &Bench, path: &str, mode: u32) {
    std::fs::set_permissions(bench.root.join(path), PermissionsExt::from_mode(mode)).unwrap();
}

fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}

#[tokio::test]
async fn a_new_file_takes_the_umask() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        let done = files.replace("new", b"text", None, false).await.unwrap();
        assert_eq!(done, Replaced { created: true, mode: None });
        assert_eq!(bench.get("new"), "text");
        assert_eq!(meta(&bench, "new").mode() & 0o7777, 0o666 & !umask());
        assert!(leftovers(&bench.root).is_empty());
        std::fs::remove_file(bench.root.join("new")).unwrap();
    }
}

#[tokio::test]
async fn an_existing_file_keeps_mode_and_owner_and_other_names() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        for mode in [0o600, 0o644, 0o755, 0o4755, 0o2640, 0o1777, 0o200] {
            bench.put("a", "old");
            chmod(&bench, "a", mode);
            let ino = meta(&bench, "a").ino();
            let done = files.replace("a", b"new", None, false).await.unwrap();
            assert_eq!(done, Replaced { created: false, mode: Some(mode) });
            assert_eq!((bench.get("a").as_str(), meta(&bench, "a").mode() & 0o7777), ("new", mode));
            assert_ne!(meta(&bench, "a").ino(), ino);
            std::fs::remove_file(bench.root.join("a")).unwrap();
        }
        bench.put("a", "old");
        std::fs::hard_link(bench.root.join("a"), bench.root.join("b")).unwrap();
        files.replace("a", b"new", None, false).await.unwrap();
        assert_eq!((bench.get("a").as_str(), bench.get("b").as_str()), ("new", "old"));
        std::fs::remove_file(bench.root.join("b")).unwrap();
    }
}

#[tokio::test]
async fn another_s_file_stays_another_s() {
    let bench = Bench::new();
    bench.put("a", "old");
    if std::os::unix::fs::chown(bench.root.join("a"), Some(1234), Some(4321)).is_err() {
        skipped("another_s_file_stays_another_s", "not root");
        return;
    }
    chmod(&bench, "a", 0o4755);
    let files = bench.files(ALL).await;
    files.replace("a", b"new", None, false).await.unwrap();
    let meta = meta(&bench, "a");
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1234, 4321, 0o4755));
    assert_eq!(bench.get("a"), "new");
}

#[tokio::test]
async fn links_stay_links() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        bench.put("d/target", "old");
        symlink("d/target", bench.root.join("link")).unwrap();
        symlink("link", bench.root.join("link2")).unwrap();
        files.replace("link2", b"new", None, false).await.unwrap();
        assert!(bench.root.join("link").is_symlink() && bench.root.join("link2").is_symlink());
        assert_eq!(bench.get("d/target"), "new");
        assert!(!bench.root.join("d/target").is_symlink());
        // A dangling link's target is made where its parent exists, and nowhere else.
        symlink("d/fresh", bench.root.join("dangling")).unwrap();
        assert!(files.replace("dangling", b"f", None, true).await.unwrap().created);
        assert_eq!(bench.get("d/fresh"), "f");
        symlink("none/fresh", bench.root.join("far")).unwrap();
        assert_eq!(files.replace("far", b"f", None, true).await, Err(FsError::NotFound));
        symlink("nowhere", bench.root.join("dir")).unwrap();
        assert_eq!(files.replace("dir/a", b"f", None, true).await, Err(FsError::NotFound));
        assert!(!bench.root.join("none").exists() && !bench.root.join("nowhere").exists());
        for path in ["link", "link2", "dangling", "far", "dir"] {
            std::fs::remove_file(bench.root.join(path)).unwrap();
        }
        std::fs::remove_dir_all(bench.root.join("d")).unwrap();
    }
}

#[tokio::test]
async fn missing_parents_are_made_when_wanted() {
    let bench = Bench::new();
    bench.put("file", "f");
    // A grant for exactly this path is enough.
    for files in bench.both(&["allow fs:write:{ws}/x/y/z", "allow fs:write:{ws}/file/a"]).await {
        assert_eq!(files.replace("x/y/z", b"z", None, false).await, Err(FsError::NotFound));
        assert!(!bench.root.join("x").exists());
        assert!(files.replace("x/y/z", b"z", None, true).await.unwrap().created);
        assert_eq!(bench.get("x/y/z"), "z");
        assert_eq!(files.replace("file/a", b"z", None, true).await, Err(FsError::NotFound));
        std::fs::remove_dir_all(bench.root.join("x")).unwrap();
    }
}

#[tokio::test]
async fn what_is_no_file_is_not_replaced() {
    let bench = Bench::new();
    std::fs::create_dir(bench.root.join("d")).unwrap();
    for files in bench.both(&["allow fs:*:**"]).await {
        for path in ["d", ".", "..", "/"] {
            assert_eq!(files.replace(path, b"x", None, true).await, Err(FsError::IsADirectory), "{path}");
        }
    }
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_seen_is_kept() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        bench.put("a", "one");
        let (_, seen) = files.read("a", 9).await.unwrap();
        assert!(!files.replace("a", b"two", Some(seen), false).await.unwrap().created);
        // Another inode by now.
        let changed = FsError::Changed("the file changed during the call".to_owned());
        assert_eq!(files.replace("a", b"six", Some(seen), false).await, Err(changed.clone()));
        assert_eq!(bench.get("a"), "two");
        let (_, seen) = files.read("a", 9).await.unwrap();
        bench.put("a", "four");
        assert_eq!(files.replace("a", b"six", Some(seen), false).await, Err(changed.clone()));
        // Even when it holds what would be written.
        assert_eq!(files.replace("a", b"four", Some(seen), false).await, Err(changed.clone()));
        std::fs::remove_file(bench.root.join("a")).unwrap();
        assert_eq!(files.replace("a", b"six", Some(seen), true).await, Err(changed));
        assert!(!bench.root.join("a").exists() && leftovers(&bench.root).is_empty());
    }
}

#[tokio::test]
async fn equal_bytes_are_not_written() {
    let bench = Bench::new();
    let long = "x".repeat(2_500_000);
    for files in bench.both(ALL).await {
        for text in ["", "same", long.as_str()] {
            bench.put("a", text);
            let before = meta(&bench, "a");
            let done = files.replace("a", text.as_bytes(), None, false).await.unwrap();
            assert_eq!(done, Replaced { created: false, mode: Some(before.mode() & 0o7777) });
            let after = meta(&bench, "a");
            assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
        }
        let mut other = long.clone();
        other.replace_range(2_400_000..2_400_001, "y");
        files.replace("a", other.as_bytes(), None, false).await.unwrap();
        assert!(bench.get("a") == other);
    }
}

#[tokio::test]
async fn a_read_only_file_is_not_replaced() {
    if !minds_mode_bits("replace::a_read_only_file_is_not_replaced") {
        return;
    }
    let bench = Bench::new();
    bench.put("a", "old");
    chmod(&bench, "a", 0o444);
    for files in bench.both(ALL).await {
        assert_eq!(files.replace("a", b"new", None, false).await, Err(REFUSED));
        assert_eq!(files.replace("a", b"old", None, false).await, Err(REFUSED));
        assert_eq!(bench.get("a"), "old");
        // A file that can be written and not read is replaced all the same.
        bench.put("w", "old");
        chmod(&bench, "w", 0o200);
        files.replace("w", b"new", None, false).await.unwrap();
        chmod(&bench, "w", 0o600);
        assert_eq!(bench.get("w"), "new");
    }
}

#[tokio::test]
async fn a_directory_that_takes_no_sibling_makes_it_in_place() {
    if !minds_mode_bits("replace::a_directory_that_takes_no_sibling_makes_it_in_place") {
        return;
    }
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        bench.put("d/a", "old and longer");
        bench.put("d/b", "shared");
        std::fs::hard_link(bench.root.join("d/b"), bench.root.join("d/c")).unwrap();
        let (_, seen) = files.read("d/a", 99).await.unwrap();
        chmod(&bench, "d", 0o555);
        let ino = meta(&bench, "d/a").ino();
        let done = files.replace("d/a", b"new", Some(seen), false).await.unwrap();
        assert!(!done.created);
        assert_eq!((bench.get("d/a").as_str(), meta(&bench, "d/a").ino()), ("new", ino));
        // In place there has to be one name, the file that was seen, and something to write.
        assert_eq!(reason(files.replace("d/b", b"new", None, false).await), "file has more than one link");
        let stale = files.replace("d/a", b"newer", Some(seen), false).await;
        assert!(matches!(stale, Err(FsError::Changed(_))));
        assert_eq!(files.replace("d/none", b"new", None, false).await, Err(REFUSED));
        chmod(&bench, "d", 0o755);
        std::fs::remove_dir_all(bench.root.join("d")).unwrap();
    }
}

#[tokio::test]
async fn an_owner_that_cannot_be_kept_makes_it_in_place() {
    // Without the privilege to give files away, another's file is written where it is. As root this test first makes one.
    let bench = Bench::new();
    bench.put("a", "old");
    let foreign = std::os::unix::fs::chown(bench.root.join("a"), Some(1234), Some(4321)).is_ok();
    if foreign {
        chmod(&bench, "a", 0o666);
        chmod(&bench, ".", 0o777);
        std::fs::set_permissions(&bench.outside, PermissionsExt::from_mode(0o755)).unwrap();
        let ino = meta(&bench, "a").ino();
        let status = std::process::Command::new("setpriv")
            .args(["--bounding-set=-chown,-dac_override,-fowner"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "replace::in_place_child", "--ignored", "--nocapture", "--skip"])
            .arg(format!("in-place={}", bench.root.display()))
            .status();
        match status {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                skipped("an_owner_that_cannot_be_kept_makes_it_in_place", format!("setpriv: {error}"));
                return;
            }
        }
        let after = meta(&bench, "a");
        assert_eq!((bench.get("a").as_str(), after.ino(), after.uid()), ("new", ino, 1234));
        assert!(leftovers(&bench.root).is_empty());
    } else {
        skipped("an_owner_that_cannot_be_kept_makes_it_in_place", "not root");
    }
}

#[tokio::test]
async fn a_file_that_is_a_mount_point_makes_it_in_place() {
    let bench = Bench::new();
    bench.put("a", "mounted over");
    std::fs::write(bench.outside.join("source"), "old").unwrap();
    let script = "mount --bind \"$1\" \"$2\" || exit 77; shift 2; exec \"$@\"";
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args([bench.outside.join("source"), bench.root.join("a"), std::env::current_exe().unwrap()])
        .args(["--exact", "replace::in_place_child", "--ignored", "--nocapture", "--skip"])
        .arg(format!("in-place={}", bench.root.display()))
        .stderr(std::process::Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => {
            assert_eq!(std::fs::read_to_string(bench.outside.join("source")).unwrap(), "new");
            assert_eq!(bench.get("a"), "mounted over");
            assert!(leftovers(&bench.root).is_empty());
        }
        Ok(status) if matches!(status.code(), Some(1 | 77)) => {
            skipped("a_file_that_is_a_mount_point_makes_it_in_place", "no mount of its own");
        }
        other => panic!("{other:?}"),
    }
}

/// The part of the tests above that runs in a process of its own.
#[tokio::test]
#[ignore = "run by the tests that write in place"]
async fn in_place_child() {
    let Some(root) = std::env::args().find_map(|arg| arg.strip_prefix("in-place=").map(str::to_owned)) else {
        return;
    };
    let bench = Bench::new();
    let files = bench.files_at(root.as_ref(), &["allow fs:write:**"], FsOptions::default()).await;
    files.replace("a", b"new", None, false).await.unwrap();
}

/// Bytes that never differ.
struct Same;

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0xab);
    }
}

#[tokio::test]
async fn a_temporary_that_is_another_s_is_left_alone() {
    let bench = Bench::new();
    let store = bench.store(ALL).await;
    let workspace = Workspace::open(&bench.root).unwrap();
    let files =
        FileSystem::new(Authority::root(store), workspace, FsOptions::default(), Arc::new(Same)).unwrap();
    let name = ".flowcell-abababababababab.tmp";
    bench.put(name, "another's");
    bench.put("a", "old");
    assert_eq!(files.replace("a", b"new", None, false).await, Err(FsError::Exists));
    assert_eq!((bench.get("a").as_str(), bench.get(name).as_str()), ("old", "another's"));
    std::fs::remove_file(bench.root.join(name)).unwrap();
    files.replace("a", b"new", None, false).await.unwrap();
    assert_eq!(bench.get("a"), "new");
}

#[tokio::test]
async fn a_running_program_is_replaced_by_name() {
    let bench = Bench::new();
    std::fs::copy("/bin/sleep", bench.root.join("prog")).unwrap();
    let mut child = match std::process::Command::new(bench.root.join("prog")).arg("5").spawn() {
        Ok(child) => child,
        Err(error) => {
            skipped("a_running_program_is_replaced_by_name", format!("{error}"));
            return;
        }
    };
    let files = bench.files(ALL).await;
    let result = files.replace("prog", b"new", None, false).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!result.unwrap().created);
    assert_eq!(bench.get("prog"), "new");
}

#[tokio::test]
async fn what_the_host_holds_unchangeable_is_kept() {
    let bench = Bench::new();
    let chattr = |flag: &str, path: &str| {
        let status = std::process::Command::new("chattr").arg(flag).arg(bench.root.join(path)).status();
        status.is_ok_and(|status| status.success())
    };
    for (set, unset) in [("+i", "-i"), ("+a", "-a")] {
        bench.put("a", "old");
        if !chattr(set, "a") {
            skipped("what_the_host_holds_unchangeable_is_kept", format!("chattr {set}"));
            return;
        }
        let results = {
            let files = bench.files(ALL).await;
            [
                files.replace("a", b"new", None, false).await.map(|_| ()),
                files.write("a", b"new").await.map(|_| ()),
                files.truncate("a", 0).await,
                files.remove("a").await,
                files.rename("a", "b").await,
                files.set_mode("a", 0o600).await.map(|_| ()),
            ]
        };
        assert!(chattr(unset, "a"));
        for result in results {
            assert_eq!(result, Err(FsError::AccessDenied { errno: 1 }), "{set}");
        }
        assert_eq!(bench.get("a"), "old");
        assert!(leftovers(&bench.root).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_make_one_file_one_made_it() {
    let bench = Bench::new();
    let files = bench.files(ALL).await;
    for round in 0..30 {
        let tasks: Vec<_> = (0..4)
            .map(|n: u8| {
                let files = files.clone();
                tokio::spawn(async move {
                    files.replace(&format!("d/{round}"), &[b'0' + n; 3], None, true).await.unwrap().created
                })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            made += usize::from(task.await.unwrap());
        }
        assert_eq!(made, 1);
        assert_eq!(bench.get(&format!("d/{round}")).len(), 3);
    }
    assert!(leftovers(&bench.root.join("d")).is_empty());
}
