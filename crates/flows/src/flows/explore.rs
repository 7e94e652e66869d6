//! `explore`: a question about the workspace, answered by a child run (host contract 7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::utf16_cmp;
use crate::decl::{FlowDecl, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "explore";

/// It has no handler, and so no failure codes.
pub const CODES: &[Code] = &[];

/// The flows it is composed of, in order.
pub const FLOWS: &[&str] = &[super::read::NAME, super::ls::NAME, super::glob::NAME, super::grep::NAME];

/// What to find out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The question about the workspace.
    pub prompt: String,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Findings, each with its evidence cited as file:line.
    pub findings: String,
}

/// The declaration of `explore`, with the model left to the host.
#[must_use]
pub fn decl() -> FlowDecl {
    make(None)
}

/// The declaration of `explore`, pinned to a model where one is given. It has no handler; its description is its
/// prompt.
#[must_use]
pub fn make(model: Option<String>) -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Investigate a question about the workspace by reading and searching it, and answer with findings \
                      that cite file:line.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: capabilities(),
        effects_for,
        flows: FLOWS,
        model,
    }
}

/// The sorted union of the capabilities of the composed flows.
fn capabilities() -> Vec<String> {
    let parts = [super::read::decl(), super::ls::decl(), super::glob::decl(), super::grep::decl()];
    let mut union: Vec<String> = parts.into_iter().flat_map(|part| part.capabilities).collect();
    union.sort_by(|left, right| utf16_cmp(left, right));
    union.dedup();
    union
}

fn declared() -> Effects {
    effects(Tier::Sealed, Mode::Hermetic, true, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}
