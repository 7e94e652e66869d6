//! The public behaviour of the crate: search contract, sections 1 to 7, 10 and 11.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs
)]

mod bad_trees;
mod conformance;
mod corpus;
mod differential;
mod gitignore;
mod glob;
mod grep;
mod handlers;
mod notices;
mod pattern;
mod permission;
mod properties;
mod properties_kit;
mod support;
mod symbols;
mod threads;
mod walk;
