//! `edit`: text replaced by exact bytes or by a line range (host contract 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FS_WRITE, FlowDecl, absolute, effects, narrowed};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "edit";

/// The failure codes of a call (flow reference, host contract 0 and 3).
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::NoMatch,
    Code::OffsetOutOfRange,
    Code::NotFound,
    Code::BinaryFile,
    Code::CommandFailed,
    Code::PermissionDenied,
    Code::ResponseTooLarge,
];

/// What to replace, and with what. The handler refuses contradictory anchors (`invalid_input`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Path of the file to edit.
    pub path: String,
    /// Exact text to replace, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_string: Option<String>,
    /// First line to replace, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line to replace, itself included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// What those lines hold now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// The replacement, taken literally.
    pub new_string: String,
    /// Replace every occurrence instead of the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_all: Option<bool>,
}

/// What was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Path that was edited.
    pub path: String,
    /// Spans replaced.
    #[schemars(with = "f64")]
    pub replacements: u64,
    /// First line of the hunk, counted from 1.
    #[schemars(with = "f64")]
    pub start_line: u64,
    /// Last line of the hunk.
    #[schemars(with = "f64")]
    pub end_line: u64,
    /// The edited region as it now stands, with up to two lines of context on each side.
    pub hunk: String,
}

/// The declaration of `edit`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Replace text in a file, found by its exact bytes or by a range of lines.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![FS_READ.to_owned(), FS_WRITE.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Compensable, Mode::Hermetic, true, true)
}

fn effects_for(input: &Value) -> Effects {
    narrowed(declared(), absolute(input, "path"))
}
