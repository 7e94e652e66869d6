//! `.gitignore` files as git reads them, by the `ignore` crate (host contract 8, search contract 4.1).
//!
//! Where the crate and git differ, git wins: each line is read by itself, braces are literal, only trailing spaces are
//! dropped, and a line that is not UTF-8 spoils only itself.

use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Bytes of a `.gitignore` that is read; a longer one counts as unreadable.
pub(super) const MAX_BYTES: u64 = 1 << 20;
/// Lines of a `.gitignore` that is read. What a repository says of itself is not to cost minutes.
const MAX_LINES: usize = 20_000;

/// The rules of a directory and of those above it.
#[derive(Debug)]
pub(super) struct Rules {
    own: Gitignore,
    /// Bytes of the directory's path and its slash.
    prefix: usize,
    above: Option<Arc<Rules>>,
}

impl Rules {
    /// Adds the rules of the file in a directory, which is at `path`.
    pub(super) fn with(above: Option<Arc<Rules>>, path: &str, bytes: &[u8]) -> Option<Arc<Self>> {
        match parse(bytes) {
            Some(own) => {
                let prefix = if path.is_empty() { 0 } else { path.len() + 1 };
                Some(Arc::new(Rules { own, prefix, above }))
            }
            None => above,
        }
    }

    /// Whether an entry below is ignored: the deepest file that says something decides.
    pub(super) fn ignores(&self, path: &str, is_dir: bool) -> bool {
        let below = path.get(self.prefix..).unwrap_or_default();
        match self.own.matched(below, is_dir) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self.above.as_ref().is_some_and(|above| above.ignores(path, is_dir)),
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Gitignore> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.len() > MAX_LINES {
        return None;
    }
    // Paths are given relative to the file's own directory.
    let mut builder = GitignoreBuilder::new(".");
    for line in lines {
        if let Some(line) = translate(line) {
            // A line that the crate cannot use is skipped, as git skips it.
            let _ = builder.add_line(None, &line);
        }
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// A line of git's as a line of the crate's.
fn translate(line: &[u8]) -> Option<String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Git's lines are C strings.
    let line = line.split(|byte| *byte == 0).next().unwrap_or(line);
    let line = trim_spaces(std::str::from_utf8(line).ok()?);
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut out = String::with_capacity(line.len() + 8);
    let mut chars = line.chars().peekable();
    let mut class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push('\\');
                // A backslash at the end spoils the pattern.
                out.push(chars.next()?);
            }
            '{' | '}' if !class => {
                out.push('\\');
                out.push(c);
            }
            '[' if !class => {
                class = closes(chars.clone());
                out.push('[');
                // What comes first in a class is in it.
                if class && let Some(mark) = chars.next_if(|c| matches!(c, '!' | '^')) {
                    out.push(mark);
                }
                if class && let Some(first) = chars.next_if_eq(&']') {
                    out.push(first);
                }
            }
            ']' if class => {
                class = false;
                out.push(']');
            }
            // The crate drops blanks at the end; what is no space is kept here, inside a class.
            c if c.is_whitespace() && c != ' ' && chars.peek().is_none() => {
                out.push('[');
                out.push(c);
                out.push(']');
            }
            c => out.push(c),
        }
    }
    Some(out)
}

/// Whether the class that was opened ends.
fn closes(rest: impl Iterator<Item = char>) -> bool {
    let mut rest = rest.peekable();
    let _ = rest.next_if(|c| matches!(c, '!' | '^'));
    let _ = rest.next_if_eq(&']');
    let mut escaped = false;
    rest.any(|c| match c {
        _ if escaped => {
            escaped = false;
            false
        }
        '\\' => {
            escaped = true;
            false
        }
        c => c == ']',
    })
}

/// Drops trailing spaces that no backslash protects.
fn trim_spaces(line: &str) -> &str {
    let mut end = line.len();
    while line[..end].ends_with(' ') {
        let before = &line[..end - 1];
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            break;
        }
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(file: &[u8], path: &str, is_dir: bool) -> bool {
        Rules::with(None, "", file).is_some_and(|rules| rules.ignores(path, is_dir))
    }

    #[test]
    fn the_deepest_file_decides() {
        let top = Rules::with(None, "", b"*.log\n/b\n");
        let below = Rules::with(top.clone(), "d", b"!keep.log\n/c\n").unwrap();
        assert!(below.ignores("d/a.log", false) && !below.ignores("d/keep.log", false));
        assert!(below.ignores("d/c", false) && !below.ignores("d/b", false) && below.ignores("b", false));
        assert!(Arc::ptr_eq(&Rules::with(top.clone(), "d", b"# nothing\n").unwrap(), &top.unwrap()));
        assert!(Rules::with(None, "", "a\n".repeat(MAX_LINES + 1).as_bytes()).is_none());
    }

    #[test]
    fn lines_are_git_s() {
        for (file, path, expected) in [
            (&b"*.log\n"[..], "a/b.log", true),
            (b"*.log\r\n", "a.log", true),
            (b"\xef\xbb\xbf*.log", "a.log", true),
            (b"/a\n", "b/a", false),
            (b"a/b\n", "c/a/b", false),
            (b"a/**/b\n", "a/x/y/b", true),
            (b"#a\n", "#a", false),
            (b"\\#a\n", "#a", true),
            (b"\\!a\n", "!a", true),
            (b"a \n", "a", true),
            (b"a\\ \n", "a ", true),
            (b"a\\\\ \n", "a\\", true),
            (b"a\t\n", "a", false),
            (b"a\t\n", "a\t", true),
            (b"{a,b}\n", "a", false),
            (b"{a,b}\n", "{a,b}", true),
            (b"\\{a\n", "{a", true),
            (b"[{]a\n", "{a", true),
            (b"[]{]a\n", "{a", true),
            (b"[!a]\n", "b", true),
            (b"a\xff\n*.log\n", "x.log", true),
            (b"a\0b\n", "a", true),
            (b"A\n", "a", false),
            (b"*\n!keep\n", "keep", false),
            (b"a\\\n", "a", false),
        ] {
            assert_eq!(ignored(file, path, false), expected, "{:?} {path:?}", String::from_utf8_lossy(file));
        }
        assert!(ignored(b"d/\n", "d", true) && !ignored(b"d/\n", "d", false));
    }
}
