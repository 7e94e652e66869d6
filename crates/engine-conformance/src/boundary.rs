//! What an engine promises of one boundary (harness contract 13: E1, E2, E5, E9).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flowcell_harness::engine::{Boundary, Call, Engine, EngineCode, RunStore};
use flowcell_harness::error::{Escape, HarnessError};
use flowcell_harness::failure::CallOutcome;
use flowcell_harness::flows::effects::Tier;
use flowcell_harness::journal::{Kind, RunId};
use flowcell_harness::keys::{CallIdentity, Epoch, call_key};
use futures_util::future::join_all;
use futures_util::poll;
use serde_json::{Value, json};

use crate::lab::{Failure, Lab, Process, RUN, hold, run_id, same, text};
use crate::report::Report;
use crate::subject::Factory;

/// Asks one boundary for everything that harness contract 13 promises of it.
///
/// # Errors
/// What did not hold.
pub async fn boundaries(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    created(factory, root).await.map_err(|why| format!("create: {why}"))?;
    once(factory, root).await.map_err(|why| format!("record: {why}"))?;
    announced(factory, root).await.map_err(|why| format!("call: {why}"))?;
    cancelled(factory, root).await.map_err(|why| format!("cancellation: {why}"))?;
    Ok(Report { point: "E1, E2, E5, E9 boundaries", cases: 4 })
}

pub(crate) fn call(ordinal: u64, tier: Tier) -> Result<Call, Failure> {
    let identity = CallIdentity {
        session: RUN.into(),
        frame: 0,
        cell: "cell".into(),
        ordinal,
        declaration: "declaration".into(),
        layers: Vec::new(),
    };
    let input = json!({ "n": ordinal });
    let key = call_key(&identity, tier, &[], &input, None, Epoch::default()).map_err(text)?;
    Ok(Call { identity, flow: "flow".into(), input, at: None, tier, key, idempotent: false, terminal: false })
}

pub(crate) async fn opened(process: &Process, run: &RunId) -> Result<Arc<dyn Engine>, Failure> {
    process.store.create(process.spec(run, &["ctx.done(1);"])?).await.map_err(text)?;
    process.store.open(run, process.owner.clone()).await.map_err(text)
}

async fn kinds(store: &dyn RunStore, run: &RunId) -> Result<Vec<Kind>, Failure> {
    Ok(store.rows(run, 0).await.map_err(text)?.into_iter().map(|row| row.kind).collect())
}

/// The same id with the same spec is the same run; with another one it is a conflict.
async fn created(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let run = run_id(RUN)?;
    let missing = process.store.rows(&run, 0).await;
    same("rows of no run", &missing.map_err(|error| error.code), &Err(EngineCode::NotFound))?;
    let spec = process.spec(&run, &["ctx.done(1);"])?;
    for _ in 0..2 {
        same("the id", &process.store.create(spec.clone()).await.map_err(text)?, &run)?;
    }
    same("the rows", &kinds(process.store.as_ref(), &run).await?, &vec![Kind::RunOpened])?;
    let other = process.store.create(process.spec(&run, &["ctx.done(2);"])?).await;
    same("another spec", &other.map_err(|error| error.code), &Err(EngineCode::IdempotencyConflict))?;
    let rows = process.rows(&run).await?;
    same("the session", &rows[0].payload["session"], &json!(RUN))?;
    same("the rows after the last", &process.store.rows(&run, rows[0].seq).await.map_err(text)?, &Vec::new())
}

/// Concurrent callers of one key get one value; a body that escapes leaves nothing.
async fn once(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let run = run_id(RUN)?;
    let engine = opened(&process, &run).await?;
    let at = Boundary::frame(RUN, 0, "cell", 0);
    let failed = engine
        .record(at.clone(), Box::new(|| Box::pin(async { Err(HarnessError::engine("not now").into()) })))
        .await;
    hold(failed.is_err(), || "a body that escapes was recorded".into())?;
    same("the rows", &kinds(process.store.as_ref(), &run).await?, &vec![Kind::RunOpened])?;
    let ran = AtomicUsize::new(0);
    let callers = (0..8u64).map(|caller| {
        let (ran, engine, at) = (&ran, &engine, at.clone());
        async move {
            let body = Box::new(move || -> futures_util::future::BoxFuture<'_, Result<Value, Escape>> {
                Box::pin(async move {
                    ran.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok(json!({ "caller": caller }))
                })
            });
            engine.record(at, body).await
        }
    });
    let answers: Vec<_> = join_all(callers).await.into_iter().collect::<Result<_, _>>().map_err(text)?;
    same("bodies", &ran.load(Ordering::SeqCst), &1)?;
    same("callers that decided", &answers.iter().filter(|answer| answer.fresh).count(), &1)?;
    hold(answers.iter().all(|answer| answer.value == answers[0].value), || {
        "callers got different values".into()
    })?;
    let rows = process.rows(&run).await?;
    same("the record", &rows.last().map(|row| &row.payload), &Some(&answers[0].value))?;
    engine.release().await;
    let after = engine
        .record(Boundary::frame(RUN, 1, "cell", 0), flowcell_harness::engine::recorded(Value::Null))
        .await;
    hold(matches!(after, Err(Escape::LeaseLost)), || format!("after the release: {after:?}"))
}

/// A call that is not sealed is announced before its body; every call is settled before its caller knows.
async fn announced(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let run = run_id(RUN)?;
    let engine = opened(&process, &run).await?;
    let mut rows = vec![Kind::RunOpened];
    for (ordinal, tier) in [(0, Tier::Sealed), (1, Tier::Compensable), (2, Tier::Irreversible)] {
        if tier != Tier::Sealed {
            rows.push(Kind::CallStarted);
        }
        let (store, id, expected) = (&process.store, &run, rows.clone());
        let body = Box::new(move |dispatch: flowcell_harness::engine::Dispatch| {
            let body: futures_util::future::BoxFuture<'_, _> = Box::pin(async move {
                let seen = kinds(store.as_ref(), id).await.map_err(HarnessError::engine)?;
                same("rows while the body runs", &seen, &expected).map_err(HarnessError::engine)?;
                same("the attempt", &dispatch.attempt, &u32::from(tier != Tier::Sealed))
                    .map_err(HarnessError::engine)?;
                Ok(CallOutcome::Success(json!({ "at": ordinal })).into())
            });
            body
        });
        let settled = engine.call(call(ordinal, tier)?, body).await.map_err(text)?;
        hold(!settled.replayed, || "a new call is said to be replayed".into())?;
        rows.push(Kind::CellCall);
        same("rows when the caller knows", &kinds(process.store.as_ref(), &run).await?, &rows)?;
        let again = engine
            .call(
                call(ordinal, tier)?,
                Box::new(|_| Box::pin(async { Err(HarnessError::engine("asked twice").into()) })),
            )
            .await
            .map_err(text)?;
        same("the settlement, asked for again", &again.outcome, &settled.outcome)?;
        hold(again.replayed, || "a settlement that was there is not said to be replayed".into())?;
    }
    engine.release().await;
    Ok(())
}

/// A call that is given up leaves whole rows, and its start counts.
async fn cancelled(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let run = run_id(RUN)?;
    let engine = opened(&process, &run).await?;
    let begun = Arc::new(tokio::sync::Notify::new());
    {
        let began = Arc::clone(&begun);
        let body = Box::new(move |_| -> futures_util::future::BoxFuture<'static, _> {
            Box::pin(async move {
                began.notify_one();
                std::future::pending().await
            })
        });
        let pending = engine.call(call(0, Tier::Irreversible)?, body);
        tokio::pin!(pending);
        tokio::select! {
            _ = &mut pending => return Err("a call that never settles settled".into()),
            () = begun.notified() => {}
        }
        hold(poll!(&mut pending).is_pending(), || "a call that never settles settled".into())?;
    }
    same("the rows", &kinds(process.store.as_ref(), &run).await?, &vec![Kind::RunOpened, Kind::CallStarted])?;
    let again = engine
        .call(
            call(0, Tier::Irreversible)?,
            Box::new(|_| Box::pin(async { Ok(CallOutcome::Success(Value::Null).into()) })),
        )
        .await
        .map_err(text)?;
    match again.outcome {
        CallOutcome::Failure(failure) => same("the code", &failure.code.as_str(), &"outcome_unknown")?,
        CallOutcome::Success(value) => {
            return Err(format!("a start that was given up was started again: {value}"));
        }
    }
    hold(!again.replayed, || "an outcome that was settled just now is said to be replayed".into())?;
    engine.release().await;
    Ok(())
}
