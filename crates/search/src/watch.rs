//! When a search has to stop before its end.

use std::fmt;

/// The host's deadline or a cancellation cut the search; there is no partial answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

/// Asked between pieces of work: each directory, each batch of entries, each 64 KiB of content.
pub(crate) struct Watch(Box<dyn Fn() -> bool + Send>);

impl Watch {
    /// A watch that asks `over` whether the search has to stop.
    pub(crate) fn new(over: impl Fn() -> bool + Send + 'static) -> Self {
        Self(Box::new(over))
    }

    /// Fails once the search has to stop.
    pub(crate) fn check(&self) -> Result<(), Cut> {
        if (self.0)() { Err(Cut) } else { Ok(()) }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
