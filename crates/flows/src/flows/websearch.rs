//! `websearch`: results of a search provider (egress contract 12).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, NET_POST, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "websearch";

/// The failure codes of a call (flow reference, egress contract 12 and 13). A provider that a host binds may answer with others.
pub const CODES: &[Code] = &[
    Code::RateLimited,
    Code::ProviderUnavailable,
    Code::RequestFailed,
    Code::Timeout,
    Code::PermissionDenied,
    Code::ResponseTooLarge,
    Code::Unsupported,
    Code::InvalidInput,
];

/// Results of a call that names no number.
pub const DEFAULT_RESULTS: u64 = 8;
/// The most results that a call may ask for.
pub const MAX_RESULTS: u64 = 20;

/// What to search for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The search query.
    #[schemars(length(min = 1))]
    pub query: String,
    /// How many results to return. Defaults to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub num_results: Option<u64>,
    /// How old a result may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
}

/// How old a result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// A day.
    Day,
    /// A week.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    /// Title of the page.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// An extract of its text.
    pub snippet: String,
    /// When it was published, as the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
}

/// The results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The results in the provider's order.
    pub results: Vec<SearchResult>,
}

/// The declaration of `websearch`. Its effect is sealed; its `net:post` request keeps it out of the read-only flows.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Search the web and return titles, URLs and extracts.",
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
    effects(Tier::Sealed, Mode::Expected, false, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}
