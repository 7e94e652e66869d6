//! What stands where a missing file was looked for (host contract 1).

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};

use crate::distance::Pattern;
use crate::kernel::flows::canonical::utf16_cmp;
use crate::kernel::fs::{DirEntry, FileSystem, FsError, Kind};

/// Entries that a listing names at most.
pub const MAX_NAMES: usize = 12;

/// What the nearest directory of a missing path holds, closest name first: `src holds: main.rs, mod.rs, lib.rs.`
///
/// There is none for an absolute path, for one with a `..` segment, when the directory holds no name that does not start
/// with a dot, and when the directory may not be read. Nobody is asked: what the authority behind `files` does not allow
/// outright is not looked at.
pub async fn suggest(files: &FileSystem, path: &str) -> Option<String> {
    let segments = segments(path)?;
    // Segments from here on down were not looked at, because the authority does not reach there.
    let mut unseen = None;
    for depth in (0..segments.len()).rev() {
        let directory = match segments.get(..depth)? {
            [] => ".".to_owned(),
            prefix => prefix.join("/"),
        };
        if !files.permitted(&directory) {
            unseen = Some(depth);
            continue;
        }
        let entries = match files.read_dir(&directory).await {
            Ok(entries) => entries,
            Err(FsError::NotFound | FsError::NotADirectory) => {
                unseen = None;
                continue;
            }
            Err(_) => return None,
        };
        let wanted = segments.get(depth)?;
        if unseen == Some(depth + 1) && may_be_directory(&entries, wanted) {
            return None;
        }
        let names = entries.into_iter().map(|entry| entry.name).collect();
        let label = if depth == 0 { "The workspace root" } else { &directory };
        return sentence(label, names, wanted);
    }
    None
}

/// The segments of a relative path without `.` and empty ones; `None` for a path that gets no listing.
fn segments(path: &str) -> Option<Vec<&str>> {
    if path.starts_with('/') {
        return None;
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    (!segments.is_empty() && !segments.contains(&"..")).then_some(segments)
}

fn may_be_directory(entries: &[DirEntry], name: &str) -> bool {
    entries
        .iter()
        .any(|entry| entry.name == OsStr::new(name) && matches!(entry.kind, Kind::Dir | Kind::Symlink))
}

/// `{directory} holds: {names}.`, the names that do not start with a dot in their order, cut to [`MAX_NAMES`]; `None`
/// when there is no such name.
fn sentence(directory: &str, names: Vec<OsString>, wanted: &str) -> Option<String> {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    let total = names.len();
    let shown = closest(names, wanted, MAX_NAMES);
    if shown.is_empty() {
        return None;
    }
    let more = match total - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{directory} holds: {}{more}.", shown.join(", ")))
}

/// The `count` names closest to `wanted`, closest first: the longest common prefix, then the smallest Levenshtein distance,
/// both of the lowercased names, then UTF-16 order.
///
/// Distances matter among names of one prefix only, and only while there is room. They are taken without that prefix, which
/// does not change them.
fn closest(names: Vec<String>, wanted: &str, count: usize) -> Vec<String> {
    let wanted: Vec<char> = lowercase(wanted).collect();
    let mut ranked: Vec<(usize, String)> = names
        .into_iter()
        .map(|name| (lowercase(&name).zip(&wanted).take_while(|(a, b)| a == *b).count(), name))
        .collect();
    ranked.sort_by_key(|(common, _)| Reverse(*common));
    let mut shown = Vec::with_capacity(count.min(ranked.len()));
    for group in ranked.chunk_by(|a, b| a.0 == b.0) {
        let room = count - shown.len();
        let common = group.first().map_or(0, |(common, _)| *common);
        if room == 0 {
            break;
        }
        let pattern = Pattern::new(wanted.iter().skip(common).copied());
        let mut group: Vec<(usize, &String)> =
            group.iter().map(|(_, name)| (pattern.distance(lowercase(name).skip(common)), name)).collect();
        group.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| utf16_cmp(a.1, b.1)));
        shown.extend(group.into_iter().take(room).map(|(_, name)| name.clone()));
    }
    shown
}

/// Lowercase scalar by scalar, so that no letter depends on its neighbours.
fn lowercase(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> Vec<OsString> {
        names.iter().map(OsString::from).collect()
    }

    fn ordered(names: Vec<OsString>, wanted: &str) -> Vec<String> {
        let count = names.len();
        closest(names.into_iter().map(|name| name.into_string().unwrap()).collect(), wanted, count)
    }

    /// The order of the contract, by the table of distances of every name.
    fn plain(mut names: Vec<String>, wanted: &str) -> Vec<String> {
        let wanted: String = lowercase(wanted).collect();
        names.sort_by_cached_key(|name| {
            let lower: String = lowercase(name).collect();
            let common = lower.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
            let units: Vec<u16> = name.encode_utf16().collect();
            (Reverse(common), strsim::levenshtein(&lower, &wanted), units)
        });
        names
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_first_names_are_those_of_the_whole_order(
            names in proptest::collection::hash_set("[abAB\u{e9}\u{ff5e}\u{1f600}\u{130}]{1,6}", 0..40),
            wanted in "[abAB\u{e9}\u{130}]{1,6}",
            count in 0..14_usize,
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let mut expected = plain(names.clone(), &wanted);
            expected.truncate(count);
            prop_assert_eq!(closest(names, &wanted, count), expected);
        }
    }

    /// Names of a hostile folder: as long as a host allows, nothing in common with what was looked for. A table of each
    /// would take 600 million steps, which shows in how long the suite takes.
    #[test]
    fn many_long_names_cost_little() {
        let names: Vec<OsString> =
            (0..10_000).map(|n| format!("{n:05}{}", "xy".repeat(120)).into()).collect();
        let wanted = "ab".repeat(125);
        let shown = sentence("d", names, &wanted).unwrap();
        assert!(shown.starts_with("d holds: 00000xy") && shown.ends_with(" and 9988 more."), "{shown}");
    }

    #[test]
    fn the_closest_name_comes_first() {
        assert_eq!(
            sentence("src", names(&["lib.rs", "mod.rs", "main.rs"]), "mian.rs").unwrap(),
            "src holds: main.rs, mod.rs, lib.rs."
        );
        assert_eq!(ordered(names(&["abd", "ABC", "ab", "b"]), "aBc"), ["ABC", "ab", "abd", "b"]);
        // Both share no prefix and are at one distance: UTF-16 order, where a surrogate pair comes first.
        assert_eq!(ordered(names(&["\u{ff5e}", "\u{1f600}"]), "a"), ["\u{1f600}", "\u{ff5e}"]);
        // A sigma at the end of a word is lowercased like any other.
        assert_eq!(ordered(names(&["ΟΔΟς", "ΟΔΟΣ"]), "οδοσ"), ["ΟΔΟΣ", "ΟΔΟς"]);
    }

    #[test]
    fn twelve_names_at_most() {
        let many: Vec<String> = (10..25).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            sentence("The workspace root", names(&many), "x").unwrap(),
            "The workspace root holds: 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 and 3 more."
        );
        assert!(!sentence("d", names(&many[..12]), "x").unwrap().contains("more"));
        assert_eq!(sentence("d", names(&[".git", ".x"]), "x"), None);
        assert_eq!(sentence("d", names(&["a", ".x"]), "x").unwrap(), "d holds: a.");
    }

    #[test]
    fn only_relative_paths_that_stay_below() {
        assert_eq!(segments("/a"), None);
        assert_eq!(segments("../a"), None);
        assert_eq!(segments("a/../b"), None);
        assert_eq!(segments("./"), None);
        assert_eq!(segments(".//a/./b/"), Some(vec!["a", "b"]));
        assert_eq!(segments("...").unwrap(), ["..."]);
    }
}
