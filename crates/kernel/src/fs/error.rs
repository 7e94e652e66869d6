//! How a file operation fails.

use rustix::io::Errno;

use crate::permission::{GrantStoreError, PermissionDenied, PermissionError, PermissionRequired};

/// A failure of the guarded file system. Which flow code it becomes is the handler's to say: the table of host contract 0
/// differs between reading and writing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FsError {
    /// Not granted, or refused by the kernel whatever is granted.
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// ENOENT, and ENOTDIR in a parent of the path.
    #[error("no such file or directory")]
    NotFound,
    /// The path names something that is no directory, where a directory is wanted.
    #[error("not a directory")]
    NotADirectory,
    /// The path names a directory, where none may stand.
    #[error("is a directory")]
    IsADirectory,
    /// Something of that name exists.
    #[error("file exists")]
    Exists,
    /// Neither a regular file nor a directory: a FIFO, a socket, a device.
    #[error("not a regular file")]
    NotRegular,
    /// The host refuses: EACCES, EPERM or EROFS. Its message is the host's own, `Permission denied (os error 13)` for
    /// one (search contract 7).
    #[error("{}", std::io::Error::from_raw_os_error(*errno))]
    AccessDenied {
        /// The host's number for it.
        errno: i32,
    },
    /// More than 40 links on the way, or the host's own ELOOP.
    #[error("too many levels of symbolic links")]
    TooManyLinks,
    /// A file that is not what the caller saw any more.
    #[error("{0}")]
    Changed(String),
    /// A path that names nothing that could be: empty, too long, or not what the operation takes.
    #[error("{0}")]
    InvalidPath(String),
    /// Any other failure of the host.
    #[error("{operation}: {message} (os error {errno})")]
    Io {
        /// The host's number for it.
        errno: i32,
        /// The host's words for it.
        message: String,
        /// What was being done, in a word or two.
        operation: &'static str,
    },
}

impl FsError {
    /// The error of a host call on the path itself.
    pub(crate) fn host(errno: Errno, operation: &'static str) -> Self {
        match errno {
            Errno::NOENT => FsError::NotFound,
            Errno::NOTDIR => FsError::NotADirectory,
            Errno::ISDIR => FsError::IsADirectory,
            Errno::EXIST => FsError::Exists,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => {
                FsError::AccessDenied { errno: errno.raw_os_error() }
            }
            Errno::LOOP => FsError::TooManyLinks,
            other => Self::other(other, operation),
        }
    }

    pub(crate) fn other(errno: Errno, operation: &'static str) -> Self {
        let mut message = std::io::Error::from(errno).to_string();
        if let Some(at) = message.find(" (os error") {
            message.truncate(at);
        }
        FsError::Io { errno: errno.raw_os_error(), message, operation }
    }

    /// Whether the kernel or the host refused: what flows answer as `permission_denied`, but for a requirement and a
    /// store failure, which are no answers (kernel contract 5.2).
    pub fn is_denied(&self) -> bool {
        matches!(self, FsError::Permission(PermissionError::Denied(_)) | FsError::AccessDenied { .. })
    }
}

impl From<PermissionDenied> for FsError {
    fn from(error: PermissionDenied) -> Self {
        FsError::Permission(error.into())
    }
}

impl From<PermissionRequired> for FsError {
    fn from(error: PermissionRequired) -> Self {
        FsError::Permission(error.into())
    }
}

impl From<GrantStoreError> for FsError {
    fn from(error: GrantStoreError) -> Self {
        FsError::Permission(error.into())
    }
}
