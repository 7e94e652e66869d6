//! `grep`: lines by content (search contract 1.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FS_READ, FlowDecl, absolute, effects, narrowed, subtree};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "grep";

/// The failure codes of a call (flow reference, search contract 7). A peer that a host binds may answer with others.
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::InvalidPattern,
    Code::NotFound,
    Code::CommandFailed,
    Code::ProviderUnavailable,
    Code::RequestFailed,
    Code::PermissionDenied,
    Code::BinaryFile,
    Code::Timeout,
];

/// Matches (or files) of one answer, as default and as cap.
pub const MAX_MATCHES: u64 = 200;

/// What to search for, and where. The handler refuses options that exclude each other (`invalid_input`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// A regular expression of printable ASCII; with fixedStrings, a literal.
    pub pattern: String,
    /// Where to search. Defaults to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Search for a literal (ripgrep -F).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_strings: Option<bool>,
    /// Ignore case (ripgrep -i).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_case: Option<bool>,
    /// Ignore case unless the pattern holds a capital (ripgrep -S).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smart_case: Option<bool>,
    /// Globs in order (ripgrep -g); a leading ! excludes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub globs: Option<Vec<String>>,
    /// Lines of context before a match (ripgrep -B).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_context: Option<u64>,
    /// Lines of context after a match (ripgrep -A).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_context: Option<u64>,
    /// Lines of context on both sides (ripgrep -C), alone or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Most matches from one file (ripgrep --max-count).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_count: Option<u64>,
    /// Return the names of matching files only (ripgrep --files-with-matches).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_with_matches: Option<bool>,
    /// Include dot files (ripgrep --hidden).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Name the definition around each match. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbols: Option<bool>,
    /// Include what .gitignore excludes. Defaults to false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_ignore: Option<bool>,
    /// Most matches to return over all files, capped at 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The matches found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Each match with its own context; empty when only file names were asked for.
    pub matches: Vec<Match>,
    /// Names of matching files, when only they were asked for.
    pub files: Vec<String>,
    /// Files admitted to the search, binary ones included.
    #[schemars(with = "f64")]
    pub files_searched: u64,
    /// Files skipped because they hold a NUL byte.
    #[schemars(with = "f64")]
    pub skipped_binary: u64,
    /// Whether the limit left matches out.
    pub truncated: bool,
    /// True when these results come from a second try with the pattern as a literal; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_as_literal: Option<bool>,
    /// What was left out or done differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// One matching line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Path of the file.
    pub file: String,
    /// Line number, counted from 1.
    #[schemars(with = "f64")]
    pub line: u64,
    /// Text of the line, cut to 500 bytes.
    pub text: String,
    /// Context lines before it.
    pub before: Vec<ContextLine>,
    /// Context lines after it.
    pub after: Vec<ContextLine>,
    /// The definition around it, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<Symbol>,
}

/// One line of context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextLine {
    /// Line number, counted from 1.
    #[schemars(with = "f64")]
    pub line: u64,
    /// Text of the line, cut to 500 bytes.
    pub text: String,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Symbol {
    /// What is defined, such as a function.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its first line, counted from 1.
    #[schemars(with = "f64")]
    pub start_line: u64,
    /// Its last line.
    #[schemars(with = "f64")]
    pub end_line: u64,
}

/// The declaration of `grep`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Search file contents for lines that match a pattern, with context and enclosing definitions.",
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
