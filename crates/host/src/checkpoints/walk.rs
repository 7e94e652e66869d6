//! The tree that a checkpoint is of: regular files, links and directories that policy allows to read and that no
//! `.gitignore` leaves out (host contract 8).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD};

use super::rules::{MAX_BYTES, Rules};
use super::{CheckpointError, Stop};
use crate::kernel::fs::{Dir, DirEntry, FileSystem, FsError, Kind, WalkRoot};
use crate::now::now;

/// Names that are left out wherever they stand: git's own state, and the worktrees of the `test` flow.
const LEFT_OUT: [&str; 2] = [".git", ".flows-test-base"];
/// Directories that stay open while what is in them waits; further ones are opened again, by their path.
const OPEN: usize = 128;

/// What of a workspace is looked at.
#[derive(Debug)]
pub(super) struct Scope {
    root: PathBuf,
    /// Paths below the workspace that are left out.
    left_out: Vec<String>,
}

impl Scope {
    pub(super) fn new<'a>(files: &FileSystem, left_out: impl Iterator<Item = &'a PathBuf>) -> Self {
        let root = files.workspace().canonical().to_owned();
        let logical = PathBuf::from(files.workspace().logical());
        let mut below = Vec::new();
        for path in left_out {
            let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            let inside = [(&real, &root), (path, &root), (path, &logical)];
            let inside = inside.into_iter().find_map(|(path, root)| path.strip_prefix(root).ok());
            below.extend(inside.and_then(Path::to_str).map(str::to_owned));
        }
        Scope { root, left_out: below }
    }

    fn leaves_out(&self, path: &str, name: &str) -> bool {
        LEFT_OUT.contains(&name) || self.left_out.iter().any(|left| left == path)
    }

    /// What the host says of an entry, a link not followed; nothing for one that is gone.
    pub(super) fn stat(&self, path: &str) -> Result<Option<Identity>, CheckpointError> {
        match rustix::fs::statat(CWD, self.root.join(path), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Identity::of(&stat))),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
            Err(rustix::io::Errno::ACCESS) => Ok(None),
            Err(errno) => Err(CheckpointError::Workspace {
                path: path.to_owned(),
                error: Box::new(FsError::Io {
                    errno: errno.raw_os_error(),
                    message: errno.to_string(),
                    operation: "stat",
                }),
            }),
        }
    }
}

/// Which file it is and which version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Identity {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
    pub(super) mode: u32,
}

impl Identity {
    // The widths of these fields differ between hosts; each of them fits where it goes.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_lossless, clippy::useless_conversion)]
    fn of(stat: &rustix::fs::Stat) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Identity {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            mode: (stat.st_mode as u32) & 0o7777,
        }
    }
}

/// An entry that was met.
pub(super) struct Found<'w> {
    /// The path below the workspace.
    pub(super) path: &'w str,
    pub(super) name: &'w OsStr,
    pub(super) kind: Kind,
    /// The directory that it is in.
    pub(super) dir: &'w Dir,
}

/// A directory that is open, and counted.
struct Open {
    dir: Dir,
    count: Arc<()>,
}

/// A directory that is still to be listed.
struct Pending {
    path: String,
    /// Its directory and its name there, when that is open.
    parent: Option<(Arc<Open>, OsString)>,
    rules: Option<Arc<Rules>>,
}

/// Meets every entry, in one order for one tree. What vanishes meanwhile, and what the host does not let be listed, is passed
/// over.
pub(super) fn walk(
    files: &FileSystem,
    scope: &Scope,
    stop: &Stop,
    each: &mut dyn FnMut(&Found<'_>) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    if !files.permitted(".") {
        return Err(CheckpointError::NotPermitted);
    }
    let failed = |error| CheckpointError::Workspace { path: String::new(), error: Box::new(error) };
    let root = match now(files.walk_root(".")).map_err(failed)? {
        WalkRoot::Dir(dir) => dir,
        WalkRoot::File(_) | WalkRoot::Other => return Err(failed(FsError::NotADirectory)),
    };
    let mut pending = Vec::new();
    let count = Arc::new(());
    let listed = root.entries().map_err(failed)?;
    let root = Arc::new(Open { dir: root, count: Arc::clone(&count) });
    let top = Pending { path: String::new(), parent: None, rules: None };
    enter(&root, &top, listed, scope, &mut pending, each)?;
    drop(root);
    while let Some(next) = pending.pop() {
        stop.check()?;
        let opened = match &next.parent {
            Some((parent, name)) => parent.dir.open_dir(name),
            None => now(files.open_dir(&next.path)),
        };
        let Ok(dir) = opened else { continue };
        let Ok(listed) = dir.entries() else { continue };
        let open = Arc::new(Open { dir, count: Arc::clone(&count) });
        enter(&open, &next, listed, scope, &mut pending, each)?;
    }
    Ok(())
}

/// Meets the entries of one directory, and puts its directories aside.
fn enter(
    open: &Arc<Open>,
    at: &Pending,
    mut listed: Vec<DirEntry>,
    scope: &Scope,
    pending: &mut Vec<Pending>,
    each: &mut dyn FnMut(&Found<'_>) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let dir = &open.dir;
    let rules = rules(dir, at, &listed);
    let stays = Arc::strong_count(&open.count) <= OPEN;
    listed.sort_unstable();
    let first = pending.len();
    for entry in listed {
        // The kernel names nothing that is not UTF-8.
        let Some(name) = entry.name.to_str() else { continue };
        let is_dir = match entry.kind {
            Kind::Dir => true,
            Kind::File | Kind::Symlink => false,
            Kind::Other => continue,
        };
        let path = if at.path.is_empty() { name.to_owned() } else { format!("{}/{name}", at.path) };
        let ignored = rules.as_ref().is_some_and(|rules| rules.ignores(&path, is_dir));
        if ignored || scope.leaves_out(&path, name) || !dir.permitted(&entry.name) {
            continue;
        }
        each(&Found { path: &path, name: &entry.name, kind: entry.kind, dir })?;
        if is_dir {
            let parent = stays.then(|| (Arc::clone(open), entry.name));
            pending.push(Pending { path, parent, rules: rules.clone() });
        }
    }
    // The last one put aside is the next one listed.
    pending[first..].reverse();
    Ok(())
}

/// The rules that hold in a directory: those above, and those of its `.gitignore`, a regular file that may be read.
fn rules(dir: &Dir, at: &Pending, listed: &[DirEntry]) -> Option<Arc<Rules>> {
    let name = OsStr::new(".gitignore");
    let there = listed.iter().any(|entry| entry.kind == Kind::File && entry.name == name);
    if !there || !dir.permitted(name) {
        return at.rules.clone();
    }
    match dir.open_file(name).and_then(|file| file.read_to(MAX_BYTES)) {
        Ok(bytes) if bytes.len() as u64 <= MAX_BYTES => Rules::with(at.rules.clone(), &at.path, &bytes),
        _ => at.rules.clone(),
    }
}
