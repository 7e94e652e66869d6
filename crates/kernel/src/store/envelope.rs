//! Envelopes: what a plan is granted as a whole (kernel contract 5).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check_identity;
use super::pattern::valid_in_envelope;
use crate::flows::capability::CapabilityPattern;
use crate::permission::GrantStoreError;

/// Patterns of one envelope at most.
pub const MAX_ENVELOPE_PATTERNS: usize = 256;
/// Envelope signatures that a store knows at most.
pub const MAX_ENVELOPE_SIGNATURES: usize = 1_024;

/// How long an envelope holds. Lower-case in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeScope {
    /// For this run.
    #[default]
    Run,
    /// For later processes as well.
    Remembered,
}

/// Capabilities that a plan is granted as a whole: each pattern becomes an allow rule.
///
/// ```
/// use flowcell_kernel::Envelope;
/// use flowcell_kernel::flows::capability::CapabilityPattern;
/// let pattern = |text| CapabilityPattern::parse(text).ok_or("pattern");
/// let envelope = Envelope::new("plan-1", vec![pattern("fs:write:/ws/**")?, pattern("fs:read:/ws/**")?]);
/// assert_eq!(
///     envelope.signature(),
///     "sha256:0782477f7edbd689decfeef17b2cc192daa2f9b00cb0c215bed1d659d5ed99a0",
/// );
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The plan it is of; that of the store, or it is refused.
    pub plan_digest: String,
    /// What it grants: at most [`MAX_ENVELOPE_PATTERNS`], each with an exact action; a wildcard of `fs:write` has to be
    /// provably under `<root>/**`.
    pub patterns: Vec<CapabilityPattern>,
    /// How long it holds.
    pub scope: EnvelopeScope,
}

impl Envelope {
    /// An envelope for this run.
    pub fn new(plan_digest: impl Into<String>, patterns: Vec<CapabilityPattern>) -> Self {
        Envelope { plan_digest: plan_digest.into(), patterns, scope: EnvelopeScope::Run }
    }

    /// The canonical form: patterns deduplicated and sorted by rendered text.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut patterns = self.patterns.clone();
        patterns.sort_by_cached_key(ToString::to_string);
        patterns.dedup();
        Envelope { patterns, ..self.clone() }
    }

    /// `sha256:` and the hexadecimal SHA-256 of `{"planDigest":..,"scope":..,"patterns":[..]}` of the canonical form, the
    /// patterns as rendered text.
    pub fn signature(&self) -> String {
        let canonical = self.canonical();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let patterns: Vec<String> =
            canonical.patterns.iter().map(|pattern| quoted(&pattern.to_string())).collect();
        let scope = match self.scope {
            EnvelopeScope::Run => "run",
            EnvelopeScope::Remembered => "remembered",
        };
        let text = format!(
            r#"{{"planDigest":{},"scope":"{scope}","patterns":[{}]}}"#,
            quoted(&self.plan_digest),
            patterns.join(",")
        );
        let mut signature = "sha256:".to_owned();
        for byte in Sha256::digest(text) {
            signature.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
            signature.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        }
        signature
    }

    /// Refuses an envelope that no store of this root takes.
    pub(super) fn check(&self, root: &str) -> Result<(), GrantStoreError> {
        check_identity("the plan digest", &self.plan_digest)?;
        if self.patterns.len() > MAX_ENVELOPE_PATTERNS {
            return Err(GrantStoreError::invalid(format!(
                "an envelope of more than {MAX_ENVELOPE_PATTERNS} patterns"
            )));
        }
        match self.patterns.iter().find(|pattern| !valid_in_envelope(pattern, root)) {
            None => Ok(()),
            Some(bad) => Err(GrantStoreError::invalid(format!("{bad} has no place in an envelope"))),
        }
    }
}
