//! The order of paths in an answer: whole strings by UTF-16 code units (search contract 4).

use flowcell_kernel::flows::canonical::utf16_cmp;
use std::cmp::Ordering;

/// A name as the walk sorts it: a directory counts as its name and a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortKey(String);

impl SortKey {
    pub(crate) fn new(name: &str, is_dir: bool) -> Self {
        let mut key = String::with_capacity(name.len() + 1);
        key.push_str(name);
        if is_dir {
            key.push('/');
        }
        Self(key)
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        utf16_cmp(&self.0, &other.0)
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
