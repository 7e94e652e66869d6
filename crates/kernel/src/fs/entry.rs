//! Operations on entries themselves: the last component of a path is not followed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::dir::list;
use super::pin::{LIST, open_entry};
use super::write::unlink_if;
use super::{FileSystem, FsError, Kind, Stat, Target, reason};
use crate::flows::capability::{Action, Capability};
use crate::flows::rules::{CapabilitySet, Effect};
use crate::permission::PermissionDenied;

/// Directories that a recursive removal keeps open at a time, beside the one it started in; deeper ones are opened again
/// from there.
const OPEN_LEVELS: usize = 32;

impl FileSystem {
    /// Removes a file, a link or an empty directory. Asks `fs:write` of the entry. The workspace root, and what it lies
    /// in, is refused.
    pub async fn remove(&self, path: &str) -> Result<(), FsError> {
        let target = self.ask_movable("remove", path).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "remove"))?;
        let kind = place.stat().map_err(|errno| target.entry_error(errno, "remove"))?.kind;
        self.expect_dir(&target, &place)?;
        let flags = if kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&place.dir, place.name.as_str(), flags)
            .map_err(|errno| target.entry_error(errno, "remove"))
    }

    /// Removes an entry and everything in it. Links inside are removed, never followed. Asks `fs:write` of the entry,
    /// once; refused when a rule denies writing something in it. The workspace root, and what it lies in, is refused. On a
    /// failure part of the tree may be gone.
    pub async fn remove_dir_all(&self, path: &str) -> Result<(), FsError> {
        let target = self.ask_movable("remove_dir_all", path).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "remove"))?;
        self.expect_none_denied(&target, None)?;
        let failed = |errno| target.entry_error(errno, "remove");
        let flags = if place.stat().map_err(failed)?.kind == Kind::Dir {
            let top = place.open(LIST, Mode::empty()).map_err(failed)?;
            let stat = rustix::fs::fstat(&top).map_err(|errno| FsError::host(errno, "stat"))?;
            let stat = Stat::of(&stat);
            // Wherever it goes meanwhile, what is in it there is not what was approved.
            let in_place = || match self.inner.pins.names(target.canonical(), &stat) {
                Ok(true) => Ok(()),
                Ok(false) => Err(target.denied(reason::PATH_CHANGED)),
                Err(errno) => Err(FsError::host(errno, "stat")),
            };
            remove_below(top, &in_place)?;
            self.expect_dir(&target, &place)?;
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        rustix::fs::unlinkat(&place.dir, place.name.as_str(), flags).map_err(failed)
    }

    /// Renames an entry over another; neither is followed. Asks `fs:write` of `from`, then of `to`, both before anything
    /// happens. The workspace root, and what it lies in, is refused on either side; and so is what a rule denies to write,
    /// where it is or where it would be, or to read, which another name would get around: the entry and everything in it.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FsError> {
        let source = self.movable(from)?;
        let target = self.movable(to)?;
        self.check(&source, "rename", from).await?;
        self.check(&target, "rename", to).await?;
        self.confirm(&source)?;
        self.confirm(&target)?;
        self.expect_none_denied(&source, Some(&target))?;
        let pins = &self.inner.pins;
        let old = pins.place(source.canonical()).map_err(|errno| source.parent_error(errno, "rename"))?;
        let new = pins.place(target.canonical()).map_err(|errno| target.parent_error(errno, "rename"))?;
        let moved = old.stat().map_err(|errno| source.entry_error(errno, "rename"))?;
        self.expect_dir(&source, &old)?;
        self.expect_dir(&target, &new)?;
        rustix::fs::renameat(&old.dir, old.name.as_str(), &new.dir, new.name.as_str())
            .map_err(|errno| target.entry_error(errno, "rename"))?;
        #[cfg(test)]
        self.inner.hooks.after_create();
        self.expect_dir(&target, &new).inspect_err(|_| {
            // Its new directory went elsewhere: it is put back, unless its old name is taken.
            if new.stat().is_ok_and(|now| now.same_file(&moved)) && old.stat() == Err(Errno::NOENT) {
                let _ = rustix::fs::renameat(&new.dir, new.name.as_str(), &old.dir, old.name.as_str());
            }
        })
    }

    /// Makes a link of this text. Asks `fs:write` of the entry `at`, then of what the link would lead to, both before
    /// anything happens. `Exists` when there is something. The text is kept as given: 1 to 4,096 units.
    pub async fn symlink(&self, text: &str, at: &str) -> Result<(), FsError> {
        if text.is_empty() {
            return Err(FsError::InvalidPath("the link's text is empty".to_owned()));
        }
        let entry = self.target(Action::FsWrite, at, false)?;
        let dir = super::path::parent(entry.canonical()).to_owned();
        let target = self.target_from(Some(&dir), Action::FsWrite, text, true)?;
        self.check(&entry, "symlink", at).await?;
        self.check(&target, "symlink", text).await?;
        self.confirm(&entry)?;
        self.confirm(&target)?;
        let place = self.inner.pins.place(entry.canonical()).map_err(|e| entry.parent_error(e, "symlink"))?;
        if place.name == "." {
            return Err(FsError::Exists);
        }
        rustix::fs::symlinkat(text, &place.dir, place.name.as_str())
            .map_err(|errno| entry.entry_error(errno, "symlink"))?;
        #[cfg(test)]
        self.inner.hooks.after_create();
        let made = place.stat().map_err(|errno| entry.entry_error(errno, "symlink"))?;
        let named = self.inner.pins.names(entry.canonical(), &made);
        if named == Ok(true) {
            return Ok(());
        }
        // Its directory went elsewhere, where the text may lead to something else: it is taken back.
        unlink_if(&place, &made);
        Err(match named {
            Err(errno) => FsError::host(errno, "symlink"),
            Ok(_) => entry.denied(reason::PATH_CHANGED),
        })
    }

    /// What is removed or moved with a directory is not asked for by itself, but a deny of it holds. With `to`, the rules
    /// of reading count as well, and those of writing where the entries would come to be.
    fn expect_none_denied(&self, from: &Target, to: Option<&Target>) -> Result<(), FsError> {
        let store = self.authority.store();
        let mut asked = vec![(Action::FsWrite, from)];
        if let Some(to) = to {
            asked.extend([(Action::FsRead, from), (Action::FsWrite, to)]);
        }
        let expect = |action: Action, canonical: &str| -> Result<(), FsError> {
            let resource = self.inner.roots.resource(canonical).ok();
            // What no capability names, no rule denies.
            match resource.and_then(|resource| Capability::new(action, resource)) {
                Some(cap) if store.decide(&CapabilitySet::unrestricted(), &cap) == Effect::Deny => {
                    Err(PermissionDenied::new(cap, PermissionDenied::BY_POLICY).into())
                }
                _ => Ok(()),
            }
        };
        asked.iter().try_for_each(|(action, target)| expect(*action, target.canonical()))?;
        asked.retain(|(action, target)| store.may_deny_below(*action, &target.resolved.resource));
        let mut todo = vec![String::new()];
        while let (Some(below), false) = (todo.pop(), asked.is_empty()) {
            let place = self.inner.pins.place(&format!("{}{below}", from.canonical()));
            let listed = place.and_then(|place| list(place.open(LIST, Mode::empty())?));
            let entries = match listed {
                Ok(entries) => entries,
                // No directory, or none any more.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::NXIO) => continue,
                Err(errno) => return Err(FsError::host(errno, "list")),
            };
            for entry in entries {
                let Some(name) = entry.name.to_str() else { continue };
                let path = format!("{below}/{name}");
                for (action, target) in &asked {
                    expect(*action, &format!("{}{path}", target.canonical()))?;
                }
                if entry.kind == Kind::Dir {
                    todo.push(path);
                }
            }
        }
        Ok(())
    }

    async fn ask_movable(&self, operation: &'static str, path: &str) -> Result<Target, FsError> {
        let target = self.movable(path)?;
        self.check(&target, operation, path).await?;
        self.confirm(&target)?;
        Ok(target)
    }

    /// An entry that may be moved or removed at all.
    fn movable(&self, path: &str) -> Result<Target, FsError> {
        let target = self.target(Action::FsWrite, path, false)?;
        if self.inner.roots.held_by(target.canonical()) {
            return Err(target.denied(reason::ROOT));
        }
        Ok(target)
    }
}

/// A directory that is being emptied.
struct Level {
    name: OsString,
    fd: Option<OwnedFd>,
    stat: Stat,
    left: Vec<OsString>,
}

impl Level {
    /// Removes what is no directory; what is one is left.
    fn open(name: OsString, fd: OwnedFd) -> Result<Self, FsError> {
        let stat = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
        let mut left = Vec::new();
        for entry in FileSystem::names(&fd)? {
            if entry.kind == Kind::Dir { left.push(entry.name) } else { unlink(fd.as_fd(), &entry.name)? }
        }
        Ok(Level { name, fd: Some(fd), stat: Stat::of(&stat), left })
    }
}

/// Whether the tree that is removed is still where it was.
type InPlace<'a> = &'a dyn Fn() -> Result<(), FsError>;

/// Empties a directory. Its depth costs neither stack nor descriptors. It stops when `in_place`, asked before each
/// directory, fails, and when a directory of the tree left the one that it was found in.
pub(super) fn remove_below(top: OwnedFd, in_place: InPlace<'_>) -> Result<(), FsError> {
    expect_in_tree(&[], &top, in_place)?;
    let mut levels = vec![Level::open(OsString::new(), top)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            let done = levels.pop();
            let (Some(done), false) = (done, levels.is_empty()) else { return Ok(()) };
            match rustix::fs::unlinkat(last_dir(&mut levels)?, &*done.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(errno) => return Err(FsError::host(errno, "remove")),
            }
        };
        let dir = last_dir(&mut levels)?;
        match open_entry(dir, &name, LIST, Mode::empty()) {
            Ok(fd) => {
                expect_in_tree(&levels, &fd, in_place)?;
                levels.push(Level::open(name, fd)?);
                if let Some(old) = levels.len().checked_sub(OPEN_LEVELS + 1).filter(|old| *old > 0) {
                    levels[old].fd = None;
                }
            }
            Err(Errno::NOENT) => {}
            // Something else took its place: remove that, as it is.
            Err(Errno::LOOP | Errno::NOTDIR) => unlink(dir, &name)?,
            Err(errno) => return Err(FsError::host(errno, "remove")),
        }
    }
    Ok(())
}

/// That a directory is still where the tree has it, before it is emptied.
fn expect_in_tree(levels: &[Level], dir: &OwnedFd, in_place: InPlace<'_>) -> Result<(), FsError> {
    #[cfg(test)]
    super::points::reach("level");
    in_place()?;
    let inner = levels.iter().skip(1).map(|level| level.fd.as_ref()).chain([Some(dir)]);
    for (above, dir) in levels.iter().zip(inner) {
        // One that was closed is looked at when it is opened again.
        if let Some(dir) = dir {
            expect_in(dir.as_fd(), &above.stat)?;
        }
    }
    Ok(())
}

/// That a directory is in this one.
fn expect_in(dir: BorrowedFd<'_>, above: &Stat) -> Result<(), FsError> {
    let parent = rustix::fs::statat(dir, "..", AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| FsError::host(errno, "stat"))?;
    if Stat::of(&parent).same_file(above) { Ok(()) } else { Err(moved()) }
}

fn moved() -> FsError {
    FsError::Changed("a directory moved while it was removed".to_owned())
}

/// The innermost directory, opened again from the nearest one that is open.
fn last_dir(levels: &mut [Level]) -> Result<BorrowedFd<'_>, FsError> {
    let open = levels.iter().rposition(|level| level.fd.is_some()).ok_or_else(moved)?;
    for index in open + 1..levels.len() {
        let (above, below) = levels.split_at_mut(index);
        let parent = above.last().and_then(|level| level.fd.as_ref()).ok_or_else(moved)?;
        let level = below.first_mut().ok_or_else(moved)?;
        let fd = open_entry(parent.as_fd(), &level.name, LIST, Mode::empty())
            .map_err(|errno| FsError::host(errno, "remove"))?;
        let now = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
        if !Stat::of(&now).same_file(&level.stat) {
            return Err(moved());
        }
        level.fd = Some(fd);
        // Of those opened on the way the innermost ones stay open.
        let keep = index + OPEN_LEVELS > levels.len();
        if let Some(passed) = levels.get_mut(index - 1).filter(|_| !keep && index > open + 1) {
            passed.fd = None;
        }
    }
    let above = levels.len().checked_sub(2).map(|above| levels[above].stat);
    let inner = levels.last().and_then(|level| level.fd.as_ref()).map(AsFd::as_fd).ok_or_else(moved)?;
    if let Some(above) = above {
        expect_in(inner, &above)?;
    }
    Ok(inner)
}

fn unlink(dir: BorrowedFd<'_>, name: &OsStr) -> Result<(), FsError> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(FsError::host(errno, "remove")),
    }
}
