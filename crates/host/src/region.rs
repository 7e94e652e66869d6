//! The nearest region: where a text that does not occur almost does (host contract 3).
//!
//! It only ever explains a failure. Nothing here leads to a write.

use std::collections::HashSet;

use crate::lines;

/// Lines shown on each side of a hit.
pub const PADDING: u64 = 3;

/// Lines of a file, with their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first line, from 1.
    pub first: u64,
    /// The last line.
    pub last: u64,
    /// The lines as they stand in the file, joined with LF.
    pub text: String,
}

/// What was found near a needle that does not occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Lines that are like the needle.
    Region(Region),
    /// No region, although some line of the needle is a line of the file, blanks aside.
    OtherLine,
    /// No line of the needle is a line of the file.
    Nothing,
}

/// Looks for the region of `text` nearest to `needle`, in time linear in both.
///
/// The first that hits wins, and within one the first place in the text: the whole needle with its lines trimmed on the
/// right; the whole needle with runs of blanks collapsed and lines trimmed; the needle's first line that is not blank,
/// collapsed. A hit is padded by [`PADDING`] lines on each side.
#[must_use]
pub fn nearest(text: &str, needle: &str) -> Nearest {
    let length = lines::count(needle);
    let trimmed = |line: &str, out: &mut String| out.push_str(line.trim_end());
    if let Some(line) = find(&normalise(text, trimmed), &normalise(needle, trimmed)) {
        return Nearest::Region(padded(text, line, length));
    }
    let (collapsed, needle) = (normalise(text, collapse), normalise(needle, collapse));
    if let Some(line) = find(&collapsed, &needle) {
        return Nearest::Region(padded(text, line, length));
    }
    let first = needle.split('\n').find(|line| !line.is_empty());
    if let Some(line) = first.and_then(|first| find(&collapsed, &format!("\n{first}\n"))) {
        return Nearest::Region(padded(text, line, 1));
    }
    if shares_a_line(&collapsed, &needle) { Nearest::OtherLine } else { Nearest::Nothing }
}

/// Whether `needle` occurs once every CRLF of both is read as LF.
#[must_use]
pub fn matches_folded(text: &str, needle: &str) -> bool {
    fold(text).contains(&fold(needle))
}

/// The text with each CRLF as LF.
#[must_use]
pub fn fold(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// LF, then every line normalised and followed by LF: a normalised needle then occurs exactly at the start of a line.
fn normalise(text: &str, each: impl Fn(&str, &mut String)) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push('\n');
    for line in lines::each(text) {
        each(line, &mut out);
        out.push('\n');
    }
    out
}

fn collapse(line: &str, out: &mut String) {
    for (n, word) in line.split_whitespace().enumerate() {
        if n > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
}

/// The line at which a normalised needle first occurs.
fn find(text: &str, needle: &str) -> Option<u64> {
    if needle == "\n" {
        return None;
    }
    let at = memchr::memmem::find(text.as_bytes(), needle.as_bytes())?;
    Some(lines::line_feeds(text.get(..at)?) + 1)
}

fn padded(text: &str, line: u64, length: u64) -> Region {
    let first = line.saturating_sub(PADDING).max(1);
    let last = (line + length - 1 + PADDING).min(lines::count(text));
    let text = lines::span(text, first, last).and_then(|span| text.get(span)).unwrap_or_default().to_owned();
    Region { first, last, text }
}

/// Whether two normalised texts have a line in common that is not blank.
fn shares_a_line(text: &str, needle: &str) -> bool {
    let wanted: HashSet<&str> = needle.split('\n').filter(|line| !line.is_empty()).collect();
    text.split('\n').any(|line| wanted.contains(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(text: &str, needle: &str) -> (u64, u64, String) {
        match nearest(text, needle) {
            Nearest::Region(region) => (region.first, region.last, region.text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trailing_blanks_come_first() {
        let text = "0\n  a b\n1\n2\na  b\n3\n4\n5\n6\na b  \t\r\n7\n";
        assert_eq!(region(text, "a b"), (7, 11, "4\n5\n6\na b  \t\r\n7".to_owned()));
        assert_eq!(region(text, "  a b \n1"), (1, 6, "0\n  a b\n1\n2\na  b\n3".to_owned()));
    }

    #[test]
    fn then_collapsed_blanks_then_the_first_line() {
        let text = "x\nif (a)  {\n\tb();\n}\ny\n";
        assert_eq!(region(text, "  if (a) {\n  b();\n}\n").0, 1);
        assert_eq!(region(text, "\n \nif (a) {\nc();\n"), (1, 5, text.trim_end().to_owned()));
        assert_eq!(nearest(text, "c();\n}\n"), Nearest::OtherLine);
        assert_eq!(nearest(text, "c();\n"), Nearest::Nothing);
        assert_eq!(nearest("", "c"), Nearest::Nothing);
        assert_eq!(nearest("a\n", " "), Nearest::Nothing);
        assert_eq!(region("a\n\n", "  "), (1, 2, "a\n".to_owned()));
    }

    #[test]
    fn a_needle_is_whole_lines() {
        assert_eq!(nearest("ab c\n", "b  c"), Nearest::Nothing);
        assert_eq!(region("b c", "b  c"), (1, 1, "b c".to_owned()));
    }

    #[test]
    fn folding() {
        assert!(matches_folded("a\r\nb\r\n", "a\nb"));
        assert!(matches_folded("xa\nby", "a\r\nb"));
        assert!(!matches_folded("a\rb", "a\nb"));
    }
}
