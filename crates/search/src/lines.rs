//! Lines: where they end, how they are counted, decoded and cut (search contract 2.1).

use memchr::{memchr, memchr_iter, memrchr};
use std::borrow::Cow;

/// Most bytes of a line that an answer shows.
pub const MAX_SHOWN_BYTES: usize = 500;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The content without a byte order mark at its start.
pub(crate) fn without_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix(BOM).unwrap_or(content)
}

/// The text of a line given with its terminator: `\n` goes, and one `\r` directly before it. A last line
/// without `\n` keeps a trailing `\r`.
pub(crate) fn text(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(text) => text.strip_suffix(b"\r").unwrap_or(text),
        None => line,
    }
}

/// How many lines `region` holds, when it starts at the start of a line.
pub(crate) fn count(region: &[u8]) -> u64 {
    let terminated = memchr_iter(b'\n', region).count() as u64;
    terminated + u64::from(region.last().is_some_and(|byte| *byte != b'\n'))
}

/// The lines of `content`, each with its terminator.
pub(crate) fn each(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|byte| *byte == b'\n')
}

/// Where the line that starts at `start` ends, its terminator included.
pub(crate) fn end(content: &[u8], start: usize) -> usize {
    content.get(start..).and_then(|rest| memchr(b'\n', rest)).map_or(content.len(), |at| start + at + 1)
}

/// Where the line that `at` lies in starts.
pub(crate) fn start(content: &[u8], at: usize) -> usize {
    memrchr(b'\n', &content[..at]).map_or(0, |newline| newline + 1)
}

/// A line as an answer shows it: decoded, and cut to [`MAX_SHOWN_BYTES`] at a scalar boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) cut: bool,
}

impl Shown {
    /// Shows `text`, a line without its terminator.
    pub(crate) fn new(text: &[u8]) -> Self {
        // Three bytes of margin: a scalar is at most four bytes long, and an invalid part never grows
        // into what stands before the limit.
        let window = &text[..text.len().min(MAX_SHOWN_BYTES + 4)];
        let decoded: Cow<'_, str> = String::from_utf8_lossy(window);
        let cut = decoded.len() > MAX_SHOWN_BYTES || text.len() > window.len();
        let mut limit = decoded.len().min(MAX_SHOWN_BYTES);
        while !decoded.is_char_boundary(limit) {
            limit -= 1;
        }
        Self { text: decoded[..limit].to_owned(), cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminators() {
        assert_eq!(text(b"a\r\n"), b"a");
        assert_eq!(text(b"a\r"), b"a\r");
        assert_eq!(text(b"a\r\r\n"), b"a\r");
        assert_eq!(text(b"\n"), b"");
        assert_eq!((count(b""), count(b"\n"), count(b"a"), count(b"a\n"), count(b"a\nb")), (0, 1, 1, 1, 2));
    }

    #[test]
    fn cuts_at_a_scalar_boundary() {
        assert!(!Shown::new("a".repeat(500).as_bytes()).cut);
        let shown = Shown::new("a".repeat(501).as_bytes());
        assert_eq!((shown.text.len(), shown.cut), (500, true));
        let shown = Shown::new(format!("{}é", "a".repeat(499)).as_bytes());
        assert_eq!((shown.text.len(), shown.cut), (499, true));
        // 200 invalid bytes decode to 600.
        let shown = Shown::new(&[0xff; 200]);
        assert_eq!((shown.text.chars().count(), shown.cut), (166, true));
    }

    #[test]
    fn agrees_with_decoding_the_whole_line() {
        for head in 494..506 {
            for tail in
                [&b"\xf0\x9f\x98\x80"[..], b"\xf0\x9f\x98", b"\xe2\x82", b"\xff\xff", b"\xe2\x82\xac\xe2"]
            {
                let line = [vec![b'a'; head].as_slice(), tail, b"zz"].concat();
                let whole = String::from_utf8_lossy(&line).into_owned();
                let mut limit = whole.len().min(MAX_SHOWN_BYTES);
                while !whole.is_char_boundary(limit) {
                    limit -= 1;
                }
                let shown = Shown::new(&line);
                assert_eq!(shown.text, whole[..limit]);
                assert_eq!(shown.cut, whole.len() > MAX_SHOWN_BYTES);
            }
        }
    }
}
