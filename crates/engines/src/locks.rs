//! One holder a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::storage::lock;

type Table = Arc<Mutex<HashMap<String, Arc<AsyncMutex<()>>>>>;

/// Locks by key. A key that nobody holds or waits for takes no room.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyLocks(Table);

/// A held key.
pub(crate) struct KeyGuard {
    table: Table,
    key: String,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits until nobody else holds the key.
    pub(crate) async fn hold(&self, key: &str) -> KeyGuard {
        let mutex = Arc::clone(lock(&self.0).entry(key.to_owned()).or_default());
        // Made before the wait: a wait that is given up tidies the table as well.
        let mut guard = KeyGuard { table: Arc::clone(&self.0), key: key.to_owned(), held: None };
        guard.held = Some(mutex.lock_owned().await);
        guard
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        self.held = None;
        if table.get(&self.key).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_held_once_and_forgotten() {
        let locks = KeyLocks::default();
        let held = locks.hold("a").await;
        let other = locks.hold("b").await;
        let waiting = tokio::spawn({
            let locks = locks.clone();
            async move { drop(locks.hold("a").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap();
        drop(other);
        assert!(lock(&locks.0).is_empty());
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing() {
        let locks = KeyLocks::default();
        let held = locks.hold("a").await;
        {
            let waiting = locks.hold("a");
            tokio::pin!(waiting);
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        }
        drop(held);
        assert!(lock(&locks.0).is_empty());
    }
}
