//! Invariant 8 of kernel contract 12: with somebody swapping directories, files and links all the time, an operation
//! touches nothing outside what it was authorised for.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowcell_kernel::fs::reason;
use flowcell_kernel::{Dir, FileSystem, FsError, Kind, PermissionError, WalkRoot};

use rustix::io::Errno;

use crate::support::{ALL, Bench};

/// Rounds of operations; the volume for every change.
const ROUNDS: usize = 150;

/// Swaps `a/d` with a link to the outside, and `a/f` with another, until told to stop.
fn swap(root: &Path, outside: &Path, stop: &AtomicBool) {
    let rename = |from: &str, to: &str| {
        let _ = std::fs::rename(root.join(from), root.join(to));
    };
    let _ = symlink(outside, root.join("a/link"));
    let _ = symlink(outside.join("f"), root.join("a/file-link"));
    while !stop.load(Ordering::Relaxed) {
        rename("a/d", "a/parked");
        rename("a/link", "a/d");
        rename("a/f", "a/f-parked");
        rename("a/file-link", "a/f");
        std::thread::yield_now();
        rename("a/d", "a/link");
        rename("a/parked", "a/d");
        // A replacement may have renamed over the link: it is made again.
        if root.join("a/f").is_symlink() {
            rename("a/f", "a/file-link");
        } else {
            let _ = symlink(outside.join("f"), root.join("a/file-link"));
        }
        rename("a/f-parked", "a/f");
    }
}

/// A write in place that is refused after it cut the file leaves it empty.
fn expect_inside(bytes: &[u8]) {
    assert!(bytes.is_empty() || bytes.starts_with(b"inside"), "{}", String::from_utf8_lossy(bytes));
}

async fn round(files: &FileSystem, n: usize) {
    if let Ok((bytes, _)) = files.read("a/d/f", 100).await {
        expect_inside(&bytes);
    }
    if let Ok((bytes, _)) = files.read("a/f", 100).await {
        expect_inside(&bytes);
    }
    if let Ok(entries) = files.read_dir("a/d").await {
        assert!(entries.iter().all(|entry| entry.name != "outsider"));
    }
    if let Ok(stat) = files.metadata("a/f").await {
        assert_eq!(stat.kind, Kind::File);
    }
    let text = format!("inside {n}");
    let _ = files.replace("a/d/f", text.as_bytes(), None, false).await;
    let _ = files.replace("a/d/new/er", text.as_bytes(), None, true).await;
    let _ = files.write("a/f", text.as_bytes()).await;
    let _ = files.write("a/d/f", text.as_bytes()).await;
    let _ = files.set_mode("a/d/f", 0o600).await;
    let _ = files.make_dirs("a/d/made/here").await;
    let _ = files.copy("a/d/f", "a/d/copy").await;
    let _ = files.rename("a/d/copy", "a/d/renamed").await;
    let _ = files.remove("a/d/renamed").await;
    let _ = files.remove_dir_all("a/d/made").await;
    if let Ok(WalkRoot::Dir(dir)) = files.walk_root("a").await {
        walk(&dir);
    }
}

fn walk(dir: &Dir) {
    for entry in dir.entries().unwrap_or_default() {
        assert_ne!(entry.name, OsStr::new("outsider"));
        if !dir.permitted(&entry.name) {
            continue;
        }
        if let Ok(below) = dir.open_dir(&entry.name) {
            walk(&below);
        } else if let Ok(bytes) = dir.open_file(&entry.name).and_then(|file| file.read_to(100)) {
            expect_inside(&bytes);
        }
    }
}

#[tokio::test]
async fn nothing_outside_is_touched_while_links_are_swapped() {
    let bench = Bench::new();
    let outside = bench.outside.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "outside").unwrap();
    std::fs::write(outside.join("outsider"), "outside").unwrap();
    bench.put("a/d/f", "inside");
    bench.put("a/f", "inside");
    let mode =
        |path: &str| std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(outside.join(path)).unwrap());
    let before = (mode("f"), mode("outsider"));
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (root, outside, stop) = (bench.root.clone(), outside.clone(), stop.clone());
        move || swap(&root, &outside, &stop)
    });
    let work = async {
        for files in bench.both(ALL).await {
            for n in 0..ROUNDS {
                round(&files, n).await;
            }
        }
    };
    let result = tokio::time::timeout(std::time::Duration::from_secs(60), work).await;
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    result.unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["f", "outsider"]);
    for name in ["f", "outsider"] {
        assert_eq!(std::fs::read_to_string(outside.join(name)).unwrap(), "outside");
    }
    assert_eq!((mode("f"), mode("outsider")), before);
}

/// Operations of the same few paths, all at once: each ends, fails for a reason that the others gave it, and leaves
/// nothing of its own behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn operations_at_once_leave_nothing_of_their_own() {
    const PATHS: [&str; 6] = ["a", "d", "d/a", "d/e", "d/e/a", "l"];
    let bench = Bench::new();
    let outside = bench.outside.join("outside");
    std::fs::write(&outside, "outside").unwrap();
    let [fast, slow] = bench.both(ALL).await;
    let tasks: Vec<_> = (0..4_u64)
        .map(|seed| {
            let files = if seed % 2 == 0 { fast.clone() } else { slow.clone() };
            tokio::spawn(async move {
                let entropy = flowcell_kernel::SeededEntropy::new(seed);
                for _ in 0..ROUNDS * 2 {
                    let mut draw = [0u8; 3];
                    flowcell_kernel::Entropy::fill(&entropy, &mut draw);
                    let path = PATHS[usize::from(draw[1]) % PATHS.len()];
                    let other = PATHS[usize::from(draw[2]) % PATHS.len()];
                    let result = match draw[0] % 12 {
                        0 | 1 => files.replace(path, &draw, None, true).await.map(drop),
                        2 => files.write(path, b"written").await.map(drop),
                        3 => files.make_dirs(path).await.map(drop),
                        4 => files.rename(path, other).await,
                        5 => files.remove(path).await,
                        6 => files.remove_dir_all(path).await,
                        7 => files.symlink(other, path).await,
                        8 => files.copy(path, other).await.map(drop),
                        9 => files.create_new(path, b"new", 0o644).await,
                        10 => files.set_mode(path, 0o755).await.map(drop),
                        _ => match files.walk_root(".").await {
                            Ok(WalkRoot::Dir(dir)) => {
                                walk_any(&dir, 8);
                                Ok(())
                            }
                            Ok(_) => Ok(()),
                            Err(error) => Err(error),
                        },
                    };
                    if let Err(error) = result {
                        expect_fair(&error);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside");
    let mut todo = vec![bench.root.clone()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            assert!(!entry.file_name().to_string_lossy().starts_with(".flowcell-"));
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            }
        }
    }
}

fn walk_any(dir: &Dir, depth: usize) {
    for entry in dir.entries().unwrap_or_default() {
        if let (true, Ok(below)) = (depth > 0, dir.open_dir(&entry.name)) {
            walk_any(&below, depth - 1);
        } else {
            let _ = dir.open_file(&entry.name).and_then(|file| file.read_to(100));
        }
    }
}

/// What another operation on the same paths can make one fail with: no refusal of the host's, no root that went.
fn expect_fair(error: &FsError) {
    match error {
        FsError::Permission(PermissionError::Denied(denied)) => assert!(
            [reason::PATH_CHANGED, reason::NO_LONGER_MATCHES].contains(&denied.reason.as_str()),
            "{denied}"
        ),
        FsError::NotFound
        | FsError::NotADirectory
        | FsError::IsADirectory
        | FsError::Exists
        | FsError::NotRegular
        | FsError::TooManyLinks
        | FsError::InvalidPath(_) => {}
        // A tree that was moved while it was removed.
        FsError::Changed(_) => {}
        // A directory with something in it, and one that would be moved into itself.
        FsError::Io { errno, .. }
            if [Errno::NOTEMPTY, Errno::INVAL].map(Errno::raw_os_error).contains(errno) => {}
        other => panic!("{other:?}"),
    }
}
