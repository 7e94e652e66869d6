//! Directories as walkers use them: opened once, descended by descriptors, on a thread of the walker's own.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::path::{child, is_inside};
use super::pin::{CONTENT, LIST, entry_name, open_entry};
use super::{DirEntry, FileSystem, FsError, Kind, OpenFile, Stat, Target, reason, too_long};
use crate::flows::capability::{Action, Capability};
use crate::permission::PermissionDenied;

/// What a walk starts from.
#[derive(Debug)]
pub enum WalkRoot {
    /// A directory.
    Dir(Dir),
    /// A regular file.
    File(OpenFile),
    /// A FIFO, a socket or a device.
    Other,
}

/// A directory, open. It holds one descriptor.
///
/// Its root was checked. Below, a walker asks [`permitted`](Self::permitted) before it opens an entry; opening does not
/// ask again, follows no link, and refuses pseudo file systems. Names are those that [`entries`](Self::entries) gave: on a
/// volume that folds case, another spelling of one would be asked for as it is spelled.
pub struct Dir {
    fd: OwnedFd,
    opened: Stat,
    files: FileSystem,
    canonical: String,
    /// The directory's resource, when those of its entries are below it.
    resource: Option<String>,
}

impl FileSystem {
    /// Opens the root of a walk: asks `fs:read` of it and follows links to it. A path that is missing is `NotFound`.
    pub async fn walk_root(&self, path: &str) -> Result<WalkRoot, FsError> {
        let target = self.ask(Action::FsRead, "walk", path, true).await?;
        let inner = &self.inner;
        let place = inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "walk"))?;
        match place.stat().map_err(|errno| target.entry_error(errno, "walk"))?.kind {
            Kind::Dir => Dir::of(self, &target).map(WalkRoot::Dir),
            Kind::File => OpenFile::read(inner, &target).map(WalkRoot::File),
            Kind::Other => Ok(WalkRoot::Other),
            Kind::Symlink => Err(target.denied(reason::PATH_CHANGED)),
        }
    }
}

impl Dir {
    pub(super) fn of(files: &FileSystem, target: &Target) -> Result<Self, FsError> {
        let pins = &files.inner.pins;
        let place = pins.place(target.canonical()).map_err(|e| target.parent_error(e, "open"))?;
        let fd = place.open(LIST, Mode::empty()).map_err(|errno| target.entry_error(errno, "open"))?;
        Self::adopt(files, fd, target.canonical().to_owned())
    }

    fn adopt(files: &FileSystem, fd: OwnedFd, canonical: String) -> Result<Self, FsError> {
        let opened = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
        #[cfg(test)]
        super::points::reach("opened");
        let roots = &files.inner.roots;
        let inside = roots.logical == roots.canonical || is_inside(&roots.canonical, &canonical);
        let resource = if inside { roots.resource(&canonical).ok() } else { None };
        Ok(Dir { fd, opened: Stat::of(&opened), files: files.clone(), canonical, resource })
    }

    /// The names in the directory, in the host's order; what each stands for, links not followed. Refused when the path
    /// names another directory by now.
    pub fn entries(&self) -> Result<Vec<DirEntry>, FsError> {
        match self.files.inner.pins.names(&self.canonical, &self.opened) {
            Ok(true) => {}
            Ok(false) => return Err(self.denied("", reason::NO_LONGER_MATCHES)),
            Err(errno) => return Err(FsError::host(errno, "list")),
        }
        #[cfg(test)]
        super::points::reach("verified");
        list(&self.fd).map_err(|errno| FsError::host(errno, "list"))
    }

    /// What an entry stands for, links followed, by the rules of [`FileSystem::stat_entry_following`]: nobody is asked, and
    /// what a link leads to has to be allowed already. Only a link costs a resolution.
    pub fn stat_entry_following(&self, name: &OsStr) -> Result<Kind, FsError> {
        let own = self.files.inner.read_capability(&self.canonical)?;
        self.files.stat_entry(self.fd.as_fd(), &self.canonical, &own, name)
    }

    /// Opens a directory in this one. `NotADirectory` for anything else, a link included. The workspace that a copy stands
    /// for ([`FileSystem::over`]) is the copy.
    pub fn open_dir(&self, name: &OsStr) -> Result<Dir, FsError> {
        let canonical = self.child(name)?;
        if let Some(copy) = self.files.inner.roots.stand_in(&canonical) {
            let place = self.files.inner.pins.place(copy);
            let opened = place.and_then(|place| place.open(LIST, Mode::empty()));
            let fd = opened.map_err(|errno| FsError::host(errno, "open"))?;
            return Self::adopt(&self.files, fd, copy.to_owned());
        }
        let fd = open_entry(self.fd.as_fd(), name, LIST, Mode::empty()).map_err(|errno| match errno {
            Errno::LOOP => FsError::NotADirectory,
            errno => FsError::host(errno, "open"),
        })?;
        Self::adopt(&self.files, fd, canonical)
    }

    /// Opens a regular file in this directory for reading. `NotRegular` for a link, a FIFO, a socket or a device,
    /// `IsADirectory` for a directory.
    pub fn open_file(&self, name: &OsStr) -> Result<OpenFile, FsError> {
        let canonical = self.child(name)?;
        let flags = OFlags::RDONLY | CONTENT;
        let fd = open_entry(self.fd.as_fd(), name, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::LOOP | Errno::NXIO => FsError::NotRegular,
            errno => FsError::host(errno, "open"),
        })?;
        let capability = self.entry_capability(name)?;
        OpenFile::adopt(&self.files.inner, fd, canonical, capability, false)
    }

    /// Whether reading the entry is allowed: its own resource, links not followed. Never asks anybody, never fails; a name
    /// that is not UTF-8 is not permitted, and neither is a pseudo file system.
    pub fn permitted(&self, name: &OsStr) -> bool {
        self.entry_capability(name).is_ok_and(|capability| self.files.decides(&capability))
    }

    /// The resource of an entry; a name that is not UTF-8 is spelled with U+FFFD, and no capability has that resource.
    pub fn resource(&self, name: &OsStr) -> String {
        let name = name.to_string_lossy();
        match &self.resource {
            Some(own) => child(own, &name),
            None => {
                let canonical = child(&self.canonical, &name);
                self.files.inner.roots.resource(&canonical).unwrap_or(canonical)
            }
        }
    }

    /// The directory's metadata when it was opened.
    pub fn opened(&self) -> Stat {
        self.opened
    }

    fn child(&self, name: &OsStr) -> Result<String, FsError> {
        Ok(child(&self.canonical, self.entry_name(name)?))
    }

    /// The name of an entry that may be reached at all.
    fn entry_name<'a>(&self, name: &'a OsStr) -> Result<&'a str, FsError> {
        let text = match entry_name(name) {
            Some(text) => text,
            None if name.to_str().is_none() => {
                return Err(self.denied(&name.to_string_lossy(), reason::NOT_UTF8));
            }
            None => return Err(FsError::InvalidPath(format!("{name:?} is not the name of an entry"))),
        };
        // What is below a pseudo file system is met from above it: this directory is none.
        if self.canonical == "/" && self.files.inner.is_pseudo(&child("/", text)) {
            return Err(self.denied(text, reason::PSEUDO_FS));
        }
        Ok(text)
    }

    fn entry_capability(&self, name: &OsStr) -> Result<Capability, FsError> {
        let name = self.entry_name(name)?;
        match &self.resource {
            Some(own) => Capability::new(Action::FsRead, child(own, name)).ok_or_else(too_long),
            None => self.files.inner.read_capability(&child(&self.canonical, name)),
        }
    }

    fn denied(&self, name: &str, reason: &str) -> FsError {
        match self.files.inner.read_capability(&child(&self.canonical, name)) {
            Ok(capability) => PermissionDenied::new(capability, reason).into(),
            Err(error) => error,
        }
    }
}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dir").field("resource", &self.resource(OsStr::new(""))).finish_non_exhaustive()
    }
}

/// The entries of an open directory, in the host's order.
pub(super) fn list(fd: impl AsFd) -> Result<Vec<DirEntry>, Errno> {
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(&fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                match rustix::fs::statat(&fd, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => Kind::of(FileType::from_raw_mode(stat.st_mode)),
                    // Gone since it was listed.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                }
            }
            known => Kind::of(known),
        };
        entries.push(DirEntry { name: OsString::from_vec(name.to_vec()), kind });
    }
    Ok(entries)
}
