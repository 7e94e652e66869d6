//! Mounts of a process's own: each test runs its part that mounts again under `unshare -m`.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use flowcell_kernel::{FsError, FsOptions};

use crate::support::{Bench, READ_ONLY, leftovers, reason, skipped};

const MARK: &str = "mounts-in=";

/// Runs the script with `$1` the directory of the bench, then the named test again in the same mounts.
fn in_mounts(test: &str, bench: &Bench, script: &str) {
    let script = format!("cd \"$1\" && {{ {script} ; }} || exit 77; shift; exec \"$@\"");
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh"])
        .args([bench.outside.clone(), std::env::current_exe().unwrap()])
        .args(["--exact", test, "--nocapture", "--skip"])
        .arg(format!("{MARK}{}", bench.outside.display()))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) if matches!(status.code(), Some(1 | 77)) => {
            skipped(test, "no mount of its own");
        }
        other => panic!("{test}: {other:?}"),
    }
}

/// The directory whose mounts this process is in.
fn mounted() -> Option<PathBuf> {
    std::env::args().find_map(|arg| arg.strip_prefix(MARK).map(PathBuf::from))
}

#[tokio::test]
async fn a_read_only_file_system_refuses_and_nothing_is_left() {
    let Some(outside) = mounted() else {
        let bench = Bench::new();
        bench.put("a", "a");
        bench.put("ro/a", "a");
        let script = "mount --bind ws/ro ws/ro && mount -o remount,bind,ro ws/ro";
        return in_mounts("mounts::a_read_only_file_system_refuses_and_nothing_is_left", &bench, script);
    };
    let bench = Bench::new();
    let root = outside.join("ws");
    let files = bench.files_at(&root, &["allow fs:*:**"], FsOptions::default()).await;
    assert_eq!(files.read("ro/a", 9).await.unwrap().0, b"a");
    assert_eq!(files.replace("ro/a", b"new", None, false).await, Err(READ_ONLY));
    assert_eq!(files.replace("ro/new", b"new", None, true).await, Err(READ_ONLY));
    assert_eq!(files.replace("ro/d/new", b"new", None, true).await, Err(READ_ONLY));
    assert_eq!(files.write("ro/a", b"new").await, Err(READ_ONLY));
    assert_eq!(files.write("ro/new", b"new").await, Err(READ_ONLY));
    assert_eq!(files.create_new("ro/new", b"new", 0o600).await, Err(READ_ONLY));
    assert_eq!(files.truncate("ro/a", 0).await, Err(READ_ONLY));
    assert_eq!(files.set_mode("ro/a", 0o600).await, Err(READ_ONLY));
    assert_eq!(files.make_dir("ro/d").await, Err(READ_ONLY));
    assert_eq!(files.make_dirs("ro/d/e").await, Err(READ_ONLY));
    assert_eq!(files.remove("ro/a").await, Err(READ_ONLY));
    assert_eq!(files.rename("ro/a", "ro/b").await, Err(READ_ONLY));
    assert_eq!(files.symlink("a", "ro/l").await, Err(READ_ONLY));
    assert_eq!(files.copy("a", "ro/b").await, Err(READ_ONLY));
    // Across mounts the host does not rename.
    assert!(matches!(
        files.rename("ro/a", "b").await,
        Err(FsError::Io { .. } | FsError::AccessDenied { .. })
    ));
    assert_eq!(std::fs::read_dir(root.join("ro")).unwrap().count(), 1);
}

/// The layers of a container: a lower file is copied up when it is written, and may be another inode from then on.
#[tokio::test]
async fn a_file_of_a_lower_layer_is_replaced() {
    let Some(outside) = mounted() else {
        let bench = Bench::new();
        for dir in ["lower", "upper", "work"] {
            std::fs::create_dir(bench.outside.join(dir)).unwrap();
        }
        for name in ["a", "same", "shared"] {
            std::fs::write(bench.outside.join("lower").join(name), "old").unwrap();
        }
        std::fs::hard_link(bench.outside.join("lower/shared"), bench.outside.join("lower/other")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o2754);
        std::fs::set_permissions(bench.outside.join("lower/a"), mode).unwrap();
        let script = "mount -t tmpfs tmpfs work && mkdir work/upper work/work && \
            mount -t overlay -o lowerdir=lower,upperdir=work/upper,workdir=work/work,index=off overlay ws";
        return in_mounts("mounts::a_file_of_a_lower_layer_is_replaced", &bench, script);
    };
    let bench = Bench::new();
    let root = outside.join("ws");
    let files = bench.files_at(&root, &["allow fs:*:**"], FsOptions::default()).await;
    let upper = outside.join("work/upper");
    // Bytes that are there already bring nothing into the upper layer: the file is not even opened for writing.
    let (_, seen) = files.read("same", 9).await.unwrap();
    files.replace("same", b"old", Some(seen), false).await.unwrap();
    assert_eq!(std::fs::read_dir(&upper).unwrap().count(), 0);
    for name in ["a", "shared"] {
        let (_, seen) = files.read(name, 9).await.unwrap();
        files.replace(name, b"new", Some(seen), false).await.unwrap();
        assert_eq!(std::fs::read_to_string(upper.join(name)).unwrap(), "new");
    }
    assert_eq!(std::fs::metadata(root.join("a")).unwrap().mode() & 0o7777, 0o2754);
    assert_eq!(std::fs::read_to_string(root.join("other")).unwrap(), "old");
    assert_eq!(files.create_new("same", b"", 0o600).await, Err(FsError::Exists));
    assert!(files.replace("made", b"made", None, false).await.unwrap().created);
    files.write("same", b"written").await.unwrap();
    assert_eq!(std::fs::read_to_string(root.join("same")).unwrap(), "written");
    files.remove("same").await.unwrap();
    assert_eq!(files.exists("same").await, Ok(false));
    assert!(leftovers(&root).is_empty());
}

#[tokio::test]
async fn a_mount_over_the_root_or_in_it() {
    let Some(outside) = mounted() else {
        let bench = Bench::new();
        bench.put("d/a", "under");
        std::fs::create_dir(bench.outside.join("other")).unwrap();
        std::fs::write(bench.outside.join("other/a"), "mounted").unwrap();
        return in_mounts("mounts::a_mount_over_the_root_or_in_it", &bench, "mount --bind other ws/d");
    };
    let bench = Bench::new();
    let root = outside.join("ws");
    let files = bench.files_at(&root, &["allow fs:*:**"], FsOptions::default()).await;
    let slow = files.clone();
    for files in [files, slow.without_openat2()] {
        // A mount is where it is: what it shows goes by its path there.
        assert_eq!(files.read("d/a", 9).await.unwrap().0, b"mounted");
        assert_eq!(files.canonicalize("d/a").await.unwrap(), root.join("d/a").to_str().unwrap());
        let open = files.open("d/a").await.unwrap();
        let mount =
            |args: &[&str]| std::process::Command::new("mount").args(args).status().unwrap().success();
        let (other, at) = (outside.join("other"), root.clone());
        assert!(mount(&["--bind", other.to_str().unwrap(), at.to_str().unwrap()]));
        assert_eq!(
            reason(files.read("a", 9).await),
            "the workspace root is not the directory that was opened"
        );
        assert_eq!(reason(open.read_to(9)), "open file no longer matches its path");
        assert!(std::process::Command::new("umount").arg(&at).status().unwrap().success());
        assert_eq!(open.read_to(9).unwrap(), b"mounted");
        // A mount point cannot be removed.
        assert!(files.remove("d").await.is_err());
        assert_eq!(std::fs::read_to_string(other.join("a")).unwrap(), "mounted");
    }
}

#[tokio::test]
async fn a_full_file_system_keeps_the_old_file_and_gets_no_part_of_the_new() {
    let Some(outside) = mounted() else {
        let bench = Bench::new();
        std::fs::create_dir(bench.root.join("small")).unwrap();
        let script = "mount -t tmpfs -o size=64k tmpfs ws/small";
        let test = "mounts::a_full_file_system_keeps_the_old_file_and_gets_no_part_of_the_new";
        return in_mounts(test, &bench, script);
    };
    let bench = Bench::new();
    let root = outside.join("ws");
    let small = root.join("small");
    let options = FsOptions { system_temp: small.clone(), ..FsOptions::default() };
    let files = bench.files_at(&root, &["allow fs:*:**"], options).await;
    std::fs::write(small.join("a"), "old").unwrap();
    let big = vec![b'x'; 1 << 20];
    std::fs::write(root.join("big"), &big).unwrap();
    let full = |result: Result<(), FsError>| assert!(matches!(result, Err(FsError::Io { .. })), "{result:?}");
    full(files.replace("small/a", &big, None, false).await.map(|_| ()));
    full(files.replace("small/new", &big, None, false).await.map(|_| ()));
    full(files.create_new("small/new", &big, 0o600).await);
    full(files.write("small/new", &big).await.map(|_| ()));
    full(files.copy("big", "small/new").await.map(|_| ()));
    full(files.temp_file(&big).await.map(|_| ()));
    let names: Vec<_> = std::fs::read_dir(&small).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(std::fs::read_to_string(small.join("a")).unwrap(), "old");
}
