//! How a search fails (search contract 7).

use crate::pattern::Refusal;
use flowcell_kernel::FsError;
use flowcell_kernel::HandlerError;
use flowcell_kernel::PermissionError;
use flowcell_kernel::flows::error::{Code, StdError};

/// A failure of a search. Finding nothing is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SearchError {
    /// Options that exclude each other, or a value outside its range.
    #[error("{0}")]
    InvalidInput(String),
    /// The pattern or a glob is outside its grammar.
    #[error("{0}")]
    InvalidPattern(String),
    /// The root does not exist; a dangling link as root is the same.
    #[error("{root} does not exist")]
    NotFound {
        /// The root as given.
        root: String,
    },
    /// The capability kernel refuses `fs:read` on the root.
    #[error("Cannot read {root}: {reason}.")]
    PermissionDenied {
        /// The root as given.
        root: String,
        /// What was asked, and the kernel's reason: `fs:read:/ws/keys: denied by policy`.
        reason: String,
    },
    /// The root exists but cannot be inspected, listed or read.
    #[error("{root} cannot be searched: {reason}")]
    CommandFailed {
        /// The root as given.
        root: String,
        /// The host's own reason.
        reason: String,
    },
    /// A file given as root holds a NUL byte.
    #[error("{root} is a binary file: it holds a NUL byte")]
    BinaryFile {
        /// The root as given.
        root: String,
    },
    /// The host's deadline or a cancellation cut the search.
    #[error(
        "the search was cut off by its deadline or a cancellation, and there is no partial answer; narrow root or globs"
    )]
    Timeout,
    /// The kernel could not decide about the root: a person has to, or the grant store is unavailable.
    /// It leaves the handler unchanged.
    #[error(transparent)]
    Permission(PermissionError),
}

impl SearchError {
    /// The failure code; none for what leaves the handler unchanged.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::InvalidInput(_) => Some(Code::InvalidInput),
            Self::InvalidPattern(_) => Some(Code::InvalidPattern),
            Self::NotFound { .. } => Some(Code::NotFound),
            Self::PermissionDenied { .. } => Some(Code::PermissionDenied),
            Self::CommandFailed { .. } => Some(Code::CommandFailed),
            Self::BinaryFile { .. } => Some(Code::BinaryFile),
            Self::Timeout => Some(Code::Timeout),
            Self::Permission(_) => None,
        }
    }

    fn root(&self) -> Option<&str> {
        match self {
            Self::NotFound { root }
            | Self::PermissionDenied { root, .. }
            | Self::CommandFailed { root, .. }
            | Self::BinaryFile { root } => Some(root),
            _ => None,
        }
    }

    /// The failure that an error of the file system on `root` is.
    pub(crate) fn of_root(error: FsError, root: &str) -> Self {
        let root = root.to_owned();
        match error {
            FsError::Permission(PermissionError::Denied(denied)) => {
                Self::PermissionDenied { root, reason: denied.detail() }
            }
            FsError::Permission(error) => Self::Permission(error),
            FsError::NotFound => Self::NotFound { root },
            error => Self::CommandFailed { root, reason: error.to_string() },
        }
    }
}

impl From<Refusal> for SearchError {
    fn from(refusal: Refusal) -> Self {
        Self::InvalidPattern(refusal.to_string())
    }
}

impl From<SearchError> for HandlerError {
    fn from(error: SearchError) -> Self {
        let Some(code) = error.code() else {
            let SearchError::Permission(permission) = error else { return Self::Cancelled };
            return Self::Permission(permission);
        };
        let failure = StdError::new(code, error.to_string());
        Self::Flow(match error.root() {
            Some(root) => failure.with_path(root),
            None => failure,
        })
    }
}
