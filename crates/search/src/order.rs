//! The order of paths in an answer: whole strings by UTF-16 code units (search contract 4).

use std::cmp::Ordering;

/// Compares two names as the walk sorts them, a directory counting as its name and a slash. Both are UTF-8.
///
/// UTF-16 code units and UTF-8 bytes differ in one thing: what lies outside the basic plane comes before
/// U+E000 to U+FFFF, whose first bytes are `EE` and `EF`.
pub(crate) fn compare(left: (&[u8], bool), right: (&[u8], bool)) -> Ordering {
    let common = left.0.iter().zip(right.0).take_while(|(left, right)| left == right).count();
    let next = |(name, is_dir): (&[u8], bool)| match name.get(common) {
        Some(byte @ (0xee | 0xef)) => Some(byte + 0x10),
        Some(byte) => Some(*byte),
        None if is_dir && common == name.len() => Some(b'/'),
        None => None,
    };
    next(left).cmp(&next(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowcell_kernel::flows::canonical::utf16_cmp;

    #[test]
    fn agrees_with_utf16() {
        let names = [
            "",
            "a",
            "a-",
            "a.b",
            "ab",
            "é",
            "\u{d7ff}",
            "\u{e000}",
            "\u{ffff}",
            "\u{10000}",
            "\u{1f600}",
            "z\u{fffd}",
            "z\u{10ffff}",
            "a\u{e001}",
            "a\u{10400}",
        ];
        let spelled = |(name, is_dir): (&str, bool)| format!("{name}{}", if is_dir { "/" } else { "" });
        for left in names.iter().flat_map(|name| [(*name, false), (*name, true)]) {
            for right in names.iter().flat_map(|name| [(*name, false), (*name, true)]) {
                let want = utf16_cmp(&spelled(left), &spelled(right));
                let got = compare((left.0.as_bytes(), left.1), (right.0.as_bytes(), right.1));
                assert_eq!(got, want, "{left:?} {right:?}");
            }
        }
    }
}
