//! What undoes the finished steps of a patch (host contract 6).

use super::preflight::{Entry, Kept, Old, Write};
use crate::kernel::fs::{FileSystem, FsError, Stat};
use crate::now::now;

/// One change that was made, and what brings back what was there.
pub(crate) enum Undo<'p> {
    /// A file that was there holds other bytes.
    Restore { path: &'p str, place: &'p str, old: &'p Old },
    /// A file has another mode.
    Mode { path: &'p str, place: &'p str, mode: u32 },
    /// A file was made.
    Unmake { path: &'p str, place: &'p str },
    /// A file that somebody else made meanwhile was overwritten.
    Lost { path: &'p str },
    /// An entry was removed.
    Revive { entry: &'p Entry<'p> },
    /// Directories may have been made, the deepest one first.
    Parents { dirs: Vec<String> },
}

impl<'p> Undo<'p> {
    /// What undoes a write that was done, or that may have been done in part.
    pub(crate) fn of(write: &'p Write<'p>, created: bool) -> Self {
        match &write.old {
            Some(old) => Undo::Restore { path: write.path, place: &write.place, old },
            None if created => Undo::Unmake { path: write.path, place: &write.place },
            None => Undo::Lost { path: write.path },
        }
    }

    /// Undoes it. The path that stays changed, where that fails.
    pub(crate) fn run(&self, files: &FileSystem) -> Result<(), String> {
        match self {
            Undo::Restore { path, place, old } => restore(files, place, old).map_err(|_| (*path).to_owned()),
            Undo::Mode { path, place, mode } => {
                now(files.set_mode(place, *mode)).map(drop).map_err(|_| (*path).to_owned())
            }
            Undo::Unmake { path, place } => match now(files.remove(place)) {
                Ok(()) | Err(FsError::NotFound) => Ok(()),
                Err(_) => Err((*path).to_owned()),
            },
            Undo::Lost { path } => Err((*path).to_owned()),
            Undo::Revive { entry } => revive(files, entry).map_err(|_| entry.path.to_owned()),
            Undo::Parents { dirs } => {
                for dir in dirs {
                    match now(files.remove(dir)) {
                        Ok(()) | Err(FsError::NotFound) => {}
                        // Somebody else's files are in it by now.
                        Err(FsError::Io { .. } | FsError::Exists) => break,
                        Err(_) => return Err(dir.clone()),
                    }
                }
                Ok(())
            }
        }
    }
}

/// The bytes and the mode that a file had.
fn restore(files: &FileSystem, place: &str, old: &Old) -> Result<(), FsError> {
    if let Err(error) = now(files.replace(place, &old.bytes, None, false)) {
        // A full disk has no room for a second copy; the file itself has.
        let FsError::Io { .. } = error else { return Err(error) };
        now(files.write(place, &old.bytes))?;
    }
    let stat = now(files.metadata(place))?;
    if stat.mode != old.seen.mode {
        now(files.set_mode(place, old.seen.mode))?;
    }
    expect_owner(&now(files.metadata(place))?, &old.seen)
}

fn revive(files: &FileSystem, entry: &Entry<'_>) -> Result<(), FsError> {
    match &entry.kept {
        None => Err(FsError::NotFound),
        Some(Kept::Link(text)) => now(files.symlink(text, &entry.place)),
        Some(Kept::File(bytes)) => {
            now(files.create_new(&entry.place, bytes, entry.seen.mode))?;
            let made = now(files.metadata(&entry.place))?;
            if made.mode != entry.seen.mode {
                now(files.set_mode(&entry.place, entry.seen.mode))?;
            }
            expect_owner(&made, &entry.seen)
        }
    }
}

/// A file that came back as somebody else's is changed.
fn expect_owner(now: &Stat, then: &Stat) -> Result<(), FsError> {
    if (now.uid, now.gid) == (then.uid, then.gid) {
        Ok(())
    } else {
        Err(FsError::Changed("the file has another owner".to_owned()))
    }
}
