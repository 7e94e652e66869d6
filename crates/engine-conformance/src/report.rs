//! What the suite found.

/// A point of the suite that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The point's number and name (harness contract 13.1).
    pub point: &'static str,
    /// How many cases it was tried in.
    pub cases: u64,
}
