//! The durable journal of grant events.

use async_trait::async_trait;
use serde_json::Value;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod file;
mod memory;
#[cfg(test)]
mod tests;

pub use file::{FilePersist, MAX_RECORD_BYTES};
pub use memory::MemoryPersist;

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
/// no policy by which events are dropped. The suite `conformance` (feature `conformance`) says what an implementation has
/// to show.
#[async_trait]
pub trait Persist: Send + Sync {
    /// Appends an event of [`GRANT_SOURCE`] to a run, and gives its `seq`. One that answers with an error may still have
    /// been appended, or be later.
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError>;

    /// The first `limit` events of a run whose `seq` is greater than `after`, in the order of `seq`. Fewer than `limit`
    /// means that there are no more.
    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError>;

    /// As [`append`](Self::append), but only when the run holds no event after `last`; else `None`, and nothing is
    /// appended. It is how two constructors of a store leave one record of their envelope.
    ///
    /// The default looks and then appends, which is right as long as nobody else writes to the run. A journal that several
    /// processes share has to do it in one step.
    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        if !self.page(run, last, 1).await?.is_empty() {
            return Ok(None);
        }
        self.append(run, event_type, event).await.map(Some)
    }
}
