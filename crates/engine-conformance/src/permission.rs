//! Point 5: parks.

use std::path::Path;

use flowcell_harness::engine::{EngineCode, RunStatus};
use flowcell_harness::error::SuspendCode;
use flowcell_harness::journal::{Kind, Resolution};
use flowcell_harness::report::{ReportStatus, RunReport};
use serde_json::{Value, json};

use crate::lab::{ASKED, Failure, Lab, Process, RUN, fault_at, hold, run_id, same, text};
use crate::report::Report;
use crate::subject::{Factory, Fault, Moment};

const ASKS: [&str; 1] =
    [r#"const r = await ctx.call("ask", { n: 1 }); ctx.done(r.error ? r.error.code : r.asked);"#];
const PEEKS: [&str; 1] =
    [r#"const r = await ctx.call("peek", { n: 1 }); ctx.done(r.error ? r.error.code : r.peeked);"#];
const ASKS_TWICE: [&str; 1] = [
    r#"const r = await ctx.call("ask", { n: 1 }); const s = await ctx.call("ask", { n: 1 }); ctx.done([r.asked, s.error ? s.error.code : s.asked]);"#,
];

/// Parks runs on permissions and on their own word, answers, and crashes in between (harness contract 13.1, point 5).
///
/// # Errors
/// What did not hold.
pub async fn permission_park(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let mut cases = 0;
    for (flow, cells) in [("ask", &ASKS), ("peek", &PEEKS)] {
        for (answer, output, acts) in
            [(Resolution::Once, json!(1), 1), (Resolution::Deny, json!("capability_refused"), 0)]
        {
            let at = |why: Failure| format!("{flow}, {}: {why}", answer.as_str());
            answered(factory, root, flow, cells, answer, &output, acts).await.map_err(at)?;
            cases += 1;
        }
    }
    twice(factory, root).await.map_err(|why| format!("a permission allowed once: {why}"))?;
    cases += 1;
    cases += crashes(factory, root).await?;
    own_word(factory, root).await.map_err(|why| format!("ctx.park: {why}"))?;
    Ok(Report { point: "5 permission park", cases: cases + 1 })
}

fn parked(report: &RunReport) -> Result<(), Failure> {
    same("the status", &report.status, &ReportStatus::Suspended)?;
    let suspended = report.suspended.as_ref().ok_or("it does not say what it waits for")?;
    same("the reason", &suspended.reason, &SuspendCode::PermissionRequired)?;
    let request = suspended.request.as_ref().ok_or("it names no request")?;
    same("the capability", &request.capability.as_str(), &ASKED)
}

async fn waits(process: &Process, answered: Option<Resolution>) -> Result<String, Failure> {
    let run = run_id(RUN)?;
    let summary = process.store.summary(&run).await.map_err(text)?;
    same("the status", &summary.status, &RunStatus::Suspended)?;
    let waiting = summary.waiting.ok_or("the summary does not say what it waits for")?;
    same("the reason", &waiting.reason, &SuspendCode::PermissionRequired)?;
    same("the answer that is there", &waiting.answered, &answered)?;
    Ok(waiting.request.ok_or("the summary names no request")?.request_id)
}

async fn grants(process: &Process) -> Result<Vec<(String, Value)>, Failure> {
    let events = process.store.grants().page(RUN, 0, 256).await.map_err(text)?;
    Ok(events.into_iter().map(|event| (event.event_type, event.event)).collect())
}

async fn answered(
    factory: &dyn Factory,
    root: &Path,
    flow: &str,
    cells: &[&str],
    answer: Resolution,
    output: &Value,
    acts: u64,
) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let first = lab.sound().await?;
    let not_there = first.store.answer(&run, None, answer.into()).await;
    same("answering no run", &not_there.map_err(|error| error.code), &Err(EngineCode::NotFound))?;
    parked(&first.start(&run, cells).await.map_err(text)?)?;
    waits(&first, None).await?;
    // Taken up without an answer, it asks again.
    parked(&first.resume(&run).await.map_err(text)?)?;
    let request = waits(&first, None).await?;
    lab.kill(first);

    let second = lab.sound().await?;
    let wrong = second.store.answer(&run, Some("permission-999"), answer.into()).await;
    same("answering another request", &wrong.map_err(|error| error.code), &Err(EngineCode::NotFound))?;
    let given = second.store.answer(&run, Some(&request), answer.into()).await.map_err(text)?;
    same(
        "the answer",
        &(given.run.clone(), given.request.clone(), given.resolution),
        &(run.clone(), request, answer),
    )?;
    same("the same answer", &second.store.answer(&run, None, answer.into()).await.map_err(text)?, &given)?;
    let other = if answer == Resolution::Once { Resolution::Deny } else { Resolution::Once };
    let conflict = second.store.answer(&run, None, other.into()).await;
    same("another answer", &conflict.map_err(|error| error.code), &Err(EngineCode::IdempotencyConflict))?;
    waits(&second, Some(answer)).await?;
    let events = grants(&second).await?;
    same("grant events", &events.len(), &1)?;
    let name = if answer == Resolution::Once { "once" } else { "denied" };
    same("the event's type", &events[0].0, &format!("flowcell.kernel.grant.{name}.v1"))?;
    same("the event's run", &events[0].1["runId"], &json!(RUN))?;
    same("starts that acted", &lab.ledger.acts(flow), &0)?;
    lab.kill(second);

    // A store that holds the event still opens: `Lab::process` replays the grants.
    let third = lab.sound().await?;
    let report = third.resume(&run).await.map_err(text)?;
    same("the status", &report.status, &ReportStatus::Completed)?;
    same("the output", &report.output.as_ref(), &Some(output))?;
    same("dispatches that acted", &lab.ledger.acts(flow), &acts)?;
    let starts = lab.ledger.total();
    let late = third.store.answer(&run, None, answer.into()).await;
    same("answering a run that has ended", &late.map_err(|error| error.code), &Err(EngineCode::NotFound))?;
    let replayed = third.replay(&run).await.map_err(text)?;
    hold(replayed.ok, || format!("it does not replay: {:?}", replayed.diverged))?;
    same("starts by a replay", &lab.ledger.total(), &starts)
}

/// A permission that was allowed once is used up by its call: the next one asks again.
async fn twice(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    parked(&process.start(&run, &ASKS_TWICE).await.map_err(text)?)?;
    process.store.answer(&run, None, Resolution::Once.into()).await.map_err(text)?;
    parked(&process.resume(&run).await.map_err(text)?)?;
    same("dispatches that acted", &lab.ledger.acts("ask"), &1)?;
    process.store.answer(&run, None, Resolution::Deny.into()).await.map_err(text)?;
    let report = process.resume(&run).await.map_err(text)?;
    same("the output", &report.output, &Some(json!([1, "capability_refused"])))?;
    same("dispatches that acted", &lab.ledger.acts("ask"), &1)
}

/// Crashes around the suspension and around its end.
async fn crashes(factory: &dyn Factory, root: &Path) -> Result<u64, Failure> {
    let run = run_id(RUN)?;
    let mut cases = 0;
    // run-opened, marker, call-started, suspended.
    for moment in Moment::ALL {
        let at = |why: Failure| format!("crash {moment:?} the suspension: {why}");
        let lab = Lab::new(factory, root).await?;
        let first = lab.process(fault_at(4, moment, Fault::Crash)).await?;
        let cut = first.start(&run, &ASKS).await;
        hold(!matches!(&cut, Ok(report) if report.status == ReportStatus::Completed), || {
            at("it ended".into())
        })?;
        lab.kill(first);
        let second = lab.sound().await?;
        let output = if moment == Moment::After {
            waits(&second, None).await.map_err(at)?;
            second
                .store
                .answer(&run, None, Resolution::Once.into())
                .await
                .map_err(|error| at(text(error)))?;
            json!(1)
        } else {
            // Nobody can know whether the start acted before it was cut off.
            json!("outcome_unknown")
        };
        let report = second.resume(&run).await.map_err(|error| at(text(error)))?;
        same("the output", &report.output.as_ref(), &Some(&output)).map_err(at)?;
        same("dispatches that acted", &lab.ledger.acts("ask"), &u64::from(moment == Moment::After))
            .map_err(at)?;
        cases += 1;
    }
    for moment in Moment::ALL {
        for (answer, output) in
            [(Resolution::Once, json!(1)), (Resolution::Deny, json!("capability_refused"))]
        {
            let at = |why: Failure| format!("crash {moment:?} the end of the suspension: {why}");
            let lab = Lab::new(factory, root).await?;
            let first = lab.sound().await?;
            parked(&first.start(&run, &ASKS).await.map_err(text)?).map_err(at)?;
            first.store.answer(&run, None, answer.into()).await.map_err(text)?;
            lab.kill(first);
            let second = lab.process(fault_at(1, moment, Fault::Crash)).await?;
            hold(second.resume(&run).await.is_err(), || {
                at("it was resumed although its store was gone".into())
            })?;
            lab.kill(second);
            let third = lab.sound().await?;
            let report = third.resume(&run).await.map_err(|error| at(text(error)))?;
            same("the output", &report.output.as_ref(), &Some(&output)).map_err(at)?;
            let acts = u64::from(answer == Resolution::Once);
            same("dispatches that acted", &lab.ledger.acts("ask"), &acts).map_err(at)?;
            cases += 1;
        }
    }
    Ok(cases)
}

/// A cell that parks by itself suspends once, and the next frame runs when it is taken up again.
async fn own_word(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let cells = [
        r#"const a = await ctx.call("look", { path: "a" }); ctx.park("waiting-input", "Which?");"#,
        "ctx.done(a.path);",
    ];
    let lab = Lab::new(factory, root).await?;
    let first = lab.sound().await?;
    let report = first.start(&run, &cells).await.map_err(text)?;
    same("the status", &report.status, &ReportStatus::Suspended)?;
    let suspended = report.suspended.ok_or("it does not say what it waits for")?;
    same("the reason", &suspended.reason, &SuspendCode::WaitingInput)?;
    same("the message", &suspended.message.as_deref(), &Some("Which?"))?;
    let answer = first.store.answer(&run, None, Resolution::Once.into()).await;
    same("answering a park", &answer.map_err(|error| error.code), &Err(EngineCode::NotFound))?;
    lab.kill(first);
    let second = lab.sound().await?;
    let report = second.resume(&run).await.map_err(text)?;
    same("the output", &report.output, &Some(json!("a")))?;
    same("starts of flows", &lab.ledger.total(), &1)?;
    let rows = second.rows(&run).await?;
    let count = |kind| rows.iter().filter(|row| row.kind == kind).count();
    same("suspensions and their ends", &(count(Kind::Suspended), count(Kind::Resumed)), &(1, 1))
}
