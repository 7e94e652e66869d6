//! Harness contract 3: `ctx`, values, the drive loop, outcomes and the panel; cases 4 to 9.

use flowcell_harness::failure::{CallFailureCode, CallOutcome};
use flowcell_harness::program::{RejectionCode, Source, validate};
use flowcell_harness::realm::{
    BindingReading, BridgeRequest, FrameEnd, FrameOptions, Limits, Outcome, ParkReason, Realm, RealmFrame,
    Terminal, Transition, from_json,
};
use serde_json::{Value, json};

use crate::support::{Answer, Run, block_on, completed, go_on, raised, rejection};

#[tokio::test]
async fn case_4_names_persist_and_rebind() {
    let mut run = Run::new().await;
    assert_eq!(
        run.cell("const n = 1; let f = () => n; class K { v() { return n } } function g() { return f() }")
            .await
            .outcome,
        go_on()
    );
    assert_eq!(
        run.prints("console.log(f(), new K().v(), g(), globalThis.n, Object.hasOwn(globalThis, 'K'))").await,
        "1 1 1 1 true"
    );
    assert_eq!(run.prints("var n0; const n = n0 = 2; console.log(n)").await, "2");
    assert_eq!(run.prints("let n; n ??= 7; const g = 3; console.log(n, g); n = 8").await, "7 3");
    // A nested scope keeps its own names.
    assert_eq!(
        run.prints("{ let n = 1; class K {} } for (let n = 0; n < 1; n++); console.log(n, typeof K)").await,
        "8 function"
    );
    // Sloppy mode, as a script is.
    assert_eq!(
        run.prints(
            "implicit = 010; with ({a: 4}) { console.log(a, implicit) }; console.log(this === globalThis)"
        )
        .await,
        "4 8\ntrue"
    );
}

#[tokio::test]
async fn case_5_a_throw_leaves_names_usable() {
    let mut run = Run::new().await;
    let frame = run.cell("let a = 1; throw new Error(\"x\"); const later = 2").await;
    assert_eq!(raised(&frame), ("Error", "x"));
    assert_eq!(run.prints("console.log(a); console.log(later)").await, "1\nundefined");
}

#[tokio::test]
async fn case_6_calls_run_one_at_a_time_in_issue_order() {
    let mut run = Run::new().await;
    let frame = run
        .cell("const [a,b] = await Promise.all([ctx.call(\"ident\",1), ctx.call(\"ident\",2)]); ctx.done([a, b])")
        .await;
    assert_eq!(completed(&frame), &json!([1, 2]));
    assert_eq!(run.bridge.issued(), [(0, "ident".into(), json!(1)), (1, "ident".into(), json!(2))]);
    assert_eq!(run.bridge.in_flight, 1);
    assert_eq!(frame.boundary, None);
}

#[tokio::test]
async fn case_7_the_first_done_wins() {
    let mut run = Run::new().await;
    let frame = run
        .cell("ctx.done(\"a\"); ctx.done(\"b\"); ctx.park('nonsense'); console.log((await ctx.call(\"ident\",1)).error.code)")
        .await;
    assert_eq!(
        frame.outcome,
        Outcome::Settled { transition: Transition::Complete { output: json!("a"), text: "a".into() } }
    );
    assert_eq!(frame.prints, "run_completed");
    assert!(run.bridge.calls.is_empty());
    let text = "const r = [await ctx.call('ident', undefined), 0]; ctx.done(); ";
    assert_eq!(raised(&run.cell(text).await).0, "TypeError");
    let frame = run.cell("try { ctx.done() } catch {}; ctx.done(undefined); await ctx.checkpoint().then(r => console.log(r.ok, r.error.hint.length > 0))").await;
    assert_eq!((completed(&frame), frame.prints.as_str()), (&json!(null), "false true"));
    // The latch opens with the next frame.
    assert_eq!(run.prints("console.log(await ctx.call('ident', 3))").await, "3");
}

#[tokio::test]
async fn case_8_a_throw_after_done_raises() {
    let mut run = Run::new().await;
    let frame = run.cell("ctx.done(\"a\"); throw new Error(\"late\")").await;
    assert_eq!(raised(&frame), ("Error", "late"));
    run.assert_works().await;
}

#[tokio::test]
async fn case_9_undefined_members_drop_and_undefined_items_throw() {
    let mut run = Run::new().await;
    run.cell("await ctx.call(\"ident\", {u: undefined})").await;
    assert_eq!(run.bridge.issued(), [(0, "ident".into(), json!({}))]);
    let frame = run.cell("ctx.call(\"ident\", [undefined])").await;
    assert_eq!(raised(&frame), ("TypeError", "ctx.call input must be JSON-serializable"));
    assert!(run.bridge.calls.is_empty());
    run.cell("try { ctx.call('ident', 1n) } catch {}; await ctx.call('ident')").await;
    assert_eq!(run.bridge.issued(), [(0, "ident".into(), json!(null))]);
}

#[tokio::test]
async fn ctx_has_its_members_and_no_other() {
    let mut run = Run::new().await;
    run.flows(&["read", "__proto__"]);
    let text = "console.log(Object.getOwnPropertyNames(ctx).sort().join(), Object.getPrototypeOf(ctx), Object.isFrozen(ctx), \
        Object.isFrozen(ctx.base), ctx.base, Object.isFrozen(ctx.call), Object.isFrozen(console), Object.keys(console).join());\n\
        const d = n => Object.getOwnPropertyDescriptor(globalThis, n);\n\
        console.log(d('ctx').writable, d('ctx').configurable, d('console').writable, d('console').configurable)";
    assert_eq!(
        run.prints(text).await,
        "base,call,checkpoint,done,flows,justify,park null true true {\"checkpoint\":\"base\"} true true log,info,warn,error\n\
         false false false false"
    );
    // Assigning and deleting does nothing in sloppy code and throws in strict code.
    let text = "ctx.call = 1; delete ctx.done; ctx.more = 2; ctx.flows = 3; ctx = 4; console = 5; delete globalThis.ctx;\n\
        console.log(typeof ctx.call, typeof ctx.done, ctx.more, typeof ctx.flows);\n\
        try { (() => { 'use strict'; ctx.call = 1 })() } catch (e) { console.log(e) }\n\
        try { (() => { 'use strict'; ctx = 1 })() } catch (e) { console.log(e.name) }\n\
        for (const n of ['ctx', 'console']) try { Object.defineProperty(globalThis, n, {value: 1}) } catch (e) { console.log(e.name) }";
    let prints = run.prints(text).await;
    assert!(prints.starts_with("function function undefined object\nTypeError: "), "{prints}");
    assert!(prints.ends_with("\nTypeError\nTypeError\nTypeError"), "{prints}");
    run.assert_works().await;
}

#[tokio::test]
async fn flows_is_a_frozen_map_that_the_host_may_swap() {
    let mut run = Run::new().await;
    run.flows(&["read", "__proto__", "constructor"]);
    let prints = run
        .prints("const old = ctx.flows; console.log(Object.keys(old).join(), old.read, Object.isFrozen(old) && Object.isFrozen(old.read.input) && Object.isFrozen(old.read.capabilities)); console.log(old.constructor.name, old.toString)")
        .await;
    assert_eq!(
        prints,
        "read,__proto__,constructor {\"capabilities\":[\"fs:read:**\"],\"description\":\"Does read.\",\"input\":{\"type\":\"object\"},\"name\":\"read\",\"placement\":null,\"tier\":\"sealed\"} true\nconstructor undefined"
    );
    run.flows(&["grep"]);
    assert_eq!(
        run.prints("console.log(Object.keys(ctx.flows), Object.keys(old), ctx.flows.grep.placement)").await,
        "[\"grep\"] [\"read\",\"__proto__\",\"constructor\"] null"
    );
}

#[tokio::test]
async fn a_name_that_is_no_string_rejects() {
    let mut run = Run::new().await;
    let text = "await ctx.call(5).catch(e => console.log(e.name)); console.log(await ctx.call({}).catch(e => e.name))";
    assert_eq!(run.prints(text).await, "TypeError\nTypeError");
    assert!(run.bridge.calls.is_empty());
}

#[tokio::test]
async fn calls_answer_values_and_failures() {
    let mut run = Run::new().await;
    let prints = run.prints("console.log(await ctx.call('fail', {}), await ctx.call('nope'))").await;
    assert_eq!(
        prints,
        format!(
            "{{\"error\":{{\"code\":\"flow_failed\",\"flowCode\":\"stale_read\",\"hint\":{:?},\"message\":\"stale_read: it changed\"}},\"ok\":false}} \
             {{\"error\":{{\"code\":\"unknown_flow\",\"hint\":{:?},\"message\":\"There is no flow nope.\"}},\"ok\":false}}",
            CallFailureCode::FlowFailed.hint(),
            CallFailureCode::UnknownFlow.hint()
        )
    );
    assert_eq!(run.bridge.issued().len(), 2);
}

#[tokio::test]
async fn checkpoints_share_the_ordinals_and_at_is_carried() {
    let mut run = Run::new().await;
    let text = "const [a, b, c, d, e] = await Promise.all([ctx.checkpoint(), ctx.call('ident', 1, {at: ctx.base}), ctx.call('ident', 2, {at: ctx.checkpoint()}), \
        ctx.call('ident', 3, {at: new Promise(() => {})}), ctx.call('ident', 4, {})]); console.log(a.error.code, b.error.code, c.error.code, d.error.code, e)";
    let unavailable = "checkpoint_unavailable";
    assert_eq!(run.prints(text).await, format!("{unavailable} {unavailable} {unavailable} {unavailable} 4"));
    let at: Vec<Option<Value>> = run
        .bridge
        .calls
        .iter()
        .map(|(_, request)| match request {
            BridgeRequest::Checkpoint => Some(json!("mint")),
            BridgeRequest::Call { at, .. } => at.clone(),
        })
        .collect();
    let base = json!({"checkpoint": "base"});
    assert_eq!(at[..3], [Some(json!("mint")), Some(base), Some(json!("mint"))]);
    // The handle of a call at ordinal 3 is what the checkpoint at ordinal 2 resolved to.
    assert_eq!(at[3].as_ref().unwrap()["error"]["code"], unavailable);
    assert_eq!(at[4..], [Some(Value::Null), None]);
}

#[tokio::test]
async fn what_cannot_cross_is_refused() {
    let mut run = Run::new().await;
    let refused = [
        "() => 1",
        "Symbol('x')",
        "1n",
        "NaN",
        "1/0",
        "-1/0",
        "[,1]",
        "[undefined]",
        "{get a() { return 1 }}",
        "new (class A {})",
        "new Map",
        "new Set",
        "/x/",
        "new Error('x')",
        "(() => { const o = {}; o.o = o; return o })()",
        "(() => { const a = []; a[0] = a; return a })()",
        "'\\ud800'",
        "{'\\udc00': 1}",
        "{a: [{b: Symbol.iterator}]}",
        "Array.from({length: 129}).reduce(a => [a], 1)",
        "Object(1)",
        "new (class extends Array {})",
        "Promise.resolve(1)",
        "Object.create({a: 1})",
        "Object.defineProperty([1], 0, {get: () => 1})",
        "new Uint8Array(2)",
    ];
    for value in refused {
        let frame = run.cell(&format!("ctx.call('ident', ({value}))")).await;
        assert_eq!(raised(&frame), ("TypeError", "ctx.call input must be JSON-serializable"), "{value}");
        assert!(run.bridge.calls.is_empty());
    }
    for (text, label) in [
        ("ctx.done(1n)", "ctx.done output"),
        ("ctx.park(1n)", "ctx.park reason"),
        ("ctx.park('waiting-input', () => 1)", "ctx.park message"),
        ("ctx.justify(undefined)", "ctx.justify text"),
    ] {
        let frame = run.cell(text).await;
        assert_eq!(raised(&frame), ("TypeError", format!("{label} must be JSON-serializable").as_str()));
    }
    for (value, expected) in [
        ("-0", json!(0)),
        ("{a: undefined, b: 1}", json!({"b": 1})),
        ("{toJSON() { return 5 }, a: 1}", json!(null)),
        ("Object.assign(Object.create(null), {a: 1})", json!({"a": 1})),
        ("{['__proto__']: 1, constructor: 2, '': 3}", json!({"__proto__": 1, "constructor": 2, "": 3})),
        ("(s => [s, s])({x: 1})", json!([{"x": 1}, {"x": 1}])),
        ("{[Symbol.iterator]: 1, a: 1}", json!({"a": 1})),
        ("Object.defineProperty({a: 1}, 'hidden', {value: () => 1})", json!({"a": 1})),
        ("1e21", json!(1e21)),
        ("'\\u0000\\u2028\\ud83d\\ude00'", json!("\0\u{2028}\u{1F600}")),
    ] {
        let frame = run.cell(&format!("ctx.done(await ctx.call('ident', ({value})))")).await;
        if expected.is_null() {
            assert_eq!(raised(&frame).0, "TypeError", "{value}");
        } else {
            // A whole number is an integer once it crossed.
            let output = completed(&frame);
            assert_eq!(
                output.to_string().replace(".0", ""),
                expected.to_string().replace(".0", ""),
                "{value}"
            );
        }
    }
    // 128 levels cross, both ways.
    let frame =
        run.cell("ctx.done(await ctx.call('ident', Array.from({length: 127}).reduce(a => [a], [1])))").await;
    assert!(completed(&frame).is_array());
}

#[tokio::test]
async fn replies_have_data_properties_only() {
    let mut run = Run::new().await;
    let text = "Object.defineProperty(Object.prototype, 'x', {set() { throw 1 }, configurable: true});\n\
        Object.defineProperty(Array.prototype, 0, {set() { throw 2 }, configurable: true});\n\
        const r = await ctx.call('ident', JSON.parse('{\"x\":1,\"__proto__\":{\"y\":1},\"l\":[1]}'));\n\
        delete Object.prototype.x; delete Array.prototype[0];\n\
        console.log(Object.getOwnPropertyDescriptor(r, 'x'), Object.hasOwn(r, '__proto__'), r.y, Object.getPrototypeOf(r) === Object.prototype, r.l, Object.hasOwn(r, 'then'))";
    assert_eq!(
        run.prints(text).await,
        "{\"configurable\":true,\"enumerable\":true,\"value\":1,\"writable\":true} true undefined true [1] false"
    );
}

#[tokio::test]
async fn replies_too_deep_or_too_large_end_the_frame() {
    let mut run = Run::with(|limits| limits.memory_bytes = 8 << 20).await;
    let deep = (0..129).fold(json!(1), |value, _| json!([value]));
    run.bridge.script.push_back(Answer::Reply(CallOutcome::Success(deep)));
    let frame = run.cell("try { await ctx.call('ident', 1) } catch (e) { console.log(e.message) }").await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("heap")));
    let boundary = frame.boundary.unwrap();
    assert_eq!((boundary.terminal, boundary.dispatched, boundary.settled), (Terminal::Settled, 0, -1));
    run.assert_works().await;
    let large = json!("x".repeat(5 << 20));
    run.bridge.script.push_back(Answer::Reply(CallOutcome::Success(large)));
    let frame = run.cell("await ctx.call('ident', 1); ctx.call('ident', 2)").await;
    assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("heap")));
    assert!(frame.boundary.is_some());
    run.assert_works().await;
    let fits = json!("x".repeat(1 << 20));
    run.bridge.script.push_back(Answer::Reply(CallOutcome::Success(fits)));
    assert_eq!(run.prints("console.log((await ctx.call('ident', 1)).length)").await, "1048576");
}

#[tokio::test]
async fn unawaited_calls_run_before_the_frame_closes() {
    let mut run = Run::new().await;
    run.cell("ctx.call('ident', 1).then(() => ctx.call('ident', 2)); ctx.done(0)").await;
    assert_eq!(run.bridge.issued(), [(0, "ident".into(), json!(1))], "the second call comes after done");
    run.cell("ctx.call('ident', 1).then(() => ctx.call('ident', 2))").await;
    assert_eq!(run.bridge.issued().len(), 2);
    // Nobody handles a rejection: nothing changes.
    assert_eq!(
        run.cell("Promise.reject(new Error('x')); (async () => { throw 1 })()").await.outcome,
        go_on()
    );
}

#[tokio::test]
async fn park_justify_and_stalled() {
    let mut run = Run::new().await;
    let frame = run.cell("ctx.park('waiting-input', 'which one?')").await;
    assert_eq!(
        frame.outcome,
        Outcome::Settled {
            transition: Transition::Park { reason: ParkReason::WaitingInput, message: "which one?".into() }
        }
    );
    let frame = run.cell("ctx.park('waiting-quota')").await;
    assert_eq!(
        frame.outcome,
        Outcome::Settled {
            transition: Transition::Park { reason: ParkReason::WaitingQuota, message: String::new() }
        }
    );
    for reason in ["'soon'", "5", "{}", "'waiting-input '"] {
        let frame = run.cell(&format!("ctx.park({reason}, 'x')")).await;
        assert_eq!(rejection(&frame), (RejectionCode::InvalidTransition, None), "{reason}");
    }
    let frame = run.cell("ctx.justify('a'); ctx.justify('b')").await;
    assert_eq!(
        frame.outcome,
        Outcome::Settled { transition: Transition::Continue { justification: Some("b".into()) } }
    );
    assert_eq!(run.cell("1").await.outcome, go_on());
    for text in ["await new Promise(() => {})", "ctx.done(1); await new Promise(() => {})"] {
        let frame = run.cell(text).await;
        assert_eq!(rejection(&frame), (RejectionCode::Stalled, None));
        assert_eq!(frame.boundary, None);
    }
    run.assert_works().await;
}

#[tokio::test]
async fn thrown_values_are_described() {
    let mut run = Run::new().await;
    for (text, name, message) in [
        ("throw 'plain'", "Error", "plain"),
        ("throw {name: 'N', message: 'm'}", "N", "m"),
        ("throw {message: 'm'}", "Error", "m"),
        ("throw {code: 1, a: [2]}", "Error", "{\"a\":[2],\"code\":1}"),
        ("throw 5", "Error", "5"),
        ("throw null", "Error", "null"),
        ("throw undefined", "Error", "undefined"),
        ("throw new TypeError('t')", "TypeError", "t"),
        ("null.x", "TypeError", "cannot read property 'x' of null"),
        (
            "throw {get name() { throw 1 }, get message() { throw 2 }}",
            "Error",
            "[unprintable object: reading it threw — print its parts, or convert it first]",
        ),
        ("throw {get message() { for (;;); }}", "Error", "the thrown value cannot be read"),
        ("missing", "ReferenceError", "missing is not defined"),
        ("await Promise.reject(new RangeError('later'))", "RangeError", "later"),
    ] {
        let frame = run.cell(text).await;
        assert_eq!(raised(&frame), (name, message), "{text}");
    }
    let frame = run.cell("throw 'x'.repeat(1e6)").await;
    let message = raised(&frame).1;
    assert!(message.len() <= 4096 && message.contains("bytes cut"), "{}", message.len());
}

#[tokio::test]
async fn what_only_the_compiler_finds_is_compile_failed() {
    let mut run = Run::new().await;
    for text in ["const a = 1;\nbreak", "{ let x; let x }", "const f = /(/"] {
        let frame = run.cell(text).await;
        assert_eq!(rejection(&frame), (RejectionCode::CompileFailed, None), "{text}");
    }
    let frame = run.cell("const a = 1;\n  break").await;
    let Outcome::Rejected { message, .. } = &frame.outcome else { panic!() };
    assert!(message.starts_with("Line 2, column ") && message.ends_with("\n      break"), "{message}");
    run.assert_works().await;
}

#[tokio::test]
async fn the_panel_reads_every_kind_of_name() {
    let mut run = Run::new().await;
    let frame = run
        .cell(
            "let n = null, u, s = 'h\u{e9}y', f = (a, b) => 1, a = [1, 2], o = {x: 1}, i = 3, t = true, b = 1n, y = Symbol('q'), m = new Map([[1, 2]]);\n\
             Object.defineProperty(globalThis, 'get', {get() { throw new Error('never run') }, configurable: true}); Array = 5",
        )
        .await;
    let read: Vec<(&str, &str, &str)> = frame
        .bindings
        .iter()
        .map(|BindingReading { name, r#type, size }| (name.as_str(), r#type.as_str(), size.as_str()))
        .collect();
    assert_eq!(
        read,
        [
            ("n", "null", "value"),
            ("u", "unset", "value"),
            ("s", "string", "3 chars"),
            ("f", "function", "arity 2"),
            ("a", "array", "2 items"),
            ("o", "object", "1 keys"),
            ("i", "number", "value"),
            ("t", "boolean", "value"),
            ("b", "bigint", "value"),
            ("y", "symbol", "value"),
            ("m", "object", "0 keys"),
            ("get", "accessor", "value"),
        ]
    );
    // A reading that cannot be taken leaves the one before.
    let many = run.cell("for (let i = 0; i < 3e5; i++) globalThis['n' + i] = i").await;
    assert!(many.bindings.len() == read.len() || many.bindings.len() > 300_000, "{}", many.bindings.len());
}

#[tokio::test]
async fn nothing_is_global_but_ecmascript_ctx_and_console() {
    let mut run = Run::new().await;
    let prints = run.prints("console.log(Reflect.ownKeys(globalThis).map(String).sort().join('\\n'))").await;
    assert_eq!(prints.trim(), include_str!("globals.txt").trim());
    let text = "console.log(typeof Date, typeof Proxy, typeof Math.random, typeof performance, typeof WeakRef, typeof FinalizationRegistry, typeof SharedArrayBuffer, typeof Atomics, typeof setTimeout, typeof fetch, typeof process, eval('1+1'), new Function('return 3')())";
    assert_eq!(run.prints(text).await, format!("{}2 3", "undefined ".repeat(11)));
    assert_eq!(
        run.prints(
            "try { await eval('import(\"x\")'); console.log('loaded') } catch (e) { console.log('refused') }"
        )
        .await,
        "refused"
    );
}

#[tokio::test]
async fn frames_are_journaled_as_they_are() {
    let mut run = Run::new().await;
    run.options.limits.calls = 0;
    for text in [
        "ctx.done({a: [1]})",
        "ctx.park('waiting-event', 'm')",
        "throw 1",
        "ctx.call('x')",
        "ctx.justify('j')",
        "await new Promise(() => {})",
    ] {
        let frame = run.cell(text).await;
        let wire = serde_json::to_string(&frame).unwrap();
        assert_eq!(serde_json::from_str::<RealmFrame>(&wire).unwrap(), frame, "{wire}");
    }
    let frame = run.cell("ctx.done(Array.from({length: 127}).reduce(a => [a], [1]))").await;
    let wire = serde_json::to_string(&frame).unwrap();
    assert!(serde_json::from_str::<RealmFrame>(&wire).is_err());
    assert_eq!(from_json::<RealmFrame>(&wire).unwrap(), frame);
    assert!(from_json::<Value>(&"[".repeat(100_000)).is_err());
    assert!(serde_json::from_value::<RealmFrame>(json!({"outcome": {"kind": "raised", "name": "", "message": ""}, "prints": "", "bindings": [], "more": 1})).is_err());
}

#[tokio::test]
async fn big_texts_cross_or_end_the_frame() {
    let mut run = Run::with(|limits| limits.memory_bytes = 3 << 20).await;
    let frame =
        run.cell("const big = '\u{e9}'.repeat(3e5); ctx.done((await ctx.call('ident', big)).length)").await;
    assert_eq!(completed(&frame), &json!(300_000));
    let frame = run.cell("ctx.done(big)").await;
    assert_eq!(completed(&frame).as_str().map(str::len), Some(600_000));
    for text in
        ["ctx.call('ident', [big, big, big, big, big, big, big])", "ctx.done([big, big, big, big, big, big])"]
    {
        let frame = run.cell(text).await;
        let ended = matches!(
            frame.outcome,
            Outcome::Raised { .. }
                | Outcome::Rejected { code: RejectionCode::LimitExceeded, .. }
                | Outcome::Settled { .. }
        );
        assert!(ended, "{text}: {:?}", frame.outcome);
        run.assert_works().await;
    }
    assert_eq!(run.prints("#!/usr/bin/env cell\nconsole.log(1)").await, "1");
}

#[test]
fn an_evaluation_can_move_between_threads() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    block_on(send(async {
        let mut realm = Realm::open(&Limits::default()).await.unwrap();
        let program = validate(&Source::new("ctx.done(1)")).unwrap();
        let mut bridge = crate::support::Recorder::default();
        let options = FrameOptions::default();
        let end = send(realm.evaluate(0, &program, &options, &mut bridge)).await.unwrap();
        assert!(matches!(end, FrameEnd::Done(_)));
        send(realm.close()).await;
    }));
}
