//! The durable journal of grant events.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

/// The source of every event that a [`Persist`] appends. Replay reads events of this source and ignores others
/// (kernel contract 5.1).
pub const GRANT_SOURCE: &str = "flowcell.kernel";

/// An event as a journal holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct PersistedEvent {
    /// Its place in the run: from 1, rising, with gaps where the journal holds events of others.
    pub seq: u64,
    /// Who wrote it; [`GRANT_SOURCE`] for the grant store.
    pub source: String,
    /// Its type, `flowcell.kernel.grant.once.v1` for one.
    pub event_type: String,
    /// Its payload.
    pub event: Value,
}

/// A journal that did not take or give an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PersistError {
    /// What went wrong, in one line.
    pub message: String,
}

impl PersistError {
    /// An error of this message.
    pub fn new(message: impl Into<String>) -> Self {
        PersistError { message: message.into() }
    }
}

/// A rejecting, durable append and a paged read (kernel contract 5.1). An append that answers `Ok` is durable; there is
/// no policy by which events are dropped.
#[async_trait]
pub trait Persist: Send + Sync {
    /// Appends an event of [`GRANT_SOURCE`] to a run, and gives its `seq`.
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError>;

    /// The first `limit` events of a run whose `seq` is greater than `after`, in the order of `seq`. Fewer than `limit`
    /// means that there are no more.
    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError>;
}

/// A journal in memory, for tests and for hosts that keep no grants.
#[derive(Debug, Default)]
pub struct MemoryPersist {
    runs: Mutex<BTreeMap<String, Vec<PersistedEvent>>>,
}

impl MemoryPersist {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an event of any source, as a journal shared with others would hold it.
    pub fn append_from(&self, run: &str, source: &str, event_type: &str, event: Value) -> u64 {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let events = runs.entry(run.to_owned()).or_default();
        let seq = events.last().map_or(1, |last| last.seq.saturating_add(1));
        events.push(PersistedEvent {
            seq,
            source: source.to_owned(),
            event_type: event_type.to_owned(),
            event,
        });
        seq
    }

    /// All events of a run.
    pub fn events(&self, run: &str) -> Vec<PersistedEvent> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned().unwrap_or_default()
    }
}

#[async_trait]
impl Persist for MemoryPersist {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        Ok(self.append_from(run, GRANT_SOURCE, event_type, event.clone()))
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let events = runs.get(run).map_or(&[][..], Vec::as_slice);
        let start = events.partition_point(|event| event.seq <= after);
        Ok(events[start..].iter().take(limit).cloned().collect())
    }
}
