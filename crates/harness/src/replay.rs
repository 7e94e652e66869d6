//! Replay: a run's records against its cells, with dispatch forbidden.
//!
//! [`ReplayEngine`] serves a journal that it may not write. It dispatches nothing, so a replay needs no ownership
//! and touches no world.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    Boundary, Call, CallBody, CallResult, Engine, OpenError, RecordBody, Recorded, RunStore,
};
use crate::error::{Escape, HarnessCode, HarnessError, SuspendReason};
use crate::exec::{Host, drive};
use crate::journal::{CellCall, FramesSeen, Kind, Resumed, Row, RunId, RunOpened};
use crate::report;

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayReport {
    /// The run.
    pub run: RunId,
    /// Whether every record was reproduced.
    pub ok: bool,
    /// How many records were reproduced: settlements, frames, attempt markers and the end.
    pub records: u64,
    /// Where the replay left the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<Diverged>,
}

/// Where a replay left the journal, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diverged {
    /// The frame.
    pub frame: u64,
    /// The journal key.
    pub key: String,
    /// Why.
    pub why: String,
}

/// Re-executes a run against its journal. Dispatches and writes nothing.
///
/// A run that has not ended is replayed as far as its journal goes.
///
/// # Errors
/// [`OpenError::NotFound`]; `incompatible_journal` for another format; `engine_failed` when the store or the realm
/// fails. A divergence is in the report.
pub async fn replay(store: &dyn RunStore, run: &RunId, host: &Host<'_>) -> Result<ReplayReport, OpenError> {
    let summary = store.summary(run).await;
    summary.map_err(|error| match error.code {
        crate::engine::EngineCode::NotFound => OpenError::NotFound(run.clone()),
        _ => OpenError::Engine(error),
    })?;
    let engine = ReplayEngine::new(run.clone(), store.rows(run, 0).await?)?;
    let driven = drive(&engine, host, true).await;
    let diverged = match driven.escape {
        Some(Escape::Harness(error)) if error.code == HarnessCode::IncompatibleJournal => {
            Some(Diverged { frame: driven.frame, key: error.key.unwrap_or_default(), why: error.message })
        }
        // The end of a journal whose run has not ended.
        Some(Escape::Aborted) | None => engine.unserved().map(|row| Diverged {
            frame: driven.frame,
            key: row.key,
            why: format!("row {} ({}) is not reproduced", row.seq, row.kind),
        }),
        Some(Escape::Harness(error)) => return Err(error.into()),
        Some(other) => return Err(HarnessError::engine(other.to_string()).into()),
    };
    Ok(ReplayReport { run: run.clone(), ok: diverged.is_none(), records: engine.served(), diverged })
}

/// The kinds that a re-execution reproduces, one by one.
const REPRODUCED: [Kind; 4] = [Kind::CellCall, Kind::CellFrame, Kind::Checkpoint, Kind::RunClosed];

/// The kinds that are decided inside a frame, and that a cut of it can pass over.
fn in_frame(kind: Kind) -> bool {
    matches!(kind, Kind::CellCall | Kind::Checkpoint)
}

/// An engine that serves a journal and cannot write it.
#[derive(Debug)]
pub struct ReplayEngine {
    run: RunId,
    opened: RunOpened,
    rows: HashMap<(Kind, String), Row>,
    resumed: HashSet<String>,
    served: Mutex<Served>,
}

#[derive(Debug, Default)]
struct Served {
    rows: HashSet<u64>,
    frames: FramesSeen,
    /// What cut frames passed over.
    passed: Vec<std::ops::Range<u64>>,
}

impl ReplayEngine {
    /// The engine of a run's rows.
    ///
    /// # Errors
    /// `incompatible_journal` for another format; `engine_failed` for rows that do not read.
    pub fn new(run: RunId, rows: Vec<Row>) -> Result<Self, HarnessError> {
        let opened = report::opened(&rows)?;
        let mut resumed = HashSet::new();
        for row in rows.iter().filter(|row| row.kind == Kind::Resumed) {
            resumed.insert(row.decode::<Resumed>()?.at);
        }
        let rows = rows.into_iter().map(|row| ((row.kind, row.key.clone()), row)).collect();
        Ok(Self { run, opened, rows, resumed, served: Mutex::default() })
    }

    /// How many records were served.
    pub fn served(&self) -> u64 {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).rows.len() as u64
    }

    /// The first record that a re-execution should have asked for and did not.
    pub fn unserved(&self) -> Option<Row> {
        self.unserved_rows().into_values().next().cloned()
    }

    fn unserved_rows(&self) -> BTreeMap<u64, &Row> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        self.rows
            .values()
            .filter(|row| REPRODUCED.contains(&row.kind) && !served.rows.contains(&row.seq))
            .filter(|row| !in_frame(row.kind) || !served.passed.iter().any(|seqs| seqs.contains(&row.seq)))
            .map(|row| (row.seq, row))
            .collect()
    }

    fn serve(&self, kind: Kind, key: &str) -> Option<&Row> {
        let row = self.rows.get(&(kind, key.to_owned()))?;
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.rows.insert(row.seq) {
            let passed = served.frames.next(row);
            served.passed.extend(passed);
        }
        Some(row)
    }

    /// Whether a frame without a marker here is the journal's last one, stopped in its middle: its calls are there and
    /// nothing after it is. Then the frame is attempted, as far as the journal goes.
    fn stopped_here(&self) -> bool {
        let closed = self.rows.keys().any(|(kind, _)| *kind == Kind::RunClosed);
        let left = self.unserved_rows();
        !closed && !left.is_empty() && left.values().all(|row| in_frame(row.kind))
    }

    /// Nothing is recorded here: the end of the journal when all of it was served, else a divergence.
    fn missing(&self, key: String, what: &str) -> Escape {
        let closed = self.rows.keys().any(|(kind, _)| *kind == Kind::RunClosed);
        if !closed && self.unserved().is_none() {
            return Escape::Aborted;
        }
        HarnessError::incompatible(key, format!("the journal has no record of {what}")).into()
    }
}

#[async_trait]
impl Engine for ReplayEngine {
    fn run(&self) -> &RunId {
        &self.run
    }

    fn opened(&self) -> &RunOpened {
        &self.opened
    }

    async fn call(&self, call: Call, _body: CallBody<'_>) -> Result<CallResult, Escape> {
        let key = call.boundary().key()?;
        let Some(row) = self.serve(Kind::CellCall, &key) else {
            let what =
                format!("call {} of frame {} ({})", call.identity.ordinal, call.identity.frame, call.flow);
            return Err(self.missing(key, &what));
        };
        let record: CellCall = row.decode()?;
        record.answers(&call).map_err(|why| HarnessError::incompatible(key, why))?;
        Ok(CallResult { outcome: record.outcome, replayed: true, ms: record.ms })
    }

    async fn record(&self, at: Boundary, _body: RecordBody<'_>) -> Result<Recorded, Escape> {
        let key = at.key()?;
        match self.serve(at.kind, &key) {
            Some(row) => Ok(Recorded { value: row.payload.clone(), fresh: false }),
            None if at.kind == Kind::CellFrame && self.stopped_here() => {
                Ok(Recorded { value: Value::Null, fresh: true })
            }
            None => Err(self.missing(key, &format!("{} in frame {}", at.kind, at.frame))),
        }
    }

    async fn resumed(&self, at: &str) -> Result<bool, Escape> {
        Ok(self.resumed.contains(at))
    }

    async fn suspensions(&self) -> Result<u64, Escape> {
        Ok(self.rows.keys().filter(|(kind, _)| *kind == Kind::Suspended).count() as u64)
    }

    async fn suspend(&self, _why: SuspendReason) -> Result<Infallible, Escape> {
        Err(Escape::Aborted)
    }

    async fn release(&self) {}
}
