//! The errors of the harness: closed lists of codes, each error a value.

use std::fmt;

use crate::kernel::PermissionRequired;
use serde::{Deserialize, Serialize};

use crate::flows::effects::Tier;
use crate::flows::rules::CapabilitySet;
use crate::realm::ParkReason;

/// Why a run, or the step of a run, cannot go on (harness contract 10). The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HarnessCode {
    /// The catalog could not be put together: a name is empty or stands twice, a source failed.
    AssemblyFailed,
    /// The journal was written by another format, or does not describe what now runs.
    IncompatibleJournal,
    /// The prompt of a frame could not be rendered.
    RenderFailed,
    /// The model gave no usable answer.
    ModelFailed,
    /// The journal, the realm or another host service failed; the run can be resumed.
    EngineFailed,
    /// The run spent its read-only frames.
    ReadOnlyCap,
    /// The run waits for something outside itself.
    Suspended,
}

impl HarnessCode {
    /// The code as it appears in JSON and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssemblyFailed => "assembly_failed",
            Self::IncompatibleJournal => "incompatible_journal",
            Self::RenderFailed => "render_failed",
            Self::ModelFailed => "model_failed",
            Self::EngineFailed => "engine_failed",
            Self::ReadOnlyCap => "read_only_cap",
            Self::Suspended => "suspended",
        }
    }
}

impl fmt::Display for HarnessCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure of the run itself, which no cell can catch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {message}")]
pub struct HarnessError {
    /// What kind of failure it is.
    pub code: HarnessCode,
    /// What failed and why, in words for a person.
    pub message: String,
    /// The journal key at which the run diverged, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl HarnessError {
    /// An error with a code and a message.
    pub fn new(code: HarnessCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), key: None }
    }

    /// `engine_failed` with a message.
    pub fn engine(message: impl Into<String>) -> Self {
        Self::new(HarnessCode::EngineFailed, message)
    }

    /// `incompatible_journal` at one journal key.
    pub fn incompatible(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: HarnessCode::IncompatibleJournal, message: message.into(), key: Some(key.into()) }
    }
}

/// Why a boundary did not settle. Nothing of it reaches a cell or a journal record of a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Escape {
    /// The run failed.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// A capability has to be granted by a person first.
    #[error(transparent)]
    Permission(#[from] PermissionRequired),
    /// Another owner took the run: this one may write nothing more.
    #[error("the run's lease was lost to another owner")]
    LeaseLost,
    /// The run was interrupted.
    #[error("the run was interrupted")]
    Aborted,
}

/// What a suspended run waits for (harness contract 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuspendCode {
    /// A person has to allow or deny a capability.
    PermissionRequired,
    /// The cell parked: a quota has to be refilled.
    WaitingQuota,
    /// The cell parked: a person has to answer.
    WaitingInput,
    /// The cell parked: something has to happen.
    WaitingEvent,
    /// The engine asked for it.
    Engine,
}

impl SuspendCode {
    /// The code as it appears in JSON and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PermissionRequired => "permission-required",
            Self::WaitingQuota => "waiting-quota",
            Self::WaitingInput => "waiting-input",
            Self::WaitingEvent => "waiting-event",
            Self::Engine => "engine",
        }
    }
}

impl From<ParkReason> for SuspendCode {
    fn from(reason: ParkReason) -> Self {
        match reason {
            ParkReason::WaitingInput => Self::WaitingInput,
            ParkReason::WaitingEvent => Self::WaitingEvent,
            ParkReason::WaitingQuota => Self::WaitingQuota,
        }
    }
}

/// The reason of a suspension, and the boundary it parked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SuspendReason {
    /// What the run waits for.
    pub code: SuspendCode,
    /// The frame that parked.
    pub frame: u64,
    /// The boundary that parked: the record key of the call or of the frame.
    pub at: String,
    /// The permission that is asked for, for `permission-required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PermissionRequest>,
    /// The call's attempt that parked, which is closed by this suspension and not an unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The call that asks for it, so that whoever answers can see what is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ParkedCall>,
    /// The ceiling that the asking call was under: what a grant for the run is bound to (kernel contract 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CapabilitySet>,
    /// What the cell said to `ctx.park`, or which denial a handler passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A call that waits for a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ParkedCall {
    /// Its place in its frame.
    pub ordinal: u64,
    /// The flow.
    pub flow: String,
    /// What is asked.
    pub input: serde_json::Value,
}

/// One start of a call that is not sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Attempt {
    /// The call key (harness contract 4).
    pub key: String,
    /// The how-manieth start of that key, from 1; 0 for a sealed call, which has no starts.
    pub number: u32,
}

/// A permission that a parked call asks for, as the journal, `show` and `approve` name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionRequest {
    /// Its id in the run, `permission-<n>`: the suspension it belongs to is the run's n-th.
    pub request_id: String,
    /// The capability, as text.
    pub capability: String,
    /// What the capability can do at worst.
    pub tier: Tier,
    /// What the asking service said of it.
    pub meta: serde_json::Value,
}

impl From<&PermissionRequired> for PermissionRequest {
    fn from(required: &PermissionRequired) -> Self {
        Self {
            request_id: required.request_id.clone(),
            capability: required.capability.to_string(),
            tier: required.tier,
            meta: serde_json::Value::Object(required.meta.clone()),
        }
    }
}
