//! The text that a patch makes of a file's (host contract 6).

use super::grammar::{Change, Chunk};
use super::seek::{Ending, Lines, Stopped, seek};

/// Why a file cannot be changed as the chunks say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// The line that a chunk names first is not in the rest of the file.
    #[error("Failed to find context '{context}'")]
    NoContext {
        /// That line.
        context: String,
    },
    /// The lines of a chunk are not in the rest of the file.
    #[error("Failed to find expected lines:\n{lines}")]
    NoLines {
        /// The lines that stay or go, joined with LF.
        lines: String,
    },
    /// The text has 4 GiB or more.
    #[error("the text is too long to be patched")]
    TooLong,
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
}

impl DeriveError {
    /// The message for a file of this path.
    pub(crate) fn message(&self, path: &str) -> String {
        match self {
            DeriveError::NoContext { context } => format!("Failed to find context '{context}' in {path}"),
            DeriveError::NoLines { lines } => format!("Failed to find expected lines in {path}:\n{lines}"),
            DeriveError::TooLong | DeriveError::Stopped => format!("Cannot patch {path}: {self}."),
        }
    }
}

impl From<Stopped> for DeriveError {
    fn from(Stopped: Stopped) -> Self {
        DeriveError::Stopped
    }
}

/// What is done at one place.
struct Splice<'a> {
    /// The first line of the file that is looked at.
    at: usize,
    ops: Vec<Change<'a>>,
}

/// Changes `text`, which is without a byte order mark, by `chunks`.
///
/// Each chunk is looked for after the one before it, byte by byte first, then more and more loosely; the lines that stay
/// keep what the file has. New lines end as the file's first line does. A text that is not empty afterwards ends in a line
/// ending. `stop` is asked now and then.
///
/// # Errors
///
/// [`DeriveError`]; a chunk that is nowhere, and `stop`.
pub fn derive(text: &str, chunks: &[Chunk<'_>], stop: &dyn Fn() -> bool) -> Result<String, DeriveError> {
    let lines = Lines::of(text).ok_or(DeriveError::TooLong)?;
    let mut splices = Vec::new();
    let mut appended = Vec::new();
    let mut cursor = 0;
    for chunk in chunks {
        if let Some(context) = chunk.context {
            let hit = seek(&lines, &[context], cursor, false, stop)?;
            cursor = 1 + hit.ok_or_else(|| DeriveError::NoContext { context: context.to_owned() })?;
        }
        let old = old_lines(&chunk.changes);
        if old.is_empty() {
            appended.extend(new_lines(&chunk.changes));
            continue;
        }
        let mut ops = chunk.changes.clone();
        let mut length = old.len();
        let mut hit = seek(&lines, &old, cursor, chunk.end_of_file, stop)?;
        if hit.is_none() && old.last() == Some(&"") {
            ops = without_last_empty(&chunk.changes);
            length -= 1;
            hit = seek(&lines, &old[..length], cursor, chunk.end_of_file, stop)?;
        }
        let at = hit.ok_or_else(|| DeriveError::NoLines { lines: old.join("\n") })?;
        cursor = at + length;
        splices.push(Splice { at, ops });
    }
    Ok(rebuild(&lines, &splices, &appended))
}

fn old_lines<'a>(changes: &[Change<'a>]) -> Vec<&'a str> {
    let old = |change: &Change<'a>| match *change {
        Change::Keep(line) | Change::Remove(line) => Some(line),
        Change::Add(_) => None,
    };
    changes.iter().filter_map(old).collect()
}

fn new_lines<'a>(changes: &[Change<'a>]) -> impl Iterator<Item = &'a str> {
    changes.iter().filter_map(|change| match *change {
        Change::Keep(line) | Change::Add(line) => Some(line),
        Change::Remove(_) => None,
    })
}

/// The changes without the last line that is looked for, which is empty, and without the last line of the result if that is
/// empty too. What only one of both loses becomes a new line, or one that goes.
fn without_last_empty<'a>(changes: &[Change<'a>]) -> Vec<Change<'a>> {
    let mut ops = changes.to_vec();
    let last_old = ops.iter().rposition(|op| !matches!(op, Change::Add(_)));
    if let Some(at) = last_old {
        match ops[at] {
            Change::Keep(line) => ops[at] = Change::Add(line),
            Change::Remove(_) | Change::Add(_) => {
                ops.remove(at);
            }
        }
    }
    let last_new = ops.iter().rposition(|op| !matches!(op, Change::Remove(_)));
    if let Some(at) = last_new {
        match ops[at] {
            Change::Add("") => {
                ops.remove(at);
            }
            Change::Keep("") => ops[at] = Change::Remove(""),
            _ => {}
        }
    }
    ops
}

/// Writes the new text, from the front to the back of the old one.
struct Rebuild<'l, 'a> {
    lines: &'l Lines<'a>,
    out: String,
    /// The first line of the old text that nothing was done with yet.
    next: usize,
    /// The ending of new lines.
    preferred: Ending,
    /// What is added at the end, and before which line that is.
    appended: &'l [&'l str],
    end: usize,
}

fn rebuild(lines: &Lines<'_>, splices: &[Splice<'_>], appended: &[&str]) -> String {
    let count = lines.len();
    let preferred = match if count == 0 { Ending::None } else { lines.ending(0) } {
        Ending::None => Ending::Lf,
        ending => ending,
    };
    let end = if count > 0 && lines.text(count - 1).is_empty() { count - 1 } else { count };
    let out = String::with_capacity(lines.raw(0, count).len() + 64);
    let mut rebuild = Rebuild { lines, out, next: 0, preferred, appended, end };
    for splice in splices {
        rebuild.keep_to(splice.at);
        for op in &splice.ops {
            match op {
                Change::Keep(_) => rebuild.keep_to(rebuild.next + 1),
                Change::Remove(_) => {
                    rebuild.append_here();
                    rebuild.next += 1;
                }
                Change::Add(line) => rebuild.add(line),
            }
        }
    }
    rebuild.keep_to(count);
    rebuild.append_here();
    rebuild.out
}

impl Rebuild<'_, '_> {
    /// Keeps the old lines before `to` as they are.
    fn keep_to(&mut self, to: usize) {
        while self.next < to {
            self.append_here();
            let stop = if self.next < self.end { to.min(self.end) } else { to };
            let raw = self.lines.raw(self.next, stop);
            self.out.push_str(raw);
            self.next = stop;
            // Only the last line of a text has no ending.
            if !raw.ends_with('\n') {
                self.out.push_str(self.preferred.as_str());
            }
        }
    }

    fn add(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push_str(self.preferred.as_str());
    }

    /// Adds what goes to the end, when that is here.
    fn append_here(&mut self) {
        if self.next == self.end {
            for line in std::mem::take(&mut self.appended) {
                self.add(line);
            }
        }
    }
}
