//! What a frame asks of its host while it runs.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::CallOutcome;

/// What a cell sees of one flow: an entry of `ctx.flows` (kernel contract 8). Nothing in it carries authority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowProjection {
    /// The name that a cell calls it by.
    pub name: String,
    /// One sentence for the model.
    pub description: String,
    /// The capability patterns it may ask for.
    pub capabilities: Vec<String>,
    /// Its tier, null when it declares none.
    pub tier: Option<String>,
    /// Where it runs, null when it does not say.
    pub placement: Option<String>,
    /// The JSON Schema of its input, null when there is none.
    pub input: Option<Value>,
}

/// One thing that a cell asks for; calls and checkpoints share their ordinals.
#[derive(Clone, Debug, PartialEq)]
pub enum BridgeRequest {
    /// `ctx.call(name, input, {at})`.
    Call {
        /// The flow's name; it may be unknown.
        name: String,
        /// The input, `null` when it was left out.
        input: Value,
        /// The checkpoint the call is to run at; anything that is not a handle, a promise that has not settled included,
        /// arrives as it is or as null.
        at: Option<Value>,
    },
    /// `ctx.checkpoint()`.
    Checkpoint,
}

/// The host ends the frame here: it parks, aborts, or replays no further. Everything queued is rejected with
/// `Error("The cell was interrupted")`, at most 1,024 jobs run, and the frame has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The cell was interrupted")]
pub struct Interrupted;

/// Answers a frame's calls, one at a time and in the order of their ordinals.
///
/// A frame that runs into `totalMs` drops the future that is pending then.
#[async_trait]
pub trait Bridge: Send {
    /// Answers one request. Ordinals are counted from zero in each frame.
    ///
    /// # Errors
    /// [`Interrupted`] ends the frame.
    async fn dispatch(&mut self, ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted>;
}
