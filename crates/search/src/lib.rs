//! Search of a workspace in process: the flows `grep` (lines by what they hold) and `glob` (files by their
//! names), as a bounded subset of ripgrep. There is no external program, no index and no network.
//!
//! The engine, [`Engine`], implements the trait [`Search`]; the handlers [`GrepHandler`] and
//! [`GlobHandler`] put flows on top of it. Everything is read through the guarded file system of the
//! call's context. The grammars ([`Pattern`], [`Glob`], [`Gitignore`]) and [`Outline`] are pure and usable
//! alone.
//!
//! ```
//! use flowcell_search::kernel::flows::capability::CapabilityPattern;
//! use flowcell_search::kernel::flows::rules::Rule;
//! use flowcell_search::kernel::{
//!     Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SystemClock,
//!     SystemEntropy, Workspace,
//! };
//! use flowcell_search::{Engine, GrepQuery, Search};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("a.rs"), "fn main() {\n    needle();\n}\n")?;
//!
//! let below = CapabilityPattern::parse("fs:read:**").ok_or("not a pattern")?;
//! let mut options = GrantStoreOptions::new(folder.path(), Arc::new(MemoryPersist::new())).unattended();
//! options.configured = vec![Rule::allow(below)];
//! let authority = Authority::root(GrantStore::open(options).await?);
//! let workspace = Workspace::open(folder.path())?;
//! let entropy = Arc::new(SystemEntropy::new()?);
//! let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone())?;
//! let cx = CallContext::new(files, Arc::new(SystemClock::new()), entropy);
//!
//! let query = GrepQuery { pattern: "needle\\(".to_owned(), ..GrepQuery::default() };
//! let answer = Engine::new().grep(&cx, query).await?;
//! let found = &answer.matches[0];
//! assert_eq!((found.file.as_str(), found.line, found.text.as_str()), ("a.rs", 2, "    needle();"));
//! assert_eq!(found.symbol.as_ref().map(|symbol| symbol.name.as_str()), Some("main"));
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** an answer is a function of the tree and the call. Paths ascend by UTF-16 code units of
//! the whole string, lines by number; nothing depends on the host's order of directory entries, or on the number of
//! threads.
//!
//! **Invariant:** a limit is disclosed. Matches over the limit, cut lines, capped context, rules that are too
//! long and entries that may not be read are each named in `notice`; and so is why nothing was found, where that can be told.
//!
//! **Invariant:** calls of one engine share its threads, at most [`MAX_THREADS`], and the directories it holds open, at
//! most 64.
//!
//! **Invariant:** globs only narrow. No glob brings back what the skip list, hidden names, `.gitignore` or
//! the capability kernel left out.
//!
//! **Invariant:** matching takes time linear in the length of a line, and no part of a search outlives
//! the call by more than one look at its watch.
//!
//! **Invariant:** memory is bounded by the longest line, itself cut at [`MAX_LINE_BYTES`], and by the largest single
//! directory; not by the size of a tree or a file.

#![warn(missing_debug_implementations)]

pub use flowcell_kernel as kernel;

mod call;
#[cfg(feature = "conformance")]
pub mod conformance;
mod content;
mod error;
mod file;
mod find;
mod flows;
mod frontier;
mod gitignore;
mod glob;
mod grep;
mod hits;
mod lines;
mod listing;
mod matcher;
mod node;
mod notice;
mod order;
mod paths;
mod pattern;
#[cfg(feature = "rg-peer")]
pub mod peer;
mod pool;
mod query;
mod search;
mod symbols;
mod tally;
mod text;
mod watch;
mod why;
mod wild;

pub use content::MAX_LINE_BYTES;
pub use error::SearchError;
pub use flows::{GlobHandler, GrepHandler, SOURCES};
pub use gitignore::{Gitignore, MAX_GITIGNORE_BYTES};
pub use glob::{Glob, GlobList, MAX_EXPANSIONS, MAX_GLOB_BYTES};
pub use lines::MAX_SHOWN_BYTES;
pub use listing::SKIPPED_DIRECTORIES;
pub use pattern::{MAX_NESTING, MAX_PATTERN_BYTES, MAX_REPETITION, MAX_STATES, Pattern, Refusal};
pub use pool::MAX_THREADS;
pub use query::{
    COUNT_CEILING, ContextLine, GLOB_LIMIT, GREP_LIMIT, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery,
    MAX_CONTEXT, MAX_CONTEXT_BYTES, Match,
};
pub use search::{Engine, Search};
pub use symbols::{MAX_SYMBOL_BYTES, Outline, Symbol};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
