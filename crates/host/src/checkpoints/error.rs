//! How a checkpoint fails.

use crate::kernel::fs::FsError;

/// Why a checkpoint cannot be captured or used. To a cell all of them are `checkpoint_unavailable`; the message says which.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    /// The workspace has more entries than a checkpoint takes.
    #[error("the workspace has more than {0} entries, the most that a checkpoint takes")]
    TooManyEntries(usize),
    /// A capture would add more bytes than it may.
    #[error("more than {0} bytes are new, the most that a checkpoint takes")]
    TooManyBytes(u64),
    /// A file that was another one each time it was read.
    #[error("{0} changes while it is read")]
    Changing(String),
    /// Policy does not allow to read the workspace itself.
    #[error("the workspace may not be read")]
    NotPermitted,
    /// The workspace cannot be read.
    #[error("{path}: {error}")]
    Workspace {
        /// The path, below the workspace; empty for the workspace.
        path: String,
        /// Why.
        error: Box<FsError>,
    },
    /// A reference that was never captured, or whose run was deleted.
    #[error("there is no checkpoint {0}")]
    Unknown(String),
    /// The store holds something else than was put into it.
    #[error("the store of checkpoints is damaged: {0}")]
    Damaged(String),
    /// The store cannot be used.
    #[error("the store of checkpoints cannot be used: {0}")]
    Store(String),
    /// Nobody waits for the outcome any more.
    #[error("stopped")]
    Stopped,
}
