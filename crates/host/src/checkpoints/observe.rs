//! Observations: whether a tree moved, and where (host contract 8).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::store::hex;
use super::walk::walk;
use super::{CheckpointError, Inner, Stop, lock};
use crate::kernel::fs::Kind;

/// A look at a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// A digest over paths, kinds, modes, sizes, inodes and times of change.
    pub digest: String,
    /// The paths below the workspace that differ from the last look, sorted; none at the first.
    pub paths: Vec<String>,
    /// Whether `paths` is all of it, and the whole tree was looked at.
    pub complete: bool,
}

/// Kind, mode, size, inode and time of change.
type Facts = (Kind, u32, u64, u64, i64);

/// What a look found.
#[derive(Debug)]
pub(super) struct Seen {
    entries: BTreeMap<String, Facts>,
    complete: bool,
}

pub(super) fn observe(inner: &Inner, stop: &Stop) -> Result<Observation, CheckpointError> {
    let mut seen = Seen { entries: BTreeMap::new(), complete: true };
    let walked = walk(&inner.files, &inner.scope, stop, &mut |found| {
        stop.check()?;
        if seen.entries.len() >= inner.options.max_entries {
            return Err(CheckpointError::TooManyEntries(inner.options.max_entries));
        }
        if let Some(stat) = inner.scope.stat(found.path)? {
            // A directory's size tells of the file system, not of the tree.
            let size = if found.kind == Kind::Dir { 0 } else { stat.size };
            seen.entries
                .insert(found.path.to_owned(), (found.kind, stat.mode, size, stat.ino, stat.mtime_ns));
        }
        Ok(())
    });
    match walked {
        Ok(()) => {}
        Err(CheckpointError::TooManyEntries(_)) => seen.complete = false,
        Err(error) => return Err(error),
    }
    let mut hash = Sha256::new();
    for (path, (kind, mode, size, ino, mtime)) in &seen.entries {
        hash.update(format!("{kind:?} {mode:o} {size} {ino} {mtime} {path}\0"));
    }
    let digest = hex(&hash.finalize());
    let mut last = lock(&inner.seen);
    let (mut paths, mut complete) = (Vec::new(), seen.complete);
    if let Some(last) = &*last {
        complete &= last.complete;
        let differs = |path: &&String| last.entries.get(*path) != seen.entries.get(*path);
        let gone = last.entries.keys().filter(|path| !seen.entries.contains_key(*path));
        paths = seen.entries.keys().filter(differs).chain(gone).cloned().collect();
        paths.sort_unstable();
        if paths.len() > inner.options.max_paths {
            paths.truncate(inner.options.max_paths);
            complete = false;
        }
    }
    *last = Some(seen);
    Ok(Observation { digest, paths, complete })
}
