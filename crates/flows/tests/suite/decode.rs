//! Decoding by a document (kernel contract 8, harness contract 11).

use flowcell_flows::decode::{DecodeError, decode};
use flowcell_flows::schema::{Issue, MAX_ISSUES, SchemaDoc};
use flowcell_flows::{
    Code, StdError, bash, edit, fetch, glob, grep, lsp, read, test, update_plan, webfetch, websearch,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[allow(clippy::needless_pass_by_value)]
fn issues<T: DeserializeOwned + std::fmt::Debug>(doc: &SchemaDoc, value: Value) -> Vec<Issue> {
    decode::<T>(doc, &value).unwrap_err().issues
}

fn paths<T: DeserializeOwned + std::fmt::Debug>(doc: &SchemaDoc, value: Value) -> Vec<String> {
    issues::<T>(doc, value).into_iter().map(|issue| issue.path).collect()
}

#[test]
fn integers_have_no_fraction_and_a_bounded_magnitude() {
    let doc = read::decl().input;
    let decoded: read::Input = decode(&doc, &json!({"path": "a", "offset": 5.0, "limit": 1})).unwrap();
    assert_eq!(decoded, read::Input { path: "a".into(), offset: Some(5), limit: Some(1) });
    let largest = 9_007_199_254_740_991_u64;
    let decoded: read::Input = decode(&doc, &json!({"path": "a", "limit": largest})).unwrap();
    assert_eq!(decoded.limit, Some(largest));
    for bad in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(true),
        json!(largest + 1),
        json!(1e300),
        json!(0.0),
    ] {
        assert_eq!(paths::<read::Input>(&doc, json!({"path": "a", "offset": bad})), ["offset"]);
    }
}

#[test]
fn unknown_members_are_dropped() {
    let doc = read::decl().input;
    let decoded: read::Input =
        decode(&doc, &json!({"path": "a", "colour": {"deep": [1]}, "other": null})).unwrap();
    assert_eq!(decoded.path, "a");
    let kept: Value = decode(&doc, &json!({"path": "a", "colour": 1, "offset": 2.0})).unwrap();
    assert_eq!(kept, json!({"path": "a", "offset": 2}));
    assert_eq!(doc.validate(&json!({"path": "a", "colour": 1})), []);
}

#[test]
fn a_null_stands_for_an_absent_optional_field_at_the_second_try() {
    let doc = edit::decl().input;
    let value = json!({"path": "a", "oldString": "x", "newString": "y", "replaceAll": null, "expect": null});
    assert!(!doc.validate(&value).is_empty(), "null is a failure at first");
    let decoded: edit::Input = decode(&doc, &value).unwrap();
    assert_eq!((decoded.replace_all, decoded.expect), (None, None));
    // A required field has no such reading, and the answer is the first try's, the optional null included.
    let found = paths::<edit::Input>(&doc, json!({"path": null, "newString": "y", "expect": null}));
    assert_eq!(found, ["expect", "path"]);
}

#[test]
fn only_top_level_nulls_are_left_out() {
    let doc = fetch::decl().input;
    assert_eq!(
        paths::<fetch::Input>(&doc, json!({"url": "https://h", "headers": {"a": null}, "timeout": null})),
        ["headers.a", "timeout"]
    );
}

#[test]
fn a_union_of_structs_has_no_second_try() {
    let doc = bash::decl().input;
    assert_eq!(paths::<bash::Input>(&doc, json!({"command": "ls", "cwd": null})), ["cwd"]);
    assert_eq!(doc.without_optional_nulls(&json!({"command": "ls", "cwd": null})), None);
}

#[test]
fn a_field_that_accepts_null_keeps_it() {
    let doc = SchemaDoc::from_document(json!({
        "type": "object",
        "properties": {"any": {}, "text": {"type": "string"}, "maybe": {"type": ["string", "null"]}},
        "required": [],
        "additionalProperties": false,
    }));
    let decoded: Value =
        decode(&doc, &json!({"any": null, "text": null, "maybe": null, "other": null})).unwrap();
    assert_eq!(decoded, json!({"any": null, "maybe": null}));
}

#[test]
fn records_arrays_and_scalars_have_no_second_try() {
    let record =
        SchemaDoc::from_document(json!({"type": "object", "additionalProperties": {"type": "string"}}));
    assert_eq!(paths::<Value>(&record, json!({"a": null})), ["a"]);
    let array = SchemaDoc::from_document(json!({"type": "array", "items": {"type": "integer"}}));
    assert_eq!(paths::<Value>(&array, json!([1, null, 2.5])), ["[1]", "[2]"]);
    assert_eq!(decode::<Vec<u64>>(&array, &json!([1.0, 2])).unwrap(), [1, 2]);
    let text = SchemaDoc::from_document(json!({"type": "string"}));
    assert_eq!(issues::<String>(&text, json!(null)), [Issue::new("", "expected string, got null")]);
}

#[test]
fn bash_is_a_union_on_mode() {
    let doc = bash::decl().input;
    let plain: bash::Input = decode(&doc, &json!({"command": "ls", "timeoutMs": 1.5})).unwrap();
    let bash::Input::Unhermetic(plain) = plain else { panic!("an absent mode is unhermetic") };
    assert_eq!((plain.invocation.command.as_deref(), plain.invocation.timeout_ms), (Some("ls"), Some(1.5)));
    let named: bash::Input =
        decode(&doc, &json!({"mode": "unhermetic", "script": "x", "env": {"A": "1"}})).unwrap();
    assert_eq!(named.invocation().env.as_ref().unwrap()["A"], "1");
    let value = json!({"mode": "hermetic", "command": "ls", "reads": [], "writes": ["out"], "timeoutMs": 5});
    let sealed: bash::Input = decode(&doc, &value).unwrap();
    let bash::Input::Hermetic(sealed) = sealed else { panic!("the mode is hermetic") };
    assert_eq!(
        (sealed.reads.len(), sealed.writes, sealed.invocation.timeout_ms),
        (0, vec!["out".into()], Some(5.0))
    );
    assert_eq!(paths::<bash::Input>(&doc, json!({"mode": "hermetic", "command": "ls"})), ["reads", "writes"]);
    assert_eq!(
        paths::<bash::Input>(&doc, json!({"mode": "hermetic", "command": "ls", "reads": [""], "writes": []})),
        ["reads[0]"]
    );
    assert_eq!(paths::<bash::Input>(&doc, json!({"mode": "sealed", "command": "ls"})), ["mode"]);
    assert_eq!(paths::<bash::Input>(&doc, json!({"command": 1})), ["command"]);
}

#[test]
fn an_envelope_without_the_hermetic_mode_is_refused() {
    let doc = bash::decl().input;
    assert_eq!(paths::<bash::Input>(&doc, json!({"command": "ls", "reads": ["a"]})), ["reads"]);
    let value = json!({"mode": "unhermetic", "command": "ls", "reads": [], "writes": []});
    assert_eq!(paths::<bash::Input>(&doc, value.clone()), ["reads", "writes"]);
    assert!(serde_json::from_value::<bash::Input>(value).is_err());
    let decoded: bash::Input = decode(&doc, &json!({"command": "ls", "colour": "red"})).unwrap();
    assert_eq!(decoded, bash::Input::command("ls"));
}

#[test]
fn an_input_encodes_to_what_decodes_to_it() {
    let doc = bash::decl().input;
    for value in [
        json!({"mode": "unhermetic", "command": "ls"}),
        json!({"mode": "hermetic", "reads": ["a"], "writes": [], "script": "x", "args": ["1"], "interpreter": "sh"}),
    ] {
        let decoded: bash::Input = decode(&doc, &value).unwrap();
        assert_eq!(serde_json::to_value(&decoded).unwrap(), value);
    }
}

#[test]
fn a_plan_runs_one_step_at_most() {
    let doc = update_plan::decl().input;
    let step = |status: &str| json!({"step": "s", "status": status});
    let plan = |steps: &[&str]| json!({"plan": steps.iter().map(|status| step(status)).collect::<Vec<_>>()});
    let empty: update_plan::Input = decode(&doc, &plan(&[])).unwrap();
    assert_eq!(empty.plan, []);
    let decoded: update_plan::Input =
        decode(&doc, &plan(&["completed", "in_progress", "pending", "pending"])).unwrap();
    assert!(update_plan::check(&decoded.plan).is_ok());
    assert_eq!(paths::<update_plan::Input>(&doc, plan(&["in_progress", "in_progress"])), ["plan"]);
    let twice: update_plan::Input = serde_json::from_value(plan(&["in_progress", "in_progress"])).unwrap();
    assert_eq!(update_plan::check(&twice.plan).unwrap_err().code, Code::InvalidInput);
    assert_eq!(paths::<update_plan::Input>(&doc, plan(&["done"])), ["plan[0].status"]);
    // The rule is asked of the second try too.
    let mut value = plan(&["in_progress", "in_progress"]);
    value["explanation"] = Value::Null;
    assert_eq!(paths::<update_plan::Input>(&doc, value), ["explanation"]);
}

#[test]
fn bounds_and_literals_of_the_inputs() {
    let timeout = |value: Value| json!({"url": "https://h", "timeout": value});
    let doc = fetch::decl().input;
    for bad in [json!(0), json!(-1), json!("30")] {
        assert_eq!(paths::<fetch::Input>(&doc, timeout(bad)), ["timeout"]);
    }
    assert_eq!(decode::<fetch::Input>(&doc, &timeout(json!(0.5))).unwrap().timeout, Some(0.5));
    assert_eq!(decode::<fetch::Input>(&doc, &timeout(json!(121))).unwrap().timeout, Some(121.0));

    let doc = webfetch::decl().input;
    let decoded: webfetch::Input = decode(&doc, &json!({"url": "u", "format": "html"})).unwrap();
    assert_eq!(decoded.format, Some(webfetch::Format::Html));
    assert_eq!(paths::<webfetch::Input>(&doc, json!({"url": "u", "format": "pdf"})), ["format"]);

    let doc = websearch::decl().input;
    assert_eq!(paths::<websearch::Input>(&doc, json!({"query": ""})), ["query"]);
    for bad in [json!(0), json!(21), json!(1.5)] {
        assert_eq!(paths::<websearch::Input>(&doc, json!({"query": "q", "numResults": bad})), ["numResults"]);
    }
    assert_eq!(
        decode::<websearch::Input>(&doc, &json!({"query": "q", "numResults": 20})).unwrap().num_results,
        Some(20)
    );

    let doc = glob::decl().input;
    assert_eq!(paths::<glob::Input>(&doc, json!({"pattern": ""})), ["pattern"]);
    assert_eq!(decode::<glob::Input>(&doc, &json!({"pattern": "*", "limit": 0})).unwrap().limit, Some(0));
    let doc = grep::decl().input;
    assert_eq!(decode::<grep::Input>(&doc, &json!({"pattern": ""})).unwrap().pattern, "");
    assert_eq!(paths::<grep::Input>(&doc, json!({"pattern": "a", "maxCount": 0})), ["maxCount"]);
    let doc = lsp::decl().input;
    for operation in lsp::Operation::ALL {
        let value = json!({"operation": operation, "line": 1});
        assert_eq!(decode::<lsp::Input>(&doc, &value).unwrap().operation, operation);
    }
    assert_eq!(paths::<lsp::Input>(&doc, json!({"operation": "rename", "line": 0})), ["line", "operation"]);
    let doc = test::decl().input;
    let decoded: test::Input = decode(&doc, &json!({"against": "base"})).unwrap();
    assert_eq!(decoded.against, Some(test::Against::Base));
}

#[test]
fn outputs_meet_their_documents() {
    let outcome = test::Outcome {
        command: "cargo test".into(),
        exit_code: 101,
        passed: 3,
        failed: vec!["a::b".into()],
        parsed: true,
        tail: "end".into(),
        tail_truncated: false,
        tail_dropped_bytes: 0,
        invalid_probe: None,
    };
    let output = test::Output {
        base: Some(test::BaseOutcome {
            outcome: outcome.clone(),
            reference: "HEAD".into(),
            commit: "c0".into(),
        }),
        outcome,
        introduced: Some(vec![]),
        preexisting: None,
        fixed: Some(vec![]),
    };
    let value = serde_json::to_value(&output).unwrap();
    assert_eq!((&value["exitCode"], &value["base"]["ref"]), (&json!(101), &json!("HEAD")));
    assert!(value.get("preexisting").is_none());
    let doc = test::decl().output;
    assert_eq!(doc.validate(&value), []);
    assert_eq!(decode::<test::Output>(&doc, &value).unwrap(), output);

    let mut value = json!({"stdout": "", "stderr": "", "stdoutTruncated": false, "stderrTruncated": false,
        "stdoutDroppedBytes": 0.0, "stderrDroppedBytes": 0, "exitCode": 137.0});
    let doc = bash::decl().output;
    assert_eq!(decode::<bash::Output>(&doc, &value).unwrap().exit_code, 137);
    value["invalidProbe"] = json!({"reason": "tree", "evidence": "", "message": ""});
    assert_eq!(paths::<bash::Output>(&doc, value), ["invalidProbe.reason"]);
}

#[test]
fn a_language_servers_answer_keeps_its_text() {
    let text = r#"{"result":{"z":1.50,"a":[null,1e400],"n":12345678901234567890123}}"#;
    let output: lsp::Output = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&output).unwrap(), text);
    let doc = lsp::decl().output;
    assert_eq!(decode::<lsp::Output>(&doc, &json!({"result": null})).unwrap().result.get(), "null");
    assert_eq!(paths::<lsp::Output>(&doc, json!({})), ["result"]);
}

#[test]
fn a_decode_failure_is_invalid_input() {
    let error = decode::<read::Input>(&read::decl().input, &json!({"offset": 0})).unwrap_err();
    assert_eq!(error.to_string(), "path: is required; offset: expected at least 1");
    let error: StdError = error.into();
    assert_eq!((error.code, error.path), (Code::InvalidInput, None));
    let error = decode::<read::Input>(&read::decl().input, &json!([])).unwrap_err();
    assert_eq!(error, DecodeError { issues: vec![Issue::new("", "expected object, got array")] });
}

#[test]
fn a_failure_is_bounded_however_large_the_input() {
    let doc = grep::decl().input;
    let globs: Vec<u32> = (0..100_000).collect();
    let found = issues::<grep::Input>(&doc, json!({"pattern": "a", "globs": globs}));
    assert_eq!((found.len(), found[19].path.as_str()), (MAX_ISSUES, "globs[19]"));
    let doc = fetch::decl().input;
    let name = "\u{e9}".repeat(100_000);
    let found = issues::<fetch::Input>(&doc, json!({"url": "u", "headers": {name: 1}}));
    assert_eq!(found[0].path, format!("headers.{}...", "\u{e9}".repeat(192)));
}
