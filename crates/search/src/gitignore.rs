//! `.gitignore` files as git reads them (search contract 4.1).
//!
//! The reading of lines and of wildcards follows git's own (`dir.c`, `wildmatch.c`) byte for byte, so
//! that a tree hides here what it hides there. Matching does not follow it: patterns become
//! [`PathPattern`]s, whose work is bounded whatever a repository puts into its rules.

use crate::wild::{Atom, ByteSet, PathPattern, RelPath, Segment, Step};

/// Most bytes of `.gitignore` in force in one directory, those of the directories above included. One that goes over it is
/// not applied, and `notice` says so. Rules of one letter take some forty times the memory of their text, and a tree is
/// not trusted with more than that.
pub const MAX_GITIGNORE_BYTES: u64 = 1024 * 1024;

/// The rules of one `.gitignore`.
///
/// ```
/// use flowcell_search::Gitignore;
///
/// let rules = Gitignore::parse(b"*.log\n!keep.log\n/build/\n");
/// assert_eq!(rules.verdict("a/b.log", false), Some(true));
/// assert_eq!(rules.verdict("keep.log", false), Some(false));
/// assert_eq!(rules.verdict("build", true), Some(true));
/// assert_eq!(rules.verdict("a/build", true), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gitignore {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    negated: bool,
    directories_only: bool,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// The base name at any depth.
    Name(Segment),
    /// The path below the file's own directory.
    Path(PathPattern),
}

impl Gitignore {
    /// Reads the bytes of a `.gitignore`. Unusable lines, among them lines that are not UTF-8, are
    /// skipped; no input is an error.
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        Self { rules: bytes.split(|byte| *byte == b'\n').filter_map(Rule::parse).collect() }
    }

    /// What the rules say of `path`, relative to the file's own directory and `/`-separated:
    /// `Some(true)` excluded, `Some(false)` included again, `None` nothing.
    pub fn verdict(&self, path: &str, is_dir: bool) -> Option<bool> {
        self.decide(&RelPath::of(path.as_bytes()), 0, is_dir)
    }

    /// As [`Gitignore::verdict`] for the segments of `path` from `from` on.
    pub(crate) fn decide(&self, path: &RelPath, from: usize, is_dir: bool) -> Option<bool> {
        self.rules
            .iter()
            .rev()
            .find(|rule| {
                (is_dir || !rule.directories_only)
                    && match &rule.shape {
                        Shape::Name(segment) => segment.matches(path.name()),
                        Shape::Path(pattern) => pattern.matches(path, from),
                    }
            })
            .map(|rule| !rule.negated)
    }

    /// How many usable rules there are.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no usable rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() == Some(&b'#') || std::str::from_utf8(line).is_err() {
            return None;
        }
        // Git's lines are C strings.
        let line = line.split(|byte| *byte == 0).next().unwrap_or(line);
        let line = trim_trailing_spaces(line);
        let (negated, body) = match line.strip_prefix(b"!") {
            Some(body) => (true, body),
            None => (false, line),
        };
        let (body, directories_only) = match body.strip_suffix(b"/") {
            Some(body) => (body, true),
            None => (body, false),
        };
        if body.is_empty() {
            return None;
        }
        // A slash anywhere, in a bracket expression too, anchors the pattern.
        let anchored = body.contains(&b'/');
        let body = body.strip_prefix(b"/").unwrap_or(body);
        let segments = Lexer { bytes: body, at: 0 }.segments()?;
        let shape = if anchored {
            let steps = segments
                .into_iter()
                .map(|atoms| if is_globstar(&atoms) { Step::Globstar } else { Step::Segment(merge(atoms)) })
                .collect();
            Shape::Path(PathPattern::new(steps))
        } else {
            Shape::Name(merge(segments.into_iter().next()?))
        };
        Some(Self { negated, directories_only, shape })
    }
}

/// Drops trailing spaces that no backslash protects.
fn trim_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut cut = None;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => {
                cut.get_or_insert(at);
            }
            b'\\' => {
                at += 1;
                if at >= line.len() {
                    return line;
                }
                cut = None;
            }
            _ => cut = None,
        }
        at += 1;
    }
    &line[..cut.unwrap_or(line.len())]
}

/// Two stars or more and nothing else.
fn is_globstar(atoms: &[Atom]) -> bool {
    atoms.len() > 1 && atoms.iter().all(|atom| *atom == Atom::Star)
}

/// A segment in which a run of stars is one star.
fn merge(mut atoms: Vec<Atom>) -> Segment {
    atoms.dedup_by(|next, previous| *next == Atom::Star && *previous == Atom::Star);
    Segment::new(atoms)
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// The pattern's segments; `None` when git would never match it.
    fn segments(mut self) -> Option<Vec<Vec<Atom>>> {
        let mut segments = vec![Vec::new()];
        while let Some(byte) = self.next() {
            let atom = match byte {
                b'/' => {
                    segments.push(Vec::new());
                    continue;
                }
                b'\\' => match self.next()? {
                    b'/' => {
                        segments.push(Vec::new());
                        continue;
                    }
                    escaped => Atom::Byte(escaped),
                },
                b'*' => Atom::Star,
                b'?' => Atom::Any,
                b'[' => Atom::Set(Box::new(self.set()?)),
                byte => Atom::Byte(byte),
            };
            if let Some(last) = segments.last_mut() {
                last.push(atom);
            }
        }
        Some(segments)
    }

    /// A bracket expression after its `[`; `None` when it is not closed or names an unknown class.
    fn set(&mut self) -> Option<ByteSet> {
        let mut set = ByteSet::default();
        let negated = matches!(self.peek(0), Some(b'!' | b'^'));
        if negated {
            self.at += 1;
        }
        // The byte that a following `-` would start a range from.
        let mut low: Option<u8> = None;
        let mut byte = self.next()?;
        loop {
            match byte {
                b'\\' => {
                    let escaped = self.next()?;
                    set.insert(escaped);
                    low = Some(escaped);
                }
                b'-' if low.is_some() && self.peek(0).is_some_and(|next| next != b']') => {
                    let mut high = self.next()?;
                    if high == b'\\' {
                        high = self.next()?;
                    }
                    set.insert_range(low.unwrap_or(high), high);
                    low = None;
                }
                b'[' if self.peek(0) == Some(b':') => {
                    let name_at = self.at + 1;
                    let close = name_at + self.bytes.get(name_at..)?.iter().position(|b| *b == b']')?;
                    if close > name_at && self.bytes[close - 1] == b':' {
                        named_class(&mut set, &self.bytes[name_at..close - 1])?;
                        self.at = close + 1;
                        low = None;
                    } else {
                        set.insert(b'[');
                        low = Some(b'[');
                    }
                }
                other => {
                    set.insert(other);
                    low = Some(other);
                }
            }
            byte = self.next()?;
            if byte == b']' {
                break;
            }
        }
        if negated {
            set.negate();
        }
        Some(set)
    }
}

fn named_class(set: &mut ByteSet, name: &[u8]) -> Option<()> {
    match name {
        b"alnum" => set.insert_where(|b| b.is_ascii_alphanumeric()),
        b"alpha" => set.insert_where(|b| b.is_ascii_alphabetic()),
        b"blank" => set.insert_where(|b| b == b' ' || b == b'\t'),
        b"cntrl" => set.insert_where(|b| b.is_ascii_control()),
        b"digit" => set.insert_where(|b| b.is_ascii_digit()),
        b"graph" => set.insert_where(|b| b.is_ascii_graphic()),
        b"lower" => set.insert_where(|b| b.is_ascii_lowercase()),
        b"print" => set.insert_where(|b| b.is_ascii_graphic() || b == b' '),
        b"punct" => set.insert_where(|b| b.is_ascii_punctuation()),
        b"space" => set.insert_where(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')),
        b"upper" => set.insert_where(|b| b.is_ascii_uppercase()),
        b"xdigit" => set.insert_where(|b| b.is_ascii_hexdigit()),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(rules: &str, path: &str, is_dir: bool) -> Option<bool> {
        Gitignore::parse(rules.as_bytes()).verdict(path, is_dir)
    }

    #[test]
    fn reads_lines_as_git_does() {
        assert_eq!(ignores("#a\n\\#b\n", "#b", false), Some(true));
        assert_eq!(ignores("#a\n", "#a", false), None);
        assert_eq!(ignores("\\!x\n", "!x", false), Some(true));
        assert_eq!(ignores("a  \nb\\ \n", "a", false), Some(true));
        assert_eq!(ignores("b\\ \n", "b ", false), Some(true));
        assert_eq!(ignores("a\t\n", "a", false), None);
        assert_eq!(ignores("a\t\n", "a\t", false), Some(true));
        assert_eq!(ignores("a\r\n*.o\r\n", "x/a", false), Some(true));
        assert_eq!(ignores("\u{feff}a\n", "a", false), Some(true));
        assert_eq!(ignores("a\\\n", "a", false), None);
        assert_eq!(ignores("{a,b}\n", "a", false), None);
        assert_eq!(ignores("{a,b}\n", "{a,b}", false), Some(true));
        let spoiled = Gitignore::parse(b"\xff\n*.log\n");
        assert_eq!(spoiled.verdict("a.log", false), Some(true));
    }

    #[test]
    fn anchors_and_stars() {
        assert_eq!(ignores("/a\n", "a", false), Some(true));
        assert_eq!(ignores("/a\n", "b/a", false), None);
        assert_eq!(ignores("a/b\n", "a/b", false), Some(true));
        assert_eq!(ignores("a/b\n", "x/a/b", false), None);
        assert_eq!(ignores("**/b\n", "x/y/b", false), Some(true));
        assert_eq!(ignores("a/**\n", "a", true), None);
        assert_eq!(ignores("a/**\n", "a/b/c", false), Some(true));
        assert_eq!(ignores("a/**/b\n", "a/b", false), Some(true));
        assert_eq!(ignores("a*b\n", "a/b", false), None);
        assert_eq!(ignores("d/\n", "d", false), None);
        assert_eq!(ignores("d/\n", "x/d", true), Some(true));
        assert_eq!(ignores("/\n//\n!\n!/\n", "a", true), None);
    }

    #[test]
    fn bracket_expressions() {
        assert_eq!(ignores("[!a]b\n", "cb", false), Some(true));
        assert_eq!(ignores("[^a]b\n", "ab", false), None);
        assert_eq!(ignores("[]a]\n", "]", false), Some(true));
        assert_eq!(ignores("[[:digit:]]x\n", "7x", false), Some(true));
        assert_eq!(ignores("[[:nope:]]x\n*.o\n", "a.o", false), Some(true));
        assert_eq!(ignores("[a\n", "[a", false), None);
        assert_eq!(ignores("[a-c\\]]\n", "]", false), Some(true));
        assert_eq!(ignores("a[/]b\n", "a/b", false), None);
    }
}
