//! What a store keeps, behind one small transactional interface: the semantics of the engine are written once, over it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowcell_harness::engine::{EngineCode, EngineError, OpenError, Owner};
use flowcell_harness::error::{Escape, HarnessCode, HarnessError};
use flowcell_harness::journal::{Kind, Resolution, Row, RunId};
use flowcell_harness::kernel::PersistedEvent;
use tokio::sync::oneshot;

#[cfg(any(debug_assertions, feature = "fault-injection"))]
use crate::fault::{FaultState, Moment};

/// A run, as the store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) run: RunId,
    /// Its place in the order of creation, from 1.
    pub(crate) number: u64,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    /// The `seq` of its last row.
    pub(crate) last_seq: u64,
}

/// Who owns a run, or owned it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRow {
    pub(crate) run: RunId,
    pub(crate) epoch: u64,
    pub(crate) owner: Owner,
    pub(crate) heartbeat_ms: i64,
    pub(crate) released: bool,
}

/// The answer to a suspension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerRow {
    pub(crate) run: RunId,
    pub(crate) suspended: u64,
    pub(crate) request: String,
    pub(crate) resolution: Resolution,
    pub(crate) at_ms: i64,
}

/// Why a transaction was refused. None of it leaves a change.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Another owner holds the run, or nobody does any more.
    LeaseLost,
    /// A live owner holds the run.
    Held(Owner),
    /// There is no such run or request.
    NotFound(String),
    /// An id or a key is in use with another content.
    Conflict(String),
    /// The answer is not one that the request allows.
    Invalid(String),
    /// The journal is of another format, or does not read.
    Harness(HarnessError),
    /// The store could not be read or written.
    Failed(String),
}

impl From<HarnessError> for Refusal {
    fn from(error: HarnessError) -> Self {
        Self::Harness(error)
    }
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::LeaseLost => Self::failed(Escape::LeaseLost.to_string()),
            Refusal::Held(owner) => Self::failed(OpenError::Held(owner).to_string()),
            Refusal::NotFound(message) => Self::new(EngineCode::NotFound, message),
            Refusal::Conflict(message) => Self::new(EngineCode::IdempotencyConflict, message),
            Refusal::Invalid(message) => Self::new(EngineCode::InvalidResolution, message),
            Refusal::Harness(error) if error.code == HarnessCode::IncompatibleJournal => {
                Self::new(EngineCode::IncompatibleJournal, error.message)
            }
            Refusal::Harness(error) => Self::failed(error.message),
            Refusal::Failed(message) => Self::failed(message),
        }
    }
}

impl From<Refusal> for Escape {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::LeaseLost => Self::LeaseLost,
            Refusal::Harness(error) => Self::Harness(error),
            Refusal::Conflict(message) => {
                HarnessError::engine(format!("idempotency_conflict: {message}")).into()
            }
            other => EngineError::from(other).into(),
        }
    }
}

pub(crate) type Outcome<T> = Result<T, Refusal>;

/// One transaction: all of it is committed, or nothing.
pub(crate) trait Transaction {
    fn run(&mut self, run: &RunId) -> Outcome<Option<RunRow>>;
    /// Runs by number, falling.
    fn runs(&mut self, skip: u64, limit: u64) -> Outcome<Vec<RunRow>>;
    /// Puts a run in place of the one of that id. A number of 0 gives it the next one.
    fn put_run(&mut self, row: &RunRow) -> Outcome<()>;

    fn row(&mut self, run: &RunId, kind: Kind, key: &str) -> Outcome<Option<Row>>;
    /// Rows after a `seq`, in order.
    fn rows(&mut self, run: &RunId, after: u64) -> Outcome<Vec<Row>>;
    /// The row of these kinds with the highest `seq`.
    fn last_of(&mut self, run: &RunId, kinds: &[Kind]) -> Outcome<Option<Row>>;
    /// How many frames have ended: `cell-frame` rows that are not `null`.
    fn frames(&mut self, run: &RunId) -> Outcome<u64>;
    /// Adds a row; its `(run, kind, key)` is not there yet.
    fn insert(&mut self, row: &Row) -> Outcome<()>;

    fn owner(&mut self, run: &RunId) -> Outcome<Option<OwnerRow>>;
    fn put_owner(&mut self, row: &OwnerRow) -> Outcome<()>;

    fn answer(&mut self, run: &RunId, suspended: u64) -> Outcome<Option<AnswerRow>>;
    fn put_answer(&mut self, row: &AnswerRow) -> Outcome<()>;

    fn append_grant(
        &mut self,
        run: &str,
        source: &str,
        event_type: &str,
        event: &serde_json::Value,
    ) -> Outcome<u64>;
    fn grants(&mut self, run: &str, after: u64, limit: usize) -> Outcome<Vec<PersistedEvent>>;
}

/// A transaction that can be begun and ended.
pub(crate) trait Backend: Transaction {
    fn begin(&mut self, access: Access) -> Outcome<()>;
    fn commit(&mut self) -> Outcome<()>;
    fn roll_back(&mut self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What runs inside a transaction.
pub(crate) type Work = Box<dyn FnOnce(&mut dyn Transaction) -> Outcome<()> + Send>;
/// What runs once a transaction has ended, whoever still waits for it.
pub(crate) type Done = Box<dyn FnOnce(Outcome<()>) + Send>;

/// A transaction to run.
pub(crate) struct Job {
    pub(crate) access: Access,
    pub(crate) work: Work,
    pub(crate) done: Done,
}

/// Where transactions run. A submitted job runs to its end, or not at all; a job that is dropped did not run.
pub(crate) trait Storage: Send + Sync {
    fn submit(&self, job: Job);
}

/// Runs one transaction against a backend.
pub(crate) fn transact<B: Backend>(
    backend: &mut B,
    hooks: &Hooks,
    access: Access,
    work: Work,
) -> Outcome<()> {
    hooks.alive()?;
    backend.begin(access)?;
    let mut watched = Watched { inner: backend, hooks, inserted: Vec::new() };
    let worked = work(&mut watched);
    let inserted = watched.inserted;
    match worked.and_then(|()| backend.commit()) {
        Ok(()) => hooks.committed(&inserted),
        Err(refusal) => {
            backend.roll_back();
            Err(refusal)
        }
    }
}

/// Where faults are put in, in builds that can.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    #[cfg(any(debug_assertions, feature = "fault-injection"))]
    pub(crate) faults: Option<Arc<FaultState>>,
}

#[cfg(any(debug_assertions, feature = "fault-injection"))]
impl Hooks {
    fn alive(&self) -> Outcome<()> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults.alive())
    }
    fn at(&self, moment: Moment, kind: Kind) -> Outcome<()> {
        self.faults.as_ref().map_or(Ok(()), |faults| faults.at(moment, kind))
    }
    fn committed(&self, kinds: &[Kind]) -> Outcome<()> {
        let Some(faults) = &self.faults else { return Ok(()) };
        kinds.iter().try_for_each(|&kind| faults.committed(kind))
    }
}

#[cfg(not(any(debug_assertions, feature = "fault-injection")))]
impl Hooks {
    fn alive(&self) -> Outcome<()> {
        Ok(())
    }
    fn committed(&self, _kinds: &[Kind]) -> Outcome<()> {
        Ok(())
    }
}

/// A transaction whose inserts can be cut.
struct Watched<'a> {
    inner: &'a mut dyn Transaction,
    #[cfg_attr(not(any(debug_assertions, feature = "fault-injection")), allow(dead_code))]
    hooks: &'a Hooks,
    inserted: Vec<Kind>,
}

impl Transaction for Watched<'_> {
    fn run(&mut self, run: &RunId) -> Outcome<Option<RunRow>> {
        self.inner.run(run)
    }
    fn runs(&mut self, skip: u64, limit: u64) -> Outcome<Vec<RunRow>> {
        self.inner.runs(skip, limit)
    }
    fn put_run(&mut self, row: &RunRow) -> Outcome<()> {
        self.inner.put_run(row)
    }
    fn row(&mut self, run: &RunId, kind: Kind, key: &str) -> Outcome<Option<Row>> {
        self.inner.row(run, kind, key)
    }
    fn rows(&mut self, run: &RunId, after: u64) -> Outcome<Vec<Row>> {
        self.inner.rows(run, after)
    }
    fn last_of(&mut self, run: &RunId, kinds: &[Kind]) -> Outcome<Option<Row>> {
        self.inner.last_of(run, kinds)
    }
    fn frames(&mut self, run: &RunId) -> Outcome<u64> {
        self.inner.frames(run)
    }
    fn insert(&mut self, row: &Row) -> Outcome<()> {
        #[cfg(any(debug_assertions, feature = "fault-injection"))]
        self.hooks.at(Moment::Before, row.kind)?;
        self.inner.insert(row)?;
        self.inserted.push(row.kind);
        #[cfg(any(debug_assertions, feature = "fault-injection"))]
        self.hooks.at(Moment::During, row.kind)?;
        Ok(())
    }
    fn owner(&mut self, run: &RunId) -> Outcome<Option<OwnerRow>> {
        self.inner.owner(run)
    }
    fn put_owner(&mut self, row: &OwnerRow) -> Outcome<()> {
        self.inner.put_owner(row)
    }
    fn answer(&mut self, run: &RunId, suspended: u64) -> Outcome<Option<AnswerRow>> {
        self.inner.answer(run, suspended)
    }
    fn put_answer(&mut self, row: &AnswerRow) -> Outcome<()> {
        self.inner.put_answer(row)
    }
    fn append_grant(
        &mut self,
        run: &str,
        source: &str,
        event_type: &str,
        event: &serde_json::Value,
    ) -> Outcome<u64> {
        self.inner.append_grant(run, source, event_type, event)
    }
    fn grants(&mut self, run: &str, after: u64, limit: usize) -> Outcome<Vec<PersistedEvent>> {
        self.inner.grants(run, after, limit)
    }
}

/// Runs a transaction and waits for it. `after` turns what it came to into the answer as soon as it is committed, even
/// when nobody waits any more; then the answer is dropped.
pub(crate) async fn run<T, U, W, A>(storage: &dyn Storage, access: Access, work: W, after: A) -> Outcome<U>
where
    T: Send + 'static,
    U: Send + 'static,
    W: FnOnce(&mut dyn Transaction) -> Outcome<T> + Send + 'static,
    A: FnOnce(T) -> U + Send + 'static,
{
    let (send, receive) = oneshot::channel();
    let slot = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&slot);
    storage.submit(Job {
        access,
        work: Box::new(move |transaction| {
            let value = work(transaction)?;
            *lock(&filled) = Some(value);
            Ok(())
        }),
        done: Box::new(move |outcome| {
            let value = lock(&slot).take();
            // A transaction whose commit stood but was then cut off is not known to its caller: it reads the
            // journal again when the run is opened again.
            let answer = match (outcome, value) {
                (Ok(()), Some(value)) => Ok(after(value)),
                (Ok(()), None) => Err(Refusal::Failed("the store lost a transaction's answer".into())),
                (Err(refusal), _) => Err(refusal),
            };
            // Whoever asked may have been cancelled.
            drop(send.send(answer));
        }),
    });
    receive.await.unwrap_or_else(|_| Err(Refusal::Failed("the store is closed".into())))
}

/// Locks a mutex whose data stays usable whatever happened to another holder.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
