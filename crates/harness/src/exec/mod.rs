//! The controller of a run without a model: cells that are known beforehand, one frame each, in one realm.
//!
//! Nothing but records is restored: a resumed run re-executes its cells from the top in a fresh realm, and the
//! journal answers what it has already decided (harness contract 6).

mod bridge;
mod checkpoints;
mod controller;
mod events;
mod params;

pub(crate) use controller::drive;
pub use events::{Event, Observer, Unobserved};
pub use params::{CellText, ExecKind, ExecParams, Prepared, spec};

use std::fmt;

use crate::calls::CellCalls;
use crate::engine::{EngineCode, EngineError, OpenError, Owner, RunSpec, RunStatus, RunStore};
use crate::error::HarnessError;
use crate::journal::{CatalogEntry, Row, RunId, RunOpened};
use crate::report::{self, ReportStatus, RunReport};
use crate::services::Services;

/// What a host brings to a run.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// What answers calls.
    pub calls: &'a CellCalls,
    /// The guarded services.
    pub services: &'a Services,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

impl fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("calls", &self.calls)
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

/// Creates the run of a spec, or finds it again, and drives it to its end, its suspension or its failure.
///
/// # Errors
/// As [`RunStore::create`] and [`RunStore::open`]. What goes wrong inside the run is in the report.
pub async fn start(
    store: &dyn RunStore,
    spec: RunSpec,
    owner: Owner,
    host: &Host<'_>,
) -> Result<RunReport, OpenError> {
    let run = store.create(spec).await?;
    resume(store, &run, owner, host).await
}

/// Takes a run up again. A run that has ended is read back; nothing is evaluated.
///
/// When [`Services::cancel`](crate::services::Services) is cancelled the run stops where it is, is let go of, and can be
/// taken up again; its report is `interrupted`.
///
/// # Errors
/// As [`RunStore::open`]; `incompatible_journal` when the catalog is not the one the run was opened with, which leaves
/// the run as it is.
pub async fn resume(
    store: &dyn RunStore,
    run: &RunId,
    owner: Owner,
    host: &Host<'_>,
) -> Result<RunReport, OpenError> {
    let summary = store.summary(run).await.map_err(|error| missing(run, error))?;
    if matches!(summary.status, RunStatus::Completed | RunStatus::Failed) {
        let rows = store.rows(run, 0).await?;
        let mut report = RunReport::of_rows(run, ReportStatus::Interrupted, &rows)?;
        for call in report.frames.iter_mut().flat_map(|frame| &mut frame.calls) {
            call.replayed = true;
        }
        return Ok(report);
    }
    // Compared before the run is taken: a resume that forgot a mock must leave the run as it is.
    same_catalog(host.calls, &report::opened(&store.rows(run, 0).await?)?)?;
    let engine = store.open(run, owner).await?;
    let driven = drive(engine.as_ref(), host, false).await;
    engine.release().await;
    Ok(driven.report)
}

fn missing(run: &RunId, error: EngineError) -> OpenError {
    match error.code {
        EngineCode::NotFound => OpenError::NotFound(run.clone()),
        _ => OpenError::Engine(error),
    }
}

/// Reads a run back for `show`: evaluates nothing and needs no ownership.
///
/// # Errors
/// [`OpenError::NotFound`]; as [`RunReport::of_rows`].
pub async fn show(store: &dyn RunStore, run: &RunId) -> Result<RunReport, OpenError> {
    let summary = store.summary(run).await.map_err(|error| missing(run, error))?;
    let rows: Vec<Row> = store.rows(run, 0).await?;
    let status = match summary.status {
        RunStatus::Running => ReportStatus::Running,
        RunStatus::Interrupted => ReportStatus::Interrupted,
        RunStatus::Suspended => ReportStatus::Suspended,
        RunStatus::Completed => ReportStatus::Completed,
        RunStatus::Failed => ReportStatus::Failed,
    };
    Ok(RunReport::of_rows(run, status, &rows)?)
}

/// A call is keyed on its declaration: a catalog that changed makes every key another one.
fn same_catalog(calls: &CellCalls, opened: &RunOpened) -> Result<(), HarnessError> {
    let now = calls.catalog().entries();
    if now == opened.catalog {
        return Ok(());
    }
    let differs = |a: &[CatalogEntry], b: &[CatalogEntry]| {
        a.iter().filter(|entry| !b.contains(entry)).map(|entry| entry.name.clone()).collect::<Vec<_>>()
    };
    let mut names = differs(&opened.catalog, &now);
    names.extend(differs(&now, &opened.catalog));
    names.sort();
    names.dedup();
    let names = if names.is_empty() { "the order".to_owned() } else { names.join(", ") };
    Err(HarnessError::incompatible(
        "run-opened",
        format!(
            "the catalog is not the one the run was opened with; different: {names}. Mock flows are named again when a \
             run is taken up"
        ),
    ))
}
