//! Small facts for a call's journal record.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

/// Notes of one call at most.
pub const MAX_NOTES: usize = 64;
/// Bytes of one note's key and encoded value at most.
pub const MAX_NOTE_BYTES: usize = 4_096;
/// The key under which [`Notes::take`] says how many notes were over a limit and left out.
pub const NOTES_DROPPED: &str = "notesDropped";

/// Small JSON facts of one call, enforcement level and warnings for two, for its journal record (kernel contract 6.4).
/// A cell never sees them. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    notes: Map<String, Value>,
    dropped: u64,
}

impl Notes {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a note, replacing the one of the same key. False when it is over [`MAX_NOTES`] or [`MAX_NOTE_BYTES`]: it is
    /// then left out and counted under [`NOTES_DROPPED`].
    pub fn put(&self, key: &str, value: Value) -> bool {
        let size = serde_json::to_vec(&value).map_or(usize::MAX, |bytes| bytes.len());
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = size.saturating_add(key.len()) <= MAX_NOTE_BYTES
            && key != NOTES_DROPPED
            && (inner.notes.len() < MAX_NOTES || inner.notes.contains_key(key));
        if fits {
            inner.notes.insert(key.to_owned(), value);
        } else {
            inner.dropped = inner.dropped.saturating_add(1);
        }
        fits
    }

    /// Takes the notes out; the set is empty afterwards.
    pub fn take(&self) -> Map<String, Value> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = std::mem::take(&mut inner.notes);
        let dropped = std::mem::take(&mut inner.dropped);
        if dropped > 0 {
            notes.insert(NOTES_DROPPED.to_owned(), Value::from(dropped));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_and_disclosed() {
        let notes = Notes::new();
        for n in 0..MAX_NOTES {
            assert!(notes.put(&format!("k{n}"), Value::from(n)));
        }
        assert!(!notes.put("one more", Value::Null));
        assert!(notes.put("k0", Value::from("again")));
        assert!(!notes.put("k1", Value::from("x".repeat(MAX_NOTE_BYTES))));
        let taken = notes.take();
        assert_eq!(taken.len(), MAX_NOTES + 1);
        assert_eq!(taken[NOTES_DROPPED], Value::from(2));
        assert!(notes.take().is_empty());
    }
}
