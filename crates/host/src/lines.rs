//! The line model: what text a file holds, and where its lines are (host contract 0).
//!
//! A line ends at LF only. A final LF ends the last line and opens no new one, so `""` has no line, `"\n"` one and `"a"`
//! one. CR, VT, FF, U+0085 and U+2028 are ordinary text: a line of a CRLF file ends in `\r`. Lines are numbered from 1.

use std::ops::Range;

/// The UTF-8 byte order mark.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A file's text, with the byte order mark that was set aside.
///
/// ```
/// use flowcell_host::lines::Text;
/// let text = Text::decode(b"\xEF\xBB\xBFx\n".to_vec())?;
/// assert_eq!((text.has_bom(), text.as_str()), (true, "x\n"));
/// assert_eq!(text.encode("y\n"), b"\xEF\xBB\xBFy\n");
/// # Ok::<(), flowcell_host::lines::NotText>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    bom: bool,
    text: String,
}

impl Text {
    /// Decodes a file's bytes. One leading byte order mark is set aside; a later U+FEFF is ordinary text.
    ///
    /// # Errors
    ///
    /// [`NotText`] when a NUL stands anywhere or the bytes are not UTF-8.
    pub fn decode(mut bytes: Vec<u8>) -> Result<Self, NotText> {
        let bom = bytes.starts_with(BOM);
        if bom {
            bytes.drain(..BOM.len());
        }
        if memchr::memchr(0, &bytes).is_some() {
            return Err(NotText::Nul);
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { bom, text }),
            Err(_) => Err(NotText::InvalidUtf8),
        }
    }

    /// The text, without the byte order mark.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a byte order mark was set aside.
    #[must_use]
    pub fn has_bom(&self) -> bool {
        self.bom
    }

    /// Bytes of the mark that was set aside: 3 or 0.
    #[must_use]
    pub fn bom_bytes(&self) -> usize {
        if self.bom { BOM.len() } else { 0 }
    }

    /// The bytes of a file that holds `text` instead: the mark that was set aside, then the text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len().saturating_add(self.bom_bytes()));
        if self.bom {
            bytes.extend_from_slice(BOM);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }
}

/// Why bytes are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// A NUL stands in them.
    #[error("it holds a NUL byte")]
    Nul,
    /// They are not UTF-8.
    #[error("it is not valid UTF-8")]
    InvalidUtf8,
}

/// How many lines a text has.
#[must_use]
pub fn count(text: &str) -> u64 {
    let open = !text.is_empty() && !text.ends_with('\n');
    line_feeds(text) + u64::from(open)
}

/// How many LFs stand in a text.
#[must_use]
pub fn line_feeds(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// The lines of a text in order, each without its LF.
pub fn each(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n')
}

/// Where a line starts, in bytes; `None` when the text has no such line.
#[must_use]
pub fn start_of(text: &str, line: u64) -> Option<usize> {
    let start = match line {
        0 => return None,
        1 => 0,
        _ => {
            let feed = usize::try_from(line - 2).ok()?;
            memchr::memchr_iter(b'\n', text.as_bytes()).nth(feed)? + 1
        }
    };
    (start < text.len()).then_some(start)
}

/// The bytes of the lines `first..=last`: from the start of the first to the end of the last, before its LF. `None` when
/// the text has not both or `last < first`.
#[must_use]
pub fn span(text: &str, first: u64, last: u64) -> Option<Range<usize>> {
    let start = start_of(text, first)?;
    let rest = text.get(start..)?;
    let from = start_of(rest, last.checked_sub(first)?.checked_add(1)?)?;
    let tail = rest.get(from..)?;
    let length = memchr::memchr(b'\n', tail.as_bytes()).unwrap_or(tail.len());
    Some(start..start + from + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_feed_ends_a_line() {
        for (text, lines) in [
            ("", vec![]),
            ("\n", vec![""]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("a\n\n", vec!["a", ""]),
            ("a\r\nb\r\n", vec!["a\r", "b\r"]),
            ("a\rb", vec!["a\rb"]),
            ("a\u{b}b\u{c}c\u{85}d\u{2028}e", vec!["a\u{b}b\u{c}c\u{85}d\u{2028}e"]),
        ] {
            assert_eq!(each(text).collect::<Vec<_>>(), lines, "{text:?}");
            assert_eq!(count(text), lines.len() as u64, "{text:?}");
            for (n, line) in (1..).zip(&lines) {
                assert_eq!(&text[span(text, n, n).unwrap()], *line, "{text:?} line {n}");
            }
            assert_eq!(span(text, lines.len() as u64 + 1, lines.len() as u64 + 1), None, "{text:?}");
        }
    }

    #[test]
    fn spans_stop_before_the_last_line_feed() {
        let text = "a\r\nb\r\nc";
        assert_eq!(&text[span(text, 1, 2).unwrap()], "a\r\nb\r");
        assert_eq!(&text[span(text, 1, 3).unwrap()], text);
        assert_eq!(&text[span(text, 3, 3).unwrap()], "c");
        assert_eq!(span(text, 2, 1), None);
        assert_eq!(span(text, 0, 1), None);
        assert_eq!(span(text, 1, 4), None);
        assert_eq!(span(text, 1, u64::MAX), None);
        assert_eq!(span(text, 2, u64::MAX), None);
        assert_eq!(span("", 1, 1), None);
    }

    #[test]
    fn text_is_utf8_without_nul() {
        assert_eq!(Text::decode(b"caf\xe9".to_vec()), Err(NotText::InvalidUtf8));
        assert_eq!(Text::decode(b"a\0b".to_vec()), Err(NotText::Nul));
        assert_eq!(
            Text::decode("a\n".encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Err(NotText::Nul)
        );
        let text = Text::decode("\u{feff}\u{feff}a\u{feff}".as_bytes().to_vec()).unwrap();
        assert_eq!(text.as_str(), "\u{feff}a\u{feff}");
        assert_eq!(text.bom_bytes(), 3);
        let bare = Text::decode("a\u{feff}".as_bytes().to_vec()).unwrap();
        assert!(!bare.has_bom());
        assert_eq!(bare.encode("b"), b"b");
    }
}
