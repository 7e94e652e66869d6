//! `read`: host contract 1.

use std::fs::File;

use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::read::{self, Input, MAX_READ_FILE_BYTES, Output};
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::{Handler as _, HandlerError};
use flowcell_host::{ReadHandler, kernel};
use serde_json::{Value, json};

use crate::support::{Fixture, code, failure, fifo};

async fn page_of(bytes: &[u8], mut more: Value) -> Output {
    let fixture = Fixture::new();
    fixture.put("f", bytes);
    more["path"] = json!("f");
    fixture.read(more).await.unwrap()
}

fn shape(page: &Output) -> (&str, u64, u64, u64, bool, Option<&str>) {
    let Output { content, start_line, end_line, total_lines, truncated, notice } = page;
    (content, *start_line, *end_line, *total_lines, *truncated, notice.as_deref())
}

#[tokio::test]
async fn the_cases_of_a_page() {
    assert_eq!(shape(&page_of(b"", json!({})).await), ("", 1, 0, 0, false, None));
    assert_eq!(
        shape(&page_of(b"a\nb\n", json!({"limit": 1})).await),
        ("a", 1, 1, 2, true, Some("Lines 1-1 of 2 shown; continue at offset 2."))
    );
    assert_eq!(shape(&page_of(b"a\nb\n", json!({"offset": 2})).await), ("b", 2, 2, 2, false, None));
    assert_eq!(shape(&page_of(b"a\r\nb\r\n", json!({})).await), ("a\r\nb\r", 1, 2, 2, false, None));
    assert_eq!(shape(&page_of(b"a\rb", json!({})).await), ("a\rb", 1, 1, 1, false, None));
    assert_eq!(shape(&page_of(b"\xef\xbb\xbfx\n", json!({})).await), ("x", 1, 1, 1, false, None));
    assert_eq!(shape(&page_of(b"\n", json!({})).await), ("", 1, 1, 1, false, None));
    assert_eq!(shape(&page_of(b"\xef\xbb\xbf", json!({})).await), ("", 1, 0, 0, false, None));
    let long = "é".repeat(2_001);
    assert_eq!(
        shape(&page_of(long.as_bytes(), json!({})).await),
        (
            "é".repeat(2_000).as_str(),
            1,
            1,
            1,
            true,
            Some("Lines 1-1 of 1 shown. Lines over 2000 characters are cut and cannot anchor an edit.")
        )
    );
}

#[tokio::test]
async fn the_default_limit_is_two_thousand_lines() {
    let text = "x\n".repeat(2_001);
    let page = page_of(text.as_bytes(), json!({})).await;
    assert_eq!((page.end_line, page.truncated), (2_000, true));
    let page = page_of(text.as_bytes(), json!({"limit": 9_007_199_254_740_991_u64})).await;
    assert_eq!((page.end_line, page.truncated), (2_001, false));
}

#[tokio::test]
async fn the_cases_of_a_failure() {
    let fixture = Fixture::new();
    fixture.put("empty", "");
    fixture.put("latin", b"caf\xe9");
    fixture.put("nul", b"a\0b");
    fixture.put("utf16", b"\xff\xfea\0");
    fixture.dir("dir");
    fifo(&fixture.path("fifo"));
    fixture.link("loop", "loop");
    fixture.link("dir", "to-dir");
    fixture.link("nowhere", "dangling");
    for (input, expected) in [
        (json!({"path": "empty", "offset": 2}), Code::OffsetOutOfRange),
        (json!({"path": "latin"}), Code::BinaryFile),
        (json!({"path": "nul"}), Code::BinaryFile),
        (json!({"path": "utf16"}), Code::BinaryFile),
        (json!({"path": "fifo"}), Code::NotFound),
        (json!({"path": "dir"}), Code::IsDirectory),
        (json!({"path": "to-dir"}), Code::IsDirectory),
        (json!({"path": "."}), Code::IsDirectory),
        (json!({"path": "nul/x"}), Code::NotFound),
        (json!({"path": "dangling"}), Code::NotFound),
        (json!({"path": "loop"}), Code::CommandFailed),
        (json!({"path": ""}), Code::InvalidInput),
        (json!({"path": "a\u{0}b"}), Code::InvalidInput),
    ] {
        let path = input["path"].as_str().unwrap().to_owned();
        assert_eq!(code(&path, fixture.read(input.clone()).await), expected, "{input}");
    }
    let name = "n".repeat(300);
    let error = failure(fixture.read(json!({"path": name})).await);
    assert_eq!(error.code, Code::CommandFailed);
    assert!(error.message.contains("os error 36"), "the host's reason: {}", error.message);
}

#[tokio::test]
async fn input_that_was_never_decoded_is_checked() {
    let fixture = Fixture::new();
    fixture.put("f", "a\n");
    let cx = fixture.context(fixture.store().await, &read::decl());
    for (offset, limit) in [(Some(0), None), (None, Some(0))] {
        let input = Input { path: "f".to_owned(), offset, limit };
        assert_eq!(code("f", ReadHandler.run(&cx, input).await), Code::InvalidInput);
    }
    cx.cancel.cancel();
    let input = Input { path: "f".to_owned(), offset: None, limit: None };
    assert!(matches!(ReadHandler.run(&cx, input).await, Err(HandlerError::Cancelled)));
}

#[test]
fn a_lone_surrogate_is_refused_at_decode() {
    let error = serde_json::from_str::<Input>(r#"{"path": "a\ud800"}"#);
    assert!(error.is_err());
}

#[tokio::test]
async fn sixty_four_mebibytes_are_the_limit() {
    let fixture = Fixture::new();
    let file = File::create(fixture.path("big")).unwrap();
    file.set_len(MAX_READ_FILE_BYTES + 1).unwrap();
    assert_eq!(code("big", fixture.read(json!({"path": "big"})).await), Code::ResponseTooLarge);
    // The size comes before the content, and before the page.
    let input = json!({"path": "big", "offset": 5});
    assert_eq!(code("big", fixture.read(input).await), Code::ResponseTooLarge);
    file.set_len(MAX_READ_FILE_BYTES).unwrap();
    assert_eq!(code("big", fixture.read(json!({"path": "big"})).await), Code::BinaryFile);
}

#[tokio::test]
async fn a_missing_file_lists_its_directory() {
    let fixture = Fixture::new();
    for name in ["src/lib.rs", "src/main.rs", "src/mod.rs", "src/.hidden", "only/.git", "a.txt"] {
        fixture.put(name, "");
    }
    fixture.dir("sub");
    fixture.link("src", "link");
    for (path, message) in [
        ("src/mian.rs", "File not found: src/mian.rs. src holds: main.rs, mod.rs, lib.rs."),
        ("./src//mian.rs", "File not found: ./src//mian.rs. src holds: main.rs, mod.rs, lib.rs."),
        ("src/x/y/z", "File not found: src/x/y/z. src holds: lib.rs, mod.rs, main.rs."),
        ("link/mian.rs", "File not found: link/mian.rs. link holds: main.rs, mod.rs, lib.rs."),
        ("su", "File not found: su. The workspace root holds: sub, src, link, only, a.txt."),
        ("a.txt/b", "File not found: a.txt/b. The workspace root holds: a.txt, link, only, src, sub."),
        ("only/x", "File not found: only/x."),
        ("/no/such", "File not found: /no/such."),
        ("../x", "File not found: ../x."),
        ("src/../x", "File not found: src/../x."),
    ] {
        let error = failure(fixture.read(json!({"path": path})).await);
        assert_eq!(
            (error.code, error.message.as_str(), error.path.as_deref()),
            (Code::NotFound, message, Some(path))
        );
    }
    for n in 0..12 {
        fixture.put(&format!("many/f{n:02}"), "");
    }
    let all = "f00, f01, f02, f03, f04, f05, f06, f07, f08, f09, f10, f11";
    let error = failure(fixture.read(json!({"path": "many/g"})).await);
    assert_eq!(error.message, format!("File not found: many/g. many holds: {all}."));
    fixture.put("many/f12", "");
    fixture.dir("many/f13");
    let error = failure(fixture.read(json!({"path": "many/g"})).await);
    assert_eq!(error.message, format!("File not found: many/g. many holds: {all} and 2 more."));
}

#[tokio::test]
async fn a_listing_is_authorised_without_a_prompt() {
    let files = ["src/lib.rs", "src/deep/a.rs", "b.rs"];
    let fixture = |rules: &[(Effect, &str)]| {
        let fixture = Fixture::with_rules(rules);
        files.iter().for_each(|file| fixture.put(file, ""));
        fixture
    };
    let allow = |pattern| (Effect::Allow, pattern);
    let below = fixture(&[allow("fs:read:{root}/**")]);
    let deep =
        fixture(&[allow("fs:read:{root}/src"), allow("fs:read:{root}/**/x"), allow("fs:read:{root}/x")]);
    let denied =
        fixture(&[allow("fs:read:{root}"), allow("fs:read:{root}/**"), (Effect::Deny, "fs:read:{root}/src")]);
    let hidden =
        fixture(&[allow("fs:read:{root}"), allow("fs:read:{root}/**/x"), allow("fs:read:{root}/none/**")]);
    for (fixture, path, listing) in [
        // `/ws/**` does not name `/ws`.
        (&below, "x", ""),
        (&below, "src/x", " src holds: deep, lib.rs."),
        (&deep, "src/x", " src holds: deep, lib.rs."),
        // `src/deep` is there and may not be read; `src` may, and is not the nearest.
        (&deep, "src/deep/x", ""),
        // `src/none` is not there, which the listing of `src` shows.
        (&deep, "src/none/x", " src holds: deep, lib.rs."),
        (&deep, "src/none/none/x", " src holds: deep, lib.rs."),
        (&deep, "x", ""),
        (&denied, "src/x", ""),
        (&denied, "x", " The workspace root holds: src, b.rs."),
        (&hidden, "src/x", ""),
        (&hidden, "src/deep/x", ""),
        (&hidden, "none/x", " The workspace root holds: b.rs, src."),
    ] {
        let store = fixture.store().await;
        let cx = fixture.context(store.clone(), &read::decl());
        let input = Input { path: path.to_owned(), offset: None, limit: None };
        let error = failure(ReadHandler.run(&cx, input).await);
        assert_eq!(error.code, Code::NotFound, "{path}");
        assert_eq!(error.message, format!("File not found: {path}.{listing}"));
        assert!(store.list().is_empty(), "a prompt was raised for {path}");
    }
}

#[tokio::test]
async fn pseudo_file_systems_are_the_hosts_choice() {
    let mut fixture = Fixture::new();
    let input = json!({"path": "/proc/self/status"});
    assert_eq!(code("/proc/self/status", fixture.read(input.clone()).await), Code::PermissionDenied);
    fixture.options.allow_pseudo_fs = true;
    // The file claims a size of 0.
    let page = fixture.read(input).await.unwrap();
    assert!(page.content.starts_with("Name:"), "{page:?}");
    assert!(page.total_lines > 10);
}

#[tokio::test]
async fn links_are_followed_where_their_target_is_granted() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s\n").unwrap();
    let inside = [(Effect::Allow, "fs:read:{root}/**")];
    let fixture = Fixture::with_rules(&inside);
    fixture.put("real", "r\n");
    fixture.link("real", "l");
    fixture.link(outside.path().join("secret"), "out");
    assert_eq!(fixture.read(json!({"path": "l"})).await.unwrap().content, "r");
    let error = fixture.read(json!({"path": "out"})).await.unwrap_err();
    assert!(matches!(error, HandlerError::Permission(kernel::PermissionError::Required(_))), "{error:?}");
}
