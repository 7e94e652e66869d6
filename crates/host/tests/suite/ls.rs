//! `ls`: host contract 4.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use flowcell_host::LsHandler;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::ls::{self, Input, Kind, Output};
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{Handler as _, HandlerError};
use serde_json::{Value, json};

use crate::support::{Fixture, code, fifo};

fn names(output: &Output) -> Vec<(&str, Kind)> {
    output.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect()
}

async fn list(fixture: &Fixture) -> Output {
    fixture.ls(json!({"path": "."})).await.unwrap()
}

#[tokio::test]
async fn directories_first_whatever_cannot_be_looked_at_is_a_file() {
    let fixture = Fixture::new();
    fixture.dir("z");
    fixture.put("a", "");
    fixture.link("nowhere", "m");
    let output = list(&fixture).await;
    assert_eq!(names(&output), [("z/", Kind::Directory), ("a", Kind::File), ("m", Kind::File)]);
    assert_eq!((output.total, output.truncated, output.notice.as_deref()), (3, false, None));
    fixture.link("loop", "loop");
    fixture.link("z", "to-z");
    fixture.link("a", "to-a");
    fixture.put(".hidden", "");
    fifo(&fixture.path("pipe"));
    assert_eq!(
        names(&list(&fixture).await),
        [
            ("to-z/", Kind::Directory),
            ("z/", Kind::Directory),
            (".hidden", Kind::File),
            ("a", Kind::File),
            ("loop", Kind::File),
            ("m", Kind::File),
            ("pipe", Kind::File),
            ("to-a", Kind::File),
        ]
    );
}

#[tokio::test]
async fn order_is_of_utf16_units_of_what_is_shown() {
    let fixture = Fixture::new();
    fixture.dir("a-b");
    fixture.dir("a");
    assert_eq!(names(&list(&fixture).await), [("a-b/", Kind::Directory), ("a/", Kind::Directory)]);
    let fixture = Fixture::new();
    fixture.put("\u{ff5e}", "");
    fixture.put("\u{1f600}", "");
    assert_eq!(names(&list(&fixture).await), [("\u{1f600}", Kind::File), ("\u{ff5e}", Kind::File)]);
}

#[tokio::test]
async fn a_name_that_is_not_utf8_is_shown_lossy_and_looked_at_raw() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.root().join(OsStr::from_bytes(b"d\xff"))).unwrap();
    std::fs::write(fixture.root().join(OsStr::from_bytes(b"f\xff")), "").unwrap();
    assert_eq!(names(&list(&fixture).await), [("d\u{fffd}/", Kind::Directory), ("f\u{fffd}", Kind::File)]);
}

#[tokio::test]
async fn an_entry_that_is_refused_is_a_file() {
    let outside = tempfile::tempdir().unwrap();
    let fixture = Fixture::with_rules(&[
        (Effect::Allow, "fs:read:{root}"),
        (Effect::Allow, "fs:read:{root}/**"),
        (Effect::Deny, "fs:read:{root}/secret"),
    ]);
    fixture.dir("secret");
    fixture.dir("open");
    fixture.link(outside.path(), "out");
    let store = fixture.store().await;
    let cx = fixture.context(store.clone(), &ls::decl());
    let input = Input { path: ".".to_owned(), offset: None, limit: None };
    let output = LsHandler.run(&cx, input).await.unwrap();
    assert_eq!(names(&output), [("open/", Kind::Directory), ("out", Kind::File), ("secret", Kind::File)]);
    assert!(store.list().is_empty(), "an entry raises no prompt");
}

#[tokio::test]
async fn pages_have_a_cap_and_a_notice() {
    let fixture = Fixture::new();
    for n in 0..1_002 {
        fixture.put(&format!("d/f{n:04}"), "");
    }
    let page = async |mut input: Value| {
        input["path"] = json!("d");
        fixture.ls(input).await.unwrap()
    };
    for input in [json!({}), json!({"limit": 1_000}), json!({"limit": 5_000})] {
        let output = page(input).await;
        assert_eq!((output.entries.len(), output.total, output.truncated), (1_000, 1_002, true));
        assert_eq!(output.notice.as_deref(), Some("Entries 1-1000 of 1002 shown; continue at offset 1001."));
    }
    let output = page(json!({"offset": 1_001})).await;
    assert_eq!(names(&output), [("f1000", Kind::File), ("f1001", Kind::File)]);
    assert_eq!((output.truncated, output.notice), (false, None));
    let output = page(json!({"offset": 2, "limit": 1})).await;
    assert_eq!(output.notice.as_deref(), Some("Entries 2-2 of 1002 shown; continue at offset 3."));
    assert_eq!(code("d", fixture.ls(json!({"path": "d", "offset": 1_003})).await), Code::OffsetOutOfRange);
}

#[tokio::test]
async fn the_cases_of_a_failure() {
    let fixture = Fixture::new();
    fixture.put("f", "");
    fixture.dir("empty");
    fixture.link("f", "to-f");
    fixture.link("empty", "to-empty");
    fixture.link("loop", "loop");
    for (input, expected) in [
        (json!({"path": "none"}), Code::NotFound),
        (json!({"path": "f/x"}), Code::NotFound),
        (json!({"path": "f"}), Code::NotADirectory),
        (json!({"path": "to-f"}), Code::NotADirectory),
        (json!({"path": "empty", "offset": 2}), Code::OffsetOutOfRange),
        (json!({"path": "loop"}), Code::CommandFailed),
        (json!({"path": ""}), Code::InvalidInput),
        (json!({"path": "a\u{0}"}), Code::InvalidInput),
    ] {
        let path = input["path"].as_str().unwrap().to_owned();
        assert_eq!(code(&path, fixture.ls(input.clone()).await), expected, "{input}");
    }
    for path in ["empty", "empty/", "./empty", "to-empty"] {
        let output = fixture.ls(json!({"path": path})).await.unwrap();
        assert_eq!(
            (output.entries.len(), output.total, output.truncated, output.notice),
            (0, 0, false, None)
        );
    }
    let cx = fixture.context(fixture.store().await, &ls::decl());
    for (offset, limit) in [(Some(0), None), (None, Some(0))] {
        let input = Input { path: ".".to_owned(), offset, limit };
        assert_eq!(code(".", LsHandler.run(&cx, input).await), Code::InvalidInput);
    }
    cx.cancel.cancel();
    let input = Input { path: ".".to_owned(), offset: None, limit: None };
    assert!(matches!(LsHandler.run(&cx, input).await, Err(HandlerError::Cancelled)));
}
