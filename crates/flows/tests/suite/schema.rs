//! The projection of Rust types, and the seventeen documents (kernel contract 8).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowcell_flows::canonical::sha256_hex;
use flowcell_flows::schema::SchemaDoc;
use flowcell_flows::{FlowDescriptor, Manifest, declaration_digest, explore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Everything {
    /// A text,
    /// over two lines.
    zulu_text: String,
    #[schemars(length(min = 2))]
    bounded: Option<String>,
    count: u64,
    #[schemars(range(min = 1, max = 20))]
    most: Option<u64>,
    signed: i64,
    small: u8,
    number: f64,
    #[schemars(extend("exclusiveMinimum" = 0))]
    positive: Option<f64>,
    flag: Option<bool>,
    /// The kind.
    kind: Option<Kind>,
    record: Option<BTreeMap<String, String>>,
    list: Vec<Nested>,
    /// Nested.
    nested: Option<Nested>,
    #[schemars(inner(length(min = 1)))]
    names: Vec<String>,
    anything: Value,
    maybe_anything: Option<Value>,
    either: Option<Either>,
    #[serde(default)]
    defaulted: u64,
    object: Map<String, Value>,
}

/// Two literals.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// The first.
    First,
    /// The second.
    SecondOne,
}

/// A struct in a struct.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Nested {
    /// The one field.
    field: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Either {
    Text(String),
    Nested(Nested),
}

#[test]
fn a_type_projects_to_a_plain_closed_inline_document() {
    let nested = json!({
        "type": "object",
        "properties": {"field": {"type": "string", "description": "The one field."}},
        "required": [],
        "additionalProperties": false,
    });
    let mut described = nested.clone();
    described["description"] = json!("Nested.");
    let expected = json!({
        "type": "object",
        "properties": {
            "zuluText": {"type": "string", "description": "A text, over two lines."},
            "bounded": {"type": "string", "minLength": 2},
            "count": {"type": "integer", "minimum": 0},
            "most": {"type": "integer", "minimum": 1, "maximum": 20},
            "signed": {"type": "integer"},
            "small": {"type": "integer", "minimum": 0, "maximum": 255},
            "number": {"type": "number"},
            "positive": {"type": "number", "exclusiveMinimum": 0},
            "flag": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["first", "second_one"], "description": "The kind."},
            "record": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": nested},
            "nested": described,
            "names": {"type": "array", "items": {"type": "string", "minLength": 1}},
            "anything": {},
            "maybeAnything": {},
            "either": {"anyOf": [{"type": "string"}, nested]},
            "defaulted": {"type": "integer", "minimum": 0},
            "object": {"type": "object", "additionalProperties": {}},
        },
        "required": ["zuluText", "count", "signed", "small", "number", "list", "names", "anything", "object"],
        "additionalProperties": false,
    });
    let document = SchemaDoc::of::<Everything>();
    pretty_eq(document.document(), &expected);
}

#[test]
fn a_recursive_type_says_nothing_where_it_meets_itself() {
    #[derive(JsonSchema)]
    struct Tree {
        children: Vec<Tree>,
    }
    let document = SchemaDoc::of::<Tree>();
    assert_eq!(document.document()["properties"]["children"]["type"], "array");
    assert!(!document.document().to_string().contains("$ref"));
    let _ = Tree { children: Vec::new() }.children;
}

#[test]
fn the_standard_documents_use_only_the_words_of_the_contract() {
    fn walk(schema: &Value, at: &str) {
        const WORDS: [&str; 13] = [
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "anyOf",
            "minimum",
            "exclusiveMinimum",
            "maximum",
            "minLength",
            "description",
        ];
        let schema = schema.as_object().unwrap();
        for (word, value) in schema {
            assert!(WORDS.contains(&word.as_str()), "{word} at {at}");
            match word.as_str() {
                "properties" => {
                    for (name, field) in value.as_object().unwrap() {
                        assert!(field.get("description").is_some(), "{at}.{name} says what it means");
                        walk(field, &format!("{at}.{name}"));
                    }
                }
                "items" => walk(value, &format!("{at}[]")),
                "anyOf" => value.as_array().unwrap().iter().for_each(|branch| walk(branch, at)),
                "additionalProperties" if value.is_object() => walk(value, at),
                _ => {}
            }
        }
        if schema.contains_key("properties") {
            assert_eq!(schema["additionalProperties"], json!(false), "{at}");
            assert!(schema["required"].is_array(), "{at}");
        }
    }
    for flow in Manifest::standard().flows() {
        walk(flow.input.document(), flow.name);
        walk(flow.output.document(), flow.name);
    }
}

/// What the snapshot holds of every flow: both documents and the declaration digest, taken with the SHA-256 of
/// `<name> handler` as content digest (`explore` has none).
fn snapshot() -> Value {
    let of = |flow: &flowcell_flows::FlowDecl| {
        let descriptor = if flow.name == explore::NAME {
            FlowDescriptor::dynamic(flow)
        } else {
            FlowDescriptor::bound(flow, sha256_hex(format!("{} handler", flow.name).as_bytes()))
        };
        json!({
            "digest": declaration_digest(&descriptor),
            "input": flow.input.document(),
            "output": flow.output.document(),
        })
    };
    Manifest::standard().flows().iter().map(|flow| (flow.name.to_owned(), of(flow))).collect()
}

fn snapshot_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/schemas.json")
}

/// The documents and digests are durable: a journal of an earlier build is replayed only where they are the same. When
/// a change is meant, write the file anew and read the difference:
///
/// ```text
/// cargo test -p flowcell-flows --test suite -- --ignored write_the_snapshot
/// ```
#[test]
fn the_documents_and_digests_are_the_kept_ones() {
    let kept: Value = serde_json::from_slice(&std::fs::read(snapshot_file()).unwrap()).unwrap();
    let now = snapshot();
    for name in Manifest::standard().names() {
        pretty_eq(&now[name], &kept[name]);
    }
    assert_eq!(now, kept);
}

#[test]
#[ignore = "run by hand: rewrites the snapshot that the test above compares with"]
fn write_the_snapshot() {
    let text = serde_json::to_string_pretty(&snapshot()).unwrap() + "\n";
    std::fs::write(snapshot_file(), text).unwrap();
}

/// Equality that names the first line that differs, not two whole documents.
fn pretty_eq(left: &Value, right: &Value) {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    let (left, right) = (pretty(left), pretty(right));
    for (number, (left, right)) in left.lines().zip(right.lines()).enumerate() {
        assert_eq!(left, right, "line {}", number + 1);
    }
    assert_eq!(left, right);
}
