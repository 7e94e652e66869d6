//! `ls`: the entries of a directory (host contract 4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FlowDecl, absolute, effects, narrowed};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "ls";

/// The failure codes of a call (flow reference, host contract 0 and 4).
pub const CODES: &[Code] = &[
    Code::NotFound,
    Code::NotADirectory,
    Code::OffsetOutOfRange,
    Code::PermissionDenied,
    Code::InvalidInput,
    Code::CommandFailed,
];

/// Entries of one page, as default and as cap.
pub const MAX_ENTRIES: u64 = 1_000;

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Path of the directory to list.
    pub path: String,
    /// First entry to return, counted from 1. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// Most entries to return, capped at 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Anything but a directory, and whatever could not be looked at.
    File,
    /// A directory, or a link to one.
    Directory,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The name, with a closing slash for a directory.
    pub name: String,
    /// Whether it is a file or a directory.
    pub kind: Kind,
}

/// One page of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The entries, directories first, then by name in UTF-16 code units.
    pub entries: Vec<Entry>,
    /// Entries of the whole directory.
    #[schemars(with = "f64")]
    pub total: u64,
    /// Whether entries remain after this page.
    pub truncated: bool,
    /// What was left out and how to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The declaration of `ls`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "List a directory, its subdirectories first, a page at a time.",
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
    narrowed(declared(), absolute(input, "path"))
}
