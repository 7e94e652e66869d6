//! The grant journal on the store of the runs (kernel contract 5.1).

use std::sync::Arc;

use async_trait::async_trait;
use flowcell_harness::engine::Decision;
use flowcell_harness::error::PermissionRequest;
use flowcell_harness::flows::capability::Capability;
use flowcell_harness::flows::rules::CapabilitySet;
use flowcell_harness::journal::{Kind, Resolution, RunId, RunOpened};
use flowcell_harness::kernel::{
    self, GRANT_SOURCE, GrantEvent, PAGE_EVENTS, Persist, PersistError, PersistedEvent, ReplyContext,
    plan_reply,
};
use flowcell_harness::keys;
use serde_json::Value;

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

    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        let (run, event_type, event) = (run.to_owned(), event_type.to_owned(), event.clone());
        self.run(Access::Write, move |tx| {
            if !tx.grants(&run, last, 1)?.is_empty() {
                return Ok(None);
            }
            tx.append_grant(&run, GRANT_SOURCE, &event_type, &event).map(Some)
        })
        .await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let run = run.to_owned();
        self.run(Access::Read, move |tx| tx.grants(&run, after, limit)).await
    }
}

/// The durable event of an answer, as the kernel's own store would record it.
pub(crate) fn grant_event(
    tx: &mut dyn Transaction,
    run: &RunId,
    request: &PermissionRequest,
    ceiling: Option<&CapabilitySet>,
    answer: &Decision,
) -> Outcome<GrantEvent> {
    let capability = Capability::parse(&request.capability).ok_or_else(|| {
        Refusal::Failed(format!("{:?}, which run {run} asks for, is not a capability", request.capability))
    })?;
    let opened: RunOpened = tx
        .last_of(run, &[Kind::RunOpened])?
        .ok_or_else(|| Refusal::Failed(format!("the journal of run {run} has no run-opened row")))?
        .decode()?;
    let digests: Vec<String> = opened.catalog.into_iter().map(|entry| entry.digest).collect();
    let plan_digest = keys::plan_digest(&digests)?;
    let resolution = match answer.resolution {
        Resolution::Once => kernel::Resolution::Once,
        Resolution::Run => kernel::Resolution::Run,
        Resolution::Remembered => kernel::Resolution::Remembered,
        Resolution::Deny => kernel::Resolution::Deny,
    };
    // A suspension of before grants for a run says nothing of its ceiling: such a grant reaches nothing.
    let nothing = CapabilitySet::none();
    let context = ReplyContext {
        request_id: &request.request_id,
        capability: &capability,
        tier: request.tier,
        ceiling: ceiling.unwrap_or(&nothing),
        run_id: Some(run.as_str()),
        plan_digest: Some(&plan_digest),
        workspace_root: &answer.workspace_root,
    };
    plan_reply(&context, resolution, answer.pattern.clone())
        .map_err(|error| Refusal::Invalid(error.message.unwrap_or_else(|| error.code.as_str().to_owned())))
}

/// Appends a grant event to the run that it belongs to.
pub(crate) fn record(tx: &mut dyn Transaction, event: &GrantEvent) -> Outcome<PersistedEvent> {
    let (event_type, payload) = (event.event_type(), encoded(event)?);
    let seq = tx.append_grant(event.run(), GRANT_SOURCE, event_type, &payload)?;
    Ok(PersistedEvent {
        seq,
        source: GRANT_SOURCE.to_owned(),
        event_type: event_type.to_owned(),
        event: payload,
    })
}

/// Whether the journal holds an event already: the same answer, for as much.
pub(crate) fn is_recorded(tx: &mut dyn Transaction, event: &GrantEvent) -> Outcome<bool> {
    let payload = encoded(event)?;
    let mut after = 0;
    loop {
        let page = tx.grants(event.run(), after, PAGE_EVENTS)?;
        let Some(last) = page.last() else { return Ok(false) };
        after = last.seq;
        if page.iter().any(|found| found.event == payload) {
            return Ok(true);
        }
    }
}

fn encoded(event: &GrantEvent) -> Outcome<Value> {
    event.encode().map_err(|error| Refusal::Invalid(error.to_string()))
}
