//! What the host and the realm say to each other: JSON bytes, so that the realm may be another process.

use serde::{Deserialize, Serialize};

use super::{BindingReading, FlowProjection, FrameBoundary, Limits};
use crate::program::RejectionCode;

/// From the host to the realm.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ToRealm {
    /// Run a program.
    Evaluate {
        frame: u64,
        text: String,
        limits: Limits,
        /// The catalog when it changed.
        flows: Option<Vec<FlowProjection>>,
        clock_free: bool,
        /// The polls after which a clock cut the frame when it ran first.
        cut_at: Option<u64>,
        /// Whether the program could throw null on its own account.
        throws_null: bool,
    },
    /// A call's reply, as JSON text, with the bytes of heap that it may need.
    Settle { ordinal: u64, reply: String, estimate: u64 },
    /// The frame ends here instead.
    Cut { why: Cut },
    /// The realm ends.
    Close,
}

/// Why a host ends a frame.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cut {
    /// `totalMs` passed while a call was pending.
    Total,
    /// The reply cannot be built in the realm.
    Heap(String),
    /// The bridge interrupted.
    Interrupted,
}

/// From the realm to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromRealm {
    /// The realm is ready.
    Opened,
    /// The cell asks for something. `input` and `at` are JSON texts.
    Call { ordinal: u64, request: Request },
    /// The cell printed a statement.
    Print { statement: super::console::Statement },
    /// The frame ended.
    Finish { finish: Box<Finish> },
    /// The realm broke.
    Failed { message: String },
}

/// What a cell asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Call { name: String, input: String, at: Option<String> },
    Checkpoint,
}

/// How a frame ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finish {
    pub(super) end: End,
    /// The panel's reading, when it could be taken.
    pub(super) bindings: Option<Vec<BindingReading>>,
    pub(super) boundary: Option<FrameBoundary>,
    /// Statements that were printed after the room was full.
    pub(super) unread: u64,
}

/// The end of a frame before its transition is built. Values are JSON texts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    Settled { intent: Intent, justification: Option<String> },
    Raised { name: String, message: String },
    Rejected { code: RejectionCode, message: String, reason: Option<String> },
    Interrupted,
}

/// What the cell latched.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Intent {
    None,
    Done { output: String },
    Park { reason: String, message: String },
}
