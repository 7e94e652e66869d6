//! When a search has to stop before its end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The search is cut: by the host's deadline or a cancellation, and then there is no partial answer, or
/// because its answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

/// Asked between pieces of work: each directory, each batch of entries, each 64 KiB of content.
pub(crate) struct Watch {
    over: Box<dyn Fn() -> bool + Send + Sync>,
    stopped: AtomicBool,
}

impl Watch {
    /// A watch that asks `over` whether the search has to stop.
    pub(crate) fn new(over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { over: Box::new(over), stopped: AtomicBool::new(false) }
    }

    /// Makes every later check fail.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Fails once the search has to stop.
    pub(crate) fn check(&self) -> Result<(), Cut> {
        if self.stopped.load(Ordering::Relaxed) || (self.over)() { Err(Cut) } else { Ok(()) }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
