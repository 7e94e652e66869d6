//! The part of `cargo metadata` that the gates read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The answer of `cargo metadata --format-version 1`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: BTreeSet<String>,
    pub(crate) target_directory: PathBuf,
}

/// One package, ours or another's.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// `None` for a package that is a folder.
    pub(crate) source: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    /// `Some([])` for a package that is never published.
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// One line of a manifest's dependency tables.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for `[dependencies]`, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) req: String,
    pub(crate) optional: bool,
    pub(crate) uses_default_features: bool,
    #[serde(default)]
    pub(crate) features: Vec<String>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) rename: Option<String>,
}

/// Something that a package builds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Metadata {
    pub(crate) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("cargo metadata answered in an unknown shape")
    }

    /// The workspace's own packages, by name.
    pub(crate) fn ours(&self) -> Vec<&Package> {
        let mut ours: Vec<&Package> =
            self.packages.iter().filter(|package| self.workspace_members.contains(&package.id)).collect();
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        ours
    }
}

impl Package {
    /// Whether the package may be published.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

impl Dependency {
    /// Whether it is compiled for whoever depends on the package: `[dependencies]` and `[build-dependencies]`.
    pub(crate) fn reaches_users(&self) -> bool {
        self.kind.as_deref() != Some("dev")
    }

    /// The name under which the manifest's features know it.
    pub(crate) fn key(&self) -> &str {
        self.rename.as_deref().unwrap_or(&self.name)
    }
}
