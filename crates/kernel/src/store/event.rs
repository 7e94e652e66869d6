//! Grant events as the journal holds them (kernel contract 5.1).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::check_identity;
use super::envelope::{Envelope, EnvelopeScope};
use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::effects::Tier;
use crate::flows::rules::CapabilitySet;
use crate::permission::GrantStoreError;

/// The run that holds remembered grants. No run of a host may have this id.
pub const POLICY_RUN: &str = "flowcell.policy";
/// Bytes of one encoded event at most.
pub const MAX_EVENT_BYTES: usize = 262_144;

/// What an answer records: the payload of `once`, `remembered` and `denied`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// The request that was answered.
    pub request_id: String,
    /// The run that the event is in; [`POLICY_RUN`] for a remembered grant.
    pub run_id: String,
    /// The plan of the store that answered, where it had one.
    pub plan_digest: Option<String>,
    /// What was asked.
    pub capability: Capability,
    /// What the grant selects; of `once` and `denied`, the request's own text.
    pub pattern: CapabilityPattern,
    /// How grave the request is.
    pub tier: Tier,
}

/// What an answer for the run records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGrantRecord {
    /// The request that was answered.
    pub request_id: String,
    /// The run that the grant is bound to, and whose journal holds it.
    pub run_id: String,
    /// The plan that the grant is bound to.
    pub plan_digest: String,
    /// What was asked.
    pub capability: Capability,
    /// What the grant selects.
    pub pattern: CapabilityPattern,
    /// How grave the request is.
    pub tier: Tier,
    /// The ceiling of the authority that asked: outside of it the grant plays no part.
    pub ceiling: CapabilitySet,
}

/// An event of the grant journal.
///
/// ```
/// use flowcell_kernel::GrantEvent;
/// let revoked = GrantEvent::Revoked { seq: 7 };
/// let payload = revoked.encode()?;
/// assert_eq!(payload.to_string(), r#"{"eventType":"flowcell.kernel.grant.revoked.v1","seq":7}"#);
/// assert_eq!(GrantEvent::decode(revoked.event_type(), &payload)?, Some(revoked));
/// # Ok::<(), flowcell_kernel::GrantStoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantEvent {
    /// A request was freed, once. Never authority.
    Once(GrantRecord),
    /// A rule for the run.
    Run(RunGrantRecord),
    /// A rule that later processes keep.
    Remembered(GrantRecord),
    /// A request was refused. Never authority.
    Denied(GrantRecord),
    /// The rules of an envelope.
    Envelope {
        /// The run that the event is in; [`POLICY_RUN`] for a remembered envelope.
        run_id: String,
        /// What is granted.
        envelope: Envelope,
    },
    /// A remembered grant or envelope is taken back.
    Revoked {
        /// The event of the grant in the policy run.
        seq: u64,
    },
}

impl GrantEvent {
    /// The type of [`Once`](Self::Once).
    pub const ONCE: &'static str = "flowcell.kernel.grant.once.v1";
    /// The type of [`Run`](Self::Run).
    pub const RUN: &'static str = "flowcell.kernel.grant.run.v1";
    /// The type of [`Remembered`](Self::Remembered).
    pub const REMEMBERED: &'static str = "flowcell.kernel.grant.remembered.v1";
    /// The type of [`Denied`](Self::Denied).
    pub const DENIED: &'static str = "flowcell.kernel.grant.denied.v1";
    /// The type of [`Envelope`](Self::Envelope).
    pub const ENVELOPE: &'static str = "flowcell.kernel.grant.envelope.v1";
    /// The type of [`Revoked`](Self::Revoked).
    pub const REVOKED: &'static str = "flowcell.kernel.grant.revoked.v1";

    /// An envelope's event: of `run_id`, or of the policy run when the envelope is remembered. The canonical form is
    /// recorded.
    pub fn of_envelope(run_id: &str, envelope: &Envelope) -> Self {
        let run_id = match envelope.scope {
            EnvelopeScope::Run => run_id,
            EnvelopeScope::Remembered => POLICY_RUN,
        };
        GrantEvent::Envelope { run_id: run_id.to_owned(), envelope: envelope.canonical() }
    }

    /// The `eventType` of the payload, which is also the type that the journal keeps beside it.
    pub const fn event_type(&self) -> &'static str {
        match self {
            GrantEvent::Once(_) => Self::ONCE,
            GrantEvent::Run(_) => Self::RUN,
            GrantEvent::Remembered(_) => Self::REMEMBERED,
            GrantEvent::Denied(_) => Self::DENIED,
            GrantEvent::Envelope { .. } => Self::ENVELOPE,
            GrantEvent::Revoked { .. } => Self::REVOKED,
        }
    }

    /// The run whose journal the event belongs to.
    pub fn run(&self) -> &str {
        match self {
            GrantEvent::Once(record) | GrantEvent::Denied(record) => &record.run_id,
            GrantEvent::Run(record) => &record.run_id,
            GrantEvent::Envelope { run_id, .. } => run_id,
            GrantEvent::Remembered(_) | GrantEvent::Revoked { .. } => POLICY_RUN,
        }
    }

    /// The payload to append. A bound that does not hold is `invalid_resolution`: an identity of 1 to 4,096 units without
    /// NUL, [`MAX_EVENT_BYTES`] encoded.
    pub fn encode(&self) -> Result<Value, GrantStoreError> {
        self.check_identities()?;
        let event_type = self.event_type().to_owned();
        let value = match self {
            GrantEvent::Once(record) | GrantEvent::Denied(record) => {
                wire(&GrantWire::of(self, record, Scope::Once))
            }
            GrantEvent::Remembered(record) => wire(&GrantWire::of(self, record, Scope::Remembered)),
            GrantEvent::Run(record) => {
                let RunGrantRecord { request_id, run_id, plan_digest, capability, pattern, tier, ceiling } =
                    record.clone();
                let scope = Scope::Run;
                wire(&RunWire {
                    event_type,
                    request_id,
                    run_id,
                    plan_digest,
                    capability,
                    pattern,
                    scope,
                    tier,
                    ceiling,
                })
            }
            GrantEvent::Envelope { run_id, envelope } => {
                let Envelope { plan_digest, patterns, scope } = envelope.clone();
                wire(&EnvelopeWire { event_type, run_id: run_id.clone(), plan_digest, patterns, scope })
            }
            GrantEvent::Revoked { seq } => wire(&RevokedWire { event_type, seq: *seq }),
        }?;
        if encoded_bytes(&value)? > MAX_EVENT_BYTES {
            return Err(GrantStoreError::invalid(format!(
                "the event is longer than {MAX_EVENT_BYTES} bytes"
            )));
        }
        Ok(value)
    }

    /// Reads a payload of a type. `None` for a type that is none of the grant store's; a payload of a known type that is
    /// malformed, of another `eventType` or over a bound is `invalid_resolution`.
    ///
    /// Whether the event has a place in the run it was read from, and whether its pattern is valid for its request, is
    /// decided by [`GrantStore::open`](crate::GrantStore::open), which knows the workspace.
    pub fn decode(event_type: &str, payload: &Value) -> Result<Option<Self>, GrantStoreError> {
        let event = match event_type {
            Self::ONCE => GrantEvent::Once(GrantWire::read(event_type, payload, Scope::Once)?),
            Self::DENIED => GrantEvent::Denied(GrantWire::read(event_type, payload, Scope::Once)?),
            Self::REMEMBERED => {
                GrantEvent::Remembered(GrantWire::read(event_type, payload, Scope::Remembered)?)
            }
            Self::RUN => {
                let wire: RunWire = read(event_type, payload)?;
                expect_scope(event_type, wire.scope, Scope::Run)?;
                GrantEvent::Run(RunGrantRecord {
                    request_id: wire.request_id,
                    run_id: wire.run_id,
                    plan_digest: wire.plan_digest,
                    capability: wire.capability,
                    pattern: wire.pattern,
                    tier: wire.tier,
                    ceiling: wire.ceiling,
                })
            }
            Self::ENVELOPE => {
                let EnvelopeWire { run_id, plan_digest, patterns, scope, .. } = read(event_type, payload)?;
                GrantEvent::Envelope { run_id, envelope: Envelope { plan_digest, patterns, scope } }
            }
            Self::REVOKED => GrantEvent::Revoked { seq: read::<RevokedWire>(event_type, payload)?.seq },
            _ => return Ok(None),
        };
        if encoded_bytes(payload)? > MAX_EVENT_BYTES {
            return Err(malformed(event_type, format!("it is longer than {MAX_EVENT_BYTES} bytes")));
        }
        event.check_identities().map_err(|error| malformed(event_type, error.message.unwrap_or_default()))?;
        Ok(Some(event))
    }

    fn check_identities(&self) -> Result<(), GrantStoreError> {
        let (request, run, plan) = match self {
            GrantEvent::Once(record) | GrantEvent::Denied(record) | GrantEvent::Remembered(record) => {
                (Some(&record.request_id), &record.run_id, record.plan_digest.as_ref())
            }
            GrantEvent::Run(record) => (Some(&record.request_id), &record.run_id, Some(&record.plan_digest)),
            GrantEvent::Envelope { run_id, envelope } => (None, run_id, Some(&envelope.plan_digest)),
            GrantEvent::Revoked { .. } => return Ok(()),
        };
        check_identity("the run id", run)?;
        request.map_or(Ok(()), |request| check_identity("the request id", request))?;
        plan.map_or(Ok(()), |plan| check_identity("the plan digest", plan))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Once,
    Run,
    Remembered,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantWire {
    event_type: String,
    request_id: String,
    run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    plan_digest: Option<String>,
    capability: Capability,
    pattern: CapabilityPattern,
    scope: Scope,
    tier: Tier,
}

impl GrantWire {
    fn of(event: &GrantEvent, record: &GrantRecord, scope: Scope) -> Self {
        let GrantRecord { request_id, run_id, plan_digest, capability, pattern, tier } = record.clone();
        let event_type = event.event_type().to_owned();
        GrantWire { event_type, request_id, run_id, plan_digest, capability, pattern, scope, tier }
    }

    fn read(event_type: &str, payload: &Value, expected: Scope) -> Result<GrantRecord, GrantStoreError> {
        let GrantWire { request_id, run_id, plan_digest, capability, pattern, scope, tier, .. } =
            read(event_type, payload)?;
        expect_scope(event_type, scope, expected)?;
        Ok(GrantRecord { request_id, run_id, plan_digest, capability, pattern, tier })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RunWire {
    event_type: String,
    request_id: String,
    run_id: String,
    plan_digest: String,
    capability: Capability,
    pattern: CapabilityPattern,
    scope: Scope,
    tier: Tier,
    ceiling: CapabilitySet,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EnvelopeWire {
    event_type: String,
    run_id: String,
    plan_digest: String,
    patterns: Vec<CapabilityPattern>,
    scope: EnvelopeScope,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RevokedWire {
    event_type: String,
    seq: u64,
}

/// A member that may be absent but is not null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

fn read<T: DeserializeOwned>(event_type: &str, payload: &Value) -> Result<T, GrantStoreError> {
    match payload.get("eventType").and_then(Value::as_str) {
        Some(own) if own == event_type => {}
        Some(own) => return Err(malformed(event_type, format!("its payload says {own}"))),
        None => return Err(malformed(event_type, "its payload has no eventType")),
    }
    T::deserialize(payload).map_err(|error| malformed(event_type, error.to_string()))
}

fn expect_scope(event_type: &str, found: Scope, expected: Scope) -> Result<(), GrantStoreError> {
    if found == expected {
        return Ok(());
    }
    let why = format!("scope {found:?} where {expected:?} belongs").to_lowercase();
    Err(malformed(event_type, why))
}

fn malformed(event_type: &str, why: impl std::fmt::Display) -> GrantStoreError {
    GrantStoreError::invalid(format!("a {event_type} is malformed: {why}"))
}

fn wire(event: &impl Serialize) -> Result<Value, GrantStoreError> {
    serde_json::to_value(event).map_err(not_encodable)
}

fn encoded_bytes(value: &Value) -> Result<usize, GrantStoreError> {
    Ok(serde_json::to_vec(value).map_err(not_encodable)?.len())
}

// serde_json's error is taken whole because `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
fn not_encodable(error: serde_json::Error) -> GrantStoreError {
    GrantStoreError::invalid(format!("the event is not encodable: {error}"))
}
