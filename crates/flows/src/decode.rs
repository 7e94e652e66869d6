//! Decoding a call's input by its document (kernel contract 8).

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use crate::error::{Code, StdError};
use crate::schema::{Issue, SchemaDoc};

/// Why a value is not of its type: the issues that were found, in the order of the document, at most
/// [`MAX_ISSUES`](crate::schema::MAX_ISSUES).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .issues.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct DecodeError {
    /// What is wrong, and where; never empty.
    pub issues: Vec<Issue>,
}

impl From<DecodeError> for StdError {
    /// An input that does not decode is `invalid_input`.
    fn from(error: DecodeError) -> Self {
        Self::new(Code::InvalidInput, error.to_string())
    }
}

/// Decodes `value` as `T`, whose document is `doc`.
///
/// The document judges first: types, bounds and literals. Integers are JSON numbers without a fraction, of magnitude at
/// most 2^53-1, so `5.0` is 5. Members that the document does not declare are dropped. `null` for an optional field is
/// a failure at first; then, for a struct-like input only, the value is tried once more without the top-level nulls of
/// declared optional fields that reject `null`.
///
/// # Errors
///
/// [`DecodeError`] with the issues; when the second try fails too, they are the first try's.
///
/// ```
/// use flowcell_flows::{decode::decode, read};
/// let input = serde_json::json!({"path": "a.rs", "offset": 5.0, "limit": null, "colour": "red"});
/// let input: read::Input = decode(&read::decl().input, &input)?;
/// assert_eq!((input.offset, input.limit), (Some(5), None));
/// # Ok::<(), flowcell_flows::decode::DecodeError>(())
/// ```
pub fn decode<T: DeserializeOwned>(doc: &SchemaDoc, value: &Value) -> Result<T, DecodeError> {
    let first = match attempt(doc, value) {
        Ok(decoded) => return Ok(decoded),
        Err(error) => error,
    };
    match doc.without_optional_nulls(value) {
        Some(trimmed) => attempt(doc, &trimmed).map_err(|_| first),
        None => Err(first),
    }
}

fn attempt<T: DeserializeOwned>(doc: &SchemaDoc, value: &Value) -> Result<T, DecodeError> {
    let issues = doc.validate(value);
    if !issues.is_empty() {
        return Err(DecodeError { issues });
    }
    serde_json::from_value(doc.conform(value))
        .map_err(|error| DecodeError { issues: vec![Issue::new("", error.to_string())] })
}
