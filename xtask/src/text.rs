//! Names of the machine at hand that slipped into the sources: its folders, its registry's host.
//!
//! What is searched for is asked of the machine, so this file names none of it.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cargo::{Workspace, output_of};
use crate::tally::Findings;

/// Hosts of the public registry, which anyone may name.
const PUBLIC_HOSTS: [&str; 4] = ["crates.io", "index.crates.io", "static.crates.io", "github.com"];

/// Searches every file that git tracks or would track; answers how many there are.
pub(crate) fn check(workspace: &Workspace, findings: &mut Findings) -> Result<usize> {
    let needles = needles(workspace.root());
    let files = files(workspace)?;
    for file in &files {
        // A file that was removed since git listed it, or a link to nothing, holds no text.
        let Ok(bytes) = fs::read(workspace.root().join(file)) else { continue };
        let content = String::from_utf8_lossy(&bytes);
        for needle in &needles {
            if let Some(line) = line_of(&content, needle) {
                findings.error(format!("{}:{line} names {needle}, which is this machine's", file.display()));
            }
        }
        if file.ends_with(".cargo/config.toml") {
            for table in replaced(&content) {
                findings.error(format!("{} sets [{table}], which is this machine's to set", file.display()));
            }
        }
    }
    Ok(files.len())
}

/// What git tracks or would track; in a copy without a repository everything but what is built.
fn files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    if !workspace.root().join(".git").exists() {
        let mut found = Vec::new();
        walk(workspace.root(), Path::new(""), &mut found)?;
        return Ok(found);
    }
    let mut git = std::process::Command::new("git");
    // A checkout that belongs to another user is read all the same.
    git.current_dir(workspace.root()).args(["-c", "safe.directory=*", "ls-files", "-z"]);
    git.args(["--cached", "--others", "--exclude-standard"]);
    let output = output_of(&mut git)?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listed = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let files: BTreeSet<PathBuf> =
        listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    Ok(files.into_iter().collect())
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        let (kind, below) = (entry.file_type()?, folder.join(entry.file_name()));
        if kind.is_dir() && entry.file_name() != "target" {
            walk(root, &below, found)?;
        } else if kind.is_file() {
            found.push(below);
        }
    }
    Ok(())
}

/// What no file may hold on this machine.
fn needles(root: &Path) -> BTreeSet<String> {
    let mut needles = BTreeSet::new();
    let mut folder = |path: &Path| {
        // A folder directly under the root, such as `/root` or `/tmp`, is anyone's.
        if path.components().count() > 2
            && let Some(text) = path.to_str()
        {
            needles.insert(text.to_owned());
        }
    };
    folder(root);
    // What stands beside the checkout, but in the folder of temporary files, where anything does.
    let parent = root.parent().filter(|parent| *parent != env::temp_dir());
    if let Some(entries) = parent.and_then(|parent| fs::read_dir(parent).ok()) {
        entries.filter_map(Result::ok).for_each(|entry| folder(&entry.path()));
    }
    let home = env::home_dir();
    if let Some(home) = &home {
        folder(home);
    }
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    if let Some(cargo_home) = cargo_home {
        folder(&cargo_home);
        let config = fs::read_to_string(cargo_home.join("config.toml")).unwrap_or_default();
        needles.extend(hosts(&config));
    }
    needles
}

/// Hosts of registries that a cargo configuration names, but the public ones.
fn hosts(config: &str) -> Vec<String> {
    let Ok(config) = config.parse::<toml::Table>() else { return Vec::new() };
    let mut hosts = Vec::new();
    for (table, member) in [("source", "registry"), ("registries", "index")] {
        let named = config.get(table).and_then(toml::Value::as_table);
        for url in
            named.into_iter().flat_map(toml::Table::values).filter_map(|entry| entry.get(member)?.as_str())
        {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            let authority = rest.split('/').next().unwrap_or(rest);
            let host =
                authority.rsplit('@').next().unwrap_or(authority).split(':').next().unwrap_or(authority);
            if !host.is_empty() && !PUBLIC_HOSTS.contains(&host) {
                hosts.push(host.to_owned());
            }
        }
    }
    hosts
}

/// Tables of the repository's own cargo configuration that say where packages come from.
fn replaced(config: &str) -> Vec<&'static str> {
    let table = config.parse::<toml::Table>().unwrap_or_default();
    ["source", "registries", "registry"].into_iter().filter(|name| table.contains_key(*name)).collect()
}

/// The line, from 1, of the first place where `needle` stands as a name of its own.
fn line_of(content: &str, needle: &str) -> Option<usize> {
    content.match_indices(needle).find_map(|(at, _)| {
        let after = content[at + needle.len()..].chars().next();
        let goes_on = after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        (!goes_on).then(|| content[..at].matches('\n').count() + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_found_as_a_whole_name() {
        assert_eq!(line_of("a\nb /srv/x/y\n", "/srv/x"), Some(2));
        assert_eq!(line_of("/srv/xy /srv/x-1 \"/srv/x\"", "/srv/x"), Some(1));
        assert_eq!(line_of("/srv/xy /srv/x-1", "/srv/x"), None);
    }

    #[test]
    fn a_copy_without_a_repository_is_walked() {
        let copy = tempfile::tempdir().unwrap();
        for file in ["Cargo.toml", "src/a.rs", "target/debug/a", ".ci/run"] {
            let path = copy.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("in {}", copy.path().canonicalize().unwrap().display())).unwrap();
        }
        let workspace = Workspace::at(Some(copy.path().to_path_buf())).unwrap();
        let mut findings = Findings::of("policy");
        // A temporary folder lies deep enough to be a name of this machine.
        assert_eq!(check(&workspace, &mut findings).unwrap(), 3);
        findings.errors.sort();
        let named: Vec<&str> = findings.errors.iter().filter_map(|error| error.split(':').next()).collect();
        assert_eq!(named, [".ci/run", "Cargo.toml", "src/a.rs"]);
    }

    #[test]
    fn hosts_of_other_registries_are_read() {
        let config = "[source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = 'sparse+https://u@mirror.test:8443/i/'\n\
                      [registries.r]\nindex = 'https://index.crates.io/'\n[registries.s]\nindex = 'https://other.test'";
        assert_eq!(hosts(config), ["mirror.test", "other.test"]);
        assert_eq!(hosts("not toml ["), Vec::<String>::new());
    }

    #[test]
    fn own_configuration_that_moves_the_registry_is_found() {
        assert_eq!(replaced("[alias]\nx = 'y'"), Vec::<&str>::new());
        assert_eq!(replaced("[source.a]\nb = 'c'\n[registry]\nd = 'e'"), ["source", "registry"]);
    }

    #[test]
    fn folders_of_this_machine_are_needles() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let needles = needles(root);
        assert!(needles.contains(root.to_str().unwrap()));
        assert!(!needles.contains("/tmp"));
    }
}
