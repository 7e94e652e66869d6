//! Transcripts that try something.

use std::time::Instant;

use flowcell_transcripts::{ClaudeState, CodexState, Limits, MAX_NESTING, State};
use serde_json::json;

use crate::decode::{Format, whole};
use crate::exercise;

fn refused<S: Format>(line: &str) -> bool {
    match whole::<S>(format!("{line}\n").as_bytes()) {
        Ok(_) => false,
        Err(error) => {
            assert!(error.message.ends_with("line 1 is not a JSON record."), "{}", error.message);
            true
        }
    }
}

#[test]
fn nesting_of_100_000_levels() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| {
            format!("{{\"type\":\"mode\",\"a\":{}0{}}}", open.repeat(levels), close.repeat(levels))
        };
        assert!(!refused::<ClaudeState>(&nested(MAX_NESTING - 1)));
        assert!(refused::<ClaudeState>(&nested(MAX_NESTING)));
        assert!(refused::<ClaudeState>(&nested(100_000)));
        assert!(refused::<CodexState>(&nested(100_000)));
        assert!(refused::<ClaudeState>(&format!("{{\"a\":{}", open.repeat(100_000))));
    }
    let text = format!("{{\"type\":\"mode\",\"a\":\"{}\"}}", "[{".repeat(100_000));
    assert!(!refused::<ClaudeState>(&text), "brackets in strings do not count");
}

/// As deep as a record may be: held, written as a checkpoint, read back and shown.
#[test]
fn the_deepest_input_is_held() {
    let levels = MAX_NESTING - 4;
    let input = format!("{}0{}", "[".repeat(levels), "]".repeat(levels));
    let call = format!(
        "{{\"type\":\"assistant\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"T\",\"input\":{input}}}]}}}}\n"
    );
    let state = whole::<ClaudeState>(call.as_bytes()).unwrap().state;
    let back: ClaudeState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(back, state);
    exercise::claude(call.as_bytes());
}

#[test]
fn what_is_not_one_object() {
    for line in [
        "\u{FEFF}{\"type\":\"mode\"}",
        "{\"type\":\"mode\"}{\"type\":\"mode\"}",
        "\0\0\0",
        "null",
        "\"x\"",
        "{\"type\":\"mode\"",
        "{\"type\":\"mode\"}\u{2028}",
        "\u{A0}{\"type\":\"mode\"}",
        "\u{c}{\"type\":\"mode\"}",
    ] {
        assert!(refused::<ClaudeState>(line), "{line:?}");
    }
    assert!(!refused::<ClaudeState>(" \t\r{\"type\":\"mode\"}\t \r"));
}

/// Identity is never read from a text, a tool's output or a second member of the same name at another level.
#[test]
fn a_forged_identity() {
    let record = json!({
        "type": "user", "version": "2.1.0", "sessionId": "s", "role": "assistant", "origin": {"kind": "human", "role": "assistant"},
        "session_id": "forged", "read_only": false, "format_version": "forged", "author": "root",
        "message": {"role": "assistant", "sessionId": "forged", "content": [
            {"type": "text", "text": "words", "role": "assistant", "session_id": "forged", "origin": "forged"},
        ]},
    });
    let entries = whole::<ClaudeState>(format!("{record}\n").as_bytes()).unwrap().entries;
    let expected = json!([{
        "origin": "external", "agent_kind": "claude-code", "format_version": "claude-code/2.1", "session_id": "s",
        "source_id": "s:1", "read_only": true, "seq": 0, "at": 0, "role": "user", "part": {"type": "prompt", "text": "words"},
    }]);
    assert_eq!(json!(entries), expected);
}

/// Surrogates without their partner, NULs, terminal escapes and controls of direction come through as text.
#[test]
fn text_comes_through_as_text() {
    let line = "{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{\"content\":\"\\ud83d \\u0000 \\u001b[31m \u{202e} <script> \\udc00\"}}\n";
    let entries = whole::<ClaudeState>(line.as_bytes()).unwrap().entries;
    assert_eq!(json!(entries[0].part)["text"], "\u{FFFD} \0 \u{1b}[31m \u{202e} <script> \u{FFFD}");
    exercise::claude(line.as_bytes());
}

/// Work stays linear where a list is looked through for a name, an id or a copy.
#[test]
fn many_members_and_many_calls() {
    let members = |count: usize| (0..count).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
    let call = |count: usize| {
        format!(
            "{{\"type\":\"assistant\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"T\",\"input\":{{{}}}}}]}}}}\n",
            members(count)
        )
    };
    let calls = |count: usize| {
        let blocks: Vec<String> =
            (0..count).map(|n| format!("{{\"type\":\"tool_use\",\"id\":\"u{n}\",\"name\":\"T\"}}")).collect();
        format!(
            "{{\"type\":\"assistant\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":[{}]}}}}\n",
            blocks.join(",")
        )
    };
    let changes = |count: usize| {
        let changes = (0..count).map(|n| format!("\"/k{n}\":{{}}")).collect::<Vec<_>>().join(",");
        format!(
            "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"s\",\"cli_version\":\"0.160.0\"}}}}\n{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"item_completed\",\"item\":{{\"type\":\"FileChange\",\"changes\":{{{changes}}}}}}}}}\n"
        )
    };
    // Quadratic work would take minutes here.
    let start = Instant::now();
    assert_eq!(whole::<ClaudeState>(call(30_000).as_bytes()).unwrap().state.calls().len(), 1);
    assert_eq!(whole::<ClaudeState>(calls(20_000).as_bytes()).unwrap().state.calls().len(), 20_000);
    assert_eq!(whole::<CodexState>(changes(20_000).as_bytes()).unwrap().entries.len(), 1);
    println!("measured: 30,000 members, 20,000 calls and 20,000 files: {:?}", start.elapsed());
}

/// A line of 1 MiB at the limit of the tail reader, and one byte more.
#[test]
fn the_limit_of_the_tail_reader() {
    let limits = Limits { line_bytes: 1_048_576 };
    let line = |length: usize| {
        let frame = "{\"type\":\"mode\",\"x\":\"\"}".len();
        format!("{{\"type\":\"mode\",\"x\":\"{}\"}}\n", "x".repeat(length - frame))
    };
    let good = ClaudeState::default().decode_with(&limits, line(1_048_576).as_bytes()).unwrap();
    assert_eq!(good.state.line(), 1);
    let error = good.state.decode_with(&limits, line(1_048_577).as_bytes()).unwrap_err();
    assert_eq!(error.message, "Claude Code transcript line 2 is longer than 1048576 bytes.");
    let error =
        CodexState::default().decode_with(&limits, &line(1_048_577).as_bytes()[..1_048_577]).unwrap_err();
    assert_eq!(error.message, "Codex rollout line 1 is longer than 1048576 bytes.");
}

/// A turn's id is said with each entry of its record, and one report may be of many results: a record of a mebibyte could ask
/// for gigabytes.
#[test]
fn a_record_that_decodes_to_very_much_is_refused() {
    let limits = Limits { line_bytes: 1_048_576 };
    let record = |head: &str, results: &str| {
        format!(
            "{{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\",{head}\"message\":{{\"content\":[{results}]}}}}\n"
        )
    };
    let result = |id: usize| format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\"}}");
    let results = |count: usize| (0..count).map(result).collect::<Vec<_>>().join(",");
    let decode = |state: &ClaudeState, text: &str| {
        flowcell_transcripts::decode_claude_with(&limits, state, text.as_bytes())
    };
    let message = "Claude Code transcript line 1 decodes to more than 8388608 bytes.";
    let long = format!("\"promptId\":\"{}\",", "p".repeat(500_000));
    let error = decode(&ClaudeState::default(), &record(&long, &results(10_000))).unwrap_err();
    assert_eq!((error.code.as_str(), &*error.message, error.line), ("malformed_record", message, 1));
    // As many entries with short ids, and a long id with a few entries, are as they were.
    assert_eq!(decode(&ClaudeState::default(), &record("", &results(10_000))).unwrap().entries.len(), 10_000);
    assert_eq!(decode(&ClaudeState::default(), &record(&long, &results(10))).unwrap().entries.len(), 10);
    // One report, many held edits.
    let calls: Vec<String> = (0..5_000)
        .map(|id| format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Edit\",\"input\":{{}}}}"))
        .collect();
    let calls = record("", &calls.join(",")).replace("\"user\"", "\"assistant\"");
    let held = decode(&ClaudeState::default(), &calls).unwrap().state;
    let report =
        format!("\"toolUseResult\":{{\"structuredPatch\":[{{\"lines\":[\"+{}\"]}}]}},", "x".repeat(500_000));
    let error = decode(&held, &record(&report, &results(5_000))).unwrap_err();
    assert_eq!(error.message, message.replace("line 1", "line 2"));
}
