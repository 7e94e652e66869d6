//! A journal in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use super::{GRANT_SOURCE, Persist, PersistError, PersistedEvent};

type Runs = BTreeMap<String, Vec<PersistedEvent>>;

/// A journal in memory, for tests and for hosts that keep no grants.
#[derive(Debug, Default)]
pub struct MemoryPersist {
    runs: Mutex<Runs>,
}

impl MemoryPersist {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an event of any source, as a journal shared with others would hold it.
    pub fn append_from(&self, run: &str, source: &str, event_type: &str, event: Value) -> u64 {
        push(&mut self.runs(), run, source, event_type, event)
    }

    /// All events of a run.
    pub fn events(&self, run: &str) -> Vec<PersistedEvent> {
        self.runs().get(run).cloned().unwrap_or_default()
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(runs: &mut Runs, run: &str, source: &str, event_type: &str, event: Value) -> u64 {
    let events = runs.entry(run.to_owned()).or_default();
    let seq = events.last().map_or(1, |last| last.seq.saturating_add(1));
    events.push(PersistedEvent { seq, source: source.to_owned(), event_type: event_type.to_owned(), event });
    seq
}

#[async_trait]
impl Persist for MemoryPersist {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        Ok(self.append_from(run, GRANT_SOURCE, event_type, event.clone()))
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let runs = self.runs();
        let events = runs.get(run).map_or(&[][..], Vec::as_slice);
        let start = events.partition_point(|event| event.seq <= after);
        Ok(events[start..].iter().take(limit).cloned().collect())
    }

    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        let mut runs = self.runs();
        if runs.get(run).and_then(|events| events.last()).is_some_and(|event| event.seq > last) {
            return Ok(None);
        }
        Ok(Some(push(&mut runs, run, GRANT_SOURCE, event_type, event.clone())))
    }
}
