//! Which failure a flow answers for what the guarded file system reports (host contract 0, kernel contract 5.2).

use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::fs::FsError;
use crate::kernel::{HandlerError, PermissionError};

/// What a flow was doing with the path: the codes of a missing file differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looking at it: what is missing is `not_found`.
    Reading,
    /// Replacing it: what is missing is `command_failed`.
    Writing,
}

/// The failure of a flow on `path` (as the caller gave it).
///
/// A refusal is `permission_denied`. A permission that a person has to decide, and a grant store that could not serve,
/// are no answers of the flow: they leave it as [`HandlerError::Permission`].
#[must_use]
pub fn failure(access: Access, path: &str, error: FsError) -> HandlerError {
    if let FsError::Permission(open @ (PermissionError::Required(_) | PermissionError::Store(_))) = error {
        return HandlerError::Permission(open);
    }
    let code = match (&error, access) {
        (FsError::Permission(PermissionError::Denied(_)) | FsError::AccessDenied { .. }, _) => {
            Code::PermissionDenied
        }
        (FsError::NotFound | FsError::NotADirectory, Access::Reading) => Code::NotFound,
        _ => Code::CommandFailed,
    };
    // The code stands beside the message, so the words of a refusal go without it.
    let why = match error {
        FsError::Permission(PermissionError::Denied(denied)) => denied.detail(),
        error => error.to_string(),
    };
    let message = match (access, code) {
        (Access::Reading, Code::NotFound) => missing(path),
        (Access::Reading, _) => format!("Cannot read {path}: {why}."),
        (Access::Writing, _) => format!("Cannot write {path}: {why}."),
    };
    answer(code, path, message)
}

/// A failure with its path.
pub(crate) fn answer(code: Code, path: &str, message: impl Into<String>) -> HandlerError {
    StdError::new(code, message).with_path(path).into()
}

/// A path that no file can have: empty, or with a NUL.
pub(crate) fn check_path(path: &str) -> Result<(), HandlerError> {
    if path.is_empty() {
        return Err(answer(Code::InvalidInput, path, "The path is empty."));
    }
    if path.contains('\0') {
        return Err(answer(Code::InvalidInput, path, "The path holds a NUL."));
    }
    Ok(())
}

/// A count that starts at 1: a decoded input has no zero, a caller that decodes nothing might.
pub(crate) fn check_count(path: &str, name: &str, count: Option<u64>) -> Result<(), HandlerError> {
    match count {
        Some(0) => Err(answer(Code::InvalidInput, path, format!("{name} is at least 1."))),
        _ => Ok(()),
    }
}

/// The message of a missing file, as far as every flow gives it.
pub(crate) fn missing(path: &str) -> String {
    format!("File not found: {path}.")
}
