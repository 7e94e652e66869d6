//! Ctrl-C, SIGTERM, crashes, and runs that another process works on.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::bench::Bench;

const MOCKS: &str = r#"{
  "count": {"counter": "n.txt", "tier": "irreversible"},
  "wait": {"counter": "waiting.txt", "delay_ms": 60000, "tier": "sealed"},
  "stop": {"permission": "net:get:stop"}
}"#;

const CELL: &str = "await ctx.call('count'); const w = await ctx.call('wait'); ctx.done(w)";

/// Starts a run and waits until its second call is in flight.
fn in_flight(bench: &Bench) -> Child {
    bench.write("m.json", MOCKS);
    let child = bench.spawn(&["exec", "--json", "--run-id", "r", "--mock", "m.json", "-e", CELL]);
    let until = Instant::now() + Duration::from_secs(9);
    while !bench.ws().join("waiting.txt").exists() {
        assert!(Instant::now() < until, "the call was not dispatched");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The rest of the run, with a wait that ends.
fn go_on(bench: &Bench) {
    let run = bench.run(&["show", "r", "--json"]).is(0).json();
    assert_eq!(run["status"], json!("interrupted"));
    // The declaration of a mock is its text: the same text is needed, so the wait is cut by its own ceiling.
    let resumed = bench.spawn(&["resume", "r", "--json", "--mock", "m.json"]);
    let until = Instant::now() + Duration::from_secs(9);
    while bench.read("waiting.txt") != "2" {
        assert!(Instant::now() < until, "the sealed call was not dispatched again");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(bench.read("n.txt"), "1", "the irreversible call is served from its record");
    signal(&resumed, "-TERM");
    assert_eq!(Bench::wait(resumed).is(130).code(), "interrupted");
}

#[test]
fn ctrl_c_lets_go_of_the_run() {
    let bench = Bench::new();
    let child = in_flight(&bench);
    assert_eq!(bench.run(&["runs", "--json"]).is(0).json()[0]["status"], json!("running"));
    signal(&child, "-INT");
    let answer = Bench::wait(child);
    assert_eq!(answer.is(130).code(), "interrupted");
    assert!(answer.last_line().contains("go on with `flowcell resume r --mock m.json`"), "{}", answer.err);
    assert_eq!(bench.run(&["runs", "--json"]).is(0).json()[0]["status"], json!("interrupted"));
    go_on(&bench);
}

#[test]
fn a_cell_that_never_yields_is_interrupted_too() {
    let bench = Bench::new();
    bench.write("a.js", "console.log('started')");
    bench.write("b.js", "while (true) {}");
    let child = bench.spawn(&["exec", "--json", "--run-id", "r", "a.js", "b.js"]);
    let until = Instant::now() + Duration::from_secs(9);
    loop {
        let runs = bench.run(&["runs", "--json"]).is(0).json();
        if runs[0]["frames"] == json!(1) {
            break;
        }
        assert!(Instant::now() < until, "{runs}");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&child, "-INT");
    assert_eq!(Bench::wait(child).is(130).code(), "interrupted");
}

#[test]
fn a_run_that_another_process_works_on_is_waited_for_or_not() {
    let bench = Bench::new();
    let child = in_flight(&bench);
    let held = bench.run(&["resume", "r", "--json", "--no-wait", "--mock", "m.json"]);
    assert_eq!(held.is(3).code(), "run_held");
    assert!(held.last_line().contains("`flowcell resume r --mock m.json`"), "{}", held.err);
    let waiting = bench.spawn(&["resume", "r", "--json", "--mock", "m.json"]);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(bench.read("waiting.txt"), "1", "the second process waits");
    signal(&child, "-KILL");
    assert_eq!(Bench::wait(child).status, -9);
    // The owner is proven dead, so its run is taken at once.
    let until = Instant::now() + Duration::from_secs(9);
    while bench.read("waiting.txt") != "2" {
        assert!(Instant::now() < until, "the run was not taken over");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&waiting, "-INT");
    let answer = Bench::wait(waiting);
    answer.is(130);
    assert!(answer.err.contains("waiting for process"), "{}", answer.err);
    assert_eq!(bench.read("n.txt"), "1");
}

#[test]
fn a_crash_at_a_commit_is_survived() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"count": {"counter": "n.txt", "tier": "irreversible"}}"#);
    let cell = "ctx.done([await ctx.call('count'), await ctx.call('count')])";
    for at in ["before:run-closed:1", "after:cell-call:1", "after:cell-frame:2", "before:call-started:2"] {
        let _ = std::fs::remove_file(bench.ws().join("n.txt"));
        let run = at.replace(':', "-");
        let words = ["exec", "--mock", "m.json", "--run-id", &run, "-e", cell];
        assert_eq!(bench.run_env("FLOWCELL_CRASH_AT", at, &words).status, -9, "{at}");
        assert_eq!(bench.run(&["runs", "--json"]).json()[0]["status"], json!("interrupted"), "{at}");
        let resumed = bench.run(&["resume", &run, "--json", "--mock", "m.json"]).is(0).json();
        assert_eq!(resumed["output"], json!([{"n": 1}, {"n": 2}]), "{at}");
        assert_eq!(bench.read("n.txt"), "2", "{at}");
    }
}

#[test]
fn a_crash_plan_that_does_not_parse_is_refused() {
    let bench = Bench::new();
    for bad in
        ["", "before", "before:cell-call", "before:cell-call:0", "during:cell-call:1", "after:cell_call:1"]
    {
        let answer = bench.run_env("FLOWCELL_CRASH_AT", bad, &["exec", "--json", "-e", "1"]);
        assert_eq!(answer.is(2).code(), "invalid_crash_at", "{bad:?}");
    }
    assert!(!bench.ws().join(".flowcell").exists());
}

#[test]
fn whoever_waits_for_standard_input_can_be_stopped() {
    let bench = Bench::new();
    let mut child = bench
        .command(crate::bench::BINARY, &["exec", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    assert_eq!(Bench::wait(child).status, -2);
    drop(input);
    assert!(!bench.ws().join(".flowcell").exists());
}
