//! Bytes into lines of text (transcript contract 2).

use std::borrow::Cow;
use std::str;

use crate::pending::Pending;
use crate::scan;
use crate::tail::Tail;
use crate::{Limits, TranscriptError};

/// What is between two chunks: the lines before, and the start of the next one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cut {
    pub(crate) pending: Pending,
    pub(crate) tail: Tail,
    /// Complete lines so far.
    pub(crate) line: u64,
}

/// Judges the lines of one format.
pub(crate) trait Lines {
    /// A line that holds more than white space, with its number.
    fn record(&mut self, number: u64, text: &str) -> Result<(), TranscriptError>;

    /// What is said of a line longer than `line_bytes`.
    fn too_long(number: u64, line_bytes: usize) -> TranscriptError;
}

impl Cut {
    /// Gives the lines that `chunk` completes to `lines`, in order; what is between this chunk and the next one comes back.
    pub(crate) fn feed<L: Lines>(
        &self,
        limits: &Limits,
        chunk: &[u8],
        lines: &mut L,
    ) -> Result<Self, TranscriptError> {
        let mut rest = chunk;
        let mut held = self.pending.len() + self.tail.bytes().len();
        let mut number = self.line;
        while let Some(end) = scan::newline(rest) {
            let (line, after) =
                (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default());
            number = number.saturating_add(1);
            if held + end > limits.line_bytes {
                return Err(L::too_long(number, limits.line_bytes));
            }
            if held > 0 {
                let whole = self.extended(line, true).0;
                whole.with(|text| judge(lines, number, text))?;
                held = 0;
            } else {
                judge(lines, number, &text(line))?;
            }
            rest = after;
        }
        if held + rest.len() > limits.line_bytes {
            return Err(L::too_long(number.saturating_add(1), limits.line_bytes));
        }
        let cut = if rest.len() == chunk.len() { self.clone() } else { Self::default() };
        let (pending, tail) =
            if rest.is_empty() { (cut.pending, cut.tail) } else { cut.extended(rest, false) };
        Ok(Self { pending, tail, line: number })
    }

    /// The held text and `bytes` behind it; `ends` when the line ends with them, so that nothing waits for more.
    fn extended(&self, bytes: &[u8], ends: bool) -> (Pending, Tail) {
        let mut tail = Tail::default();
        let pending = self.pending.extended(self.tail.bytes().len() + bytes.len(), |text| {
            tail = push(text, self.tail, bytes, ends);
        });
        (pending, tail)
    }
}

/// A line of spaces, tabs and carriage returns is counted and otherwise skipped.
fn judge<L: Lines>(lines: &mut L, number: u64, text: &str) -> Result<(), TranscriptError> {
    let text = text.trim_matches([' ', '\t', '\r']);
    if text.is_empty() { Ok(()) } else { lines.record(number, text) }
}

/// A whole line as text; borrowed unless a byte has to be replaced.
fn text(line: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(line) {
        Ok(text) if !line.contains(&0) => Cow::Borrowed(text),
        _ => {
            let mut text = String::with_capacity(line.len());
            push(&mut text, Tail::default(), line, true);
            Cow::Owned(text)
        }
    }
}

/// Appends `tail` and `bytes` as text: each byte outside a well-formed sequence and each NUL becomes one `?`. A sequence cut
/// at the end waits, unless the line `ends` there; the bytes that wait come back.
fn push(text: &mut String, tail: Tail, bytes: &[u8], ends: bool) -> Tail {
    if tail.is_empty() {
        return push_bytes(text, bytes, ends);
    }
    // Only continuation bytes can complete a cut character, and none of them begins one of its own.
    let missing = bytes.iter().take(tail.missing()).take_while(|byte| matches!(byte, 0x80..=0xBF)).count();
    let (head, rest) = bytes.split_at(missing);
    let head = [tail.bytes(), head].concat();
    let waits = push_bytes(text, &head, ends || !rest.is_empty());
    if rest.is_empty() { waits } else { push_bytes(text, rest, ends) }
}

fn push_bytes(text: &mut String, bytes: &[u8], ends: bool) -> Tail {
    let mut rest = bytes;
    loop {
        match str::from_utf8(rest) {
            Ok(valid) => {
                push_valid(text, valid);
                return Tail::default();
            }
            Err(error) => {
                let (valid, other) = rest.split_at(error.valid_up_to());
                push_valid(text, str::from_utf8(valid).unwrap_or_default());
                let bad = error.error_len().unwrap_or(other.len());
                if error.error_len().is_none() && !ends {
                    return Tail::new(other);
                }
                let (bad, after) = other.split_at(bad);
                text.extend(bad.iter().map(|_| '?'));
                rest = after;
            }
        }
    }
}

fn push_valid(text: &mut String, valid: &str) {
    for (number, piece) in valid.split('\0').enumerate() {
        if number > 0 {
            text.push('?');
        }
        text.push_str(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Lines, Tail, push, text};
    use crate::{Limits, TranscriptError};

    #[derive(Default)]
    struct Seen(Vec<(u64, String)>);

    impl Lines for Seen {
        fn record(&mut self, number: u64, text: &str) -> Result<(), TranscriptError> {
            self.0.push((number, text.to_owned()));
            Ok(())
        }

        fn too_long(number: u64, line_bytes: usize) -> TranscriptError {
            TranscriptError::malformed(number, line_bytes.to_string())
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_question_marks() {
        assert_eq!(text(&[0xFF, 0xC3, 0x28, 0xE2, 0x82, 0x20]), "??(?? ");
        assert_eq!(text(b"a\0b\0"), "a?b?");
        assert_eq!(text(&[0xED, 0xA0, 0x80]), "???");
        assert_eq!(text("é\u{2028}🚀".as_bytes()), "é\u{2028}🚀");
        assert_eq!(text(&[0xF0, 0x9F, 0x9A]), "???");
    }

    #[test]
    fn a_cut_character_is_the_same_however_it_is_cut() {
        let samples: [&[u8]; 7] = [
            "a🚀é".as_bytes(),
            &[0xF0, 0x9F, 0x9A, 0x61],
            &[0xE0, 0x80, 0x80],
            &[0xF0, 0x9F, 0xF0, 0x9F, 0x9A, 0x80],
            &[0xC3, 0xC3, 0xA9, 0x00],
            &[0xF4, 0x90, 0x80, 0x80],
            &[0xE2, 0x82, 0xE2, 0x82],
        ];
        for bytes in samples {
            let whole = text(bytes).into_owned();
            for one in 0..=bytes.len() {
                for two in one..=bytes.len() {
                    let mut out = String::new();
                    let tail = push(&mut out, Tail::default(), &bytes[..one], false);
                    let tail = push(&mut out, tail, &bytes[one..two], false);
                    push(&mut out, tail, &bytes[two..], true);
                    assert_eq!(out, whole, "{bytes:?} at {one}, {two}");
                }
            }
        }
    }

    #[test]
    fn lines_end_at_a_newline_byte_only() {
        let mut seen = Seen::default();
        let bytes = "a\u{2028}b\r\n \t\r\n\nc".as_bytes();
        let cut = Cut::default().feed(&Limits::default(), bytes, &mut seen).unwrap();
        assert_eq!(seen.0, [(1, "a\u{2028}b".to_owned())]);
        assert_eq!(cut.line, 3);
        cut.pending.with(|text| assert_eq!(text, "c"));
        let same = cut.feed(&Limits::default(), b"", &mut seen).unwrap();
        assert_eq!(same, cut);
    }

    #[test]
    fn a_long_line_is_refused_as_soon_as_it_is_held() {
        let limits = Limits { line_bytes: 4 };
        let feed = |cut: &Cut, bytes: &[u8]| cut.feed(&limits, bytes, &mut Seen::default());
        assert!(feed(&Cut::default(), b"abcd\nabcd").is_ok());
        assert_eq!(feed(&Cut::default(), b"abcd\nabcde").unwrap_err().line, 2);
        assert_eq!(feed(&Cut::default(), b"abcde\n").unwrap_err().line, 1);
        let held = feed(&Cut::default(), b"ab\xE2\x82").unwrap();
        assert_eq!(feed(&held, b"\xAC").unwrap_err().line, 1);
        assert!(feed(&held, b"\n").is_ok());
    }
}
