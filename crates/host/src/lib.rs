//! File flows of coding agents on a guarded file system: `read`, `write`, `edit`, `apply_patch`, `ls` and `update_plan`.
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
//! | [`patch`](mod@patch) | patches of several files: what they say, what they make of a text, all of it or nothing |
//! | [`checkpoints`] | what a workspace held at a moment, kept by content |
//! | [`suggest`](mod@suggest) | what stands where a missing file was looked for |
//! | [`report`] | what a test runner's output says: unittest, pytest, libtest, TAP, JUnit |
//! | [`hermetic`] | the paths that a command's text names, and what a call declares |
//! | [`process`] | running a command: both streams in fixed memory, a timeout that holds, nothing left behind |
//! | [`confine`] | what a hermetic command can reach: Landlock, seccomp, namespaces; the supervisor |
//! | [`container`] | running a command inside a container |
//! | [`capture`] | cuts of output on character boundaries, with their counts |
//! | [`judge`] | whether an exit code speaks of the tree or of the command |
//! | [`runner`] | the test runner that a host declares |
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
//! **Invariant:** a call that fails leaves the bytes of the file alone; a patch that fails leaves those of the whole tree
//! alone, or names the paths that it could not bring back.
//!
//! **Invariant:** a refused permission is never told as a missing file, and nothing is told of a directory that the
//! caller may not read.
//!
//! **Invariant:** what is cut says so in its own output.
//!
//! **Invariant:** a test report is `parsed` only when its end was printed and agrees with what was seen.
//!
//! **Invariant:** a variable's value is in no argv, no message and no record.
//!
//! **Invariant:** a command's call that has returned left no process that the host's best sweep reaches.
//!
//! **Invariant:** no layer of confinement is reported that was not applied.

#![warn(missing_debug_implementations)]

pub use flowcell_kernel as kernel;

pub mod anchor;
pub mod capture;
pub mod checkpoints;
pub mod confine;
pub mod container;
mod distance;
mod failure;
mod flows;
pub mod hermetic;
pub mod judge;
pub mod lines;
pub mod listing;
mod now;
pub mod page;
pub mod patch;
pub mod process;
pub mod region;
pub mod report;
pub mod runner;
pub mod suggest;
mod worktree;

pub use confine::{Confinement, Enforcement, HermeticEnforcement, Supervisor, supervisor};
pub use failure::{Access, failure};
pub use flows::{
    ApplyPatchHandler, BashHandler, EditHandler, LsHandler, ReadHandler, SOURCES, ShellCommandHandler,
    TestHandler, UpdatePlanHandler, WriteHandler, bash,
};
pub use kernel::flows::ls::MAX_ENTRIES;
pub use kernel::flows::read::{DEFAULT_READ_LIMIT, MAX_LINE_SCALARS, MAX_OUTPUT_BYTES, MAX_READ_FILE_BYTES};
pub use process::{ProcessOptions, ProcessRequest};
