//! One opened, owned run.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use flowcell_harness::engine::{
    BodyResult, Boundary, Call, CallBody, CallResult, Engine, RecordBody, Recorded,
};
use flowcell_harness::error::{Escape, HarnessCode, HarnessError, SuspendReason};
use flowcell_harness::failure::CallOutcome;
use flowcell_harness::flows::canonical;
use flowcell_harness::flows::effects::Tier;
use flowcell_harness::journal::{CallStarted, CellCall, Kind, Row, RunId, RunOpened};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::index::{Index, Verdict};
use crate::locks::{KeyGuard, KeyLocks};
use crate::storage::{self, Access, Job, Outcome, OwnerRow, Refusal, Transaction, lock};
use crate::store::Core;

/// How often an owner renews its lease (harness contract 13, E6).
pub const RENEWAL: Duration = Duration::from_secs(1);

/// How often a release that failed is tried again, a renewal's time apart.
const RELEASES: u32 = 60;

/// What an engine shares with its renewal and with transactions that outlive their caller.
struct Shared {
    core: Arc<Core>,
    run: RunId,
    epoch: u64,
    index: Mutex<Index>,
    /// Another owner took the run, or it was let go.
    lost: AtomicBool,
    /// A commit failed: whether it stands is only known when the run is opened again.
    broken: AtomicBool,
    /// This engine let the run go, or is about to.
    released: AtomicBool,
}

/// An opened run of a [`Store`](crate::Store).
pub(crate) struct RunEngine {
    shared: Arc<Shared>,
    opened: RunOpened,
    locks: KeyLocks,
    renewal: AbortHandle,
}

impl fmt::Debug for RunEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEngine")
            .field("run", &self.shared.run)
            .field("epoch", &self.shared.epoch)
            .finish_non_exhaustive()
    }
}

impl RunEngine {
    /// The engine of a run that was taken under `epoch`; its lease is renewed from now on.
    pub(crate) fn new(
        core: Arc<Core>,
        run: RunId,
        epoch: u64,
        opened: RunOpened,
        index: Index,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(Shared {
            core,
            run,
            epoch,
            index: Mutex::new(index),
            lost: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            released: AtomicBool::new(false),
        });
        let renewal = runtime.spawn(renew(Arc::downgrade(&shared))).abort_handle();
        Self { shared, opened, locks: KeyLocks::default(), renewal }
    }

    /// Commits a row under the lease. `held` is kept until the commit has ended, even when nobody waits for it.
    async fn append(
        &self,
        held: Arc<KeyGuard>,
        kind: Kind,
        key: String,
        payload: Value,
        release: bool,
    ) -> Result<Arc<Row>, Escape> {
        self.shared.usable()?;
        let job = Arc::clone(&self.shared);
        let seen = Arc::clone(&self.shared);
        let committed = storage::run(
            self.shared.core.storage.as_ref(),
            Access::Write,
            move |tx| {
                let owner = job.fenced(tx)?;
                let row = append(tx, &job.run, job.epoch, kind, key, payload, job.core.clock.wall_ms())?;
                if release {
                    tx.put_owner(&OwnerRow { released: true, ..owner })?;
                }
                Ok(Arc::new(row))
            },
            move |row| {
                if release {
                    seen.released.store(true, Ordering::SeqCst);
                }
                if lock(&seen.index).add(Arc::clone(&row)).is_err() {
                    seen.broken.store(true, Ordering::SeqCst);
                }
                drop(held);
                row
            },
        )
        .await;
        committed.map_err(|refusal| self.shared.refused(refusal))
    }

    async fn settle(
        &self,
        held: Arc<KeyGuard>,
        call: Call,
        key: String,
        result: BodyResult,
        ms: u64,
    ) -> Result<CallResult, Escape> {
        let BodyResult { outcome, notes } = result;
        let record = CellCall {
            ordinal: call.identity.ordinal,
            key: call.key,
            flow: call.flow,
            declaration: call.identity.declaration,
            input: call.input,
            at: call.at,
            outcome: outcome.clone(),
            ms,
            notes,
        };
        self.append(held, Kind::CellCall, key, payload(&record)?, false).await?;
        Ok(CallResult { outcome, replayed: false, ms })
    }
}

impl Shared {
    /// # Errors
    /// Whether the engine may still answer.
    fn usable(&self) -> Result<(), Escape> {
        if self.lost.load(Ordering::SeqCst) || self.released.load(Ordering::SeqCst) {
            return Err(Escape::LeaseLost);
        }
        if self.broken.load(Ordering::SeqCst) {
            return Err(HarnessError::engine("the journal failed earlier; open the run again").into());
        }
        Ok(())
    }

    /// The owner row, when it is still this engine's.
    fn fenced(&self, tx: &mut dyn Transaction) -> Outcome<OwnerRow> {
        match tx.owner(&self.run)? {
            Some(owner) if owner.epoch == self.epoch && !owner.released => Ok(owner),
            _ => Err(Refusal::LeaseLost),
        }
    }

    /// Keeps what a refusal says of the engine.
    fn refused(&self, refusal: Refusal) -> Escape {
        match &refusal {
            Refusal::LeaseLost => self.lost.store(true, Ordering::SeqCst),
            Refusal::Failed(_) => self.broken.store(true, Ordering::SeqCst),
            _ => {}
        }
        refusal.into()
    }

    /// The transaction that lets the run go, unless another owner has it.
    fn release_job(self: &Arc<Self>) -> impl FnOnce(&mut dyn Transaction) -> Outcome<()> + Send + 'static {
        let shared = Arc::clone(self);
        move |tx| {
            let owner = shared.fenced(tx)?;
            tx.put_owner(&OwnerRow { released: true, ..owner })
        }
    }
}

/// Renews a lease until its engine is gone, or another owner has the run.
async fn renew(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.lost.load(Ordering::SeqCst) || shared.released.load(Ordering::SeqCst) {
            return;
        }
        let job = Arc::clone(&shared);
        let renewed = storage::run(
            shared.core.storage.as_ref(),
            Access::Write,
            move |tx| {
                let owner = job.fenced(tx)?;
                let heartbeat_ms = job.core.clock.wall_ms();
                tx.put_owner(&OwnerRow { heartbeat_ms, ..owner })
            },
            |()| {},
        )
        .await;
        match renewed {
            Ok(()) => {}
            Err(Refusal::LeaseLost) => {
                tracing::debug!(run = %shared.run, epoch = shared.epoch, "the lease was lost");
                shared.lost.store(true, Ordering::SeqCst);
                return;
            }
            // The store may come back; a lease that is not renewed is at worst taken by another owner.
            Err(refusal) => tracing::warn!(run = %shared.run, ?refusal, "the lease was not renewed"),
        }
    }
}

/// Lets a run go that could not be let go at once: a process that lives on would hold it for good.
async fn release_later(shared: Arc<Shared>) {
    for _ in 0..RELEASES {
        tokio::time::sleep(RENEWAL).await;
        let work = shared.release_job();
        match storage::run(shared.core.storage.as_ref(), Access::Write, work, |()| {}).await {
            Ok(()) | Err(Refusal::LeaseLost) => return,
            Err(_) => {}
        }
    }
    tracing::error!(run = %shared.run, "the run could not be released");
}

impl Drop for RunEngine {
    fn drop(&mut self) {
        self.renewal.abort();
        let over = [&self.shared.lost, &self.shared.released].iter().any(|flag| flag.load(Ordering::SeqCst));
        if !over {
            self.shared.core.storage.submit(Job {
                access: Access::Write,
                work: Box::new(self.shared.release_job()),
                done: Box::new(|_| {}),
            });
        }
    }
}

#[async_trait]
impl Engine for RunEngine {
    fn run(&self) -> &RunId {
        &self.shared.run
    }

    fn opened(&self) -> &RunOpened {
        &self.opened
    }

    async fn call(&self, call: Call, body: CallBody<'_>) -> Result<CallResult, Escape> {
        let key = call.boundary().key()?;
        let held = Arc::new(self.locks.hold(&key).await);
        self.shared.usable()?;
        let verdict = {
            let mut index = lock(&self.shared.index);
            if let Some(record) = index.settlement(&call, &key)? {
                return Ok(CallResult { outcome: record.outcome, replayed: true, ms: record.ms });
            }
            index.judge(&call, &key)?
        };
        let dispatch = match verdict {
            Verdict::Settle(failure) => {
                let result = BodyResult { outcome: CallOutcome::Failure(failure), notes: Map::new() };
                return self.settle(held, call, key, result, 0).await;
            }
            Verdict::Dispatch(dispatch) => dispatch,
        };
        if call.tier != Tier::Sealed {
            let start = CallStarted {
                identity: call.identity.clone(),
                key: call.key.clone(),
                attempt: dispatch.attempt,
                tier: call.tier,
                flow: call.flow.clone(),
            };
            let start_key = format!("{}:{}", call.key, dispatch.attempt);
            self.append(Arc::clone(&held), Kind::CallStarted, start_key, payload(&start)?, false).await?;
        }
        let began = self.shared.core.clock.now();
        let result = body(dispatch).await?;
        let took = self.shared.core.clock.now().saturating_sub(began);
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.settle(held, call, key, result, ms).await
    }

    async fn record(&self, at: Boundary, body: RecordBody<'_>) -> Result<Recorded, Escape> {
        let key = at.key()?;
        let held = Arc::new(self.locks.hold(&key).await);
        self.shared.usable()?;
        {
            let mut index = lock(&self.shared.index);
            if let Some(row) = index.claim(at.kind, &key) {
                return Ok(Recorded { value: row.payload.clone(), fresh: false });
            }
            index.may_decide(at.kind, &key, &format!("{} in frame {}", at.kind, at.frame))?;
        }
        let value = body().await?;
        let row = self.append(held, at.kind, key, value, false).await?;
        lock(&self.shared.index).pass(&row);
        Ok(Recorded { value: row.payload.clone(), fresh: true })
    }

    async fn resumed(&self, at: &str) -> Result<bool, Escape> {
        self.shared.usable()?;
        Ok(lock(&self.shared.index).resumed(at))
    }

    async fn suspensions(&self) -> Result<u64, Escape> {
        self.shared.usable()?;
        Ok(lock(&self.shared.index).suspensions())
    }

    async fn suspend(&self, why: SuspendReason) -> Result<Infallible, Escape> {
        let held = Arc::new(self.locks.hold("suspended").await);
        let number = lock(&self.shared.index).suspensions().saturating_add(1);
        let message = match &why.request {
            Some(request) => format!("the run waits for {}", request.capability),
            None => format!("the run waits: {}", why.code.as_str()),
        };
        self.append(held, Kind::Suspended, format!("suspended:{number}"), payload(&why)?, true).await?;
        self.renewal.abort();
        Err(HarnessError::new(HarnessCode::Suspended, message).into())
    }

    async fn release(&self) {
        if self.shared.lost.load(Ordering::SeqCst) || self.shared.released.swap(true, Ordering::SeqCst) {
            return;
        }
        self.renewal.abort();
        let released = storage::run(
            self.shared.core.storage.as_ref(),
            Access::Write,
            self.shared.release_job(),
            |()| {},
        )
        .await;
        if let Err(refusal) = released
            && !matches!(refusal, Refusal::LeaseLost)
        {
            tracing::warn!(run = %self.shared.run, ?refusal, "the run is not released yet");
            drop(tokio::spawn(release_later(Arc::clone(&self.shared))));
        }
    }
}

/// The payload of a row.
pub(crate) fn payload(value: &impl Serialize) -> Result<Value, HarnessError> {
    serde_json::to_value(value).map_err(|error| HarnessError::engine(format!("a row is not JSON: {error}")))
}

/// Adds a row to a run, after all others. An exact repeat gives the row that is there.
pub(crate) fn append(
    tx: &mut dyn Transaction,
    run: &RunId,
    owner_epoch: u64,
    kind: Kind,
    key: String,
    payload: Value,
    at_ms: i64,
) -> Outcome<Row> {
    if let Some(row) = tx.row(run, kind, &key)? {
        if same(&row.payload, &payload) {
            return Ok(row);
        }
        return Err(Refusal::Conflict(format!(
            "row {} ({kind}) has the key {key} and another content",
            row.seq
        )));
    }
    let known = tx.run(run)?.ok_or_else(|| Refusal::NotFound(format!("no run is called {run}")))?;
    let seq = known
        .last_seq
        .checked_add(1)
        .ok_or_else(|| Refusal::Failed(format!("the journal of run {run} is full")))?;
    let row = Row { run_id: run.clone(), seq, kind, key, payload, owner_epoch, at_ms };
    tx.insert(&row)?;
    tx.put_run(&storage::RunRow { last_seq: seq, updated_ms: at_ms, ..known })?;
    Ok(row)
}

/// Whether two values have the same canonical text.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((canonical::to_string(a), canonical::to_string(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use flowcell_harness::engine::{OpenError, Owner, RunSpec, RunStore};
    use flowcell_harness::journal::FORMAT;
    use flowcell_harness::kernel::SystemClock;
    use flowcell_harness::realm::Limits;

    use super::*;
    use crate::storage::Storage;
    use crate::{Life, Memory, Store, StoreOptions};

    /// A storage that fails a number of times.
    struct Flaky {
        inner: Arc<dyn Storage>,
        failures: AtomicU32,
    }

    impl Storage for Flaky {
        fn submit(&self, job: Job) {
            let left =
                self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match left {
                Ok(_) => (job.done)(Err(Refusal::Failed("not now".into()))),
                Err(_) => self.inner.submit(job),
            }
        }
    }

    async fn opened() -> (Arc<Flaky>, Store, RunId, Arc<dyn Engine>) {
        let options =
            StoreOptions::with_liveness(Arc::new(SystemClock::new()), Arc::new(|_: &Owner| Life::Alive));
        let inner = Memory::new().storage(options.hooks.clone());
        let flaky = Arc::new(Flaky { inner, failures: AtomicU32::new(0) });
        let store = Store::over(Arc::clone(&flaky) as _, options);
        let opened = RunOpened {
            format: FORMAT,
            session: "s".into(),
            seat: None,
            params: Value::Null,
            layers: vec![],
            capabilities: vec![],
            limits: Limits::default(),
            catalog: vec![],
        };
        let run = store.create(RunSpec { run: RunId::new("r").unwrap(), opened }).await.unwrap();
        let engine = store.open(&run, owner()).await.unwrap();
        (flaky, store, run, engine)
    }

    fn owner() -> Owner {
        Owner { host: "here".into(), pid: 1, started: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_that_fails_is_made_up_for() {
        let (flaky, store, run, engine) = opened().await;
        flaky.failures.store(2, Ordering::SeqCst);
        engine.release().await;
        drop(engine);
        assert!(matches!(store.open(&run, owner()).await, Err(OpenError::Engine(_))));
        assert!(matches!(store.open(&run, owner()).await, Err(OpenError::Held(_))));
        tokio::time::sleep(RENEWAL * 2).await;
        store.open(&run, owner()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_whose_commit_failed_answers_nothing_until_it_is_opened_again() {
        let (flaky, store, run, engine) = opened().await;
        let at = Boundary::frame("s", 0, "cell", 0);
        let record = async |engine: &dyn Engine| {
            engine.record(at.clone(), flowcell_harness::engine::recorded(Value::Null)).await
        };
        flaky.failures.store(1, Ordering::SeqCst);
        for _ in 0..2 {
            match record(engine.as_ref()).await {
                Err(Escape::Harness(error)) => assert_eq!(error.code, HarnessCode::EngineFailed),
                other => panic!("{other:?}"),
            }
        }
        engine.release().await;
        let engine = store.open(&run, owner()).await.unwrap();
        assert!(record(engine.as_ref()).await.unwrap().fresh);
    }
}
