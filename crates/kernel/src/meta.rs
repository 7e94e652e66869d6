//! What an asker adds to a request for the person who decides.

use serde_json::{Map, Value};

use crate::permission::GrantStoreError;

/// JSON facts of a request (kernel contract 5). Bounded: see [`check_meta`].
pub type Meta = Map<String, Value>;

/// Containers inside one another at most, the outermost object counted.
pub const MAX_META_DEPTH: usize = 16;
/// Members and elements in all at most.
pub const MAX_META_NODES: usize = 1_024;
/// Bytes of the compact encoding at most.
pub const MAX_META_BYTES: usize = 65_536;

/// Refuses a `meta` over a bound of kernel contract 5 with `invalid_resolution`.
pub fn check_meta(meta: &Meta) -> Result<(), GrantStoreError> {
    let mut nodes = 0usize;
    walk_members(meta, 1, &mut nodes)?;
    let bytes = serde_json::to_vec(meta)
        .map_err(|error| GrantStoreError::invalid(format!("meta is not encodable: {error}")))?
        .len();
    if bytes > MAX_META_BYTES {
        return Err(GrantStoreError::invalid(format!("meta is longer than {MAX_META_BYTES} bytes")));
    }
    Ok(())
}

fn walk_members(members: &Meta, depth: usize, nodes: &mut usize) -> Result<(), GrantStoreError> {
    members.values().try_for_each(|value| walk(value, depth, nodes))
}

// Recursion is bounded: it stops at MAX_META_DEPTH.
fn walk(value: &Value, depth: usize, nodes: &mut usize) -> Result<(), GrantStoreError> {
    *nodes += 1;
    if *nodes > MAX_META_NODES {
        return Err(GrantStoreError::invalid(format!("meta has more than {MAX_META_NODES} members")));
    }
    let deeper = depth + 1;
    let container = matches!(value, Value::Array(_) | Value::Object(_));
    if container && deeper > MAX_META_DEPTH {
        return Err(GrantStoreError::invalid(format!("meta is deeper than {MAX_META_DEPTH}")));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, deeper, nodes)),
        Value::Object(members) => walk_members(members, deeper, nodes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meta(value: Value) -> Meta {
        match value {
            Value::Object(map) => map,
            _ => Meta::new(),
        }
    }

    fn nested(depth: usize) -> Meta {
        let mut value = json!({});
        for _ in 1..depth {
            value = json!({ "a": value });
        }
        meta(value)
    }

    #[test]
    fn each_bound_holds_exactly() {
        assert!(check_meta(&nested(MAX_META_DEPTH)).is_ok());
        assert!(check_meta(&nested(MAX_META_DEPTH + 1)).is_err());
        assert!(check_meta(&meta(json!({ "a": vec![0; MAX_META_NODES - 1] }))).is_ok());
        assert!(check_meta(&meta(json!({ "a": vec![0; MAX_META_NODES] }))).is_err());
        let overhead = r#"{"a":""}"#.len();
        assert!(check_meta(&meta(json!({ "a": "x".repeat(MAX_META_BYTES - overhead) }))).is_ok());
        assert!(check_meta(&meta(json!({ "a": "x".repeat(MAX_META_BYTES - overhead + 1) }))).is_err());
    }
}
