//! Patches in the V4A grammar: what they say, what they make of a text, and how a tree takes one whole or not at all (host
//! contract 6).
//!
//! [`parse`](fn@parse) and [`derive`](fn@derive) know no file system. A patch names files in sections; a section that updates a
//! file has chunks, each of context, removed and added lines, which are looked for in the file by their text.
//!
//! ```
//! use flowcell_host::patch::{Action, derive, parse, paths};
//!
//! let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** End Patch";
//! let parsed = parse(patch)?;
//! let Action::Update { chunks, .. } = &parsed.sections[0].action else { panic!("an update") };
//! assert_eq!(derive("one\ntwo\n", chunks, &|| false)?, "one\n2\n");
//! assert_eq!(paths(patch), Some(vec!["a.txt".to_owned()]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod commit;
mod derive;
mod grammar;
mod preflight;
mod seek;
mod undo;

pub use derive::{DeriveError, derive};
pub use grammar::{Action, Change, Chunk, ParseError, Patch, Section, parse, paths};

pub(crate) use commit::commit;
pub(crate) use preflight::{Plan, Step, preflight};
