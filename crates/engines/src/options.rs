//! What a host hands to a store.

use std::fmt;
use std::io;
use std::sync::Arc;

use flowcell_harness::kernel::Clock;

#[cfg(any(debug_assertions, feature = "fault-injection"))]
use crate::fault::{FaultState, Faults};
use crate::liveness::{Liveness, ProcLiveness};
use crate::storage::Hooks;

/// The ports of a store.
#[derive(Clone)]
pub struct StoreOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) liveness: Arc<dyn Liveness>,
    pub(crate) hooks: Hooks,
}

impl StoreOptions {
    /// A store that reads time from `clock`, and looks for owners among the processes of this host.
    ///
    /// # Errors
    /// As [`ProcLiveness::of_this_host`].
    pub fn new(clock: Arc<dyn Clock>) -> io::Result<Self> {
        Ok(Self::with_liveness(clock, Arc::new(ProcLiveness::of_this_host()?)))
    }

    /// A store that asks `liveness` for owners.
    pub fn with_liveness(clock: Arc<dyn Clock>, liveness: Arc<dyn Liveness>) -> Self {
        Self { clock, liveness, hooks: Hooks::default() }
    }

    /// Puts faults at commits. Each use of the options counts its commits from 1.
    #[cfg(any(debug_assertions, feature = "fault-injection"))]
    #[must_use]
    pub fn with_faults(mut self, faults: Arc<dyn Faults>) -> Self {
        self.hooks.faults = Some(Arc::new(FaultState::new(faults)));
        self
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions").finish_non_exhaustive()
    }
}
