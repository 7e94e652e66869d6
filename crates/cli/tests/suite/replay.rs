//! `replay`.

use serde_json::json;

use crate::bench::{Bench, keys};

#[test]
fn every_record_is_reproduced_and_nothing_dispatched() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"count": {"counter": "n.txt"}}"#);
    bench.write("a.js", "const a = await ctx.call('count'); console.log(a.n)");
    bench.write("b.js", "ctx.done([a, await ctx.call('count')])");
    bench.run(&["exec", "--run-id", "r", "--mock", "m.json", "a.js", "b.js"]).is(0);
    let before = std::fs::read(bench.database()).unwrap();
    let report = bench.run(&["replay", "r", "--json", "--mock", "m.json"]).is(0).json();
    assert_eq!(keys(&report), ["ok", "records", "run"]);
    // Two markers, two frames, two calls, the base before them, and the end.
    assert_eq!((&report["run"], &report["ok"], &report["records"]), (&json!("r"), &json!(true), &json!(8)));
    assert_eq!(bench.read("n.txt"), "2");
    assert_eq!(std::fs::read(bench.database()).unwrap(), before, "a replay writes nothing");
    assert!(bench.run(&["replay", "r", "--mock", "m.json"]).is(0).out.contains("8 records reproduced"));
}

#[test]
fn a_divergence_fails() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"f": {"returns": 1}}"#);
    bench.run(&["exec", "--run-id", "r", "--mock", "m.json", "-e", "ctx.done(await ctx.call('f'))"]).is(0);
    bench.write("m.json", r#"{"f": {"returns": 2}}"#);
    let report = bench.run(&["replay", "r", "--json", "--mock", "m.json"]).is(1).json();
    assert_eq!(keys(&report), ["diverged", "ok", "records", "run"]);
    assert_eq!(report["ok"], json!(false));
    assert_eq!(keys(&report["diverged"]), ["frame", "key", "why"]);
    bench.run(&["replay", "r"]).is(1);
}

#[test]
fn a_run_that_has_not_ended_is_replayed_as_far_as_it_goes() {
    let bench = Bench::new();
    bench.write("a.js", "const a = 1");
    bench.write("b.js", "ctx.park('waiting-event')");
    bench.run(&["exec", "--run-id", "r", "a.js", "b.js"]).is(3);
    let report = bench.run(&["replay", "r", "--json"]).is(0).json();
    // A whole frame is two records; of the parked one there is its marker.
    assert_eq!((&report["ok"], &report["records"]), (&json!(true), &json!(3)));
}

#[test]
fn a_run_that_stopped_in_mid_frame_is_replayed_as_far_as_it_goes() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"f": {"ident": true}, "gate": {"permission": "net:get:a"}}"#);
    bench.write("a.js", "const a = await ctx.call('f', 1)");
    bench.write("b.js", "const b = [await ctx.call('f', 2), await ctx.call('f', 3), await ctx.call('gate')]");
    bench.run(&["exec", "--run-id", "r", "--mock", "m.json", "a.js", "b.js"]).is(3);
    let replay = || bench.run(&["replay", "r", "--json", "--mock", "m.json"]).is(0).json();
    // The first frame is a marker, the base, a call and its end; the second a marker and two calls.
    assert_eq!(replay(), json!({"run": "r", "ok": true, "records": 7}));
    // A second attempt leaves a second marker.
    bench.run(&["resume", "r", "--mock", "m.json"]).is(3);
    assert_eq!(replay(), json!({"run": "r", "ok": true, "records": 8}));
    bench.run(&["approve", "r", "--once"]).is(0);
    bench.run(&["resume", "r", "--mock", "m.json"]).is(0);
    let whole = replay();
    assert_eq!(whole["ok"], json!(true));
    // The third marker, the gate, the second frame's end and the run's end.
    assert_eq!(whole["records"], json!(12));
}

/// A frame that a clock cut in the middle of its own code leaves the same names behind when it replays, where no clock runs.
#[test]
fn a_frame_that_a_clock_cut_leaves_what_it_left_when_it_replays() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"d": {"delay_ms": 20}}"#);
    bench.write("b.js", "ctx.done(k)");
    for (limit, cell) in [
        ("timeMs=80", "globalThis.k = 0; await ctx.call('d'); for (;;) k++"),
        ("totalMs=120", "globalThis.k = 0; await ctx.call('d'); for (;;) { k++; await null }"),
        (
            "timeMs=80",
            "globalThis.k = 0; (function f() { k++; Promise.resolve().then(f) })(); await new Promise(() => {})",
        ),
        ("steps=9", "globalThis.k = 0; for (;;) k++"),
    ] {
        bench.write("a.js", cell);
        let words = ["exec", "--json", "--mock", "m.json", "--limit", limit, "a.js", "b.js"];
        let run = bench.run(&words).is(0).json();
        assert_eq!(run["frames"][0]["code"], json!("limit_exceeded"), "{limit}: {cell}");
        assert!(run["output"].as_u64().unwrap() > 0);
        bench.run(&["replay", run["run"].as_str().unwrap(), "--mock", "m.json", "--json"]).is(0);
    }
}
