//! What a decoder refuses for its size (transcript contract 1 and 2).

/// The most arrays and objects one inside another in a record, the record itself counted (transcript contract 2, 5).
pub const MAX_NESTING: usize = 127;

/// Limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// The longest line in bytes, its newline not counted. A longer one is refused as soon as that many bytes are held.
    ///
    /// The default is 33,554,432: a file on disk may hold a pasted screenshot. The tail reader passes 1,048,576.
    pub line_bytes: usize,
}

impl Limits {
    /// The most bytes of text that the entries of one record may hold together: eight lines. A record says its ids with each
    /// of its entries, and one report may be of many results, so without a bound a small record could ask for a very large
    /// answer; no record that an agent writes comes near it.
    pub(crate) fn record_bytes(&self) -> usize {
        self.line_bytes.max(1_048_576).saturating_mul(8)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 33_554_432 }
    }
}
