//! Declared paths and what they cover (host contract 5.1, rule 1).

use crate::kernel::fs::lexical;

/// The declared paths of one kind, `reads` or `writes`, resolved as text against the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    entries: Vec<String>,
}

impl Declared {
    /// The entries, each an absolute path without `.`, `..`, repeated or trailing slashes; `*` stays.
    #[must_use]
    pub fn new(entries: &[String], cwd: &str) -> Self {
        Declared { entries: entries.iter().map(|entry| lexical(cwd, entry)).collect() }
    }

    /// The resolved entries in their order.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Whether an absolute normal path is covered: an entry covers itself, all beneath it, and what its glob covers with
    /// all beneath that. `*` stands for characters of one segment; a trailing `/**` for all beneath what is before it.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| covers(entry, path))
    }
}

fn covers(entry: &str, path: &str) -> bool {
    let literal =
        path == entry || entry == "/" || path.strip_prefix(entry).is_some_and(|rest| rest.starts_with('/'));
    if literal || !entry.contains('*') {
        return literal;
    }
    let (pattern, below) = match entry.strip_suffix("/**") {
        Some(front) => (front, true),
        None => (entry, false),
    };
    let mut names = segments(path);
    for pattern in segments(pattern) {
        match names.next() {
            Some(name) if segment(pattern.as_bytes(), name.as_bytes()) => {}
            _ => return false,
        }
    }
    !below || names.next().is_some()
}

/// The names of an absolute normal path; the root has none.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Whether a name matches a pattern in which `*` stands for any run of bytes.
pub(super) fn segment(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            back = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            p += 1;
            n += 1;
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            p = star + 1;
            n = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_itself_what_is_beneath_and_its_glob() {
        for (entry, path, expected) in [
            ("a", "/ws/a", true),
            ("a", "/ws/a/b/c", true),
            ("a", "/ws/ab", false),
            (".", "/ws/x", true),
            ("..", "/other", true),
            ("/", "/etc", true),
            ("src/*.rs", "/ws/src/a.rs", true),
            ("src/*.rs", "/ws/src/a.rs/b", true),
            ("src/*.rs", "/ws/src/d/a.rs", false),
            ("src/*.rs", "/ws/src/a.py", false),
            ("*/a", "/ws/b/a", true),
            ("src/**", "/ws/src/a/b", true),
            ("src/**", "/ws/src", false),
            ("src/**", "/ws/src/**", true),
            ("/**", "/etc/passwd", true),
            ("a*b*c", "/ws/a1b2b3c", true),
            ("a*b*c", "/ws/a1b2b3", false),
        ] {
            let declared = Declared::new(&[entry.to_owned()], "/ws");
            assert_eq!(declared.covers(path), expected, "{entry:?} {path:?}");
        }
        assert!(!Declared::new(&[], "/ws").covers("/ws"));
    }
}
