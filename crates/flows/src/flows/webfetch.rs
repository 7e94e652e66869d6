//! `webfetch`: a page as markdown, text or HTML (egress contract 12).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, NET_GET, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "webfetch";

/// The failure codes of a call (flow reference, egress contract 13).
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::Timeout,
    Code::UnsupportedContentType,
    Code::ResponseTooLarge,
    Code::RequestFailed,
    Code::PermissionDenied,
    Code::Unsupported,
    Code::ProviderUnavailable,
];

/// Redirects that are followed.
pub const MAX_REDIRECTS: u32 = 10;

/// Which page to get, and as what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Absolute http or https URL without user information.
    pub url: String,
    /// What to render the page as. Defaults to markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Seconds for the whole call. Defaults to 30, capped at 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
}

/// What a page is rendered as.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Plain text.
    Text,
    /// Markdown.
    #[default]
    Markdown,
    /// The page as it came.
    Html,
}

/// The page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The URL after redirects.
    pub url: String,
    /// HTTP status, error statuses included.
    #[schemars(with = "i64")]
    pub status: u16,
    /// The Content-Type header, or an empty text.
    pub content_type: String,
    /// The rendered body, cut to 60,000 bytes.
    pub content: String,
    /// Whether the rendered body was cut.
    pub truncated: bool,
    /// How much of the body is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The declaration of `webfetch`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Fetch a web page and return it as markdown, plain text or HTML.",
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
