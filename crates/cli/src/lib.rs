//! The `flowcell` binary as a library: its command line, its policy files, and its commands, each a thin call on the
//! crates beneath it.
//!
//! ```
//! use flowcell::policy::{Policy, Sources, Variables};
//! let variables = Variables { workspace: "/ws".into(), data: "/ws/.flowcell".into(), home: None };
//! let sources = Sources { data: vec!["/ws/.flowcell".into()], ..Sources::default() };
//! let policy = Policy::assemble(&sources, &variables)?;
//! let rules: Vec<String> = policy.configured.iter().map(ToString::to_string).collect();
//! assert_eq!(rules.first().map(String::as_str), Some("ask *:** (built-in)"));
//! assert_eq!(rules.last().map(String::as_str), Some("deny fs:write:/ws/.flowcell/** (built-in)"));
//! # Ok::<(), flowcell::policy::PolicyError>(())
//! ```
//!
//! **Invariant:** the process environment, the home folder and the working folder are read here and nowhere beneath, in
//! [`environment`] alone.
//!
//! **Invariant:** results go to standard output, everything else to standard error; with `--json` standard output holds
//! exactly one document, of a failure too.
//!
//! **Invariant:** text from cells, models and files reaches a terminal with its control characters spelled out.
//!
//! **Invariant:** what is named on the command line is read and checked before anything is made.

pub mod args;
mod ask;
pub mod catalog;
mod commands;
pub mod context;
pub mod engine;
pub mod environment;
pub mod errors;
pub mod interrupt;
mod pins;
pub mod policy;
pub mod progress;
pub mod render;
mod start;
#[cfg(feature = "transcripts")]
mod transcript;
pub mod trust;

pub use start::{main, run};
