//! Suspensions: `approve`, `deny`, `resume`.

use serde_json::json;

use crate::bench::{Answer, Bench, keys};

const MOCKS: &str = r#"{
  "gate": {"permission": "net:get:example.com"},
  "count": {"counter": "n.txt", "tier": "irreversible"}
}"#;

const CELL: &str = "const before = await ctx.call('count'); const r = await ctx.call('gate'); \
                    const after = await ctx.call('count'); ctx.done({before, r, after})";

fn parked(id: &str) -> (Bench, Answer) {
    let bench = Bench::new();
    bench.write("m.json", MOCKS);
    let answer = bench.run(&["exec", "--json", "--mock", "m.json", "--run-id", id, "-e", CELL]);
    answer.is(3);
    (bench, answer)
}

/// The commands between backquotes in the last line of standard error.
fn commands(answer: &Answer) -> Vec<String> {
    answer.last_line().split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn a_permission_parks_the_run_until_a_person_answers() {
    let (bench, answer) = parked("r");
    let run = answer.json();
    assert_eq!(keys(&run), ["frames", "run", "status", "suspended"]);
    assert_eq!(run["status"], json!("suspended"));
    assert_eq!(keys(&run["suspended"]), ["reason", "request"]);
    assert_eq!(run["suspended"]["reason"], json!("permission-required"));
    let request = &run["suspended"]["request"];
    assert_eq!((&request["capability"], &request["tier"]), (&json!("net:get:example.com"), &json!("sealed")));
    let parked = "call 1: gate null -> waits for net:get:example.com (permission-1)";
    let lines: Vec<&str> = answer.err.trim_end().lines().rev().take(2).collect();
    assert_eq!(lines[1], parked, "what waits stands before the last line");
    assert!(bench.run(&["show", "r"]).is(0).out.contains(&format!("\n  {parked}\n")));
    let commands = commands(&answer);
    assert_eq!(
        commands,
        ["flowcell approve r --once", "flowcell deny r", "flowcell resume r --mock m.json"],
        "{}",
        answer.last_line()
    );
    let waiting = bench.run(&["runs", "--json"]).is(0).json()[0].clone();
    assert_eq!(
        (&waiting["status"], &waiting["waiting"]["reason"]),
        (&json!("suspended"), &json!("permission-required"))
    );
    assert_eq!(waiting["waiting"]["request"], *request);
    assert!(bench.run(&["runs"]).is(0).out.contains("waits for net:get:example.com"));
    let shown = bench.run(&["show", "r", "--json"]).is(0).json();
    assert_eq!((&shown["status"], &shown["suspended"]), (&json!("suspended"), &run["suspended"]));

    // Unanswered, it parks again, and nothing is dispatched twice.
    let again = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(3).json();
    assert_eq!(bench.read("n.txt"), "1");
    let request = &again["suspended"]["request"];

    // The printed commands go on, from other processes.
    let approved = bench.shell(&format!("{} --json", commands[0]));
    let id = request["request_id"].clone();
    assert_eq!(approved.is(0).json(), json!({"run": "r", "request": id, "resolution": "once"}));
    assert_eq!(bench.run(&["runs", "--json"]).is(0).json()[0]["waiting"]["answered"], json!("once"));
    let said = bench.shell(&commands[0]).is(0).out.clone();
    assert_eq!(
        said,
        "net:get:example.com is allowed for this one call; go on with `flowcell resume r`, and the policy and mocks that the run was started with\n"
    );
    assert_eq!(bench.run(&["deny", "r", "--json"]).is(2).code(), "idempotency_conflict");
    let resumed = bench.shell(&format!("{} --json", commands[2])).is(0).json();
    assert_eq!(resumed["output"], json!({"before": {"n": 1}, "r": {"granted": true}, "after": {"n": 2}}));
    assert_eq!(bench.read("n.txt"), "2");
    let replayed: Vec<_> = resumed["frames"][0]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["replayed"].clone())
        .collect();
    assert_eq!(replayed, [json!(true), json!(false), json!(false)]);

    // Once is once: the finished run dispatches nothing, and a new run asks again.
    bench.run(&["resume", "r", "--mock", "m.json"]).is(0);
    assert_eq!(bench.read("n.txt"), "2");
    assert_eq!(bench.run(&["approve", "r", "--once", "--json"]).is(2).code(), "not_found");
    bench.run(&["exec", "--mock", "m.json", "-e", CELL]).is(3);
}

#[test]
fn a_denied_call_settles_as_refused() {
    let (bench, _) = parked("r");
    let denied = bench.run(&["deny", "r", "--json"]).is(0).json();
    assert_eq!(
        (keys(&denied), &denied["resolution"]),
        (vec!["request".into(), "resolution".into(), "run".into()], &json!("deny"))
    );
    let run = bench.run(&["resume", "r", "--json", "--mock", "m.json"]).is(0).json();
    assert_eq!(run["output"]["r"]["error"]["code"], json!("capability_refused"));
    assert_eq!(run["output"]["after"], json!({"n": 2}), "the cell went on");
    let call = &run["frames"][0]["calls"][1];
    assert_eq!((&call["ok"], &call["error"]["code"]), (&json!(false), &json!("capability_refused")));
}

#[test]
fn an_allow_rule_answers_as_well() {
    let (bench, _) = parked("r");
    let words = ["resume", "r", "--json", "--mock", "m.json", "--allow", "net:get:example.com"];
    let run = bench.run(&words).is(0).json();
    assert_eq!(run["output"]["r"], json!({"granted": true}));
    assert_eq!(bench.read("n.txt"), "2");
}

#[test]
fn an_answer_needs_a_question() {
    let (bench, answer) = parked("r");
    let id = answer.json()["suspended"]["request"]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(bench.run(&["approve", "r", "permission-99", "--once", "--json"]).is(2).code(), "not_found");
    assert_eq!(bench.run(&["approve", "nobody", "--once", "--json"]).is(2).code(), "not_found");
    assert_eq!(bench.run(&["approve", "r", "--json"]).is(2).code(), "usage");
    bench.run(&["approve", "r", &id, "--once"]).is(0);
    for words in [["resume", "nobody"], ["show", "nobody"], ["replay", "nobody"], ["deny", "nobody"]] {
        let answer = bench.run(&[words[0], words[1], "--json"]);
        assert_eq!(answer.is(2).code(), "not_found", "{words:?}");
        assert!(answer.json()["error"]["hint"].is_string(), "{words:?}");
    }
    let empty = Bench::new();
    assert_eq!(empty.run(&["resume", "r", "--json"]).is(2).code(), "not_found");
    assert!(!empty.ws().join(".flowcell").exists());
}

#[test]
fn mocks_are_named_again() {
    let (bench, _) = parked("r");
    let answer = bench.run(&["resume", "r", "--json"]);
    let run = answer.is(4).json();
    assert_eq!(run["error"]["code"], json!("incompatible_journal"));
    assert!(run["error"]["message"].as_str().unwrap().contains("count, gate"), "{run}");
    bench.write("m.json", &MOCKS.replace("example.com", "example.org"));
    bench.run(&["resume", "r", "--mock", "m.json"]).is(4);
    assert_eq!(bench.read("n.txt"), "1", "nothing was dispatched");
    bench.write("m.json", MOCKS);
    bench.run(&["resume", "r", "--mock", "m.json"]).is(3);
    bench.run(&["approve", "r", "--once"]).is(0);
    bench.run(&["resume", "r", "--mock", "m.json"]).is(0);
}

#[test]
fn a_cells_park_suspends_at_its_frame() {
    let bench = Bench::new();
    bench.write("a.js", "const a = 1; ctx.park('waiting-input', 'which\\u001b one?')");
    bench.write("b.js", "ctx.done(a + 1)");
    let answer = bench.run(&["exec", "--json", "--run-id", "r", "a.js", "b.js"]);
    let run = answer.is(3).json();
    assert_eq!(run["suspended"]["reason"], json!("waiting-input"));
    assert_eq!(run["frames"].as_array().unwrap().len(), 1);
    assert!(
        answer
            .last_line()
            .contains("waits for waiting-input: which\\u{1b} one?; go on with `flowcell resume r`"),
        "{}",
        answer.last_line()
    );
    assert_eq!(bench.run(&["approve", "r", "--once", "--json"]).is(2).code(), "not_found");
    let resumed = bench.run(&["resume", "r", "--json"]).is(0).json();
    assert_eq!((&resumed["status"], &resumed["output"]), (&json!("completed"), &json!(2)));
    let invalid = bench.run(&["exec", "--json", "-e", "ctx.park('tired')"]).is(1).json();
    assert_eq!(invalid["error"]["code"], json!("invalid_transition"));
}

#[test]
fn the_commands_that_go_on_name_the_place_and_the_rules() {
    let bench = Bench::new();
    let ws = bench.root();
    bench.write("m m.json", MOCKS);
    let data = bench.outside("data dir");
    let words = [
        "exec",
        "--mock",
        "m m.json",
        "-C",
        &ws,
        "--data-dir",
        data.to_str().unwrap(),
        "--deny",
        "net:get:x y",
        "--run-id",
        "r",
        "-e",
        CELL,
    ];
    let answer = bench.run(&words);
    let commands = commands(answer.is(3));
    assert_eq!(commands[0], format!("flowcell approve r --once -C {ws} --data-dir '{}'", data.display()));
    assert_eq!(
        commands[2],
        format!(
            "flowcell resume r -C {ws} --data-dir '{}' --deny 'net:get:x y' --mock 'm m.json'",
            data.display()
        )
    );
    bench.shell(&commands[0]).is(0);
    bench.shell(&commands[2]).is(0);
}

#[test]
fn a_resume_that_forgets_a_mock_leaves_the_run_parked() {
    let (bench, _) = parked("r");
    let forgotten = bench.run(&["resume", "r", "--json"]);
    assert_eq!(forgotten.is(4).code(), "incompatible_journal");
    assert_eq!(bench.run(&["runs", "--json"]).is(0).json()[0]["status"], json!("suspended"));
    bench.run(&["approve", "r", "--once"]).is(0);
    let resumed = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(0).json();
    assert_eq!(resumed["output"]["r"], json!({"granted": true}));
    assert_eq!(bench.read("n.txt"), "2");
}

/// Each request of a run has an id of its own: an answer to an old one does not meet a newer one.
#[test]
fn a_stale_request_is_not_answered() {
    let bench = Bench::new();
    bench.write(
        "m.json",
        r#"{"a": {"permission": "net:get:a.example"}, "b": {"permission": "net:post:b.example"}}"#,
    );
    let cell = "ctx.done([await ctx.call('a'), await ctx.call('b')])";
    let first = bench.run(&["exec", "--json", "--mock", "m.json", "--run-id", "r", "-e", cell]).is(3).json();
    let old = first["suspended"]["request"]["request_id"].as_str().unwrap().to_owned();
    bench.run(&["approve", "r", &old, "--once"]).is(0);
    let second = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(3).json();
    assert_eq!(second["suspended"]["request"]["capability"], json!("net:post:b.example"));
    assert_ne!(second["suspended"]["request"]["request_id"], json!(old));
    assert_eq!(bench.run(&["approve", "r", &old, "--once", "--json"]).is(2).code(), "not_found");
    let said = bench.run(&["deny", "r"]).is(0).out.clone();
    assert!(said.starts_with("net:post:b.example is refused for this call; go on with"), "{said}");
    let ended = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(0).json();
    assert_eq!(ended["output"][1]["error"]["code"], json!("capability_refused"));
}

/// What is approved is seen before it is: the call and its input, cut, with nothing live in it.
#[test]
fn the_call_that_waits_is_shown() {
    let bench = Bench::new();
    let root = bench.root();
    let cell = "await ctx.call('ls', {path: '.'}); \
                await ctx.call('write', {path: '**', content: 'evil\\u202e\\n' + 'x'.repeat(9000)})";
    let answer = bench.run(&["exec", "--run-id", "r", "-e", cell]);
    let shown = answer.is(3).err.lines().rev().nth(1).unwrap().to_owned();
    assert!(shown.starts_with("call 1: write {"), "{shown}");
    assert!(shown.contains("evil\\u{202e}") && shown.len() < 500, "{shown}");
    assert!(shown.ends_with(&format!("-> waits for fs:write:{root}/** (permission-1)")), "{shown}");
    assert!(!answer.last_line().contains("--allow"), "{}", answer.last_line());
    let text = bench.run(&["show", "r"]).is(0).out.clone();
    assert!(text.contains(&format!("  {shown}\n")), "{text}");
    bench.run(&["approve", "r", "--once"]).is(0);
    bench.run(&["resume", "r"]).is(0);
    assert!(!bench.run(&["show", "r"]).is(0).out.contains("waits for"));
}

/// The command that goes on is one that a shell reads back, whatever the workspace is called.
#[test]
fn the_last_line_is_one_line_that_a_shell_reads() {
    let bench = Bench::new();
    bench.write("odd\n'\u{1b}/m.json", r#"{"p": {"permission": "net:get:a.example"}}"#);
    let words = [
        "exec",
        "-C",
        "odd\n'\u{1b}",
        "--mock",
        "odd\n'\u{1b}/m.json",
        "--run-id",
        "r",
        "-e",
        "await ctx.call('p')",
    ];
    let answer = bench.run(&words);
    let line = answer.is(3).last_line().to_owned();
    assert!(line.contains(r"flowcell resume r -C $'odd\n\'\x1b' --mock $'odd\n\'\x1b/m.json'"), "{line}");
}

#[test]
fn what_a_cell_printed_before_it_waits_is_shown() {
    let bench = Bench::new();
    bench.write("m.json", MOCKS);
    let cell =
        "console.log('looking around'); try { await ctx.call('gate') } catch { console.log('torn down') }";
    let answer = bench.run(&["exec", "--mock", "m.json", "--json", "-e", cell]);
    let frame = answer.is(3).json()["frames"][0].clone();
    assert_eq!(frame["prints"], json!("looking around"));
    assert!(answer.err.contains("| looking around"), "{}", answer.err);
    assert!(!answer.err.contains("torn down"), "{}", answer.err);
}
