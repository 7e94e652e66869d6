//! How a permission check ends when it does not end well (kernel contract 5.2).

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::flows::capability::Capability;
use crate::flows::effects::Tier;
use crate::meta::Meta;

/// UTF-16 units of one field of a one-line rendering at most, the mark of the cut included.
pub const MAX_FIELD_UNITS: usize = 256;
const CUT_MARK: &str = "…[truncated]";
const CUT_MARK_UNITS: usize = 12;

/// A request that a person has to decide, and nobody is there.
///
/// In JSON: `{code: "permission_required", request_id, run_id?, capability, tier, meta}`; another code or another member
/// is a decode failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "RequiredWire", try_from = "RequiredWire")]
pub struct PermissionRequired {
    /// The request's id in its store, `permission-<n>`; what `GrantStore::reply` answers.
    pub request_id: String,
    /// The run of the store, where it has one.
    pub run_id: Option<String>,
    /// What is asked.
    pub capability: Capability,
    /// How grave the request is (kernel contract 4).
    pub tier: Tier,
    /// What the asker added for the person who decides.
    pub meta: Meta,
}

impl PermissionRequired {
    /// The code on the wire.
    pub const CODE: &'static str = "permission_required";
}

impl fmt::Display for PermissionRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capability = field(&self.capability.to_string());
        let tier = field(self.tier.as_str());
        let request = field(&self.request_id);
        write!(f, "permission_required: {capability} (tier {tier}, request {request})")
    }
}

impl std::error::Error for PermissionRequired {}

/// A request that is refused: by policy, by a ceiling, by a person, or because the kernel never grants it.
///
/// In JSON: `{code: "permission_denied", capability, reason}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "DeniedWire", try_from = "DeniedWire")]
pub struct PermissionDenied {
    /// What was asked.
    pub capability: Capability,
    /// Why it is refused, in words; `denied by policy` and `outside the authority ceiling` are two.
    pub reason: String,
}

impl PermissionDenied {
    /// The code on the wire.
    pub const CODE: &'static str = "permission_denied";
    /// A rule says deny.
    pub const BY_POLICY: &'static str = "denied by policy";
    /// The asking authority does not reach that far.
    pub const OUTSIDE_CEILING: &'static str = "outside the authority ceiling";
    /// A person answered no.
    pub const ON_REQUEST: &'static str = "denied on request";
    /// The store closed while the request waited.
    pub const STORE_CLOSED: &'static str = "store closed";

    /// A refusal of this request for this reason.
    pub fn new(capability: Capability, reason: impl Into<String>) -> Self {
        PermissionDenied { capability, reason: reason.into() }
    }

    /// `<capability>: <reason>`: the one-line rendering without the code, for a message that a code stands beside
    /// already.
    pub fn detail(&self) -> String {
        format!("{}: {}", field(&self.capability.to_string()), field(&self.reason))
    }
}

impl fmt::Display for PermissionDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Self::CODE, self.detail())
    }
}

impl std::error::Error for PermissionDenied {}

/// What a [`GrantStoreError`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantStoreCode {
    /// A request id that is taken.
    DuplicateRequest,
    /// No such request, or its answer is being written already.
    RequestNotFound,
    /// The journal did not take the event, or not in time.
    JournalFailed,
    /// The store is closed.
    StoreClosed,
    /// An answer, an option, a journal or a `meta` that the store does not accept.
    InvalidResolution,
}

impl GrantStoreCode {
    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            GrantStoreCode::DuplicateRequest => "duplicate_request",
            GrantStoreCode::RequestNotFound => "request_not_found",
            GrantStoreCode::JournalFailed => "journal_failed",
            GrantStoreCode::StoreClosed => "store_closed",
            GrantStoreCode::InvalidResolution => "invalid_resolution",
        }
    }
}

impl fmt::Display for GrantStoreCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The store itself could not serve: "unavailable", not "denied".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantStoreError {
    /// What kind of failure.
    pub code: GrantStoreCode,
    /// What exactly, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl GrantStoreError {
    /// A failure with its message.
    pub fn new(code: GrantStoreCode, message: impl Into<String>) -> Self {
        GrantStoreError { code, message: Some(message.into()) }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(GrantStoreCode::InvalidResolution, message)
    }

    pub(crate) fn closed() -> Self {
        GrantStoreError { code: GrantStoreCode::StoreClosed, message: None }
    }
}

impl fmt::Display for GrantStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grant store {}", self.code)?;
        match &self.message {
            Some(message) => write!(f, ": {}", field(message)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GrantStoreError {}

/// Why a check did not pass. In JSON it is the JSON of what it holds, told apart by `code`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(untagged)]
pub enum PermissionError {
    /// A person has to decide.
    #[error(transparent)]
    Required(#[from] PermissionRequired),
    /// Refused.
    #[error(transparent)]
    Denied(#[from] PermissionDenied),
    /// The store could not serve.
    #[error(transparent)]
    Store(#[from] GrantStoreError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequiredWire {
    code: String,
    request_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    capability: Capability,
    tier: Tier,
    meta: Meta,
}

impl From<PermissionRequired> for RequiredWire {
    fn from(value: PermissionRequired) -> Self {
        RequiredWire {
            code: PermissionRequired::CODE.to_owned(),
            request_id: value.request_id,
            run_id: value.run_id,
            capability: value.capability,
            tier: value.tier,
            meta: value.meta,
        }
    }
}

impl TryFrom<RequiredWire> for PermissionRequired {
    type Error = String;

    fn try_from(wire: RequiredWire) -> Result<Self, String> {
        expect_code(&wire.code, PermissionRequired::CODE)?;
        Ok(PermissionRequired {
            request_id: wire.request_id,
            run_id: wire.run_id,
            capability: wire.capability,
            tier: wire.tier,
            meta: wire.meta,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeniedWire {
    code: String,
    capability: Capability,
    reason: String,
}

impl From<PermissionDenied> for DeniedWire {
    fn from(value: PermissionDenied) -> Self {
        DeniedWire {
            code: PermissionDenied::CODE.to_owned(),
            capability: value.capability,
            reason: value.reason,
        }
    }
}

impl TryFrom<DeniedWire> for PermissionDenied {
    type Error = String;

    fn try_from(wire: DeniedWire) -> Result<Self, String> {
        expect_code(&wire.code, PermissionDenied::CODE)?;
        Ok(PermissionDenied { capability: wire.capability, reason: wire.reason })
    }
}

fn expect_code(found: &str, expected: &str) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("code is {found:?}, not {expected:?}")) }
}

/// One field of a one-line rendering: C0 and C1 controls escaped as `\u001b`, cut to [`MAX_FIELD_UNITS`].
fn field(text: &str) -> String {
    let mut out = String::new();
    let mut used = 0usize;
    // Where the text has to end if it turns out too long: the last piece that leaves room for the mark.
    let mut keep = 0usize;
    for c in text.chars() {
        let start = out.len();
        if c.is_control() {
            let code = u32::from(c);
            if write!(out, "\\u{code:04x}").is_err() {
                return out;
            }
        } else {
            out.push(c);
        }
        used += out[start..].encode_utf16().count();
        if used <= MAX_FIELD_UNITS - CUT_MARK_UNITS {
            keep = out.len();
        }
        if used > MAX_FIELD_UNITS {
            out.truncate(keep);
            out.push_str(CUT_MARK);
            return out;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_one_line_and_bounded() {
        assert_eq!(field("a\nb\u{1b}\u{9f}"), "a\\u000ab\\u001b\\u009f");
        assert_eq!(field(&"x".repeat(256)), "x".repeat(256));
        let cut = field(&"x".repeat(257));
        assert_eq!(cut, format!("{}…[truncated]", "x".repeat(244)));
        let cut = field(&"😀".repeat(200));
        assert_eq!(cut, format!("{}…[truncated]", "😀".repeat(122)));
        assert_eq!(CUT_MARK.encode_utf16().count(), CUT_MARK_UNITS);
        let cut = field(&"\n".repeat(60));
        assert_eq!(cut, format!("{}…[truncated]", "\\u000a".repeat(40)));
    }
}
