//! Folders of files: copied, listed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::repository;

/// A temporary copy of `fixtures/workspaces/NAME`.
///
/// # Errors
///
/// The fixture is not there, or cannot be copied.
pub fn workspace(name: &str) -> Result<TempDir> {
    let copied = tempfile::tempdir()?;
    copy(&repository().join("fixtures/workspaces").join(name), copied.path())?;
    Ok(copied)
}

/// Copies the folders and regular files below `from` into `to`. Links are left out.
///
/// # Errors
///
/// Something cannot be read or written; the message names it.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).with_context(|| format!("{}", source.display()))?;
        }
    }
    Ok(())
}

/// The files below `root` whose names end in `.extension`, by relative path with `/`, hidden ones left out.
///
/// # Errors
///
/// Something cannot be read, or is not UTF-8; the message names it.
pub fn files(root: &Path, extension: &str) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a name is not UTF-8")?;
            let kind = entry.file_type()?;
            let below = folder.join(&name);
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                open.push(below);
            } else if kind.is_file() && below.extension().is_some_and(|found| found == extension) {
                let text =
                    fs::read_to_string(root.join(&below)).with_context(|| format!("{}", below.display()))?;
                let path = below.to_str().context("a path is not UTF-8")?.replace('\\', "/");
                found.insert(path, text);
            }
        }
    }
    Ok(found)
}
