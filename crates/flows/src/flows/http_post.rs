//! `http-post`: one HTTP POST (egress contract 12).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, NET_POST, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

pub use super::fetch::Output;

/// The registry name.
pub const NAME: &str = "http-post";

/// The failure codes of a call, those of `fetch` (flow reference, egress contract 13).
pub const CODES: &[Code] = super::fetch::CODES;

/// The content type of a call that names none.
pub const DEFAULT_CONTENT_TYPE: &str = "application/json";

/// What to send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Absolute http or https URL.
    pub url: String,
    /// Request body, sent as it is.
    pub body: String,
    /// Content type of the body. Defaults to application/json.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// More request headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Seconds for the request and its body together. Defaults to 30, capped at 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
}

/// The declaration of `http-post`. It is irreversible: the other side may have acted already.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Post a body to a URL over HTTP and return the answer's status and body as text.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![NET_POST.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Irreversible, Mode::Expected, false, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}
