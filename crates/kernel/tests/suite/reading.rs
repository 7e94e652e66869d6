use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use flowcell_kernel::flows::capability::Action;
use flowcell_kernel::{FileSystem, FsError, FsOptions, Kind};

use crate::support::{ALL, Bench, reason, required};

pub(crate) fn fifo(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Every operation that reads, as what it asks for when nothing is granted.
async fn asked(files: &FileSystem, path: &str) -> [String; 8] {
    [
        required(files.metadata(path).await),
        required(files.exists(path).await),
        required(files.open(path).await),
        required(files.read(path, 1).await),
        required(files.read_range(path, 0, 1).await),
        required(files.read_dir(path).await),
        required(files.canonicalize(path).await),
        required(files.walk_root(path).await),
    ]
}

#[tokio::test]
async fn each_operation_asks_for_the_resolved_path() {
    let bench = Bench::new();
    bench.put("real/a", "a");
    symlink("real", bench.root.join("link")).unwrap();
    symlink("real/a", bench.root.join("file")).unwrap();
    symlink(bench.outside.join("gone/x"), bench.root.join("dangling")).unwrap();
    for files in bench.both(&[]).await {
        let outside = bench.outside.to_str().unwrap();
        let rows = [
            ("real/a", bench.text("real/a")),
            ("./real//../link/a/", bench.text("real/a")),
            ("link", bench.text("real")),
            ("file", bench.text("real/a")),
            (".", bench.text("")[..bench.text("").len() - 1].to_owned()),
            ("link/new/er", bench.text("real/new/er")),
            ("dangling", format!("{outside}/gone/x")),
            ("../beside", format!("{outside}/beside")),
            ("/etc/hosts", "/etc/hosts".to_owned()),
            ("~/a", bench.text("~/a")),
            ("real/a/below", bench.text("real/a/below")),
        ];
        for (path, resource) in rows {
            for request in asked(&files, path).await {
                assert_eq!(request, format!("fs:read:{resource}"), "{path}");
            }
        }
        // The entry itself: parents are resolved, the last component is not.
        for (path, resource) in
            [("link", "link"), ("link/a", "real/a"), ("file", "file"), ("dangling", "dangling")]
        {
            let resource = format!("fs:read:{}", bench.text(resource));
            assert_eq!(required(files.symlink_metadata(path).await), resource);
            assert_eq!(required(files.read_link(path).await), resource);
        }
        // Arithmetic asks for nothing, and neither does telling what would be asked.
        assert_eq!(files.absolute("a/../b"), bench.text("b"));
        let waiting = files.authority().store().list().len();
        let capability = |follow| files.capability(Action::FsWrite, "file", follow).unwrap().to_string();
        assert_eq!(capability(true), format!("fs:write:{}", bench.text("real/a")));
        assert_eq!(capability(false), format!("fs:write:{}", bench.text("file")));
        assert_eq!(files.authority().store().list().len(), waiting);
    }
}

#[tokio::test]
async fn what_is_granted_is_read() {
    let bench = Bench::new();
    bench.put("d/a", "hello");
    symlink("d", bench.root.join("link")).unwrap();
    symlink("gone", bench.root.join("dangling")).unwrap();
    for files in bench.both(ALL).await {
        let (bytes, stat) = files.read("link/a", 100).await.unwrap();
        assert_eq!((bytes.as_slice(), stat.size, stat.kind), (&b"hello"[..], 5, Kind::File));
        assert_eq!(files.metadata("d/a").await.unwrap(), stat);
        assert_eq!(files.read("d/a", 2).await.unwrap().0, b"hel");
        assert_eq!(files.read("d/a", 5).await.unwrap().0, b"hello");
        assert_eq!(files.read_range("d/a", 1, 3).await.unwrap().0, b"ell");
        assert_eq!(files.read_range("d/a", 9, 3).await.unwrap().0, b"");
        assert_eq!(files.canonicalize("link/a").await.unwrap(), bench.text("d/a"));
        assert_eq!(files.canonicalize("no").await, Err(FsError::NotFound));
        assert_eq!(files.read_link("link").await.unwrap(), PathBuf::from("d"));
        assert!(matches!(files.read_link("d").await, Err(FsError::InvalidPath(_))));
        assert_eq!(files.symlink_metadata("link").await.unwrap().kind, Kind::Symlink);
        assert_eq!(files.metadata("link").await.unwrap().kind, Kind::Dir);
        assert_eq!(files.metadata(".").await.unwrap().kind, Kind::Dir);
        assert!(files.exists("d/a").await.unwrap() && !files.exists("d/b").await.unwrap());
        assert!(!files.exists("dangling").await.unwrap() && !files.exists("d/a/b").await.unwrap());
        let entries = files.read_dir(".").await.unwrap();
        let entries: Vec<_> =
            entries.iter().map(|entry| (entry.name.to_str().unwrap(), entry.kind)).collect();
        assert_eq!(entries, [("d", Kind::Dir), ("dangling", Kind::Symlink), ("link", Kind::Symlink)]);
        assert_eq!(files.read_dir("d/a").await, Err(FsError::NotADirectory));
        assert_eq!(files.read_dir("d/a/b").await, Err(FsError::NotFound));
        assert_eq!(files.read("d", 1).await, Err(FsError::IsADirectory));
        assert_eq!(files.read("d/b", 1).await, Err(FsError::NotFound));
        assert_eq!(files.read("d/a/b", 1).await, Err(FsError::NotFound));
        assert!(files.permitted("d/a") && files.permitted("d/none") && !files.permitted("../x"));
    }
}

#[tokio::test]
async fn a_grant_for_what_is_below_does_not_name_the_directory() {
    let bench = Bench::new();
    bench.put("a", "a");
    for files in bench.both(&["allow fs:read:{ws}/**"]).await {
        assert_eq!(required(files.read_dir(".").await), format!("fs:read:{}", bench.root.display()));
        assert!(files.read("a", 1).await.is_ok());
    }
}

#[tokio::test]
async fn a_large_file_is_read_whole() {
    let bench = Bench::new();
    let text = "0123456789abcdef".repeat(200_000);
    bench.put("big", &text);
    let files = bench.files(ALL).await;
    assert_eq!(files.read("big", u64::MAX).await.unwrap().0, text.as_bytes());
    assert_eq!(files.read("big", 2_000_000).await.unwrap().0.len(), 2_000_001);
    assert_eq!(files.read_range("big", 3_199_990, 100).await.unwrap().0, b"6789abcdef");
    bench.put("empty", "");
    assert_eq!(files.read("empty", 10).await.unwrap().0, b"");
}

#[tokio::test]
async fn a_link_out_of_the_root_is_what_it_leads_to() {
    let bench = Bench::new();
    std::fs::write(bench.outside.join("secret"), "s").unwrap();
    symlink("../secret", bench.root.join("out")).unwrap();
    symlink("..", bench.root.join("up")).unwrap();
    for files in bench.both(ALL).await {
        for path in ["out", "up/secret", "../secret"] {
            let secret = format!("fs:read:{}", bench.outside.join("secret").display());
            assert_eq!(required(files.read(path, 1).await), secret, "{path}");
            assert!(!files.permitted(path));
        }
        // Back in through the way out.
        bench.put("in", "i");
        assert_eq!(files.read("up/ws/in", 1).await.unwrap().0, b"i");
    }
    let files = bench.files(&["allow fs:read:{out}/secret"]).await;
    assert_eq!(files.read("up/secret", 1).await.unwrap().0, b"s");
}

#[tokio::test]
async fn the_logical_root_names_resources() {
    let bench = Bench::new();
    bench.put("a", "a");
    let logical = bench.outside.join("logical");
    symlink(&bench.root, &logical).unwrap();
    let files = bench.files_at(&logical, &["allow fs:*:{out}/logical/**"], FsOptions::default()).await;
    assert_eq!(files.workspace().logical(), logical.to_str().unwrap());
    assert_eq!(files.workspace().canonical(), bench.root);
    for path in ["a", &bench.text("a"), logical.join("a").to_str().unwrap()] {
        assert_eq!(files.read(path, 1).await.unwrap().0, b"a", "{path}");
        assert_eq!(files.canonicalize(path).await.unwrap(), logical.join("a").to_str().unwrap());
    }
    files.replace("b", b"b", None, false).await.unwrap();
    assert_eq!(bench.get("b"), "b");
}

#[tokio::test]
async fn forty_links_are_followed_and_no_more() {
    let bench = Bench::new();
    bench.put("l0", "end");
    for n in 1..=41 {
        symlink(format!("l{}", n - 1), bench.root.join(format!("l{n}"))).unwrap();
    }
    symlink("loop", bench.root.join("loop")).unwrap();
    for files in bench.both(ALL).await {
        assert_eq!(files.read("l40", 9).await.unwrap().0, b"end");
        assert_eq!(files.read("l41", 9).await, Err(FsError::TooManyLinks));
        assert_eq!(files.read("loop", 9).await, Err(FsError::TooManyLinks));
        assert_eq!(files.read("loop/x", 9).await, Err(FsError::TooManyLinks));
        assert!(!files.permitted("loop"));
        assert_eq!(files.symlink_metadata("loop").await.unwrap().kind, Kind::Symlink);
    }
}

#[tokio::test]
async fn paths_that_name_nothing() {
    let bench = Bench::new();
    symlink(PathBuf::from(OsString::from_vec(b"\xff".to_vec())), bench.root.join("bytes")).unwrap();
    for files in bench.both(ALL).await {
        assert_eq!(reason(files.read("a\0b", 1).await), "path has a NUL");
        assert_eq!(reason(files.replace("a\0b", b"", None, true).await), "path has a NUL");
        assert_eq!(reason(files.read("bytes", 1).await), "path is not UTF-8");
        assert_eq!(reason(files.read("bytes/x", 1).await), "path is not UTF-8");
        assert!(matches!(files.read("", 1).await, Err(FsError::InvalidPath(_))));
        assert!(matches!(files.read(&"a/".repeat(2_049), 1).await, Err(FsError::InvalidPath(_))));
        assert!(matches!(files.read(&"a".repeat(300), 1).await, Err(FsError::Io { .. })));
    }
}

#[tokio::test]
async fn pseudo_file_systems_are_refused_before_any_grant() {
    let bench = Bench::new();
    symlink("/proc/self", bench.root.join("me")).unwrap();
    for files in bench.both(&["allow fs:*:**"]).await {
        for path in ["/proc/self/status", "/sys/kernel", "/dev/null", "/dev", "/proc", "me/environ"] {
            assert_eq!(reason(files.read(path, 1).await), "path is in a pseudo file system", "{path}");
            assert_eq!(reason(files.write(path, b"").await), "path is in a pseudo file system", "{path}");
            assert!(!files.permitted(path));
        }
        assert!(files.permitted("/process"));
    }
    let files =
        bench.files_with(&["allow fs:*:**"], FsOptions { allow_pseudo_fs: true, ..Default::default() }).await;
    let (bytes, _) = files.read("/proc/self/cmdline", 1 << 20).await.unwrap();
    assert!(!bytes.is_empty());
    assert_eq!(files.read("/dev/null", 1).await, Err(FsError::NotRegular));
}

#[tokio::test]
async fn a_fifo_neither_blocks_nor_reads() {
    let bench = Bench::new();
    fifo(&bench.root.join("pipe"));
    let socket = std::os::unix::net::UnixListener::bind(bench.root.join("socket")).unwrap();
    for files in bench.both(ALL).await {
        for path in ["pipe", "socket"] {
            assert_eq!(files.read(path, 1).await, Err(FsError::NotRegular));
            assert_eq!(files.write(path, b"x").await, Err(FsError::NotRegular));
            assert_eq!(files.replace(path, b"x", None, false).await, Err(FsError::NotRegular));
            assert_eq!(files.truncate(path, 0).await, Err(FsError::NotRegular));
            assert_eq!(files.set_mode(path, 0o600).await, Err(FsError::NotRegular));
            assert_eq!(files.metadata(path).await.unwrap().kind, Kind::Other);
        }
    }
    drop(socket);
}

#[tokio::test]
async fn hard_linked_files_are_read_unless_the_host_refuses() {
    let bench = Bench::new();
    bench.put("a", "a");
    std::fs::hard_link(bench.root.join("a"), bench.root.join("b")).unwrap();
    assert_eq!(bench.files(ALL).await.read("b", 1).await.unwrap().0, b"a");
    let strict = FsOptions { refuse_hard_linked_reads: true, ..FsOptions::default() };
    let files = bench.files_with(ALL, strict).await;
    assert_eq!(reason(files.read("b", 1).await), "file has more than one link");
    assert!(files.metadata("b").await.is_ok());
}

#[tokio::test]
async fn an_open_file_stays_the_file_of_its_path() {
    let bench = Bench::new();
    bench.put("a", "first");
    for files in bench.both(ALL).await {
        bench.put("a", "first");
        let file = files.open("a").await.unwrap();
        assert_eq!(file.read_to(100).unwrap(), b"first");
        assert_eq!(file.stat().unwrap(), file.opened());
        assert_eq!(file.resource(), bench.text("a"));
        std::fs::rename(bench.root.join("a"), bench.root.join("b")).unwrap();
        assert_eq!(reason(file.read_to(100)), "open file no longer matches its path");
        bench.put("a", "other");
        assert_eq!(reason(file.read_at(0, 1)), "open file no longer matches its path");
        assert_eq!(reason(file.stat()), "open file no longer matches its path");
        std::fs::rename(bench.root.join("b"), bench.root.join("a")).unwrap();
        assert_eq!(file.read_to(100).unwrap(), b"first");
    }
}

#[tokio::test]
async fn entries_are_described_without_asking() {
    let bench = Bench::new();
    bench.put("d/x", "x");
    bench.put("k/x", "x");
    bench.put("f", "f");
    std::fs::create_dir(bench.outside.join("out")).unwrap();
    for (target, link) in
        [("d", "to-d"), ("../out", "to-out"), ("gone", "to-none"), ("to-self", "to-self"), ("k", "to-k")]
    {
        symlink(target, bench.root.join(link)).unwrap();
    }
    std::fs::create_dir(bench.root.join(OsString::from_vec(b"raw\xff".to_vec()))).unwrap();
    for files in bench.both(&["allow fs:read:{ws}", "allow fs:read:{ws}/**", "deny fs:read:{ws}/k"]).await {
        let dir = files.open_dir(".").await.unwrap();
        // By way of the open directory the answer is the same.
        let kind = async |name: &str| {
            let kind = files.stat_entry_following(".", OsStr::new(name)).await;
            assert_eq!(dir.stat_entry_following(OsStr::new(name)), kind, "{name}");
            kind
        };
        assert_eq!(kind("d").await, Ok(Kind::Dir));
        assert_eq!(kind("f").await, Ok(Kind::File));
        assert_eq!(kind("to-d").await, Ok(Kind::Dir));
        assert_eq!(kind("to-none").await, Err(FsError::NotFound));
        assert_eq!(kind("to-self").await, Err(FsError::TooManyLinks));
        for name in ["k", "to-k", "to-out"] {
            assert_eq!(reason(kind(name).await), "denied by policy", "{name}");
        }
        for name in ["..", "d/x", "", "."] {
            assert!(matches!(kind(name).await, Err(FsError::InvalidPath(_))), "{name}");
        }
        let raw = OsString::from_vec(b"raw\xff".to_vec());
        assert_eq!(files.stat_entry_following(".", &raw).await, Ok(Kind::Dir));
        assert_eq!(dir.stat_entry_following(&raw), Ok(Kind::Dir));
        assert!(files.authority().store().list().is_empty());
    }
    // Where only the directory itself is granted, its plain entries say what the listing said.
    let files = bench.files(&["allow fs:read:{ws}"]).await;
    assert_eq!(files.stat_entry_following(".", OsStr::new("d")).await, Ok(Kind::Dir));
    let dir = files.open_dir(".").await.unwrap();
    assert_eq!(dir.stat_entry_following(OsStr::new("d")), Ok(Kind::Dir));
    assert!(dir.stat_entry_following(OsStr::new("to-d")).is_err());
    assert!(files.stat_entry_following(".", OsStr::new("to-d")).await.is_err());
    assert!(bench.files(&[]).await.stat_entry_following(".", OsStr::new("d")).await.is_err());
}

/// An open directory is looked at itself: what takes its place meanwhile is not, and no entry costs a resolution.
#[tokio::test]
async fn entries_are_described_from_the_directory_that_was_opened() {
    let bench = Bench::new();
    bench.put("d/sub/x", "x");
    let files = bench.files(ALL).await;
    let dir = files.open_dir("d").await.unwrap();
    assert_eq!(dir.entries().unwrap().len(), 1);
    std::fs::rename(bench.root.join("d"), bench.root.join("e")).unwrap();
    bench.put("d/sub", "a file");
    assert_eq!(dir.stat_entry_following(OsStr::new("sub")), Ok(Kind::Dir));
    assert_eq!(files.stat_entry_following("d", OsStr::new("sub")).await, Ok(Kind::File));
    assert_eq!(reason(dir.entries()), "open file no longer matches its path");
    assert_eq!(files.open_dir("d/sub").await.unwrap_err(), FsError::NotADirectory);
}

/// An editor saves by renaming over a file: who reads meanwhile gets the one or the other, whole.
#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_is_read_whole() {
    let bench = Bench::new();
    let text = |n: u8| vec![b'a' + n % 26; 100_000];
    std::fs::write(bench.root.join("a"), text(0)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let [fast, slow] = bench.both(ALL).await;
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n = n.wrapping_add(1);
                std::fs::write(bench.root.join("b"), text(n)).unwrap();
                std::fs::rename(bench.root.join("b"), bench.root.join("a")).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(8));
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reader = scope.spawn(move || {
            for n in 0..600 {
                let files = if n % 2 == 0 { &fast } else { &slow };
                let (bytes, stat) = runtime.block_on(files.read("a", 1 << 23)).unwrap();
                assert!(bytes.len() == 100_000 && bytes.iter().all(|byte| *byte == bytes[0]));
                assert_eq!(stat.size, 100_000);
            }
        });
        let done = reader.join();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        done
    });
    done.unwrap();
}
