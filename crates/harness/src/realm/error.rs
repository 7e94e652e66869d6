//! What can go wrong with a realm itself, as opposed to a cell.

/// A realm that cannot be had, cannot be had as asked, or broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// No realm can be opened here.
    #[error("{0}")]
    Unavailable(String),
    /// A realm cannot be opened or used as asked.
    #[error("{0}")]
    Unsupported(String),
    /// The realm broke; it holds nothing any more.
    #[error("{0}")]
    RuntimeFailed(String),
}

impl SandboxError {
    /// The code (harness contract 10).
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Unsupported(_) => "unsupported",
            Self::RuntimeFailed(_) => "runtime_failed",
        }
    }
}
