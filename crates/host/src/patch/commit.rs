//! The writes of a patch: all of them, or none (host contract 6).

use super::preflight::{Entry, Plan, Step, Write};
use super::undo::Undo;
use crate::failure::{Access, failure};
use crate::kernel::HandlerError;
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::fs::{FileSystem, FsError, Stat, is_inside};
use crate::now::now;

/// Takes every step, in order. When one fails the ones before it are undone, in reverse.
///
/// It runs to its end in one go: nothing in it waits, so a call that is dropped or cancelled finds it done, undone or not
/// begun. Everything was permitted before, so what would wait for an answer had its permission taken back since, and fails.
pub(crate) fn commit(plan: &Plan<'_>) -> Result<(), HandlerError> {
    let mut done = Vec::new();
    for step in &plan.steps {
        let Err(failure) = take(&plan.files, step, &mut done) else { continue };
        let (path, error) = *failure;
        let left: Vec<String> =
            done.iter().rev().filter_map(|undo: &Undo<'_>| undo.run(&plan.files).err()).collect();
        return Err(failed(path, error, &left));
    }
    Ok(())
}

fn failed(path: &str, error: FsError, left: &[String]) -> HandlerError {
    let error = failure(Access::Writing, path, error);
    if left.is_empty() {
        return error;
    }
    let message = format!("{error} These paths are left changed: {}.", left.join(", "));
    let code = match &error {
        HandlerError::Flow(StdError { code, .. }) => *code,
        // A person who decides does not bring the tree back.
        HandlerError::Permission(_) | HandlerError::Cancelled => Code::CommandFailed,
    };
    StdError::new(code, message).with_path(path).into()
}

/// The path at fault, as written, and why.
type Failed<'p> = Box<(&'p str, FsError)>;

/// Takes one step, and notes what undoes it. The path at fault, where it fails.
fn take<'p>(files: &FileSystem, step: &'p Step<'p>, done: &mut Vec<Undo<'p>>) -> Result<(), Failed<'p>> {
    match step {
        Step::Write { update, write } => put(files, write, *update, done),
        Step::Remove(entry) => drop_entry(files, entry, done),
        Step::Move { write, mode, source } => {
            move_to(files, write, *mode, done)?;
            drop_entry(files, source, done)
        }
    }
}

/// Writes a file.
fn put<'p>(
    files: &FileSystem,
    write: &'p Write<'p>,
    update: bool,
    done: &mut Vec<Undo<'p>>,
) -> Result<(), Failed<'p>> {
    let seen = write.old.as_ref().map(|old| old.seen);
    if !update {
        parents(files, &write.place, done);
    }
    // The path, not the place: a link that leads elsewhere by now is refused.
    match now(files.replace(write.path, &write.bytes, seen, !update)) {
        Ok(replaced) => {
            done.push(Undo::of(write, replaced.created));
            Ok(())
        }
        Err(error) => {
            // What was written in place may have been written in part.
            if let (FsError::Io { .. }, Some(_)) = (&error, &write.old) {
                done.push(Undo::of(write, false));
            }
            Err(Box::new((write.path, error)))
        }
    }
}

/// Writes the file that another one moves to, with that one's mode.
fn move_to<'p>(
    files: &FileSystem,
    write: &'p Write<'p>,
    mode: u32,
    done: &mut Vec<Undo<'p>>,
) -> Result<(), Failed<'p>> {
    let failed = |error| Box::new((write.path, error));
    match &write.old {
        // A new file is made empty first, so that nobody reads in it what the old one's mode kept from them.
        None => {
            parents(files, &write.place, done);
            let replaced = now(files.replace(write.path, b"", None, true)).map_err(failed)?;
            done.push(Undo::of(write, replaced.created));
            now(files.set_mode(write.path, mode)).map_err(failed)?;
            let made = now(files.metadata(&write.place)).map_err(failed)?;
            now(files.replace(write.path, &write.bytes, Some(made), false)).map_err(failed)?;
        }
        Some(old) => {
            // A mode that lets fewer people read comes before what they may not read; of a file of more names, which no
            // mode is set of, after the name is a file of its own.
            let first = old.seen.mode != mode && old.seen.nlink == 1;
            if first {
                let stat = now(files.metadata(write.path)).map_err(failed)?;
                if !stat.same_version(&old.seen) {
                    return Err(failed(changed()));
                }
                now(files.set_mode(write.path, mode)).map_err(failed)?;
                done.push(Undo::Mode { path: write.path, place: &write.place, mode: old.seen.mode });
            }
            put(files, write, true, done)?;
            if !first && old.seen.mode != mode {
                now(files.set_mode(write.path, mode)).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// Removes an entry that is still what was looked at.
fn drop_entry<'p>(
    files: &FileSystem,
    entry: &'p Entry<'p>,
    done: &mut Vec<Undo<'p>>,
) -> Result<(), Failed<'p>> {
    let failed = |error| Box::new((entry.path, error));
    let same = |now: &Stat, then: &Stat| now.same_version(then) && now.kind == then.kind;
    let stat = now(files.symlink_metadata(entry.path)).map_err(failed)?;
    let mut unchanged = same(&stat, &entry.seen);
    if let Some(read) = &entry.read {
        unchanged &= same(&now(files.metadata(entry.path)).map_err(failed)?, read);
    }
    if !unchanged {
        return Err(failed(changed()));
    }
    now(files.remove(entry.path)).map_err(failed)?;
    done.push(Undo::Revive { entry });
    Ok(())
}

fn changed() -> FsError {
    FsError::Changed("the file changed during the call".to_owned())
}

/// Notes the directories that a write is about to make: those on the way to the place that are not there. What the call may
/// not look at counts as there.
fn parents(files: &FileSystem, place: &str, done: &mut Vec<Undo<'_>>) {
    let mut dirs = Vec::new();
    let root = files.workspace().logical();
    let mut at = place;
    while let Some((parent, _)) = at.rsplit_once('/') {
        at = parent;
        if at.is_empty() || is_inside(at, root) || !files.permitted(at) {
            break;
        }
        match now(files.symlink_metadata(at)) {
            Err(FsError::NotFound) => dirs.push(at.to_owned()),
            _ => break,
        }
    }
    if !dirs.is_empty() {
        done.push(Undo::Parents { dirs });
    }
}
