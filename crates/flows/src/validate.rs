//! What a schema document accepts, and how an accepted value reads (kernel contract 8).

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::schema::{Issue, MAX_ISSUES};

/// Characters of the path of an issue.
const MAX_PATH: usize = 200;

/// The largest magnitude of an integer: 2^53-1, above which neighbours share one double.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

/// What is wrong with `value` by `schema`, the first [`MAX_ISSUES`] of it.
pub(crate) fn issues(schema: &Value, value: &Value) -> Vec<Issue> {
    let mut report = Report::default();
    report.check(schema, value, "");
    report.issues
}

#[derive(Default)]
struct Report {
    issues: Vec<Issue>,
    /// Whether a literal was another one: of two branches of a union, the one with its literals right is meant.
    wrong_literal: bool,
}

impl Report {
    fn add(&mut self, path: &str, message: impl Into<String>) {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(Issue::new(shortened(path), message));
        }
    }

    fn check(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(schema) = schema.as_object() else {
            if schema == &Value::Bool(false) {
                self.add(path, "nothing is accepted here");
            }
            return;
        };
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            self.check_union(branches, value, path);
        }
        if let Some(types) = schema.get("type")
            && !has_type(types, value)
        {
            self.add(path, format!("expected {}, got {}", type_names(types), type_of(value)));
            return;
        }
        self.check_literals(schema, value, path);
        match value {
            Value::Number(number) => {
                if let Some(number) = number.as_f64() {
                    self.check_bounds(schema, number, path);
                }
            }
            Value::String(text) => {
                let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
                let length = text.chars().count();
                if u64::try_from(length).unwrap_or(u64::MAX) < least {
                    self.add(path, format!("expected at least {least} characters, got {length}"));
                }
            }
            Value::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        self.check(schema, item, &format!("{path}[{index}]"));
                    }
                }
            }
            Value::Object(members) => self.check_members(schema, members, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_union(&mut self, branches: &[Value], value: &Value, path: &str) {
        let mut best: Option<Self> = None;
        for branch in branches {
            let mut report = Self::default();
            report.check(branch, value, path);
            if report.issues.is_empty() {
                return;
            }
            let better = best.as_ref().is_none_or(|best| report.rank() < best.rank());
            if better {
                best = Some(report);
            }
        }
        match best {
            Some(best) => {
                self.wrong_literal |= best.wrong_literal;
                self.issues.extend(best.issues);
            }
            None => self.add(path, "nothing is accepted here"),
        }
    }

    fn rank(&self) -> (bool, usize) {
        (self.wrong_literal, self.issues.len())
    }

    fn check_literals(&mut self, schema: &Map<String, Value>, value: &Value, path: &str) {
        let allowed = match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
            (Some(only), _) => std::slice::from_ref(only),
            (None, Some(values)) => values.as_slice(),
            (None, None) => return,
        };
        if !allowed.iter().any(|literal| is_same(literal, value)) {
            self.wrong_literal = true;
            let list = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            let message = if allowed.len() == 1 {
                format!("expected {list}")
            } else {
                format!("expected one of {list}")
            };
            self.add(path, message);
        }
    }

    fn check_bounds(&mut self, schema: &Map<String, Value>, number: f64, path: &str) {
        let bound = |word: &str| schema.get(word).and_then(Value::as_f64).map(|bound| (bound, &schema[word]));
        if let Some((least, text)) = bound("minimum")
            && number < least
        {
            self.add(path, format!("expected at least {text}"));
        }
        if let Some((floor, text)) = bound("exclusiveMinimum")
            && number <= floor
        {
            self.add(path, format!("expected more than {text}"));
        }
        if let Some((most, text)) = bound("maximum")
            && number > most
        {
            self.add(path, format!("expected at most {text}"));
        }
    }

    fn check_members(&mut self, schema: &Map<String, Value>, members: &Map<String, Value>, path: &str) {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if let Some(name) = name.as_str()
                && !members.contains_key(name)
            {
                self.add(&member_path(path, name), "is required");
            }
        }
        let declared = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for (name, member) in members {
            let schema = declared.and_then(|declared| declared.get(name)).or(others);
            if let Some(schema) = schema {
                self.check(schema, member, &member_path(path, name));
            }
        }
    }
}

/// A path whose names are the caller's, cut to [`MAX_PATH`] characters.
fn shortened(path: &str) -> Cow<'_, str> {
    match path.char_indices().nth(MAX_PATH) {
        Some((end, _)) => Cow::Owned(format!("{}...", path.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(path),
    }
}

fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn type_names(types: &Value) -> String {
    match types {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        name => name.as_str().unwrap_or("unknown").to_owned(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(names) => names.iter().any(|name| has_type(name, value)),
        name => match (name.as_str(), value) {
            (Some("null"), Value::Null)
            | (Some("boolean"), Value::Bool(_))
            | (Some("number"), Value::Number(_))
            | (Some("string"), Value::String(_))
            | (Some("array"), Value::Array(_))
            | (Some("object"), Value::Object(_)) => true,
            (Some("integer"), value) => is_integer(value),
            _ => false,
        },
    }
}

/// Whether a value is a number without a fraction, of magnitude at most 2^53-1.
fn is_integer(value: &Value) -> bool {
    whole(value).is_some()
}

fn whole(value: &Value) -> Option<i64> {
    if let Some(exact) = value.as_i64() {
        return (exact.unsigned_abs() <= 9_007_199_254_740_991).then_some(exact);
    }
    let number = value.as_f64()?;
    // In range, so the cast is exact.
    #[allow(clippy::cast_possible_truncation)]
    (number.fract() == 0.0 && number.abs() <= MAX_INTEGER).then_some(number as i64)
}

/// JSON equality, where `1` and `1.0` are one number.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, member)| right.get(name).is_some_and(|other| is_same(member, other)))
        }
        _ => left == right,
    }
}

/// `value` as `schema` reads it: see [`crate::schema::SchemaDoc::conform`].
pub(crate) fn conform(schema: &Value, value: &Value) -> Value {
    let Some(schema) = schema.as_object() else { return value.clone() };
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        let chosen = branches.iter().find(|branch| issues(branch, value).is_empty());
        return chosen.map_or_else(|| value.clone(), |branch| conform(branch, value));
    }
    match value {
        Value::Number(_) => {
            let is_number = schema
                .get("type")
                .is_some_and(|types| has_type(types, &Value::from(0)) || has_type(types, &Value::from(0.5)));
            match whole(value) {
                Some(whole) if is_number => Value::from(whole),
                _ => value.clone(),
            }
        }
        Value::Array(items) => match schema.get("items") {
            Some(schema) => Value::Array(items.iter().map(|item| conform(schema, item)).collect()),
            None => value.clone(),
        },
        Value::Object(members) => {
            let declared = schema.get("properties").and_then(Value::as_object);
            let others = schema.get("additionalProperties");
            let is_closed = others == Some(&Value::Bool(false));
            let read = members.iter().filter_map(|(name, member)| {
                let schema = declared.and_then(|declared| declared.get(name)).or(others);
                match schema {
                    Some(Value::Bool(false)) if is_closed => None,
                    Some(schema) => Some((name.clone(), conform(schema, member))),
                    None => Some((name.clone(), member.clone())),
                }
            });
            Value::Object(read.collect())
        }
        _ => value.clone(),
    }
}
