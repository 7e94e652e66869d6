//! Requests that a person has to decide, and who waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio::sync::{oneshot, watch};

use super::GrantStore;
use super::judge::Judge;
use super::sabotage::Sabotage;
use crate::flows::capability::Capability;
use crate::flows::effects::Tier;
use crate::flows::rules::CapabilitySet;
use crate::meta::Meta;
use crate::permission::{GrantStoreCode, GrantStoreError, PermissionDenied, PermissionError};

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    /// `permission-<n>`, n from 1 in each store.
    pub request_id: String,
    /// What is asked.
    pub capability: Capability,
    /// How grave it is (kernel contract 4).
    pub tier: Tier,
    /// What the asker added.
    pub meta: Meta,
}

/// How a waiting request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Answered yes, or covered by a rule.
    Freed,
    /// Answered no.
    Denied,
    /// The store closed.
    Closed,
}

/// A request in the store's table.
pub(super) struct Pending {
    pub(super) request: PendingRequest,
    pub(super) ceiling: CapabilitySet,
    pub(super) judge: Option<Judge>,
    /// An answer is being written.
    pub(super) writing: bool,
    /// Who waits; nobody does in an unattended store.
    pub(super) waiter: Option<oneshot::Sender<End>>,
}

impl Pending {
    pub(super) fn end(self, end: End) {
        if let Some(waiter) = self.waiter {
            // A waiter takes its entry out under the lock before it goes, so whoever is in the table listens.
            let _listens = waiter.send(end);
        }
    }
}

/// The table of requests.
#[derive(Default)]
pub(super) struct Requests {
    last: u64,
    pub(super) pending: BTreeMap<u64, Pending>,
}

impl Requests {
    /// The number of the next request, and its id.
    pub(super) fn next(&mut self) -> (u64, String) {
        self.last = self.last.saturating_add(1);
        (self.last, request_id(self.last))
    }

    pub(super) fn find(&self, id: &str) -> Option<u64> {
        let number: u64 = id.strip_prefix("permission-")?.parse().ok()?;
        (request_id(number) == id && self.pending.contains_key(&number)).then_some(number)
    }
}

/// A request that is waited for. Dropping it takes the request out of the table.
pub(super) struct Parked<'a> {
    pub(super) store: &'a GrantStore,
    pub(super) number: u64,
    pub(super) capability: Capability,
    pub(super) answer: oneshot::Receiver<End>,
}

impl Parked<'_> {
    pub(super) async fn wait(mut self) -> Result<(), PermissionError> {
        let reason = match (&mut self.answer).await {
            Ok(End::Freed) => return Ok(()),
            Ok(End::Denied) => PermissionDenied::ON_REQUEST,
            Ok(End::Closed) | Err(_) => PermissionDenied::STORE_CLOSED,
        };
        Err(PermissionDenied::new(self.capability.clone(), reason).into())
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        if !Sabotage::KeepDropped.is_on() {
            self.store.forget(self.number);
        }
    }
}

/// Tells a host of the requests of a store as they come: what a prompt on a terminal stands on. It does not keep the store
/// alive.
///
/// ```
/// # use std::sync::Arc;
/// # use flowcell_kernel::flows::capability::Capability;
/// # use flowcell_kernel::{Authority, GrantStore, GrantStoreOptions, MemoryPersist, Meta, Resolution};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = GrantStoreOptions::new("/ws", Arc::new(MemoryPersist::new()));
/// options.run_id = Some("run-1".to_owned());
/// let store = GrantStore::open(options).await?;
/// let mut watch = store.watch();
/// let prompt = {
///     let store = store.clone();
///     tokio::spawn(async move {
///         while let Some(request) = watch.next().await {
///             store.reply(&request.request_id, Resolution::Once, None).await?;
///         }
///         Ok::<(), flowcell_kernel::GrantStoreError>(())
///     })
/// };
/// let read = Capability::parse("fs:read:/ws/a").ok_or("capability")?;
/// Authority::root(store.clone()).check(read, Meta::new()).await?;
/// store.close();
/// prompt.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RequestWatch {
    store: Weak<GrantStore>,
    changed: watch::Receiver<()>,
    seen: u64,
}

impl RequestWatch {
    pub(super) fn new(store: &Arc<GrantStore>, changed: watch::Receiver<()>) -> Self {
        RequestWatch { store: Arc::downgrade(store), changed, seen: 0 }
    }

    /// The next request that waits, in the order of their ids; each is given once, and one that was answered before it was
    /// looked at is left out. `None` when the store is closed or gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<PendingRequest> {
        loop {
            self.changed.borrow_and_update();
            {
                let store = self.store.upgrade()?;
                match store.first_after(self.seen) {
                    Err(_closed) => return None,
                    Ok(Some((number, request))) => {
                        self.seen = number;
                        return Some(request);
                    }
                    Ok(None) => {}
                }
            }
            self.changed.changed().await.ok()?;
        }
    }

    /// Waits until a request no longer waits: it was answered, by whomever, covered by a rule, or its asker went away. What
    /// takes a prompt off the screen.
    pub async fn settled(&self, request_id: &str) {
        let mut changed = self.changed.clone();
        loop {
            changed.borrow_and_update();
            match self.store.upgrade() {
                Some(store) if store.waits(request_id) => {}
                _ => return,
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

pub(super) fn request_id(number: u64) -> String {
    format!("permission-{number}")
}

pub(super) fn not_found(id: &str) -> GrantStoreError {
    GrantStoreError::new(GrantStoreCode::RequestNotFound, format!("no request {id} waits for an answer"))
}
