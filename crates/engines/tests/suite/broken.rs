//! Engines that break one promise each: the suite refuses every one of them.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flowcell_engine_conformance::{self as suite, Factory, Hooks, Subject};
use flowcell_engines::harness::engine::{
    Answered, Boundary, Call, CallBody, CallResult, Decision, Dispatch, Engine, EngineError, OpenError,
    Owner, Page, RecordBody, Recorded, RunSpec, RunStore, RunSummary,
};
use flowcell_engines::harness::error::{Escape, SuspendReason};
use flowcell_engines::harness::flows::effects::Tier;
use flowcell_engines::harness::journal::{CellCall, Kind, Row, RunId, RunOpened};
use flowcell_engines::harness::kernel::Persist;

use crate::subject::Memories;

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breach {
    /// Sealed calls are not settled in the journal.
    ForgetsSettlements,
    /// Calls that act are announced as if they did not, and so are started again after a crash.
    ForgetsStarts,
    /// A recorded settlement is served whatever is asked.
    ServesAnything,
    /// Nobody has to be asked.
    AdmitsEverything,
    /// Nobody holds a run.
    HoldsNothing,
    /// A record runs its body whenever it is asked.
    RecordsTwice,
}

struct Breaker(Breach);

#[async_trait]
impl Factory for Breaker {
    async fn subject(&self) -> Result<Box<dyn Subject>, String> {
        Ok(Box::new(BrokenSubject { inner: Memories.subject().await?, breach: self.0 }))
    }
}

struct BrokenSubject {
    inner: Box<dyn Subject>,
    breach: Breach,
}

#[async_trait]
impl Subject for BrokenSubject {
    async fn open(&self, mut hooks: Hooks) -> Result<Arc<dyn RunStore>, String> {
        if self.breach == Breach::HoldsNothing {
            hooks.probe = Arc::new(|_| suite::Life::Dead);
        }
        let inner = self.inner.open(hooks).await?;
        Ok(Arc::new(BrokenStore { inner, breach: self.breach }))
    }
    async fn rewrite(&self, run: &RunId, rows: Vec<Row>) -> Result<(), String> {
        self.inner.rewrite(run, rows).await
    }
}

struct BrokenStore {
    inner: Arc<dyn RunStore>,
    breach: Breach,
}

#[async_trait]
impl RunStore for BrokenStore {
    async fn create(&self, spec: RunSpec) -> Result<RunId, EngineError> {
        self.inner.create(spec).await
    }
    async fn open(&self, run: &RunId, owner: Owner) -> Result<Arc<dyn Engine>, OpenError> {
        let inner = self.inner.open(run, owner).await?;
        let store = Arc::clone(&self.inner);
        Ok(Arc::new(BrokenEngine { inner, store, breach: self.breach, seen: Mutex::default() }))
    }
    async fn list(&self, page: Page) -> Result<Vec<RunSummary>, EngineError> {
        self.inner.list(page).await
    }
    async fn rows(&self, run: &RunId, after: u64) -> Result<Vec<Row>, EngineError> {
        self.inner.rows(run, after).await
    }
    async fn summary(&self, run: &RunId) -> Result<RunSummary, EngineError> {
        self.inner.summary(run).await
    }
    async fn answer(
        &self,
        run: &RunId,
        request: Option<&str>,
        answer: Decision,
    ) -> Result<Answered, EngineError> {
        self.inner.answer(run, request, answer).await
    }
    fn grants(&self) -> Arc<dyn Persist> {
        self.inner.grants()
    }
}

struct BrokenEngine {
    inner: Arc<dyn Engine>,
    store: Arc<dyn RunStore>,
    breach: Breach,
    seen: Mutex<HashSet<String>>,
}

#[async_trait]
impl Engine for BrokenEngine {
    fn run(&self) -> &RunId {
        self.inner.run()
    }
    fn opened(&self) -> &RunOpened {
        self.inner.opened()
    }
    async fn call(&self, mut call: Call, body: CallBody<'_>) -> Result<CallResult, Escape> {
        match self.breach {
            Breach::ForgetsSettlements if call.tier == Tier::Sealed => {
                let answered = body(Dispatch::default()).await?;
                Ok(CallResult { outcome: answered.outcome, replayed: false, ms: 0 })
            }
            Breach::ForgetsStarts => {
                call.tier = Tier::Sealed;
                self.inner.call(call, body).await
            }
            Breach::ServesAnything => {
                let key = call.boundary().key()?;
                let rows = self.store.rows(self.run(), 0).await?;
                if let Some(row) = rows.iter().find(|row| row.kind == Kind::CellCall && row.key == key) {
                    let record: CellCall = row.decode()?;
                    call.flow = record.flow;
                    call.input = record.input;
                    call.at = record.at;
                    call.identity.declaration = record.declaration;
                }
                self.inner.call(call, body).await
            }
            Breach::AdmitsEverything => {
                let capability = "net:get:https://example.com".parse().map_err(|_| Escape::Aborted)?;
                let body: CallBody<'_> = Box::new(move |mut dispatch| {
                    dispatch.admitted.push(capability);
                    body(dispatch)
                });
                self.inner.call(call, body).await
            }
            _ => self.inner.call(call, body).await,
        }
    }
    async fn record(&self, at: Boundary, body: RecordBody<'_>) -> Result<Recorded, Escape> {
        if self.breach == Breach::RecordsTwice && !self.seen.lock().unwrap().insert(at.key()?) {
            return Ok(Recorded { value: body().await?, fresh: false });
        }
        self.inner.record(at, body).await
    }
    async fn suspensions(&self) -> Result<u64, Escape> {
        self.inner.suspensions().await
    }

    async fn resumed(&self, at: &str) -> Result<bool, Escape> {
        self.inner.resumed(at).await
    }
    async fn suspend(&self, why: SuspendReason) -> Result<Infallible, Escape> {
        self.inner.suspend(why).await
    }
    async fn release(&self) {
        self.inner.release().await;
    }
}

/// What the suite says of an engine that breaks a promise.
async fn refused(breach: Breach) -> String {
    let root = tempfile::tempdir().unwrap();
    let factory = Breaker(breach);
    let outcome = match breach {
        Breach::ForgetsSettlements => suite::crashes_after(&factory, root.path()).await,
        Breach::ForgetsStarts => suite::crashes_before(&factory, root.path()).await,
        Breach::ServesAnything => suite::divergence(&factory, root.path()).await,
        Breach::AdmitsEverything => suite::permission_park(&factory, root.path()).await,
        Breach::HoldsNothing => suite::concurrency(&factory, root.path()).await,
        Breach::RecordsTwice => suite::boundaries(&factory, root.path()).await,
    };
    match outcome {
        Ok(report) => panic!("{breach:?} passed {report:?}"),
        Err(why) => why,
    }
}

macro_rules! breaches {
    ($($name:ident: $breach:ident => $says:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let why = refused(Breach::$breach).await;
            assert!(why.contains($says), "{why}");
        }
    )*};
}

breaches! {
    a_forgotten_settlement_is_found: ForgetsSettlements => "Crash After";
    a_forgotten_start_is_found: ForgetsStarts => "OutcomeUnknown";
    a_settlement_of_anything_is_found: ServesAnything => "the code";
    a_permission_that_nobody_gave_is_found: AdmitsEverything => "Suspended";
    a_run_that_nobody_holds_is_found: HoldsNothing => "an owner that is";
    a_record_made_twice_is_found: RecordsTwice => "bodies";
}
