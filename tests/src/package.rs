//! Packages of the dependency graph, unpacked by cargo: sources of real size that every machine with this workspace has.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Deserialize;

use crate::repository;

/// One package of the graph.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Where cargo unpacked it.
    pub folder: PathBuf,
    /// The features that this workspace switches on in it.
    pub features: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    features: Vec<String>,
}

impl Package {
    /// The package of that name.
    ///
    /// # Errors
    ///
    /// The graph cannot be had, or holds no such package, or several.
    pub fn named(name: &str) -> Result<Self> {
        let metadata = metadata()?;
        let mut found = metadata.packages.iter().filter(|package| package.name == name);
        let (Some(package), None) = (found.next(), found.next()) else {
            bail!("the dependency graph does not hold exactly one {name}");
        };
        let node = metadata.resolve.nodes.iter().find(|node| node.id == package.id);
        Ok(Self {
            name: name.to_owned(),
            folder: package.manifest_path.parent().context("a manifest without a folder")?.to_path_buf(),
            features: node.map(|node| node.features.clone()).unwrap_or_default(),
        })
    }
}

/// The target folder of this workspace.
///
/// # Errors
///
/// The graph cannot be had.
pub fn target_folder() -> Result<&'static Path> {
    metadata().map(|metadata| metadata.target_directory.as_path())
}

/// A `cargo` command in `folder`, without what a test runner sets for its own processes.
#[must_use]
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(folder).env_remove("RUSTC_BOOTSTRAP");
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

fn metadata() -> Result<&'static Metadata> {
    static METADATA: OnceLock<Result<Metadata, String>> = OnceLock::new();
    METADATA
        .get_or_init(|| load().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("{error}"))
}

fn load() -> Result<Metadata> {
    let output = cargo(&repository()).args(["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata answered in an unknown shape")
}
