//! Trees of a workspace as values: what a case of the kit is planted from and shrunk on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A regular file of these bytes.
    File(Vec<u8>),
    /// A directory. Directories above other entries need no entry of their own.
    Dir,
    /// A symbolic link with this text.
    Link(Vec<u8>),
    /// A FIFO that nobody writes to.
    Fifo,
    /// A socket that nobody listens on.
    Socket,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    entries: BTreeMap<Vec<u8>, Entry>,
    denied: BTreeSet<Vec<u8>>,
    unreadable: BTreeSet<Vec<u8>>,
    /// Whether ignore files that no search reads lie in the directory above the workspace.
    pub noise_above: bool,
}

impl Tree {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an entry at `path`, relative to the workspace and `/`-separated. Whether it could be put there: not when
    /// something that is no directory lies above it, or something lies below it.
    pub fn put(&mut self, path: impl Into<Vec<u8>>, entry: Entry) -> bool {
        let path = path.into();
        let is_name = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..") && segment.len() < 200;
        if !path.split(|byte| *byte == b'/').all(is_name) || path.contains(&0) {
            return false;
        }
        if above(&path).any(|parent| !matches!(self.entries.get(parent), None | Some(Entry::Dir))) {
            return false;
        }
        if entry != Entry::Dir && self.has_below(&path) {
            return false;
        }
        self.entries.insert(path, entry);
        true
    }

    /// Puts a regular file.
    pub fn file(&mut self, path: impl Into<Vec<u8>>, content: impl Into<Vec<u8>>) -> bool {
        self.put(path, Entry::File(content.into()))
    }

    /// Denies reading of the entry at `path` by policy. Whether it was: only a path of ASCII letters, digits, `.`, `-`, `_`
    /// and `/` is a resource as it stands.
    pub fn deny(&mut self, path: impl Into<Vec<u8>>) -> bool {
        let path = path.into();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/');
        path.iter().all(plain) && self.denied.insert(path)
    }

    /// Takes every mode bit from the entry at `path`. It keeps nobody out where the process overrides mode bits.
    pub fn lock(&mut self, path: impl Into<Vec<u8>>) {
        self.unreadable.insert(path.into());
    }

    /// Takes the entry at `path` away, with all below it.
    pub fn remove(&mut self, path: &[u8]) {
        let gone = |candidate: &Vec<u8>| {
            candidate == path || candidate.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.entries.retain(|candidate, _| !gone(candidate));
        self.denied.retain(|candidate| !gone(candidate));
        self.unreadable.retain(|candidate| !gone(candidate));
    }

    /// The entries by path.
    pub fn entries(&self) -> &BTreeMap<Vec<u8>, Entry> {
        &self.entries
    }

    /// The paths that policy denies.
    pub fn denied(&self) -> &BTreeSet<Vec<u8>> {
        &self.denied
    }

    /// The paths without mode bits.
    pub fn locked(&self) -> &BTreeSet<Vec<u8>> {
        &self.unreadable
    }

    /// The same tree in which no path is denied or locked and nothing lies above it.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { entries: self.entries.clone(), ..Self::default() }
    }

    /// Without one path's denial or lock; for shrinking.
    pub(crate) fn free(&mut self, path: &[u8]) {
        self.denied.remove(path);
        self.unreadable.remove(path);
    }

    /// What stands at `path`; directories above other entries are there too. The empty path is the workspace.
    pub fn at(&self, path: &[u8]) -> Option<Entry> {
        match self.entries.get(path) {
            Some(entry) => Some(entry.clone()),
            None if path.is_empty() || self.has_below(path) => Some(Entry::Dir),
            None => None,
        }
    }

    fn has_below(&self, path: &[u8]) -> bool {
        let start = [path, b"/"].concat();
        self.entries.range(start.clone()..).next().is_some_and(|(next, _)| next.starts_with(&start))
    }

    /// All directories, those above other entries included; the workspace is the empty path.
    pub fn directories(&self) -> BTreeSet<Vec<u8>> {
        let mut all = BTreeSet::from([Vec::new()]);
        for (path, entry) in &self.entries {
            all.extend(above(path).map(<[u8]>::to_vec));
            if *entry == Entry::Dir {
                all.insert(path.clone());
            }
        }
        all
    }

    /// The names in a directory, with what they stand for.
    pub fn list(&self, directory: &[u8]) -> BTreeMap<Vec<u8>, Entry> {
        let start = if directory.is_empty() { Vec::new() } else { [directory, b"/"].concat() };
        let mut names = BTreeMap::new();
        for (path, entry) in self.entries.range(start.clone()..) {
            let Some(rest) = path.strip_prefix(start.as_slice()) else { break };
            match rest.iter().position(|byte| *byte == b'/') {
                Some(slash) => {
                    names.entry(rest[..slash].to_vec()).or_insert(Entry::Dir);
                }
                None => {
                    names.insert(rest.to_vec(), entry.clone());
                }
            }
        }
        names
    }

    /// Writes the tree into the empty directory `workspace`, and what lies above it into its parent.
    ///
    /// # Errors
    ///
    /// What the host answers.
    pub fn plant(&self, workspace: &Path) -> io::Result<()> {
        for (path, entry) in &self.entries {
            let at = workspace.join(OsStr::from_bytes(path));
            if let Some(parent) = at.parent() {
                fs::create_dir_all(parent)?;
            }
            match entry {
                Entry::File(content) => fs::write(&at, content)?,
                Entry::Dir => fs::create_dir_all(&at)?,
                Entry::Link(text) => symlink(OsStr::from_bytes(text), &at)?,
                Entry::Fifo => mknodat(CWD, &at, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?,
                Entry::Socket => mknodat(CWD, &at, FileType::Socket, Mode::from_raw_mode(0o644), 0)?,
            }
        }
        if let Some(parent) = workspace.parent().filter(|_| self.noise_above) {
            for name in [".gitignore", ".ignore", ".rgignore", ".hgignore"] {
                fs::write(parent.join(name), "*\n!b\n/ws/a\n")?;
            }
        }
        // The deepest first: a locked directory hides what is below it.
        for path in self.unreadable.iter().rev() {
            let at = workspace.join(OsStr::from_bytes(path));
            if fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()) {
                fs::set_permissions(&at, Permissions::from_mode(0o000))?;
            }
        }
        Ok(())
    }

    /// Gives the mode bits back, so that the tree can be taken away.
    pub(crate) fn unlock(&self, workspace: &Path) {
        for path in &self.unreadable {
            let at = workspace.join(OsStr::from_bytes(path));
            if fs::symlink_metadata(&at).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()) {
                // What stays locked makes the removal fail, which is reported.
                let _ = fs::set_permissions(&at, Permissions::from_mode(0o755));
            }
        }
    }
}

/// The directories above a path, outermost first, without the workspace itself.
pub(crate) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in &self.entries {
            write!(f, "  {}", path.escape_ascii())?;
            match entry {
                Entry::File(content) if content.len() > 400 => {
                    write!(
                        f,
                        " = \"{}\" and {} bytes more",
                        content[..400].escape_ascii(),
                        content.len() - 400
                    )?;
                }
                Entry::File(content) => write!(f, " = \"{}\"", content.escape_ascii())?,
                Entry::Dir => write!(f, "/")?,
                Entry::Link(text) => write!(f, " -> {}", text.escape_ascii())?,
                Entry::Fifo => write!(f, " (FIFO)")?,
                Entry::Socket => write!(f, " (socket)")?,
            }
            if self.unreadable.contains(path) {
                write!(f, " (no mode bits)")?;
            }
            writeln!(f)?;
        }
        for path in &self.denied {
            writeln!(f, "  denied: {}", path.escape_ascii())?;
        }
        if self.noise_above {
            writeln!(f, "  ignore files above the workspace")?;
        }
        Ok(())
    }
}
