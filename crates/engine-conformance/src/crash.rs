//! Points 1 and 2: crashes at every boundary, and the ledger of effects.

use std::path::Path;

use flowcell_harness::failure::CallFailureCode;
use flowcell_harness::flows::effects::Tier;
use flowcell_harness::journal::{CallStarted, CellCall, Kind, Row};
use flowcell_harness::report::{ReportStatus, RunReport};

use crate::lab::{Failure, Lab, RUN, code, fault_at, hold, run_id, same, stable, text};
use crate::report::Report;
use crate::subject::{Factory, Fault, Faults, Moment};

/// Cells that call flows of every tier, raise, and finish.
pub(crate) const SCRIPT: [&str; 3] = [
    r#"const a = await ctx.call("look", { path: "a" });
const b = await ctx.call("put", { n: 1 });
console.log("first", a.path);"#,
    r#"const [c, d] = await Promise.all([ctx.call("look", { path: "b" }), ctx.call("pay", { sum: 5 })]);
const e = await ctx.call("look", { path: "a" });
console.log(c.path, e.path);
throw new Error("late");"#,
    r#"const f = await ctx.call("mail", { to: "x" });
const g = await ctx.call("pay", { sum: 7 });
const h = await ctx.call("nobody", {});
const told = (v, k) => v.error ? v.error.code : v[k];
ctx.done({ a: a.path, b: told(b, "n"), d: told(d, "paid"), f: told(f, "sent"), g: told(g, "paid"), h: h.error.code });"#,
];

/// A call of the script: where it is, and what a crash may do to it.
#[derive(Clone, Copy, Debug)]
struct Place {
    frame: u64,
    ordinal: u64,
    tier: Tier,
    idempotent: bool,
}

const CALLS: [Place; 7] = [
    Place { frame: 0, ordinal: 0, tier: Tier::Sealed, idempotent: false },
    Place { frame: 0, ordinal: 1, tier: Tier::Compensable, idempotent: false },
    Place { frame: 1, ordinal: 0, tier: Tier::Sealed, idempotent: false },
    Place { frame: 1, ordinal: 1, tier: Tier::Irreversible, idempotent: false },
    Place { frame: 1, ordinal: 2, tier: Tier::Sealed, idempotent: false },
    Place { frame: 2, ordinal: 0, tier: Tier::Irreversible, idempotent: true },
    Place { frame: 2, ordinal: 1, tier: Tier::Irreversible, idempotent: false },
];

/// The frame that a row of the script's journal belongs to.
fn frame_of(rows: &[Row], index: usize) -> u64 {
    let markers =
        rows[..=index].iter().filter(|row| row.kind == Kind::CellFrame && row.payload.is_null()).count();
    (markers as u64).saturating_sub(1)
}

/// What a crash at one moment of one commit does to the call it belongs to.
#[derive(Clone, Copy, Debug, Default)]
struct Hit {
    /// Frame and ordinal of the call.
    place: Option<(u64, u64)>,
    /// Its body had run, and its settlement was lost.
    unsettled: bool,
    /// It was announced, and its body never ran.
    announced: bool,
}

fn hit(rows: &[Row], index: usize, moment: Moment) -> Result<Hit, Failure> {
    let row = &rows[index];
    let mut hit = Hit::default();
    match row.kind {
        Kind::CallStarted => {
            let start: CallStarted = row.decode().map_err(text)?;
            hit.place = Some((start.identity.frame, start.identity.ordinal));
            hit.announced = moment == Moment::After;
        }
        Kind::CellCall => {
            let settled: CellCall = row.decode().map_err(text)?;
            hit.place = Some((frame_of(rows, index), settled.ordinal));
            hit.unsettled = moment != Moment::After;
        }
        _ => {}
    }
    Ok(hit)
}

/// Crashes a run of the script before each of its commits, finishes it in another process, and compares it with a run
/// that was left alone (harness contract 13.1, point 1).
///
/// # Errors
/// What did not hold, and at which commit.
pub async fn crashes_before(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let cases = everywhere(factory, root, Moment::Before, Fault::Crash).await?;
    Ok(Report { point: "1 crash before every commit", cases })
}

/// As [`crashes_before`], in the middle of each commit.
///
/// # Errors
/// As [`crashes_before`].
pub async fn crashes_during(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let cases = everywhere(factory, root, Moment::During, Fault::Crash).await?;
    Ok(Report { point: "1 crash during every commit", cases })
}

/// As [`crashes_before`], right after each commit.
///
/// # Errors
/// As [`crashes_before`].
pub async fn crashes_after(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let cases = everywhere(factory, root, Moment::After, Fault::Crash).await?;
    Ok(Report { point: "1 crash after every commit", cases })
}

/// Lets each commit of a run of the script fail once, in the middle of it. The run ends with `engine_failed` and lets
/// go; the next process goes on with it (point 8, as far as a fault in the store is concerned).
///
/// # Errors
/// As [`crashes_before`].
pub async fn storage_faults(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let cases = everywhere(factory, root, Moment::During, Fault::Fail).await?;
    Ok(Report { point: "8 storage faults", cases })
}

async fn everywhere(
    factory: &dyn Factory,
    root: &Path,
    moment: Moment,
    fault: Fault,
) -> Result<u64, Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let process = lab.sound().await?;
    let reference = stable(process.start(&run, &SCRIPT).await.map_err(text)?);
    same("the status of the run that is left alone", &reference.status, &ReportStatus::Completed)?;
    let rows = process.rows(&run).await?;
    for place in CALLS {
        let starts = lab.ledger.starts(place.frame, place.ordinal).len();
        same("starts of a call in the run that is left alone", &starts, &1)?;
    }
    for (index, row) in rows.iter().enumerate() {
        let at = |why: Failure| format!("{fault:?} {moment:?} commit {} ({}): {why}", index + 1, row.kind);
        let hit = hit(&rows, index, moment).map_err(at)?;
        let faults = fault_at(index + 1, moment, fault);
        once(factory, root, faults, fault, hit, &reference).await.map_err(at)?;
    }
    Ok(rows.len() as u64)
}

async fn once(
    factory: &dyn Factory,
    root: &Path,
    faults: Faults,
    fault: Fault,
    hit: Hit,
    reference: &RunReport,
) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let first = lab.process(faults).await?;
    let cut = first.start(&run, &SCRIPT).await;
    same("the code of the run that was cut off", &code(&cut).as_deref(), &Some("engine_failed"))?;
    match fault {
        Fault::Crash => lab.kill(first),
        // It let go of the run, and lives.
        Fault::Fail => drop(first),
    }

    let second = lab.sound().await?;
    let finished = stable(second.start(&run, &SCRIPT).await.map_err(text)?);
    same("the status", &finished.status, &ReportStatus::Completed)?;
    let unknown = hit.place.filter(|&(frame, ordinal)| {
        let place = CALLS.iter().find(|place| (place.frame, place.ordinal) == (frame, ordinal));
        (hit.announced || hit.unsettled)
            && place.is_some_and(|place| place.tier != Tier::Sealed && !place.idempotent)
    });
    compare(&finished, reference, unknown)?;
    for place in CALLS {
        let mine = hit.place == Some((place.frame, place.ordinal));
        let expected = match (place.tier, place.idempotent) {
            _ if !mine => 1,
            (Tier::Sealed, _) | (_, true) => 1 + usize::from(hit.unsettled),
            _ => usize::from(!hit.announced),
        };
        let starts = lab.ledger.starts(place.frame, place.ordinal);
        same(
            &format!("starts of call {} of frame {}", place.ordinal, place.frame),
            &starts.len(),
            &expected,
        )?;
        hold(starts.windows(2).all(|pair| pair[0] == pair[1]), || {
            format!("call {} of frame {} was started again under another key", place.ordinal, place.frame)
        })?;
    }
    let before = lab.ledger.total();
    let third = lab.sound().await?;
    let again = third.resume(&run).await.map_err(text)?;
    same("the run read back", &stable(again), &finished)?;
    let replayed = third.replay(&run).await.map_err(text)?;
    hold(replayed.ok, || format!("the finished run does not replay: {:?}", replayed.diverged))?;
    same("starts of flows by reading back and replaying", &lab.ledger.total(), &before)?;
    third.rows(&run).await?;
    Ok(())
}

fn compare(found: &RunReport, reference: &RunReport, unknown: Option<(u64, u64)>) -> Result<(), Failure> {
    let Some(unknown) = unknown else {
        return same("the run", found, reference);
    };
    same("the number of frames", &found.frames.len(), &reference.frames.len())?;
    for (frame, expected) in found.frames.iter().zip(&reference.frames) {
        same("the prints", &frame.prints, &expected.prints)?;
        same("the outcome", &(frame.outcome, &frame.name), &(expected.outcome, &expected.name))?;
        same("the number of calls", &frame.calls.len(), &expected.calls.len())?;
        for (call, expected) in frame.calls.iter().zip(&expected.calls) {
            if (frame.frame, call.ordinal) == unknown {
                let code = call.error.as_ref().map(|error| error.code);
                same("the code of the call that was cut off", &code, &Some(CallFailureCode::OutcomeUnknown))?;
            } else {
                same("a call", call, expected)?;
            }
        }
    }
    Ok(())
}

/// Crashes between an irreversible effect and its settlement, and counts the effects (point 2). An idempotent binding
/// is started again, under the same key.
///
/// # Errors
/// What did not hold.
pub async fn effect_ledger(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let run = run_id(RUN)?;
    let mut cases = 0;
    // Rows: run-opened, marker, call-started, cell-call.
    for (flow, input, acts, code) in
        [("pay", "{ sum: 1 }", 1, Some("outcome_unknown")), ("mail", "{ to: 1 }", 2, None)]
    {
        for moment in [Moment::Before, Moment::During] {
            let cell = format!(
                "const r = await ctx.call(\"{flow}\", {input}); ctx.done(r.error ? r.error.code : null);"
            );
            let lab = Lab::new(factory, root).await?;
            let first = lab.process(fault_at(4, moment, Fault::Crash)).await?;
            let crashed = first.start(&run, &[&cell]).await;
            hold(crashed.is_err() || lab.ledger.acts(flow) == 1, || "the effect did not happen".into())?;
            same("effects before the crash", &lab.ledger.acts(flow), &1)?;
            lab.kill(first);
            for _ in 0..2 {
                let second = lab.sound().await?;
                let report = second.resume(&run).await.map_err(text)?;
                same("the status", &report.status, &ReportStatus::Completed)?;
                same("the output", &report.output, &Some(code.map_or(serde_json::Value::Null, Into::into)))?;
                same(&format!("effects of {flow}"), &lab.ledger.acts(flow), &acts)?;
                let keys = lab.ledger.starts(0, 0);
                hold(keys.iter().all(|key| *key == keys[0] && key.starts_with("key1_")), || {
                    format!("the starts of one call have the keys {keys:?}")
                })?;
                lab.kill(second);
            }
            cases += 1;
        }
    }
    Ok(Report { point: "2 effect ledger", cases })
}
