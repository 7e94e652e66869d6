//! What the suites that cross crates share: the built `flowcell`, workspaces to run it on, packages of this
//! workspace's own dependency graph as real input, and the volume of a run.
//!
//! The suites are test targets of this member, one file a capability in each:
//!
//! ```text
//! cargo test -p flowcell-tests          # at the volume of CI
//! cargo xtask integration main          # at full volume
//! ```
//!
//! ```
//! let root = flowcell_tests::repository();
//! assert!(root.join("fixtures/cells/unsafe-report.js").is_file());
//! ```
//!
//! **Invariant:** nothing here needs a network, and nothing is written outside temporary folders and the target folder.

// Helpers of tests: the volume and the tools' names come from the process environment.
#![allow(clippy::disallowed_methods)]

mod binary;
mod package;
mod skip;
mod tree;
mod volume;

pub use binary::{Exec, Outcome, call, flowcell};
pub use package::{Package, cargo, target_folder};
pub use skip::{skip, which};
pub use tree::{copy, files, workspace};
pub use volume::volume;

use std::path::{Path, PathBuf};

/// The root of this repository.
#[must_use]
pub fn repository() -> PathBuf {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.parent().unwrap_or(member).to_path_buf()
}
