//! Descriptors that a file system starts from, and walks that meet no link.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::path::{below, parent};
use super::stat::Stat;

/// A directory that is only walked through needs no permission to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) const WALK: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A directory that is only walked through.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) const WALK: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory whose names are read.
pub(crate) const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// A file opened for its content (kernel contract 6.1).
pub(crate) const CONTENT: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// The workspace root and `/`, opened once.
#[derive(Debug)]
pub(crate) struct Pins {
    root_path: String,
    root: OwnedFd,
    root_stat: Stat,
    slash: OwnedFd,
    openat2: AtomicBool,
}

/// Where a path ends: the directory of its last component, open, and that component. `.` stands for a path that is a
/// pinned directory itself.
pub(crate) struct Place {
    pub(crate) dir: OwnedFd,
    pub(crate) name: String,
}

impl Place {
    /// The entry's own metadata; a link is not followed.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.dir, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| Stat::of(&stat))
    }

    /// Whether the process may write the entry, by its effective ids. A link is followed; where that matters the caller
    /// has looked already.
    pub(crate) fn may_write(&self) -> Result<(), Errno> {
        match rustix::fs::accessat(&self.dir, self.name.as_str(), Access::WRITE_OK, AtFlags::EACCESS) {
            // A host that does not go by effective ids here tells by opening.
            Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL) => {
                self.open(OFlags::WRONLY | CONTENT, Mode::empty()).map(drop)
            }
            answer => answer,
        }
    }

    /// Opens the entry; a link fails with ELOOP.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        open_entry(self.dir.as_fd(), OsStr::new(&self.name), flags, mode)
    }
}

/// `openat` of one component that answers ELOOP for a link, whatever the flags make the host say.
pub(crate) fn open_entry(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, flags, mode).map_err(|errno| match errno {
        Errno::NOTDIR if is_link(dir, name) => Errno::LOOP,
        // FreeBSD's and NetBSD's words for O_NOFOLLOW on a link.
        Errno::MLINK => Errno::LOOP,
        errno => errno,
    })
}

fn is_link(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

impl Pins {
    pub(crate) fn open(canonical_root: &str) -> Result<Self, Errno> {
        let slash = rustix::fs::openat(CWD, "/", WALK, Mode::empty())?;
        let mut pins = Pins {
            root_path: canonical_root.to_owned(),
            root: slash.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?,
            root_stat: Stat::of(&rustix::fs::fstat(&slash)?),
            slash,
            openat2: AtomicBool::new(true),
        };
        // Until the root is pinned everything starts from `/`.
        pins.root = pins.walk_dir(pins.slash.as_fd(), below("/", canonical_root).unwrap_or(""))?;
        pins.root_stat = Stat::of(&rustix::fs::fstat(&pins.root)?);
        Ok(pins)
    }

    /// Whether the root's path still names the directory that was pinned.
    pub(crate) fn root_in_place(&self) -> bool {
        rustix::fs::statat(CWD, self.root_path.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|now| Stat::of(&now).same_file(&self.root_stat))
    }

    /// Makes every walk go component by component, as on a host without `openat2`.
    pub(crate) fn refuse_openat2(&self) {
        self.openat2.store(false, Ordering::Relaxed);
    }

    /// Whether walks use `openat2`.
    pub(crate) fn has_openat2(&self) -> bool {
        self.openat2.load(Ordering::Relaxed)
    }

    /// The pinned directory that a canonical path lies under, and the rest of the path.
    fn base<'a>(&self, canonical: &'a str) -> (BorrowedFd<'_>, &'a str) {
        match below(&self.root_path, canonical) {
            Some(rest) => (self.root.as_fd(), rest),
            None => (self.slash.as_fd(), canonical.trim_start_matches('/')),
        }
    }

    /// Opens a directory to walk on from. A link anywhere on the way is ELOOP.
    pub(crate) fn dir(&self, canonical: &str) -> Result<OwnedFd, Errno> {
        let (base, rest) = self.base(canonical);
        self.walk_dir(base, rest)
    }

    /// The place of a path: its directory has to exist, itself it may be missing.
    pub(crate) fn place(&self, canonical: &str) -> Result<Place, Errno> {
        let (base, rest) = self.base(canonical);
        let place = self.place_below(base, rest);
        #[cfg(test)]
        super::points::reach("placed");
        place
    }

    fn place_below(&self, base: BorrowedFd<'_>, rest: &str) -> Result<Place, Errno> {
        if rest.is_empty() {
            return Ok(Place { dir: self.walk_dir(base, "")?, name: ".".to_owned() });
        }
        let (dir, name) = rest.rsplit_once('/').unwrap_or(("", rest));
        Ok(Place { dir: self.walk_dir(base, dir)?, name: name.to_owned() })
    }

    /// The metadata of what a path names now, reached without links from `/`: that the pinned root is the root still is
    /// part of the answer.
    pub(crate) fn stat(&self, canonical: &str) -> Result<Stat, Errno> {
        self.place_below(self.slash.as_fd(), canonical.trim_start_matches('/'))?.stat()
    }

    /// Whether a path names this file now, reached as [`stat`](Self::stat) does. An error is the host's own trouble, too
    /// many open files for one, and says nothing of the path.
    pub(crate) fn names(&self, canonical: &str, file: &Stat) -> Result<bool, Errno> {
        match self.stat(canonical) {
            Ok(now) => Ok(now.same_file(file)),
            Err(
                errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::INTR | Errno::AGAIN),
            ) => Err(errno),
            Err(_) => Ok(false),
        }
    }

    /// Makes the missing directories of a path, one at a time, walking again from the pin after each. True when it made
    /// any.
    pub(crate) fn make_dirs(&self, canonical: &str) -> Result<bool, Errno> {
        let mut missing = Vec::new();
        let mut at = canonical;
        loop {
            match self.dir(at) {
                Ok(_) => break,
                Err(Errno::NOENT) if at != "/" => {
                    missing.push(at);
                    at = parent(at);
                }
                Err(errno) => return Err(errno),
            }
        }
        let mut made = false;
        for path in missing.into_iter().rev() {
            let place = self.place(path)?;
            match rustix::fs::mkdirat(&place.dir, place.name.as_str(), Mode::from(0o777)) {
                Ok(()) => {
                    #[cfg(test)]
                    super::points::reach("created");
                    self.expect_made(path, &place)?;
                    made = true;
                }
                Err(Errno::EXIST) => {
                    self.dir(path)?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(made)
    }

    /// A directory that was just made, or ELOOP when the path does not name it: its parent went elsewhere, and it is taken
    /// back.
    pub(crate) fn expect_made(&self, canonical: &str, place: &Place) -> Result<(), Errno> {
        let made = place.stat()?;
        let named = self.names(canonical, &made);
        if named == Ok(true) {
            return Ok(());
        }
        let _ = rustix::fs::unlinkat(&place.dir, place.name.as_str(), AtFlags::REMOVEDIR);
        Err(named.err().unwrap_or(Errno::LOOP))
    }

    fn walk_dir(&self, base: BorrowedFd<'_>, rest: &str) -> Result<OwnedFd, Errno> {
        let rest = if rest.is_empty() { "." } else { rest };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.has_openat2() {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
            // With NOFOLLOW a link at the end would be ENOTDIR; without it NO_SYMLINKS says what it is.
            let flags = WALK.difference(OFlags::NOFOLLOW);
            for _ in 0..8 {
                match rustix::fs::openat2(base, rest, flags, Mode::empty(), resolve) {
                    // A host without the call, or a filter that refuses it: walk, from now on.
                    Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::TOOBIG | Errno::INVAL) => {
                        self.refuse_openat2();
                        break;
                    }
                    // A filter answers EPERM, and so may a directory; and each call takes paths of bounded length. Only
                    // this walk goes by hand.
                    Err(Errno::PERM | Errno::NAMETOOLONG) => break,
                    // A rename elsewhere disturbed the lookup.
                    Err(Errno::AGAIN) => {}
                    result => return result,
                }
            }
        }
        walk_components(base, rest)
    }
}

fn walk_components(base: BorrowedFd<'_>, rest: &str) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    for part in rest.split('/') {
        let from = at.as_ref().map_or(base, AsFd::as_fd);
        #[cfg(test)]
        super::points::reach("component");
        at = Some(open_entry(from, OsStr::new(part), WALK, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

/// The text of a name that an entry of a directory can have.
pub(crate) fn entry_name(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    (!name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])).then_some(name)
}
