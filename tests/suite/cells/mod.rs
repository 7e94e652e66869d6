//! The three fixture cells: on the fixture workspace with their expected results, and on the unpacked sources of three
//! packages, where a parser of Rust's own says what is right.

mod fixtures;
mod outline;
mod refusals;
mod rename;
mod report;

use std::path::{Path, PathBuf};

use flowcell_tests::{Package, copy, repository, volume};
use tempfile::TempDir;

/// Calls that suffice for any of the packages.
const CALLS: u64 = 4_000;

fn cell(name: &str) -> PathBuf {
    repository().join("fixtures/cells").join(name)
}

/// A copy of a package's unpacked sources, as a workspace: all of them in a full run, in CI what is below `folders`,
/// with the manifest.
fn unpacked(name: &str, folders: &[&str]) -> TempDir {
    let package = Package::named(name).unwrap();
    let workspace = tempfile::tempdir().unwrap();
    if volume(false, true) {
        copy(&package.folder, workspace.path()).unwrap();
    } else {
        for folder in folders {
            copy(&package.folder.join(folder), &workspace.path().join(folder)).unwrap();
        }
        std::fs::copy(package.folder.join("Cargo.toml"), workspace.path().join("Cargo.toml")).unwrap();
    }
    workspace
}

/// Gives a cell its parameters.
fn parameters(workspace: &Path, json: &serde_json::Value) {
    std::fs::write(workspace.join("cell-input.json"), json.to_string()).unwrap();
}
