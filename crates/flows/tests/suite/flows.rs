//! The seventeen declarations (kernel contract 7).

use std::collections::BTreeSet;

use flowcell_flows::capability::{ActionSel, CapabilityPattern};
use flowcell_flows::effects::{Effects, Mode, OnConflict, Tier, narrow};
use flowcell_flows::{Action, Code, Manifest, StdError, bash, edit, explore, lsp, read, update_plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties;

/// The table of the contract: name, tier, mode, reads, writes, capabilities.
const TABLE: &str = "\
read           sealed        hermetic  /**  -    fs:read:/**
write          compensable   hermetic  -    /**  fs:write:/**
edit           compensable   hermetic  /**  /**  fs:read:/**,fs:write:/**
ls             sealed        hermetic  /**  -    fs:read:/**
glob           sealed        hermetic  /**  -    fs:read:/**
grep           sealed        hermetic  /**  -    fs:read:/**
bash           irreversible  expected  -    -    proc:spawn:*
test           irreversible  expected  -    -    proc:spawn:*
shell_command  irreversible  expected  -    -    proc:spawn:*
apply_patch    compensable   hermetic  /**  /**  fs:read:/**,fs:write:/**
update_plan    sealed        hermetic  -    -    -
fetch          sealed        expected  -    -    net:get:*
http-post      irreversible  expected  -    -    net:post:*
explore        sealed        hermetic  /**  -    fs:read:/**
webfetch       sealed        expected  -    -    net:get:*
websearch      sealed        expected  -    -    net:post:*
lsp            sealed        hermetic  /**  -    fs:read:/**
";

#[test]
fn the_declarations_are_the_table() {
    let list = |items: &[String]| if items.is_empty() { "-".to_owned() } else { items.join(",") };
    let mut rows = Vec::new();
    for flow in Manifest::standard().flows() {
        let mode = serde_json::to_value(flow.effects.mode).unwrap();
        assert_eq!(flow.effects.on_conflict, OnConflict::Serialize, "{}", flow.name);
        rows.push(vec![
            flow.name.to_owned(),
            flow.effects.tier.to_string(),
            mode.as_str().unwrap().to_owned(),
            list(&flow.effects.reads),
            list(&flow.effects.writes),
            list(&flow.capabilities),
        ]);
    }
    let table: Vec<Vec<&str>> = TABLE.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, table);
}

#[test]
fn the_manifest_agrees_with_itself() {
    let manifest = Manifest::standard();
    let names: Vec<&str> = manifest.flows().iter().map(|flow| flow.name).collect();
    assert_eq!(names, manifest.names());
    assert_eq!(manifest.names().len(), 17);
    let handlers: Vec<&str> = names.iter().copied().filter(|name| *name != "explore").collect();
    assert_eq!(handlers, manifest.handler_names());
    let read_only = ["read", "ls", "glob", "grep", "fetch", "explore", "webfetch", "lsp"];
    assert_eq!(manifest.read_only(), read_only);
    for name in read_only {
        for capability in &manifest.get(name).unwrap().capabilities {
            let selector = CapabilityPattern::parse(capability).unwrap().action();
            for forbidden in [Action::FsWrite, Action::NetPost, Action::ProcSpawn] {
                assert!(!selector.covers(forbidden), "{name} declares {capability}");
            }
        }
    }
    assert!(manifest.get("websearch").unwrap().capabilities.contains(&"net:post:*".to_owned()));
    assert!(manifest.get("http_post").is_none() && manifest.effects_for("unknown", &Value::Null).is_none());
    for name in manifest.names() {
        assert!(manifest.effects_for(name, &json!({})).is_some());
    }
}

/// Failure codes: what the flow reference lists for a flow, then what the host, search, egress and language-server contracts
/// add to it.
const CODES: &str = "\
read           not_found,permission_denied,is_directory,binary_file,offset_out_of_range,response_too_large invalid_input,command_failed
write          command_failed permission_denied,invalid_input
edit           invalid_input,no_match,offset_out_of_range,not_found,binary_file,command_failed permission_denied,response_too_large
ls             not_found,not_a_directory,offset_out_of_range permission_denied,invalid_input,command_failed
glob           invalid_pattern,not_found,command_failed,provider_unavailable,request_failed invalid_input,permission_denied,timeout
grep           invalid_input,invalid_pattern,not_found,command_failed,provider_unavailable,request_failed permission_denied,binary_file,timeout
bash           invalid_input,outside_declared_reads,outside_declared_writes,provider_unavailable,outside_container,timeout,command_failed
test           provider_unavailable,request_failed,invalid_input,not_found,timeout,command_failed
shell_command  command_failed invalid_input
apply_patch    invalid_input,not_found,binary_file,no_match permission_denied,response_too_large,command_failed
update_plan    invalid_input
fetch          invalid_input,request_failed,response_too_large,timeout,permission_denied,unsupported provider_unavailable
http-post      invalid_input,request_failed,response_too_large,timeout,permission_denied,unsupported provider_unavailable
explore
webfetch       invalid_input,timeout,unsupported_content_type,response_too_large,request_failed,permission_denied,unsupported provider_unavailable
websearch      rate_limited,provider_unavailable,request_failed,timeout permission_denied,response_too_large,unsupported,invalid_input
lsp            invalid_input,unsupported,timeout,request_failed,command_failed not_found,is_directory,binary_file,response_too_large,permission_denied
";

#[test]
fn the_failure_codes_are_those_of_the_contracts() {
    let manifest = Manifest::standard();
    assert_eq!(CODES.lines().count(), manifest.names().len());
    for (line, name) in CODES.lines().zip(manifest.names()) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(*name));
        let expected: Vec<&str> = words.flat_map(|list| list.split(',')).collect();
        let codes: Vec<&str> = manifest.codes(name).iter().map(|code| code.as_str()).collect();
        assert_eq!(codes, expected, "{name}");
        let distinct: BTreeSet<&str> = codes.iter().copied().collect();
        assert_eq!(distinct.len(), codes.len(), "{name}");
        assert_eq!(codes.is_empty(), !manifest.handler_names().contains(name), "{name}");
    }
    assert!(manifest.codes("unknown").is_empty());
    // These two are for hosts' own handlers; every other code is some flow's.
    let raised: BTreeSet<Code> =
        manifest.names().iter().flat_map(|name| manifest.codes(name)).copied().collect();
    let never: Vec<Code> = Code::ALL.into_iter().filter(|code| !raised.contains(code)).collect();
    assert_eq!(never, [Code::NotAFile, Code::NotModified]);
}

/// What a call leaves out is left out, whichever way its input was made.
#[test]
fn inputs_are_written_with_what_matters_alone() {
    let edit = edit::Input {
        path: "a".to_owned(),
        old_string: Some("x".to_owned()),
        new_string: "y".to_owned(),
        ..edit::Input::default()
    };
    assert_eq!(serde_json::to_value(edit).unwrap(), json!({"path": "a", "oldString": "x", "newString": "y"}));
    let read = read::Input { path: "a".to_owned(), ..Default::default() };
    assert_eq!(serde_json::to_value(read).unwrap(), json!({"path": "a"}));
    let lsp = lsp::Input { query: Some("f".to_owned()), ..lsp::Input::new(lsp::Operation::WorkspaceSymbols) };
    assert_eq!(serde_json::to_value(lsp).unwrap(), json!({"operation": "workspaceSymbols", "query": "f"}));
    assert_eq!(serde_json::to_value(bash::Input::default()).unwrap(), json!({"mode": "unhermetic"}));
}

#[test]
fn descriptions_are_short_imperatives_and_capabilities_parse() {
    for flow in Manifest::standard().flows() {
        let length = flow.description.chars().count();
        assert!((1..=200).contains(&length), "{}: {length}", flow.name);
        let first = flow.description.split(' ').next().unwrap();
        assert!(first.starts_with(char::is_uppercase) && !first.ends_with('s'), "{}: {first}", flow.name);
        for capability in &flow.capabilities {
            let pattern = CapabilityPattern::parse(capability).unwrap();
            assert!(matches!(pattern.action(), ActionSel::Exact(_)));
        }
    }
}

#[test]
fn effects_for_narrows_to_the_input() {
    let effects = |name: &str, input: Value| Manifest::standard().effects_for(name, &input).unwrap();
    let paths = |effects: Effects| (effects.reads, effects.writes);
    let one = |path: &str| vec![path.to_owned()];
    assert_eq!(paths(effects("read", json!({"path": "/ws/a"}))), (one("/ws/a"), vec![]));
    assert_eq!(paths(effects("ls", json!({"path": "/ws"}))), (one("/ws"), vec![]));
    assert_eq!(paths(effects("write", json!({"path": "/ws/a", "content": ""}))), (vec![], one("/ws/a")));
    assert_eq!(paths(effects("edit", json!({"path": "/ws/a"}))), (one("/ws/a"), one("/ws/a")));
    assert_eq!(
        paths(effects("grep", json!({"pattern": "a", "root": "/ws/src/"}))),
        (one("/ws/src/**"), vec![])
    );
    assert_eq!(paths(effects("glob", json!({"pattern": "a", "root": "/"}))), (one("/**"), vec![]));
    assert_eq!(paths(effects("glob", json!({"pattern": "a", "root": "///"}))), (one("/**"), vec![]));
    for name in Manifest::standard().names() {
        assert_eq!(effects(name, json!({})), Manifest::standard().get(name).unwrap().effects, "{name}");
    }
    // Without a workspace a relative path has no place: the declared entry stays.
    for input in [json!({"path": "a"}), json!({"path": "/ws/../a"}), json!({"path": 1})] {
        assert_eq!(paths(effects("read", input)), (one("/**"), vec![]));
    }
    assert_eq!(paths(effects("grep", json!({"pattern": "a", "root": "src"}))), (one("/**"), vec![]));
}

#[test]
fn a_hermetic_bash_states_its_own_effects() {
    let effects_for = bash::decl().effects_for;
    let input = json!({"mode": "hermetic", "command": "x", "reads": ["/b", "/a"], "writes": ["/o"]});
    let expected = Effects::new(
        vec!["/a".into(), "/b".into()],
        vec!["/o".into()],
        Mode::Hermetic,
        OnConflict::Serialize,
        Tier::Compensable,
    );
    assert_eq!(effects_for(&input), expected);
    for input in [json!({"command": "x"}), json!({"mode": "hermetic", "command": "x"}), Value::Null] {
        assert_eq!(effects_for(&input), bash::decl().effects);
    }
}

#[test]
fn explore_is_composed_and_may_be_pinned() {
    let flow = explore::decl();
    assert_eq!(flow.flows, ["read", "ls", "glob", "grep"]);
    assert_eq!(flow.model, None);
    assert_eq!(explore::make(Some("m".into())).model.as_deref(), Some("m"));
    for flow in Manifest::standard().flows() {
        assert!(flow.name == "explore" || flow.flows.is_empty() && flow.model.is_none());
    }
}

#[test]
fn the_fixed_words_of_the_reference() {
    assert_eq!(update_plan::ACKNOWLEDGEMENT, "Plan updated");
    let operations: Vec<Value> =
        lsp::Operation::ALL.iter().map(|operation| serde_json::to_value(operation).unwrap()).collect();
    let expected = json!([
        "hover",
        "definition",
        "references",
        "implementation",
        "documentSymbols",
        "workspaceSymbols",
        "prepareCallHierarchy",
        "callHierarchyIncoming",
        "callHierarchyOutgoing",
        "diagnostics",
    ]);
    assert_eq!(json!(operations), expected);
    assert_eq!(StdError::new(Code::InvalidInput, "m").message, "m");
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn a_call_never_needs_more_than_is_declared(
        path in prop_oneof![any::<String>(), "[/.ab*]{0,9}"],
        root in prop::option::of(prop_oneof![any::<String>(), "[/.ab*]{0,9}"]),
        reads in prop::collection::vec(".{0,4}", 0..3),
    ) {
        let input = json!({"path": path, "root": root, "input": path, "command": path, "reads": reads});
        for flow in Manifest::standard().flows() {
            let step = (flow.effects_for)(&input);
            prop_assert_eq!(narrow(&flow.effects, &step), Ok(()), "{}", flow.name);
        }
    }
}
