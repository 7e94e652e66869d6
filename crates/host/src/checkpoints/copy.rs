//! Copies of what was captured (host contract 8, View).

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::manifest::Node;
use super::store::{Lock, Store, failed, remove_all};
use super::{CheckpointError, Inner, Stop};
use crate::kernel::FileSystem;

/// A checkpoint to be read: a copy that all readers share. It stays until no run has its checkpoint any more.
#[derive(Clone, Debug)]
pub struct View {
    files: FileSystem,
    path: PathBuf,
}

impl View {
    /// The file system of the copy, under the authority of the checkpoints: paths and resources are those of the workspace.
    #[must_use]
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// Where the copy is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A checkpoint to work in: a copy of one's own. It is removed when this value goes, with whatever was done in it.
#[derive(Debug)]
pub struct ScratchView {
    files: FileSystem,
    folder: Folder,
}

impl ScratchView {
    /// The file system of the copy, under the authority of the checkpoints: paths and resources are those of the workspace.
    #[must_use]
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// Where the copy is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder.path
    }
}

/// A folder that is removed when this value goes.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// What keeps others from clearing it away.
    _using: Lock,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now goes when the store is opened again.
        let _ = remove_all(&self.path);
    }
}

pub(super) fn view(inner: &Inner, reference: &str, stop: &Stop) -> Result<View, CheckpointError> {
    let store = &inner.store;
    let _shared = store.share()?;
    if !store.has_manifest(reference) {
        return Err(CheckpointError::Unknown(reference.to_owned()));
    }
    let path = store.view(reference);
    if !path.is_dir() {
        let made = fill(store, reference, stop)?;
        match fs::rename(&made.path, &path) {
            // What is dropped finds nothing under its own name any more.
            Ok(()) => {}
            // Another one made it meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            }
            Err(error) => return Err(failed(&path, &error)),
        }
    }
    Ok(View { files: over(inner, &path)?, path })
}

pub(super) fn scratch(inner: &Inner, reference: &str, stop: &Stop) -> Result<ScratchView, CheckpointError> {
    let _shared = inner.store.share()?;
    let folder = fill(&inner.store, reference, stop)?;
    Ok(ScratchView { files: over(inner, &folder.path)?, folder })
}

fn over(inner: &Inner, copy: &Path) -> Result<FileSystem, CheckpointError> {
    inner.files.over(copy).map_err(|error| CheckpointError::Store(format!("{}: {error}", copy.display())))
}

/// Makes what a checkpoint holds, in a new folder.
fn fill(store: &Store, reference: &str, stop: &Stop) -> Result<Folder, CheckpointError> {
    let entries = store.entries(reference)?;
    let (path, using) = store.scratch()?;
    let copy = Folder { path, _using: using };
    let mut modes = Vec::new();
    for entry in &entries {
        stop.check()?;
        let path = copy.path.join(&entry.path);
        let made = match &entry.node {
            Node::Dir { mode } => {
                modes.push((path.clone(), *mode));
                fs::DirBuilder::new().mode(0o700).create(&path)
            }
            Node::File { mode, size, digest } => {
                put(&store.blob(digest), &path, *mode, *size).map_err(|error| {
                    if error.kind() == ErrorKind::NotFound {
                        return CheckpointError::Damaged(format!("the content {digest} is missing"));
                    }
                    failed(&path, &error)
                })?;
                Ok(())
            }
            Node::Link { .. } => match entry.node.target() {
                Some(target) => std::os::unix::fs::symlink(target, &path),
                None => Err(ErrorKind::InvalidData.into()),
            },
        };
        made.map_err(|error| failed(&path, &error))?;
    }
    // A folder that nobody may write in is full by now.
    for (path, mode) in modes.iter().rev() {
        fs::set_permissions(path, fs::Permissions::from_mode(*mode)).map_err(|error| failed(path, &error))?;
    }
    Ok(copy)
}

/// Copies a content, sharing its blocks where the file system can.
fn put(from: &Path, to: &Path, mode: u32, size: u64) -> std::io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    if !reflink(&source, &target) && std::io::copy(&mut source, &mut target)? != size {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    target.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn reflink(source: &File, target: &File) -> bool {
    rustix::fs::ioctl_ficlone(target, source).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn reflink(_source: &File, _target: &File) -> bool {
    false
}
