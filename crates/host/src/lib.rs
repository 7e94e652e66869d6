//! File flows of coding agents on a guarded file system: `read`, `write`, `edit`, `ls` and `update_plan`.
//!
//! A handler takes a decoded input and the [`CallContext`](kernel::CallContext) of its call, and reaches files through the
//! context's guarded file system alone. Beneath the handlers are engines that know no flow and are usable alone:
//!
//! | Module | Holds |
//! | --- | --- |
//! | [`lines`] | the line model: byte order mark, text or not, where a line starts and ends |
//! | [`page`](mod@page) | one page of a text, with what was left out |
//! | [`anchor`] | edits by exact text or by lines |
//! | [`region`] | where a text that does not occur almost does |
//! | [`listing`] | a directory's entries, ordered and paged |
//! | [`suggest`](mod@suggest) | what stands where a missing file was looked for |
//!
//! ```
//! use flowcell_host::anchor::{Anchor, apply};
//! use flowcell_host::page;
//!
//! let text = "fn main() {\n    run();\n}\n";
//! let page = page::page(text, 2, 1)?;
//! assert_eq!(page.content, "    run();");
//! assert_eq!(page.notice.as_deref(), Some("Lines 2-2 of 3 shown; continue at offset 3."));
//!
//! let edited = apply(text, Anchor::Text { old: "run()", all: false }, "run(1)", 1_000)?;
//! assert_eq!(edited.hunk.text, "fn main() {\n    run(1);\n}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariant:** what a page shows uncut is an exact anchor of an edit, and an edit changes no byte outside the spans it
//! replaces, byte order mark and mode included.
//!
//! **Invariant:** a call that fails leaves the bytes of the file alone.
//!
//! **Invariant:** a refused permission is never told as a missing file, and nothing is told of a directory that the
//! caller may not read.
//!
//! **Invariant:** what is cut says so in its own output.

#![warn(missing_debug_implementations)]

pub use flowcell_kernel as kernel;

pub mod anchor;
mod distance;
mod failure;
mod flows;
pub mod lines;
pub mod listing;
pub mod page;
pub mod region;
pub mod suggest;

pub use failure::{Access, failure};
pub use flows::{EditHandler, LsHandler, ReadHandler, SOURCES, UpdatePlanHandler, WriteHandler};
pub use kernel::flows::ls::MAX_ENTRIES;
pub use kernel::flows::read::{DEFAULT_READ_LIMIT, MAX_LINE_SCALARS, MAX_OUTPUT_BYTES, MAX_READ_FILE_BYTES};
