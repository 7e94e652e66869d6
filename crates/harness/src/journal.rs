//! The journal's rows (harness contract 5): what a run has durably decided, and nothing else.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::engine::Call;
use crate::error::{HarnessError, PermissionRequest, SuspendReason};
use crate::failure::{CallFailure, CallFailureCode, CallOutcome};
use crate::flows::effects::Tier;
use crate::keys::CallIdentity;
use crate::realm::Limits;

/// The journal's format. A run opened under another one is not read.
pub const FORMAT: u32 = 2;

/// The longest run id, in bytes.
pub const MAX_RUN_ID: usize = 128;

/// The name of a run: 1 to 128 of `A-Za-z0-9._-`, not starting with a dot or a dash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// A text that names no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a run id is 1 to {MAX_RUN_ID} letters, digits, dots, dashes and underscores, and starts with none but a letter, a digit or an underscore"
)]
pub struct InvalidRunId;

impl RunId {
    /// The run id that a text names.
    ///
    /// # Errors
    /// [`InvalidRunId`] for any other text.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidRunId> {
        let text = text.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if first && text.len() <= MAX_RUN_ID && text.bytes().all(plain) {
            Ok(Self(text))
        } else {
            Err(InvalidRunId)
        }
    }

    /// A run id made of 16 random bytes.
    pub fn random(bytes: [u8; 16]) -> Self {
        Self(format!("run-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidRunId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// The kinds of rows. The list is closed; the names are the journal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The run's parameters.
    RunOpened,
    /// A settled model request.
    SealedStep,
    /// The catalog that a frame disclosed.
    Catalog,
    /// A call that is not sealed is about to be dispatched.
    CallStarted,
    /// A call's settlement.
    CellCall,
    /// An attempt at a frame, or its end.
    CellFrame,
    /// A minted checkpoint.
    Checkpoint,
    /// A measured tree.
    Workspace,
    /// The notifications that a boundary delivered.
    SteeringDrain,
    /// The run parked.
    Suspended,
    /// The run goes on after a park.
    Resumed,
    /// The run's end.
    RunClosed,
}

impl Kind {
    /// Every kind, in the order of the contract.
    pub const ALL: [Self; 12] = [
        Self::RunOpened,
        Self::SealedStep,
        Self::Catalog,
        Self::CallStarted,
        Self::CellCall,
        Self::CellFrame,
        Self::Checkpoint,
        Self::Workspace,
        Self::SteeringDrain,
        Self::Suspended,
        Self::Resumed,
        Self::RunClosed,
    ];

    /// The kind's name in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunOpened => "run-opened",
            Self::SealedStep => "sealed-step",
            Self::Catalog => "catalog",
            Self::CallStarted => "call-started",
            Self::CellCall => "cell-call",
            Self::CellFrame => "cell-frame",
            Self::Checkpoint => "checkpoint",
            Self::Workspace => "workspace",
            Self::SteeringDrain => "steering-drain",
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
            Self::RunClosed => "run-closed",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no kind of row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no kind of journal row is called {0:?}")]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// One row of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The run it belongs to.
    pub run_id: RunId,
    /// Its place: strictly increasing in a run, gaps allowed.
    pub seq: u64,
    /// What it says.
    pub kind: Kind,
    /// What it is keyed by: unique in a run and kind.
    pub key: String,
    /// What was decided, in the shape of its kind.
    pub payload: Value,
    /// The epoch of the owner that wrote it.
    pub owner_epoch: u64,
    /// When it was written, in milliseconds since 1970 by the store's clock. Nothing is decided by it.
    pub at_ms: i64,
}

impl Row {
    /// The payload in the shape of its kind.
    ///
    /// # Errors
    /// `engine_failed` when a field is missing, unknown or of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, HarnessError> {
        decode(self.kind, self.seq, &self.payload)
    }
}

pub(crate) fn decode<T: DeserializeOwned>(kind: Kind, seq: u64, payload: &Value) -> Result<T, HarnessError> {
    T::deserialize(payload).map_err(|error| {
        HarnessError::engine(format!("row {seq} ({kind}) does not read as a {kind}: {error}"))
    })
}

/// A flow of the run's catalog, as the journal pins it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogEntry {
    /// The flow's name.
    pub name: String,
    /// Its declaration digest.
    pub digest: String,
}

/// `run-opened`: all that a resume needs, but for rules and mocks, which are named again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunOpened {
    /// The journal's format, [`FORMAT`].
    pub format: u32,
    /// The session that the run's keys carry.
    pub session: String,
    /// The model's seat, `provider:model`; absent for a run without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
    /// What the run was asked to do, in the shape of the controller that runs it.
    pub params: Value,
    /// The layers of the run, sorted and unique.
    pub layers: Vec<String>,
    /// The run's capability envelope; empty for no envelope of its own.
    pub capabilities: Vec<String>,
    /// The limits of its frames.
    pub limits: Limits,
    /// The catalog, in its order.
    pub catalog: Vec<CatalogEntry>,
}

/// `call-started`: the proof that a call may have acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CallStarted {
    /// Whose call it is.
    pub identity: CallIdentity,
    /// The call key.
    pub key: String,
    /// The how-manieth start, from 1.
    pub attempt: u32,
    /// The tier, never sealed.
    pub tier: Tier,
    /// The flow's name.
    pub flow: String,
}

/// `cell-call`: a settlement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CellCallWire", into = "CellCallWire")]
pub struct CellCall {
    /// The call's place in its frame.
    pub ordinal: u64,
    /// The call key.
    pub key: String,
    /// The flow's name.
    pub flow: String,
    /// The declaration digest that the call carried.
    pub declaration: String,
    /// What the cell asked.
    pub input: Value,
    /// The checkpoint it was asked at.
    pub at: Option<String>,
    /// What it settled as.
    pub outcome: CallOutcome,
    /// How long the dispatch took, in milliseconds.
    pub ms: u64,
    /// Small facts that the handler noted for the record; no cell sees them.
    pub notes: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CellCallWire {
    ordinal: u64,
    key: String,
    flow: String,
    declaration: String,
    input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<CallFailureCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flow_code: Option<String>,
    ms: u64,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    notes: Map<String, Value>,
}

/// A member that is there, `null` included.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl From<CellCall> for CellCallWire {
    fn from(call: CellCall) -> Self {
        let mut wire = Self {
            ordinal: call.ordinal,
            key: call.key,
            flow: call.flow,
            declaration: call.declaration,
            input: call.input,
            at: call.at,
            ok: false,
            value: None,
            code: None,
            message: None,
            flow_code: None,
            ms: call.ms,
            notes: call.notes,
        };
        match call.outcome {
            CallOutcome::Success(value) => {
                wire.ok = true;
                wire.value = Some(value);
            }
            CallOutcome::Failure(failure) => {
                wire.code = Some(failure.code);
                wire.message = Some(failure.message);
                wire.flow_code = failure.flow_code;
            }
        }
        wire
    }
}

impl TryFrom<CellCallWire> for CellCall {
    type Error = String;
    fn try_from(wire: CellCallWire) -> Result<Self, Self::Error> {
        let outcome = match (wire.ok, wire.value, wire.code, wire.message) {
            (true, Some(value), None, None) if wire.flow_code.is_none() => CallOutcome::Success(value),
            (true, None, ..) => return Err("a success lacks its value".into()),
            (true, ..) => return Err("a success carries a failure's members".into()),
            (false, None, Some(code), Some(message)) => {
                let mut failure = CallFailure::new(code, message);
                failure.flow_code = wire.flow_code;
                CallOutcome::Failure(failure)
            }
            (false, ..) => return Err("a failure has a code, a message and no value".into()),
        };
        Ok(Self {
            ordinal: wire.ordinal,
            key: wire.key,
            flow: wire.flow,
            declaration: wire.declaration,
            input: wire.input,
            at: wire.at,
            outcome,
            ms: wire.ms,
            notes: wire.notes,
        })
    }
}

impl CellCall {
    /// Whether this settlement answers what a cell now asks (harness contract 6.4).
    ///
    /// # Errors
    /// In words, what differs.
    pub fn answers(&self, call: &Call) -> Result<(), String> {
        let differs = if self.flow != call.flow {
            format!("{:?} was called, now {:?} is", self.flow, call.flow)
        } else if self.input != call.input {
            format!("the input of {:?} differs", self.flow)
        } else if self.declaration != call.identity.declaration {
            format!("the declaration of {:?} changed", self.flow)
        } else if self.at != call.at {
            format!("{:?} is asked at another checkpoint", self.flow)
        } else {
            return Ok(());
        };
        Err(format!("call {} differs from its record: {differs}", self.ordinal))
    }
}

/// `suspended`: the run parked, durably, and its owner let go of it.
pub type Suspended = SuspendReason;

/// Follows an execution through a run's `cell-frame` rows, to tell which settlements a cut frame passed over.
///
/// A frame that is taken up again may be cut by a clock before it comes to all that an earlier attempt at it settled. Those
/// settlements stay, and no later execution asks for them.
#[derive(Clone, Debug, Default)]
pub struct FramesSeen {
    first: Option<u64>,
}

impl FramesSeen {
    /// Takes in the next `cell-frame` row that an execution comes to. For the record of a cut frame, the `seq`s of all
    /// that was written from its first attempt on.
    pub fn next(&mut self, row: &Row) -> Option<std::ops::Range<u64>> {
        if row.kind != Kind::CellFrame {
            return None;
        }
        if row.payload.is_null() {
            self.first.get_or_insert(row.seq);
            return None;
        }
        let first = self.first.take()?;
        row.payload.get("boundary").is_some_and(|boundary| !boundary.is_null()).then_some(first..row.seq)
    }
}

/// What a person answered to a parked permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// Allowed for the parked call alone.
    Once,
    /// Allowed for the rest of the run.
    Run,
    /// Allowed from now on.
    Remembered,
    /// Refused for the parked call.
    Deny,
}

impl Resolution {
    /// Every resolution.
    pub const ALL: [Self; 4] = [Self::Once, Self::Run, Self::Remembered, Self::Deny];

    /// The resolution's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Remembered => "remembered",
            Self::Deny => "deny",
        }
    }
}

/// `resumed`: an owner took a parked run up again, with the answer that was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Resumed {
    /// The `seq` of the suspension that ends.
    pub suspended: u64,
    /// The boundary that had parked.
    pub at: String,
    /// The permission that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PermissionRequest>,
    /// What was answered; absent when the run is tried again without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClosedStatus {
    /// Its work is done.
    Completed,
    /// Its last frame raised or was rejected.
    Failed,
}

/// `run-closed`: the run's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RunClosed {
    /// How it ended.
    pub status: ClosedStatus,
    /// How many frames ran.
    pub frames: u64,
    /// The output of the last frame that completed; `null` when none did.
    pub output: Value,
    /// The same as text; absent when none completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// Why a run failed, or what its last frame raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunError {
    /// A rejection code, `raised`, or a harness code.
    pub code: String,
    /// What went wrong.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settlement(mut members: Value) -> Result<CellCall, String> {
        for (name, value) in [
            ("ordinal", json!(0)),
            ("key", json!("k")),
            ("flow", json!("f")),
            ("declaration", json!("d")),
            ("input", json!(null)),
            ("ms", json!(1)),
        ] {
            members[name] = value;
        }
        serde_json::from_value(members).map_err(|error| error.to_string())
    }

    #[test]
    fn a_settlement_is_a_success_with_a_value_or_a_failure_with_a_code() {
        assert_eq!(
            settlement(json!({"ok": true, "value": null})).unwrap().outcome,
            CallOutcome::Success(Value::Null)
        );
        let failed =
            settlement(json!({"ok": false, "code": "timeout", "message": "m", "flowCode": "x"})).unwrap();
        let again: CellCall = serde_json::from_value(serde_json::to_value(failed.clone()).unwrap()).unwrap();
        assert_eq!(failed, again);
        for broken in [
            json!({"ok": true}),
            json!({"ok": true, "value": 1, "code": "timeout"}),
            json!({"ok": true, "value": 1, "flowCode": "x"}),
            json!({"ok": false, "code": "timeout"}),
            json!({"ok": false, "code": "no_such_code", "message": "m"}),
            json!({"ok": false, "code": "timeout", "message": "m", "value": 1}),
            json!({"ok": true, "value": 1, "surplus": 1}),
        ] {
            assert!(settlement(broken.clone()).is_err(), "{broken}");
        }
    }

    #[test]
    fn kinds_read_as_they_print() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse::<Kind>().unwrap(), kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.as_str()));
        }
        assert!("cell".parse::<Kind>().is_err());
    }

    #[test]
    fn a_run_id_is_a_plain_name() {
        for good in ["a", "run-1", "A.b_c-9", "_x", &"x".repeat(128)] {
            assert!(RunId::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a b", "é", "a\0", &"x".repeat(129)] {
            assert!(RunId::new(bad).is_err(), "{bad:?}");
        }
    }
}
