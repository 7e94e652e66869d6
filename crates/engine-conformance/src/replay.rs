//! Point 3: replay purity.

use std::path::Path;

use flowcell_harness::engine::RunStatus;
use flowcell_harness::report::ReportStatus;

use crate::crash::SCRIPT;
use crate::lab::{Failure, Lab, RUN, asked, hold, run_id, same, stable, text};
use crate::report::Report;
use crate::subject::Factory;

/// Reopens and replays a finished run, and counts what that asked of the host (harness contract 13.1, point 3).
///
/// # Errors
/// What did not hold.
pub async fn replay_purity(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let first = lab.sound().await?;
    let finished = first.start(&run, &SCRIPT).await.map_err(text)?;
    same("the status", &finished.status, &ReportStatus::Completed)?;
    hold(finished.frames.iter().flat_map(|frame| &frame.calls).all(|call| !call.replayed), || {
        "a call of a new run is said to be replayed".into()
    })?;
    let rows = first.rows(&run).await?;
    lab.kill(first);
    let (starts, times) = (lab.ledger.total(), asked(&lab.services_clock));
    let mut cases = 0;
    for _ in 0..2 {
        let process = lab.sound().await?;
        let summary = process.store.summary(&run).await.map_err(text)?;
        same("the status", &summary.status, &RunStatus::Completed)?;
        same("the frames", &summary.frames, &3)?;
        let back = process.resume(&run).await.map_err(text)?;
        hold(back.frames.iter().flat_map(|frame| &frame.calls).all(|call| call.replayed), || {
            "a call that was read back is not said to be replayed".into()
        })?;
        same("the run read back", &stable(back), &stable(finished.clone()))?;
        let replayed = process.replay(&run).await.map_err(text)?;
        hold(replayed.ok, || format!("it does not replay: {:?}", replayed.diverged))?;
        // Eight settlements, a marker and an end for each frame, and the end of the run.
        same("records reproduced", &replayed.records, &(8 + 2 * 3 + 1))?;
        let shown = flowcell_harness::exec::show(process.store.as_ref(), &run).await.map_err(text)?;
        same("the run shown", &stable(shown), &stable(finished.clone()))?;
        same("starts of flows", &lab.ledger.total(), &starts)?;
        same("times that the clock was read", &asked(&lab.services_clock), &times)?;
        same("the journal", &process.rows(&run).await?, &rows)?;
        lab.kill(process);
        cases += 1;
    }
    Ok(Report { point: "3 replay purity", cases })
}
