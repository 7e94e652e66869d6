//! What is shown of captured output: cuts on character boundaries, and the counts that disclose them (host contract 5.1,
//! 5.3 and 5.4).
//!
//! Counts are of raw bytes. Bytes that are no UTF-8 are shown as U+FFFD.

use std::borrow::Cow;

/// A stream as `bash` shows it: whole, or its start and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The text; with the mark of the cut between start and end where something was left out.
    pub text: String,
    /// Whether something was left out.
    pub truncated: bool,
    /// How many bytes were.
    pub dropped: u64,
}

/// Shows a stream of `total` bytes of which the first are `head` and the last, without a gap or an overlap where there is
/// room for all, are `tail`.
///
/// When some are missing, `head` is cut back and `tail` cut forward to a character's boundary, each by 3 bytes at most, and
/// `\n[N bytes omitted]\n` stands between them.
///
/// ```
/// use flowcell_host::capture::show;
/// assert_eq!(show(b"ab", b"yz", 4).text, "abyz");
/// let cut = show("aé".as_bytes(), b"yz", 10);
/// assert_eq!((cut.text.as_str(), cut.dropped), ("aé\n[5 bytes omitted]\nyz", 5));
/// ```
#[must_use]
pub fn show(head: &[u8], tail: &[u8], total: u64) -> Shown {
    if total <= (head.len() + tail.len()) as u64 {
        let bytes = [head, tail].concat();
        return Shown { text: text(&bytes).into_owned(), truncated: false, dropped: 0 };
    }
    let (head, tail) = (back(head), forward(tail));
    let dropped = total - (head.len() + tail.len()) as u64;
    let text = format!("{}\n[{dropped} bytes omitted]\n{}", text(head), text(tail));
    Shown { text, truncated: true, dropped }
}

/// The last `max` bytes, less what stands before the first whole character of them.
#[must_use]
pub fn last(bytes: &[u8], max: usize) -> &[u8] {
    match bytes.len().checked_sub(max) {
        None | Some(0) => bytes,
        Some(start) => forward(bytes.get(start..).unwrap_or_default()),
    }
}

/// The longest end of a text that has at most `max` bytes.
#[must_use]
pub fn end(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// The longest start of a text that has at most `max` bytes.
#[must_use]
pub fn start(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The bytes as text; what is no UTF-8 is U+FFFD.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The bytes without the start of a character at their end that is not whole.
#[must_use]
pub fn back(bytes: &[u8]) -> &[u8] {
    for missing in 1..=3.min(bytes.len()) {
        let at = bytes.len() - missing;
        let Some(&byte) = bytes.get(at) else { break };
        if is_continuation(byte) {
            continue;
        }
        return if missing < width(byte) { bytes.get(..at).unwrap_or_default() } else { bytes };
    }
    bytes
}

/// The bytes without the rest of a character at their start.
#[must_use]
pub fn forward(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
    bytes.get(rest..).unwrap_or_default()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Bytes of the character that starts with this one; 1 where none does.
fn width(byte: u8) -> usize {
    match byte {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_stand_on_boundaries() {
        let text = "aé€😀";
        for (to, expected) in
            [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (5, "aé"), (6, "aé€"), (9, "aé€"), (10, text)]
        {
            assert_eq!(back(&text.as_bytes()[..to]), expected.as_bytes(), "{to}");
            assert_eq!(start(text, to), expected, "{to}");
        }
        for (from, expected) in [(0, text), (1, "é€😀"), (2, "€😀"), (3, "€😀"), (4, "😀"), (7, ""), (10, "")]
        {
            assert_eq!(forward(&text.as_bytes()[from..]), expected.as_bytes(), "{from}");
            assert_eq!(end(text, text.len() - from), expected, "{from}");
        }
        assert_eq!(last(text.as_bytes(), 5), "😀".as_bytes());
        assert_eq!(last(text.as_bytes(), 10), text.as_bytes());
    }

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        assert_eq!(back(b"a\xff"), b"a\xff");
        assert_eq!(back(b"a\x80\x80\x80"), b"a\x80\x80\x80");
        assert_eq!(forward(b"\x80\x80\x80\x80a"), b"\x80a");
        assert_eq!(show(b"\xff", b"", 1).text, "\u{fffd}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_shown_and_what_is_dropped_add_up(
            text in "[a-z\u{e9}\u{20ac}\u{1f600}]{0,40}", head in 0_usize..20, tail in 0_usize..20
        ) {
            let bytes = text.as_bytes();
            let h = head.min(bytes.len());
            let t = tail.min(bytes.len() - h);
            let shown = show(&bytes[..h], &bytes[bytes.len() - t..], bytes.len() as u64);
            if shown.truncated {
                let mark = format!("\n[{} bytes omitted]\n", shown.dropped);
                let (start, end) = shown.text.split_once(&mark).unwrap();
                prop_assert!(text.starts_with(start) && text.ends_with(end));
                prop_assert_eq!(start.len() as u64 + end.len() as u64 + shown.dropped, bytes.len() as u64);
                prop_assert!(h - start.len() <= 3 && t - end.len() <= 3);
            } else {
                prop_assert_eq!(shown.text, text);
            }
        }
    }
}
