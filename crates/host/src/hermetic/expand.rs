//! Declared paths as they exist: what a rule set of the host's kernel can name (host contract 5.2).

use std::fs;

use super::cover::{Declared, segment};

/// Paths that the globs of one call may come to.
pub const MAX_EXPANDED: usize = 4_096;

/// The declared paths with their globs expanded over what exists now, in the order of the entries and of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// Absolute paths. One without a glob is here whether it exists or not.
    pub paths: Vec<String>,
    /// Whether there were more than [`MAX_EXPANDED`].
    pub cut: bool,
}

impl Expanded {
    /// Expands the globs of declared entries; `place` says where an entry's directory really is. A trailing `/**` stands
    /// for the directory before it, from which what is beneath is reached.
    #[must_use]
    pub fn of(declared: &Declared, place: impl Fn(&str) -> String) -> Self {
        let mut out = Self::default();
        for entry in declared.entries() {
            let pattern = entry.strip_suffix("/**").unwrap_or(entry);
            let mut found = vec![String::new()];
            for name in pattern.split('/').filter(|name| !name.is_empty()) {
                if !name.contains('*') {
                    found.iter_mut().for_each(|path| {
                        path.push('/');
                        path.push_str(name);
                    });
                    continue;
                }
                let mut next = Vec::new();
                for path in found {
                    for child in names(&place(&path)) {
                        if next.len() > MAX_EXPANDED {
                            out.cut = true;
                            break;
                        }
                        if segment(name.as_bytes(), child.as_bytes()) {
                            next.push(format!("{path}/{child}"));
                        }
                    }
                }
                found = next;
            }
            for path in found {
                let path = if path.is_empty() { "/".to_owned() } else { path };
                out.paths.push(place(&path));
            }
        }
        out.cut |= out.paths.len() > MAX_EXPANDED;
        out.paths.truncate(MAX_EXPANDED);
        out
    }
}

/// The names of a directory that are text, sorted; none where it cannot be read. A hidden name is one too.
fn names(path: &str) -> Vec<String> {
    let path = if path.is_empty() { "/" } else { path };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).take(MAX_EXPANDED * 4).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_become_what_exists() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/x.rs", "a/y.rs", "a/z.py", "b/x.rs"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let root = dir.path().to_str().unwrap();
        let expand = |entries: &[&str]| {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let expanded =
                Expanded::of(&Declared::new(&entries, "/ws"), |path| match path.strip_prefix("/ws") {
                    Some(rest) => format!("{root}{rest}"),
                    None => path.to_owned(),
                });
            assert!(!expanded.cut);
            expanded.paths.iter().map(|path| path.replace(root, "R")).collect::<Vec<_>>()
        };
        assert_eq!(expand(&["a/*.rs", "new", "b/**"]), ["R/a/x.rs", "R/a/y.rs", "R/new", "R/b"]);
        assert_eq!(expand(&["*/x.rs", "/**", "nothing/*"]), ["R/a/x.rs", "R/b/x.rs", "/"]);
    }
}
