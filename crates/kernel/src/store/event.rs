//! Grant events as the journal holds them (kernel contract 5.1).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::effects::Tier;
use crate::flows::rules::CapabilitySet;
use crate::permission::GrantStoreError;

pub(crate) const ONCE: &str = "flowcell.kernel.grant.once.v1";
pub(crate) const RUN: &str = "flowcell.kernel.grant.run.v1";
pub(crate) const REMEMBERED: &str = "flowcell.kernel.grant.remembered.v1";
pub(crate) const DENIED: &str = "flowcell.kernel.grant.denied.v1";
pub(crate) const ENVELOPE: &str = "flowcell.kernel.grant.envelope.v1";
pub(crate) const REVOKED: &str = "flowcell.kernel.grant.revoked.v1";

/// Bytes of one encoded event at most.
pub const MAX_EVENT_BYTES: usize = 262_144;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    Once,
    Run,
    Remembered,
}

/// The payload of once, remembered and denied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GrantEvent {
    pub(crate) event_type: String,
    pub(crate) request_id: String,
    pub(crate) run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan_digest: Option<String>,
    pub(crate) capability: Capability,
    pub(crate) pattern: CapabilityPattern,
    pub(crate) scope: Scope,
    pub(crate) tier: Tier,
}

/// The payload of run: a plan digest, and the ceiling that the asker had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunGrantEvent {
    pub(crate) event_type: String,
    pub(crate) request_id: String,
    pub(crate) run_id: String,
    pub(crate) plan_digest: String,
    pub(crate) capability: Capability,
    pub(crate) pattern: CapabilityPattern,
    pub(crate) scope: Scope,
    pub(crate) tier: Tier,
    pub(crate) ceiling: CapabilitySet,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnvelopeEvent {
    pub(crate) event_type: String,
    pub(crate) run_id: String,
    pub(crate) plan_digest: String,
    pub(crate) patterns: Vec<CapabilityPattern>,
    pub(crate) scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RevokedEvent {
    pub(crate) event_type: String,
    pub(crate) seq: u64,
}

/// A payload of a known type, or the refusal of kernel contract 5.1.
pub(crate) fn decode<T: DeserializeOwned>(
    event_type: &str,
    seq: u64,
    payload: &Value,
) -> Result<T, GrantStoreError> {
    let malformed =
        |why: String| GrantStoreError::invalid(format!("event {seq} ({event_type}) is malformed: {why}"));
    match payload.get("eventType").and_then(Value::as_str) {
        Some(own) if own == event_type => {}
        Some(own) => return Err(malformed(format!("its payload says {own}"))),
        None => return Err(malformed("its payload has no eventType".to_owned())),
    }
    T::deserialize(payload).map_err(|error| malformed(error.to_string()))
}

/// A payload to append, within [`MAX_EVENT_BYTES`].
pub(crate) fn encode(event: &impl Serialize) -> Result<Value, GrantStoreError> {
    let refuse =
        |error: serde_json::Error| GrantStoreError::invalid(format!("the event is not encodable: {error}"));
    let value = serde_json::to_value(event).map_err(refuse)?;
    if serde_json::to_vec(&value).map_err(refuse)?.len() > MAX_EVENT_BYTES {
        return Err(GrantStoreError::invalid(format!("the event is longer than {MAX_EVENT_BYTES} bytes")));
    }
    Ok(value)
}
