//! A directory's entries in their order, page by page (host contract 4).

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};

use crate::kernel::flows::canonical::utf16_cmp;
use crate::kernel::flows::ls::MAX_ENTRIES;
use crate::page::PastEnd;

/// A directory's entry as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; a directory's ends in a slash. What is not UTF-8 in it reads U+FFFD.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub directory: bool,
    raw: OsString,
}

impl Entry {
    /// An entry of this name.
    #[must_use]
    pub fn new(raw: OsString, directory: bool) -> Self {
        let mut name = raw.to_string_lossy().into_owned();
        if directory {
            name.push('/');
        }
        Self { name, directory, raw }
    }

    /// The name as the host gave it.
    #[must_use]
    pub fn raw(&self) -> &OsStr {
        &self.raw
    }

    /// Directories first; inside a kind by the displayed name in UTF-16 code units, then by the name's own bytes.
    fn order(&self, other: &Self) -> Ordering {
        other
            .directory
            .cmp(&self.directory)
            .then_with(|| utf16_cmp(&self.name, &other.name))
            .then_with(|| self.raw.cmp(&other.raw))
    }
}

/// One page of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The entries of the page.
    pub entries: Vec<Entry>,
    /// Entries of the whole directory.
    pub total: u64,
    /// Whether entries remain after the page.
    pub truncated: bool,
    /// Says what remains; there exactly when `truncated`.
    pub notice: Option<String>,
}

/// Orders the entries of a directory and takes the page that starts at entry `offset` (from 1) and has at most `limit`
/// entries, never more than [`MAX_ENTRIES`]. Zero counts as 1 for both.
///
/// # Errors
///
/// [`PastEnd`] when `offset` is over the number of entries, or over 1 for an empty directory.
pub fn list(mut entries: Vec<Entry>, offset: u64, limit: u64) -> Result<Listing, PastEnd> {
    let total = entries.len() as u64;
    let (offset, limit) = (offset.max(1), limit.clamp(1, MAX_ENTRIES));
    if offset > total.max(1) {
        return Err(PastEnd { offset, total, what: "the directory", unit: "entries" });
    }
    entries.sort_by(Entry::order);
    let last = (offset - 1).saturating_add(limit).min(total);
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(entries.len());
    let (from, to) = (index(offset - 1), index(last));
    entries.truncate(to);
    entries.drain(..from);
    let truncated = last < total;
    let notice = truncated
        .then(|| format!("Entries {offset}-{last} of {total} shown; continue at offset {}.", last + 1));
    Ok(Listing { entries, total, truncated, notice })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn names(entries: &[(&str, bool)]) -> Vec<String> {
        let entries = entries.iter().map(|(name, directory)| Entry::new(name.into(), *directory)).collect();
        list(entries, 1, 1_000).unwrap().entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn directories_first_then_utf16_order_of_what_is_shown() {
        assert_eq!(names(&[("m", false), ("a", false), ("z", true)]), ["z/", "a", "m"]);
        assert_eq!(names(&[("a", true), ("a-b", true)]), ["a-b/", "a/"]);
        assert_eq!(names(&[("\u{ff5e}", false), ("\u{1f600}", false)]), ["\u{1f600}", "\u{ff5e}"]);
    }

    #[test]
    fn names_that_are_not_utf8_are_shown_lossy() {
        let raw = |byte: u8| OsString::from_vec(vec![b'a', byte]);
        let listing = list(vec![Entry::new(raw(0xff), false), Entry::new(raw(0xfe), true)], 1, 5).unwrap();
        assert_eq!(listing.entries[0].name, "a\u{fffd}/");
        assert_eq!(listing.entries[1].raw(), raw(0xff));
    }

    #[test]
    fn pages_say_where_to_go_on() {
        let entries: Vec<_> = (0..5).map(|n| Entry::new(format!("f{n}").into(), false)).collect();
        let listing = list(entries.clone(), 2, 2).unwrap();
        assert_eq!(listing.notice.as_deref(), Some("Entries 2-3 of 5 shown; continue at offset 4."));
        assert_eq!((listing.total, listing.truncated, listing.entries.len()), (5, true, 2));
        let last = list(entries.clone(), 5, u64::MAX).unwrap();
        assert_eq!((last.truncated, last.notice, last.entries.len()), (false, None, 1));
        assert!(list(entries, 6, 1).is_err());
        assert!(list(Vec::new(), 1, 1).unwrap().entries.is_empty());
        let error = list(Vec::new(), 2, 1).unwrap_err();
        assert_eq!(error.to_string(), "offset 2 is past the end: the directory has 0 entries");
        let many: Vec<_> = (0..1_001).map(|n| Entry::new(format!("{n}").into(), false)).collect();
        let page = list(many, 1, 5_000).unwrap();
        assert_eq!((page.entries.len(), page.truncated), (1_000, true));
    }
}
