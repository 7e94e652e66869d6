//! How a start fails.

use std::io;

use crate::fs::FsError;
use crate::permission::{GrantStoreError, PermissionDenied, PermissionError, PermissionRequired};

/// A child that was not started. Which code of a flow it becomes is the flow's to say (host contract 5).
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Not granted.
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// No such program on the child's `PATH`, or at the path given.
    #[error("{program}: not found")]
    NotFound {
        /// The program as given.
        program: String,
    },
    /// The working directory cannot be used: it is missing, no directory, or the kernel refuses the path.
    #[error("{path}: {error}")]
    Cwd {
        /// The directory as given.
        path: String,
        /// Why.
        error: Box<FsError>,
    },
    /// A request that no process can be started from: an empty command, a NUL in an argument or in a variable, an empty
    /// name or one with `=`.
    #[error("{message}")]
    InvalidInput {
        /// What is wrong.
        message: String,
    },
    /// Any other failure of the host, of a `confine` hook included.
    #[error("{operation}: {error}")]
    Io {
        /// What was being done, in a word or two.
        operation: &'static str,
        /// The host's error.
        error: io::Error,
    },
}

impl SpawnError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        SpawnError::InvalidInput { message: message.into() }
    }

    pub(crate) fn io(operation: &'static str, error: impl Into<io::Error>) -> Self {
        SpawnError::Io { operation, error: error.into() }
    }
}

impl From<PermissionRequired> for SpawnError {
    fn from(error: PermissionRequired) -> Self {
        SpawnError::Permission(error.into())
    }
}

impl From<PermissionDenied> for SpawnError {
    fn from(error: PermissionDenied) -> Self {
        SpawnError::Permission(error.into())
    }
}

impl From<GrantStoreError> for SpawnError {
    fn from(error: GrantStoreError) -> Self {
        SpawnError::Permission(error.into())
    }
}
