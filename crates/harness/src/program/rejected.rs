//! Why a cell did not run to a transition.

use serde::{Deserialize, Serialize};

/// Why a cell was refused or cut. The list is closed (harness contract 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectionCode {
    /// The reply holds no cell block.
    NoCell,
    /// The reply was cut off before it ended.
    OutputTruncated,
    /// The program imports or exports.
    ImportsForbidden,
    /// The program cannot be compiled.
    CompileFailed,
    /// The cell asked for a transition that does not exist.
    InvalidTransition,
    /// A cell block names a language that cells are not written in.
    UnsupportedLanguage,
    /// A limit ended the frame.
    LimitExceeded,
    /// The script waits for something that nothing will settle.
    Stalled,
}

impl RejectionCode {
    /// The code's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCell => "no_cell",
            Self::OutputTruncated => "output_truncated",
            Self::ImportsForbidden => "imports_forbidden",
            Self::CompileFailed => "compile_failed",
            Self::InvalidTransition => "invalid_transition",
            Self::UnsupportedLanguage => "unsupported_language",
            Self::LimitExceeded => "limit_exceeded",
            Self::Stalled => "stalled",
        }
    }
}

impl std::fmt::Display for RejectionCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reply or program that is refused before it runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Rejected {
    /// The kind of refusal.
    pub code: RejectionCode,
    /// What the model is told: what is wrong, where, and what to write instead.
    pub message: String,
}

impl Rejected {
    /// A refusal.
    pub fn new(code: RejectionCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
