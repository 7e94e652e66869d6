//! The text of a cell and its digest.

use serde_json::json;

use crate::flows::canonical;

/// The one language of cells.
pub const LANGUAGE: &str = "javascript";

/// A cell's source as the model wrote it (harness contract 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The language; always [`LANGUAGE`].
    pub language: String,
    /// The program's text.
    pub text: String,
    /// The lower-case hex SHA-256 of the canonical `{kind, language, text}`.
    pub digest: String,
}

impl Source {
    /// The source of a JavaScript text.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let value = json!({"kind": "flowcell/cell-source", "language": LANGUAGE, "text": text});
        // Canonical text fails for numbers only, and there is none here.
        let digest = canonical::sha256_hex(canonical::to_string(&value).unwrap_or_default().as_bytes());
        Self { language: LANGUAGE.to_owned(), text, digest }
    }
}
