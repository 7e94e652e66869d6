//! `fetch`: one HTTP GET (egress contract 12).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, NET_GET, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "fetch";

/// The failure codes of a call (flow reference, egress contract 13).
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::RequestFailed,
    Code::ResponseTooLarge,
    Code::Timeout,
    Code::PermissionDenied,
    Code::Unsupported,
    Code::ProviderUnavailable,
];

/// Seconds of a call that names no timeout; `http-post` and `webfetch` have the same.
pub const DEFAULT_TIMEOUT_SECONDS: f64 = 30.0;
/// Seconds that a larger timeout acts as.
pub const MAX_TIMEOUT_SECONDS: f64 = 120.0;
/// UTF-8 bytes of the text that is returned.
pub const MAX_BODY_BYTES: usize = 60_000;
/// Bytes of the largest response that is read (5 MiB).
pub const MAX_RESPONSE_BYTES: u64 = 5_242_880;

/// What to get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Absolute http or https URL.
    pub url: String,
    /// More request headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Seconds for the request and its body together. Defaults to 30, capped at 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
}

/// What came back; `http-post` answers the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// HTTP status, error statuses included.
    #[schemars(with = "f64")]
    pub status: u16,
    /// The body as text, cut to 60,000 bytes.
    pub body: String,
    /// Whether the body was cut.
    pub truncated: bool,
    /// How much of the body is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The declaration of `fetch`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Get a URL over HTTP and return its status and body as text.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![NET_GET.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Sealed, Mode::Expected, false, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}
