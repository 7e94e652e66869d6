//! The store of all runs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use flowcell_harness::engine::{
    Answered, Decision, Engine, EngineCode, EngineError, OpenError, Owner, Page, RunSpec, RunStore,
    RunSummary,
};
use flowcell_harness::journal::{Kind, Resolution, Resumed, Row, RunId, RunOpened, Suspended};
use flowcell_harness::kernel::{Clock, POLICY_RUN, Persist};
use flowcell_harness::report;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::engine::{RunEngine, append, payload, same};
use crate::grants::{Grants, grant_event, is_recorded, record};
use crate::index::Index;
use crate::liveness::{Life, Liveness};
use crate::options::StoreOptions;
use crate::storage::{self, Access, AnswerRow, Outcome, OwnerRow, Refusal, RunRow, Storage, Transaction};
use crate::summary::{LIFECYCLE, summarise};

/// How old a lease has to be before an unreachable owner's run can be taken, in milliseconds (harness contract 13, E6).
pub const STALE_MS: i64 = 30_000;

/// What a store and its engines share.
pub(crate) struct Core {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) liveness: Arc<dyn Liveness>,
}

/// A store of runs: one handle to one set of data. Clones are the same handle. When the last of them and of the runs
/// that it opened is dropped, the data is closed before the drop returns.
#[derive(Clone)]
pub struct Store {
    core: Arc<Core>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    pub(crate) fn over(storage: Arc<dyn Storage>, options: StoreOptions) -> Self {
        let StoreOptions { clock, liveness, hooks: _ } = options;
        Self { core: Arc::new(Core { storage, clock, liveness }) }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Core, &mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Result<T, EngineError> {
        Ok(self.core.transact(Access::Read, work).await?)
    }
}

impl Core {
    async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        access: Access,
        work: impl FnOnce(&Self, &mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let core = Arc::clone(self);
        storage::run(self.storage.as_ref(), access, move |tx| work(&core, tx), |value| value).await
    }

    /// Whether a run's owner may be replaced: it let go, is proven dead on this host, or is unreachable and its lease
    /// is old.
    pub(crate) fn takeable(&self, owner: &OwnerRow) -> bool {
        if owner.released {
            return true;
        }
        match self.liveness.life(&owner.owner) {
            Life::Dead => true,
            Life::Unreachable => self.clock.wall_ms().saturating_sub(owner.heartbeat_ms) >= STALE_MS,
            Life::Alive | Life::Unknown => false,
        }
    }

    /// Takes a run: ownership, format, and the end of a suspension, in one transaction.
    fn take(&self, tx: &mut dyn Transaction, run: &RunId, owner: Owner) -> Outcome<Taken> {
        known(tx, run)?;
        let before = tx.owner(run)?;
        let epoch = match &before {
            None => 1,
            Some(held) if self.takeable(held) => held
                .epoch
                .checked_add(1)
                .ok_or_else(|| Refusal::Failed(format!("run {run} was taken too often")))?,
            Some(held) => return Err(Refusal::Held(held.owner.clone())),
        };
        let mut rows = tx.rows(run, 0)?;
        let opened = report::opened(&rows)?;
        let now = self.clock.wall_ms();
        tx.put_owner(&OwnerRow { run: run.clone(), epoch, owner, heartbeat_ms: now, released: false })?;
        if let Some(last) = rows.iter().rfind(|row| LIFECYCLE.contains(&row.kind))
            && last.kind == Kind::Suspended
        {
            let suspended: Suspended = last.decode()?;
            let answer = tx.answer(run, last.seq)?;
            let resumed = Resumed {
                suspended: last.seq,
                at: suspended.at,
                request: suspended.request,
                resolution: answer.map(|answer| answer.resolution),
            };
            let key = format!("resumed:{}", last.seq);
            rows.push(append(tx, run, epoch, Kind::Resumed, key, payload(&resumed)?, now)?);
        }
        let index = Index::of(rows)?;
        Ok(Taken { epoch, opened, index })
    }
}

struct Taken {
    epoch: u64,
    opened: RunOpened,
    index: Index,
}

/// The run of an id.
pub(crate) fn known(tx: &mut dyn Transaction, run: &RunId) -> Outcome<RunRow> {
    tx.run(run)?.ok_or_else(|| Refusal::NotFound(format!("no run is called {run}")))
}

/// Creates a run with its first row, or finds it again.
fn create(tx: &mut dyn Transaction, run: &RunId, opened: Value, now: i64) -> Outcome<()> {
    const KEY: &str = "run-opened";
    if tx.run(run)?.is_some() {
        return match tx.row(run, Kind::RunOpened, KEY)? {
            Some(row) if same(&row.payload, &opened) => Ok(()),
            _ => Err(Refusal::Conflict(format!(
                "run {run} was created with other parameters; take another id"
            ))),
        };
    }
    let row = RunRow { run: run.clone(), number: 0, created_ms: now, updated_ms: now, last_seq: 0 };
    tx.put_run(&row)?;
    append(tx, run, 0, Kind::RunOpened, KEY.to_owned(), opened, now)?;
    Ok(())
}

#[async_trait]
impl RunStore for Store {
    async fn create(&self, spec: RunSpec) -> Result<RunId, EngineError> {
        let RunSpec { run, opened } = spec;
        if run.as_str() == POLICY_RUN {
            return Err(EngineError::new(
                EngineCode::IdempotencyConflict,
                format!("the id {POLICY_RUN} is kept for remembered grants; take another id"),
            ));
        }
        let opened = payload(&opened).map_err(Refusal::from)?;
        let id = run.clone();
        self.core
            .transact(Access::Write, move |core, tx| create(tx, &id, opened, core.clock.wall_ms()))
            .await?;
        Ok(run)
    }

    async fn open(&self, run: &RunId, owner: Owner) -> Result<Arc<dyn Engine>, OpenError> {
        let runtime = Handle::try_current().map_err(|_| {
            EngineError::failed("a run is opened inside a Tokio runtime, which renews its lease")
        })?;
        let (core, id) = (Arc::clone(&self.core), run.clone());
        let opened = storage::run(
            self.core.storage.as_ref(),
            Access::Write,
            move |tx| {
                let taken = core.take(tx, &id, owner)?;
                Ok((core, id, taken))
            },
            // Made here, so that a run whose opener was cancelled is let go again.
            move |(core, id, Taken { epoch, opened, index })| {
                RunEngine::new(core, id, epoch, opened, index, &runtime)
            },
        );
        match opened.await {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(Refusal::NotFound(_)) => Err(OpenError::NotFound(run.clone())),
            Err(Refusal::Held(owner)) => Err(OpenError::Held(owner)),
            Err(Refusal::Harness(error)) => Err(OpenError::Harness(error)),
            Err(other) => Err(OpenError::Engine(other.into())),
        }
    }

    async fn list(&self, page: Page) -> Result<Vec<RunSummary>, EngineError> {
        self.read(move |core, tx| {
            let runs = tx.runs(page.skip, page.limit)?;
            runs.into_iter().map(|run| summarise(core, tx, run)).collect()
        })
        .await
    }

    async fn rows(&self, run: &RunId, after: u64) -> Result<Vec<Row>, EngineError> {
        let run = run.clone();
        self.read(move |_, tx| {
            known(tx, &run)?;
            tx.rows(&run, after)
        })
        .await
    }

    async fn summary(&self, run: &RunId) -> Result<RunSummary, EngineError> {
        let run = run.clone();
        self.read(move |core, tx| {
            let row = known(tx, &run)?;
            summarise(core, tx, row)
        })
        .await
    }

    async fn answer(
        &self,
        run: &RunId,
        request: Option<&str>,
        answer: Decision,
    ) -> Result<Answered, EngineError> {
        let (run, request) = (run.clone(), request.map(str::to_owned));
        let answered = self.core.transact(Access::Write, move |core, tx| {
            let row = known(tx, &run)?;
            let Some(suspended) = tx.last_of(&run, &LIFECYCLE)?.filter(|row| row.kind == Kind::Suspended)
            else {
                let status = summarise(core, tx, row)?.status;
                let status =
                    serde_json::to_value(status).ok().and_then(|name| name.as_str().map(str::to_owned));
                return Err(Refusal::NotFound(format!(
                    "run {run} waits for no permission: it is {}",
                    status.unwrap_or_default()
                )));
            };
            let why: Suspended = suspended.decode()?;
            let Some(asked) = why.request else {
                return Err(Refusal::NotFound(format!(
                    "run {run} waits for no permission: it is suspended for {}",
                    why.code.as_str()
                )));
            };
            if let Some(other) = request.filter(|request| *request != asked.request_id) {
                return Err(Refusal::NotFound(format!(
                    "run {run} waits for {}, not for {other}",
                    asked.request_id
                )));
            }
            let resolution = answer.resolution;
            let request = asked.request_id.clone();
            let mut answered = Answered { run: run.clone(), request, resolution, grant: None };
            let event = grant_event(tx, &run, &asked, why.ceiling.as_ref(), &answer)?;
            if let Some(stands) = tx.answer(&run, suspended.seq)? {
                if stands.resolution == resolution && is_recorded(tx, &event)? {
                    return Ok(answered);
                }
                return Err(Refusal::Conflict(format!(
                    "{} of run {run} was answered already, with {:?}",
                    asked.request_id,
                    stands.resolution.as_str()
                )));
            }
            tx.put_answer(&AnswerRow {
                run: run.clone(),
                suspended: suspended.seq,
                request: asked.request_id.clone(),
                resolution,
                at_ms: core.clock.wall_ms(),
            })?;
            let recorded = record(tx, &event)?;
            if matches!(resolution, Resolution::Run | Resolution::Remembered) {
                answered.grant = Some((event.run().to_owned(), recorded));
            }
            Ok(answered)
        });
        Ok(answered.await?)
    }

    fn grants(&self) -> Arc<dyn Persist> {
        Arc::new(Grants::new(Arc::clone(&self.core)))
    }
}
