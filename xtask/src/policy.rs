//! What the dependencies may be: sources, licences, minimum Rust versions, bans (dependency contract 4 and 6).
//!
//! The rules are those of `deny.toml`, held here from `cargo metadata` so that the gate stands without cargo-deny.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;

use crate::cargo::Workspace;
use crate::deny::{Deny, Level};
use crate::layers::{HARNESS, layer};
use crate::metadata::{Metadata, Package};
use crate::pick::{Features, tree};
use crate::spdx;
use crate::tally::Findings;
use crate::text;

/// The only registry, as `cargo metadata` and `Cargo.lock` name it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The newest Rust that any crate may ask for.
const NEWEST: Version = Version(1, 95, 0);

/// The newest Rust that a crate below the harness, or anything it stands on, may ask for.
const NEWEST_BELOW_THE_HARNESS: Version = Version(1, 89, 0);

/// A Rust version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    /// `1.89` or `1.89.1`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
        let version = Self(parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 == 0 { Ok(()) } else { write!(f, ".{}", self.2) }
    }
}

/// Checks the workspace.
pub(crate) fn run(workspace: &Workspace) -> Result<Findings> {
    let deny = Deny::read(workspace.root())?;
    let metadata = workspace.resolved()?;
    let mut findings = check(&metadata, &deny);
    check_stated_versions(workspace, &metadata, &deny, &mut findings)?;
    let files = text::check(workspace, &mut findings)?;
    findings.summary = format!("{} packages, {files} files", metadata.packages.len());
    Ok(findings)
}

/// Everything that the resolved graph alone shows.
fn check(metadata: &Metadata, deny: &Deny) -> Findings {
    let mut findings = Findings::of("policy");
    check_sources(metadata, deny, &mut findings);
    check_licences(metadata, deny, &mut findings);
    check_bans(metadata, deny, &mut findings);
    check_rust_versions(metadata, &mut findings);
    findings
}

fn title(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

fn report(level: Level, text: String, findings: &mut Findings) {
    match level {
        Level::Deny => findings.error(text),
        Level::Warn => findings.note(text),
        Level::Allow => {}
    }
}

fn check_sources(metadata: &Metadata, deny: &Deny, findings: &mut Findings) {
    for package in &metadata.packages {
        match package.source.as_deref() {
            Some(REGISTRY) => {}
            None if metadata.workspace_members.contains(&package.id) => {}
            None => findings.error(format!("{} is a folder outside the workspace", title(package))),
            Some(git) if git.starts_with("git+") => {
                report(deny.sources.unknown_git, format!("{} comes from {git}", title(package)), findings);
            }
            Some(other) => {
                report(
                    deny.sources.unknown_registry,
                    format!("{} comes from {other}", title(package)),
                    findings,
                );
            }
        }
    }
}

fn check_licences(metadata: &Metadata, deny: &Deny, findings: &mut Findings) {
    for package in &metadata.packages {
        let ours = metadata.workspace_members.contains(&package.id);
        if ours && !package.is_published() && deny.licenses.private.ignore {
            continue;
        }
        let Some(licence) = package.license.as_deref() else {
            findings.error(format!("{} states no licence", title(package)));
            continue;
        };
        match spdx::is_met(licence, &deny.licenses.allow) {
            Ok(true) => {}
            Ok(false) => {
                findings.error(format!("{}: the licence {licence} is not allowed", title(package)));
            }
            Err(why) => {
                findings.error(format!("{}: the licence {licence} cannot be read: {why}", title(package)));
            }
        }
    }
}

fn check_bans(metadata: &Metadata, deny: &Deny, findings: &mut Findings) {
    let banned: BTreeSet<&str> = deny.banned().collect();
    let single: BTreeSet<&str> = deny.single().collect();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        if banned.contains(package.name.as_str()) {
            findings.error(format!("{} is banned", title(package)));
        }
        versions.entry(&package.name).or_default().push(&package.version);
        for dependency in package.dependencies.iter().filter(|dependency| dependency.req == "*") {
            // Cargo leaves the dev-dependencies out of what it publishes when they have a path and no version.
            let private = !package.is_published() || !dependency.reaches_users();
            if dependency.path.is_some() && private && deny.bans.allow_wildcard_paths {
                continue;
            }
            report(
                deny.bans.wildcards,
                format!("{} takes any version of {}", title(package), dependency.name),
                findings,
            );
        }
    }
    for (name, mut found) in versions.into_iter().filter(|(_, found)| found.len() > 1) {
        found.sort_unstable();
        let level = if single.contains(name) { Level::Deny } else { deny.bans.multiple_versions };
        report(level, format!("{name} comes in {} versions: {}", found.len(), found.join(", ")), findings);
    }
}

fn check_rust_versions(metadata: &Metadata, findings: &mut Findings) {
    for package in &metadata.packages {
        let Some(stated) = package.rust_version.as_deref() else { continue };
        match Version::parse(stated) {
            Some(version) if version <= NEWEST => {}
            Some(version) => {
                findings.error(format!("{} asks for Rust {version}; ours is {NEWEST}", title(package)));
            }
            None => {
                findings.error(format!("{} states the Rust version {stated}, which is none", title(package)));
            }
        }
    }
}

/// Each published crate of ours states a Rust version, those below the harness one that is old enough, and what it
/// stands on asks for no newer one.
fn check_stated_versions(
    workspace: &Workspace,
    metadata: &Metadata,
    deny: &Deny,
    findings: &mut Findings,
) -> Result<()> {
    let asked: BTreeMap<(&str, &str), Version> = metadata
        .packages
        .iter()
        .filter_map(|package| {
            let version = Version::parse(package.rust_version.as_deref()?)?;
            Some(((package.name.as_str(), package.version.as_str()), version))
        })
        .collect();
    let upper = layer(HARNESS);
    let features = if deny.graph.all_features { Features::All } else { Features::Default };
    for package in metadata.ours().into_iter().filter(|package| package.is_published()) {
        let Some(stated) = package.rust_version.as_deref().and_then(Version::parse) else {
            findings.error(format!("{} states no rust-version", package.name));
            continue;
        };
        if layer(&package.name) < upper && stated > NEWEST_BELOW_THE_HARNESS {
            findings.error(format!(
                "{} states Rust {stated}; a crate below the harness states {NEWEST_BELOW_THE_HARNESS} at most",
                package.name
            ));
        }
        for (name, version) in tree(workspace, &package.name, features, &deny.graph.targets)? {
            if let Some(newer) =
                asked.get(&(name.as_str(), version.as_str())).filter(|asked| **asked > stated)
            {
                findings.error(format!(
                    "{} states Rust {stated}, but {name} {version} under it asks for {newer}",
                    package.name
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, version: &str) -> Value {
        json!({"id": format!("{name}@{version}"), "name": name, "version": version, "source": REGISTRY,
               "license": "MIT", "rust_version": "1.70", "publish": null, "dependencies": [], "features": {},
               "targets": []})
    }

    fn ours(name: &str) -> Value {
        let mut package = package(name, "0.1.0");
        package["source"] = Value::Null;
        package
    }

    fn findings(packages: &[Value], members: &[&str]) -> Findings {
        let text = json!({"packages": packages, "workspace_members": members, "target_directory": "target"});
        let deny: Deny = toml::from_str(include_str!("../../deny.toml")).unwrap();
        check(&Metadata::parse(&text.to_string()).unwrap(), &deny)
    }

    fn errors(changed: &Value) -> Vec<String> {
        findings(&[package("serde", "1.0.0"), changed.clone()], &[]).errors
    }

    #[test]
    fn a_plain_graph_passes() {
        assert_eq!(
            findings(&[ours("own"), package("serde", "1.0.0")], &["own@0.1.0"]).errors,
            Vec::<String>::new()
        );
    }

    #[test]
    fn sources_outside_the_registry_are_found() {
        let mut planted = package("p", "1.0.0");
        planted["source"] = json!("git+ssh://host/p#0123");
        assert_eq!(errors(&planted), ["p 1.0.0 comes from git+ssh://host/p#0123"]);
        planted["source"] = json!("registry+other");
        assert_eq!(errors(&planted), ["p 1.0.0 comes from registry+other"]);
        planted["source"] = Value::Null;
        assert_eq!(errors(&planted), ["p 1.0.0 is a folder outside the workspace"]);
    }

    #[test]
    fn licences_are_judged() {
        let mut planted = package("p", "1.0.0");
        planted["license"] = json!("MIT OR LGPL-2.1-or-later");
        assert_eq!(errors(&planted), Vec::<String>::new());
        planted["license"] = json!("MIT AND LGPL-2.1-or-later");
        assert_eq!(errors(&planted), ["p 1.0.0: the licence MIT AND LGPL-2.1-or-later is not allowed"]);
        planted["license"] = json!("MIT,");
        assert_eq!(errors(&planted), ["p 1.0.0: the licence MIT, cannot be read: `MIT,` is not a licence"]);
        planted["license"] = Value::Null;
        assert_eq!(errors(&planted), ["p 1.0.0 states no licence"]);
    }

    #[test]
    fn a_private_crate_of_ours_needs_no_licence() {
        let mut own = ours("own");
        own["license"] = Value::Null;
        assert_eq!(
            findings(std::slice::from_ref(&own), &["own@0.1.0"]).errors,
            ["own 0.1.0 states no licence"]
        );
        own["publish"] = json!([]);
        assert_eq!(findings(&[own], &["own@0.1.0"]).errors, Vec::<String>::new());
    }

    #[test]
    fn bans_hold() {
        assert_eq!(errors(&package("native-tls", "0.2.0")), ["native-tls 0.2.0 is banned"]);
        let twice = [
            package("sha2", "0.10.0"),
            package("sha2", "0.11.0"),
            package("syn", "2.0.0"),
            package("syn", "3.0.0"),
        ];
        let found = findings(&twice, &[]);
        assert_eq!(found.errors, ["sha2 comes in 2 versions: 0.10.0, 0.11.0"]);
        assert_eq!(found.notes, ["syn comes in 2 versions: 2.0.0, 3.0.0"]);
    }

    #[test]
    fn wildcards_are_found_where_they_reach_users() {
        let star = |path: Value, kind: Value| {
            json!({"name": "d", "kind": kind, "req": "*", "optional": false, "uses_default_features": true,
                   "features": [], "path": path, "rename": null})
        };
        let mut planted = package("p", "1.0.0");
        planted["dependencies"] = json!([star(Value::Null, Value::Null)]);
        assert_eq!(errors(&planted), ["p 1.0.0 takes any version of d"]);
        planted["dependencies"] = json!([star(json!("/d"), Value::Null)]);
        assert_eq!(errors(&planted), ["p 1.0.0 takes any version of d"]);
        planted["dependencies"] = json!([star(json!("/d"), json!("dev"))]);
        assert_eq!(errors(&planted), Vec::<String>::new());
        planted["dependencies"] = json!([star(json!("/d"), Value::Null)]);
        planted["publish"] = json!([]);
        assert_eq!(errors(&planted), Vec::<String>::new());
    }

    #[test]
    fn a_newer_rust_is_found() {
        let mut planted = package("p", "1.0.0");
        planted["rust_version"] = json!("1.95");
        assert_eq!(errors(&planted), Vec::<String>::new());
        planted["rust_version"] = json!("1.95.1");
        assert_eq!(errors(&planted), ["p 1.0.0 asks for Rust 1.95.1; ours is 1.95"]);
        planted["rust_version"] = json!("1.100");
        assert_eq!(errors(&planted), ["p 1.0.0 asks for Rust 1.100; ours is 1.95"]);
        planted["rust_version"] = json!("new");
        assert_eq!(errors(&planted), ["p 1.0.0 states the Rust version new, which is none"]);
    }
}
