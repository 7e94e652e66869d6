//! Paths, files and neighbours that mean ill.

use std::ffi::OsStr;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowcell_kernel::{Dir, FileSystem, FsError, FsOptions, Kind, WalkRoot};

use crate::support::{ALL, Bench, leftovers, reason, required, skipped};

const REPLACED: &str = "the workspace root is not the directory that was opened";
const STAYS: &str = "the workspace root stays where it is";
const MOVED: &str = "open file no longer matches its path";

fn dir(root: WalkRoot) -> Dir {
    match root {
        WalkRoot::Dir(dir) => dir,
        other => panic!("{other:?}"),
    }
}

async fn logical(bench: &Bench, path: &str, rules: &[&str]) -> FileSystem {
    bench.files_at(&bench.outside.join(path), rules, FsOptions::default()).await
}

#[tokio::test]
async fn a_link_that_names_the_root_stays_too() {
    let bench = Bench::new();
    bench.put("a", "a");
    // top -> mid, mid/link -> ../last, last -> ws: the logical root is top/link.
    std::fs::create_dir(bench.outside.join("mid")).unwrap();
    symlink("mid", bench.outside.join("top")).unwrap();
    symlink("../last", bench.outside.join("mid/link")).unwrap();
    symlink("ws", bench.outside.join("last")).unwrap();
    // Another link to the root is a file like any other.
    symlink(".", bench.root.join("self")).unwrap();
    symlink("ws", bench.outside.join("other")).unwrap();
    let files = logical(&bench, "top/link", &["allow fs:*:**"]).await;
    let at = |path: &str| bench.outside.join(path).to_str().unwrap().to_owned();
    for path in
        [".", &at("top"), &at("mid"), &at("mid/link"), &at("top/link"), &at("last"), &at("ws"), &at("")]
    {
        assert_eq!(reason(files.remove(path).await), STAYS, "{path}");
        assert_eq!(reason(files.remove_dir_all(path).await), STAYS, "{path}");
        assert_eq!(reason(files.rename(path, "b").await), STAYS, "{path}");
        assert_eq!(reason(files.rename("a", path).await), STAYS, "{path}");
    }
    assert_eq!(files.read("a", 9).await.unwrap().0, b"a");
    files.remove("self").await.unwrap();
    files.remove(&at("other")).await.unwrap();
    assert_eq!(files.symlink_metadata(".").await.unwrap().kind, Kind::Symlink);
}

#[tokio::test]
async fn a_root_that_is_replaced_serves_nothing() {
    let bench = Bench::new();
    for files in bench.both(&["allow fs:*:{ws}", "allow fs:*:{ws}/**"]).await {
        bench.put("a", "mine");
        let open = files.open("a").await.unwrap();
        let root = dir(files.walk_root(".").await.unwrap());
        let parked = bench.outside.join("parked");
        std::fs::rename(&bench.root, &parked).unwrap();
        // Another directory of the same name.
        std::fs::create_dir(&bench.root).unwrap();
        bench.put("a", "theirs");
        assert_eq!(reason(files.read("a", 9).await), REPLACED);
        assert_eq!(reason(files.read_dir(".").await), REPLACED);
        assert_eq!(reason(files.metadata("a").await), REPLACED);
        assert_eq!(reason(files.replace("a", b"new", None, false).await), REPLACED);
        assert_eq!(reason(files.replace("new", b"new", None, true).await), REPLACED);
        assert_eq!(reason(files.write("a", b"new").await), REPLACED);
        assert_eq!(reason(files.remove("a").await), REPLACED);
        assert_eq!(reason(files.rename("a", "b").await), REPLACED);
        assert_eq!(reason(files.make_dirs("d/e").await), REPLACED);
        assert_eq!(reason(files.walk_root(".").await), REPLACED);
        assert_eq!(reason(open.read_to(9)), MOVED);
        assert_eq!(reason(open.stat()), MOVED);
        assert_eq!(reason(root.entries()), MOVED);
        assert_eq!(reason(root.open_file(OsStr::new("a")).unwrap().read_to(9)), MOVED);
        assert_eq!(std::fs::read_dir(&parked).unwrap().count(), 1);
        assert_eq!((bench.get("a").as_str(), std::fs::read_dir(&bench.root).unwrap().count()), ("theirs", 1));
        // A link: what it leads to is asked for by its own name.
        std::fs::remove_dir_all(&bench.root).unwrap();
        symlink("/etc", &bench.root).unwrap();
        assert_eq!(required(files.read("passwd", 9).await), "fs:read:/etc/passwd");
        assert_eq!(required(files.replace("x", b"", None, true).await), "fs:write:/etc/x");
        // None at all.
        std::fs::remove_file(&bench.root).unwrap();
        assert_eq!(reason(files.read("a", 9).await), REPLACED);
        // Put back, it is what it was.
        std::fs::rename(&parked, &bench.root).unwrap();
        assert_eq!(open.read_to(9).unwrap(), b"mine");
        assert_eq!(files.read("a", 9).await.unwrap().0, b"mine");
    }
}

#[tokio::test]
async fn nothing_else_takes_the_name_of_the_logical_root() {
    let bench = Bench::new();
    bench.put("a", "mine");
    std::fs::create_dir(bench.outside.join("real")).unwrap();
    std::fs::rename(&bench.root, bench.outside.join("real/ws")).unwrap();
    symlink("real", bench.outside.join("link")).unwrap();
    let rules = ["allow fs:*:{out}/link/ws", "allow fs:*:{out}/link/ws/**"];
    let files = logical(&bench, "link/ws", &rules).await;
    assert_eq!(files.read("a", 9).await.unwrap().0, b"mine");
    // A directory where the link was: its files would answer to the names that were granted.
    std::fs::remove_file(bench.outside.join("link")).unwrap();
    std::fs::create_dir_all(bench.outside.join("link/ws/d")).unwrap();
    std::fs::write(bench.outside.join("link/ws/a"), "theirs").unwrap();
    assert_eq!(reason(files.read("a", 9).await), REPLACED);
    assert_eq!(reason(files.read_dir(".").await), REPLACED);
    assert_eq!(reason(files.replace("a", b"x", None, false).await), REPLACED);
    assert_eq!(reason(files.make_dirs("d/e").await), REPLACED);
    assert_eq!(reason(files.remove("a").await), REPLACED);
    assert!(!files.permitted("a"));
    // The workspace itself is where it was, and goes by the same names.
    let own = bench.outside.join("real/ws/a");
    assert_eq!(files.read(own.to_str().unwrap(), 9).await.unwrap().0, b"mine");
}

#[tokio::test]
async fn a_walker_meets_no_false_root() {
    let bench = Bench::new();
    std::fs::create_dir(bench.outside.join("real")).unwrap();
    std::fs::rename(&bench.root, bench.outside.join("real/ws")).unwrap();
    symlink("real", bench.outside.join("link")).unwrap();
    let rules = ["allow fs:read:{out}", "allow fs:read:{out}/link", "allow fs:read:{out}/link/**"];
    let files = logical(&bench, "link/ws", &rules).await;
    std::fs::remove_file(bench.outside.join("link")).unwrap();
    std::fs::create_dir_all(bench.outside.join("link/ws")).unwrap();
    std::fs::write(bench.outside.join("link/ws/a"), "theirs").unwrap();
    let top = dir(files.walk_root(bench.outside.to_str().unwrap()).await.unwrap());
    let link = top.open_dir(OsStr::new("link")).unwrap();
    let ws = link.open_dir(OsStr::new("ws")).unwrap();
    assert!(!ws.permitted(OsStr::new("a")));
    assert_eq!(reason(ws.open_file(OsStr::new("a"))), REPLACED);
}

/// Directories that are nested deeper than one host call takes a path.
#[tokio::test]
async fn a_tree_deeper_than_a_path_is_walked_and_removed() {
    const NAME: &str = "ディレクトリの名前がとても長いので一つの呼び出しには収まらない";
    let bench = Bench::new();
    let files = bench.files(ALL).await;
    let mut at = std::fs::File::open(&bench.root).unwrap();
    let depth = 5_000 / NAME.len() + 1;
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, NAME, rustix::fs::Mode::from(0o755)).unwrap();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, NAME, flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CREATE;
    let leaf = rustix::fs::openat(&at, "leaf", flags, rustix::fs::Mode::from(0o644)).unwrap();
    std::fs::File::from(leaf).write_all_at(b"deep", 0).unwrap();
    let mut below = dir(files.walk_root(".").await.unwrap());
    for _ in 0..depth {
        assert_eq!(below.entries().unwrap().len(), 1);
        assert!(below.permitted(OsStr::new(NAME)));
        below = below.open_dir(OsStr::new(NAME)).unwrap();
    }
    assert_eq!(below.entries().unwrap()[0].name, OsStr::new("leaf"));
    assert_eq!(below.open_file(OsStr::new("leaf")).unwrap().read_to(9).unwrap(), b"deep");
    files.remove_dir_all(NAME).await.unwrap();
    assert_eq!(std::fs::read_dir(&bench.root).unwrap().count(), 0);
}

#[tokio::test]
async fn names_at_the_limit() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        let long = "n".repeat(255);
        assert!(files.replace(&long, b"x", None, false).await.unwrap().created);
        assert!(!files.replace(&long, b"y", None, false).await.unwrap().created);
        assert_eq!(files.read(&long, 9).await.unwrap().0, b"y");
        files.remove(&long).await.unwrap();
        let over = "n".repeat(256);
        let name = format!("d/{over}");
        for path in [over.as_str(), name.as_str()] {
            assert!(matches!(files.replace(path, b"x", None, true).await, Err(FsError::Io { .. })));
            assert!(matches!(
                files.write(path, b"x").await,
                Err(FsError::Io { .. }) | Err(FsError::NotFound)
            ));
            assert!(files.metadata(path).await.is_err());
        }
        // A path of as many units as a resource takes, and one more.
        let path = format!("{}/", "m".repeat(200)).repeat(20) + "x";
        let room = 4_096 - bench.root.to_str().unwrap().len() - 1;
        let exact = "q/".repeat(room / 2) + &"z".repeat(room % 2);
        for path in [path.as_str(), exact.as_str()] {
            assert!(files.read(path, 1).await.is_err());
            assert!(files.replace(path, b"", None, false).await.is_err());
            assert!(!files.permitted(&format!("{path}{}", "/y".repeat(2_000))));
        }
        assert!(files.read(&format!("{exact}zz"), 1).await.is_err());
        assert!(leftovers(&bench.root).is_empty());
    }
}

#[tokio::test]
async fn links_of_every_shape_lead_where_the_host_leads() {
    let bench = Bench::new();
    bench.put("d/e/f", "f");
    bench.put("file", "file");
    std::fs::write(bench.outside.join("o"), "outside").unwrap();
    for (text, at) in [
        ("d/e/", "slash"),
        ("file/", "file-slash"),
        ("d/e/..", "up"),
        ("./d/./e/.", "dots"),
        ("d//e///f", "slashes"),
        ("file/..", "through-file"),
        ("none/..", "through-none"),
        ("none/", "none-slash"),
        ("up/../../o", "out"),
        ("/proc/self/root", "host"),
        ("/proc/self/cwd", "cwd"),
        ("..", "d/e/parent"),
    ] {
        symlink(text, bench.root.join(at)).unwrap();
    }
    symlink("slash", bench.root.join("again")).unwrap();
    // What a process has as its standard input may be a file with a path; a pipe has none.
    let (pipe, _end) = std::io::pipe().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&pipe);
    symlink(format!("/proc/self/fd/{fd}"), bench.root.join("pipe")).unwrap();
    for files in bench.both(ALL).await {
        assert_eq!(files.read("slash/f", 9).await.unwrap().0, b"f");
        assert_eq!(files.read("again/f", 9).await.unwrap().0, b"f");
        assert_eq!(files.read("up/e/f", 9).await.unwrap().0, b"f");
        assert_eq!(files.read("dots/f", 9).await.unwrap().0, b"f");
        assert_eq!(files.read("slashes", 9).await.unwrap().0, b"f");
        assert_eq!(files.read("d/e/parent/e/f", 9).await.unwrap().0, b"f");
        // The caller's own `..` is text: it takes back the link, not what the link leads to.
        assert_eq!(files.read("slash/../file", 9).await.unwrap().0, b"file");
        assert_eq!(
            required(files.read("out", 9).await),
            format!("fs:read:{}", bench.outside.join("o").display())
        );
        for path in ["file-slash", "through-file", "through-none", "through-none/../none"] {
            assert_eq!(
                std::fs::metadata(bench.root.join(path)).is_ok(),
                files.exists(path).await == Ok(true),
                "{path}"
            );
        }
        assert_eq!(required(files.read("host/etc/passwd", 9).await), "fs:read:/etc/passwd");
        assert_eq!(files.read(&format!("host{}/file", bench.root.display()), 9).await.unwrap().0, b"file");
        for path in ["pipe", &format!("/dev/fd/{fd}"), &format!("/proc/self/fd/{fd}")] {
            assert_eq!(reason(files.read(path, 9).await), "path is in a pseudo file system", "{path}");
            assert_eq!(reason(files.write(path, b"x").await), "path is in a pseudo file system", "{path}");
        }
        assert_eq!(files.exists("none-slash").await, Ok(false));
    }
}

#[tokio::test]
async fn a_descriptor_s_name_is_no_way_around_a_grant() {
    let bench = Bench::new();
    std::fs::write(bench.outside.join("secret"), "s").unwrap();
    let held = std::fs::File::open(bench.outside.join("secret")).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&held);
    let (pipe, _end) = std::io::pipe().unwrap();
    let pipe = std::os::fd::AsRawFd::as_raw_fd(&pipe);
    let options = FsOptions { allow_pseudo_fs: true, ..FsOptions::default() };
    let rules = ["allow fs:*:/proc/**", "allow fs:*:{ws}/**"];
    let files = bench.files_with(&rules, options).await;
    let asks = format!("fs:read:{}", bench.outside.join("secret").display());
    assert_eq!(required(files.read(&format!("/proc/self/fd/{fd}"), 9).await), asks);
    assert_eq!(required(files.read("/proc/self/root/etc/passwd", 9).await), "fs:read:/etc/passwd");
    // A descriptor without a path leads to a text that names nothing.
    assert_eq!(files.read(&format!("/proc/self/fd/{pipe}"), 9).await, Err(FsError::NotFound));
    std::fs::remove_file(bench.outside.join("secret")).unwrap();
    assert!(files.read(&format!("/proc/self/fd/{fd}"), 9).await.is_err());
}

#[tokio::test]
async fn devices_are_no_files() {
    let bench = Bench::new();
    let made = std::process::Command::new("sh")
        .args(["-c", "mknod null c 1 3 && mknod zero c 1 5 && mknod none c 0 0 && mknod block b 251 200 && mknod unused c 250 99"])
        .current_dir(&bench.root)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        skipped("devices_are_no_files", "no device can be made");
        return;
    }
    let opens = std::fs::File::open(bench.root.join("null")).is_ok();
    if !opens {
        skipped("devices_are_no_files", "devices cannot be opened here");
        return;
    }
    for files in bench.both(ALL).await {
        for path in ["null", "zero", "none", "block", "unused"] {
            assert_eq!(files.read(path, 9).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.write(path, b"x").await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.replace(path, b"x", None, false).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.truncate(path, 0).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.set_mode(path, 0o600).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.copy(path, "copy").await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.create_new(path, b"", 0o600).await, Err(FsError::Exists), "{path}");
            assert!(matches!(files.walk_root(path).await, Ok(WalkRoot::Other)), "{path}");
            let root = dir(files.walk_root(".").await.unwrap());
            assert_eq!(root.open_file(OsStr::new(path)).unwrap_err(), FsError::NotRegular, "{path}");
            assert_eq!(root.open_dir(OsStr::new(path)).unwrap_err(), FsError::NotADirectory, "{path}");
        }
        assert!(!bench.root.join("copy").exists());
    }
}

#[tokio::test]
async fn a_file_that_grows_or_shrinks_while_it_is_read() {
    let bench = Bench::new();
    bench.put("a", &"x".repeat(10_000));
    let writer = std::fs::OpenOptions::new().write(true).open(bench.root.join("a")).unwrap();
    for files in bench.both(ALL).await {
        writer.write_all_at(&[b'x'; 10_000], 0).unwrap();
        let file = files.open("a").await.unwrap();
        writer.set_len(3_000_000).unwrap();
        assert_eq!(file.opened().size, 10_000);
        assert_eq!(file.read_to(2_500_000).unwrap().len(), 2_500_001);
        assert_eq!(file.stat().unwrap().size, 3_000_000);
        writer.set_len(5).unwrap();
        assert_eq!(file.read_to(1 << 20).unwrap(), b"xxxxx");
        assert!(file.read_at(6, 10).unwrap().is_empty());
        writer.set_len(0).unwrap();
        assert!(file.read_to(u64::MAX).unwrap().is_empty());
        // Offsets that no file has are an error or the end, never a panic.
        for offset in [u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert!(file.read_at(offset, u64::MAX).map_or(true, |bytes| bytes.is_empty()));
        }
        assert!(files.truncate("a", u64::MAX).await.is_err());
        assert!(file.read_at(0, 0).unwrap().is_empty());
    }
    // Somebody who never stops writing does not keep a bounded read.
    let stop = AtomicBool::new(false);
    let files = bench.files(ALL).await;
    let file = files.open("a").await.unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![b'y'; 1 << 16];
            for n in 0..512 {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                writer.write_all_at(&block, n * (1 << 16)).unwrap();
            }
        });
        for _ in 0..50 {
            assert!(file.read_to(100_000).unwrap().len() <= 100_001);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// The root itself, a directory and a file of a common parent change places with the outside all the time.
#[tokio::test]
async fn nothing_outside_is_touched_while_the_root_is_swapped() {
    let bench = Bench::new();
    let outside = bench.outside.join("outside");
    std::fs::create_dir_all(outside.join("d")).unwrap();
    for name in ["a", "d/a"] {
        std::fs::write(outside.join(name), "outside").unwrap();
        bench.put(name, "inside");
    }
    let before = listing(&outside);
    let [fast, slow] = bench.both(ALL).await;
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (root, outside, stop) = (bench.root.clone(), bench.outside.clone(), stop.clone());
        move || {
            let parked = outside.join("parked");
            let link = outside.join("link");
            while !stop.load(Ordering::Relaxed) {
                // By a link, then by the directory itself.
                symlink(outside.join("outside"), &link).unwrap();
                std::fs::rename(&root, &parked).unwrap();
                std::fs::rename(&link, &root).unwrap();
                std::thread::yield_now();
                std::fs::remove_file(&root).unwrap();
                std::fs::rename(outside.join("outside"), &root).unwrap();
                std::thread::yield_now();
                std::fs::rename(&root, outside.join("outside")).unwrap();
                std::fs::rename(&parked, &root).unwrap();
                std::thread::yield_now();
            }
        }
    });
    let work = async {
        for n in 0..200 {
            let files = if n % 2 == 0 { &fast } else { &slow };
            for path in ["a", "d/a"] {
                if let Ok((bytes, _)) = files.read(path, 99).await {
                    assert!(!bytes.starts_with(b"outside"));
                }
                let _ = files.replace(path, b"inside again", None, true).await;
                let _ = files.write(path, b"inside too").await;
                let _ = files.set_mode(path, 0o640).await;
            }
            let _ = files.make_dirs("d/made").await;
            let _ = files.symlink("a", "d/link").await;
            let _ = files.rename("d/link", "d/moved").await;
            let _ = files.remove("d/moved").await;
            let _ = files.remove_dir_all("d/made").await;
            if let Ok(WalkRoot::Dir(root)) = files.walk_root(".").await
                && let Ok(file) = root.open_file(OsStr::new("a"))
            {
                assert!(!file.read_to(99).is_ok_and(|bytes| bytes.starts_with(b"outside")));
            }
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), work).await;
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    done.unwrap();
    assert_eq!(listing(&outside), before);
}

/// Names, contents and modes below a directory.
fn listing(root: &Path) -> Vec<(String, String, u32)> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let mode = std::os::unix::fs::MetadataExt::mode(&stat);
            if stat.is_dir() {
                todo.push(path);
                found.push((name, String::new(), mode));
            } else {
                found.push((name, std::fs::read_to_string(&path).unwrap(), mode));
            }
        }
    }
    found.sort();
    found
}

const FULL: &str = "table-is-full";

/// That no descriptor is left says nothing of a path, and is not told as if it did.
#[tokio::test]
async fn a_full_table_of_descriptors_is_no_refusal() {
    if !std::env::args().any(|arg| arg == FULL) {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "hostile::a_full_table_of_descriptors_is_no_refusal",
                "--nocapture",
                "--skip",
                FULL,
            ])
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        bench.put("a", "old");
        let file = files.open("a").await.unwrap();
        let root = dir(files.walk_root(".").await.unwrap());
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let low = rustix::process::Rlimit { current: Some(40), ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, low).unwrap();
        let mut held = Vec::new();
        while let Ok(more) = std::fs::File::open(&bench.root) {
            held.push(more);
        }
        let full = |error: FsError| assert!(matches!(error, FsError::Io { errno: 24, .. }), "{error:?}");
        full(file.read_to(9).unwrap_err());
        full(root.entries().unwrap_err());
        full(root.open_file(OsStr::new("a")).unwrap_err());
        full(files.read("a", 9).await.unwrap_err());
        full(files.replace("a", b"new", None, false).await.unwrap_err());
        full(files.make_dirs("d/e").await.unwrap_err());
        full(files.remove_dir_all("a").await.unwrap_err());
        assert!(files.permitted("a"));
        // With few left, whatever is begun is finished or taken back.
        for _ in 0..8 {
            held.pop();
            let _ = files.replace("a", b"new", None, false).await;
            let _ = files.replace("b", b"new", None, false).await;
            let _ = files.symlink("a", "l").await;
            let _ = files.copy("a", "c").await;
        }
        drop(held);
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        assert!(leftovers(&bench.root).is_empty());
        assert_eq!(file.opened().size, 3);
        for name in ["a", "b", "c"] {
            assert_eq!(bench.get(name), "new");
            std::fs::remove_file(bench.root.join(name)).unwrap();
        }
        std::fs::remove_file(bench.root.join("l")).unwrap();
    }
}
