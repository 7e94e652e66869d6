//! What a search is asked, and what it answers.

use crate::symbols::Symbol;
use flowcell_kernel::flows::{glob, grep};

/// Most paths in one answer of `glob`.
pub const GLOB_LIMIT: u64 = glob::MAX_PATHS;
/// Most matches, or files, in one answer of `grep`.
pub const GREP_LIMIT: u64 = grep::MAX_MATCHES;
/// Most lines of context on each side of a match.
pub const MAX_CONTEXT: u64 = 1000;
/// Most bytes of context in one answer, where each line counts 32 bytes beside its text. What comes later is left out, and
/// `notice` says so; matches themselves are never left out for it. A decision of this crate: 200 matches with a thousand
/// lines on each side would be 200 MB.
pub const MAX_CONTEXT_BYTES: u64 = 4 * 1024 * 1024;
/// Matches, or files, at which counting stops.
pub const COUNT_CEILING: u64 = 10_000;

/// A search for names (search contract 1.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobQuery {
    /// The glob; see [`crate::Glob`].
    pub pattern: String,
    /// Where to start, as the caller names it; `None` is the workspace.
    pub root: Option<String>,
    /// Look at names that begin with a dot too.
    pub hidden: bool,
    /// Read no `.gitignore`.
    pub no_ignore: bool,
    /// Most paths to answer; acts as at most [`GLOB_LIMIT`], which is the default.
    pub limit: Option<u64>,
}

/// The names found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobAnswer {
    /// The first paths, ascending by UTF-16 code units.
    pub paths: Vec<String>,
    /// All matches, those over the limit included.
    pub total: u64,
    /// Whether the limit cut paths off.
    pub truncated: bool,
    /// What was left out, in sentences; never empty.
    pub notice: Option<String>,
}

/// A search for lines (search contract 1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrepQuery {
    /// The pattern; see [`crate::Pattern`]. The empty one matches every line.
    pub pattern: String,
    /// Where to start, as the caller names it; `None` is the workspace.
    pub root: Option<String>,
    /// The pattern is plain text.
    pub fixed_strings: bool,
    /// Ignore case. Excludes `smart_case`.
    pub ignore_case: bool,
    /// Ignore case when the pattern holds no capital letter.
    pub smart_case: bool,
    /// Which files, in order; the last glob that matches decides.
    pub globs: Vec<String>,
    /// Lines of context above a match; acts as at most [`MAX_CONTEXT`].
    pub before_context: Option<u64>,
    /// Lines of context below a match; acts as at most [`MAX_CONTEXT`].
    pub after_context: Option<u64>,
    /// Lines of context on both sides; excludes the two others.
    pub context: Option<u64>,
    /// Matching lines that count in each file, at least 1.
    pub max_count: Option<u64>,
    /// Answer the names of matching files only.
    pub files_with_matches: bool,
    /// Look at names that begin with a dot too.
    pub hidden: bool,
    /// Leave the symbols out.
    pub no_symbols: bool,
    /// Read no `.gitignore`.
    pub no_ignore: bool,
    /// Most matches (or files) to answer; acts as at most [`GREP_LIMIT`], which is the default.
    pub limit: Option<u64>,
}

/// The lines found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrepAnswer {
    /// The first matches, by path and line; empty when only files were asked for.
    pub matches: Vec<Match>,
    /// The first matching files, when only they were asked for.
    pub files: Vec<String>,
    /// Files that were admitted: matching or not, binary, unreadable.
    pub files_searched: u64,
    /// Files that hold a NUL byte.
    pub skipped_binary: u64,
    /// Whether the limit cut matches (or files) off.
    pub truncated: bool,
    /// The pattern matched nothing as a regular expression; this is what it matches as plain text.
    pub retried_as_literal: bool,
    /// What was left out, in sentences; never empty.
    pub notice: Option<String>,
}

/// One matching line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// The line, cut to 500 bytes.
    pub text: String,
    /// Lines of context above that belong to this match, ascending.
    pub before: Vec<ContextLine>,
    /// Lines of context below that belong to this match, ascending.
    pub after: Vec<ContextLine>,
    /// The declaration around the line.
    pub symbol: Option<Symbol>,
}

/// One line of context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextLine {
    /// Line number, from 1.
    pub line: u64,
    /// The line, cut to 500 bytes.
    pub text: String,
}
