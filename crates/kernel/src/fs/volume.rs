//! What a volume says of its names, and the spelling that it has for one (kernel contract 6.1, c).
//!
//! A volume that folds case, or Unicode forms, or that drops trailing dots, answers to names that it does not list. Rules
//! name what is listed, so a path is asked for by the listed spelling.

use std::ffi::OsString;
use std::fmt;

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use super::path::child;
use super::resolve::ResolveError;
use super::stat::Stat;

/// The three looks at a volume that resolution takes. It opens nothing by them.
pub(crate) trait Volume: fmt::Debug + Send + Sync {
    /// The metadata of an entry; a link is not followed.
    fn stat(&self, path: &str) -> Result<Stat, Errno>;
    /// The text of a link.
    fn read_link(&self, path: &str) -> Result<Vec<u8>, Errno>;
    /// The names in a directory, each with its inode as the listing has it.
    fn list(&self, dir: &str) -> Result<Vec<(OsString, u64)>, Errno>;
}

/// The volumes that the host has mounted.
#[derive(Debug)]
pub(crate) struct Mounted;

impl Volume for Mounted {
    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Stat::of(&stat))
    }

    fn read_link(&self, path: &str) -> Result<Vec<u8>, Errno> {
        rustix::fs::readlinkat(CWD, path, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    fn list(&self, dir: &str) -> Result<Vec<(OsString, u64)>, Errno> {
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let entries = std::fs::read_dir(dir).map_err(errno)?;
        entries
            .map(|entry| {
                let entry = entry.map_err(errno)?;
                Ok((entry.file_name(), std::os::unix::fs::DirEntryExt::ino(&entry)))
            })
            .collect()
    }
}

/// The spelling that a directory has for the entry that answered to `name` with `stat`.
///
/// The name is its own spelling unless the directory may fold it: it answers to the other case too; the name is not ASCII,
/// and no second spelling of it would show each way there is to fold it; or it has no letter to try, and one of the marks
/// by which hosts give an entry a second name. Then the listing decides. What the listing does not say is refused.
pub(super) fn on_disk(
    volume: &dyn Volume,
    dir: &str,
    name: &str,
    stat: &Stat,
) -> Result<String, ResolveError> {
    let other = other_case(name);
    let folds = other != name && volume.stat(&child(dir, &other)).is_ok_and(|other| other.same_file(stat));
    let marked = other == name && (name.ends_with(['.', ' ']) || name.contains('~'));
    if !folds && name.is_ascii() && !marked {
        return Ok(name.to_owned());
    }
    let listing = match volume.list(dir) {
        Ok(listing) => listing,
        Err(errno) if folds => return Err(ResolveError::Host(errno)),
        // Nothing says that it is spelled otherwise.
        Err(_) => return Ok(name.to_owned()),
    };
    if listing.iter().any(|(entry, _)| entry == name) {
        return Ok(name.to_owned());
    }
    let wanted = folded(name);
    let alike = |entry: &OsString| entry.to_str().is_some_and(|entry| folded(entry) == wanted);
    // The inode of a listing is not that of the file everywhere, so that a name that is alike goes before it.
    let named = listing.iter().find(|(entry, ino)| *ino == stat.ino && alike(entry));
    let named = named.or_else(|| listing.iter().find(|(entry, _)| folds && alike(entry)));
    let found = match named {
        Some((entry, _)) => entry,
        None => {
            let mut same = listing.iter().filter(|(_, ino)| *ino == stat.ino);
            match (same.next(), same.next()) {
                (Some((entry, _)), None) => entry,
                // Of several names of one file it could be either.
                (Some(_), Some(_)) => return Err(ResolveError::Spelling),
                // Gone since it was looked at, or nowhere listed.
                (None, _) => return Err(ResolveError::Host(Errno::NOENT)),
            }
        }
    };
    found.to_str().map(str::to_owned).ok_or(ResolveError::NotUtf8)
}

/// The name with its ASCII letters in the other case.
fn other_case(name: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    name.chars().map(swap).collect()
}

/// The text without differences of case, by each character's own mappings: `ß` is `ss`, the long s and the Kelvin sign are
/// the letters they stand for. It orders candidates; it grants nothing.
fn folded(name: &str) -> String {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
#[path = "volume_tests.rs"]
pub(super) mod tests;
