//! Harness contract 1, cases 1 to 3, P1.

use flowcell_harness::extract::{ExtractOptions, StopReason, extract, extract_with};
use flowcell_harness::program::RejectionCode;
use proptest::prelude::*;

fn found(reply: &str) -> (String, usize) {
    let found = extract(reply, StopReason::End).unwrap();
    (found.program, found.blocks)
}

fn refused(reply: &str) -> RejectionCode {
    extract(reply, StopReason::End).unwrap_err().code
}

#[test]
fn case_1_only_cell_blocks_run() {
    let reply = "I will look.\n```js\nalert(1)\n```\nNow:\n```cell\nctx.done(1)\n```\nDone.";
    assert_eq!(found(reply), ("ctx.done(1)".into(), 1));
}

#[test]
fn case_2_distinct_blocks_join_and_repeats_count() {
    let reply = "```cell\na()\n```\n```cell\nb()\n```\n```cell\na()\n```\n";
    assert_eq!(found(reply), ("a()\nb()".into(), 3));
}

#[test]
fn case_3_longer_fences_hold_shorter_ones() {
    assert_eq!(found("````cell\nlet s = `\n```\n`\n````"), ("let s = `\n```\n`".into(), 1));
}

#[test]
fn fences_follow_commonmark() {
    assert_eq!(found("   ~~~ CELL js\n   x\n     y\n z\n  ~~~~  \t\n"), ("x\n  y\nz".into(), 1));
    // Four spaces open nothing, and close nothing.
    assert_eq!(refused("    ```cell\n    x\n    ```"), RejectionCode::NoCell);
    assert_eq!(found("```cell\nx\n    ```\n```"), ("x\n    ```".into(), 1));
    // A backtick fence's info holds no backtick; a tilde fence's may.
    assert_eq!(refused("``` cell `x`\ny\n"), RejectionCode::NoCell);
    assert_eq!(found("~~~cell `x`\ny\n~~~"), ("y".into(), 1));
    // A closing fence has nothing after it, and is of the same character.
    assert_eq!(found("```cell\nx\n``` js\n~~~\n```"), ("x\n``` js\n~~~".into(), 1));
    // Inside another block nothing opens.
    assert_eq!(refused("~~~md\n```cell\nx\n```\n~~~"), RejectionCode::NoCell);
    // Carriage returns belong to the line's end.
    assert_eq!(found("```cell\r\nx\r\ny\r\n```\r\n"), ("x\ny".into(), 1));
    // `cell` is a token of the info string, in any case.
    assert_eq!(refused("```cells\nx\n```"), RejectionCode::NoCell);
    assert_eq!(found("```js Cell\nx\n```"), ("x".into(), 1));
    assert_eq!(found("```cell\n```"), (String::new(), 1));
}

#[test]
fn what_is_cut_off_does_not_run() {
    let cut = extract("```cell\nx\n```", StopReason::Length).unwrap_err();
    assert_eq!(cut.code, RejectionCode::OutputTruncated);
    assert_eq!(refused("```cell\nx\n```\n```cell\ny"), RejectionCode::OutputTruncated);
    // Another block that does not end swallows the rest and is no error.
    assert_eq!(found("```cell\nx\n```\n```js\n```cell"), ("x".into(), 1));
    assert_eq!(refused("```js\n```cell\nx\n"), RejectionCode::NoCell);
    assert_eq!(refused(""), RejectionCode::NoCell);
}

#[test]
fn typescript_cells_and_js_blocks() {
    assert_eq!(refused("```cell ts\nx\n```"), RejectionCode::UnsupportedLanguage);
    assert_eq!(refused("```TypeScript cell\nx\n```"), RejectionCode::UnsupportedLanguage);
    assert_eq!(refused("```ts\nx\n```"), RejectionCode::NoCell);
    let options = ExtractOptions { accept_js: true };
    for info in ["js", "javascript", "JS", "cell"] {
        let reply = format!("```{info}\nx\n```\n```bash\ny\n```");
        assert_eq!(extract_with(&reply, StopReason::End, options).unwrap().program, "x");
    }
}

#[test]
fn the_digest_is_of_the_canonical_source() {
    let source = extract("```cell\nctx.done(\"é\")\n```", StopReason::End).unwrap().source();
    let text = r#"{"kind":"flowcell/cell-source","language":"javascript","text":"ctx.done(\"é\")"}"#;
    assert_eq!(source.digest, flowcell_harness::flows::canonical::sha256_hex(text.as_bytes()));
    assert_eq!(source.language, "javascript");
}

/// A block with a fence that its body cannot close.
fn render(body: &str) -> String {
    let longest = body.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}cell\n{body}\n{fence}\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn p1_what_is_rendered_is_extracted(bodies in prop::collection::vec("[ -~`~\n\u{e9}\u{1F600}\u{2028}\t]{0,80}", 1..5)) {
        let reply: String = bodies.iter().map(|body| render(body)).collect::<Vec<_>>().join("prose `x`\n");
        let mut distinct: Vec<&String> = Vec::new();
        for body in &bodies {
            if !distinct.contains(&body) {
                distinct.push(body);
            }
        }
        let expected = distinct.iter().map(|body| body.as_str()).collect::<Vec<_>>().join("\n");
        let found = extract(&reply, StopReason::End).unwrap();
        prop_assert_eq!(found.blocks, bodies.len());
        prop_assert_eq!(found.program, expected);
    }

    #[test]
    fn p1_no_text_panics(text in "(?s:.){0,200}", fences in "[`~ \r\ncel]{0,60}") {
        let _ = extract(&text, StopReason::End);
        let _ = extract(&fences, StopReason::End);
    }
}
