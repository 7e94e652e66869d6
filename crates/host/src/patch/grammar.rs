//! The grammar of a patch (host contract 6).

use std::collections::HashSet;

use crate::kernel::flows::capability::{MAX_RESOURCE_UNITS, units};
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::fs::lexical;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ENVIRONMENT: &str = "*** Environment ID:";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";
/// Characters of a line that a message quotes at most.
const QUOTED: usize = 120;

/// A patch that was read: what it says, not whether a tree can take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// Its sections in their order; at least one.
    pub sections: Vec<Section<'a>>,
}

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The line of the header; the line that begins the patch is 1.
    pub line: usize,
    /// The path as written, not empty.
    pub path: &'a str,
    /// What is done.
    pub action: Action<'a>,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// The file gets this content, each line of it ended by LF.
    Add {
        /// The content.
        content: String,
    },
    /// The file goes.
    Delete,
    /// The file changes, and takes another name perhaps.
    Update {
        /// The new path as written.
        to: Option<&'a str>,
        /// The changes in their order; at least one.
        chunks: Vec<Chunk<'a>>,
    },
}

/// Lines that are looked for together and changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// A line that is looked for first; the chunk is looked for after it.
    pub context: Option<&'a str>,
    /// The lines in their order; at least one.
    pub changes: Vec<Change<'a>>,
    /// Whether the lines that are looked for have to be the last ones of the file.
    pub end_of_file: bool,
}

/// One line of a chunk, without its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A line of the file that stays.
    Keep(&'a str),
    /// A line of the file that goes.
    Remove(&'a str),
    /// A new line.
    Add(&'a str),
}

/// Why a text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not begin as a patch does.
    #[error("invalid patch: the first line is not '{BEGIN}'")]
    NoBegin,
    /// The text does not end as a patch does.
    #[error("invalid patch: the last line is not '{END}'")]
    NoEnd,
    /// Nothing stands between the begin and the end.
    #[error("invalid patch: No files were modified.")]
    NoSections,
    /// A line that may not stand where it does.
    #[error("invalid hunk at line {line}, {message}")]
    Hunk {
        /// Its number; the line that begins the patch is 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// Reads a patch.
///
/// Blanks around the text are dropped, and so are carriage returns at the end of its lines and a shell's here-document
/// around it. Lines are numbered from the one that begins the patch.
///
/// # Errors
///
/// [`ParseError`], with the line at fault where there is one.
pub fn parse(text: &str) -> Result<Patch<'_>, ParseError> {
    let lines: Vec<&str> = text.trim().split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let body = match body(&lines) {
        Ok(body) => body,
        Err(error) => match &lines[..] {
            [first, inner @ .., last] if inner.len() >= 2 && is_heredoc(first) && last.ends_with("EOF") => {
                body(inner)?
            }
            _ => return Err(error),
        },
    };
    let mut parser = Parser { sections: Vec::new(), state: State::Start { environment: false } };
    // The begin is line 1.
    for (number, line) in (2..).zip(body) {
        parser.line(number, line)?;
    }
    parser.close(body.len() + 2)?;
    if parser.sections.is_empty() {
        return Err(ParseError::NoSections);
    }
    Ok(Patch { sections: parser.sections })
}

/// Every path that a patch writes, as written and in its order, a move's destination right after its source: what a host may
/// ask permission for instead of everything that the flow declares. `None` for a patch that is refused without a look at
/// the tree (host contract 6).
///
/// Paths are compared as text, and there is no root here: that `a` and `/ws/a` are one file is seen only when the patch is
/// applied, and refused then.
#[must_use]
pub fn paths(patch: &str) -> Option<Vec<String>> {
    let patch = parse(patch).ok()?;
    patch.check(key).ok()?;
    let mut paths = Vec::new();
    for section in &patch.sections {
        paths.push(section.path.to_owned());
        if let Some(to) = section.destination()
            && key(to) != key(section.path)
        {
            paths.push(to.to_owned());
        }
    }
    Some(paths)
}

impl<'a> Section<'a> {
    /// The path that the file moves to, as written.
    #[must_use]
    pub fn destination(&self) -> Option<&'a str> {
        match self.action {
            Action::Update { to, .. } => to,
            Action::Add { .. } | Action::Delete => None,
        }
    }
}

impl Patch<'_> {
    /// What is refused without a look at the tree: a path that no file can have, and one path in two sections. `name` gives
    /// the same text for two ways to write one path.
    pub(crate) fn check(&self, name: impl Fn(&str) -> String) -> Result<(), StdError> {
        let mut named = HashSet::new();
        for section in &self.sections {
            let own = name(section.path);
            let to = section.destination().map(|to| (to, name(to))).filter(|(_, to)| *to != own);
            for (path, name) in std::iter::once((section.path, own)).chain(to) {
                check_path(path)?;
                if !named.insert(name) {
                    return Err(twice(path));
                }
            }
        }
        Ok(())
    }
}

/// The failure of a path in two sections.
pub(crate) fn twice(path: &str) -> StdError {
    invalid(path, "is named in more than one section of the patch")
}

/// The failure of a path that cannot be patched as it is.
pub(crate) fn invalid(path: &str, why: &str) -> StdError {
    StdError::new(Code::InvalidInput, format!("{path} {why}.")).with_path(path)
}

fn check_path(path: &str) -> Result<(), StdError> {
    if path.contains('\0') {
        return Err(StdError::new(Code::InvalidInput, "A path of the patch holds a NUL.").with_path(path));
    }
    if path.ends_with('/') {
        return Err(invalid(path, "names a directory"));
    }
    if units(path) > MAX_RESOURCE_UNITS {
        let message = format!("A path of the patch is longer than {MAX_RESOURCE_UNITS} units.");
        return Err(StdError::new(Code::CommandFailed, message).with_path(path));
    }
    Ok(())
}

/// A path without `.`, `..` and repeated slashes, as text. A relative one stays relative, `..` at its beginning included.
fn key(path: &str) -> String {
    if path.starts_with('/') {
        return lexical("/", path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What stands between the begin and the end.
fn body<'b, 'a>(lines: &'b [&'a str]) -> Result<&'b [&'a str], ParseError> {
    match lines {
        [first, ..] if first.trim() != BEGIN => Err(ParseError::NoBegin),
        [_, body @ .., last] if last.trim() == END => Ok(body),
        _ => Err(ParseError::NoEnd),
    }
}

fn is_heredoc(line: &str) -> bool {
    matches!(line, "<<EOF" | "<<'EOF'" | "<<\"EOF\"")
}

/// What a line may be where the last one stood.
enum State {
    /// No section yet.
    Start { environment: bool },
    /// In a section that adds a file.
    Add,
    /// After a section that deletes a file.
    Deleted,
    /// In a section that updates a file.
    Update { fresh: bool, ended: bool },
}

struct Parser<'a> {
    sections: Vec<Section<'a>>,
    state: State,
}

impl<'a> Parser<'a> {
    fn line(&mut self, number: usize, line: &'a str) -> Result<(), ParseError> {
        let State::Update { fresh, ended } = self.state else { return self.outside(number, line) };
        let trimmed = line.trim_end();
        if let Some(section) = header(number, trimmed) {
            self.close(number)?;
            self.open(section);
            return Ok(());
        }
        let Some(Section { action: Action::Update { to, chunks }, .. }) = self.sections.last_mut() else {
            return Err(unexpected(number, line));
        };
        if let (true, Some(path)) = (fresh, trimmed.strip_prefix(MOVE)) {
            *to = Some(path);
            self.state = State::Update { fresh: false, ended };
            return Ok(());
        }
        let context = if trimmed == "@@" { Some(None) } else { line.strip_prefix("@@ ").map(Some) };
        if let Some(context) = context {
            if chunks.last().is_some_and(|chunk| chunk.changes.is_empty()) {
                return Err(hunk(number, "the chunk before it changes nothing"));
            }
            chunks.push(Chunk { context, ..Chunk::default() });
            self.state = State::Update { fresh: false, ended: false };
            return Ok(());
        }
        if ended {
            return if line.trim().is_empty() {
                Ok(())
            } else {
                Err(hunk(number, format!("after '{END_OF_FILE}' a chunk begins with '@@'")))
            };
        }
        if trimmed == END_OF_FILE {
            match chunks.last_mut().filter(|chunk| !chunk.changes.is_empty()) {
                Some(chunk) => chunk.end_of_file = true,
                None => {
                    return Err(hunk(number, format!("'{END_OF_FILE}' stands after the changes of a chunk")));
                }
            }
            self.state = State::Update { fresh: false, ended: true };
            return Ok(());
        }
        let change = match line.as_bytes().first() {
            None => Change::Keep(""),
            Some(b' ') => Change::Keep(&line[1..]),
            Some(b'-') => Change::Remove(&line[1..]),
            Some(b'+') => Change::Add(&line[1..]),
            Some(_) => return Err(unexpected(number, line)),
        };
        match chunks.last_mut() {
            Some(chunk) => chunk.changes.push(change),
            None => chunks.push(Chunk { changes: vec![change], ..Chunk::default() }),
        }
        self.state = State::Update { fresh: false, ended: false };
        Ok(())
    }

    /// A line that belongs to no section that updates a file.
    fn outside(&mut self, number: usize, line: &'a str) -> Result<(), ParseError> {
        if let (State::Add, Some(added)) = (&self.state, line.strip_prefix('+')) {
            if let Some(Section { action: Action::Add { content }, .. }) = self.sections.last_mut() {
                content.push_str(added);
                content.push('\n');
            }
            return Ok(());
        }
        let trimmed = line.trim();
        if let Some(section) = header(number, trimmed) {
            self.open(section);
            return Ok(());
        }
        if let State::Start { environment: environment @ false } = &mut self.state
            && trimmed.starts_with(ENVIRONMENT)
        {
            *environment = true;
            return Ok(());
        }
        let what = if matches!(self.state, State::Add) {
            "neither '+' and a line nor a header"
        } else {
            "no header"
        };
        Err(hunk(
            number,
            format!(
                "'{}' is {what}; headers are '{ADD}', '{DELETE}' and '{UPDATE}' with a path",
                quoted(trimmed)
            ),
        ))
    }

    fn open(&mut self, section: Section<'a>) {
        self.state = match section.action {
            Action::Add { .. } => State::Add,
            Action::Delete => State::Deleted,
            Action::Update { .. } => State::Update { fresh: true, ended: false },
        };
        self.sections.push(section);
    }

    /// Ends the last section at the line that ends it.
    fn close(&mut self, number: usize) -> Result<(), ParseError> {
        match self.sections.last() {
            Some(Section { line, path, action: Action::Update { chunks, .. } }) => match chunks.last() {
                None => Err(hunk(*line, format!("Update file hunk for path '{path}' is empty"))),
                Some(chunk) if chunk.changes.is_empty() => {
                    Err(hunk(number, "the chunk before it changes nothing"))
                }
                Some(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The section that a line heads.
fn header(number: usize, line: &str) -> Option<Section<'_>> {
    let update = || Action::Update { to: None, chunks: Vec::new() };
    let (path, action) = if let Some(path) = line.strip_prefix(ADD) {
        (path, Action::Add { content: String::new() })
    } else if let Some(path) = line.strip_prefix(DELETE) {
        (path, Action::Delete)
    } else {
        (line.strip_prefix(UPDATE)?, update())
    };
    Some(Section { line: number, path, action })
}

fn unexpected(number: usize, line: &str) -> ParseError {
    hunk(number, format!("'{}' begins with none of ' ', '+' and '-'", quoted(line)))
}

fn hunk(line: usize, message: impl Into<String>) -> ParseError {
    ParseError::Hunk { line, message: message.into() }
}

/// A line as a message shows it.
fn quoted(line: &str) -> String {
    match line.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
