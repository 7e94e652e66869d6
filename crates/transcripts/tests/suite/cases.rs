//! The cases of the contract (transcript contract 9), and the rows that no fixture tells apart.

use flowcell_transcripts::{ClaudeState, CodexState, Entry, TranscriptError};
use serde_json::{Value, json};

use crate::decode::{Format, whole};

/// A Codex session, then `records`.
fn codex(records: &[Value]) -> Result<Vec<Entry>, TranscriptError> {
    let session = json!({"type": "session_meta", "payload": {"id": "s", "cli_version": "0.160.0"}});
    decode::<CodexState>(std::iter::once(&session).chain(records))
}

/// Claude Code records; those that name no version get one, and a session.
fn claude(records: &[Value]) -> Result<Vec<Entry>, TranscriptError> {
    let named = records.iter().map(|record| {
        let mut record = record.clone();
        let members = record.as_object_mut().unwrap();
        members.entry("version").or_insert_with(|| json!("2.1.277"));
        members.entry("sessionId").or_insert_with(|| json!("s"));
        record
    });
    let records: Vec<Value> = named.collect();
    decode::<ClaudeState>(records.iter())
}

fn decode<'a, S: Format>(records: impl Iterator<Item = &'a Value>) -> Result<Vec<Entry>, TranscriptError> {
    let text: String = records.map(|record| format!("{record}\n")).collect();
    Ok(whole::<S>(text.as_bytes())?.entries)
}

fn parts(entries: &[Entry]) -> Value {
    entries.iter().map(|entry| json!(entry.part)).collect()
}

fn item(item: &Value) -> Result<Value, TranscriptError> {
    let entries =
        codex(&[json!({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})])?;
    Ok(parts(&entries))
}

/// A report, and what it gives.
fn report(output: &Value) -> Vec<Entry> {
    let call = json!({"type": "response_item", "payload": {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "in"}});
    let output = json!({"type": "response_item", "payload": {"type": "custom_tool_call_output", "call_id": "c", "output": output}});
    codex(&[call, output]).unwrap()
}

/// A tool call and its result.
fn settled(name: &str, input: &Value, content: &Value, failed: bool) -> Value {
    let call = json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "u", "name": name, "input": input}]}});
    let result = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "u", "content": content, "is_error": failed}]}});
    parts(&claude(&[call, result]).unwrap())
}

#[test]
fn a_compaction_without_a_turn() {
    let record = json!({"type": "event_msg", "payload": {"type": "item_completed", "turn_id": "", "item": {"type": "ContextCompaction"}}});
    let entries = codex(&[record]).unwrap();
    let expected = json!([{
        "origin": "external", "agent_kind": "codex", "format_version": "codex-rollout/0.160", "session_id": "s",
        "source_id": "s:2", "read_only": true, "seq": 0, "at": 0, "role": "assistant", "part": {"type": "compaction"},
    }]);
    assert_eq!(json!(entries), expected);
}

#[test]
fn commands() {
    let declined = item(&json!({"type": "CommandExecution", "status": "declined"})).unwrap();
    let expected = json!([{"type": "tool", "call_id": "", "command": "", "reads": [], "status": "error", "output": "", "duration_ms": 0}]);
    assert_eq!(declined, expected);
    for (fields, status, exit_code) in [
        (json!({"status": "in_progress", "exit_code": 1}), "running", json!(1)),
        (json!({"status": "inProgress"}), "running", Value::Null),
        (json!({"status": "completed"}), "ok", Value::Null),
        (json!({"status": "completed", "exit_code": null}), "ok", Value::Null),
        (json!({"status": "completed", "exit_code": "1"}), "ok", Value::Null),
        (json!({"status": "completed", "exit_code": 0}), "ok", json!(0)),
        (json!({"status": "completed", "exit_code": -1}), "error", json!(-1)),
        (json!({"status": "failed", "exit_code": 0}), "error", json!(0)),
        (json!({}), "error", Value::Null),
    ] {
        let mut command = fields.clone();
        command["type"] = json!("CommandExecution");
        let parts = item(&command).unwrap();
        assert_eq!((&parts[0]["status"], &parts[0]["exit_code"]), (&json!(status), &exit_code), "{fields}");
    }
    let beyond = r#"{"type":"session_meta","payload":{"id":"s","cli_version":"0.160.0"}}
{"type":"event_msg","payload":{"type":"item_completed","started_at_ms":1e999,"completed_at_ms":5,"item":{"type":"CommandExecution","status":"completed","exit_code":1e999,"n":-1e999}}}
"#;
    let entries = whole::<CodexState>(beyond.as_bytes()).unwrap().entries;
    assert_eq!(json!(entries[0].part)["status"], "ok", "a number beyond f64 is not a number");
}

#[test]
fn reads_of_a_command() {
    for (parsed, reads) in [
        (json!([]), json!([])),
        (json!(null), json!([])),
        (json!([{"type": "read", "name": "a"}, {"type": "unknown"}]), json!([])),
        (json!([{"type": "read", "name": "a", "path": "/b/c"}]), json!(["Read a"])),
        (json!([{"type": "read", "path": "/b/c/"}]), json!(["Read c"])),
        (json!([{"type": "search", "query": "é\"", "path": "/b/c"}]), json!(["Searched \"é\\\"\" in c"])),
        (json!([{"type": "search", "query": "q"}]), json!(["Searched \"q\""])),
        (
            json!([{"type": "list_files", "path": "/"}, {"type": "list_files"}]),
            json!(["Listed /", "Listed files"]),
        ),
    ] {
        let command = json!({"type": "CommandExecution", "parsed_cmd": parsed});
        assert_eq!(item(&command).unwrap()[0]["reads"], reads, "{parsed}");
    }
}

#[test]
fn a_new_file_without_a_newline() {
    let change = json!({"type": "FileChange", "id": "f", "changes": {"/a": {"type": "add", "content": "x"}}});
    let expected = json!([{"type": "edit", "call_id": "f", "outcome": "failed",
        "files": [{"path": "/a", "change": "added", "diff": "@@ -0,0 +1,1 @@\n+x\n"}]}]);
    assert_eq!(item(&change).unwrap(), expected);
}

#[test]
fn searches() {
    for (fields, query) in [
        (json!({"type": "WebSearch", "query": "q"}), "q"),
        (json!({"type": "WebSearch", "query": "", "action": {"query": "", "pattern": "p", "url": "u"}}), "p"),
        (json!({"type": "Extension", "kind": "web.search", "action": {"url": "u"}}), "u"),
        (json!({"type": "Extension", "kind": "web.search"}), ""),
    ] {
        assert_eq!(
            item(&fields).unwrap(),
            json!([{"type": "search", "call_id": "", "query": query}]),
            "{fields}"
        );
    }
    let error = item(&json!({"type": "Extension"})).unwrap_err();
    assert_eq!(error.message, "Codex extension on line 2 names no kind.");
}

#[test]
fn a_failed_script_and_the_edit_in_it() {
    let said = "Script failed\n\nScript error:\napply_patch verification failed: Failed to find expected lines in /r/a.ts:\ngamma";
    let entries = report(&json!(said));
    let expected = json!([
        {"type": "tool", "call_id": "c", "command": "in", "reads": [], "status": "error", "output": said, "duration_ms": 0},
        {"type": "edit", "call_id": "c", "outcome": "failed", "files": [{"path": "/r/a.ts", "change": "modified", "diff": ""}]},
    ]);
    assert_eq!(parts(&entries), expected);
    assert_eq!((&*entries[0].source_id, &*entries[1].source_id), ("s:3", "s:3#1"));
    assert!(report(&json!("{\"metadata\":{\"exit_code\":0}}")).is_empty());
    assert!(report(&json!([])).is_empty());
    assert_eq!(report(&json!([{"type": "input_text"}, 7, {"type": "input_text", "text": "x"}])).len(), 1);
}

#[test]
fn who_the_rollout_is() {
    let session = |id: &str, release: &str, cwd: &str| json!({"type": "session_meta", "payload": {"session_id": id, "cli_version": release, "cwd": cwd}});
    let state = |records: &[Value]| {
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        whole::<CodexState>(text.as_bytes()).map(|decoded| json!(decoded.state)["session"].clone())
    };
    let first = json!({"id": "a", "format_version": "codex-rollout/0.159", "cwd": "/ws"});
    assert_eq!(state(&[session("a", "0.159.0", "/ws")]).unwrap(), first);
    assert_eq!(state(&[session("a", "0.159.0", "/ws"), session("b", "0.160.0", "/other")]).unwrap(), first);
    let again = json!({"id": "a", "format_version": "codex-rollout/0.171", "cwd": "/other"});
    assert_eq!(state(&[session("a", "0.159.0", "/ws"), session("a", "0.171.0", "/other")]).unwrap(), again);
    let gated = state(&[session("a", "0.159.0", "/ws"), session("b", "0.158.0", "/other")]).unwrap_err();
    assert_eq!(gated.code.as_str(), "unsupported_version");
}

#[test]
fn a_shell_command_and_its_time() {
    let call = json!({"type": "assistant", "timestamp": "2026-11-02T10:00:45.000Z",
        "message": {"content": [{"type": "tool_use", "id": "u", "name": "Bash", "input": {"command": "date"}}]}});
    let result = |at: &str| {
        json!({"type": "user", "timestamp": at,
            "message": {"content": [{"type": "tool_result", "tool_use_id": "u", "content": "Mon"}]}})
    };
    let entries = claude(&[call.clone(), result("2026-11-02T10:00:46.250Z")]).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].source_id.as_str(), &json!(entries[0].part)["duration_ms"]),
        ("s:2", &json!(1250))
    );
    for at in ["2026-11-02T10:00:44.000Z", "never", "2026-11-02T10:00:45.000Z"] {
        let entries = claude(&[call.clone(), result(at)]).unwrap();
        assert_eq!(json!(entries[0].part)["duration_ms"], 0, "{at}");
    }
}

#[test]
fn exit_codes() {
    for (output, failed, code) in [
        ("Exit code 127\nx", true, json!(127)),
        ("Exit code 127\nx", false, Value::Null),
        ("x Exit code 1", true, Value::Null),
        ("Exit code x", true, Value::Null),
        ("Exit code 99999999999999999999", true, Value::Null),
    ] {
        let part = settled("Bash", &json!({"command": "a"}), &json!(output), failed);
        assert_eq!(part[0]["exit_code"], code, "{output}");
        assert_eq!(part[0]["status"], if failed { "error" } else { "ok" });
    }
}

#[test]
fn tools_by_name() {
    for (name, input, command, reads) in [
        ("Read", json!({"file_path": "/a/b.rs"}), "Read {\"file_path\":\"/a/b.rs\"}", json!(["Read b.rs"])),
        ("Grep", json!({"pattern": "x"}), "Grep {\"pattern\":\"x\"}", json!(["Searched \"x\""])),
        ("LS", json!({}), "LS", json!(["Listed files"])),
        ("Skill", json!([1]), "Skill", json!([])),
        ("Bash", json!({"command": 7}), "", json!([])),
    ] {
        let part = settled(name, &input, &json!([{"type": "text", "text": "o"}, {"type": "image"}]), false);
        assert_eq!((&part[0]["command"], &part[0]["reads"]), (&json!(command), &reads), "{name}");
        assert_eq!(part[0]["output"], "o");
    }
    for (name, input, expected) in [
        ("WebSearch", json!({"query": "q"}), json!([{"type": "search", "call_id": "u", "query": "q"}])),
        ("WebFetch", json!({"url": "w"}), json!([{"type": "search", "call_id": "u", "query": "w"}])),
        (
            "Task",
            json!({}),
            json!([{"type": "helper", "call_id": "u", "agent": "general-purpose", "activity": ""}]),
        ),
    ] {
        assert_eq!(settled(name, &input, &json!("x"), true), expected);
    }
    assert_eq!(
        settled("MultiEdit", &json!({"file_path": "/a", "edits": 7}), &json!(""), false)[0]["files"][0]["diff"],
        ""
    );
}

#[test]
fn words_of_the_owner() {
    let user = |fields: Value| {
        let mut record = fields;
        record["type"] = json!("user");
        parts(&claude(&[record]).unwrap())
    };
    let words = "<command-name>/goal</command-name>\n<command-args>ship it </command-args>";
    let goal = user(json!({"message": {"content": words}}));
    assert_eq!(goal, json!([{"type": "prompt", "text": "/goal ship it"}]));
    let entries = claude(&[
        json!({"type": "user", "message": {"content": "[Request interrupted by user for tool use]"}}),
    ])
    .unwrap();
    assert_eq!(json!(entries[0].role), "assistant");
    assert_eq!(json!(entries[0].part)["type"], "error");
    assert_eq!(user(json!({"message": {"content": "x"}, "origin": {"kind": "peer"}})), json!([]));
    assert_eq!(user(json!({"message": {"content": "x"}, "origin": "human"})), json!([]));
    assert_eq!(user(json!({"message": {"content": "x"}, "isMeta": "true"})).as_array().unwrap().len(), 1);
}

#[test]
fn records_that_say_nothing() {
    let text = "{\"type\":\"progress\",\"uuid\":7,\"version\":\"2.1.39\"}\n";
    let decoded = whole::<ClaudeState>(text.as_bytes()).unwrap();
    assert_eq!((decoded.entries.len(), decoded.state.line(), decoded.state.session()), (0, 1, None));
}

#[test]
fn an_error_of_the_provider() {
    let record = |message: Value| json!({"type": "assistant", "isApiErrorMessage": true, "error": "limit", "message": message});
    for (message, said) in [
        (
            json!({"content": [{"type": "hologram"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
            "a\nb",
        ),
        (json!({"content": "plain"}), "plain"),
        (json!({"content": []}), "limit"),
        (json!(null), "limit"),
    ] {
        assert_eq!(parts(&claude(&[record(message)]).unwrap()), json!([{"type": "error", "message": said}]));
    }
}

#[test]
fn held_input_keeps_its_order() {
    let text = concat!(
        "{\"type\":\"assistant\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{\"content\":[",
        "{\"type\":\"tool_use\",\"id\":\"u\",\"name\":\"T\",\"input\":{\"z\":1,\"a\":{\"y\":\"\\ud83d\",\"b\":1e999},\"z\":2.50}}]}}\n"
    );
    let state = whole::<ClaudeState>(text.as_bytes()).unwrap().state;
    let written = serde_json::to_string(&state).unwrap();
    assert!(written.contains("\"input\":{\"z\":2.5,\"a\":{\"y\":\"\u{FFFD}\",\"b\":null}}"), "{written}");
    assert_eq!(serde_json::from_str::<ClaudeState>(&written).unwrap(), state);
}

/// A checkpoint that no decoder wrote is refused, not trusted.
#[test]
fn a_state_is_judged_when_it_is_read() {
    for (state, good) in [
        (json!({"pending": "", "line": 0, "seq": 0}), true),
        (json!({"pending": "a\nb", "line": 0, "seq": 0}), false),
        (json!({"pending": "", "line": 0, "seq": 0, "tail": "61"}), false),
        (json!({"pending": "", "line": -1, "seq": 0}), false),
        (json!({"line": 0, "seq": 0}), false),
    ] {
        assert_eq!(serde_json::from_value::<CodexState>(state.clone()).is_ok(), good, "{state}");
    }
    let last: CodexState = serde_json::from_value(json!({"pending": "", "line": u64::MAX, "seq": u64::MAX,
        "session": {"id": "s", "format_version": "codex-rollout/0.160", "cwd": ""}}))
    .unwrap();
    let record = "{\"type\":\"event_msg\",\"payload\":{\"type\":\"error\",\"message\":\"m\"}}\n";
    let decoded = crate::decode::step(&last, record.as_bytes()).unwrap();
    assert_eq!(decoded.entries.len(), 1, "the counters stop at their end");
}
