//! `edit`: host contract 3.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use flowcell_host::EditHandler;
use flowcell_host::kernel::flows::edit::{self, Input, Output};
use flowcell_host::kernel::flows::error::{Code, StdError};
use flowcell_host::kernel::flows::read::MAX_READ_FILE_BYTES;
use flowcell_host::kernel::{Handler as _, HandlerError};
use serde_json::{Value, json};

use crate::support::{Fixture, code, failure, fifo};

/// What an edit of a file with these bytes leaves in it.
async fn after(bytes: impl AsRef<[u8]>, mut input: Value) -> (Output, String) {
    let fixture = Fixture::new();
    fixture.put("f", bytes);
    input["path"] = json!("f");
    let output = fixture.edit(input).await.unwrap();
    assert_eq!(output.path, "f");
    (output, fixture.text("f"))
}

/// How an edit of such a file fails; it leaves the file alone.
async fn fails(bytes: impl AsRef<[u8]>, mut input: Value) -> StdError {
    let fixture = Fixture::new();
    fixture.put("f", &bytes);
    let before = fs::metadata(fixture.path("f")).unwrap();
    input["path"] = json!("f");
    let error = failure(fixture.edit(input).await);
    assert_eq!(error.path.as_deref(), Some("f"));
    assert_eq!(fixture.bytes("f"), bytes.as_ref());
    assert_eq!(fs::metadata(fixture.path("f")).unwrap().ino(), before.ino());
    assert_eq!(fixture.names("."), ["f"]);
    error
}

#[tokio::test]
async fn the_cases_of_an_edit_by_text() {
    let (output, text) = after("aaa", json!({"oldString": "aa", "newString": "b"})).await;
    assert_eq!((text.as_str(), output.replacements), ("ba", 1));
    let (_, text) = after("a f() b", json!({"oldString": "f()", "newString": "$& $1 \\0"})).await;
    assert_eq!(text, "a $& $1 \\0 b");
    let (output, text) =
        after("x\ny\nx\n", json!({"oldString": "x", "newString": "z\nz", "replaceAll": true})).await;
    assert_eq!((text.as_str(), output.replacements), ("z\nz\ny\nz\nz\n", 2));
    assert_eq!((output.start_line, output.end_line, output.hunk.as_str()), (1, 4, "z\nz\ny\nz"));
    let (output, text) = after("x", json!({"oldString": "x", "newString": "", "replaceAll": false})).await;
    assert_eq!((text.as_str(), output.start_line, output.end_line, output.hunk.as_str()), ("", 1, 0, ""));
}

#[tokio::test]
async fn a_text_that_occurs_twice_is_refused() {
    for replace_all in [json!(null), json!(false)] {
        let error =
            fails("x\nx\n", json!({"oldString": "x", "newString": "y", "replaceAll": replace_all})).await;
        assert_eq!(error.code, Code::InvalidInput);
        assert!(
            error.message.contains("2 times") && error.message.contains("lines 1, 2."),
            "{}",
            error.message
        );
    }
    let error = fails("x\n".repeat(25), json!({"oldString": "x", "newString": "y"})).await;
    assert!(
        error.message.contains("25 times") && error.message.contains("19, 20 and 5 more."),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn the_cases_of_an_edit_by_lines() {
    let crlf = "a\r\nb\r\nc\r\n";
    let (_, text) = after(crlf, json!({"startLine": 2, "endLine": 2, "newString": "B\r"})).await;
    assert_eq!(text, "a\r\nB\r\nc\r\n");
    let (output, text) = after("a\nb\nc\n", json!({"startLine": 1, "endLine": 2, "newString": ""})).await;
    assert_eq!((text.as_str(), output.replacements), ("\nc\n", 1));
    assert_eq!((output.start_line, output.end_line, output.hunk.as_str()), (1, 2, "\nc"));
    let (_, text) = after("a\nb", json!({"startLine": 2, "endLine": 2, "newString": "x\n"})).await;
    assert_eq!(text, "a\nx\n");
    let expected = json!({"startLine": 1, "endLine": 2, "expect": "a\r\nb\r", "newString": "x\r"});
    assert_eq!(after(crlf, expected).await.1, "x\r\nc\r\n");
    for (first, last) in [(4, 4), (1, 4), (3, 9_007_199_254_740_991_u64)] {
        let error = fails(crlf, json!({"startLine": first, "endLine": last, "newString": ""})).await;
        assert_eq!(error.code, Code::OffsetOutOfRange);
    }
    let error = fails("", json!({"startLine": 1, "endLine": 1, "newString": "x"})).await;
    assert_eq!(error.code, Code::OffsetOutOfRange);
}

#[tokio::test]
async fn a_miss_shows_what_is_there() {
    let error = fails("a\r\nb\r\n", json!({"oldString": "a\nb", "newString": ""})).await;
    assert_eq!(error.code, Code::NoMatch);
    assert!(error.message.contains("CRLF"), "{}", error.message);
    let input = json!({"startLine": 2, "endLine": 2, "expect": "b", "newString": ""});
    let error = fails("a\r\nb\r\nc\r\n", input).await;
    assert_eq!(error.code, Code::NoMatch);
    assert!(error.message.ends_with("Lines 2-2 hold:\nb\r"), "{:?}", error.message);
    assert!(error.message.contains("CRLF"), "{}", error.message);
    let input = json!({"startLine": 1, "endLine": 2, "expect": "a\nb\n", "newString": ""});
    assert_eq!(fails("a\nb\n", input).await.code, Code::NoMatch, "expect has no final LF");

    let text = "1\n2\n3\n4\nif  (x) {\n\tgo();\n}\n8\n9\n10\n11\n";
    let error = fails(text, json!({"oldString": "if (x) {\n  go();\n}\n", "newString": ""})).await;
    assert!(
        error.message.ends_with("Lines 2-10:\n2\n3\n4\nif  (x) {\n\tgo();\n}\n8\n9\n10"),
        "{:?}",
        error.message
    );
    let error = fails(text, json!({"oldString": "stop();", "newString": ""})).await;
    assert!(error.message.contains("No line of oldString occurs"), "{}", error.message);
}

#[tokio::test]
async fn nothing_near_is_ever_written_to() {
    for (text, old) in
        [("a \n", "a\n"), ("a  b", "a b"), ("e\u{301}", "é"), ("a\r\n", "a\n"), ("“x”", "\"x\"")]
    {
        let error = fails(text, json!({"oldString": old, "newString": "z"})).await;
        assert_eq!(error.code, Code::NoMatch, "{text:?} {old:?}");
    }
}

/// Each row of the table of checks, with every later row's fault as well where both can be: the first row names it.
#[tokio::test]
async fn input_is_checked_before_the_file_and_in_order() {
    let fixture = Fixture::with_rules(&[]);
    for (input, word) in [
        (
            json!({"oldString": "", "startLine": 3, "endLine": 1, "expect": "", "replaceAll": true}),
            "goes without",
        ),
        (json!({"oldString": "a", "endLine": 1, "expect": "x"}), "goes without"),
        (json!({"expect": "x", "replaceAll": true}), "needs oldString"),
        (json!({"startLine": 1, "replaceAll": true}), "go together"),
        (json!({"endLine": 1, "expect": "x", "replaceAll": false}), "go together"),
        (json!({"oldString": "", "expect": "x", "replaceAll": true}), "is empty"),
        (json!({"oldString": "a", "expect": "x", "replaceAll": true}), "expect goes with"),
        (json!({"startLine": 2, "endLine": 1, "replaceAll": true}), "replaceAll goes with"),
        (json!({"startLine": 1, "endLine": 2, "replaceAll": false}), "replaceAll goes with"),
        (json!({"startLine": 2, "endLine": 1, "expect": "x"}), "before startLine"),
    ] {
        let mut call = input.clone();
        call["path"] = json!("missing");
        call["newString"] = json!("n");
        // With no rule at all, a touch of the file system would be a permission request.
        let error = failure(fixture.edit(call).await);
        assert_eq!((error.code, error.path.as_deref()), (Code::InvalidInput, Some("missing")), "{input}");
        assert!(error.message.contains(word), "{input}: {}", error.message);
    }
    let cx = fixture.context(fixture.store().await, &edit::decl());
    let zero = Input {
        path: "missing".to_owned(),
        old_string: None,
        start_line: Some(0),
        end_line: Some(0),
        expect: None,
        new_string: String::new(),
        replace_all: None,
    };
    assert_eq!(code("missing", EditHandler.run(&cx, zero).await), Code::InvalidInput);
}

#[tokio::test]
async fn the_cases_of_a_failure() {
    let fixture = Fixture::new();
    fixture.put("near", "x");
    fixture.put("bin", b"x\xff");
    fixture.put("nul", b"x\0");
    fixture.dir("dir");
    fifo(&fixture.path("fifo"));
    fixture.link("loop", "loop");
    fs::File::create(fixture.path("big")).unwrap().set_len(MAX_READ_FILE_BYTES + 1).unwrap();
    for (path, expected) in [
        ("naer", Code::NotFound),
        ("near/x", Code::NotFound),
        ("dir", Code::CommandFailed),
        ("fifo", Code::CommandFailed),
        ("loop", Code::CommandFailed),
        ("bin", Code::BinaryFile),
        ("nul", Code::BinaryFile),
        ("big", Code::ResponseTooLarge),
        ("", Code::InvalidInput),
        ("a\u{0}b", Code::InvalidInput),
        ("/proc/self/comm", Code::PermissionDenied),
    ] {
        let input = json!({"path": path, "oldString": "x", "newString": "y"});
        let error = failure(fixture.edit(input).await);
        assert_eq!((error.code, error.path.as_deref()), (expected, Some(path)), "{}", error.message);
        assert!(!error.message.contains("holds:"), "no listing: {}", error.message);
    }
}

#[tokio::test]
async fn mark_mode_and_links_stay() {
    let fixture = Fixture::new();
    fixture.put("f", b"\xef\xbb\xbfx\r\n");
    fixture.chmod("f", 0o751);
    fixture.link("f", "l");
    let input = json!({"path": "l", "startLine": 1, "endLine": 1, "expect": "x\r", "newString": "y\r"});
    assert_eq!(fixture.edit(input).await.unwrap().hunk, "y\r");
    assert_eq!((fixture.bytes("f").as_slice(), fixture.mode("f")), (b"\xef\xbb\xbfy\r\n".as_slice(), 0o751));
    assert!(fixture.path("l").is_symlink());
    let gone = json!({"path": "f", "oldString": "y\r\n", "newString": ""});
    let output = fixture.edit(gone).await.unwrap();
    assert_eq!((output.start_line, output.end_line), (1, 0));
    assert_eq!(fixture.bytes("f"), b"\xef\xbb\xbf");
}

#[tokio::test]
async fn an_edit_without_effect_succeeds_and_writes_nothing() {
    let fixture = Fixture::new();
    fixture.put("f", "a\nb\n");
    let before = fs::metadata(fixture.path("f")).unwrap();
    let output = fixture.edit(json!({"path": "f", "oldString": "b", "newString": "b"})).await.unwrap();
    assert_eq!((output.replacements, output.hunk.as_str()), (1, "a\nb"));
    let after = fs::metadata(fixture.path("f")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
}

#[tokio::test]
async fn a_file_that_changes_during_the_call_is_left_alone() {
    let fixture = Fixture::new();
    fixture.put("f", "mine\n");
    let path = fixture.path("f");
    fixture.during_replace(move || fs::write(path, "theirs, and longer\n").unwrap());
    let error = failure(fixture.edit(json!({"path": "f", "oldString": "mine", "newString": "ours"})).await);
    assert_eq!((error.code, error.path.as_deref()), (Code::CommandFailed, Some("f")));
    assert!(error.message.contains("changed during the call"), "{}", error.message);
    assert_eq!(
        (fixture.text("f").as_str(), fixture.names(".")),
        ("theirs, and longer\n", vec!["f".to_owned()])
    );

    let path = fixture.path("f");
    fixture.during_replace(move || fs::remove_file(path).unwrap());
    let error = failure(fixture.edit(json!({"path": "f", "oldString": "theirs", "newString": "ours"})).await);
    assert_eq!(error.code, Code::CommandFailed);
    assert_eq!(fixture.names("."), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_stays_within_what_can_be_edited_again() {
    let fixture = Fixture::new();
    fixture.put("f", "a".repeat(10_000));
    let input = json!({"path": "f", "oldString": "a", "newString": "b".repeat(10_000), "replaceAll": true});
    assert_eq!(code("f", fixture.edit(input).await), Code::ResponseTooLarge);
    assert_eq!(fixture.bytes("f").len(), 10_000);
}

#[tokio::test]
async fn a_cancelled_call_writes_nothing() {
    let fixture = Fixture::new();
    fixture.put("f", "a");
    let cx = fixture.context(fixture.store().await, &edit::decl());
    cx.cancel.cancel();
    let input = Input {
        path: "f".to_owned(),
        old_string: Some("a".to_owned()),
        start_line: None,
        end_line: None,
        expect: None,
        new_string: "b".to_owned(),
        replace_all: None,
    };
    assert!(matches!(EditHandler.run(&cx, input).await, Err(HandlerError::Cancelled)));
    assert_eq!(fixture.text("f"), "a");
}
