//! The result of one call (transcript contract 1).

use serde::{Deserialize, Serialize};

use crate::Entry;

/// The entries that a chunk completed and the state to pass with the next chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decoded<S> {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The state after the chunk. It is the caller's checkpoint: plain JSON, stored with the receipt of the record.
    pub state: S,
}
