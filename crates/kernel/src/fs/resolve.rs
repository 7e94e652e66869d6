//! From a path as given to the resource that names it (kernel contract 6.1, c and d).
//!
//! Resolution only reads links; it opens nothing. What is done afterwards walks the resolved path by descriptors and meets
//! no link, or fails.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use rustix::io::Errno;

use super::Kind;
use super::path::{below, child, lexical, parent};
use super::volume::{Mounted, Volume, on_disk};
use crate::flows::capability::{MAX_RESOURCE_UNITS, units};

/// Links on the way to a file at most.
pub const MAX_LINK_HOPS: usize = 40;

/// The two names of a workspace root.
#[derive(Clone, Debug)]
pub(crate) struct Roots {
    pub(crate) logical: String,
    pub(crate) canonical: String,
    /// What may not be moved either: the links, each by its own canonical path, through which the logical name leads to
    /// the root, and the workspace that the canonical root is a copy of.
    held: Vec<String>,
    /// The workspace that the canonical root is a copy of.
    copied: Option<Copied>,
    volume: Arc<dyn Volume>,
}

/// A workspace that another directory stands for. Whatever leads to it, by its logical name or by its own, by a path as
/// given or by the text of a link, leads to the copy.
#[derive(Clone, Debug)]
struct Copied {
    names: [String; 2],
    copy: String,
}

impl Copied {
    /// The workspace's own directory.
    fn live(&self) -> &str {
        &self.names[1]
    }

    fn is_named(&self, path: &str) -> bool {
        self.names.iter().any(|name| name == path)
    }

    /// The directory above the copy is that above the workspace.
    fn parent_of<'a>(&'a self, at: &'a str) -> &'a str {
        parent(if at == self.copy { self.live() } else { at })
    }
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
    /// Another spelling of a name that the directory does not tell.
    Spelling,
    Host(Errno),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::NotUtf8 => f.write_str("it leads to a path that is not UTF-8"),
            ResolveError::TooManyLinks => write!(f, "more than {MAX_LINK_HOPS} links"),
            ResolveError::TooLong => f.write_str("it leads to a path that is too long"),
            ResolveError::RootReplaced => f.write_str(super::reason::ROOT_REPLACED),
            ResolveError::Spelling => f.write_str("it is another spelling of one of several names"),
            ResolveError::Host(errno) => write!(f, "{errno}"),
        }
    }
}

impl Roots {
    /// The roots of a logical root; one that does not resolve is its own canonical root.
    pub(crate) fn of_root(logical: &str) -> Self {
        let (canonical, held) = match walk(&Mounted, "/", logical, true, None) {
            Ok(walked) => (walked.path, walked.links),
            Err(_) => (logical.to_owned(), Vec::new()),
        };
        Roots { logical: logical.to_owned(), canonical, held, copied: None, volume: Arc::new(Mounted) }
    }

    /// The roots of a workspace that was resolved before. With `live`, the canonical root is a copy of that directory and
    /// stands for it.
    pub(crate) fn new(logical: &str, canonical: &str, live: Option<&str>) -> Self {
        let copied = live
            .map(|live| Copied { names: [logical.to_owned(), live.to_owned()], copy: canonical.to_owned() });
        // For a copy too: what leads to the workspace stays where it is.
        let walked = walk(&Mounted, "/", logical, true, None);
        let mut held = walked.map_or_else(|_| Vec::new(), |walked| walked.links);
        held.extend(live.map(str::to_owned));
        let volume = Arc::new(Mounted);
        Roots { logical: logical.to_owned(), canonical: canonical.to_owned(), held, copied, volume }
    }

    /// The same roots on a volume of a test's own.
    #[cfg(test)]
    pub(super) fn on(mut self, volume: Arc<dyn Volume>) -> Self {
        self.volume = volume;
        self
    }

    /// The directory that stands for this one: the copy for the workspace that it is a copy of.
    pub(crate) fn stand_in(&self, canonical: &str) -> Option<&str> {
        let copied = self.copied.as_ref()?;
        (copied.live() == canonical).then_some(copied.copy.as_str())
    }

    /// Whether the canonical path is the root, something that the root lies in, or a link that the root's logical name
    /// goes through; for a copy also the workspace, and what that lies in.
    pub(crate) fn held_by(&self, canonical: &str) -> bool {
        std::iter::once(&self.canonical).chain(&self.held).any(|held| below(canonical, held).is_some())
    }

    /// Resolves a collapsed absolute path. Without `follow` the last component is taken as it is.
    pub(crate) fn resolve(&self, path: &str, follow: bool) -> Result<Resolved, ResolveError> {
        self.resolve_from("/", path, follow)
    }

    /// Resolves what a link of this text in `dir` would name; `dir` is canonical.
    pub(crate) fn resolve_from(&self, dir: &str, path: &str, follow: bool) -> Result<Resolved, ResolveError> {
        let Walked { path: canonical, dangling, .. } =
            walk(&*self.volume, dir, path, follow, self.copied.as_ref())?;
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
    /// bear a name under it: a path that does was put where the logical root's links were. Nor has what lies in a workspace
    /// that a copy stands for any name.
    pub(crate) fn resource(&self, canonical: &str) -> Result<String, ResolveError> {
        if let Some(rest) = below(&self.canonical, canonical) {
            return Ok(child(&self.logical, rest));
        }
        let live = self.copied.as_ref().map(Copied::live);
        if live == Some(canonical) {
            return Ok(self.logical.clone());
        }
        let names = std::iter::once(self.logical.as_str()).chain(live);
        if names.filter_map(|name| below(name, canonical)).any(|rest| !rest.is_empty()) {
            return Err(ResolveError::RootReplaced);
        }
        Ok(canonical.to_owned())
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
fn walk(
    volume: &dyn Volume,
    dir: &str,
    path: &str,
    follow: bool,
    copied: Option<&Copied>,
) -> Result<Walked, ResolveError> {
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
                at = copied.map_or_else(|| parent(&at), |copied| copied.parent_of(&at)).to_owned();
                continue;
            }
            ("." | "..", _) => return Err(ResolveError::Host(Errno::NOENT)),
            _ => {}
        }
        let here = child(&at, &part);
        if here.len() > 4 * MAX_RESOURCE_UNITS {
            return Err(ResolveError::TooLong);
        }
        if let Some(copied) = copied.filter(|copied| copied.is_named(&here)) {
            at.clone_from(&copied.copy);
            end = End::Dir;
            continue;
        }
        #[cfg(test)]
        super::points::reach("resolving");
        let stat = match volume.stat(&here) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                dangling |= from_link;
                at = here;
                end = End::Missing;
                continue;
            }
            Err(errno) => return Err(ResolveError::Host(errno)),
        };
        if stat.kind != Kind::Symlink || (todo.is_empty() && !follow) {
            at = child(&at, &on_disk(volume, &at, &part, &stat)?);
            end = if stat.kind == Kind::Dir { End::Dir } else { End::File };
            // Another spelling of a name of the workspace.
            if let Some(copied) = copied.filter(|copied| copied.is_named(&at)) {
                at.clone_from(&copied.copy);
            }
            continue;
        }
        if links.len() == MAX_LINK_HOPS {
            return Err(ResolveError::TooManyLinks);
        }
        let target = volume.read_link(&here).map_err(ResolveError::Host)?;
        let target = String::from_utf8(target).map_err(|_| ResolveError::NotUtf8)?;
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

/// The canonical path of a workspace root, which has to be a directory.
pub(crate) fn resolve_workspace(logical: &str) -> Result<String, super::FsError> {
    use super::FsError;
    let resolved = walk(&Mounted, "/", logical, true, None);
    let canonical = resolved.map(|walked| walked.path).map_err(|error| match error {
        ResolveError::Host(errno) => FsError::host(errno, "resolve the workspace root"),
        ResolveError::TooManyLinks => FsError::TooManyLinks,
        ResolveError::NotUtf8
        | ResolveError::TooLong
        | ResolveError::RootReplaced
        | ResolveError::Spelling => FsError::InvalidPath(error.to_string()),
    })?;
    let stat = Mounted.stat(&canonical).map_err(|errno| FsError::host(errno, "stat the workspace root"))?;
    if stat.kind != Kind::Dir {
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
    fn a_link_to_nothing_leads_to_where_a_write_would_land() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        symlink("gone/deep/x", dir.path().join("dangling")).unwrap();
        symlink(".", dir.path().join("self")).unwrap();
        let roots = Roots::new("/ws", &root, None);
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
