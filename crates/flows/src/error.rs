//! The one failure type of all handlers, with its closed list of codes (kernel contract 11).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// Why a flow failed. The list is closed and stable: 22 codes, in snake case on the wire.
        ///
        /// Ordinary outcomes (an exit code, an empty match set, an HTTP error status) are values, never codes, and a
        /// refused permission is never reported as [`Code::NotFound`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[schemars(inline)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// Every code, in the order of the flow reference.
            pub const ALL: [Self; 22] = [$(Self::$name,)*];

            /// The wire text of the code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The code that `text` names exactly; `None` for anything else.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The named path or ref does not exist.
    NotFound => "not_found",
    /// A file operation met something that is not a file. For hosts' own handlers.
    NotAFile => "not_a_file",
    /// A directory operation met something that is not a directory.
    NotADirectory => "not_a_directory",
    /// A read met a directory.
    IsDirectory => "is_directory",
    /// The bytes hold a NUL or are not valid UTF-8.
    BinaryFile => "binary_file",
    /// The page or line span that was asked for lies past the end.
    OffsetOutOfRange => "offset_out_of_range",
    /// The search pattern does not compile.
    InvalidPattern => "invalid_pattern",
    /// The input contradicts itself or names a value that cannot be used.
    InvalidInput => "invalid_input",
    /// The edit anchor or patch context is not in the file.
    NoMatch => "no_match",
    /// The write would leave the file exactly as it was. For hosts' own handlers.
    NotModified => "not_modified",
    /// The host or the capability kernel refused access.
    PermissionDenied => "permission_denied",
    /// A hermetic path token lies outside the declared reads.
    OutsideDeclaredReads => "outside_declared_reads",
    /// A hermetic path token lies outside the declared writes.
    OutsideDeclaredWrites => "outside_declared_writes",
    /// The process could not start, or a host operation failed.
    CommandFailed => "command_failed",
    /// The HTTP or language-server request failed.
    RequestFailed => "request_failed",
    /// The call exceeded its wall-clock budget.
    Timeout => "timeout",
    /// The provider's rate limit is reached; wait before the next try.
    RateLimited => "rate_limited",
    /// No host bound the service that the flow needs, or the service refused.
    ProviderUnavailable => "provider_unavailable",
    /// The service does not implement this query.
    Unsupported => "unsupported",
    /// The response is of a type that the flow does not render.
    UnsupportedContentType => "unsupported_content_type",
    /// The response or file is over the byte cap; it was refused before decoding.
    ResponseTooLarge => "response_too_large",
    /// A sealed `bash` was asked to run outside its one container.
    OutsideContainer => "outside_container",
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A failure of a flow: `{code, message, path?}`.
///
/// It displays as its message alone; the code and the path are fields for programs.
///
/// ```
/// use flowcell_flows::error::{Code, StdError};
/// let error = StdError::new(Code::NotFound, "File not found: a.txt").with_path("a.txt");
/// assert_eq!(
///     serde_json::to_value(&error).ok(),
///     Some(serde_json::json!({"code": "not_found", "message": "File not found: a.txt", "path": "a.txt"})),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StdError {
    /// Which of the 22 failures this is.
    pub code: Code,
    /// What went wrong, for a person or a model.
    pub message: String,
    /// The offending path, where one exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl StdError {
    /// A failure without a path.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), path: None }
    }

    /// The same failure, naming the offending path.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }
}

impl fmt::Display for StdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for StdError {}
