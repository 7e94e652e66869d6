//! `glob`: files by name (search contract 1.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FlowDecl, absolute, effects, narrowed, subtree};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "glob";

/// The failure codes of a call (flow reference, search contract 7). A peer that a host binds may answer with others.
pub const CODES: &[Code] = &[
    Code::InvalidPattern,
    Code::NotFound,
    Code::CommandFailed,
    Code::ProviderUnavailable,
    Code::RequestFailed,
    Code::InvalidInput,
    Code::PermissionDenied,
    Code::Timeout,
];

/// Paths of one answer, as default and as cap.
pub const MAX_PATHS: u64 = 1_000;

/// Which files to find.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Glob as ripgrep's -g takes it, matched relative to the root.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// Where to search. Defaults to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Include dot files. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Include what .gitignore excludes. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_ignore: Option<bool>,
    /// Most paths to return, capped at 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The files found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The matching paths, sorted.
    pub paths: Vec<String>,
    /// Matches before the limit.
    #[schemars(with = "f64")]
    pub total: u64,
    /// Whether the limit left matches out.
    pub truncated: bool,
    /// What was left out: matches over the limit, a pattern nothing can meet, ignored files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The declaration of `glob`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Find files by a glob over their names, leaving out what .gitignore excludes.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![FS_READ.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Sealed, Mode::Hermetic, true, false)
}

fn effects_for(input: &Value) -> Effects {
    narrowed(declared(), absolute(input, "root").map(|root| subtree(&root)))
}
