//! What files may be and what may happen to them, for `read`, `write`, `edit` and `ls` alike: owners, FIFOs, files that claim
//! no size, the largest text, interruption. What `apply_patch` makes of the same is beside its own cases.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::read::MAX_READ_FILE_BYTES;
use serde_json::json;

use crate::support::{Fixture, code, fifo, full_volume, skip};

/// The outcome of a call that may wait for nothing.
#[track_caller]
fn at_once<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the call waits"),
    }
}

#[tokio::test]
async fn owners_stay() {
    const NAME: &str = "owners_stay";
    if !rustix::process::geteuid().is_root() {
        return skip(NAME, "only root makes files of other owners");
    }
    let fixture = Fixture::new();
    for (path, call) in [("w", false), ("e", true)] {
        fixture.put(path, "old\n");
        std::os::unix::fs::chown(fixture.path(path), Some(1234), Some(4321)).unwrap();
        fixture.chmod(path, 0o6751);
        if call {
            let input = json!({"path": path, "oldString": "old", "newString": "new"});
            fixture.edit(input).await.unwrap();
        } else {
            fixture.write(path, "new\n").await.unwrap();
        }
        let meta = fs::metadata(fixture.path(path)).unwrap();
        assert_eq!((meta.uid(), meta.gid(), fixture.mode(path)), (1234, 4321, 0o6751), "{path}");
        assert_eq!(fixture.text(path), "new\n");
    }
}

#[tokio::test]
async fn nobody_waits_for_a_fifo() {
    let fixture = Fixture::new();
    fifo(&fixture.path("pipe"));
    fixture.link("pipe", "l");
    for path in ["pipe", "l"] {
        assert_eq!(code(path, at_once(fixture.read(json!({"path": path})))), Code::NotFound);
        assert_eq!(code(path, at_once(fixture.ls(json!({"path": path})))), Code::NotADirectory);
        assert_eq!(code(path, at_once(fixture.write(path, "x"))), Code::CommandFailed);
        let input = json!({"path": path, "oldString": "x", "newString": "y"});
        assert_eq!(code(path, at_once(fixture.edit(input))), Code::CommandFailed);
    }
    assert_eq!(fixture.names("."), ["l", "pipe"]);
}

/// Files under `/proc` claim to be empty.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_claims_no_size() {
    let mut fixture = Fixture::new();
    fixture.options.allow_pseudo_fs = true;
    let page = fixture.read(json!({"path": "/proc/self/status"})).await.unwrap();
    assert!(page.content.starts_with("Name:") && page.total_lines > 10, "{page:?}");
    assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0);
    let listed = fixture.ls(json!({"path": "/proc/self/task"})).await.unwrap();
    assert!(listed.total >= 1, "{listed:?}");
}

#[tokio::test]
async fn the_largest_text() {
    let fixture = Fixture::new();
    let size = usize::try_from(MAX_READ_FILE_BYTES).unwrap();
    let line = "0123456789abcde\n";
    let mut text = line.repeat(size / line.len());
    text.replace_range(size - 16.., "the very last..\n");
    fixture.put("most", &text);
    let begun = Instant::now();
    let lines = MAX_READ_FILE_BYTES / 16;
    let page = fixture.read(json!({"path": "most", "offset": lines})).await.unwrap();
    assert_eq!((page.content.as_str(), page.total_lines, page.truncated), ("the very last..", lines, false));
    let read = begun.elapsed();
    let begun = Instant::now();
    let input = json!({"path": "most", "oldString": "the very last..", "newString": "the new last .."});
    let output = fixture.edit(input).await.unwrap();
    assert_eq!((output.start_line, output.end_line), (lines - 2, lines));
    let edited = begun.elapsed();
    let begun = Instant::now();
    let patch = "*** Begin Patch\n*** Update File: most\n@@\n-the new last ..\n+the very last..\n*** End of File\n*** End Patch";
    fixture.patch(patch).await.unwrap();
    assert!(fixture.text("most") == text);
    println!("measured: the_largest_text: read {read:?}, edit {edited:?}, apply_patch {:?}", begun.elapsed());
}

/// A replacement has no point at which it can be left: one poll does it all, and a cancellation in the middle of it comes too
/// late.
#[tokio::test]
async fn a_replacement_is_not_left_half_way() {
    let fixture = Fixture::new();
    fixture.put("f", "old\n");
    let dir = fixture.root();
    fixture.during_replace(move || assert_eq!(fs::read_dir(dir).unwrap().count(), 1));
    assert!(!at_once(fixture.write("f", "new\n")).unwrap().created);
    let input = json!({"path": "f", "oldString": "new", "newString": "newer"});
    assert_eq!(at_once(fixture.edit(input)).unwrap().replacements, 1);
    assert_eq!((fixture.text("f").as_str(), fixture.names(".")), ("newer\n", vec!["f".to_owned()]));
}

/// Kills of a process that rewrites a file without end, in CI and at full volume.
const KILLS: u64 = 12;
const FULL_KILLS: u64 = 400;
const CHILD: &str = "files::writes_until_it_is_killed";
const VERSION_BYTES: usize = 200_000;

#[test]
fn a_killed_process_leaves_a_whole_file() {
    let kills = if full_volume() { FULL_KILLS } else { KILLS };
    let mut seen = [0u64; 2];
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "a".repeat(VERSION_BYTES)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--ignored", "--nocapture"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It has begun when the file is another one.
        let begun = Instant::now();
        let ino = fs::metadata(&file).unwrap().ino();
        while fs::metadata(&file).unwrap().ino() == ino && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(kill * 977 % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let first = text.chars().next().unwrap();
        assert!(text.len() == VERSION_BYTES && text.chars().all(|c| c == first), "kill {kill}: torn");
        seen[usize::from(first == 'b')] += 1;
        for entry in fs::read_dir(folder.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name == "f" || (name.starts_with(".flowcell-") && name.ends_with(".tmp")), "{name}");
        }
    }
    println!("measured: a_killed_process_leaves_a_whole_file: {kills} kills, versions {seen:?}");
}

#[tokio::test]
#[ignore = "run by a_killed_process_leaves_a_whole_file"]
async fn writes_until_it_is_killed() {
    let path = std::env::current_dir().unwrap().join("f");
    let path = path.to_str().unwrap();
    let fixture = Fixture::new();
    loop {
        for letter in ["b", "a"] {
            fixture.write(path, &letter.repeat(VERSION_BYTES)).await.unwrap();
        }
    }
}
