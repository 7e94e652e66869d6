//! `read`: one page of a text file (host contract 1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FlowDecl, absolute, effects, narrowed};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "read";

/// The failure codes of a call (flow reference, host contract 0 and 1).
pub const CODES: &[Code] = &[
    Code::NotFound,
    Code::PermissionDenied,
    Code::IsDirectory,
    Code::BinaryFile,
    Code::OffsetOutOfRange,
    Code::ResponseTooLarge,
    Code::InvalidInput,
    Code::CommandFailed,
];

/// Lines of a page where the call names no limit.
pub const DEFAULT_READ_LIMIT: u64 = 2_000;
/// Unicode scalar values of one displayed line; a longer line is cut.
pub const MAX_LINE_SCALARS: usize = 2_000;
/// UTF-8 bytes of one page.
pub const MAX_OUTPUT_BYTES: usize = 60_000;
/// Bytes of the largest file that is read (64 MiB).
pub const MAX_READ_FILE_BYTES: u64 = 67_108_864;

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Path of the text file to read.
    pub path: String,
    /// First line to return, counted from 1. Defaults to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// Most lines to return. Defaults to 2,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The raw text of the page, without line numbers.
    pub content: String,
    /// First returned line, counted from 1.
    #[schemars(with = "f64")]
    pub start_line: u64,
    /// Last returned line; one less than the first when the page is empty.
    #[schemars(with = "f64")]
    pub end_line: u64,
    /// Lines of the whole file.
    #[schemars(with = "f64")]
    pub total_lines: u64,
    /// Whether anything was cut or left out.
    pub truncated: bool,
    /// What was cut and how to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// The declaration of `read`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Read a text file a page at a time, by 1-based line offset and line limit.",
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
