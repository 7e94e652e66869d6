//! Declarations of the standard flows of coding agents, and the vocabulary they are written in.
//!
//! A *flow* is something that an agent may call: a name, an input, an output, and a statement of what it does to the
//! world. This crate holds the statements and none of the code that runs them: the seventeen declarations with their
//! [`Input`](read::Input) and [`Output`](read::Output) types ([`mod@read`] to [`mod@lsp`]; all of them in
//! [`Manifest`]), capability text and its matching ([`capability`]), rules and ceilings ([`rules`]), effects
//! ([`effects`]), the closed list of failure codes ([`error`]), JSON Schema documents and decoding by them ([`schema`],
//! [`decode`]), canonical JSON ([`canonical`]) and the declaration digest ([`descriptor`]).
//!
//! ```
//! use flowcell_flows::rules::{Effect, Rule, evaluate};
//! use flowcell_flows::{Capability, CapabilityPattern, decode::decode, read};
//!
//! // A policy: everything below /ws may be read, but for one folder.
//! let pattern = |text| CapabilityPattern::parse(text).ok_or("pattern");
//! let policy = [Rule::allow(pattern("fs:read:/ws/**")?), Rule::deny(pattern("fs:read:/ws/keys/**")?)];
//! let request = Capability::parse("fs:read:/ws/src/lib.rs").ok_or("capability")?;
//! assert_eq!(evaluate(&[&policy], &request), Effect::Allow);
//!
//! // A call: its JSON input, decoded by the declaration's document.
//! let flow = read::decl();
//! let input: read::Input = decode(&flow.input, &serde_json::json!({"path": "/ws/src/lib.rs", "limit": 20}))?;
//! assert_eq!(input.limit, Some(20));
//! assert_eq!((flow.effects_for)(&serde_json::json!({"path": "/ws/src/lib.rs"})).reads, ["/ws/src/lib.rs"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariant:** nothing here does input or output, reads a clock or an environment; every function is pure.
//!
//! **Invariant:** no parser panics on any text, and parsing the text of a capability or pattern gives the same value
//! back, byte for byte.
//!
//! **Invariant:** matching takes at most [`capability::MAX_MATCH_WORK`] steps a scan; a longer pair is undecidable,
//! which an evaluation answers with deny.
//!
//! **Invariant:** a configured policy that ends in a deny stays a deny, whatever rules follow it.
//!
//! **Invariant:** a ceiling only narrows: `allows(intersect(x, y), c)` is `allows(x, c) && allows(y, c)`.
//!
//! **Invariant:** the declaration digest changes with every field but the order of `capabilities` and
//! `provenance.pack`.

#![warn(missing_debug_implementations)]

pub mod canonical;
pub mod capability;
pub mod decl;
pub mod decode;
pub mod descriptor;
pub mod effects;
pub mod error;
pub mod flows;
pub mod manifest;
pub mod probe;
pub mod rules;
pub mod schema;
mod validate;

/// The crate that [`SchemaDoc::of`] reads a type's schema with. A type derives it from here with
/// `#[schemars(crate = "flowcell_flows::schemars")]`.
pub use schemars;
/// The crate of the JSON values in this one's signatures.
pub use serde_json;

pub use capability::{Action, ActionSel, Capability, CapabilityPattern};
pub use decl::FlowDecl;
pub use descriptor::{FlowDescriptor, declaration_digest};
pub use effects::{Effects, Tier};
pub use error::{Code, StdError};
pub use flows::{
    apply_patch, bash, edit, explore, fetch, glob, grep, http_post, ls, lsp, read, shell_command, test,
    update_plan, webfetch, websearch, write,
};
pub use manifest::Manifest;
pub use rules::CapabilitySet;
pub use schema::SchemaDoc;

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
