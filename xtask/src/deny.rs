//! The rules of `deny.toml`, as far as `cargo xtask policy` holds them without cargo-deny.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The file's content.
#[derive(Debug, Deserialize)]
pub(crate) struct Deny {
    pub(crate) graph: Graph,
    pub(crate) sources: Sources,
    pub(crate) bans: Bans,
    pub(crate) licenses: Licenses,
}

/// What is looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Graph {
    pub(crate) all_features: bool,
    pub(crate) targets: Vec<String>,
}

/// Where packages may come from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Sources {
    pub(crate) unknown_registry: Level,
    pub(crate) unknown_git: Level,
}

/// Which packages may not come.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Bans {
    pub(crate) wildcards: Level,
    pub(crate) allow_wildcard_paths: bool,
    pub(crate) multiple_versions: Level,
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    deny_multiple_versions: bool,
}

/// Under which terms.
#[derive(Debug, Deserialize)]
pub(crate) struct Licenses {
    pub(crate) allow: Vec<String>,
    pub(crate) private: Private,
}

/// Packages that are not published.
#[derive(Debug, Deserialize)]
pub(crate) struct Private {
    pub(crate) ignore: bool,
}

/// What a finding does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// It fails the gate.
    Deny,
    /// It is said.
    Warn,
    /// Nothing.
    Allow,
}

impl Deny {
    /// Reads `deny.toml` of a workspace.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join("deny.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("deny.toml")
    }

    /// Crates that may not be in the graph at all.
    pub(crate) fn banned(&self) -> impl Iterator<Item = &str> {
        self.bans.deny.iter().filter(|ban| !ban.deny_multiple_versions).map(|ban| ban.name.as_str())
    }

    /// Crates of which the graph holds at most one version.
    pub(crate) fn single(&self) -> impl Iterator<Item = &str> {
        self.bans.deny.iter().filter(|ban| ban.deny_multiple_versions).map(|ban| ban.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file holds what the dependency contract, section 6, says, no more and no less.
    #[test]
    fn the_file_holds_the_contract() {
        let deny = Deny::parse(include_str!("../../deny.toml")).unwrap();
        assert!(deny.graph.all_features);
        assert_eq!(
            deny.graph.targets,
            [
                "x86_64-unknown-linux-gnu",
                "aarch64-unknown-linux-gnu",
                "x86_64-apple-darwin",
                "aarch64-apple-darwin"
            ]
        );
        assert_eq!((deny.sources.unknown_registry, deny.sources.unknown_git), (Level::Deny, Level::Deny));
        assert_eq!((deny.bans.wildcards, deny.bans.allow_wildcard_paths), (Level::Deny, true));
        assert_eq!(deny.bans.multiple_versions, Level::Warn);
        assert_eq!(
            deny.banned().collect::<Vec<_>>(),
            ["openssl-sys", "native-tls", "aws-lc-sys", "reqwest", "chrono"]
        );
        assert_eq!(
            deny.single().collect::<Vec<_>>(),
            ["hyper", "rustls", "tokio", "serde_json", "schemars", "sha2"]
        );
        assert_eq!(
            deny.licenses.allow,
            [
                "MIT",
                "Apache-2.0",
                "Apache-2.0 WITH LLVM-exception",
                "BSD-2-Clause",
                "BSD-3-Clause",
                "ISC",
                "Zlib",
                "Unicode-3.0",
                "Unlicense",
                "CC0-1.0",
                "BSL-1.0",
                "MIT-0",
                "0BSD",
                "CDLA-Permissive-2.0"
            ]
        );
        assert!(deny.licenses.private.ignore);
    }
}
