//! The glob language of `glob.pattern` and `grep.globs`: grammar and meaning (search contract 3).

use crate::pattern::Refusal;
use crate::wild::{Atom, PathPattern, RelPath, Segment, Step};

/// Most alternatives one glob may expand to.
pub const MAX_EXPANSIONS: usize = 256;
/// Most bytes of a glob with its braces written out, and of all globs of a list together.
///
/// The grammar of search contract 3.1 names no length; this one bounds the memory of a call and the time that
/// one name takes.
pub const MAX_GLOB_BYTES: usize = 256 * 1024;

/// One accepted glob.
///
/// ```
/// use flowcell_search::Glob;
///
/// let glob = Glob::parse("src/**/*.{ts,tsx}")?;
/// assert!(glob.matches_file("src/app/view.tsx"));
/// assert!(!glob.matches_file("lib/app.ts"));
/// # Ok::<(), flowcell_search::Refusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    given: String,
    exclusion: bool,
    expansions: Vec<Expansion>,
    /// Bytes of all expansions.
    length: usize,
}

/// One alternative of a glob, braces expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expansion {
    directories_only: bool,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// No slash: the base name at any depth.
    Name(Segment),
    /// The whole path below the root.
    Path(PathPattern),
    /// Matches nothing (an empty alternative).
    Nothing,
}

impl Glob {
    /// Accepts a glob: an optional leading `!` and a body.
    ///
    /// # Errors
    ///
    /// The first thing outside the grammar of search contract 3.1, with its byte offset.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (exclusion, body) = match text.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let shift = text.len() - body.len();
        let bodies = expand(body, shift)?;
        Ok(Self {
            given: text.to_owned(),
            exclusion,
            expansions: bodies.iter().map(|body| Expansion::new(body)).collect(),
            length: bodies.iter().map(String::len).sum(),
        })
    }

    /// The glob as the caller gave it.
    pub fn text(&self) -> &str {
        &self.given
    }

    /// Whether the glob excludes what it matches (a leading `!`).
    pub fn is_exclusion(&self) -> bool {
        self.exclusion
    }

    /// The canonical forms of what the braces expand to.
    pub(crate) fn canonicals(&self) -> Vec<String> {
        let body = if self.exclusion { self.given.get(1..).unwrap_or_default() } else { &self.given };
        // It was accepted.
        expand(body, 0).unwrap_or_default().iter().map(|body| canonical(body)).collect()
    }

    /// Whether the body matches the file at `path`, relative to the root and `/`-separated. The mark of
    /// an exclusion is not applied.
    pub fn matches_file(&self, path: &str) -> bool {
        self.matches(&RelPath::of(path.as_bytes()), false)
    }

    pub(crate) fn matches(&self, path: &RelPath, is_dir: bool) -> bool {
        self.expansions.iter().any(|expansion| {
            (is_dir || !expansion.directories_only)
                && match &expansion.shape {
                    Shape::Name(segment) => segment.matches(path.name()),
                    Shape::Path(pattern) => pattern.matches(path, 0),
                    Shape::Nothing => false,
                }
        })
    }
}

impl Expansion {
    fn new(body: &str) -> Self {
        let canonical = canonical(body);
        let (rest, directories_only) = match canonical.strip_suffix('/') {
            Some(rest) if !rest.is_empty() => (rest, true),
            _ => (canonical.as_str(), false),
        };
        let shape = if rest.is_empty() || rest == "/" {
            Shape::Nothing
        } else if rest.contains('/') {
            let anchored = rest.strip_prefix('/').unwrap_or(rest);
            let steps = anchored
                .split('/')
                .map(|text| if text == "**" { Step::Globstar } else { Step::Segment(segment(text)) })
                .collect();
            Shape::Path(PathPattern::new(steps))
        } else {
            Shape::Name(segment(rest))
        };
        Self { directories_only, shape }
    }
}

fn segment(text: &str) -> Segment {
    let mut atoms: Vec<Atom> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            // A run of stars is one star: two of them cross nothing unless they are a whole segment.
            b'*' if atoms.last() == Some(&Atom::Star) => {}
            b'*' => atoms.push(Atom::Star),
            b'?' => atoms.push(Atom::Any),
            _ => atoms.push(Atom::Byte(byte)),
        }
    }
    Segment::new(atoms)
}

/// The canonical form: trailing spaces dropped, `.` segments between slashes dropped, `./` at the start
/// read as `/`.
fn canonical(body: &str) -> String {
    let trimmed = body.trim_end_matches(' ');
    let mut segments: Vec<&str> = trimmed.split('/').collect();
    let last = segments.len() - 1;
    let mut index = 0;
    segments.retain(|segment| {
        let inner = index > 0 && index < last;
        index += 1;
        !(inner && *segment == ".")
    });
    if segments.len() > 1 && segments[0] == "." {
        segments[0] = "";
    }
    segments.join("/")
}

const PLAIN: &str = "use only *, ?, ** and {a,b} next to printable ASCII";

/// Checks a glob's body and expands its braces; `shift` is the body's offset in the caller's text.
fn expand(body: &str, shift: usize) -> Result<Vec<String>, Refusal> {
    if body.trim_matches(' ').is_empty() {
        return Err(Refusal::new("a glob without a body", shift, "name files, for example *.rs"));
    }
    let mut results = vec![String::new()];
    let mut length = 0;
    let mut group: Option<Group> = None;
    for (at, character) in body.char_indices() {
        let offset = shift + at;
        // The alternatives of an open group are part of the body, which is counted on its own.
        if at.max(length) > MAX_GLOB_BYTES {
            return Err(too_long(offset));
        }
        match character {
            '\\' | '[' | ']' => {
                return Err(Refusal::new(format!("the character \"{character}\" in a glob"), offset, PLAIN));
            }
            '{' if group.is_some() => {
                return Err(Refusal::new("a brace inside braces", offset, "write the alternatives out"));
            }
            '{' => group = Some(Group { offset, alternatives: vec![String::new()] }),
            '}' => {
                let Some(closed) = group.take() else {
                    return Err(Refusal::new(
                        "\"}\" without its \"{\"",
                        offset,
                        "use ? for a brace in a name",
                    ));
                };
                if closed.alternatives.len() < 2 {
                    return Err(Refusal::new(
                        "braces with fewer than two alternatives",
                        closed.offset,
                        "write the text without the braces",
                    ));
                }
                if results.len() * closed.alternatives.len() > MAX_EXPANSIONS {
                    return Err(Refusal::new(
                        format!("braces that expand to more than {MAX_EXPANSIONS} globs"),
                        closed.offset,
                        "use * for some of the alternatives",
                    ));
                }
                let tails: usize = closed.alternatives.iter().map(String::len).sum();
                length = length * closed.alternatives.len() + results.len() * tails;
                if length > MAX_GLOB_BYTES {
                    return Err(too_long(closed.offset));
                }
                results = results
                    .iter()
                    .flat_map(|head| closed.alternatives.iter().map(move |tail| format!("{head}{tail}")))
                    .collect();
            }
            ' '..='~' => match &mut group {
                Some(open) => open.push(character),
                None => {
                    length += results.len();
                    results.iter_mut().for_each(|result| result.push(character));
                }
            },
            _ => {
                let escaped: String = character.escape_debug().collect();
                return Err(Refusal::new(
                    format!("the character \"{escaped}\" is not printable ASCII"),
                    offset,
                    "use * in its place (? is one byte)",
                ));
            }
        }
    }
    match group {
        Some(open) => {
            Err(Refusal::new("\"{\" without its \"}\"", open.offset, "use ? for a brace in a name"))
        }
        None if length > MAX_GLOB_BYTES => Err(too_long(shift + body.len())),
        None => Ok(results),
    }
}

fn too_long(offset: usize) -> Refusal {
    Refusal::new(
        format!("more than {MAX_GLOB_BYTES} bytes of globs, braces written out"),
        offset,
        "use * for some of the text, or fewer globs",
    )
}

/// A brace group while it is read.
struct Group {
    offset: usize,
    alternatives: Vec<String>,
}

impl Group {
    fn push(&mut self, character: char) {
        if character == ',' {
            self.alternatives.push(String::new());
        } else if let Some(last) = self.alternatives.last_mut() {
            last.push(character);
        }
    }
}

/// An ordered list of globs: the last one that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobList {
    globs: Vec<Glob>,
    has_positive: bool,
}

impl GlobList {
    /// The list of `globs`, in order.
    pub fn new(globs: Vec<Glob>) -> Self {
        let has_positive = globs.iter().any(|glob| !glob.is_exclusion());
        Self { globs, has_positive }
    }

    /// Accepts each glob in order.
    ///
    /// # Errors
    ///
    /// The first glob that is refused, or with which the list is over [`MAX_GLOB_BYTES`].
    pub fn parse<S: AsRef<str>>(globs: &[S]) -> Result<Self, Refusal> {
        Self::accept(globs).map_err(|(_, refusal)| refusal)
    }

    /// As [`GlobList::parse`], with the index of the glob that is refused.
    pub(crate) fn accept<S: AsRef<str>>(globs: &[S]) -> Result<Self, (usize, Refusal)> {
        let mut length = 0;
        let accepted = globs.iter().enumerate().map(|(index, glob)| {
            let glob = Glob::parse(glob.as_ref()).map_err(|refusal| (index, refusal))?;
            length += glob.length;
            if length > MAX_GLOB_BYTES { Err((index, too_long(0))) } else { Ok(glob) }
        });
        Ok(Self::new(accepted.collect::<Result<_, _>>()?))
    }

    /// The globs, in order.
    pub fn globs(&self) -> &[Glob] {
        &self.globs
    }

    /// Whether the file at `path` (relative to the root, `/`-separated) is included by the list alone.
    /// Pruned directories are not looked at.
    pub fn includes_file(&self, path: &str) -> bool {
        self.includes(&RelPath::of(path.as_bytes()))
    }

    pub(crate) fn includes(&self, path: &RelPath) -> bool {
        match self.last(path, false) {
            Some(glob) => !glob.is_exclusion(),
            None => !self.has_positive,
        }
    }

    /// Whether the directory at `path` is not entered: the last glob that matches it is an exclusion.
    pub(crate) fn prunes(&self, path: &RelPath) -> bool {
        self.last(path, true).is_some_and(Glob::is_exclusion)
    }

    fn last(&self, path: &RelPath, is_dir: bool) -> Option<&Glob> {
        self.globs.iter().rev().find(|glob| glob.matches(path, is_dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form() {
        for (given, want) in [
            ("a.ts  ", "a.ts"),
            ("a/./b", "a/b"),
            ("a/././b", "a/b"),
            ("./a", "/a"),
            ("././a", "/a"),
            ("/./a", "/a"),
            ("a/.", "a/."),
            ("./", "/"),
            (".//a", "//a"),
            ("vendor/", "vendor/"),
        ] {
            assert_eq!(canonical(given), want, "{given}");
        }
    }

    #[test]
    fn expansions_are_read_on_their_own() {
        let list = expand("{src/c,c}.ts", 0).unwrap();
        assert_eq!(list, ["src/c.ts", "c.ts"]);
        let glob = Glob::parse("{src/c,c}.ts").unwrap();
        assert!(glob.matches_file("src/c.ts") && glob.matches_file("a/b/c.ts"));
        let glob = Glob::parse("foo{,.txt}").unwrap();
        assert!(glob.matches_file("foo") && glob.matches_file("x/foo.txt"));
        assert!(!Glob::parse("{,a}").unwrap().matches_file("b"));
    }
}
