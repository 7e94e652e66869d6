//! The folder of checkpoints: contents by their SHA-256, manifests by theirs, and which run has which manifest.
//!
//! ```text
//! blobs/ab/<digest>    a content
//! manifests/<digest>   a manifest
//! runs/<digest of the run's id>/<digest>   an empty file: the run has this manifest
//! views/<digest>/      a copy that readers share
//! scratch/, tmp/       what is being made or used
//! last                 what the last capture found, to read nothing twice
//! lock                 held shared by whoever adds, alone by whoever removes
//! used                 held shared by whoever has a copy of their own
//! ```
//!
//! Everything is written under a temporary name and renamed, a content before the manifest that names it and a manifest
//! before the run that has it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use super::CheckpointError;
use super::manifest::{self, Entry, Node};

/// Distinguishes temporary names of one process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

/// Held while something is added or removed.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// A file under a temporary name. It is removed when it goes, unless it was put in place.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl Temporary {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.file.write_all(bytes).map_err(|error| failed(&self.path, &error))
    }

    /// Renames it; what stood there is replaced.
    pub(super) fn put(mut self, to: &Path) -> Result<(), CheckpointError> {
        fs::rename(&self.path, to).map_err(|error| failed(to, &error))?;
        self.kept = true;
        Ok(())
    }

    /// The time of its last change, by the clock that files are stamped with.
    pub(super) fn stamp(&self) -> Result<i64, CheckpointError> {
        let meta = self.file.metadata().map_err(|error| failed(&self.path, &error))?;
        Ok(meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Store {
    pub(super) fn open(dir: &Path) -> Result<Self, CheckpointError> {
        for part in ["blobs", "manifests", "runs", "views", "scratch", "tmp"] {
            make_dir(&dir.join(part))?;
        }
        let dir = fs::canonicalize(dir).map_err(|error| failed(dir, &error))?;
        let store = Store { dir };
        // What a killed process left, when nobody else is at work.
        let alone = |name| store.lock(name, FlockOperation::NonBlockingLockExclusive);
        if let (Ok(_adding), Ok(_using)) = (alone("lock"), alone("used")) {
            for part in ["tmp", "scratch"] {
                for entry in list(&store.dir.join(part))? {
                    let _ = remove_all(&store.dir.join(part).join(entry));
                }
            }
        }
        Ok(store)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn lock(&self, name: &str, how: FlockOperation) -> Result<Lock, CheckpointError> {
        let path = self.dir.join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| failed(&path, &error))?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, how))
            .map_err(|errno| failed(&path, &errno.into()))?;
        Ok(Lock { _file: file })
    }

    /// Held while something is added, or used that must not be removed.
    pub(super) fn share(&self) -> Result<Lock, CheckpointError> {
        self.lock("lock", FlockOperation::LockShared)
    }

    pub(super) fn temporary(&self) -> Result<Temporary, CheckpointError> {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let (path, file) = self.unique("tmp", |path| options.open(path))?;
        Ok(Temporary { path, file, kept: false })
    }

    /// Makes something under a name of this process that nothing has yet: a killed one may have had its number.
    fn unique<T>(
        &self,
        part: &str,
        make: impl Fn(&Path) -> std::io::Result<T>,
    ) -> Result<(PathBuf, T), CheckpointError> {
        loop {
            let name = format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = self.dir.join(part).join(name);
            match make(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path, &error)),
                Ok(made) => return Ok((path, made)),
            }
        }
    }

    pub(super) fn blob(&self, digest: &str) -> PathBuf {
        let (folder, _) = digest.split_at(2.min(digest.len()));
        self.dir.join("blobs").join(folder).join(digest)
    }

    pub(super) fn has_blob(&self, digest: &str) -> bool {
        self.blob(digest).is_file()
    }

    /// Puts a content in place.
    pub(super) fn keep_blob(&self, content: Temporary, digest: &str) -> Result<(), CheckpointError> {
        let path = self.blob(digest);
        if let Some(folder) = path.parent() {
            make_dir(folder)?;
        }
        content.put(&path)
    }

    fn manifest(&self, reference: &str) -> PathBuf {
        self.dir.join("manifests").join(reference)
    }

    pub(super) fn has_manifest(&self, reference: &str) -> bool {
        is_digest(reference) && self.manifest(reference).is_file()
    }

    /// Keeps a manifest for a run; its reference.
    pub(super) fn keep_manifest(&self, entries: &[Entry], run: &str) -> Result<String, CheckpointError> {
        let bytes = manifest::encode(entries)?;
        let reference = digest(&bytes);
        if !self.has_manifest(&reference) {
            let mut file = self.temporary()?;
            file.write(&bytes)?;
            file.put(&self.manifest(&reference))?;
        }
        let run = self.run(run);
        make_dir(&run)?;
        self.temporary()?.put(&run.join(&reference))?;
        Ok(reference)
    }

    /// What a checkpoint holds.
    pub(super) fn entries(&self, reference: &str) -> Result<Vec<Entry>, CheckpointError> {
        let unknown = || CheckpointError::Unknown(reference.to_owned());
        if !is_digest(reference) {
            return Err(unknown());
        }
        let path = self.manifest(reference);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown()),
            Err(error) => return Err(failed(&path, &error)),
        };
        if digest(&bytes) != reference {
            return Err(CheckpointError::Damaged(format!("the manifest {reference} has another digest")));
        }
        manifest::decode(&bytes)
    }

    fn run(&self, run: &str) -> PathBuf {
        self.dir.join("runs").join(digest(run.as_bytes()))
    }

    /// Removes what only this run has.
    pub(super) fn forget(&self, run: &str) -> Result<(), CheckpointError> {
        let _alone = self.lock("lock", FlockOperation::LockExclusive)?;
        remove_all(&self.run(run))?;
        let runs = self.dir.join("runs");
        let mut named = HashSet::new();
        for run in list(&runs)? {
            named.extend(list(&runs.join(run))?);
        }
        // What the manifests that stay name is known before anything of them goes.
        let mut used = HashSet::new();
        for reference in &named {
            for entry in self.entries(reference)? {
                if let Node::File { digest, .. } = entry.node {
                    used.insert(digest);
                }
            }
        }
        for reference in list(&self.dir.join("manifests"))? {
            if !named.contains(&reference) {
                remove_all(&self.dir.join("views").join(&reference))?;
                remove_all(&self.manifest(&reference))?;
            }
        }
        let blobs = self.dir.join("blobs");
        for folder in list(&blobs)? {
            for digest in list(&blobs.join(&folder))? {
                if !used.contains(&digest) {
                    remove_all(&blobs.join(&folder).join(&digest))?;
                }
            }
        }
        Ok(())
    }

    /// A folder of its own for a copy, and what keeps others from clearing it away.
    pub(super) fn scratch(&self) -> Result<(PathBuf, Lock), CheckpointError> {
        let using = self.lock("used", FlockOperation::LockShared)?;
        let (path, ()) = self.unique("scratch", |path| fs::DirBuilder::new().mode(0o700).create(path))?;
        Ok((path, using))
    }

    pub(super) fn view(&self, reference: &str) -> PathBuf {
        self.dir.join("views").join(reference)
    }

    pub(super) fn last(&self) -> PathBuf {
        self.dir.join("last")
    }
}

/// The names in a folder, those that are UTF-8.
fn list(dir: &Path) -> Result<Vec<String>, CheckpointError> {
    let entries = fs::read_dir(dir).map_err(|error| failed(dir, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(dir, &error))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

pub(super) fn make_dir(path: &Path) -> Result<(), CheckpointError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| failed(path, &error))
}

/// Removes a file, or a folder with all that is in it, whatever the modes of the folders are. What is gone already is fine.
pub(super) fn remove_all(path: &Path) -> Result<(), CheckpointError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, &error)),
    };
    let removed = if meta.is_dir() { remove_folder(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn remove_folder(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        removed => return removed,
    }
    // Some folder in it may not be listed or changed.
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(path)
}

pub(super) fn failed(path: &Path, error: &std::io::Error) -> CheckpointError {
    CheckpointError::Store(format!("{}: {error}", path.display()))
}

pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

pub(super) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
