//! The text after the last newline (transcript contract 1, `pending`).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The start of a line that has not ended yet.
///
/// A state is never changed, and yet a line that arrives in a million chunks must not be copied a million times. So the
/// states of one line share one buffer that only grows: each of them is the first `len` bytes of it. The state that holds the
/// whole buffer extends it in place; any other copies its part first, and what an older state sees is what it always saw.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    buffer: Option<Arc<Mutex<String>>>,
    len: usize,
}

impl Pending {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Calls `look` with the text.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&str) -> T) -> T {
        match &self.buffer {
            Some(buffer) => look(prefix(&lock(buffer), self.len)),
            None => look(""),
        }
    }

    /// This text and what `push` adds to it, which is at most `more` bytes.
    pub(crate) fn extended(&self, more: usize, push: impl FnOnce(&mut String)) -> Self {
        let Some(buffer) = &self.buffer else {
            let mut text = String::with_capacity(more);
            push(&mut text);
            return Self::from(text);
        };
        let mut shared = lock(buffer);
        if shared.len() == self.len {
            grow(&mut shared, more);
            push(&mut shared);
            return Self { buffer: Some(Arc::clone(buffer)), len: shared.len() };
        }
        let mut text = String::with_capacity(self.len + more);
        text.push_str(prefix(&shared, self.len));
        drop(shared);
        push(&mut text);
        Self::from(text)
    }
}

/// Room for `more` bytes: half as much again, so that a line costs a constant number of copies and little spare room.
fn grow(text: &mut String, more: usize) {
    if text.capacity() - text.len() < more {
        text.reserve_exact(more.max(text.len() / 2));
    }
}

/// A buffer is only ever extended, so a panic elsewhere leaves every prefix as it was.
fn lock(buffer: &Mutex<String>) -> MutexGuard<'_, String> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first `len` bytes: a former length of the same buffer, and so the end of a character.
fn prefix(text: &str, len: usize) -> &str {
    text.get(..len).unwrap_or_default()
}

impl From<String> for Pending {
    fn from(text: String) -> Self {
        let len = text.len();
        Self { buffer: (len > 0).then(|| Arc::new(Mutex::new(text))), len }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| fmt::Debug::fmt(text, f))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        if self.len != other.len {
            return false;
        }
        match (&self.buffer, &other.buffer) {
            (Some(one), Some(two)) if Arc::ptr_eq(one, two) => true,
            // A copy, so that no two locks are held at once.
            _ => {
                let own = self.with(str::to_owned);
                other.with(|text| text == own)
            }
        }
    }
}

impl Serialize for Pending {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Pending {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.bytes().any(|byte| matches!(byte, b'\n' | 0)) {
            return Err(serde::de::Error::custom("pending text holds no newline and no NUL"));
        }
        Ok(Self::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;

    fn extended(pending: &Pending, more: &str) -> Pending {
        pending.extended(more.len(), |text| text.push_str(more))
    }

    #[test]
    fn an_older_state_sees_what_it_always_saw() {
        let one = extended(&Pending::default(), "a");
        let two = extended(&one, "b");
        let fork = extended(&one, "c");
        let three = extended(&two, "d");
        for (pending, text) in [(&one, "a"), (&two, "ab"), (&fork, "ac"), (&three, "abd")] {
            pending.with(|seen| assert_eq!(seen, text));
        }
        assert_eq!(one, Pending::from("a".to_owned()));
        assert_ne!(two, fork);
        assert_eq!(format!("{three:?}"), "\"abd\"");
    }

    #[test]
    fn a_checkpoint_with_a_newline_is_none() {
        assert!(serde_json::from_str::<Pending>("\"a\\nb\"").is_err());
        assert!(serde_json::from_str::<Pending>("\"\\u0000\"").is_err());
        assert_eq!(serde_json::from_str::<Pending>("\"ab\"").unwrap(), Pending::from("ab".to_owned()));
    }
}
