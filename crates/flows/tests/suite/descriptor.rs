//! Descriptors and the declaration digest (kernel contract 9; invariant 11 of its section 12).

use flowcell_flows::canonical::sha256_hex;
use flowcell_flows::descriptor::{
    Body, Declared, FlowDescriptor, Placement, Provenance, SchemaRef, declaration_digest,
};
use flowcell_flows::effects::{Effects, Mode, OnConflict, Tier};
use flowcell_flows::{Manifest, SchemaDoc, explore, read};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::properties;

/// Named for its document alone.
#[allow(dead_code)]
#[derive(JsonSchema)]
struct EchoInput {
    text: String,
}

/// Named for its document alone.
#[allow(dead_code)]
#[derive(JsonSchema)]
struct EchoOutput {
    text: String,
    length: f64,
}

fn echo() -> FlowDescriptor {
    let declared = Declared {
        name: "echo".into(),
        description: "Echo one string back.".into(),
        input: SchemaDoc::of::<EchoInput>(),
        output: SchemaDoc::of::<EchoOutput>(),
        effects: Effects::new(vec![], vec![], Mode::Hermetic, OnConflict::Serialize, Tier::Sealed),
        capabilities: vec![],
        flows: vec![],
        model: None,
    };
    FlowDescriptor::bound(declared, sha256_hex(b"echo handler v1"))
}

#[test]
fn the_digest_of_the_contract() {
    assert_eq!(
        declaration_digest(&echo()),
        "4649bee828e1392568f77d5bbc5976e2513c6d6a4067a7bd0361a752c911fd92"
    );
}

#[test]
fn every_other_field_is_material() {
    type Change = fn(&mut FlowDescriptor);
    let changes: [(&str, Change); 27] = [
        ("name", |d| d.name.push('x')),
        ("description", |d| d.description.push('x')),
        ("body tag", |d| {
            d.body = Body::Markdown {
                path: d.body.path().to_owned(),
                content_digest: d.body.content_digest().map(str::to_owned),
            }
        }),
        ("body dynamic", |d| d.body = Body::Dynamic { path: d.body.path().to_owned() }),
        ("body path", |d| {
            d.body =
                Body::Module { path: "x".into(), content_digest: d.body.content_digest().map(str::to_owned) }
        }),
        ("content digest", |d| {
            d.body = Body::Module { path: d.body.path().to_owned(), content_digest: Some("x".into()) }
        }),
        ("no content digest", |d| {
            d.body = Body::Module { path: d.body.path().to_owned(), content_digest: None }
        }),
        ("input", |d| d.input = SchemaDoc::from_document(json!({})).into()),
        ("no input", |d| d.input = SchemaRef::Absent),
        ("output", |d| d.output = SchemaDoc::from_document(json!({})).into()),
        ("no output", |d| d.output = SchemaRef::Absent),
        ("model", |d| d.model = Some("m".into())),
        ("flows", |d| d.flows = vec!["a".into(), "b".into()]),
        ("flow order", |d| d.flows = vec!["b".into(), "a".into()]),
        ("capabilities", |d| d.capabilities = vec!["fs:read:/**".into()]),
        ("reads", |d| d.effects.reads = vec!["/a".into()]),
        ("writes", |d| d.effects.writes = vec!["/a".into()]),
        ("mode", |d| d.effects.mode = Mode::Expected),
        ("on conflict", |d| d.effects.on_conflict = OnConflict::Lane),
        ("tier", |d| d.effects.tier = Tier::Compensable),
        ("placement", |d| d.placement = Some(Placement::Local)),
        ("model invocable", |d| d.model_invocable = false),
        ("budget", |d| d.budget = Some(json!({"calls": 1}))),
        ("path", |d| d.path.push('x')),
        ("frontmatter", |d| {
            d.frontmatter.insert("k".into(), Value::Null);
        }),
        ("source", |d| d.provenance.source.push('x')),
        ("root", |d| d.provenance.root.push('x')),
    ];
    let mut digests = vec![declaration_digest(&echo())];
    for (name, change) in changes {
        let mut changed = echo();
        change(&mut changed);
        let digest = declaration_digest(&changed);
        assert!(!digests.contains(&digest), "{name} is material");
        digests.push(digest);
    }
    let mut packed = echo();
    packed.provenance.pack = Some("p".into());
    assert_eq!(declaration_digest(&packed), digests[0], "the pack is not");
}

#[test]
fn a_document_with_an_unrepresentable_integer_has_a_digest_of_its_own() {
    let with = |most: u64| {
        let mut descriptor = echo();
        descriptor.input = SchemaDoc::from_document(json!({"type": "integer", "maximum": most})).into();
        declaration_digest(&descriptor)
    };
    assert_ne!(with(u64::MAX), with(u64::MAX - 1));
    assert_eq!(with(u64::MAX), with(u64::MAX));
}

#[test]
fn bound_and_dynamic_descriptors_have_their_paths() {
    let bound = FlowDescriptor::bound(&read::decl(), "d");
    let expected = json!({"_tag": "Module", "path": "binding://read", "contentDigest": "d"});
    assert_eq!(serde_json::to_value(&bound.body).unwrap(), expected);
    assert_eq!(bound.path, "binding://read");
    assert_eq!(
        bound.provenance,
        Provenance { source: "binding".into(), root: "binding://".into(), pack: None }
    );
    assert!(bound.model_invocable && bound.frontmatter.is_empty() && bound.budget.is_none());
    let dynamic = FlowDescriptor::dynamic(&explore::decl());
    assert_eq!(
        serde_json::to_value(&dynamic.body).unwrap(),
        json!({"_tag": "Dynamic", "path": "flow://explore"})
    );
    assert_eq!(dynamic.flows, ["read", "ls", "glob", "grep"]);
}

#[test]
fn a_descriptor_survives_json() {
    for flow in Manifest::standard().flows() {
        let mut descriptor = FlowDescriptor::bound(flow, sha256_hex(b"x"));
        descriptor.placement = Some(Placement::Sandbox);
        let value = serde_json::to_value(&descriptor).unwrap();
        assert_eq!(value["effects"]["onConflict"], json!("serialize"));
        assert_eq!(value["input"]["document"], *flow.input.document());
        let again: FlowDescriptor = serde_json::from_value(value).unwrap();
        assert_eq!(again, descriptor);
        assert_eq!(declaration_digest(&again), declaration_digest(&descriptor));
    }
}

#[test]
fn an_entry_of_the_cells_catalog_carries_no_authority() {
    let mut descriptor = echo();
    let entry = json!({
        "name": "echo", "description": "Echo one string back.", "capabilities": [], "tier": "sealed",
        "placement": null, "input": SchemaDoc::of::<EchoInput>().document(),
    });
    assert_eq!(descriptor.entry(), entry);
    descriptor.placement = Some(Placement::Remote);
    descriptor.input = SchemaRef::Absent;
    assert_eq!(descriptor.entry()["placement"], json!("remote"));
    assert_eq!(descriptor.entry()["input"], Value::Null);
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn the_order_of_members_and_of_capabilities_is_immaterial(
        capabilities in prop::collection::vec("[a-z\u{e000}\u{1F600}]{1,3}", 0..5).prop_shuffle(),
        members in prop::collection::btree_map("[a-z]{1,3}", any::<i32>(), 0..5),
    ) {
        let mut one = echo();
        one.capabilities = capabilities.clone();
        one.frontmatter = members.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut other = echo();
        other.capabilities = capabilities.into_iter().rev().collect();
        other.frontmatter = members.iter().rev().map(|(name, value)| (name.clone(), json!(value))).collect();
        prop_assert_eq!(declaration_digest(&one), declaration_digest(&other));
    }
}
