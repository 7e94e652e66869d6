//! JSON text, looked through and not built (RFC 8259; transcript contract 2, 5).
//!
//! Two kinds of function: those that judge text that may be anything ([`check`], [`record`]), and those that skip in text
//! that was judged ([`skip_value`], [`string_end`]). None recurses.

use crate::MAX_NESTING;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A word whose lowest high bit marks the first byte of `word` that equals `byte`. Higher bits may be wrong.
const fn equal(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES * byte as u64);
    zero.wrapping_sub(ONES) & !zero & HIGHS
}

/// As [`equal`], of the first byte below `0x20`.
const fn control(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGHS
}

/// The first place from `at` on whose byte `marks` marks (in a word) and `is` is true of (alone).
#[inline]
fn find(text: &[u8], mut at: usize, marks: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> Option<usize> {
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text.get(at..)?.iter().position(|&byte| is(byte)).map(|found| at + found)
}

/// The first newline.
pub(crate) fn newline(bytes: &[u8]) -> Option<usize> {
    // A block at a time first: the comparison of a block is one or two instructions.
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<64>()) {
        if block.iter().fold(false, |found, &byte| found | (byte == b'\n')) {
            break;
        }
        at += 64;
    }
    find(bytes, at, |word| equal(word, b'\n'), |byte| byte == b'\n')
}

/// The first backslash from `at` on.
pub(crate) fn backslash(text: &[u8], at: usize) -> Option<usize> {
    find(text, at, |word| equal(word, b'\\'), |byte| byte == b'\\')
}

/// The first place from `at` on that holds no white space.
#[inline]
pub(crate) fn blank(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// The place of the closing quote of a string that was judged; `at` is behind the opening one.
#[inline]
pub(crate) fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let marks = |word| equal(word, b'"') | equal(word, b'\\');
        match find(text, at, marks, |byte| matches!(byte, b'"' | b'\\')) {
            None => return text.len(),
            Some(end) if text.get(end) == Some(&b'"') => return end,
            Some(escape) => at = escape + 2,
        }
    }
}

/// The place behind a value that was judged; `at` is its first byte.
pub(crate) fn skip_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    loop {
        match text.get(at) {
            None => return at,
            Some(b'"') => at = string_end(text, at + 1) + 1,
            Some(b'{' | b'[') => {
                depth += 1;
                at += 1;
            }
            Some(b'}' | b']') => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            // White space, a colon or a comma: inside of a list or an object only.
            Some(b' ' | b'\t' | b'\r' | b'\n' | b':' | b',') => at += 1,
            Some(_) => at = scalar_end(text, at),
        }
        if depth == 0 {
            return at;
        }
    }
}

fn scalar_end(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'-' | b'.')) {
        at += 1;
    }
    at
}

/// Judges a string whose opening quote is before `at`; the place of its closing quote.
#[inline]
fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let marks = |word| equal(word, b'"') | equal(word, b'\\') | control(word);
        at = find(text, at, marks, |byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => match text.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if text.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Judges a number; the place behind it.
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        let from = at;
        while matches!(text.get(at), Some(b'0'..=b'9')) {
            at += 1;
        }
        (at > from).then_some(at)
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

/// Judges a member's name and its colon; the place behind the colon.
#[inline]
fn name(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let at = blank(text, string(text, at + 1)? + 1);
    (text.get(at) == Some(&b':')).then_some(at + 1)
}

/// Judges the value at `at`, white space before it allowed, `outer` lists and objects around it; the place behind it.
fn value(text: &[u8], mut at: usize, outer: usize) -> Option<usize> {
    // One bit a level: whether it is an object.
    let mut objects = 0_u128;
    let mut level = 0;
    'value: loop {
        at = blank(text, at);
        match text.get(at)? {
            b'"' => at = string(text, at + 1)? + 1,
            open @ (b'{' | b'[') => {
                if outer + level >= MAX_NESTING {
                    return None;
                }
                at = blank(text, at + 1);
                let object = *open == b'{';
                if text.get(at) == Some(if object { &b'}' } else { &b']' }) {
                    at += 1;
                } else {
                    level += 1;
                    objects = objects << 1 | u128::from(object);
                    if object {
                        at = name(text, at)?;
                    }
                    continue 'value;
                }
            }
            b't' => at = literal(text, at, b"true")?,
            b'f' => at = literal(text, at, b"false")?,
            b'n' => at = literal(text, at, b"null")?,
            _ => at = number(text, at)?,
        }
        loop {
            if level == 0 {
                return Some(at);
            }
            at = blank(text, at);
            match (text.get(at)?, objects & 1) {
                (b',', 0) => {
                    at += 1;
                    continue 'value;
                }
                (b',', _) => {
                    at = name(text, blank(text, at + 1))?;
                    continue 'value;
                }
                (b']', 0) | (b'}', 1) => {
                    at += 1;
                    level -= 1;
                    objects >>= 1;
                }
                _ => return None,
            }
        }
    }
}

fn literal(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then_some(at + word.len())
}

/// Whether `text` is one JSON object of at most [`MAX_NESTING`] levels. `member` is called with the places of each of its
/// members: of the name between its quotes, and of the value.
#[inline]
pub(crate) fn record(text: &[u8], mut member: impl FnMut((usize, usize), (usize, usize))) -> bool {
    let mut walk = || {
        let mut at = blank(text, 0);
        if text.get(at) != Some(&b'{') {
            return None;
        }
        at = blank(text, at + 1);
        if text.get(at) != Some(&b'}') {
            loop {
                if text.get(at) != Some(&b'"') {
                    return None;
                }
                let name = (at + 1, string(text, at + 1)?);
                at = blank(text, name.1 + 1);
                if text.get(at) != Some(&b':') {
                    return None;
                }
                let from = blank(text, at + 1);
                let end = value(text, from, 1)?;
                member(name, (from, end));
                at = blank(text, end);
                match text.get(at)? {
                    b',' => at = blank(text, at + 1),
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        (blank(text, at + 1) == text.len()).then_some(())
    };
    walk().is_some()
}

/// Whether `text` is one JSON object of at most [`MAX_NESTING`] levels.
pub(crate) fn check(text: &[u8]) -> bool {
    record(text, |_, _| {})
}

#[cfg(test)]
mod tests {
    use super::{check, newline, skip_value};
    use crate::MAX_NESTING;

    #[test]
    fn what_is_one_object() {
        for text in [
            "{}",
            " { } ",
            "{\"a\":1}",
            "{\"a\":[],\"b\":{}}",
            "{\"a\":[1,2,[3,{\"b\":null}]],\"c\":true}",
            "{\"\":-0.5e+10}",
            "{\"a\":\"\\u12aF\\\"\\\\\"}",
            "{\"a\":1e999}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":1,\"a\":2}",
            "{\"brackets in a string\":\"[[[{{{\"}",
            "{\"a\" : [ 1 , 2 ] , \"b\" : { \"c\" : 0 } }",
        ] {
            assert!(check(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_not() {
        for text in [
            "",
            "{",
            "}",
            "[]",
            "1",
            "null",
            "\"a\"",
            "{}{}",
            "{},",
            "\u{FEFF}{}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":1.}",
            "{\"a\":1e}",
            "{\"a\":-}",
            "{\"a\":tru}",
            "{\"a\":truex}",
            "{\"a\":NaN}",
            "{\"a\":[1,]}",
            "{\"a\":[1}",
            "{\"a\":{]}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12g4\"}",
            "{\"a\":\"}",
            "{\"a\":\"\\\"}",
            "{\"a\":1 2}",
            "{\"a\":[1 2]}",
            "{\"a\":1\u{a0}}",
            "{\"a\":\"\\u123\"}",
            "{\"a\":[}",
            "{\"a\":{\"b\"}}",
            "{\"a\":nullnull}",
        ] {
            assert!(!check(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(check(nested(MAX_NESTING).as_bytes()));
        assert!(!check(nested(MAX_NESTING + 1).as_bytes()));
        assert!(!check(nested(100_000).as_bytes()));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert!(check(objects(MAX_NESTING).as_bytes()));
        assert!(!check(objects(MAX_NESTING + 1).as_bytes()));
    }

    #[test]
    fn a_skipped_value_ends_where_it_ends() {
        for value in
            ["\"a\\\"b\"", "12", "-1.5e3", "true", "null", "[]", "{}", "[1,[2],\"]\"]", "{\"a\":{\"}\":[]}}"]
        {
            for after in ["", ",1", "]", "}", " "] {
                let text = format!("{value}{after}");
                assert_eq!(skip_value(text.as_bytes(), 0), value.len(), "{text}");
            }
        }
    }

    #[test]
    fn the_first_newline() {
        for at in 0..200 {
            let mut bytes = vec![b'x'; 210];
            assert_eq!(newline(&bytes), None);
            bytes[at] = b'\n';
            bytes[205] = b'\n';
            assert_eq!(newline(&bytes), Some(at));
            assert_eq!(newline(&bytes[..at]), None);
        }
    }
}
