//! `apply_patch`: a patch in Codex's V4A grammar (host contract 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FS_WRITE, FlowDecl, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "apply_patch";

/// The failure codes of a call (flow reference, host contract 0 and 6).
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::NotFound,
    Code::BinaryFile,
    Code::NoMatch,
    Code::PermissionDenied,
    Code::ResponseTooLarge,
    Code::CommandFailed,
];

/// The patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The whole patch, from its begin line to its end line.
    pub input: String,
}

/// What the patch changed; paths as the patch writes them, a move's destination under `modified`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Summary with a line for each path: A, M or D.
    pub output: String,
    /// Paths that the patch created.
    pub added: Vec<String>,
    /// Paths that the patch updated.
    pub modified: Vec<String>,
    /// Paths that the patch deleted.
    pub deleted: Vec<String>,
}

/// The declaration of `apply_patch`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Apply a patch of added, updated, moved and deleted files, all of it or nothing.",
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

fn effects_for(_: &Value) -> Effects {
    declared()
}
