//! A journal whose writes end when the schedule says so.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use serde_json::Value;

use crate::persist::{GRANT_SOURCE, MemoryPersist, Persist, PersistError, PersistedEvent};

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The schedule has not decided.
    Open,
    /// Recorded; the writer has not seen it.
    Recorded(u64),
    /// Refused.
    Failed,
}

#[derive(Debug)]
struct Write {
    run: String,
    event_type: String,
    event: Value,
    fate: Fate,
    /// The writer stopped waiting.
    abandoned: bool,
    /// The writer was told.
    told: bool,
}

/// A journal in memory, with the writes that are under way.
#[derive(Default)]
pub(super) struct Scripted {
    pub(super) records: MemoryPersist,
    writes: Mutex<Vec<Write>>,
}

impl Scripted {
    /// How many writes wait for their fate.
    pub(super) fn open(&self) -> usize {
        self.writes.lock().unwrap().iter().filter(|write| write.fate == Fate::Open).count()
    }

    /// Ends one of the open writes: recorded, or failed.
    pub(super) fn decide(&self, which: usize, record: bool) {
        let mut writes = self.writes.lock().unwrap();
        let Some(write) = writes.iter_mut().filter(|write| write.fate == Fate::Open).nth(which) else {
            return;
        };
        write.fate = if record {
            let event = write.event.clone();
            Fate::Recorded(self.records.append_from(&write.run, GRANT_SOURCE, &write.event_type, event))
        } else {
            Fate::Failed
        };
    }

    /// The records of a run whose writers were told of them: what live rules have to equal.
    pub(super) fn known(&self, run: &str) -> Vec<PersistedEvent> {
        let writes = self.writes.lock().unwrap();
        let told = |seq: u64| {
            writes.iter().any(|write| write.run == run && write.told && write.fate == Fate::Recorded(seq))
        };
        self.records.events(run).into_iter().filter(|event| told(event.seq)).collect()
    }

    /// How many writers were told of a record.
    pub(super) fn told(&self) -> usize {
        self.writes.lock().unwrap().iter().filter(|write| write.told).count()
    }

    /// How many records landed after their writers had stopped waiting.
    pub(super) fn late(&self) -> usize {
        let writes = self.writes.lock().unwrap();
        writes.iter().filter(|write| write.abandoned && matches!(write.fate, Fate::Recorded(_))).count()
    }
}

/// One write, as its writer waits for it.
struct Waiting<'a> {
    journal: &'a Scripted,
    index: usize,
}

impl Future for Waiting<'_> {
    type Output = Result<u64, PersistError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut writes = self.journal.writes.lock().unwrap();
        let write = &mut writes[self.index];
        match write.fate {
            Fate::Open => Poll::Pending,
            Fate::Recorded(seq) => {
                write.told = true;
                Poll::Ready(Ok(seq))
            }
            Fate::Failed => Poll::Ready(Err(PersistError::new("the journal failed"))),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut writes = self.journal.writes.lock().unwrap();
        let write = &mut writes[self.index];
        if !write.told && write.fate != Fate::Failed {
            write.abandoned = true;
        }
    }
}

#[async_trait]
impl Persist for Scripted {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        let index = {
            let mut writes = self.writes.lock().unwrap();
            writes.push(Write {
                run: run.to_owned(),
                event_type: event_type.to_owned(),
                event: event.clone(),
                fate: Fate::Open,
                abandoned: false,
                told: false,
            });
            writes.len() - 1
        };
        Waiting { journal: self, index }.await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        self.records.page(run, after, limit).await
    }
}

/// The records that live rules have to equal, as a journal that can be replayed.
pub(super) struct Known(pub(super) Arc<Scripted>);

#[async_trait]
impl Persist for Known {
    async fn append(&self, _run: &str, _event_type: &str, _event: &Value) -> Result<u64, PersistError> {
        Err(PersistError::new("read only"))
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let known = self.0.known(run).into_iter();
        Ok(known.filter(|event| event.seq > after).take(limit).collect())
    }
}
