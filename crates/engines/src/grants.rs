//! The grant journal on the store of the runs (kernel contract 5.1).

use std::sync::Arc;

use async_trait::async_trait;
use flowcell_harness::error::PermissionRequest;
use flowcell_harness::flows::capability::{Capability, CapabilityPattern};
use flowcell_harness::journal::{Kind, Resolution, RunId, RunOpened};
use flowcell_harness::kernel::{GRANT_SOURCE, Persist, PersistError, PersistedEvent};
use flowcell_harness::keys;
use serde_json::{Value, json};

use crate::storage::{self, Access, Outcome, Refusal, Transaction};
use crate::store::Core;

/// Grant events in a table of the store.
pub(crate) struct Grants {
    core: Arc<Core>,
}

impl Grants {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    async fn run<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Result<T, PersistError> {
        let done = storage::run(self.core.storage.as_ref(), access, work, |value| value).await;
        done.map_err(|refusal| {
            PersistError::new(flowcell_harness::engine::EngineError::from(refusal).message)
        })
    }
}

#[async_trait]
impl Persist for Grants {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        let (run, event_type, event) = (run.to_owned(), event_type.to_owned(), event.clone());
        self.run(Access::Write, move |tx| tx.append_grant(&run, GRANT_SOURCE, &event_type, &event)).await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let run = run.to_owned();
        self.run(Access::Read, move |tx| tx.grants(&run, after, limit)).await
    }
}

/// Appends the durable event of an answer to the run's grants.
pub(crate) fn record_answer(
    tx: &mut dyn Transaction,
    run: &RunId,
    request: &PermissionRequest,
    resolution: Resolution,
) -> Outcome<()> {
    let event_type = match resolution {
        Resolution::Once => "flowcell.kernel.grant.once.v1",
        Resolution::Deny => "flowcell.kernel.grant.denied.v1",
    };
    let invalid = || {
        Refusal::Failed(format!("{:?}, which run {run} asks for, is not a capability", request.capability))
    };
    let capability = Capability::parse(&request.capability).ok_or_else(invalid)?;
    let pattern = CapabilityPattern::new(capability.action(), capability.resource()).ok_or_else(invalid)?;
    let opened: RunOpened = tx
        .last_of(run, &[Kind::RunOpened])?
        .ok_or_else(|| Refusal::Failed(format!("the journal of run {run} has no run-opened row")))?
        .decode()?;
    let digests: Vec<String> = opened.catalog.into_iter().map(|entry| entry.digest).collect();
    let event = json!({
        "eventType": event_type,
        "requestId": request.request_id,
        "runId": run,
        "planDigest": keys::plan_digest(&digests)?,
        "capability": capability,
        "pattern": pattern,
        "scope": "once",
        "tier": request.tier,
    });
    tx.append_grant(run.as_str(), GRANT_SOURCE, event_type, &event)?;
    Ok(())
}
