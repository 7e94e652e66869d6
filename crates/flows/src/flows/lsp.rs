//! `lsp`: ten read-only queries to a language server (language-server contract 12).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::decl::{FS_READ, FlowDecl, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "lsp";

/// The failure codes of a call (flow reference, language-server contract 12). A peer that a host binds may answer with others.
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::Unsupported,
    Code::Timeout,
    Code::RequestFailed,
    Code::CommandFailed,
    Code::NotFound,
    Code::IsDirectory,
    Code::BinaryFile,
    Code::ResponseTooLarge,
    Code::PermissionDenied,
];

/// What to ask. The handler refuses a missing path or position (`invalid_input`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The query to run.
    pub operation: Operation,
    /// Absolute path of the file. Every operation but workspaceSymbols needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line, counted from 1, as read and grep report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub line: Option<u64>,
    /// Character within the line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub character: Option<u64>,
    /// Text of the symbol. For workspaceSymbols only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// A query. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// What is known of the symbol at a position.
    Hover,
    /// Where it is defined.
    Definition,
    /// Where it is used, its declaration included.
    References,
    /// Where it is implemented.
    Implementation,
    /// The symbols of a document.
    DocumentSymbols,
    /// The symbols of the workspace that match a text.
    WorkspaceSymbols,
    /// The call-hierarchy items at a position.
    PrepareCallHierarchy,
    /// What calls the symbol at a position.
    CallHierarchyIncoming,
    /// What the symbol at a position calls.
    CallHierarchyOutgoing,
    /// The diagnostics of a document.
    Diagnostics,
}

impl Input {
    /// A query that names nothing else yet.
    #[must_use]
    pub fn new(operation: Operation) -> Self {
        Self { operation, path: None, line: None, character: None, query: None }
    }
}

impl Operation {
    /// Every operation, in the order of the flow reference.
    pub const ALL: [Self; 10] = [
        Self::Hover,
        Self::Definition,
        Self::References,
        Self::Implementation,
        Self::DocumentSymbols,
        Self::WorkspaceSymbols,
        Self::PrepareCallHierarchy,
        Self::CallHierarchyIncoming,
        Self::CallHierarchyOutgoing,
        Self::Diagnostics,
    ];
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The server's answer, in the server's own shape.
    ///
    /// It is kept as JSON text, so that numbers, key order and unknown members stay as the server wrote them.
    #[schemars(with = "Value", description = "The server's answer, in the server's own shape.")]
    pub result: Box<RawValue>,
}

impl PartialEq for Output {
    /// Two answers are equal when their texts are.
    fn eq(&self, other: &Self) -> bool {
        self.result.get() == other.result.get()
    }
}

/// The declaration of `lsp`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Ask a language server about a symbol, a document or the workspace.",
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

fn effects_for(_: &Value) -> Effects {
    declared()
}
