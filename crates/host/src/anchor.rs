//! Edits anchored by text or by lines (host contract 3).
//!
//! An anchor is exact: byte for byte, with no tolerance for blanks, Unicode forms or line endings. What is only near it is
//! shown in the failure and never written to.

use std::fmt;
use std::ops::Range;

use crate::kernel::flows::read::MAX_OUTPUT_BYTES;
use crate::lines;
use crate::region::{self, Nearest};

/// Start lines that [`AnchorError::NotUnique`] lists at most.
pub const MAX_LISTED_LINES: usize = 20;
/// Lines of context on each side of a [`Hunk`].
pub const CONTEXT_LINES: u64 = 2;

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor<'a> {
    /// An exact text.
    Text {
        /// The text; an empty one occurs nowhere.
        old: &'a str,
        /// Whether every occurrence is replaced, not the only one.
        all: bool,
    },
    /// Whole lines, without the LF of the last.
    Lines {
        /// The first line, from 1.
        first: u64,
        /// The last line.
        last: u64,
        /// What the lines have to hold: interior LF and CR included, no final LF.
        expect: Option<&'a str>,
    },
}

/// A text after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The whole new text.
    pub text: String,
    /// Spans replaced: at least 1.
    pub replacements: u64,
    /// The lines around the first replacement.
    pub hunk: Hunk,
}

/// Lines of the new text around a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The first line, from 1.
    pub start_line: u64,
    /// The last line; 0 when the new text is empty.
    pub end_line: u64,
    /// The lines joined with LF, uncut, each CR kept.
    pub text: String,
}

/// Why an edit does not apply. `Display` is the whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorError {
    /// The text occurs more than once.
    NotUnique {
        /// How often it occurs, without overlaps.
        count: u64,
        /// The lines on which the first [`MAX_LISTED_LINES`] occurrences start.
        lines: Vec<u64>,
    },
    /// The text does not occur.
    NoMatch {
        /// What comes nearest.
        nearest: Nearest,
        /// What line endings have to do with it.
        endings: Endings,
    },
    /// The lines do not hold what was expected.
    Unexpected {
        /// The first line.
        first: u64,
        /// The last line.
        last: u64,
        /// What they hold.
        actual: String,
        /// What line endings have to do with it.
        endings: Endings,
    },
    /// A line that the text does not have.
    PastEnd {
        /// The line.
        line: u64,
        /// Lines of the text.
        total: u64,
    },
    /// The last line comes before the first, or a line is numbered 0.
    Backwards {
        /// The first line.
        first: u64,
        /// The last line.
        last: u64,
    },
    /// The new text would be over the bound.
    TooLarge {
        /// The bound, in bytes.
        max: usize,
    },
}

/// How line endings explain a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endings {
    /// They do not.
    Unrelated,
    /// The file uses CRLF, and the anchor would match if it did too.
    FileUsesCrlf,
    /// The anchor uses CRLF, and would match without.
    AnchorUsesCrlf,
}

impl Endings {
    fn of(text: &str, anchor: &str, matches_folded: impl Fn() -> bool) -> Self {
        let crlf = |text: &str| text.contains("\r\n") || text.ends_with('\r');
        match (crlf(text), crlf(anchor)) {
            (true, _) if matches_folded() => Self::FileUsesCrlf,
            (false, true) if matches_folded() => Self::AnchorUsesCrlf,
            _ => Self::Unrelated,
        }
    }
}

impl fmt::Display for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unrelated => "",
            Self::FileUsesCrlf => " The file uses CRLF line endings; but for them it would match.",
            Self::AnchorUsesCrlf => " The file uses no CRLF line endings there; without them it would match.",
        })
    }
}

impl fmt::Display for AnchorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnique { count, lines } => {
                write!(f, "oldString occurs {count} times, starting on lines ")?;
                for (n, line) in lines.iter().enumerate() {
                    write!(f, "{}{line}", if n == 0 { "" } else { ", " })?;
                }
                let more = count.saturating_sub(lines.len() as u64);
                if more > 0 {
                    write!(f, " and {more} more")?;
                }
                f.write_str(". Make it unique, or set replaceAll.")
            }
            Self::NoMatch { nearest, endings } => {
                write!(f, "oldString is not in the file.{endings}")?;
                match nearest {
                    Nearest::Region(region) => {
                        write!(f, " The nearest text is Lines {}-{}", region.first, region.last)?;
                        raw(f, &region.text)
                    }
                    Nearest::OtherLine => {
                        f.write_str(" Its first line is no line of the file, a later one is.")
                    }
                    Nearest::Nothing => f.write_str(" No line of oldString occurs in the file."),
                }
            }
            Self::Unexpected { first, last, actual, endings } => {
                write!(f, "The lines do not hold what expect says.{endings} Lines {first}-{last} hold")?;
                raw(f, actual)
            }
            Self::PastEnd { line, total } => {
                write!(f, "line {line} is past the end: the file has {total} lines")
            }
            Self::Backwards { first, last } => write!(f, "lines {first}-{last} are no range"),
            Self::TooLarge { max } => write!(f, "the edited file would be over {max} bytes"),
        }
    }
}

impl std::error::Error for AnchorError {}

/// Text of the file in a message: whole up to [`MAX_OUTPUT_BYTES`], a longer one cut with a word that says so.
fn raw(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if text.len() <= MAX_OUTPUT_BYTES {
        return write!(f, ":\n{text}");
    }
    let mut end = MAX_OUTPUT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    write!(f, " (the first {end} of {} bytes):\n{}", text.len(), text.get(..end).unwrap_or_default())
}

/// Replaces what `anchor` names in `text` by `new`, literally. Everything outside the replaced spans stays as it is.
///
/// # Errors
///
/// [`AnchorError`]; [`AnchorError::TooLarge`] when the new text would be over `max` bytes.
///
/// ```
/// use flowcell_host::anchor::{Anchor, apply};
/// let edited = apply("aaa", Anchor::Text { old: "aa", all: false }, "b", 1_000)?;
/// assert_eq!((edited.text.as_str(), edited.replacements), ("ba", 1));
/// # Ok::<(), flowcell_host::anchor::AnchorError>(())
/// ```
pub fn apply(text: &str, anchor: Anchor<'_>, new: &str, max: usize) -> Result<Edited, AnchorError> {
    match anchor {
        Anchor::Text { old, all } => by_text(text, old, all, new, max),
        Anchor::Lines { first, last, expect } => by_lines(text, first, last, expect, new, max),
    }
}

fn by_text(text: &str, old: &str, all: bool, new: &str, max: usize) -> Result<Edited, AnchorError> {
    let mut count = 0usize;
    let mut first = None;
    let mut listed = Vec::new();
    let (mut line, mut seen) = (1, 0);
    for at in occurrences(text, old) {
        count += 1;
        first.get_or_insert(at);
        if listed.len() < MAX_LISTED_LINES {
            line += lines::line_feeds(text.get(seen..at).unwrap_or_default());
            seen = at;
            listed.push(line);
        }
    }
    let Some(first) = first else {
        let endings = Endings::of(text, old, || !old.is_empty() && region::matches_folded(text, old));
        return Err(AnchorError::NoMatch { nearest: region::nearest(text, old), endings });
    };
    if count > 1 && !all {
        return Err(AnchorError::NotUnique { count: count as u64, lines: listed });
    }
    let length = count
        .checked_mul(new.len())
        .and_then(|added| added.checked_add(text.len() - count * old.len()))
        .filter(|length| *length <= max)
        .ok_or(AnchorError::TooLarge { max })?;
    let mut edited = String::with_capacity(length);
    let mut kept = 0;
    for at in occurrences(text, old) {
        edited.push_str(text.get(kept..at).unwrap_or_default());
        edited.push_str(new);
        kept = at + old.len();
    }
    edited.push_str(text.get(kept..).unwrap_or_default());
    let hunk = hunk(&edited, first, new);
    Ok(Edited { text: edited, replacements: count as u64, hunk })
}

/// Where `needle` occurs: left to right, without overlaps. An empty needle occurs nowhere.
fn occurrences(text: &str, needle: &str) -> impl Iterator<Item = usize> {
    let finder = (!needle.is_empty()).then(|| memchr::memmem::find_iter(text.as_bytes(), needle));
    finder.into_iter().flatten()
}

fn by_lines(
    text: &str,
    first: u64,
    last: u64,
    expect: Option<&str>,
    new: &str,
    max: usize,
) -> Result<Edited, AnchorError> {
    if first == 0 || last < first {
        return Err(AnchorError::Backwards { first, last });
    }
    let Some(span) = lines::span(text, first, last) else {
        let total = lines::count(text);
        let line = if first > total { first } else { last };
        return Err(AnchorError::PastEnd { line, total });
    };
    let Range { start, end } = span;
    let held = text.get(start..end).unwrap_or_default();
    if let Some(expect) = expect.filter(|expect| *expect != held) {
        // The last line's own CR is part of the span, so a missing one counts as a line ending too.
        let folded = |text: &str| {
            let text = region::fold(text);
            text.strip_suffix('\r').map(str::to_owned).unwrap_or(text)
        };
        let endings = Endings::of(held, expect, || folded(held) == folded(expect));
        return Err(AnchorError::Unexpected { first, last, actual: held.to_owned(), endings });
    }
    let length = (text.len() - held.len()).checked_add(new.len()).filter(|length| *length <= max);
    let mut edited = String::with_capacity(length.ok_or(AnchorError::TooLarge { max })?);
    edited.push_str(text.get(..start).unwrap_or_default());
    edited.push_str(new);
    edited.push_str(text.get(end..).unwrap_or_default());
    let hunk = hunk(&edited, start, new);
    Ok(Edited { text: edited, replacements: 1, hunk })
}

/// The lines around `new`, which stands at byte `at` of `text`.
fn hunk(text: &str, at: usize, new: &str) -> Hunk {
    let total = lines::count(text);
    if total == 0 {
        return Hunk { start_line: 1, end_line: 0, text: String::new() };
    }
    let first = 1 + lines::line_feeds(text.get(..at).unwrap_or_default());
    let last = first + lines::line_feeds(new);
    let start_line = first.saturating_sub(CONTEXT_LINES).max(1);
    let end_line = last.saturating_add(CONTEXT_LINES).min(total);
    let held = lines::span(text, start_line, end_line).and_then(|span| text.get(span)).unwrap_or_default();
    Hunk { start_line, end_line, text: held.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1_000_000;

    fn text<'a>(old: &'a str, all: bool) -> Anchor<'a> {
        Anchor::Text { old, all }
    }

    fn range(first: u64, last: u64, expect: Option<&str>) -> Anchor<'_> {
        Anchor::Lines { first, last, expect }
    }

    #[test]
    fn occurrences_do_not_overlap() {
        let edited = apply("aaa", text("aa", false), "b", MAX).unwrap();
        assert_eq!((edited.text.as_str(), edited.replacements), ("ba", 1));
        let edited = apply("aaaaa", text("aa", true), "b", MAX).unwrap();
        assert_eq!((edited.text.as_str(), edited.replacements), ("bba", 2));
    }

    #[test]
    fn more_than_one_is_counted_and_located() {
        let error = apply("x\nx\n", text("x", false), "y", MAX).unwrap_err();
        assert_eq!(error, AnchorError::NotUnique { count: 2, lines: vec![1, 2] });
        assert_eq!(
            error.to_string(),
            "oldString occurs 2 times, starting on lines 1, 2. Make it unique, or set replaceAll."
        );
        let error = apply(&"x x\n".repeat(15), text("x", false), "y", MAX).unwrap_err();
        let AnchorError::NotUnique { count: 30, lines } = &error else { panic!("{error:?}") };
        assert_eq!(lines, &(1..=10).flat_map(|n| [n, n]).collect::<Vec<_>>());
        assert!(error.to_string().contains("10, 10 and 10 more."), "{error}");
    }

    #[test]
    fn a_replacement_is_literal() {
        let edited = apply("a f() b", text("f()", false), "$& $1 \\0", MAX).unwrap();
        assert_eq!(edited.text, "a $& $1 \\0 b");
    }

    #[test]
    fn line_endings_are_named_in_a_miss() {
        let error = apply("a\r\nb\r\n", text("a\nb", false), "", MAX).unwrap_err();
        assert!(error.to_string().contains("CRLF"), "{error}");
        assert!(error.to_string().ends_with("Lines 1-2:\na\r\nb\r"), "{error:?}");
        let error = apply("a\nb\n", text("a\r\nb", false), "", MAX).unwrap_err();
        assert!(error.to_string().contains("uses no CRLF"), "{error}");
        let error = apply("a\r\nb\r\nc\r\n", range(2, 2, Some("b")), "", MAX).unwrap_err();
        assert_eq!(
            error,
            AnchorError::Unexpected {
                first: 2,
                last: 2,
                actual: "b\r".to_owned(),
                endings: Endings::FileUsesCrlf
            }
        );
        let error = apply("a\nb\n", range(1, 2, Some("a\nc")), "", MAX).unwrap_err();
        assert_eq!(error.to_string(), "The lines do not hold what expect says. Lines 1-2 hold:\na\nb");
        let error = apply("a\r\n", text("z", false), "", MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "oldString is not in the file. No line of oldString occurs in the file."
        );
    }

    #[test]
    fn lines_end_before_their_line_feed() {
        let edit = |first, last, new: &str, text: &str| {
            apply(text, range(first, last, None), new, MAX).unwrap().text
        };
        assert_eq!(edit(2, 2, "B\r", "a\r\nb\r\nc\r\n"), "a\r\nB\r\nc\r\n");
        assert_eq!(edit(1, 2, "", "a\nb\nc\n"), "\nc\n");
        assert_eq!(edit(1, 1, "x\n", "a\nb"), "x\n\nb");
        assert_eq!(edit(2, 2, "x", "a\nb"), "a\nx");
        assert_eq!(edit(1, 1, "x", "\n"), "x\n");
        let error = |first, last, text: &str| apply(text, range(first, last, None), "", MAX).unwrap_err();
        assert_eq!(error(1, 1, ""), AnchorError::PastEnd { line: 1, total: 0 });
        assert_eq!(error(1, 3, "a\nb\n"), AnchorError::PastEnd { line: 3, total: 2 });
        assert_eq!(error(5, u64::MAX, "a\n"), AnchorError::PastEnd { line: 5, total: 1 });
        assert_eq!(error(2, 1, "a\n"), AnchorError::Backwards { first: 2, last: 1 });
    }

    #[test]
    fn a_hunk_is_two_lines_each_side_of_the_first() {
        let base = "1\n2\n3\n4\n5\n6\n7\n";
        let hunk = apply(base, range(4, 4, None), "a\r\nb", MAX).unwrap().hunk;
        assert_eq!((hunk.start_line, hunk.end_line, hunk.text.as_str()), (2, 7, "2\n3\na\r\nb\n5\n6"));
        let hunk = apply(base, text("1\n", false), "", MAX).unwrap().hunk;
        assert_eq!((hunk.start_line, hunk.end_line, hunk.text.as_str()), (1, 3, "2\n3\n4"));
        let hunk = apply(base, text("7\n", false), "", MAX).unwrap().hunk;
        assert_eq!((hunk.start_line, hunk.end_line, hunk.text.as_str()), (5, 6, "5\n6"));
        let hunk = apply("a", text("a", false), "", MAX).unwrap().hunk;
        assert_eq!((hunk.start_line, hunk.end_line, hunk.text.as_str()), (1, 0, ""));
        let hunk = apply("x\ny\nx\ny\nx\ny\n", text("x", true), "z", MAX).unwrap().hunk;
        assert_eq!((hunk.start_line, hunk.end_line, hunk.text.as_str()), (1, 3, "z\ny\nz"));
    }

    #[test]
    fn growth_is_bounded() {
        let text = "a".repeat(1_000);
        assert_eq!(
            apply(&text, Anchor::Text { old: "a", all: true }, &"b".repeat(1_000), 999_999),
            Err(AnchorError::TooLarge { max: 999_999 })
        );
        assert!(apply(&text, Anchor::Text { old: "a", all: true }, &"b".repeat(1_000), MAX).is_ok());
        assert_eq!(apply("a", range(1, 1, None), "bcd", 2), Err(AnchorError::TooLarge { max: 2 }));
    }

    #[test]
    fn a_long_region_is_cut_and_says_so() {
        let line = format!("{} x", "é".repeat(40_000));
        let error = apply(&line, text(&format!("{line} "), false), "", MAX).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("Lines 1-1 (the first 60000 of 80002 bytes):\né"), "{}", &message[..200]);
        assert!(message.len() < 61_000);
    }
}
