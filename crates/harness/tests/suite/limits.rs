//! Harness contract 3.4 and 3.5: console, limits and how they end a frame.

use std::time::Duration;

use flowcell_harness::failure::CallOutcome;
use flowcell_harness::program::RejectionCode;
use flowcell_harness::realm::{FrameEnd, Limits, Realm, SandboxError, Terminal};
use serde_json::json;

use crate::support::{Answer, Run, rejection};

#[tokio::test]
async fn console_prints_as_the_contract_says() {
    let mut run = Run::new().await;
    for (arguments, expected) in [
        ("'a', 1, -0, true, null, undefined", "a 1 0 true null undefined"),
        ("", ""),
        ("{b: 1, a: {d: [1, undefined, () => 1], c: undefined}}", "{\"a\":{\"d\":[1,null,null]},\"b\":1}"),
        ("(x) => x + 1, Symbol('s')", "(x) => x + 1 Symbol(s)"),
        ("new TypeError('bad'), [new Error('in')]", "TypeError: bad [{}]"),
        ("Object.assign(new Error(''), {name: 'Only'}), new Error('m')", "Only Error: m"),
        ("{toJSON() { return 1 }, a: 1}", "{\"a\":1}"),
        ("10n", "[unprintable bigint: JSON has no bigint — print its parts, or convert it first]"),
        ("[1n]", "[unprintable array: it holds a bigint — print its parts, or convert it first]"),
        (
            "(() => { const o = {}; o.o = o; return o })()",
            "[unprintable object: it holds itself — print its parts, or convert it first]",
        ),
        (
            "{get a() { throw 1 }}",
            "[unprintable object: reading it threw — print its parts, or convert it first]",
        ),
        ("{get a() { return 2 }}", "{\"a\":2}"),
        ("'\\ud800x', ['\\udc00']", "\u{FFFD}x [\"\u{FFFD}\"]"),
        ("NaN, [Infinity], 1e21", "null [null] 1e+21"),
        ("new Map([[1, 2]]), Object('s'), Object(3), Object(false)", "{} \"s\" 3 false"),
        ("{'\\u{1F600}': 1, '\\ue000': 2, B: 3}", "{\"B\":3,\"\u{1F600}\":1,\"\u{e000}\":2}"),
        ("[,1]", "[null,1]"),
    ] {
        assert_eq!(run.prints(&format!("console.log({arguments})")).await, expected, "{arguments}");
    }
    assert_eq!(
        run.prints("console.log(1); console.info(2); console.warn(3); console.error('4\\n5')").await,
        "1\n2\n3\n4\n5"
    );
    let deep = run.prints("let d = []; for (let i = 0; i < 1e5; i++) d = [d]; console.log(d)").await;
    assert!(deep.starts_with("[unprintable array: "), "{deep}");
}

#[tokio::test]
async fn prints_are_bounded_and_the_cut_is_stated() {
    let mut run = Run::new().await;
    let text = run.prints("console.log('a'); console.log('x'.repeat(1e6)); console.log('b')").await;
    assert!(
        text.len() <= 16_384
            && text.starts_with("a\nx")
            && text.contains("bytes cut")
            && text.ends_with(" printed and not read]"),
        "{}",
        text.len()
    );
    let text = run.prints("for (let i = 0; i < 1000; i++) console.log('line ' + i)").await;
    assert_eq!(text.lines().count(), 1000);
    let text = run.prints("for (let i = 0; i < 5000; i++) console.log('line ' + i)").await;
    assert!(text.len() <= 16_384 && text.contains("statements dropped here]") && text.ends_with("line 4999"));
    // Past the retention, payloads are not read.
    let text = run
        .prints("let read = 0; const o = {get a() { read++; return 'y'.repeat(1000) }}; for (let i = 0; i < 1000; i++) console.log(o); console.log('end'); globalThis.seen = read")
        .await;
    assert!(text.len() <= 16_384);
    let seen: u64 = run.prints("console.log(seen)").await.parse().unwrap();
    assert!((255..262).contains(&seen), "{seen}");
    assert!(text.ends_with("more statements were printed and not read]"), "{}", &text[text.len() - 100..]);
}

#[tokio::test]
async fn the_call_budget_counts_refused_calls_and_checkpoints() {
    let mut run = Run::new().await;
    run.options.limits.calls = 3;
    let text = "ctx.checkpoint(); ctx.call('nope'); ctx.call('ident', 1); ctx.call('ident', 2).catch(e => console.log(e.message)); ctx.call('ident', 3).catch(e => console.log(e.message))";
    let frame = run.cell(text).await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("calls")));
    assert_eq!(run.bridge.calls.len(), 3);
    let message = "The frame's limit of 3 calls is spent; no further call ran.";
    assert_eq!(frame.prints, format!("{message}\n{message}"));
    let boundary = frame.boundary.unwrap();
    assert_eq!((boundary.terminal, boundary.dispatched, boundary.settled), (Terminal::Settled, 2, 2));
    // The budget is the frame's.
    run.assert_works().await;
    run.options.limits.calls = 0;
    assert_eq!(rejection(&run.cell("await ctx.call('ident', 1)").await).1, Some("calls"));
}

#[tokio::test]
async fn steps_and_time_are_the_frames_and_calls_are_not_the_cells_time() {
    let mut run = Run::new().await;
    run.options.limits.steps = 20;
    let frame = run.cell("globalThis.kept = 1; while (true) {}").await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("steps")));
    assert!(frame.bindings.iter().any(|binding| binding.name == "kept"), "the probe has a budget of its own");
    assert_eq!(run.prints("console.log(kept)").await, "1");
    run.options.limits = Limits { time_ms: 150, ..Limits::default() };
    let frame = run.cell("const p = ctx.call('ident', 1); for (;;) {}").await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("timeMs")));
    assert!(run.bridge.calls.is_empty());
    assert_eq!(run.prints("await ctx.call('slow', {ms: 400}); console.log('in time')").await, "in time");
    // Replay knows no clock.
    run.options.clock_free = true;
    run.options.limits.time_ms = 1;
    run.options.limits.total_ms = 0;
    let text =
        "let s = 0; for (let i = 0; i < 3e6; i++) s += i; await ctx.call('slow', {ms: 20}); console.log(s)";
    assert_eq!(run.prints(text).await, "4499998500000");
}

#[tokio::test]
async fn total_time_cuts_the_call_in_flight() {
    let mut run = Run::new().await;
    run.options.limits.total_ms = 80;
    run.bridge.script.extend([Answer::Reply(CallOutcome::Success(json!(1))), Answer::Never]);
    let text = "await ctx.call('ident', 1); ctx.call('ident', 3).catch(e => console.log('queued', e.message)); try { await ctx.call('ident', 2) } catch (e) { console.log(e.message) }; for (;;) await ctx.call('ident', 4)";
    let frame = run.cell(text).await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("totalMs")));
    let boundary = frame.boundary.unwrap();
    assert_eq!((boundary.terminal, boundary.dispatched, boundary.settled), (Terminal::Timeout, 1, 0));
    assert_eq!(frame.prints, "queued The cell was interrupted\nThe cell was interrupted");
    run.options.limits = Limits { total_ms: 100, ..Limits::default() };
    let frame = run.cell("for (;;);").await;
    assert_eq!(rejection(&frame).1, Some("totalMs"));
    assert_eq!(frame.boundary.unwrap().dispatched, -1);
    run.options.limits = Limits::default();
    run.assert_works().await;
}

#[tokio::test]
async fn an_interrupted_frame_has_no_outcome_and_the_realm_goes_on() {
    let mut run = Run::new().await;
    run.bridge.script.push_back(Answer::Interrupt);
    let text = "console.log('before'); globalThis.log = []; ctx.call('ident', 2).catch(e => log.push(e.message)); try { await ctx.call('ident', 1) } catch (e) { log.push(e.name); console.log('torn down') } finally { ctx.call('ident', 3).catch(e => log.push('late')) }";
    assert_eq!(run.end(text).await.unwrap(), FrameEnd::Interrupted { prints: "before".into() });
    assert_eq!(run.bridge.calls.len(), 1);
    assert_eq!(run.prints("console.log(log)").await, "[\"The cell was interrupted\",\"Error\",\"late\"]");
    run.assert_works().await;
}

#[tokio::test]
async fn a_dropped_evaluation_loses_the_realm_and_nothing_else() {
    let mut run = Run::new().await;
    run.bridge.script.push_back(Answer::Never);
    let cut = tokio::time::timeout(Duration::from_millis(50), run.end("await ctx.call('ident', 1)")).await;
    assert!(cut.is_err());
    let error = run.end("1").await.unwrap_err();
    assert_eq!(error.code(), "runtime_failed");
}

#[tokio::test]
async fn limits_are_checked_before_anything_runs() {
    let mut limits = Limits::default();
    for (name, least) in [
        ("calls", 0),
        ("steps", 1),
        ("timeMs", 1),
        ("totalMs", 0),
        ("callMs", 0),
        ("memoryBytes", 1_048_576),
        ("stackBytes", 65_536),
    ] {
        for value in [json!(-1), json!(1.5), json!("5"), json!(null), json!(1_u64 << 53), json!(1e300)] {
            let error = limits.set(name, &value).unwrap_err();
            assert!(
                matches!(&error, SandboxError::Unsupported(text) if text.starts_with(&format!("The {name} limit must be "))),
                "{error}"
            );
        }
        limits.set(name, &json!(least)).unwrap();
        if least > 0 {
            assert!(limits.set(name, &json!(least - 1)).is_err());
        }
    }
    assert!(limits.set("stackBytes", &json!((16 << 20) + 1)).is_err());
    assert_eq!(limits.set("speed", &json!(1)).unwrap_err().code(), "unsupported");
    let bad = Limits { steps: 0, ..Limits::default() };
    assert_eq!(Realm::open(&bad).await.unwrap_err().code(), "unsupported");
    let mut run = Run::new().await;
    run.options.limits = bad;
    assert_eq!(run.end("globalThis.ran = 1").await.unwrap_err().code(), "unsupported");
    run.options.limits = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(run.prints("console.log(typeof ran, 'x'.repeat(4e6).length)").await, "undefined 4000000");
    let wire = serde_json::to_value(Limits::default()).unwrap();
    assert_eq!(wire["timeMs"], 30_000);
    assert_eq!(serde_json::from_value::<Limits>(json!({"steps": 5})).unwrap().calls, 64);
}
