//! Mock flows (CLI contract 4): every member.

use serde_json::{Value, json};

use crate::bench::Bench;

fn call(bench: &Bench, mocks: &Value, cell: &str) -> Value {
    bench.write("m.json", &mocks.to_string());
    let words = ["exec", "--json", "--mock", "m.json", "-e", cell];
    bench.run(&words).is(0).json()["output"].clone()
}

const DONE: &str = "ctx.done(await ctx.call('f', {a: 1}))";

#[test]
fn returns_ident_and_counter() {
    let bench = Bench::new();
    assert_eq!(call(&bench, &json!({"f": {"returns": {"x": [1, null]}}}), DONE), json!({"x": [1, null]}));
    assert_eq!(call(&bench, &json!({"f": {"returns": null}}), DONE), json!(null));
    assert_eq!(call(&bench, &json!({"f": {}}), DONE), json!(null));
    assert_eq!(call(&bench, &json!({"f": {"ident": true}}), DONE), json!({"a": 1}));
    assert_eq!(call(&bench, &json!({"f": {"ident": true}}), "ctx.done(await ctx.call('f'))"), json!(null));
    let file = bench.outside("counter").display().to_string();
    let mocks = json!({"f": {"counter": file, "delay_ms": 1}});
    assert_eq!(call(&bench, &mocks, DONE), json!({"n": 1}));
    assert_eq!(call(&bench, &mocks, DONE), json!({"n": 2}));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "2");
}

#[test]
fn failures_are_disclosed_only_with_a_code() {
    let bench = Bench::new();
    let hidden = call(&bench, &json!({"f": {"fails": "the secret"}}), DONE);
    assert_eq!(hidden["ok"], json!(false));
    assert_eq!(
        (&hidden["error"]["code"], &hidden["error"]["message"]),
        (&json!("flow_failed"), &json!("Flow f failed."))
    );
    assert!(hidden["error"].get("flowCode").is_none());
    let told = call(&bench, &json!({"f": {"fails": "no such row", "code": "not_found"}}), DONE);
    assert_eq!(
        (&told["error"]["message"], &told["error"]["flowCode"]),
        (&json!("not_found: no such row"), &json!("not_found"))
    );
}

#[test]
fn input_is_judged_by_its_schema() {
    let bench = Bench::new();
    let schema = json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]});
    let mocks = json!({"f": {"input": schema, "ident": true}});
    let refused = call(&bench, &mocks, DONE);
    assert_eq!(refused["error"]["code"], json!("invalid_input"));
    assert_eq!(call(&bench, &mocks, "ctx.done(await ctx.call('f', {b: 'x'}))"), json!({"b": "x"}));
}

#[test]
fn never_is_ended_by_the_ceiling_of_a_call() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"f": {"never": true}}"#);
    let words = ["exec", "--json", "--limit", "callMs=50", "--mock", "m.json", "-e", DONE];
    let output = bench.run(&words).is(0).json()["output"].clone();
    assert_eq!(output["error"]["code"], json!("timeout"));
}

#[test]
fn permission_is_asked_and_refused_like_any_other() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"f": {"permission": "proc:spawn:true"}}"#);
    let words =
        |rule: &'static str| ["exec", "--json", "--mock", "m.json", rule, "proc:spawn:true", "-e", DONE];
    assert_eq!(bench.run(&words("--allow")).is(0).json()["output"], json!({"granted": true}));
    let denied = bench.run(&words("--deny")).is(0).json()["output"].clone();
    assert_eq!(denied["error"]["code"], json!("capability_refused"));
    let asked = bench.run(&words("--ask")).is(3).json();
    assert_eq!(asked["suspended"]["request"]["tier"], json!("irreversible"));
}

#[test]
fn an_engine_error_is_no_answer_a_cell_can_read() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"f": {"engine_error": true, "tier": "sealed"}}"#);
    let words = [
        "exec",
        "--json",
        "--run-id",
        "r",
        "--mock",
        "m.json",
        "-e",
        "try { await ctx.call('f') } catch { ctx.done(1) }",
    ];
    let run = bench.run(&words).is(1).json();
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("engine_failed")));
    assert_eq!(bench.run(&["runs", "--json"]).json()[0]["status"], json!("interrupted"), "it can be resumed");
}

#[test]
fn a_tier_decides_what_a_crash_leaves() {
    let bench = Bench::new();
    let counter = bench.outside("n").display().to_string();
    for (tier, code, count) in [("sealed", None, "2"), ("irreversible", Some("outcome_unknown"), "1")] {
        std::fs::write(&counter, "0").unwrap();
        bench.write("m.json", &json!({"f": {"counter": counter, "tier": tier}}).to_string());
        let words = ["exec", "--mock", "m.json", "--run-id", tier, "-e", DONE];
        let crashed = bench.run_env("FLOWCELL_CRASH_AT", "before:cell-call:1", &words);
        assert_eq!(crashed.status, -9, "{crashed:?}");
        let run = bench.run(&["resume", tier, "--json", "--mock", "m.json"]).is(0).json();
        match code {
            Some(code) => assert_eq!(run["output"]["error"]["code"], json!(code)),
            None => assert_eq!(run["output"], json!({"n": 2})),
        }
        assert_eq!(std::fs::read_to_string(&counter).unwrap(), count, "{tier}");
    }
}

#[test]
fn a_mock_takes_the_place_of_a_standard_flow_and_later_files_count() {
    let bench = Bench::new();
    bench.write("a.json", r#"{"read": {"returns": "mocked"}, "g": {"returns": 1}}"#);
    bench.write("b.json", r#"{"g": {"returns": 2}}"#);
    let cell = "ctx.done([await ctx.call('read', {path: '/none'}), await ctx.call('g'), Object.keys(ctx.flows).includes('g')])";
    let words = ["exec", "--json", "--mock", "a.json", "--mock", "b.json", "-e", cell];
    assert_eq!(bench.run(&words).is(0).json()["output"], json!(["mocked", 2, true]));
}

#[test]
fn a_mock_file_that_is_wrong_is_refused_before_anything_is_made() {
    let bench = Bench::new();
    for (text, part) in [
        ("", "EOF"),
        ("[]", "not a JSON object"),
        (r#"{"f": {"retruns": 1}}"#, "unknown field"),
        (r#"{"f": {"returns": 1, "ident": true}}"#, "more than one answer"),
        (r#"{"": {"returns": 1}}"#, "a flow has a name"),
        (r#"{"f": {"code": "not_found"}}"#, "goes with"),
        (r#"{"f": {"permission": "fs:fly:/x"}}"#, "not a capability"),
        (r#"{"f": {"tier": "solid"}}"#, "unknown variant"),
        (r#"{"f": {"fails": "x", "code": "nope"}}"#, "unknown variant"),
    ] {
        bench.write("m.json", text);
        let answer = bench.run(&["exec", "--json", "--mock", "m.json", "-e", "1"]);
        assert_eq!(answer.is(2).code(), "invalid_input", "{text}");
        let error = answer.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(part), "{text}: {error}");
        assert_eq!((&error["path"], error["hint"].is_string()), (&json!("m.json"), true));
    }
    assert_eq!(
        bench.run(&["exec", "--json", "--mock", "none.json", "-e", "1"]).is(2).code(),
        "unreadable_file"
    );
    assert!(!bench.ws().join(".flowcell").exists());
}

#[test]
fn a_counter_counts_beside_any_answer() {
    let bench = Bench::new();
    bench.write(
        "m.json",
        r#"{"a": {"counter": "n", "returns": 7}, "b": {"counter": "n", "fails": "x", "code": "not_found"},
        "c": {"counter": "n", "permission": "net:get:example.com"}, "d": {"counter": "n"}}"#,
    );
    let cell = "ctx.done([await ctx.call('a'), (await ctx.call('b')).error.flowCode, await ctx.call('c'), await ctx.call('d')])";
    let words = ["exec", "--json", "--mock", "m.json", "--run-id", "r", "-e", cell];
    bench.run(&words).is(3);
    assert_eq!(bench.read("n"), "2", "what is not permitted does not count");
    bench.run(&["approve", "r", "--once"]).is(0);
    let run = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(0).json();
    assert_eq!(run["output"], json!([7, "not_found", {"granted": true}, {"n": 4}]));
}

/// A process that is killed while it counts leaves the old number or the new one, and two processes count both.
#[test]
fn a_counter_is_whole_whatever_happens_to_its_process() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"c": {"counter": "n"}}"#);
    let cell = "for (let i = 0; i < 60; i++) await ctx.call('c')";
    let words = ["exec", "--mock", "m.json", "--engine", "memory:", "-e", cell];
    let both = [bench.spawn(&words), bench.spawn(&words)];
    for mut process in both {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(bench.read("n"), "120");
    bench.write("n", "0000007\n");
    for wait in 0..10 {
        let mut process = bench.spawn(&words);
        std::thread::sleep(std::time::Duration::from_millis(40 + 7 * wait));
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(bench.read("n").trim().parse::<u64>().unwrap() >= 7);
    }
}
