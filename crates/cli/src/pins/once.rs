//! Answers for one call. They lie in the journal of their run, which can come with a workspace as well as a grant can: so
//! an answer frees its call only when the user gave it here.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use flowcell_engines::harness::engine::{
    Answered, Boundary, Call, CallBody, CallResult, Decision, Engine, EngineError, OpenError, Owner, Page,
    RecordBody, Recorded, RunSpec, RunStore, RunSummary,
};
use flowcell_engines::harness::error::{Escape, HarnessError, SuspendReason};
use flowcell_engines::harness::flows::capability::Capability;
use flowcell_engines::harness::journal::{Row, RunId, RunOpened, Suspended};
use flowcell_engines::harness::kernel::{Clock, Persist};
use serde_json::{Value, json};

use super::GrantPins;

/// The answers `once` that a user gave in one run.
#[derive(Clone, Debug)]
pub(crate) struct OncePins {
    pins: Option<GrantPins>,
    /// Every answer stands.
    trusting: bool,
}

impl OncePins {
    /// Those of a run of the store that the pins are of. Without pins nothing stands.
    pub(crate) fn new(pins: Option<&GrantPins>, run: &RunId) -> Self {
        Self { pins: pins.map(|pins| pins.of_run(run.as_str())), trusting: false }
    }

    /// Those of a store that nobody else can have written.
    pub(crate) fn trusting() -> Self {
        Self { pins: None, trusting: true }
    }

    /// Pins the answer to what a run waits for.
    ///
    /// # Errors
    /// When it cannot be kept; then it frees nothing.
    pub(crate) fn add(&self, run: &RunId, why: &Suspended, clock: &dyn Clock) -> io::Result<()> {
        if self.trusting {
            return Ok(());
        }
        let pins = self.pins.as_ref().ok_or_else(|| io::Error::other(super::NO_PLACE))?;
        let (Some(request), Some(attempt)) = (&why.request, &why.attempt) else {
            return Err(io::Error::other("the run does not say which call waits"));
        };
        pins.add(run.as_str(), 0, &answer(&why.at, &attempt.key, &request.capability), clock.wall_ms())
    }

    /// Of the capabilities that a call was allowed once, those that the user allowed.
    fn given(&self, run: &RunId, call: &Call, admitted: Vec<Capability>) -> Result<Vec<Capability>, Escape> {
        if self.trusting || admitted.is_empty() {
            return Ok(admitted);
        }
        let Some(pins) = &self.pins else { return Ok(Vec::new()) };
        let unread = |error: io::Error| HarnessError::engine(super::unread(&error).message);
        let at = call.boundary().key()?;
        let mut given = Vec::new();
        for capability in admitted {
            let answer = answer(&at, &call.key, &capability.to_string());
            if pins.given_at(run.as_str(), 0, &answer).map_err(unread)?.is_some() {
                given.push(capability);
            }
        }
        Ok(given)
    }
}

/// What is pinned of an answer: the call's place and key, which hold its input, and what it was allowed.
fn answer(at: &str, key: &str, capability: &str) -> Value {
    json!({"once": {"at": at, "key": key, "capability": capability}})
}

/// A store of runs in which an answer `once` counts only when the user gave it.
pub(crate) struct OnceStore {
    store: Arc<dyn RunStore>,
    once: OncePins,
}

impl OnceStore {
    /// A store under the answers of one of its runs.
    pub(crate) fn new(store: Arc<dyn RunStore>, once: OncePins) -> Self {
        Self { store, once }
    }
}

#[async_trait]
impl RunStore for OnceStore {
    async fn create(&self, spec: RunSpec) -> Result<RunId, EngineError> {
        self.store.create(spec).await
    }

    async fn open(&self, run: &RunId, owner: Owner) -> Result<Arc<dyn Engine>, OpenError> {
        let engine = self.store.open(run, owner).await?;
        Ok(Arc::new(OnceEngine { engine, once: self.once.clone() }))
    }

    async fn list(&self, page: Page) -> Result<Vec<RunSummary>, EngineError> {
        self.store.list(page).await
    }

    async fn rows(&self, run: &RunId, after: u64) -> Result<Vec<Row>, EngineError> {
        self.store.rows(run, after).await
    }

    async fn summary(&self, run: &RunId) -> Result<RunSummary, EngineError> {
        self.store.summary(run).await
    }

    async fn answer(
        &self,
        run: &RunId,
        request: Option<&str>,
        answer: Decision,
    ) -> Result<Answered, EngineError> {
        self.store.answer(run, request, answer).await
    }

    fn grants(&self) -> Arc<dyn Persist> {
        self.store.grants()
    }
}

struct OnceEngine {
    engine: Arc<dyn Engine>,
    once: OncePins,
}

#[async_trait]
impl Engine for OnceEngine {
    fn run(&self) -> &RunId {
        self.engine.run()
    }

    fn opened(&self) -> &RunOpened {
        self.engine.opened()
    }

    async fn admit(&self, call: &Call) -> Result<Option<CallResult>, Escape> {
        self.engine.admit(call).await
    }

    async fn call(&self, call: Call, body: CallBody<'_>) -> Result<CallResult, Escape> {
        let (run, once, asked) = (self.engine.run().clone(), self.once.clone(), call.clone());
        let body: CallBody<'_> = Box::new(move |mut dispatch| {
            match once.given(&run, &asked, std::mem::take(&mut dispatch.admitted)) {
                Ok(admitted) => {
                    dispatch.admitted = admitted;
                    body(dispatch)
                }
                Err(escape) => Box::pin(std::future::ready(Err(escape))),
            }
        });
        self.engine.call(call, body).await
    }

    async fn record(&self, at: Boundary, body: RecordBody<'_>) -> Result<Recorded, Escape> {
        self.engine.record(at, body).await
    }

    async fn resumed(&self, at: &str) -> Result<bool, Escape> {
        self.engine.resumed(at).await
    }

    async fn suspensions(&self) -> Result<u64, Escape> {
        self.engine.suspensions().await
    }

    async fn suspend(&self, why: SuspendReason) -> Result<std::convert::Infallible, Escape> {
        self.engine.suspend(why).await
    }

    async fn release(&self) {
        self.engine.release().await;
    }
}
