//! Keys of the journal's boundaries (harness contract 4): what makes two boundaries the same one.
//!
//! Every key is made of canonical JSON, so that it depends on values alone and not on how a program spelled them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::HarnessError;
use crate::flows::{canonical, effects::Tier};

/// The version that is folded into the key of a sealed model step.
pub const KEY_MATERIAL: &str = "flowcell/key-material/2";

/// Hex SHA-256 of the canonical text of a value.
///
/// # Errors
/// `engine_failed` when the value has no canonical text, which no value that passed the realm's boundary can be.
pub fn digest(value: &Value) -> Result<String, HarnessError> {
    canonical::digest(value)
        .map_err(|error| HarnessError::engine(format!("a key could not be made: {error}")))
}

fn key(value: &Value) -> Result<String, HarnessError> {
    Ok(format!("key1_{}", digest(value)?))
}

/// What names one call of one run, stable over every re-execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallIdentity {
    /// The session of the run.
    pub session: String,
    /// The frame, from 0.
    pub frame: u64,
    /// The digest of the cell's source.
    pub cell: String,
    /// The call's place in issue order over calls and checkpoints, from 0.
    pub ordinal: u64,
    /// The digest of the declaration that was disclosed to the cell; empty for a name that nobody declared.
    pub declaration: String,
    /// The layers of the run, sorted and unique.
    pub layers: Vec<String>,
}

/// How far the live tree may have moved when a sealed call asks about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Frames before this one that made a call which is not sealed.
    pub frames: u64,
    /// Calls that are not sealed, issued before it in this frame.
    pub calls: u64,
}

impl Epoch {
    /// The epoch as key material: absent until something may have moved.
    fn material(self) -> Option<Value> {
        (self.frames > 0 || self.calls > 0).then(|| json!({ "frames": self.frames, "calls": self.calls }))
    }
}

/// The key of a call. A sealed call is a question: its key is what it asks. Any other call is an act: its key is
/// its place in the run.
///
/// # Errors
/// As [`digest`].
pub fn call_key(
    identity: &CallIdentity,
    tier: Tier,
    capabilities: &[String],
    input: &Value,
    at: Option<&str>,
    epoch: Epoch,
) -> Result<String, HarnessError> {
    let mut material = if tier == Tier::Sealed {
        let mut sorted = capabilities.to_vec();
        sorted.sort_by(|a, b| canonical::utf16_cmp(a, b));
        json!({
            "kind": "call",
            "session": identity.session,
            "declaration": identity.declaration,
            "layers": identity.layers,
            "capabilities": sorted,
            "input": input,
        })
    } else {
        json!({
            "kind": "call",
            "session": identity.session,
            "frame": identity.frame,
            "cell": identity.cell,
            "ordinal": identity.ordinal,
            "declaration": identity.declaration,
            "layers": identity.layers,
            "inputDigest": digest(input)?,
        })
    };
    if let Value::Object(members) = &mut material {
        if let Some(at) = at {
            members.insert("at".into(), Value::from(at));
        }
        if tier == Tier::Sealed
            && at.is_none()
            && let Some(epoch) = epoch.material()
        {
            members.insert("epoch".into(), epoch);
        }
    }
    key(&material)
}

/// The key of a record: `(name, session, frame, boundary)`.
///
/// # Errors
/// As [`digest`].
pub fn record_key(name: &str, session: &str, frame: u64, boundary: &str) -> Result<String, HarnessError> {
    key(&json!({ "name": name, "session": session, "frame": frame, "boundary": boundary }))
}

/// The boundary of attempt `slot` at a frame (6.1): slot 0 has no suffix.
pub fn frame_boundary(cell: &str, slot: u64) -> String {
    if slot == 0 { format!("cell-frame:{cell}") } else { format!("cell-frame:{cell}:attempt:{slot}") }
}

/// The boundary of a call's settlement.
pub fn call_boundary(cell: &str, ordinal: u64) -> String {
    format!("cell-call:{cell}:{ordinal}")
}

/// The boundary of a checkpoint.
pub fn checkpoint_boundary(cell: &str, ordinal: u64) -> String {
    format!("checkpoint:{cell}:{ordinal}")
}

/// The digest that a `run` grant is bound to (5): over the catalog's declaration digests, in catalog order.
///
/// # Errors
/// As [`digest`].
pub fn plan_digest(digests: &[String]) -> Result<String, HarnessError> {
    digest(&json!(digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(ordinal: u64) -> CallIdentity {
        CallIdentity {
            session: "s".into(),
            frame: 1,
            cell: "c".into(),
            ordinal,
            declaration: "d".into(),
            layers: vec![],
        }
    }

    fn sealed(ordinal: u64, input: &Value, epoch: Epoch) -> String {
        call_key(&identity(ordinal), Tier::Sealed, &["b".into(), "a".into()], input, None, epoch).unwrap()
    }

    #[test]
    fn a_sealed_call_is_the_same_question_wherever_it_is_asked() {
        let input = json!({"path": "a"});
        assert_eq!(sealed(0, &input, Epoch::default()), sealed(7, &input, Epoch::default()));
        let sorted =
            call_key(&identity(0), Tier::Sealed, &["a".into(), "b".into()], &input, None, Epoch::default())
                .unwrap();
        assert_eq!(sealed(0, &input, Epoch::default()), sorted);
    }

    #[test]
    fn a_read_after_a_write_is_a_new_question() {
        let input = json!({"path": "a"});
        let before = sealed(0, &input, Epoch::default());
        assert_ne!(before, sealed(0, &input, Epoch { frames: 0, calls: 1 }));
        assert_ne!(before, sealed(0, &input, Epoch { frames: 1, calls: 0 }));
        let pinned =
            |epoch| call_key(&identity(0), Tier::Sealed, &[], &input, Some("cp-0-1"), epoch).unwrap();
        assert_eq!(pinned(Epoch::default()), pinned(Epoch { frames: 3, calls: 2 }));
    }

    #[test]
    fn an_act_is_its_place_and_its_input() {
        let act = |ordinal, input: &Value| {
            call_key(&identity(ordinal), Tier::Irreversible, &[], input, None, Epoch::default()).unwrap()
        };
        let input = json!({"n": 1});
        assert_ne!(act(0, &input), act(1, &input));
        assert_ne!(act(0, &input), act(0, &json!({"n": 2})));
        assert_eq!(act(0, &input), act(0, &json!({"n": 1.0})));
        assert!(act(0, &input).starts_with("key1_"));
        assert_eq!(act(0, &input).len(), 5 + 64);
    }

    #[test]
    fn a_record_is_named_by_its_four_parts() {
        let base = record_key("cell-call", "s", 0, "cell-call:c:1").unwrap();
        for other in [
            record_key("cell-frame", "s", 0, "cell-call:c:1"),
            record_key("cell-call", "t", 0, "cell-call:c:1"),
            record_key("cell-call", "s", 1, "cell-call:c:1"),
            record_key("cell-call", "s", 0, "cell-call:c:2"),
        ] {
            assert_ne!(base, other.unwrap());
        }
        assert_eq!(frame_boundary("c", 0), "cell-frame:c");
        assert_eq!(frame_boundary("c", 2), "cell-frame:c:attempt:2");
    }
}
