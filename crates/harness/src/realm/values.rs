//! JSON values at the boundary (harness contract 3.2).

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The deepest nesting of arrays and objects that crosses.
pub(super) const MAX_DEPTH: usize = 128;

/// How deep a value is and how much heap building it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    /// The deepest nesting of arrays and objects; a bare string has none.
    pub(super) depth: usize,
    /// 64 KiB, and 64 a value, 2 for each byte of a string, 128 and 2 for each byte of the key a property.
    pub(super) estimate: u64,
}

/// Measures a value. Works on a stack of its own, so that a value of any depth is measured.
pub(super) fn measure(value: &Value) -> Measure {
    let mut total = Measure { depth: 0, estimate: 64 << 10 };
    let mut stack = vec![(value, 0_usize)];
    while let Some((value, above)) = stack.pop() {
        total.estimate += 64;
        match value {
            Value::String(text) => total.estimate += 2 * text.len() as u64,
            Value::Array(items) => {
                total.depth = total.depth.max(above + 1);
                stack.extend(items.iter().map(|item| (item, above + 1)));
            }
            Value::Object(members) => {
                total.depth = total.depth.max(above + 1);
                for (key, member) in members {
                    total.estimate += 128 + 2 * key.len() as u64;
                    stack.push((member, above + 1));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    total
}

/// How much deeper than its deepest value a record that holds values may nest.
const ENVELOPE_DEPTH: usize = 32;

/// Reads a JSON text that came out of the realm.
///
/// # Errors
/// A message for text that is not JSON or nests deeper than [`MAX_DEPTH`].
pub(super) fn decode(text: &str) -> Result<Value, String> {
    read(text, MAX_DEPTH)
}

/// Reads a record, for example a [`RealmFrame`](super::RealmFrame), whose values nest as deep as values may (128 levels).
/// The reader of `serde_json` alone stops at 127 levels, the record's own included.
///
/// # Errors
/// A message for text that is not such a record, or nests deeper than 160 levels.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    read(text, MAX_DEPTH + ENVELOPE_DEPTH)
}

fn read<T: DeserializeOwned>(text: &str, deepest: usize) -> Result<T, String> {
    if nesting(text) > deepest {
        return Err(format!("the text nests deeper than {deepest} levels"));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    // The nesting was measured above.
    reader.disable_recursion_limit();
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// The deepest nesting of brackets outside strings.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn measures_as_the_contract_counts() {
        assert_eq!(measure(&json!(null)), Measure { depth: 0, estimate: 65536 + 64 });
        assert_eq!(measure(&json!("é")), Measure { depth: 0, estimate: 65536 + 64 + 4 });
        let one = measure(&json!({"ab": [1]}));
        assert_eq!(one, Measure { depth: 2, estimate: 65536 + 3 * 64 + 128 + 4 });
    }

    #[test]
    fn decodes_128_levels_and_no_more() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(decode(&nested(128)).is_ok());
        assert!(decode(&nested(129)).is_err());
        assert!(decode(&nested(1_000_000)).is_err());
        assert_eq!(decode(r#""[[[\"[""#).unwrap(), json!("[[[\"["));
        assert!(decode("1 2").is_err());
    }
}
