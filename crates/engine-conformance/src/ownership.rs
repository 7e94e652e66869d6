//! Point 7: owners, and runs beside each other (E5, E6, E7).

use std::path::Path;

use flowcell_harness::engine::{Boundary, OpenError, Page, RunStatus, recorded};
use flowcell_harness::error::Escape;
use flowcell_harness::failure::CallOutcome;
use flowcell_harness::flows::effects::Tier;
use flowcell_harness::report::ReportStatus;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::boundary::{call, opened};
use crate::lab::{Failure, Lab, RUN, hold, run_id, same, text};
use crate::report::Report;
use crate::subject::{Factory, Life};

/// Runs beside each other.
const BESIDE: u64 = 50;

/// Two owners of one run, an owner that was paused while another took its run, and fifty runs on one store (harness
/// contract 13.1, point 7).
///
/// # Errors
/// What did not hold.
pub async fn concurrency(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let mut cases = 0;
    for (life, after_ms, takes) in [
        (Life::Alive, 0, false),
        (Life::Alive, 31_000, false),
        (Life::Unknown, 0, false),
        (Life::Unknown, 31_000, false),
        (Life::Unreachable, 0, false),
        (Life::Unreachable, 29_000, false),
        (Life::Unreachable, 30_000, true),
        (Life::Dead, 0, true),
    ] {
        let at = |why: Failure| format!("an owner that is {life:?}, {after_ms} ms later: {why}");
        two_owners(factory, root, life, after_ms, takes).await.map_err(at)?;
        cases += 1;
    }
    released(factory, root).await?;
    beside(factory, root).await?;
    Ok(Report { point: "7 concurrency", cases: cases + 2 })
}

async fn two_owners(
    factory: &dyn Factory,
    root: &Path,
    life: Life,
    ms: i64,
    takes: bool,
) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let (first, second) = (lab.sound().await?, lab.sound().await?);
    let paused = opened(&first, &run).await?;
    let at = |frame| Boundary::frame(RUN, frame, "cell", 0);
    paused.record(at(0), recorded(json!(1))).await.map_err(text)?;
    lab.declare(&first, life);
    // The lease is renewed about now; no renewal comes between the clock and the second owner.
    lab.clock.advance(ms);
    let summary = second.store.summary(&run).await.map_err(text)?;
    same("the status", &summary.status, &if takes { RunStatus::Interrupted } else { RunStatus::Running })?;
    let taken = second.store.open(&run, second.owner.clone()).await;
    if !takes {
        return match taken {
            Err(OpenError::Held(owner)) => same("who holds it", &owner, &first.owner),
            Err(other) => Err(format!("it was not opened: {other}")),
            Ok(_) => Err("it was taken".into()),
        };
    }
    let taken = taken.map_err(text)?;
    let rows = second.rows(&run).await?;
    // The owner that was paused goes on, and changes nothing.
    let late = paused.record(at(1), recorded(json!(2))).await;
    hold(matches!(late, Err(Escape::LeaseLost)), || format!("the paused owner's record: {late:?}"))?;
    let body = Box::new(|_| -> futures_util::future::BoxFuture<'static, _> {
        Box::pin(async { Ok(CallOutcome::Success(Value::Null).into()) })
    });
    let late = paused.call(call(0, Tier::Sealed)?, body.clone()).await;
    hold(matches!(late, Err(Escape::LeaseLost)), || format!("the paused owner's call: {late:?}"))?;
    paused.release().await;
    same("the rows", &second.rows(&run).await?, &rows)?;
    let held = first.store.open(&run, first.owner.clone()).await;
    lab.declare(&first, Life::Alive);
    hold(matches!(held, Err(OpenError::Held(ref owner)) if *owner == second.owner), || {
        "the paused owner's release let go of the other owner's run".into()
    })?;
    let next = taken.record(at(0), recorded(json!(3))).await.map_err(text)?;
    same("what was decided before", &next.value, &json!(1))?;
    taken.record(at(1), recorded(json!(4))).await.map_err(text)?;
    let rows = second.rows(&run).await?;
    let epochs: Vec<u64> = rows.iter().map(|row| row.owner_epoch).collect();
    hold(epochs.windows(2).all(|pair| pair[0] < pair[1]), || {
        format!("the epochs of three owners are {epochs:?}")
    })?;
    taken.release().await;
    Ok(())
}

/// A run that was let go of is taken by the next owner at once, and by the same process again.
async fn released(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let (first, second) = (lab.sound().await?, lab.sound().await?);
    let engine = opened(&first, &run).await?;
    let again = first.store.open(&run, first.owner.clone()).await;
    hold(matches!(again, Err(OpenError::Held(_))), || "a process opened one run twice".into())?;
    engine.release().await;
    let engine = first.store.open(&run, first.owner.clone()).await.map_err(text)?;
    engine.release().await;
    let engine = second.store.open(&run, second.owner.clone()).await.map_err(text)?;
    engine.release().await;
    let missing = first.store.open(&run_id("no-such-run")?, first.owner.clone()).await;
    hold(matches!(missing, Err(OpenError::NotFound(_))), || "a run that is not there was opened".into())
}

async fn beside(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let runs = (0..BESIDE).map(|number| {
        let process = &process;
        async move {
            let run = run_id(&format!("run-{number}"))?;
            let cell = format!(
                r#"const a = await ctx.call("look", {{ path: {number} }}); const b = await ctx.call("pay", {{ sum: {number} }}); ctx.done([a.path, b.paid]);"#
            );
            let report = process.start(&run, &[&cell]).await.map_err(text)?;
            same("the status", &report.status, &ReportStatus::Completed)?;
            same("the output", &report.output, &Some(json!([number, number])))
        }
    });
    for ended in join_all(runs).await {
        ended.map_err(|why| format!("{BESIDE} runs on one store: {why}"))?;
    }
    let page = Page { skip: 0, limit: BESIDE * 2 };
    let listed = process.store.list(page).await.map_err(text)?;
    same("the runs listed", &(listed.len() as u64), &BESIDE)?;
    let first = Page { skip: 1, limit: 2 };
    same("a page of them", &process.store.list(first).await.map_err(text)?, &listed[1..3].to_vec())?;
    hold(listed.iter().all(|run| run.status == RunStatus::Completed && run.frames == 1), || {
        "a run of a listing is not completed with one frame".into()
    })
}
