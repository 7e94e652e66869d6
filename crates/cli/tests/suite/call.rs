//! `call`: one flow.

use serde_json::json;

use crate::bench::{Bench, keys};

#[test]
fn the_output_is_printed() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    let output = bench.run(&["call", "read", r#"{"path": "a.txt", "limit": 1}"#, "--json"]).is(0).json();
    assert_eq!((&output["content"], &output["endLine"]), (&json!("one"), &json!(1)));
    let text = bench.run_with(&["call", "read", "-"], r#"{"path": "a.txt"}"#);
    let output: serde_json::Value = serde_json::from_str(&text.is(0).out).unwrap();
    assert_eq!(output["totalLines"], json!(2));
    assert!(!bench.ws().join(".flowcell").exists(), "nothing is kept");
}

#[test]
fn a_flow_failure_has_its_own_code() {
    let bench = Bench::new();
    let answer = bench.run(&["call", "read", r#"{"path": "missing"}"#, "--json"]);
    assert_eq!(answer.is(1).code(), "flow_failed");
    let error = answer.json()["error"].clone();
    assert_eq!(error["flow_code"], json!("not_found"));
    assert!(error["message"].as_str().unwrap().contains("missing") && error["hint"].is_string(), "{error}");
    let denied = bench.run(&["call", "read", r#"{"path": "missing"}"#, "--json", "--deny", "fs:*:**"]);
    assert_eq!(
        (denied.is(1).code(), &denied.json()["error"]["flow_code"]),
        ("flow_failed".into(), &json!("permission_denied"))
    );
}

#[test]
fn input_that_does_not_decode_names_its_members() {
    let bench = Bench::new();
    for (input, path) in [
        ("{}", Some("path")),
        (r#"{"path": 1}"#, Some("path")),
        (r#"{"path": "a", "limit": 0}"#, Some("limit")),
        ("[]", None),
        ("{", None),
    ] {
        let answer = bench.run(&["call", "read", input, "--json"]);
        assert_eq!(answer.is(2).code(), "invalid_input", "{input}");
        let error = answer.json()["error"].clone();
        assert_eq!(error.get("path"), path.map(|path| json!(path)).as_ref(), "{input}: {error}");
        assert!(error["hint"].as_str().unwrap().contains("flowcell flows read --schema"), "{error}");
    }
    let two = bench.run(&["call", "write", "{}", "--json"]);
    let message = two.is(2).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("path") && message.contains("content"), "{message}");
    assert_eq!(bench.run(&["call", "read", "--json"]).is(2).code(), "invalid_input");
}

#[test]
fn a_permission_that_nobody_gave_suspends() {
    let bench = Bench::new();
    let root = bench.root();
    let words = ["call", "write", r#"{"path": "a b.txt", "content": "x"}"#];
    let answer = bench.run(&[&words[..], &["--json"]].concat());
    assert_eq!(
        answer.is(3).json(),
        json!({"suspended": {"reason": "permission-required", "request": {
            "capability": format!("fs:write:{root}/a b.txt"), "tier": "compensable"}}})
    );
    assert!(
        answer.last_line().contains(&format!("run it again with `--allow 'fs:write:{root}/a b.txt'`")),
        "{}",
        answer.err
    );
    assert!(!bench.ws().join("a b.txt").exists() && !bench.ws().join(".flowcell").exists());
    let wild = bench.run(&["call", "write", r#"{"path": "**", "content": "x"}"#]);
    let last = wild.is(3).last_line();
    assert!(!last.contains("--allow") && last.contains("no rule can name this alone"), "{last}");
    assert!(last.contains("`flowcell approve RUN --once`"), "{last}");
    let allow = format!("fs:write:{root}/a b.txt");
    let output = bench.run(&[&words[..], &["--json", "--allow", &allow]].concat()).is(0).json();
    assert_eq!(keys(&output), ["bytesWritten", "created", "path"]);
    assert_eq!(bench.read("a b.txt"), "x");
}

#[test]
fn an_unknown_flow_is_a_wrong_command_line() {
    let bench = Bench::new();
    let answer = bench.run(&["call", "raed", "{}", "--json"]);
    assert_eq!(answer.is(2).code(), "unknown_flow");
    assert!(answer.json()["error"]["hint"].as_str().unwrap().contains("nearest name is read"));
    // Declared, and answered by nothing here.
    assert_eq!(bench.run(&["call", "fetch", "{}", "--json"]).is(1).code(), "unimplemented");
    assert_eq!(bench.run(&["call", "explore", "{}", "--json"]).is(1).code(), "unimplemented");
}
