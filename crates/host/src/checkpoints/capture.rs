//! Captures (host contract 8).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::manifest::{Entry, Node};
use super::store::hex;
use super::walk::{Found, Identity, walk};
use super::{CheckpointError, Inner, Snapshot, Stop, lock};
use crate::kernel::fs::{FsError, Kind};
use crate::now::now;

/// Bytes of one read.
const CHUNK: u64 = 1 << 20;
/// How often a file that changes is read.
const TRIES: usize = 3;
/// A file that changed less than this before a capture may change once more without its times telling: hosts stamp files by
/// a clock that ticks.
const TICK_NS: i64 = 50_000_000;

/// What a capture found: which version of each file has which content.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Known {
    files: HashMap<String, (Identity, String)>,
}

pub(super) fn capture(inner: &Inner, run: &str, stop: &Stop) -> Result<Snapshot, CheckpointError> {
    let _shared = inner.store.share()?;
    let known = known(inner);
    if known.files.is_empty() {
        // A tree that is over the bound is told before anything of it is read: it would be read at every run.
        count(inner, stop)?;
    }
    let mut capture = Capture {
        inner,
        stop,
        known: &known,
        // What changes from here on has a later time than this, give or take a tick.
        begun: inner.store.temporary()?.stamp()?,
        next: Known::default(),
        entries: Vec::new(),
        new_bytes: 0,
    };
    let walked = walk(&inner.files, &inner.scope, stop, &mut |found| capture.add(found));
    let Capture { mut entries, mut next, .. } = capture;
    if let Err(error) = walked {
        // What was read need not be read again by the next capture. It costs time when that cannot be kept.
        for (path, known) in &known.files {
            next.files.entry(path.clone()).or_insert_with(|| known.clone());
        }
        if next != *known {
            let _ = keep(inner, next);
        }
        return Err(error);
    }
    entries.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    let reference = inner.store.keep_manifest(&entries, run)?;
    if next != *known {
        keep(inner, next)?;
    }
    Ok(Snapshot { reference })
}

/// Whether the tree has more entries than a checkpoint takes.
fn count(inner: &Inner, stop: &Stop) -> Result<(), CheckpointError> {
    let (mut entries, max) = (0, inner.options.max_entries);
    walk(&inner.files, &inner.scope, stop, &mut |_| {
        stop.check()?;
        entries += 1;
        if entries > max { Err(CheckpointError::TooManyEntries(max)) } else { Ok(()) }
    })
}

/// What the last capture found, of this process or, at first, of the one before.
fn known(inner: &Inner) -> Arc<Known> {
    let mut held = lock(&inner.known);
    let load = || {
        // A file that cannot be used costs time, nothing else.
        let bytes = fs::read(inner.store.last()).unwrap_or_default();
        Arc::new(serde_json::from_slice(&bytes).unwrap_or_default())
    };
    Arc::clone(held.get_or_insert_with(load))
}

fn keep(inner: &Inner, next: Known) -> Result<(), CheckpointError> {
    let bytes = serde_json::to_vec(&next).map_err(|error| CheckpointError::Store(error.to_string()))?;
    let mut file = inner.store.temporary()?;
    file.write(&bytes)?;
    file.put(&inner.store.last())?;
    *lock(&inner.known) = Some(Arc::new(next));
    Ok(())
}

struct Capture<'c> {
    inner: &'c Inner,
    stop: &'c Stop,
    known: &'c Known,
    begun: i64,
    next: Known,
    entries: Vec<Entry>,
    /// Bytes of contents that the store did not have.
    new_bytes: u64,
}

/// One reading of a file.
enum Read {
    Content { digest: String, identity: Identity },
    Changed,
    Gone,
}

impl Capture<'_> {
    fn add(&mut self, found: &Found<'_>) -> Result<(), CheckpointError> {
        self.stop.check()?;
        if self.entries.len() >= self.inner.options.max_entries {
            return Err(CheckpointError::TooManyEntries(self.inner.options.max_entries));
        }
        let Some(identity) = self.inner.scope.stat(found.path)? else { return Ok(()) };
        let node = match found.kind {
            Kind::Dir => Node::Dir { mode: identity.mode },
            Kind::Symlink => match now(self.inner.files.read_link(found.path)) {
                Ok(target) => Node::link(target),
                Err(error) => return passed_over(found, error),
            },
            Kind::File => match self.file(found, identity)? {
                Some(node) => node,
                None => return Ok(()),
            },
            Kind::Other => return Ok(()),
        };
        self.entries.push(Entry { path: found.path.to_owned(), node });
        Ok(())
    }

    fn file(&mut self, found: &Found<'_>, identity: Identity) -> Result<Option<Node>, CheckpointError> {
        let unread = match self.known.files.get(found.path) {
            Some((known, digest)) if *known == identity && self.inner.store.has_blob(digest) => {
                Some(digest.clone())
            }
            _ => None,
        };
        let (digest, identity) = match unread {
            Some(digest) => (digest, identity),
            None => match self.read(found)? {
                Some(read) => read,
                None => return Ok(None),
            },
        };
        if identity.ctime_ns.max(identity.mtime_ns) < self.begun.saturating_sub(TICK_NS) {
            self.next.files.insert(found.path.to_owned(), (identity, digest.clone()));
        }
        Ok(Some(Node::File { mode: identity.mode, size: identity.size, digest }))
    }

    fn read(&mut self, found: &Found<'_>) -> Result<Option<(String, Identity)>, CheckpointError> {
        for _ in 0..TRIES {
            match self.read_once(found.path, found.name, found)? {
                Read::Content { digest, identity } => return Ok(Some((digest, identity))),
                Read::Gone => return Ok(None),
                Read::Changed => {}
            }
        }
        Err(CheckpointError::Changing(found.path.to_owned()))
    }

    /// Reads a file and keeps its content, when it is the same file of the same version before and after.
    fn read_once(&mut self, path: &str, name: &OsStr, found: &Found<'_>) -> Result<Read, CheckpointError> {
        let Some(before) = self.inner.scope.stat(path)? else { return Ok(Read::Gone) };
        let file = match found.dir.open_file(name) {
            Ok(file) => file,
            Err(error) => return passed_over(found, error).map(|()| Read::Gone),
        };
        let opened = file.opened();
        let max = self.inner.options.max_new_bytes;
        if opened.size > max {
            return Err(CheckpointError::TooManyBytes(max));
        }
        let mut content = Some(self.inner.store.temporary()?);
        let mut hash = Sha256::new();
        let mut size = 0u64;
        loop {
            self.stop.check()?;
            let chunk = match file.read_at(size, CHUNK) {
                Ok(chunk) => chunk,
                // Replaced by name while it was read.
                Err(FsError::Permission(_)) => return Ok(Read::Changed),
                Err(error) => {
                    return Err(CheckpointError::Workspace { path: path.to_owned(), error: Box::new(error) });
                }
            };
            size += chunk.len() as u64;
            hash.update(&chunk);
            if size > max {
                return Err(CheckpointError::TooManyBytes(max));
            }
            if self.new_bytes.saturating_add(size) > max {
                // Only a content that is there already has room.
                content = None;
            }
            if let Some(content) = &mut content {
                content.write(&chunk)?;
            }
            if (chunk.len() as u64) < CHUNK {
                break;
            }
        }
        let same = self.inner.scope.stat(path)? == Some(before)
            && (opened.dev, opened.ino, opened.size, opened.mtime_ns)
                == (before.dev, before.ino, before.size, before.mtime_ns)
            && size == before.size;
        if !same {
            return Ok(Read::Changed);
        }
        let digest = hex(&hash.finalize());
        if !self.inner.store.has_blob(&digest) {
            let Some(content) = content else { return Err(CheckpointError::TooManyBytes(max)) };
            self.new_bytes += size;
            self.inner.store.keep_blob(content, &digest)?;
        }
        Ok(Read::Content { digest, identity: before })
    }
}

/// What vanished, became something else or may not be opened is no part of the tree.
fn passed_over(found: &Found<'_>, error: FsError) -> Result<(), CheckpointError> {
    match error {
        FsError::NotFound
        | FsError::NotADirectory
        | FsError::IsADirectory
        | FsError::NotRegular
        | FsError::AccessDenied { .. }
        | FsError::Permission(_)
        | FsError::InvalidPath(_) => Ok(()),
        error => Err(CheckpointError::Workspace { path: found.path.to_owned(), error: Box::new(error) }),
    }
}
