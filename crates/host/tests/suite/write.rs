//! `write`: host contract 2.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use flowcell_host::WriteHandler;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::write::{self, Input};
use flowcell_host::kernel::{Handler as _, HandlerError};

use crate::support::{Fixture, code, failure, fifo};

#[tokio::test]
async fn a_file_is_made_and_then_replaced() {
    let fixture = Fixture::new();
    let output = fixture.write("f", "é\n").await.unwrap();
    assert_eq!((output.path.as_str(), output.bytes_written, output.created), ("f", 3, true));
    assert_eq!(fixture.text("f"), "é\n");
    let output = fixture.write("./f", "").await.unwrap();
    assert_eq!((output.path.as_str(), output.bytes_written, output.created), ("./f", 0, false));
    assert_eq!(fixture.text("f"), "");
    let absolute = fixture.path("g").to_str().unwrap().to_owned();
    assert!(fixture.write(&absolute, "x").await.unwrap().created);
    assert_eq!(fixture.names("."), ["f", "g"], "no temporary file is left");
}

#[tokio::test]
async fn parents_are_made() {
    let fixture = Fixture::new();
    assert!(fixture.write("a/b/c/f", "x").await.unwrap().created);
    assert_eq!(fixture.text("a/b/c/f"), "x");
    fixture.put("file", "");
    assert_eq!(code("file/x", fixture.write("file/x", "").await), Code::CommandFailed);
    assert_eq!(code("file/x/y", fixture.write("file/x/y", "").await), Code::CommandFailed);
    assert_eq!(fixture.text("file"), "");
}

#[tokio::test]
async fn new_files_and_parents_get_the_usual_mode() {
    let fixture = Fixture::new();
    fixture.put("usual/f", "");
    fixture.write("new/f", "x").await.unwrap();
    assert_eq!(fixture.mode("new/f"), fixture.mode("usual/f"));
    assert_eq!(fixture.mode("new"), fixture.mode("usual"));
}

#[tokio::test]
async fn the_mode_stays() {
    let fixture = Fixture::new();
    fixture.put("run", "old");
    for mode in [0o755, 0o600, 0o4711] {
        fixture.chmod("run", mode);
        let output = fixture.write("run", &format!("{mode:o}")).await.unwrap();
        assert!(!output.created);
        assert_eq!((fixture.mode("run"), fixture.text("run")), (mode, format!("{mode:o}")));
    }
}

#[tokio::test]
async fn links_stay_links() {
    let fixture = Fixture::new();
    fixture.put("real", "old");
    fixture.link("real", "l");
    assert!(!fixture.write("l", "new").await.unwrap().created);
    assert_eq!((fixture.text("real").as_str(), fixture.path("l").is_symlink()), ("new", true));

    fixture.dir("d");
    fixture.link("d/made", "dangling");
    assert!(fixture.write("dangling", "x").await.unwrap().created);
    assert_eq!((fixture.text("d/made").as_str(), fixture.path("dangling").is_symlink()), ("x", true));

    fixture.link("none/made", "lost");
    assert_eq!(code("lost", fixture.write("lost", "x").await), Code::CommandFailed);
    assert!(!fixture.path("none").exists(), "the parent of a dangling link's target has to be there");

    fixture.link("loop", "loop");
    assert_eq!(code("loop", fixture.write("loop", "x").await), Code::CommandFailed);
}

#[tokio::test]
async fn a_hard_link_is_split() {
    let fixture = Fixture::new();
    fixture.put("a", "old");
    fs::hard_link(fixture.path("a"), fixture.path("b")).unwrap();
    fixture.write("a", "new").await.unwrap();
    assert_eq!((fixture.text("a").as_str(), fixture.text("b").as_str()), ("new", "old"));
}

#[tokio::test]
async fn the_same_bytes_are_not_written_again() {
    let fixture = Fixture::new();
    fixture.put("f", "same");
    let before = fs::metadata(fixture.path("f")).unwrap();
    assert_eq!(fixture.write("f", "same").await.unwrap().bytes_written, 4);
    let after = fs::metadata(fixture.path("f")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
}

#[tokio::test]
async fn content_is_put_as_it_is() {
    let fixture = Fixture::new();
    fixture.put("f", b"\xef\xbb\xbfold\r\n");
    fixture.write("f", "new\n").await.unwrap();
    assert_eq!(fixture.bytes("f"), b"new\n", "no mark is kept");
    fixture.write("f", "\u{feff}a\0\r\n").await.unwrap();
    assert_eq!(fixture.bytes("f"), b"\xef\xbb\xbfa\0\r\n");
    fixture.put("bin", b"\xff\0");
    assert!(!fixture.write("bin", "text").await.unwrap().created);
}

#[tokio::test]
async fn the_cases_of_a_failure() {
    let fixture = Fixture::new();
    fixture.put("dir/f", "");
    fifo(&fixture.path("fifo"));
    let name = "n".repeat(300);
    for (path, expected) in [
        ("dir", Code::CommandFailed),
        ("dir/", Code::CommandFailed),
        ("new/", Code::CommandFailed),
        (".", Code::CommandFailed),
        ("fifo", Code::CommandFailed),
        (name.as_str(), Code::CommandFailed),
        ("", Code::InvalidInput),
        ("a\0b", Code::InvalidInput),
        ("/proc/sys/kernel/hostname", Code::PermissionDenied),
    ] {
        assert_eq!(code(path, fixture.write(path, "x").await), expected, "{path:?}");
    }
    assert!(!fixture.path("new").exists());
    let error = failure(fixture.write(&name, "x").await);
    assert!(error.message.contains("os error 36"), "the host's reason: {}", error.message);
}

#[tokio::test]
async fn a_cancelled_call_writes_nothing() {
    let fixture = Fixture::new();
    let cx = fixture.context(fixture.store().await, &write::decl());
    cx.cancel.cancel();
    let input = Input { path: "f".to_owned(), content: "x".to_owned() };
    assert!(matches!(WriteHandler.run(&cx, input).await, Err(HandlerError::Cancelled)));
    assert!(!fixture.path("f").exists());
}
