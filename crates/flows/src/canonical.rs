//! RFC 8785 canonical JSON and its SHA-256 (kernel contract 9).
//!
//! Members are sorted by UTF-16 code units, numbers are written as ECMAScript writes a double, and only the escapes
//! `\b \t \n \f \r \" \\` and lower-case `\u00xx` are used. Two values with the same meaning have one text, so the
//! digest of that text is an identity.

use std::cmp::Ordering;
use std::convert::Infallible;

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Why a value has no canonical text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Infinity or not a number: JSON has no text for it.
    #[error("number is not finite")]
    NonFinite,
    /// An integer that no double holds exactly; its decimal text is kept for the message.
    #[error("integer {0} cannot be held by a double")]
    InexactInteger(String),
}

/// Compares two strings by UTF-16 code units: the order of canonical JSON, of effects and groups, of a directory's
/// entries and of the paths of a search. One pass over the bytes that the two have in common.
///
/// It differs from `str`'s own order where an astral character meets one of U+E000 to U+FFFF: its surrogates are
/// smaller.
///
/// ```
/// use std::cmp::Ordering;
/// use flowcell_flows::canonical::utf16_cmp;
/// assert_eq!(utf16_cmp("\u{1F600}", "\u{E000}"), Ordering::Less);
/// assert_eq!("\u{1F600}".cmp("\u{E000}"), Ordering::Greater);
/// assert_eq!(utf16_cmp("a-b/x", "a/x"), Ordering::Less);
/// ```
#[must_use]
pub fn utf16_cmp(left: &str, right: &str) -> Ordering {
    let same = left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count();
    let (left, right) = (left.as_bytes().get(same), right.as_bytes().get(same));
    match (left, right) {
        // Leading bytes 0xEE and 0xEF begin U+E000 to U+FFFF, 0xF0 and above begin what UTF-16 spells with
        // surrogates. A difference inside a character has equal leading bytes before it.
        (Some(0xEE | 0xEF), Some(0xF0..)) => Ordering::Greater,
        (Some(0xF0..), Some(0xEE | 0xEF)) => Ordering::Less,
        _ => left.cmp(&right),
    }
}

/// Writes `value` in its RFC 8785 form.
///
/// # Errors
///
/// [`CanonicalError::InexactInteger`] when the value holds an integer that a double cannot hold: the nearest double is
/// another number and does not print as these digits either (so `37885374706450190`, which is how ECMAScript prints a
/// double, is accepted, and canonical text always has a canonical text: itself);
/// [`CanonicalError::NonFinite`] when it holds a number that is not finite. A JSON document of `serde_json` never holds
/// a lone surrogate, because its strings are UTF-8.
///
/// ```
/// use flowcell_flows::canonical;
/// let text = canonical::to_string(&serde_json::json!({"b": 1.0, "a": [null, "\u{7}"]}));
/// assert_eq!(text.as_deref(), Ok(r#"{"a":[null,"\u0007"],"b":1}"#));
/// ```
pub fn to_string(value: &Value) -> Result<String, CanonicalError> {
    write(value, push_number)
}

/// As [`to_string`], but an integer that no double holds keeps its exact decimal digits, so that every value has a
/// text.
pub(crate) fn to_string_exact(value: &Value) -> String {
    let text = write(value, |out, number| -> Result<(), Infallible> {
        if push_number(out, number).is_err() {
            out.push_str(&number.to_string());
        }
        Ok(())
    });
    match text {
        Ok(text) => text,
        Err(never) => match never {},
    }
}

fn write<E>(value: &Value, push_number: impl Fn(&mut String, &Number) -> Result<(), E>) -> Result<String, E> {
    // An explicit stack: a deep document costs memory, never the thread's stack.
    let mut out = String::new();
    let mut stack: Vec<Frame<'_>> = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take() {
            match value {
                Value::Null => out.push_str("null"),
                Value::Bool(true) => out.push_str("true"),
                Value::Bool(false) => out.push_str("false"),
                Value::Number(number) => push_number(&mut out, number)?,
                Value::String(text) => push_string(&mut out, text),
                Value::Array(items) => {
                    out.push('[');
                    stack.push(Frame::Array { rest: items, first: true });
                }
                Value::Object(map) => {
                    out.push('{');
                    stack.push(Frame::Object { rest: sorted_members(map), first: true });
                }
            }
        }
        let Some(frame) = stack.last_mut() else { return Ok(out) };
        next = frame.advance(&mut out);
        if next.is_none() {
            stack.pop();
        }
    }
}

/// The lower-case hex SHA-256 of `bytes`, 64 characters.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let mut hex = String::with_capacity(64);
    for byte in digest {
        hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
        hex.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    hex
}

/// The lower-case hex SHA-256 of the canonical text of `value`.
///
/// # Errors
///
/// As [`to_string`].
pub fn digest(value: &Value) -> Result<String, CanonicalError> {
    Ok(sha256_hex(to_string(value)?.as_bytes()))
}

/// Writes a double as ECMAScript's `Number::toString` does: the shortest digits that read back as the same double,
/// plain between 1e-6 and 1e21, with an exponent outside.
///
/// # Errors
///
/// [`CanonicalError::NonFinite`] for infinities and not-a-number.
///
/// ```
/// use flowcell_flows::canonical::number;
/// assert_eq!(number(1e21).as_deref(), Ok("1e+21"));
/// assert_eq!(number(-0.0).as_deref(), Ok("0"));
/// assert!(number(f64::NAN).is_err());
/// ```
pub fn number(value: f64) -> Result<String, CanonicalError> {
    if !value.is_finite() {
        return Err(CanonicalError::NonFinite);
    }
    if value == 0.0 {
        return Ok("0".to_owned());
    }
    // Rust's exponent form holds the shortest round-trip digits: `-1.2345e-7`.
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|unit| *unit != '.').collect();
    let digits = even_of_tie(value, &digits, exponent).unwrap_or(digits);
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // ECMAScript's n: the value is 0.digits times ten to the n.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let mut out = String::from(sign);
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        push_zeros(&mut out, point - count);
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        push_zeros(&mut out, -point);
        out.push_str(&digits);
    } else {
        let (lead, rest) = digits.split_at(1);
        out.push_str(lead);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        out.push('e');
        out.push(if point > 0 { '+' } else { '-' });
        out.push_str(&(point - 1).abs().to_string());
    }
    Ok(out)
}

/// Of two shortest digit strings that are equally near the value ECMAScript takes the even one, Rust the greater one.
///
/// `Some` with the smaller neighbour of `digits` when the value lies exactly half-way between the two and the
/// neighbour reads back as the value as well.
fn even_of_tie(value: f64, digits: &str, exponent: &str) -> Option<String> {
    /// Digits after the first that hold every double exactly (the longest has 767 in all).
    const EXACT: usize = 780;
    let last = digits.bytes().last()?;
    if last.is_ascii_digit() && (last - b'0').is_multiple_of(2) {
        return None;
    }
    let head = digits.get(..digits.len() - 1)?;
    let smaller = format!("{head}{}", char::from(last - 1));
    // Half-way up from the neighbour is its digits and a 5; most values differ from that within one digit more.
    let half = format!("{smaller}5");
    let is_half = |precision: usize| {
        let text = format!("{:.precision$e}", value.abs());
        let exact: String =
            text.chars().take_while(|unit| *unit != 'e').filter(|unit| *unit != '.').collect();
        exact.trim_end_matches('0') == half
    };
    if !is_half(digits.len()) || !is_half(EXACT) {
        return None;
    }
    let (lead, rest) = smaller.split_at(1);
    let neighbour: f64 = format!("{lead}.{rest}e{exponent}").parse().ok()?;
    (neighbour == value.abs()).then_some(smaller)
}

enum Frame<'a> {
    Array { rest: &'a [Value], first: bool },
    Object { rest: std::vec::IntoIter<(&'a str, &'a Value)>, first: bool },
}

impl<'a> Frame<'a> {
    /// Writes what stands before the next child and gives that child, or closes the container.
    fn advance(&mut self, out: &mut String) -> Option<&'a Value> {
        match self {
            Self::Array { rest, first } => {
                let Some((child, tail)) = rest.split_first() else {
                    out.push(']');
                    return None;
                };
                *rest = tail;
                if !std::mem::take(first) {
                    out.push(',');
                }
                Some(child)
            }
            Self::Object { rest, first } => {
                let Some((key, child)) = rest.next() else {
                    out.push('}');
                    return None;
                };
                if !std::mem::take(first) {
                    out.push(',');
                }
                push_string(out, key);
                out.push(':');
                Some(child)
            }
        }
    }
}

fn sorted_members(map: &Map<String, Value>) -> std::vec::IntoIter<(&str, &Value)> {
    let mut members: Vec<(&str, &Value)> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
    members.sort_by(|left, right| utf16_cmp(left.0, right.0));
    members.into_iter()
}

fn push_zeros(out: &mut String, count: i32) {
    for _ in 0..count {
        out.push('0');
    }
}

fn push_number(out: &mut String, value: &Number) -> Result<(), CanonicalError> {
    let double = value.as_f64().ok_or(CanonicalError::NonFinite)?;
    let text = number(double)?;
    let exact = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    if let Some(exact) = exact {
        // Every 64-bit integer's nearest double is a whole number of at most 2^64, so the cast back is exact.
        #[allow(clippy::cast_possible_truncation)]
        let back = double as i128;
        let digits = exact.to_string();
        if back != exact && text != digits {
            return Err(CanonicalError::InexactInteger(digits));
        }
    }
    out.push_str(&text);
    Ok(())
}

fn push_string(out: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    for unit in text.chars() {
        match unit {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if u32::from(control) < 0x20 => {
                let code = u32::from(control);
                out.push_str("\\u00");
                out.push(if code < 16 { '0' } else { '1' });
                out.push(char::from(DIGITS[usize::try_from(code & 15).unwrap_or(0)]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
