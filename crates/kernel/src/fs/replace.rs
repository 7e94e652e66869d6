//! The atomic replacement of a file (host contract 0).

use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::{Errno, retry_on_intr};

use super::path::parent;
use super::pin::{CONTENT, Place};
use super::write::{file_mode, unlink_if};
use super::{FileSystem, FsError, Kind, OpenFile, Stat, Target, reason};
use crate::flows::capability::Action;
use crate::ports::Entropy;

/// Names tried for a temporary sibling.
const NAME_TRIES: usize = 16;
/// Tries to make a file that others make and remove at the same time.
const NEW_TRIES: usize = 8;

/// What a write did. Telling it needs no `fs:read` (kernel contract 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Whether the file is new.
    pub created: bool,
    /// The permission bits of the file that was there.
    pub mode: Option<u32>,
}

impl FileSystem {
    /// Replaces a file's content in one step: a temporary sibling, `.flowcell-<random>.tmp`, takes the old file's owner
    /// and mode and is renamed over it. Asks `fs:write` of the path, once; that covers the sibling and, with
    /// `make_parents`, the missing parents.
    ///
    /// - Links are followed: the target is replaced, the link stays. A dangling link's target is made, in a parent that
    ///   has to exist even with `make_parents`.
    /// - A file that the process may not write is `AccessDenied`, although the rename would work.
    /// - A file that another one makes meanwhile is an existing file.
    /// - With `seen`, the file has to be what the caller read (device, inode, size, time of change), else `Changed`.
    /// - Where the directory takes no sibling, the owner cannot be kept, or the rename is refused with EBUSY or EXDEV, the
    ///   file is cut and written in place, which needs it to have one link and is not atomic.
    /// - Bytes that are there already are not written again.
    ///
    /// Nothing is synced to disk. A mode that cannot be restored is an `Io` error, and the old file stays. The temporary
    /// is gone whatever happens.
    pub async fn replace(
        &self,
        path: &str,
        bytes: &[u8],
        seen: Option<Stat>,
        make_parents: bool,
    ) -> Result<Replaced, FsError> {
        let target = self.ask(Action::FsWrite, "replace", path, true).await?;
        let place = self.replace_place(&target, make_parents && seen.is_none())?;
        for _ in 0..NEW_TRIES {
            let old = match place.stat() {
                Ok(old) => old,
                Err(Errno::NOENT) if seen.is_some() => return Err(changed()),
                Err(Errno::NOENT) => match self.replace_new(&target, &place, bytes)? {
                    Some(replaced) => return Ok(replaced),
                    // Another one made it meanwhile.
                    None => continue,
                },
                Err(errno) => return Err(target.entry_error(errno, "stat")),
            };
            return self.replace_old(&target, &place, &old, bytes, seen);
        }
        Err(FsError::Exists)
    }

    /// The directory and name of the target, parents made when they are missing and wanted.
    fn replace_place(&self, target: &Target, make_parents: bool) -> Result<Place, FsError> {
        let pins = &self.inner.pins;
        match pins.place(target.canonical()) {
            Err(Errno::NOENT) if make_parents && !target.resolved.dangling => {
                pins.make_dirs(parent(target.canonical()))
                    .map_err(|errno| target.entry_error(errno, "make_dirs"))?;
                pins.place(target.canonical())
            }
            place => place,
        }
        .map_err(|errno| target.parent_error(errno, "replace"))
    }

    /// Makes a file; `None` when there is one by now, which is left as it is.
    fn replace_new(&self, target: &Target, place: &Place, bytes: &[u8]) -> Result<Option<Replaced>, FsError> {
        let temporary = Temporary::create(place.dir.as_fd(), &*self.inner.entropy, 0o666)
            .map_err(|errno| FsError::host(errno, "create"))?;
        temporary.write(bytes)?;
        #[cfg(test)]
        self.inner.hooks.midway();
        self.expect_dir(target, place)?;
        let made = temporary.stat()?;
        match temporary.rename_new(&place.name) {
            Ok(()) => {
                #[cfg(test)]
                self.inner.hooks.after_create();
                // One that was made in a directory that went elsewhere is taken back.
                self.expect_dir(target, place).inspect_err(|_| unlink_if(place, &made))?;
                Ok(Some(Replaced { created: true, mode: None }))
            }
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(target.entry_error(errno, "rename")),
        }
    }

    fn replace_old(
        &self,
        target: &Target,
        place: &Place,
        old: &Stat,
        bytes: &[u8],
        seen: Option<Stat>,
    ) -> Result<Replaced, FsError> {
        match old.kind {
            Kind::File => {}
            Kind::Dir => return Err(FsError::IsADirectory),
            Kind::Symlink => return Err(target.denied(reason::PATH_CHANGED)),
            Kind::Other => return Err(FsError::NotRegular),
        }
        match place.may_write() {
            // A program that is running may be replaced by name.
            Ok(()) | Err(Errno::TXTBSY) => {}
            Err(errno) => return Err(target.entry_error(errno, "open")),
        }
        let replaced = Replaced { created: false, mode: Some(old.mode) };
        expect_seen(place, seen)?;
        if old.size == bytes.len() as u64 && self.holds(target, place, old, bytes) {
            return Ok(replaced);
        }
        match self.swap(target, place, bytes, old, seen)? {
            Swap::Done => Ok(replaced),
            Swap::InPlace(errno) => {
                let file = match OpenFile::write(&self.inner, place, target) {
                    Err(Errno::TXTBSY) => return Err(FsError::host(errno, "replace")),
                    opened => opened.map_err(|errno| target.entry_error(errno, "open"))??,
                };
                expect_seen(place, seen)?;
                file.overwrite(bytes)?;
                Ok(replaced)
            }
        }
    }

    /// Steps 3 to 5 for an existing file.
    fn swap(
        &self,
        target: &Target,
        place: &Place,
        bytes: &[u8],
        old: &Stat,
        seen: Option<Stat>,
    ) -> Result<Swap, FsError> {
        let temporary = match Temporary::create(place.dir.as_fd(), &*self.inner.entropy, 0o600) {
            Ok(temporary) => temporary,
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => return Ok(Swap::InPlace(errno)),
            Err(errno) => return Err(FsError::host(errno, "create")),
        };
        temporary.write(bytes)?;
        let own = temporary.stat()?;
        if (own.uid, own.gid) != (old.uid, old.gid) {
            let owner = (Some(Uid::from_raw(old.uid)), Some(Gid::from_raw(old.gid)));
            match rustix::fs::fchown(&temporary.fd, owner.0, owner.1) {
                Ok(()) => {}
                // EINVAL is the refusal of an owner that a user namespace does not know.
                Err(
                    errno @ (Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::OVERFLOW | Errno::NOSYS),
                ) => {
                    return Ok(Swap::InPlace(errno));
                }
                Err(errno) => return Err(FsError::host(errno, "chown")),
            }
        }
        // Set-id bits go with a change of owner, so the mode comes last.
        rustix::fs::fchmod(&temporary.fd, file_mode(old.mode))
            .map_err(|errno| FsError::other(errno, "chmod"))?;
        if temporary.stat()?.mode != old.mode {
            return Err(FsError::Io {
                errno: Errno::PERM.raw_os_error(),
                message: format!("the mode {:o} cannot be restored", old.mode),
                operation: "chmod",
            });
        }
        #[cfg(test)]
        self.inner.hooks.midway();
        expect_seen(place, seen)?;
        self.expect_dir(target, place)?;
        match temporary.rename(&place.name) {
            Ok(()) => Ok(Swap::Done),
            Err(errno @ (Errno::BUSY | Errno::XDEV)) => Ok(Swap::InPlace(errno)),
            Err(errno) => Err(target.entry_error(errno, "rename")),
        }
    }

    /// Whether the target holds these bytes. One that cannot be read, or that another one replaces meanwhile, is taken not
    /// to: what is decided next looks again.
    fn holds(&self, target: &Target, place: &Place, old: &Stat, bytes: &[u8]) -> bool {
        let Ok(fd) = place.open(OFlags::RDONLY | CONTENT, Mode::empty()) else { return false };
        let (path, capability) = (target.canonical().to_owned(), target.capability.clone());
        OpenFile::adopt_linked(&self.inner, fd, path, capability)
            .is_ok_and(|file| file.opened().same_file(old) && file.holds(bytes).unwrap_or(false))
    }

    /// The directory is still where the authorised path has it.
    pub(super) fn expect_dir(&self, target: &Target, place: &Place) -> Result<(), FsError> {
        let held = rustix::fs::fstat(&place.dir).map_err(|errno| FsError::host(errno, "stat"))?;
        match self.inner.pins.names(parent(target.canonical()), &Stat::of(&held)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(target.denied(reason::PATH_CHANGED)),
            Err(errno) => Err(FsError::host(errno, "stat")),
        }
    }
}

enum Swap {
    Done,
    /// To be written in place, because of this refusal.
    InPlace(Errno),
}

fn expect_seen(place: &Place, seen: Option<Stat>) -> Result<(), FsError> {
    match seen {
        None => Ok(()),
        Some(seen) => match place.stat() {
            Ok(now) if now.same_version(&seen) => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(changed()),
            Err(errno) => Err(FsError::host(errno, "stat")),
        },
    }
}

fn changed() -> FsError {
    FsError::Changed("the file changed during the call".to_owned())
}

/// A temporary sibling. It is unlinked when it goes, unless it was renamed.
struct Temporary<'a> {
    dir: BorrowedFd<'a>,
    fd: OwnedFd,
    name: String,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: BorrowedFd<'a>, entropy: &dyn Entropy, mode: u32) -> Result<Self, Errno> {
        for _ in 0..NAME_TRIES {
            let name = format!(".flowcell-{}.tmp", random_hex(entropy));
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | CONTENT;
            match rustix::fs::openat(dir, name.as_str(), flags, file_mode(mode)) {
                Ok(fd) => return Ok(Temporary { dir, fd, name, renamed: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), FsError> {
        while !bytes.is_empty() {
            let count = retry_on_intr(|| rustix::io::write(&self.fd, bytes))
                .map_err(|errno| FsError::other(errno, "write"))?;
            if count == 0 {
                return Err(FsError::other(Errno::IO, "write"));
            }
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn stat(&self) -> Result<Stat, FsError> {
        rustix::fs::fstat(&self.fd).map(|stat| Stat::of(&stat)).map_err(|errno| FsError::host(errno, "stat"))
    }

    fn rename(mut self, name: &str) -> Result<(), Errno> {
        rustix::fs::renameat(self.dir, self.name.as_str(), self.dir, name)?;
        self.renamed = true;
        Ok(())
    }

    /// As [`rename`](Self::rename), but EEXIST when the name is taken, where the host can tell.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename_new(mut self, name: &str) -> Result<(), Errno> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(self.dir, self.name.as_str(), self.dir, name, flags) {
            // This file system, or this host, has no such rename.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => self.rename(name),
            result => {
                self.renamed = result.is_ok();
                result
            }
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn rename_new(self, name: &str) -> Result<(), Errno> {
        self.rename(name)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Not what somebody else put in its place.
        let own = self.stat().ok();
        let named = rustix::fs::statat(self.dir, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let is_own = named.is_ok_and(|named| own.is_some_and(|own| own.same_file(&Stat::of(&named))));
        if !self.renamed && is_own {
            let _ = rustix::fs::unlinkat(self.dir, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Sixteen random hexadecimal digits.
pub(super) fn random_hex(entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; 8];
    entropy.fill(&mut bytes);
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
