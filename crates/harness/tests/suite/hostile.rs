//! Cells that mean harm: each ends as stated, the host lives and the next cell works (harness contract 3.5, cases 10 and
//! 11, P5, P6).

use std::time::{Duration, Instant};

use flowcell_harness::program::RejectionCode;
use flowcell_harness::realm::{FrameEnd, Limits, Outcome};
use proptest::prelude::*;

use crate::support::{Run, block_on, raised, rejection};

#[tokio::test]
async fn case_10_an_endless_loop_cannot_be_caught() {
    let mut run = Run::new().await;
    run.options.limits.time_ms = 100;
    for text in [
        "try { while(true){} } catch { console.log('caught') } finally { console.log('finally') }",
        "await (async () => { try { for (;;); } finally { console.log('finally') } })().catch(() => console.log('caught'))",
        "Promise.allSettled([(async () => { for (;;); })()]).then(() => console.log('settled')); for (;;);",
        "(function f() { Promise.resolve().then(f) })(); await new Promise(() => {})",
        "for (let i = 0; i < 200; i++) (function f() { Promise.resolve().then(f) })(); await 1; for (;;) await 1",
        "for (let i = 0; i < 5000; i++) (async () => { for (;;) await null })()",
        "queueMicrotask(function f() { queueMicrotask(f); queueMicrotask(f) }); await new Promise(() => {})",
        "/(a+)+b/.test('a'.repeat(40))",
        "const o = {get length() { for (;;); }}; Array.prototype.map.call(o, x => x)",
        "console.log({get a() { for (;;); }})",
        "ctx.done({a: 1}); for (;;);",
        "ctx.call('ident', 1, {get at() { for (;;); }})",
        "[3, 2, 1].sort(() => { for (;;); })",
        "new Array(2 ** 32 - 1).forEach(() => 0)",
        "new Array(2 ** 32 - 1).indexOf(1)",
        "for (const x of {[Symbol.iterator]: () => ({next: () => ({done: false})})});",
        "eval('for (;;);')",
    ] {
        let frame = run.cell(text).await;
        assert_eq!(rejection(&frame), (RejectionCode::LimitExceeded, Some("timeMs")), "{text}");
        assert_eq!(frame.prints, "", "{text}");
        run.assert_works().await;
    }
}

#[tokio::test]
async fn case_11_native_loops_are_refused_or_end() {
    let mut run = Run::new().await;
    run.options.limits.time_ms = 2_000;
    for call in [
        "new Array(4294967295).join('')",
        "new Array(4294967295).toString()",
        "new Array(4294967295).toLocaleString()",
        "'' + new Array(4294967295)",
        "new Array(4294967295).reverse()",
        "new Array(4294967295).copyWithin(0, 1)",
        "new Array(4294967295).splice(0, 4294967295)",
        "new Array(4294967295).shift()",
        "new Array(4294967295).unshift(1)",
        "new Array(4294967295).slice()",
        "[].concat(new Array(4294967295))",
        "new Array(4294967295).concat(1)",
        "new Array(4294967295).sort()",
        "new Array(4294967295).flat()",
        "[new Array(4294967295)].flat()",
        "[[new Array(4294967295)]].flat(Infinity)",
        "new Array(4294967295).flatMap(x => x)",
        "[1].flatMap(() => new Array(4294967295))",
        "String.raw({raw: {length: 2 ** 53 - 1}})",
        "Array.prototype.join.call({length: 2 ** 53 - 1})",
        "Array.prototype.reverse.call({length: '9007199254740991'})",
        "Array.prototype.slice.call({get length() { return 2 ** 53 - 1 }})",
        "Array.prototype.sort.call({length: {valueOf: () => 2 ** 53 - 1}})",
        "Array.prototype.join.call(Object.create({length: 2 ** 40}))",
        "Array.prototype.shift.call({length: Infinity})",
        "Array(8388609).join()",
        "JSON.stringify({}, new Array(4294967295))",
        "Array.prototype.fill.call(Object.defineProperty(Object.create(new Uint8Array(1)), 'length', {value: 2 ** 53 - 1}), 0)",
        "[].concat(...Array(200).fill(new Array(8388608)))",
        "`${{toString: () => new Array(4294967295).join()}}`",
    ] {
        let frame = run.cell(&format!("const result = {call}")).await;
        assert_eq!(raised(&frame).0, "RangeError", "{call}: {:?}", frame.outcome);
    }
    // Those that stop at the heap.
    for call in [
        "'x'.repeat(2 ** 29)",
        "new Array(4294967295).fill(0)",
        "Array.from({length: 2 ** 40})",
        "[...new Array(4294967295)]",
    ] {
        let frame = run.cell(&format!("const result = {call}")).await;
        let ended = matches!(
            frame.outcome,
            Outcome::Raised { .. } | Outcome::Rejected { code: RejectionCode::LimitExceeded, .. }
        );
        assert!(ended, "{call}: {:?}", frame.outcome);
        run.cell("globalThis.result = null").await;
        run.assert_works().await;
    }
    run.options.limits = Limits::default();
    // What they do for honest cells.
    let text = "Object.setPrototypeOf(globalThis.x = {0: 'a', length: 1}, null);\n\
        console.log([3, 1, 2].sort(), [1, [2, [3]]].flat(), [1, [2, [3, [4]]]].flat(Infinity), [1, 2].flatMap(n => [n, n * 2]), [1].concat([2], 3, [[4]]),\n\
        [1, 2, 3].slice(-2), [1, 2, 3].splice(1, 1), [2, 1].reverse(), [1, 2, 3, 4].copyWithin(0, 2), [1, 2].join('-'), String([1, [2, 3]]), String.raw`a\\n${1}b`,\n\
        Array.prototype.join.call('abc', '-'), Array.prototype.slice.call(x), Array.prototype.join.call(new Uint8Array(3)), (a => [a.shift(), a.unshift(7), a])([5, 6]), [1.5].toLocaleString(),\n\
        (function () { return Array.prototype.slice.call(arguments, 1) })(1, 2), [3, 20, 1].sort((a, b) => a - b), [].join.length, [].slice.name, [, 1].flat());\n\
        try { new [].slice() } catch (e) { console.log(e.name) }";
    assert_eq!(
        run.prints(text).await,
        "[1,2,3] [1,2,[3]] [1,2,3,4] [1,2,2,4] [1,2,3,[4]] [2,3] [2] [1,2] [3,4,3,4] 1-2 1,2,3 a\\n1b a-b-c [\"a\"] 0,0,0 [5,2,[7,6]] 1.5 [2] [1,3,20] 1 slice [1]\nTypeError"
    );
}

#[tokio::test]
async fn the_heap_ends_in_a_raised_error_and_can_be_freed() {
    let mut run = Run::with(|limits| limits.memory_bytes = 16 << 20).await;
    for text in [
        "let a = []; for (;;) a.push('x'.repeat(1e5) + a.length)",
        "let a = []; for (;;) a.push({})",
        "let a = 'x'; for (;;) a = (a + a).replace('x', 'xy')",
        "let a; (() => { const held = []; for (;;) held.push({held}) })()",
        "let a; (() => { const held = []; for (;;) held.push('x'.repeat(30) + held.length) })()",
        "let a; await (async () => { let held = null; for (;;) held = [held] })()",
        "let a = {}; for (let i = 0;; i++) a['k' + i] = i",
        "let a = null; for (;;) a = {a}",
        "let a = []; try { for (;;) a.push('x'.repeat(1e4) + a.length) } catch {} for (;;) a.push([])",
        "let a = new Map; for (let i = 0;; i++) a.set(i, i)",
        "for (let i = 0;; i++) globalThis['g' + i] = 'x'.repeat(1e5) + i",
    ] {
        let frame = run.cell(text).await;
        assert_eq!(raised(&frame), ("InternalError", "out of memory"), "{text}");
        let freed = run
            .cell("a = null; for (const n of Object.keys(globalThis)) if (n[0] === 'g') globalThis[n] = null")
            .await;
        assert!(matches!(freed.outcome, Outcome::Settled { .. }), "{text}: {:?}", freed.outcome);
        run.assert_works().await;
    }
    // A cell that catches it and goes on is an ordinary cell, and the one after it can still free.
    let frame = run.cell("var keep = []; try { for (;;) keep.push('x'.repeat(1e4) + keep.length) } catch (e) { console.log('caught') }").await;
    assert!(matches!(frame.outcome, Outcome::Settled { .. } | Outcome::Raised { .. }), "{:?}", frame.outcome);
    run.cell("keep = null").await;
    run.assert_works().await;
    // A realm that is dropped while its heap is full does not abort.
    run.cell("var keep = []; for (;;) keep.push({})").await;
    run.close().await;
    let mut run = Run::with(|limits| limits.memory_bytes = 1 << 20).await;
    run.cell("var keep = []; for (;;) keep.push([keep])").await;
    drop(run);
    // A plain null stays one.
    let mut run = Run::new().await;
    assert_eq!(raised(&run.cell("throw null").await), ("Error", "null"));
}

#[tokio::test]
async fn deep_things_throw_what_can_be_caught() {
    let mut run = Run::new().await;
    for text in [
        "function f() { return f() + 1 } f()",
        "JSON.parse('['.repeat(1e6))",
        "let o = null; for (let i = 0; i < 1e5; i++) o = {o}; JSON.stringify(o)",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; String(a)",
        "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        "eval('('.repeat(1e6))",
        "class A { get x() { return this.x } } new A().x",
        "let c = []; c[0] = c; c.flat(Infinity)",
        "const d = {toString() { return '' + d }}; '' + d",
    ] {
        let frame = run.cell(&format!("try {{ {text} }} catch (e) {{ console.log(e.name) }}")).await;
        assert!(
            ["RangeError", "SyntaxError", "InternalError"].contains(&frame.prints.as_str()),
            "{text}: {frame:?}"
        );
        run.assert_works().await;
    }
    let frame = run
        .cell("function g() { try { ctx.call('ident', [[1]]) } catch {} console.log([[2]]); g() } g()")
        .await;
    assert!(matches!(frame.outcome, Outcome::Raised { .. } | Outcome::Rejected { .. }));
    run.assert_works().await;
    // The compiler's own depth.
    let text = format!("const deep = {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert_eq!(rejection(&run.cell(&text).await).0, RejectionCode::CompileFailed);
    run.assert_works().await;
    let mut small = Run::with(|limits| limits.stack_bytes = 65_536).await;
    assert_eq!(raised(&small.cell("(function f() { f() })()").await).0, "RangeError");
    small.assert_works().await;
}

/// What a cell may do to everything around it.
const POLLUTION: &[&str] = &[
    "Object = null; Array = null; Promise = null; JSON = null; Reflect = null; String = null; Error = null; TypeError = null",
    "JSON.parse = () => 'evil'; JSON.stringify = () => 'evil'",
    "Promise.prototype.then = function () { throw 'evil' }",
    "Promise.prototype.then = () => new Promise(() => {}); Promise.prototype.constructor = class Evil {}; Promise.resolve = null",
    "Promise.prototype.constructor = {[Symbol.species]: class { constructor() { throw 'evil' } }}",
    "Object.defineProperty(Promise, Symbol.species, {get() { for (;;); }})",
    "Object.prototype.then = function (resolve) { resolve('evil') }",
    "Object.defineProperty(Object.prototype, 'then', {get() { for (;;); }, configurable: true})",
    "Object.defineProperty(Object.prototype, 'value', {get() { throw 'evil' }, set() { throw 'evil' }, configurable: true}); ctx.nothing",
    "Array.prototype.then = function (resolve) { resolve('evil') }",
    "Object.defineProperty(Array.prototype, 'then', {get() { throw 'evil' }})",
    "Function.prototype.then = () => {}; String.prototype.then = () => {}; Number.prototype.then = () => {}",
    "Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = Number.prototype.toJSON = () => 'evil'",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 'evil' }",
    "Array.prototype[Symbol.iterator] = () => { throw 'evil' }; String.prototype[Symbol.iterator] = null",
    "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({done: true})",
    "for (const k of ['push', 'pop', 'map', 'join', 'sort', 'slice', 'concat', 'shift', 'indexOf', 'forEach']) Array.prototype[k] = () => { throw 'evil' }",
    "for (const n of Object.getOwnPropertyNames(Array.prototype)) if (n !== 'constructor' && n !== 'length') Array.prototype[n] = null",
    "for (const n of Object.getOwnPropertyNames(String.prototype)) try { String.prototype[n] = () => 'evil' } catch {}",
    "for (const n of Object.getOwnPropertyNames(Object)) try { Object[n] = () => 'evil' } catch {}",
    "for (const n of Object.getOwnPropertyNames(Reflect)) Reflect[n] = () => 'evil'",
    "for (let i = 0; i < 5; i++) Object.defineProperty(Array.prototype, i, {set() { throw 'evil' }, get() { return 'evil' }, configurable: true})",
    "for (let i = 0; i < 5; i++) Object.defineProperty(Object.prototype, i, {set() { throw 'evil' }, get() { return 'evil' }, configurable: true})",
    "for (const n of ['value', 'get', 'set', 'writable', 'enumerable', 'configurable']) Object.prototype[n] = 'evil'",
    "Object.defineProperty(Object.prototype, 'get', {get() { throw 'evil' }})",
    "for (const n of ['name', 'input', 'kind', 'at', 'resolve', 'reject', 'text', 'next', 'ok', 'error', 'code']) Object.defineProperty(Object.prototype, n, {get() { return 'evil' }, set() { throw 'evil' }})",
    "Error.prepareStackTrace = () => { for (;;); }; Error.stackTraceLimit = Infinity; Error.captureStackTrace = null",
    "Object.defineProperty(Error, 'prepareStackTrace', {get() { for (;;); }})",
    "Error.isError = () => { throw 'evil' }; Object.defineProperty(Error, Symbol.hasInstance, {value() { throw 'evil' }})",
    "Error.prototype.name = {toString() { throw 'evil' }}; Object.defineProperty(Error.prototype, 'message', {get() { throw 'evil' }})",
    "Object.defineProperty(Function.prototype, Symbol.hasInstance, {value: () => true, configurable: true, writable: true}); 1",
    "Symbol.prototype.toString = () => 'evil'; Function.prototype.toString = () => 'evil'; Symbol.prototype[Symbol.toPrimitive] = null",
    "Object.setPrototypeOf(Array.prototype, null); Object.setPrototypeOf(Function.prototype, null)",
    "Object.setPrototypeOf(Promise.prototype, new (class { get then() { throw 'evil' } }))",
    "Object.freeze(Object.prototype); Object.freeze(Array.prototype); Object.freeze(Promise.prototype); Object.freeze(Promise)",
    "Object.freeze(globalThis)",
    "Object.preventExtensions(globalThis); Object.defineProperty(globalThis, 'undefined2', {value: 1})",
    "Object.setPrototypeOf(globalThis, null)",
    "for (const n of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[n] } catch {}",
    "for (const n of Object.getOwnPropertyNames(globalThis)) try { globalThis[n] = undefined } catch {}",
    "Object.defineProperty(globalThis, 'bomb', {get() { for (;;); }, enumerable: true})",
    "Object.defineProperty(globalThis, 'ctx', {value: null})",
    "Object.defineProperty(globalThis, 'console', {get() { return null }})",
    "ctx.call.constructor.prototype.x = 1; Object.getPrototypeOf(ctx.call).length = 5; ctx.call.call = null; ctx.flows.x = 1; ctx.base.checkpoint = 2",
    "console.log.apply = null; console.log = null; ctx.done = null",
    "eval('var ctx = 1; var console = 2'); (0, eval)('var ctx; let console = 1')",
    "new Function('ctx = 1; console = 2; delete globalThis.ctx')()",
    "ctx.done(1); throw new Error('late')",
    "ctx.park('waiting-input'); await new Promise(() => {})",
    "console.log({get a() { console.log('nested'); ctx.done(1); throw 1 }})",
    "for (let i = 0; i < 100; i++) ctx.call('ident', i).catch(() => ctx.call('ident', i)); ctx.done(0)",
    "for (let i = 0; i < 100; i++) ctx.call('ident', i).catch(() => { for (;;) ctx.call('ident', 1) })",
    "ctx.call('ident', 1).then(function f() { return ctx.call('ident', 1).then(f) })",
    "const p = ctx.call('ident', 1); p.constructor = null; p.then = null; Object.defineProperty(p, 'constructor', {get() { for (;;); }}); ctx.call('ident', 2, {at: p})",
    "ctx.call('ident', 1, {at: {then() { for (;;); }}}); ctx.call('ident', {then() {}}).catch(() => {})",
    "const r = await ctx.call('ident', {a: [1]}); Object.defineProperty(r, 'then', {get() { throw 'evil' }}); globalThis.r = r; await 1",
    "globalThis.later = []; for (const m of ['then', 'catch', 'finally']) { const old = Promise.prototype[m]; Promise.prototype[m] = function (...a) { later.push(this); return old.apply(this, a) } }",
    "await new Promise(r => globalThis.resume = r); for (;;);",
    "Math.floor = Number.isInteger = isNaN = parseInt = () => { throw 'evil' }; Number.prototype.toString = Number.prototype.valueOf = () => 'evil'",
    "Boolean.prototype.valueOf = null; Object.prototype.valueOf = Object.prototype.toString = () => { throw 'evil' }; Object.prototype[Symbol.toPrimitive] = () => { throw 'evil' }",
    "ArrayBuffer.prototype.constructor = null; ArrayBuffer = null; Uint8Array = null; Object.defineProperty(Object.prototype, 'maxByteLength', {get() { throw 'evil' }})",
    "throw {get name() { for (;;); }, get message() { for (;;); }, get stack() { for (;;); }}",
    "throw Object.assign(() => {}, {message: {toString() { throw 1 }}})",
    "Array.prototype.concat.call = 1; String.raw = null; Array.prototype.length = 9",
];

/// Ends a cell in whatever way it does, quickly.
async fn wreck(run: &mut Run, text: &str) {
    run.options.limits = Limits { time_ms: 100, ..Limits::default() };
    let started = Instant::now();
    let end = run.end(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    let FrameEnd::Done(frame) = end else { panic!("{text}") };
    let compiled = !matches!(frame.outcome, Outcome::Rejected { code: RejectionCode::CompileFailed, .. });
    assert!(compiled, "{text}: {:?}", frame.outcome);
    assert!(started.elapsed() < Duration::from_secs(5), "{text}: {:?}", started.elapsed());
    run.options.limits = Limits::default();
}

/// What the next cell may rely on, whatever was done to the realm: only syntax, `ctx` and `console`.
async fn assert_intact(run: &mut Run, after: &str) {
    run.flows(&["ident"]);
    let text = "{ const r = await ctx.call('ident', {b: [1, {k: 'v'}], a: null, then: 1});\n\
        const list = await ctx.call('ident', [[], 'x']); const f = await ctx.call('fail', {});\n\
        console.log('intact', r, list, r.b[1].k, 1.5, undefined, [true], f.error.code, ctx.flows.ident.name, ctx.base);\n\
        console.error(await ctx.checkpoint() !== undefined);\n\
        let no = 0; try { ctx.call('ident', [undefined]) } catch { no = 1 } console.log(no);\n\
        ctx.done(r); const late = await ctx.call('ident', 1); console.log(late.error.code); }";
    let frame = match run.end(text).await.unwrap() {
        FrameEnd::Done(frame) => frame,
        FrameEnd::Interrupted { .. } => panic!("{after}"),
    };
    let expected = "intact {\"a\":null,\"b\":[1,{\"k\":\"v\"}],\"then\":1} [[],\"x\"] v 1.5 undefined [true] flow_failed ident {\"checkpoint\":\"base\"}\ntrue\n1\nrun_completed";
    assert_eq!(frame.prints, expected, "after {after}: {:?}", frame.outcome);
    assert!(matches!(frame.outcome, Outcome::Settled { .. }), "after {after}: {:?}", frame.outcome);
    assert_eq!(run.bridge.issued().len(), 4, "after {after}");
    assert!(!frame.bindings.iter().any(|binding| binding.name == "ctx" || binding.name == "console"));
}

#[tokio::test]
async fn no_pollution_reaches_the_next_cell() {
    for text in POLLUTION {
        let mut run = Run::new().await;
        wreck(&mut run, text).await;
        assert_intact(&mut run, text).await;
        assert_intact(&mut run, text).await;
    }
}

#[tokio::test]
async fn a_thenable_of_the_cells_own_still_is_one() {
    let mut run = Run::new().await;
    let text = "const t = {}; t.then = (resolve) => resolve(4); class T { then(r) { r(5) } } const u = new (class { constructor() { this.then = r => r(6) } });\n\
        console.log(await t, await new T, await u, await {then(r) { r(7) }}, Object.keys({then: 1}), Object.hasOwn(t, 'then'), ({}).then)";
    assert_eq!(run.prints(text).await, "4 5 6 7 [\"then\"] true undefined");
}

#[tokio::test]
async fn an_old_script_may_go_on_in_a_later_frame() {
    let mut run = Run::new().await;
    run.cell("await new Promise(r => globalThis.resume = r); console.log('resumed'); ctx.done('old')").await;
    let frame = run.cell("resume(); await 1; await 1; console.log('new')").await;
    assert_eq!(frame.prints, "resumed\nnew");
    run.assert_works().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn p6_no_series_of_hostile_cells_reaches_the_next(picks in prop::collection::vec(0..POLLUTION.len(), 1..6)) {
        block_on(async {
            let mut run = Run::new().await;
            let mut done = String::new();
            for pick in picks {
                wreck(&mut run, POLLUTION[pick]).await;
                done.push_str(POLLUTION[pick]);
                done.push_str("\n---\n");
            }
            assert_intact(&mut run, &done).await;
        });
    }

    #[test]
    fn p5_prints_are_bounded_text(statements in prop::collection::vec(("[a-z\u{e9}\u{1F600}\n]{0,4}", 0..30_000_usize), 0..60), dense in 1..40_usize) {
        block_on(async {
            let mut run = Run::new().await;
            let list: Vec<String> = statements.iter().map(|(text, times)| format!("[{text:?}, {}]", times / dense)).collect();
            let text = format!("for (const [t, n] of [{}]) console.log(t.repeat(n))", list.join(",")).replace("\\u{", "\\u{");
            let frame = run.cell(&text).await;
            prop_assert!(frame.prints.len() <= 16_384, "{}", frame.prints.len());
            let total: usize = statements.iter().map(|(text, times)| text.len() * (times / dense) + 1).sum();
            if total <= 16_384 {
                prop_assert!(!frame.prints.contains("bytes cut") && !frame.prints.contains("dropped"));
            }
            Ok(())
        })?;
    }
}

/// A frame that a clock cut in its own code is cut there again when it replays, where no clock runs (harness contract 6.3).
#[tokio::test]
async fn a_frame_that_a_clock_cut_is_cut_at_the_same_place_without_a_clock() {
    const ENDLESS: &str = "Object.fromEntries({[Symbol.iterator]() { return {next() { return {done: false, value: ['a', 1]} }} }})";
    for reason in ["timeMs", "totalMs"] {
        let mut run = Run::with(|limits| {
            limits.steps = u64::MAX >> 11;
            if reason == "timeMs" { limits.time_ms = 150 } else { limits.total_ms = 150 }
        })
        .await;
        let cut = run.cell(ENDLESS).await;
        assert_eq!(rejection(&cut), (RejectionCode::LimitExceeded, Some(reason)));
        let steps = cut.boundary.unwrap().steps;
        assert!(steps.is_some());
        run.options.clock_free = true;
        run.options.cut_at = steps;
        let again = run.cell(ENDLESS).await;
        assert_eq!(rejection(&again).0, RejectionCode::LimitExceeded);
        run.options.cut_at = None;
        run.assert_works().await;
    }
}
