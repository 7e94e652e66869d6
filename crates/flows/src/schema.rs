//! JSON Schema documents of inputs and outputs: the projection and what it accepts (kernel contract 8).

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::validate;

/// Issues that one look at a value reports at most; a value that is wrong all over is no longer than that to tell of.
pub const MAX_ISSUES: usize = 20;

/// One reason why a value does not meet a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Issue {
    /// Where in the value: member names joined by dots, elements as `[index]`; empty for the value itself. What is over
    /// 200 characters is cut and ends in three dots.
    pub path: String,
    /// What is wrong there. It names types and bounds, never the value's own text.
    pub message: String,
}

impl Issue {
    /// An issue of its two parts.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            out.write_str(&self.message)
        } else {
            write!(out, "{}: {}", self.path, self.message)
        }
    }
}

/// A rule that JSON Schema has no word for, run after the document accepted the value.
pub type Check = fn(&Value) -> Vec<Issue>;

/// A JSON Schema document (draft 2020-12) of one input or output.
///
/// Documents made by [`SchemaDoc::of`] are inline and closed. They use `type`, `properties`, `required`,
/// `additionalProperties`, `items`, `enum`, `const`, `anyOf`, `minimum`, `exclusiveMinimum`, `maximum`, `minLength` and
/// `description`, and nothing else; [`SchemaDoc::validate`] knows exactly these and ignores every other word that a
/// foreign document may hold. Two documents are equal when their JSON is; in JSON a document is that JSON.
///
/// ```
/// use flowcell_flows::schema::SchemaDoc;
/// #[derive(schemars::JsonSchema)]
/// struct Echo { text: String, times: Option<u64> }
/// assert_eq!(
///     SchemaDoc::of::<Echo>().document(),
///     &serde_json::json!({
///         "type": "object",
///         "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 0}},
///         "required": ["text"],
///         "additionalProperties": false,
///     }),
/// );
/// # let _ = Echo { text: String::new(), times: None }.text;
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SchemaDoc {
    document: Value,
    #[serde(skip)]
    check: Option<Check>,
}

impl PartialEq for SchemaDoc {
    fn eq(&self, other: &Self) -> bool {
        self.document == other.document
    }
}

impl SchemaDoc {
    /// The projection of a Rust type.
    ///
    /// A struct is a closed object whose `required` lists the fields that are neither `Option` nor defaulted, in
    /// declaration order; an optional field has the plain schema of what it holds; a field's doc comment is its
    /// `description`. Titles, formats, defaults and the descriptions of types are left out. A recursive type has no
    /// inline form: where it meets itself the document says nothing (`{}`).
    #[must_use]
    pub fn of<T: JsonSchema>() -> Self {
        let mut generator = SchemaSettings::draft2020_12()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .into_generator();
        let raw = generator.root_schema_for::<T>().to_value();
        Self { document: project(&raw, false), check: None }
    }

    /// A document as it stands, as a peer sent it.
    #[must_use]
    pub fn from_document(document: Value) -> Self {
        Self { document, check: None }
    }

    /// The same document with a rule that JSON Schema cannot state; [`Self::validate`] runs it on values that the
    /// document accepts.
    #[must_use]
    pub fn with_check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// The JSON of the document.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The JSON of the document, taken out.
    #[must_use]
    pub fn into_document(self) -> Value {
        self.document
    }

    /// What is wrong with `value`, at most [`MAX_ISSUES`] of it; empty when the document accepts it.
    ///
    /// Members that the document does not declare are not judged (they are dropped on decoding), unless
    /// `additionalProperties` is a schema. An integer is a number without a fraction, of magnitude at most 2^53-1.
    #[must_use]
    pub fn validate(&self, value: &Value) -> Vec<Issue> {
        let issues = validate::issues(&self.document, value);
        match self.check {
            Some(check) if issues.is_empty() => check(value),
            _ => issues,
        }
    }

    /// The value as the document reads it: undeclared members of closed objects dropped, numbers without a fraction
    /// written as integers where the document has a number. Meant for values that [`Self::validate`] accepts; what
    /// the document does not accept stays as it is.
    #[must_use]
    pub fn conform(&self, value: &Value) -> Value {
        validate::conform(&self.document, value)
    }

    /// The value without those top-level `null`s that stand for an absent optional field: the document is of a struct,
    /// declares the field, does not require it and rejects `null` there. `None` when there is no such member.
    #[must_use]
    pub fn without_optional_nulls(&self, value: &Value) -> Option<Value> {
        let document = self.document.as_object()?;
        if document.get("type") != Some(&json!("object")) || document.contains_key("anyOf") {
            return None;
        }
        let properties = document.get("properties")?.as_object()?;
        let members = value.as_object()?;
        let is_optional_null = |name: &str| {
            members.get(name).is_some_and(Value::is_null)
                && !requires(document, name)
                && properties
                    .get(name)
                    .is_some_and(|schema| !validate::issues(schema, &Value::Null).is_empty())
        };
        if !members.keys().any(|name| is_optional_null(name)) {
            return None;
        }
        let kept = members.iter().filter(|(name, _)| !is_optional_null(name));
        Some(Value::Object(kept.map(|(name, member)| (name.clone(), member.clone())).collect()))
    }
}

impl AsRef<Value> for SchemaDoc {
    fn as_ref(&self) -> &Value {
        &self.document
    }
}

/// Whether a document of an object lists `name` in `required`.
fn requires(document: &Map<String, Value>, name: &str) -> bool {
    document
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|required| required.as_str() == Some(name)))
}

/// The words that are copied as they are from what the generator made.
const PLAIN_WORDS: [&str; 7] =
    ["type", "const", "enum", "minimum", "exclusiveMinimum", "maximum", "minLength"];

fn project(raw: &Value, is_field: bool) -> Value {
    let Some(raw) = raw.as_object() else {
        // `true` accepts everything, `false` nothing.
        return if raw == &Value::Bool(false) { json!({"enum": []}) } else { json!({}) };
    };
    let mut out = if let Some(branches) = union(raw) {
        literals(branches).unwrap_or_else(|| {
            let branches = branches.iter().map(|branch| project(branch, false)).collect();
            Map::from_iter([("anyOf".to_owned(), Value::Array(branches))])
        })
    } else if let Some([only]) = raw.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        match project(only, false) {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    } else {
        match raw.get("type").and_then(Value::as_str) {
            Some("object") => object(raw),
            Some("array") => Map::from_iter([
                ("type".to_owned(), json!("array")),
                (
                    "items".to_owned(),
                    raw.get("items").map_or_else(|| json!({}), |items| project(items, false)),
                ),
            ]),
            _ => PLAIN_WORDS
                .into_iter()
                .filter_map(|word| Some((word.to_owned(), raw.get(word)?.clone())))
                .collect(),
        }
    };
    if is_field && let Some(text) = raw.get("description").and_then(Value::as_str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        out.insert("description".to_owned(), Value::String(text));
    }
    Value::Object(out)
}

fn union(raw: &Map<String, Value>) -> Option<&[Value]> {
    raw.get("anyOf").or_else(|| raw.get("oneOf"))?.as_array().map(Vec::as_slice)
}

/// A union of nothing but texts is one list of literals.
fn literals(branches: &[Value]) -> Option<Map<String, Value>> {
    let mut texts = Vec::new();
    for branch in branches {
        match (branch.get("const"), branch.get("enum")) {
            (Some(text), None) => texts.push(text.clone()),
            (None, Some(Value::Array(list))) => texts.extend(list.iter().cloned()),
            _ => return None,
        }
    }
    texts.iter().all(Value::is_string).then(|| {
        Map::from_iter([("type".to_owned(), json!("string")), ("enum".to_owned(), Value::Array(texts))])
    })
}

fn object(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::from_iter([("type".to_owned(), json!("object"))]);
    let properties = raw.get("properties").and_then(Value::as_object);
    match (properties, raw.get("additionalProperties")) {
        (None, Some(members)) if members != &Value::Bool(false) => {
            out.insert("additionalProperties".to_owned(), project(members, false));
        }
        (properties, _) => {
            let declared = properties.into_iter().flatten().map(|(name, schema)| {
                let schema = if requires(raw, name) { schema.clone() } else { without_null(schema) };
                (name.clone(), project(&schema, true))
            });
            out.insert("properties".to_owned(), Value::Object(declared.collect()));
            out.insert("required".to_owned(), raw.get("required").cloned().unwrap_or_else(|| json!([])));
            out.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
    out
}

/// The schema of what an `Option` holds: the generator adds `null` to it, the projection takes it out again.
fn without_null(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let mut map = map.clone();
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = map.get_mut(word) else { continue };
        branches.retain(|branch| branch.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = branches.as_slice() {
            let mut only = only.clone();
            if let Some(description) = map.get("description") {
                only.insert("description".to_owned(), description.clone());
            }
            return Value::Object(only);
        }
    }
    Value::Object(map)
}
