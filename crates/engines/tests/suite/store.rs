//! What holds of every store and is no point of the suite.

use std::collections::HashMap;
use std::sync::Arc;

use flowcell_engines::Memory;
use flowcell_engines::harness::engine::{
    Boundary, Call, CallBody, EngineCode, OpenError, Page, RunStatus, RunStore, recorded,
};
use flowcell_engines::harness::error::{Escape, HarnessCode, SuspendCode, SuspendReason};
use flowcell_engines::harness::failure::CallOutcome;
use flowcell_engines::harness::flows::effects::Tier;
use flowcell_engines::harness::journal::{Kind, Row};
use flowcell_engines::harness::kernel::{GRANT_SOURCE, POLICY_RUN};
use flowcell_engines::harness::keys::{CallIdentity, Epoch, call_key};
use serde_json::{Value, json};

use crate::world::{empty, options, owner, run, spec};

/// A store of each sort; the folder keeps the file.
fn stores() -> Vec<(Arc<dyn RunStore>, Option<tempfile::TempDir>)> {
    #[cfg_attr(not(feature = "sqlite"), allow(unused_mut))]
    let mut stores: Vec<(Arc<dyn RunStore>, _)> = vec![(Arc::new(Memory::new().open(options())), None)];
    #[cfg(feature = "sqlite")]
    {
        let folder = tempfile::tempdir().unwrap();
        let store = flowcell_engines::sqlite::open(&folder.path().join("runs.db"), options()).unwrap();
        stores.push((Arc::new(store), Some(folder)));
    }
    stores
}

#[tokio::test]
async fn a_value_of_any_shape_comes_back_as_it_went_in() {
    let deep = (0..128).fold(json!(1), |inner, _| json!([inner]));
    let values = [
        json!(null),
        json!({ "__proto__": 1, "constructor": 2, "": { "\u{0}": "\u{0}\u{1b}\u{2028}𝄞" } }),
        json!([0.1, 1.0, -0.0, 1e300, 5e-324, u64::MAX, i64::MIN]),
        deep,
        Value::from("x".repeat(1_000_000)),
    ];
    for (store, _folder) in stores() {
        let id = store.create(empty("r")).await.unwrap();
        let engine = store.open(&id, owner(1)).await.unwrap();
        for (frame, value) in (0..).zip(&values) {
            let at = Boundary::frame("r", frame, "cell", 0);
            assert_eq!(engine.record(at, recorded(value.clone())).await.unwrap().value, *value);
        }
        engine.release().await;
        let engine = store.open(&id, owner(2)).await.unwrap();
        for (frame, value) in (0..).zip(&values) {
            let back = engine
                .record(Boundary::frame("r", frame, "cell", 0), recorded(json!("other")))
                .await
                .unwrap();
            assert_eq!((back.value, back.fresh), (value.clone(), false));
        }
    }
}

#[tokio::test]
async fn an_engine_that_is_dropped_lets_go() {
    for (store, _folder) in stores() {
        let id = store.create(empty("r")).await.unwrap();
        let engine = store.open(&id, owner(1)).await.unwrap();
        assert!(matches!(store.open(&id, owner(2)).await, Err(OpenError::Held(held)) if held == owner(1)));
        assert_eq!(store.summary(&id).await.unwrap().status, RunStatus::Running);
        drop(engine);
        store.open(&id, owner(2)).await.unwrap().release().await;
        assert_eq!(store.summary(&id).await.unwrap().status, RunStatus::Interrupted);
    }
}

#[tokio::test]
async fn an_opening_that_is_given_up_holds_nothing() {
    for (store, _folder) in stores() {
        let id = store.create(empty("r")).await.unwrap();
        {
            let opening = store.open(&id, owner(1));
            tokio::pin!(opening);
            if let std::task::Poll::Ready(opened) = futures_util::poll!(opening.as_mut()) {
                drop(opened.unwrap());
            }
        }
        // Whatever the first owner took comes before this in the store's queue, and its release right after it.
        let mut opened = store.open(&id, owner(2)).await;
        for _ in 0..100 {
            if opened.is_ok() {
                break;
            }
            tokio::task::yield_now().await;
            opened = store.open(&id, owner(2)).await;
        }
        opened.unwrap().release().await;
    }
}

/// What is asked of a store and of its last opened run.
#[derive(Clone, Debug)]
enum Step {
    Record(u64, u8),
    Call(u64, bool),
    Reopen,
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    use proptest::prelude::{Strategy, any, prop_oneof};
    let step = prop_oneof![
        (0..6u64, any::<u8>()).prop_map(|(frame, value)| Step::Record(frame, value)),
        (0..6u64, any::<bool>()).prop_map(|(ordinal, sealed)| Step::Call(ordinal, sealed)),
        proptest::prelude::Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 0..24)
}

/// Whatever is asked, in whatever order: both stores answer alike, and what was decided once stays.
#[test]
fn stores_answer_alike() {
    const CASES: u32 = 24;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = proptest::test_runner::Config {
        cases: CASES,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&steps(), |steps| {
            let told: Vec<Vec<String>> = runtime.block_on(async {
                let mut told = Vec::new();
                for (store, _folder) in stores() {
                    told.push(tell(store.as_ref(), &steps).await);
                }
                told
            });
            proptest::prop_assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", told);
            Ok(())
        })
        .unwrap();
}

/// What a store says to each step, and the journal in the end.
async fn tell(store: &dyn RunStore, steps: &[Step]) -> Vec<String> {
    let id = store.create(empty("r")).await.unwrap();
    let mut engine = store.open(&id, owner(1)).await.unwrap();
    let mut decided: HashMap<String, Value> = HashMap::new();
    let mut told = Vec::new();
    for step in steps {
        let (key, answer) = match step {
            Step::Record(frame, value) => {
                let at = Boundary::frame("r", *frame, "cell", 0);
                let key = at.key().unwrap();
                let answer = engine.record(at, recorded(json!(value))).await.map(|recorded| recorded.value);
                (key, answer)
            }
            Step::Call(ordinal, sealed) => {
                let call = call(*ordinal, *sealed);
                let key = call.boundary().key().unwrap();
                let body: CallBody<'_> = Box::new(|dispatch| {
                    Box::pin(async move { Ok(CallOutcome::Success(json!(dispatch.attempt)).into()) })
                });
                let answer = engine
                    .call(call, body)
                    .await
                    .map(|settled| serde_json::to_value(settled.outcome).unwrap());
                (key, answer)
            }
            Step::Reopen => {
                engine.release().await;
                engine = store.open(&id, owner(1)).await.unwrap();
                continue;
            }
        };
        told.push(format!("{step:?}: {answer:?}"));
        if let Ok(value) = answer {
            assert_eq!(*decided.entry(key).or_insert(value.clone()), value);
        }
    }
    let rows = store.rows(&id, 0).await.unwrap();
    assert_eq!(
        rows.iter().filter(|row| matches!(row.kind, Kind::CellFrame | Kind::CellCall)).count(),
        decided.len()
    );
    told.extend(rows.into_iter().map(|row| format!("{} {} {} {}", row.seq, row.kind, row.key, row.payload)));
    told
}

fn call(ordinal: u64, sealed: bool) -> Call {
    let tier = if sealed { Tier::Sealed } else { Tier::Compensable };
    let identity = CallIdentity {
        session: "r".into(),
        frame: 0,
        cell: "cell".into(),
        ordinal,
        declaration: "d".into(),
        layers: vec![],
    };
    let key = call_key(&identity, tier, &[], &json!({}), None, Epoch::default()).unwrap();
    Call {
        identity,
        flow: "f".into(),
        input: json!({}),
        at: None,
        tier,
        key,
        idempotent: false,
        terminal: false,
    }
}

#[tokio::test]
async fn a_suspension_lets_go_and_later_writes_are_refused() {
    for (store, _folder) in stores() {
        let id = store.create(empty("r")).await.unwrap();
        let engine = store.open(&id, owner(1)).await.unwrap();
        let why = SuspendReason {
            code: SuspendCode::WaitingEvent,
            frame: 0,
            at: "key1_x".into(),
            request: None,
            attempt: None,
            call: None,
            ceiling: None,
            message: Some("later".into()),
        };
        assert!(!engine.resumed("key1_x").await.unwrap());
        match engine.suspend(why.clone()).await {
            Err(Escape::Harness(error)) => assert_eq!(error.code, HarnessCode::Suspended),
            other => panic!("{other:?}"),
        }
        let after = engine.record(Boundary::frame("r", 0, "c", 0), recorded(Value::Null)).await;
        assert!(matches!(after, Err(Escape::LeaseLost)), "{after:?}");
        assert!(matches!(engine.suspend(why).await, Err(Escape::LeaseLost)));
        let waiting = store.summary(&id).await.unwrap().waiting.unwrap();
        assert_eq!(
            (waiting.reason, waiting.request, waiting.answered),
            (SuspendCode::WaitingEvent, None, None)
        );
        let engine = store.open(&id, owner(2)).await.unwrap();
        assert!(engine.resumed("key1_x").await.unwrap());
        let rows = store.rows(&id, 0).await.unwrap();
        let kinds: Vec<_> = rows.iter().map(|row| (row.kind, row.key.as_str(), row.owner_epoch)).collect();
        let expected = [
            (Kind::RunOpened, "run-opened", 0),
            (Kind::Suspended, "suspended:1", 1),
            (Kind::Resumed, "resumed:2", 2),
        ];
        assert_eq!(kinds, expected);
    }
}

#[tokio::test]
async fn listings_are_newest_first_and_paged() {
    for (store, _folder) in stores() {
        for name in ["c", "a", "b"] {
            store.create(empty(name)).await.unwrap();
        }
        store.create(empty("c")).await.unwrap();
        let names = async |page| -> Vec<String> {
            store.list(page).await.unwrap().into_iter().map(|summary| summary.run.to_string()).collect()
        };
        assert_eq!(names(Page::default()).await, ["b", "a", "c"]);
        assert_eq!(names(Page { skip: 1, limit: 1 }).await, ["a"]);
        assert_eq!(names(Page { skip: u64::MAX, limit: u64::MAX }).await, [""; 0]);
        assert_eq!(names(Page { skip: 0, limit: 0 }).await, [""; 0]);
        let summary = store.summary(&run("a")).await.unwrap();
        assert_eq!((summary.frames, summary.created_at), (0, summary.updated_at));
        assert_eq!(summary.status, RunStatus::Interrupted);
    }
}

#[tokio::test]
async fn grants_are_a_journal_of_their_own() {
    for (store, _folder) in stores() {
        let grants = store.grants();
        assert_eq!(grants.page("r", 0, 256).await.unwrap(), []);
        for n in 1..=5u64 {
            assert_eq!(grants.append("r", "t", &json!({ "n": n })).await.unwrap(), n);
        }
        assert_eq!(grants.append(POLICY_RUN, "t", &json!({})).await.unwrap(), 1);
        let page = grants.page("r", 1, 2).await.unwrap();
        let seen: Vec<_> = page.iter().map(|event| (event.seq, event.event["n"].as_u64())).collect();
        assert_eq!(seen, [(2, Some(2)), (3, Some(3))]);
        assert!(page.iter().all(|event| event.source == GRANT_SOURCE && event.event_type == "t"));
        assert_eq!(grants.page("r", 5, 256).await.unwrap(), []);
        let kept = store.create(empty(POLICY_RUN)).await.unwrap_err();
        assert_eq!(kept.code, EngineCode::IdempotencyConflict);
    }
}

#[tokio::test]
async fn the_same_spec_in_other_words_is_the_same_spec() {
    for (store, _folder) in stores() {
        store.create(spec("r", json!({ "a": 1, "b": [1.0] }))).await.unwrap();
        store.create(spec("r", json!({ "b": [1], "a": 1.0 }))).await.unwrap();
        let other = store.create(spec("r", json!({ "b": [2], "a": 1 }))).await.unwrap_err();
        assert_eq!(other.code, EngineCode::IdempotencyConflict);
        assert!(other.message.contains('r'), "{other}");
    }
}

/// A journal of 10,000 rows: `run-opened` and ended frames.
fn long_journal() -> Vec<Row> {
    const ROWS: u64 = 10_000;
    let row =
        |seq, kind, key, payload| Row { run_id: run("r"), seq, kind, key, payload, owner_epoch: 1, at_ms: 0 };
    let opened = serde_json::to_value(empty("r").opened).unwrap();
    let mut rows = vec![row(1, Kind::RunOpened, "run-opened".into(), opened)];
    for frame in 2..=ROWS {
        let at = Boundary::frame("r", frame, "cell", 0);
        rows.push(row(frame, Kind::CellFrame, at.key().unwrap(), json!({ "frame": frame })));
    }
    rows
}

#[tokio::test]
async fn a_long_journal_opens_again() {
    let rows = long_journal();
    let memory = Memory::new();
    memory.import(&run("r"), rows.clone()).unwrap();
    #[cfg_attr(not(feature = "sqlite"), allow(unused_mut))]
    let mut stores: Vec<Arc<dyn RunStore>> = vec![Arc::new(memory.open(options()))];
    #[cfg(feature = "sqlite")]
    let folder = tempfile::tempdir().unwrap();
    #[cfg(feature = "sqlite")]
    {
        let path = folder.path().join("runs.db");
        let store = flowcell_engines::sqlite::open(&path, options()).unwrap();
        crate::sqlite::write_rows(&path, &run("r"), &rows).unwrap();
        stores.push(Arc::new(store));
    }
    for store in stores {
        let id = run("r");
        let engine = store.open(&id, owner(2)).await.unwrap();
        for row in &rows[1..] {
            let at = Boundary::frame("r", row.seq, "cell", 0);
            let back = engine.record(at, recorded(Value::Null)).await.unwrap();
            assert_eq!((&back.value, back.fresh), (&row.payload, false));
        }
        let next = Boundary::frame("r", 0, "cell", 0);
        assert!(engine.record(next, recorded(Value::Null)).await.unwrap().fresh);
        assert_eq!(store.rows(&id, 0).await.unwrap()[..rows.len()], rows);
        assert_eq!(store.summary(&id).await.unwrap().frames, rows.len() as u64 - 1);
    }
}

#[test]
fn a_run_is_not_opened_where_nothing_would_renew_its_lease() {
    let store = Memory::new().open(options());
    let outcome = futures_util::FutureExt::now_or_never(async {
        let id = store.create(empty("r")).await.unwrap();
        store.open(&id, owner(1)).await.map(drop)
    });
    assert!(matches!(outcome, Some(Err(OpenError::Engine(error))) if error.code == EngineCode::EngineFailed));
}

fn answering(value: Value) -> CallBody<'static> {
    Box::new(move |_| Box::pin(async move { Ok(CallOutcome::Success(value).into()) }))
}

fn never() -> CallBody<'static> {
    Box::new(|_| Box::pin(async { panic!("the body ran") }))
}

/// A frame that is taken up again may be cut before it comes to all that an earlier attempt settled. Those settlements stay
/// behind, and the run goes on (harness contract 6.3).
#[tokio::test]
async fn settlements_that_a_cut_frame_passed_over_do_not_stop_the_run() {
    for (store, _folder) in stores() {
        let id = store.create(empty("r")).await.unwrap();
        let engine = store.open(&id, owner(1)).await.unwrap();
        engine.record(Boundary::frame("r", 0, "cell", 0), recorded(Value::Null)).await.unwrap();
        for ordinal in 0..3 {
            engine.call(call(ordinal, false), answering(json!(ordinal))).await.unwrap();
        }
        engine.release().await;

        let cut = json!({ "boundary": { "terminal": "timeout", "dispatched": 0, "settled": 0 } });
        let next = |ordinal| {
            let mut next = call(ordinal, true);
            next.identity.frame = 1;
            next
        };
        for (opening, ordinal) in (2..).zip(0..3) {
            let engine = store.open(&id, owner(opening)).await.unwrap();
            let first =
                engine.record(Boundary::frame("r", 0, "cell", 0), recorded(Value::Null)).await.unwrap();
            assert_eq!((first.value, first.fresh), (Value::Null, false));
            engine.record(Boundary::frame("r", 0, "cell", 1), recorded(Value::Null)).await.unwrap();
            engine.call(call(0, false), never()).await.unwrap();
            engine.record(Boundary::frame("r", 0, "cell", 2), recorded(cut.clone())).await.unwrap();
            engine.record(Boundary::frame("r", 1, "cell", 0), recorded(Value::Null)).await.unwrap();
            for earlier in 0..ordinal {
                assert!(engine.call(next(earlier), never()).await.unwrap().replayed);
            }
            engine.call(next(ordinal), answering(json!("on"))).await.unwrap();
            engine.release().await;
        }
        // Without the cut they are a divergence.
        let whole = store.create(empty("w")).await.unwrap();
        let engine = store.open(&whole, owner(9)).await.unwrap();
        let mut own = call(0, true);
        own.identity.session = "w".into();
        engine.call(own.clone(), answering(json!(1))).await.unwrap();
        engine.release().await;
        let engine = store.open(&whole, owner(10)).await.unwrap();
        engine.record(Boundary::frame("w", 0, "cell", 0), recorded(json!({ "prints": "" }))).await.unwrap();
        own.identity.ordinal = 1;
        let Err(Escape::Harness(error)) = engine.call(own, never()).await else { panic!("it went on") };
        assert_eq!(error.code, HarnessCode::IncompatibleJournal);
    }
}
