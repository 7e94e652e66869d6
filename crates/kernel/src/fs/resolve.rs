//! From a path as given to the resource that names it (kernel contract 6.1, c and d).
//!
//! Resolution only reads links; it opens nothing. What is done afterwards walks the resolved path by descriptors and meets
//! no link, or fails.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::path::{below, child, lexical, parent};
use super::stat::Stat;
use crate::flows::capability::{MAX_RESOURCE_UNITS, units};

/// Links on the way to a file at most.
pub const MAX_LINK_HOPS: usize = 40;

/// The two names of a workspace root.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub(crate) logical: String,
    pub(crate) canonical: String,
    /// The links, each by its own canonical path, through which the logical name leads to the canonical one.
    links: Vec<String>,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The path without links; its tail may be missing.
    pub(crate) canonical: String,
    /// The same, expressed under the logical root when it is inside the workspace: the resource that is asked for.
    pub(crate) resource: String,
    /// Whether a link led to something missing.
    pub(crate) dangling: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResolveError {
    NotUtf8,
    TooManyLinks,
    TooLong,
    /// The logical root leads elsewhere than when it was resolved.
    RootReplaced,
    Host(Errno),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::NotUtf8 => f.write_str("it leads to a path that is not UTF-8"),
            ResolveError::TooManyLinks => write!(f, "more than {MAX_LINK_HOPS} links"),
            ResolveError::TooLong => f.write_str("it leads to a path that is too long"),
            ResolveError::RootReplaced => f.write_str(super::reason::ROOT_REPLACED),
            ResolveError::Host(errno) => write!(f, "{errno}"),
        }
    }
}

impl Roots {
    /// The roots of a logical root; one that does not resolve is its own canonical root.
    pub(crate) fn of_root(logical: &str) -> Self {
        let (canonical, links) = match walk("/", logical, true) {
            Ok(walked) => (walked.path, walked.links),
            Err(_) => (logical.to_owned(), Vec::new()),
        };
        Roots { logical: logical.to_owned(), canonical, links }
    }

    /// The roots of a workspace that was resolved before.
    pub(crate) fn new(logical: &str, canonical: &str) -> Self {
        let links = walk("/", logical, true).map_or_else(|_| Vec::new(), |walked| walked.links);
        Roots { logical: logical.to_owned(), canonical: canonical.to_owned(), links }
    }

    /// Whether the canonical path is the root, something that the root lies in, or a link that the root's logical name
    /// goes through.
    pub(crate) fn held_by(&self, canonical: &str) -> bool {
        std::iter::once(&self.canonical).chain(&self.links).any(|held| below(canonical, held).is_some())
    }

    /// Resolves a collapsed absolute path. Without `follow` the last component is taken as it is.
    pub(crate) fn resolve(&self, path: &str, follow: bool) -> Result<Resolved, ResolveError> {
        self.resolve_from("/", path, follow)
    }

    /// Resolves what a link of this text in `dir` would name; `dir` is canonical.
    pub(crate) fn resolve_from(&self, dir: &str, path: &str, follow: bool) -> Result<Resolved, ResolveError> {
        let Walked { path: canonical, dangling, .. } = walk(dir, path, follow)?;
        let resource = self.resource(&canonical)?;
        // The link itself goes by the root's name; a directory in its place is not the root.
        if follow && resource == self.logical && canonical != self.canonical {
            return Err(ResolveError::RootReplaced);
        }
        if units(&canonical) > MAX_RESOURCE_UNITS || units(&resource) > MAX_RESOURCE_UNITS {
            return Err(ResolveError::TooLong);
        }
        Ok(Resolved { canonical, resource, dangling })
    }

    /// The resource of a canonical path. What is inside the workspace takes the logical root's name, so nothing else may
    /// bear a name under it: a path that does was put where the logical root's links were.
    pub(crate) fn resource(&self, canonical: &str) -> Result<String, ResolveError> {
        if let Some(rest) = below(&self.canonical, canonical) {
            return Ok(child(&self.logical, rest));
        }
        match below(&self.logical, canonical) {
            Some(rest) if !rest.is_empty() => Err(ResolveError::RootReplaced),
            _ => Ok(canonical.to_owned()),
        }
    }
}

/// What a walk came to.
struct Walked {
    path: String,
    dangling: bool,
    /// The links that were followed, each by its own canonical path.
    links: Vec<String>,
}

/// Walks `path` from the canonical directory `dir`, component by component.
fn walk(dir: &str, path: &str, follow: bool) -> Result<Walked, ResolveError> {
    let mut at = if path.starts_with('/') { "/".to_owned() } else { dir.to_owned() };
    // Each component, and whether the text of a link brought it.
    let mut todo: VecDeque<(String, bool)> = link_parts(path).into_iter().map(|part| (part, false)).collect();
    let mut links = Vec::new();
    let mut dangling = false;
    let mut end = End::Dir;
    while let Some((part, from_link)) = todo.pop_front() {
        // Only a link's text has these here, and the host wants a directory before them.
        match (part.as_str(), end) {
            (".", End::Dir | End::Missing) => continue,
            ("..", End::Dir) => {
                at.truncate(parent(&at).len());
                continue;
            }
            ("." | "..", _) => return Err(ResolveError::Host(Errno::NOENT)),
            _ => {}
        }
        let here = child(&at, &part);
        if here.len() > 4 * MAX_RESOURCE_UNITS {
            return Err(ResolveError::TooLong);
        }
        let stat = match rustix::fs::statat(CWD, here.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                dangling |= from_link;
                at = here;
                end = End::Missing;
                continue;
            }
            Err(errno) => return Err(ResolveError::Host(errno)),
        };
        let link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !link || (todo.is_empty() && !follow) {
            let name = on_disk(&at, &part, &Stat::of(&stat))?;
            at = child(&at, &name);
            end = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                End::Dir
            } else {
                End::File
            };
            continue;
        }
        if links.len() == MAX_LINK_HOPS {
            return Err(ResolveError::TooManyLinks);
        }
        let target = rustix::fs::readlinkat(CWD, here.as_str(), Vec::new()).map_err(ResolveError::Host)?;
        let target = target.into_string().map_err(|_| ResolveError::NotUtf8)?;
        if target.starts_with('/') {
            "/".clone_into(&mut at);
        }
        for part in link_parts(&target).into_iter().rev() {
            todo.push_front((part, true));
        }
        links.push(here);
    }
    Ok(Walked { path: at, dangling, links })
}

/// The components of a path; one that ends in a slash wants a directory, which `.` says.
fn link_parts(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    if path.ends_with('/') {
        parts.push(".".to_owned());
    }
    parts
}

/// What a walk has come to.
#[derive(Clone, Copy)]
enum End {
    Dir,
    File,
    Missing,
}

/// The spelling that a directory has for an entry. It differs from the one given only on a volume that folds case, which
/// shows in the entry answering to another spelling too.
fn on_disk(dir: &str, name: &str, stat: &Stat) -> Result<String, ResolveError> {
    let folded = swap_case(name);
    let folds = folded != name
        && rustix::fs::statat(CWD, child(dir, &folded).as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|other| Stat::of(&other).same_file(stat));
    // Apple's volumes fold Unicode normalisation as well, which no second spelling of this text would show.
    let folds = folds || (cfg!(target_vendor = "apple") && !name.is_ascii());
    if folds { listed_spelling(dir, name, stat) } else { Ok(name.to_owned()) }
}

fn listed_spelling(dir: &str, name: &str, stat: &Stat) -> Result<String, ResolveError> {
    let Ok(listing) = std::fs::read_dir(dir) else { return Ok(name.to_owned()) };
    let mut spelling = None;
    for entry in listing.flatten() {
        let entry_name = entry.file_name();
        if entry_name.as_bytes() == name.as_bytes() {
            return Ok(name.to_owned());
        }
        if std::os::unix::fs::DirEntryExt::ino(&entry) == stat.ino && same_folded(&entry_name, name) {
            spelling = Some(entry_name);
        }
    }
    match spelling {
        Some(spelling) => spelling.into_string().map_err(|_| ResolveError::NotUtf8),
        None => Ok(name.to_owned()),
    }
}

fn same_folded(entry: &OsStr, name: &str) -> bool {
    !name.is_ascii() || entry.as_bytes().eq_ignore_ascii_case(name.as_bytes())
}

/// Another spelling of a name for a volume that folds case: that of ASCII, or, where ASCII has none, of Unicode.
fn swap_case(name: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    let folded: String = name.chars().map(swap).collect();
    if folded != name || name.is_ascii() {
        return folded;
    }
    let upper = name.to_uppercase();
    if upper == name { name.to_lowercase() } else { upper }
}

/// The canonical path of a workspace root, which has to be a directory.
pub(crate) fn resolve_workspace(logical: &str) -> Result<String, super::FsError> {
    use super::FsError;
    let resolved = walk("/", logical, true);
    let canonical = resolved.map(|walked| walked.path).map_err(|error| match error {
        ResolveError::Host(errno) => FsError::host(errno, "resolve the workspace root"),
        ResolveError::TooManyLinks => FsError::TooManyLinks,
        ResolveError::NotUtf8 | ResolveError::TooLong | ResolveError::RootReplaced => {
            FsError::InvalidPath(error.to_string())
        }
    })?;
    let stat = rustix::fs::statat(CWD, canonical.as_str(), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| FsError::host(errno, "stat the workspace root"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(FsError::NotADirectory);
    }
    debug_assert_eq!(lexical("/", &canonical), canonical);
    Ok(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn spelling_is_taken_from_the_listing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("Cargo"), "x").unwrap();
        let stat = rustix::fs::statat(CWD, dir.path().join("Cargo"), AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let stat = Stat::of(&stat);
        assert_eq!(listed_spelling(root, "cARGO", &stat).unwrap(), "Cargo");
        assert_eq!(listed_spelling(root, "Cargo", &stat).unwrap(), "Cargo");
        assert_eq!(listed_spelling(root, "other", &stat).unwrap(), "other");
        // Two names of one inode that differ in case are two names on a volume that does not fold.
        std::fs::hard_link(dir.path().join("Cargo"), dir.path().join("cARGO")).unwrap();
        assert_eq!(on_disk(root, "cARGO", &stat).unwrap(), "cARGO");
    }

    #[test]
    fn another_spelling_is_tried_where_a_name_has_one() {
        for (name, other) in [
            ("Cargo", "cARGO"),
            ("é", "É"),
            ("É", "é"),
            ("ß", "SS"),
            ("aé", "Aé"),
            ("日本", "日本"),
            ("1.2", "1.2"),
        ] {
            assert_eq!(swap_case(name), other, "{name}");
        }
    }

    #[test]
    fn a_link_to_nothing_leads_to_where_a_write_would_land() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        symlink("gone/deep/x", dir.path().join("dangling")).unwrap();
        symlink(".", dir.path().join("self")).unwrap();
        let roots = Roots { logical: "/ws".to_owned(), canonical: root.clone(), links: Vec::new() };
        let resolved = roots.resolve(&format!("{root}/self/self/dangling"), true).unwrap();
        assert_eq!(resolved.canonical, format!("{root}/gone/deep/x"));
        assert_eq!(resolved.resource, "/ws/gone/deep/x");
        assert!(resolved.dangling);
        let entry = roots.resolve(&format!("{root}/self/dangling"), false).unwrap();
        assert_eq!((entry.resource.as_str(), entry.dangling), ("/ws/dangling", false));
        let missing = roots.resolve(&format!("{root}/new/x"), true).unwrap();
        assert!(!missing.dangling);
    }
}
