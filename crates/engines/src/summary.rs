//! Where a run stands, read from its rows and its owner.

use flowcell_harness::engine::{RunStatus, RunSummary, Waiting};
use flowcell_harness::journal::ClosedStatus;
use flowcell_harness::journal::{Kind, RunClosed, Suspended};

use crate::storage::{Outcome, RunRow, Transaction};
use crate::store::Core;

/// The kinds of which the last row says whether a run waits.
pub(crate) const LIFECYCLE: [Kind; 2] = [Kind::Suspended, Kind::Resumed];

/// One run of a listing. A row that does not read hides nothing else: it is reported when the run is opened.
pub(crate) fn summarise(core: &Core, tx: &mut dyn Transaction, row: RunRow) -> Outcome<RunSummary> {
    let RunRow { run, created_ms, updated_ms, .. } = row;
    let mut waiting = None;
    let status = if let Some(closed) = tx.last_of(&run, &[Kind::RunClosed])? {
        match closed.decode::<RunClosed>() {
            Ok(RunClosed { status: ClosedStatus::Completed, .. }) => RunStatus::Completed,
            _ => RunStatus::Failed,
        }
    } else if let Some(suspended) = tx.last_of(&run, &LIFECYCLE)?.filter(|row| row.kind == Kind::Suspended) {
        if let Ok(why) = suspended.decode::<Suspended>() {
            let answered = tx.answer(&run, suspended.seq)?.map(|answer| answer.resolution);
            waiting = Some(Waiting { reason: why.code, request: why.request, answered });
        }
        RunStatus::Suspended
    } else if tx.owner(&run)?.is_some_and(|owner| !core.takeable(&owner)) {
        RunStatus::Running
    } else {
        RunStatus::Interrupted
    };
    let frames = tx.frames(&run)?;
    Ok(RunSummary { run, status, frames, created_at: created_ms, updated_at: updated_ms, waiting })
}
