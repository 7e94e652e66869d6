//! What a frame comes to (harness contract 3.6).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flows::canonical;
use crate::program::RejectionCode;

/// How a run goes on after a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transition {
    /// The next frame.
    Continue {
        /// What `ctx.justify` said last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        justification: Option<String>,
    },
    /// The run is complete.
    Complete {
        /// The value that `ctx.done` got.
        output: Value,
        /// The value itself when it is a string, else its canonical JSON.
        text: String,
    },
    /// The run waits.
    Park {
        /// What it waits for.
        reason: ParkReason,
        /// What the cell said of it.
        message: String,
    },
}

/// What a cell may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParkReason {
    /// A person's input.
    WaitingInput,
    /// An event.
    WaitingEvent,
    /// A quota.
    WaitingQuota,
}

impl ParkReason {
    /// The reason's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingInput => "waiting-input",
            Self::WaitingEvent => "waiting-event",
            Self::WaitingQuota => "waiting-quota",
        }
    }

    fn read(value: &Value) -> Option<Self> {
        [Self::WaitingInput, Self::WaitingEvent, Self::WaitingQuota]
            .into_iter()
            .find(|reason| value.as_str() == Some(reason.as_str()))
    }
}

/// What a cell latched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// `ctx.done(output)`.
    Done(Value),
    /// `ctx.park(reason, message)`; the message is null when it was left out.
    Park(Value, Value),
}

/// Builds the transition of a settled frame from what the cell called; nothing else builds one.
///
/// # Errors
/// A message for `invalid_transition` when the park's reason is none of the three.
pub fn repl_transition(intent: Option<Intent>, justification: Option<Value>) -> Result<Transition, String> {
    Ok(match intent {
        None => Transition::Continue { justification: justification.map(|value| text(&value)) },
        Some(Intent::Done(output)) => Transition::Complete { text: text(&output), output },
        Some(Intent::Park(reason, message)) => {
            let Some(known) = ParkReason::read(&reason) else {
                return Err(format!(
                    "ctx.park takes the reason waiting-input, waiting-event or waiting-quota, not {}",
                    super::text::cut_middle(&text(&reason), 200)
                ));
            };
            let message = if message.is_null() { String::new() } else { text(&message) };
            Transition::Park { reason: known, message }
        }
    })
}

/// A string itself, anything else as canonical JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => canonical::to_string(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// It ran to its end.
    Settled {
        /// What it asked for.
        transition: Transition,
    },
    /// It threw.
    Raised {
        /// The error's name.
        name: String,
        /// The error's message.
        message: String,
    },
    /// It was refused or cut.
    Rejected {
        /// The kind of refusal.
        code: RejectionCode,
        /// What the model is told.
        message: String,
        /// The limit that ended it (`calls`, `steps`, `timeMs`, `totalMs`, `heap`), when one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// One name that the cells of a run have bound, as the panel shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingReading {
    /// The name.
    pub name: String,
    /// `null`, `unset`, `string`, `function`, `array`, `object`, `accessor`, `unreadable`, `number`, `boolean`, ...
    pub r#type: String,
    /// `N chars`, `arity N`, `N items`, `N keys` or `value`.
    pub size: String,
}

/// What ended a frame that a limit cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// `totalMs`: replay stops at the recorded ordinals (harness contract 6.3).
    Timeout,
    /// Any other limit: replay executes it again.
    Settled,
}

/// How far a cut frame came. Each is the last ordinal, or -1 when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameBoundary {
    /// What ended the frame.
    pub terminal: Terminal,
    /// The last ordinal that was handed to the host.
    pub dispatched: i64,
    /// The last ordinal whose result the cell got.
    pub settled: i64,
    /// The interrupt polls that had passed when `timeMs` or `totalMs` cut the cell's own code: replay, which runs no
    /// clock, cuts it there again. Absent when no clock did, or when a call was pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// What a frame left behind; the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealmFrame {
    /// How the cell ended.
    pub outcome: Outcome,
    /// What it printed, within the budget of harness contract 3.4.
    pub prints: String,
    /// The names that are bound now, or the reading before when this one could not be taken.
    pub bindings: Vec<BindingReading>,
    /// How far a cut frame came; only a `limit_exceeded` has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<FrameBoundary>,
}

/// How an evaluation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameEnd {
    /// The frame has an outcome.
    Done(RealmFrame),
    /// The bridge interrupted it: there is no outcome.
    Interrupted {
        /// What the cell had printed until then.
        prints: String,
    },
}
