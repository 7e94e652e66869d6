//! Why a transcript is refused (transcript contract 1, *Error*, and 7).

use serde::{Deserialize, Serialize};

/// A record that this release does not read. The message is exact (transcript contract 7); it is the display text too.
///
/// A refusal stops its source: it is not retried under another profile (transcript contract 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct TranscriptError {
    /// Which of the four reasons.
    pub code: ErrorCode,
    /// What is said to a person.
    pub message: String,
    /// The line of the source, from 1.
    pub line: u64,
}

impl TranscriptError {
    /// The fault class of all four codes: the agent wrote something this release does not read.
    pub const FAULT_CLASS: &'static str = "dependency";

    pub(crate) fn malformed(line: u64, message: String) -> Self {
        Self { code: ErrorCode::MalformedRecord, message, line }
    }

    pub(crate) fn unsupported(line: u64, message: String) -> Self {
        Self { code: ErrorCode::UnsupportedRecord, message, line }
    }
}

/// The reasons for a refusal (transcript contract 1, *Error*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// A record that needs a release comes without one.
    MissingVersion,
    /// The release that wrote it is not one that is read.
    UnsupportedVersion,
    /// A complete record of a kind that is not named.
    UnsupportedRecord,
    /// A complete line that is no JSON record, or a named kind in another shape.
    MalformedRecord,
}

impl ErrorCode {
    /// As it is written in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingVersion => "missing_version",
            Self::UnsupportedVersion => "unsupported_version",
            Self::UnsupportedRecord => "unsupported_record",
            Self::MalformedRecord => "malformed_record",
        }
    }
}
