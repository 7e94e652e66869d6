//! Operations that read.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::dir::list;
use super::path::child;
use super::{Dir, DirEntry, FileSystem, FsError, Kind, Metadata, OpenFile, Stat, Target, reason};
use crate::flows::capability::{Action, Capability};
use crate::flows::rules::Effect;
use crate::permission::{PermissionDenied, PermissionError};

/// Tries to read a file that others replace at the same time.
const READ_TRIES: usize = 8;

fn is_moved(error: &FsError) -> bool {
    matches!(error, FsError::Permission(PermissionError::Denied(denied)) if denied.reason == reason::NO_LONGER_MATCHES)
}

impl FileSystem {
    /// The metadata of what the path names, links followed. Asks `fs:read` of the path.
    pub async fn metadata(&self, path: &str) -> Result<Metadata, FsError> {
        let target = self.ask(Action::FsRead, "metadata", path, true).await?;
        self.followed(&target)
    }

    /// The metadata of the entry itself; a link is not followed. Asks `fs:read` of the entry.
    pub async fn symlink_metadata(&self, path: &str) -> Result<Metadata, FsError> {
        let target = self.ask(Action::FsRead, "symlink_metadata", path, false).await?;
        self.entry(&target)
    }

    /// Whether the path names something, links followed. Asks `fs:read` of the path.
    pub async fn exists(&self, path: &str) -> Result<bool, FsError> {
        let found = match self.ask(Action::FsRead, "exists", path, true).await {
            Ok(target) => self.followed(&target),
            Err(error) => Err(error),
        };
        match found {
            Ok(_) => Ok(true),
            Err(FsError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file for reading. Asks `fs:read` of the path. `IsADirectory` and `NotRegular` for what is none.
    pub async fn open(&self, path: &str) -> Result<OpenFile, FsError> {
        let target = self.ask(Action::FsRead, "open", path, true).await?;
        OpenFile::read(&self.inner, &target)
    }

    /// Reads a file, at most `max + 1` bytes: more than `max` means that it is longer. One that is replaced by name while
    /// it is read is read again. The metadata is that of the moment of opening, what [`replace`](Self::replace) takes as `seen`.
    pub async fn read(&self, path: &str, max: u64) -> Result<(Vec<u8>, Stat), FsError> {
        let target = self.ask(Action::FsRead, "read", path, true).await?;
        self.read_whole(&target, |file| file.read_to(max))
    }

    /// Reads at most `len` bytes from `offset`.
    pub async fn read_range(&self, path: &str, offset: u64, len: u64) -> Result<(Vec<u8>, Stat), FsError> {
        let target = self.ask(Action::FsRead, "read_range", path, true).await?;
        self.read_whole(&target, |file| file.read_at(offset, len))
    }

    /// The names in a directory, in byte order; links are listed as links and never descended. Asks `fs:read` of the
    /// directory itself: a grant for `/ws/**` does not name `/ws`.
    pub async fn read_dir(&self, path: &str) -> Result<Vec<DirEntry>, FsError> {
        let mut entries = self.open_dir(path).await?.entries()?;
        entries.sort();
        Ok(entries)
    }

    /// Opens a directory for [`Dir::entries`] and [`Dir::stat_entry_following`]. Asks what [`read_dir`](Self::read_dir)
    /// asks, in the same words. `NotADirectory` for what is none.
    pub async fn open_dir(&self, path: &str) -> Result<Dir, FsError> {
        let target = self.ask(Action::FsRead, "read_dir", path, true).await?;
        Dir::of(self, &target)
    }

    /// What an entry of a listed directory stands for, links followed; for a caller that was allowed to
    /// [`read_dir`](Self::read_dir) and describes what it found.
    ///
    /// Nobody is asked. What a link leads to has to be allowed already. An entry that is no link says no more than the
    /// listing did: where listing the directory is allowed it is refused only by a rule or a ceiling that denies it. A
    /// dangling link is `NotFound`.
    ///
    /// The directory is resolved at each call; [`Dir::stat_entry_following`] describes many entries of one.
    pub async fn stat_entry_following(&self, dir: &str, name: &OsStr) -> Result<Kind, FsError> {
        let dir = self.target(Action::FsRead, dir, true)?;
        self.expect_root(&dir)?;
        let place = self.inner.pins.dir(dir.canonical()).map_err(|e| dir.parent_error(e, "stat"))?;
        self.stat_entry(place.as_fd(), dir.canonical(), &dir.capability, name)
    }

    /// As [`stat_entry_following`](Self::stat_entry_following), of an entry of a directory that is open; `own` is the
    /// capability to read that directory.
    pub(super) fn stat_entry(
        &self,
        dir: BorrowedFd<'_>,
        canonical: &str,
        own: &Capability,
        name: &OsStr,
    ) -> Result<Kind, FsError> {
        let bytes = name.as_bytes();
        if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') || bytes.contains(&0) {
            return Err(FsError::InvalidPath(format!("{name:?} is not the name of an entry")));
        }
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| FsError::host(errno, "stat"))?;
        let stat = Stat::of(&stat);
        let refuse = |capability: Capability, reason: &str| -> Result<Kind, FsError> {
            Err(PermissionDenied::new(capability, reason).into())
        };
        let Some(text) = name.to_str() else {
            // No capability can name it, and so none can refuse it; a link would need one.
            return match stat.kind {
                Kind::Symlink => refuse(own.clone(), reason::NOT_UTF8),
                kind if self.decides(own) => Ok(kind),
                _ => refuse(own.clone(), PermissionDenied::BY_POLICY),
            };
        };
        let path = child(canonical, text);
        if stat.kind != Kind::Symlink {
            let capability = self.inner.read_capability(&path)?;
            if self.inner.is_pseudo(&path) {
                return refuse(capability, reason::PSEUDO_FS);
            }
            return match self.authority.decide(&capability) {
                Effect::Allow => Ok(stat.kind),
                Effect::Ask if self.decides(own) => Ok(stat.kind),
                Effect::Ask | Effect::Deny => refuse(capability, PermissionDenied::BY_POLICY),
            };
        }
        // From the open directory's own path, which a copy's paths are: read as given they would be mapped once more.
        let target = self.target_from(Some(canonical), Action::FsRead, text, true)?;
        if !self.decides(&target.capability) {
            return refuse(target.capability, PermissionDenied::BY_POLICY);
        }
        Ok(self.followed(&target)?.kind)
    }

    /// The path of an existing file, links followed: the resource that it is asked for as, under the logical root when it
    /// is inside the workspace. Asks `fs:read` of it.
    pub async fn canonicalize(&self, path: &str) -> Result<String, FsError> {
        let target = self.ask(Action::FsRead, "canonicalize", path, true).await?;
        self.followed(&target)?;
        Ok(target.resolved.resource)
    }

    /// The text of a link. Asks `fs:read` of the entry. `InvalidPath` when it is no link.
    pub async fn read_link(&self, path: &str) -> Result<PathBuf, FsError> {
        let target = self.ask(Action::FsRead, "read_link", path, false).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "read_link"))?;
        match rustix::fs::readlinkat(&place.dir, place.name.as_str(), Vec::new()) {
            Ok(text) => Ok(PathBuf::from(OsString::from_vec(text.into_bytes()))),
            Err(Errno::INVAL) => Err(FsError::InvalidPath("not a symbolic link".to_owned())),
            Err(errno) => Err(target.entry_error(errno, "read_link")),
        }
    }

    /// Opens and reads as one operation. A file that is replaced by name in the middle of it, as editors do, is opened
    /// again; where the path leads has to be the same still.
    fn read_whole(
        &self,
        target: &Target,
        read: impl Fn(&OpenFile) -> Result<Vec<u8>, FsError>,
    ) -> Result<(Vec<u8>, Stat), FsError> {
        let mut tries = READ_TRIES;
        loop {
            let file = OpenFile::read(&self.inner, target)?;
            tries -= 1;
            match read(&file) {
                Err(error) if tries > 0 && is_moved(&error) => self.confirm(target)?,
                result => return Ok((result?, file.opened())),
            }
        }
    }

    /// Lists a directory that is open already.
    pub(super) fn names(fd: impl AsFd) -> Result<Vec<DirEntry>, FsError> {
        list(fd).map_err(|errno| FsError::host(errno, "list"))
    }

    /// The metadata of a path whose links were followed: a link in its place was put there since.
    fn followed(&self, target: &Target) -> Result<Stat, FsError> {
        match self.entry(target)? {
            stat if stat.kind == Kind::Symlink => Err(target.denied(reason::PATH_CHANGED)),
            stat => Ok(stat),
        }
    }

    fn entry(&self, target: &Target) -> Result<Stat, FsError> {
        let place = self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "stat"))?;
        place.stat().map_err(|errno| target.entry_error(errno, "stat"))
    }
}
