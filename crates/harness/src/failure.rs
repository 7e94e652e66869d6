//! How a call settles: with the flow's own value, or with a coded failure that the cell can read (harness contract 3.2).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest message of a [`CallFailure`], in UTF-8 bytes (harness contract 3.2).
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// What went wrong with a call. The list is closed (harness contract 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallFailureCode {
    /// The catalog holds no flow of that name.
    UnknownFlow,
    /// The call needs an authority that the run does not have.
    CapabilityRefused,
    /// The input of a writing call looks cut off.
    TruncatedWrite,
    /// The flow's declaration is not the one that the cell was shown.
    DeclarationChanged,
    /// The input does not fit the flow's schema.
    InvalidInput,
    /// Nothing here answers the flow.
    Unimplemented,
    /// The call ran longer than its ceiling.
    Timeout,
    /// The frame is sealed: `ctx.done` or `ctx.park` was called before.
    RunCompleted,
    /// No checkpoint can be taken or read here.
    CheckpointUnavailable,
    /// The run has taken as many checkpoints as it may.
    CheckpointExhausted,
    /// A writing call was asked to run at a checkpoint.
    CheckpointReadonly,
    /// The flow cannot run at a checkpoint.
    CheckpointUnsupported,
    /// The flow itself failed; also the code of whatever has no other.
    FlowFailed,
    /// The call was started and its result is not known (harness contract 6.4).
    OutcomeUnknown,
}

impl CallFailureCode {
    /// Every code, in the contract's order.
    pub const ALL: [Self; 14] = [
        Self::UnknownFlow,
        Self::CapabilityRefused,
        Self::TruncatedWrite,
        Self::DeclarationChanged,
        Self::InvalidInput,
        Self::Unimplemented,
        Self::Timeout,
        Self::RunCompleted,
        Self::CheckpointUnavailable,
        Self::CheckpointExhausted,
        Self::CheckpointReadonly,
        Self::CheckpointUnsupported,
        Self::FlowFailed,
        Self::OutcomeUnknown,
    ];

    /// The code as a cell reads it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownFlow => "unknown_flow",
            Self::CapabilityRefused => "capability_refused",
            Self::TruncatedWrite => "truncated_write",
            Self::DeclarationChanged => "declaration_changed",
            Self::InvalidInput => "invalid_input",
            Self::Unimplemented => "unimplemented",
            Self::Timeout => "timeout",
            Self::RunCompleted => "run_completed",
            Self::CheckpointUnavailable => "checkpoint_unavailable",
            Self::CheckpointExhausted => "checkpoint_exhausted",
            Self::CheckpointReadonly => "checkpoint_readonly",
            Self::CheckpointUnsupported => "checkpoint_unsupported",
            Self::FlowFailed => "flow_failed",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// The fixed sentence that says what a cell can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::UnknownFlow => "Call one of the names in ctx.flows.",
            Self::CapabilityRefused => "This run may not do that; find another way or say what you need.",
            Self::TruncatedWrite => "Write the whole content, or make the change in smaller edits.",
            Self::DeclarationChanged => "Read ctx.flows again and call the flow as it is declared now.",
            Self::InvalidInput => "Shape the input as the flow's schema in ctx.flows says and call again.",
            Self::Unimplemented => "Nothing here answers this flow; use another one.",
            Self::Timeout => "Ask for less in one call, or give the flow a longer timeout if it takes one.",
            Self::RunCompleted => "ctx.done or ctx.park was called already; make calls before it.",
            Self::CheckpointUnavailable => "Work on the live tree instead; no checkpoint can be had here.",
            Self::CheckpointExhausted => "Use a checkpoint that was taken before, or the live tree.",
            Self::CheckpointReadonly => "Leave out `at`: a call that writes runs on the live tree.",
            Self::CheckpointUnsupported => "Leave out `at`: this flow only runs on the live tree.",
            Self::FlowFailed => "Read the message; change the input or take another way.",
            Self::OutcomeUnknown => "The call may have taken effect; look at the state before you repeat it.",
        }
    }
}

impl std::fmt::Display for CallFailureCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call that failed in a way that the cell is told of. It *resolves* in the cell, as
/// `{ok: false, error: {code, message, hint, flowCode?}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallFailure {
    /// What kind of failure it is.
    pub code: CallFailureCode,
    /// What happened, at most [`MAX_MESSAGE_BYTES`].
    pub message: String,
    /// The fixed sentence of the code.
    pub hint: String,
    /// The flow's own error code, when the flow itself failed with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_code: Option<String>,
}

impl CallFailure {
    /// A failure with the code's hint. A message longer than [`MAX_MESSAGE_BYTES`] is cut at its end and says so.
    pub fn new(code: CallFailureCode, message: impl Into<String>) -> Self {
        Self { code, message: cut(message.into()), hint: code.hint().to_owned(), flow_code: None }
    }

    /// What the cell's promise resolves to.
    pub fn envelope(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code.as_str().into());
        error.insert("message".into(), self.message.as_str().into());
        error.insert("hint".into(), self.hint.as_str().into());
        if let Some(code) = &self.flow_code {
            error.insert("flowCode".into(), code.as_str().into());
        }
        let mut envelope = Map::new();
        envelope.insert("ok".into(), false.into());
        envelope.insert("error".into(), error.into());
        envelope.into()
    }
}

/// How one call settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallOutcome {
    /// The flow's own value; the cell gets it unwrapped.
    Success(Value),
    /// A coded failure; the cell gets its envelope.
    Failure(CallFailure),
}

impl CallOutcome {
    /// What the cell's promise resolves to.
    pub fn reply(&self) -> std::borrow::Cow<'_, Value> {
        match self {
            Self::Success(value) => std::borrow::Cow::Borrowed(value),
            Self::Failure(failure) => std::borrow::Cow::Owned(failure.envelope()),
        }
    }
}

/// Cuts a message to the limit, on a character boundary, and says how much went.
fn cut(message: String) -> String {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message;
    }
    // The note is shorter than 48 bytes for any length a string can have.
    let mut keep = MAX_MESSAGE_BYTES - 48;
    while !message.is_char_boundary(keep) {
        keep -= 1;
    }
    let dropped = message.len() - keep;
    format!("{}… [{dropped} bytes cut]", &message[..keep])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_on_a_boundary_and_says_so() {
        let failure = CallFailure::new(CallFailureCode::FlowFailed, "é".repeat(4000));
        assert!(failure.message.len() <= MAX_MESSAGE_BYTES);
        assert!(failure.message.ends_with("bytes cut]"));
        let exact = "x".repeat(MAX_MESSAGE_BYTES);
        assert_eq!(CallFailure::new(CallFailureCode::Timeout, exact.clone()).message, exact);
    }

    #[test]
    fn the_envelope_has_the_contracts_members() {
        let mut failure = CallFailure::new(CallFailureCode::FlowFailed, "stale_read: changed");
        failure.flow_code = Some("stale_read".into());
        assert_eq!(
            failure.envelope(),
            serde_json::json!({"ok": false, "error": {
                "code": "flow_failed", "message": "stale_read: changed",
                "hint": CallFailureCode::FlowFailed.hint(), "flowCode": "stale_read"}})
        );
    }

    #[test]
    fn codes_read_and_write_as_they_are_spelled() {
        for code in CallFailureCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!(!code.hint().is_empty());
        }
    }
}
