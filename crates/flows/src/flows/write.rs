//! `write`: the whole content of a file (host contract 2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_WRITE, FlowDecl, absolute, effects, narrowed};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "write";

/// The failure codes of a call (flow reference, host contract 0 and 2).
pub const CODES: &[Code] = &[Code::CommandFailed, Code::PermissionDenied, Code::InvalidInput];

/// What to write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Path of the file to write.
    pub path: String,
    /// The complete content of the file, as UTF-8 text.
    pub content: String,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Path that was written.
    pub path: String,
    /// UTF-8 bytes of the content.
    #[schemars(with = "f64")]
    pub bytes_written: u64,
    /// Whether nothing was there before.
    pub created: bool,
}

/// The declaration of `write`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Write a whole text file, replacing what is there and creating missing parent directories.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![FS_WRITE.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Compensable, Mode::Hermetic, false, true)
}

fn effects_for(input: &Value) -> Effects {
    narrowed(declared(), absolute(input, "path"))
}
