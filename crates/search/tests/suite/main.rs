//! The public behaviour of the crate: search contract, sections 1 to 7, 10 and 11.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::print_stdout, missing_docs)]

mod corpus;
mod gitignore;
mod glob;
mod grep;
mod handlers;
mod pattern;
mod permission;
mod properties;
mod support;
mod symbols;
mod walk;
