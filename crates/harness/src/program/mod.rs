//! A cell's program: what a reply's text is recovered into, and the one parse that validates and normalises it
//! (harness contract 2). Nothing else in the crate knows the parser.
//!
//! **Invariant:** a [`Program`] exists only for text that was parsed and accepted; its line numbers are those of the
//! source it came from.

mod names;
mod normalise;
mod parse;
mod rejected;
mod source;

pub use parse::{MAX_PROGRAM_BYTES, Program, validate};
pub use rejected::{Rejected, RejectionCode};
pub use source::{LANGUAGE, Source};
