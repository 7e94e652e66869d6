//! `flows`: the catalog.

use serde_json::json;

use crate::bench::{Bench, keys};

const NAMES: [&str; 17] = [
    "read",
    "write",
    "edit",
    "ls",
    "glob",
    "grep",
    "bash",
    "test",
    "shell_command",
    "apply_patch",
    "update_plan",
    "fetch",
    "http-post",
    "explore",
    "webfetch",
    "websearch",
    "lsp",
];

#[test]
fn all_seventeen_are_listed_and_those_with_a_handler_marked() {
    let bench = Bench::new();
    let listed = bench.run(&["flows", "--json"]).is(0).json();
    let listed = listed.as_array().unwrap();
    let names: Vec<&str> = listed.iter().map(|flow| flow["name"].as_str().unwrap()).collect();
    assert_eq!(names, NAMES);
    for flow in listed {
        assert_eq!(keys(flow), ["capabilities", "description", "handler", "mode", "name", "tier"]);
    }
    let run = bench.run(&["exec", "--json", "-e", "ctx.done(Object.keys(ctx.flows).sort())"]).is(0).json();
    let mut bound: Vec<&str> = listed
        .iter()
        .filter(|flow| flow["handler"] == json!(true))
        .map(|flow| flow["name"].as_str().unwrap())
        .collect();
    bound.sort_unstable();
    assert_eq!(run["output"], json!(bound));
    assert!(bound.contains(&"read") && !bound.contains(&"explore"));
    let text = bench.run(&["flows"]).is(0).out.clone();
    assert_eq!(text.lines().count(), 17);
    assert!(text.starts_with("read           handler  sealed "), "{text}");
}

#[test]
fn one_declaration_has_effects_capabilities_codes_and_schemas() {
    let bench = Bench::new();
    let flow = bench.run(&["flows", "write", "--json"]).is(0).json();
    assert_eq!(
        keys(&flow),
        [
            "capabilities",
            "codes",
            "description",
            "digest",
            "effects",
            "flows",
            "handler",
            "input",
            "model",
            "name",
            "output"
        ]
    );
    assert_eq!(
        flow["effects"],
        json!({"reads": [], "writes": ["/**"], "mode": "hermetic", "onConflict": "serialize", "tier": "compensable"})
    );
    assert_eq!(flow["capabilities"], json!(["fs:write:/**"]));
    let codes = flow["codes"].as_array().unwrap();
    assert!(
        codes.contains(&json!("permission_denied")) && codes.contains(&json!("command_failed")),
        "{flow}"
    );
    assert_eq!(flow["input"]["required"], json!(["path", "content"]));
    for name in NAMES {
        let text = bench.run(&["flows", name]).is(0).out.clone();
        for part in ["tier", "capabilities", "codes", "\ninput\n{", "\noutput\n{"] {
            assert!(text.contains(part), "{name}: {part}");
        }
    }
    let near = bench.run(&["flows", "raed", "--json"]);
    assert_eq!(near.is(2).code(), "unknown_flow");
    assert!(near.err.contains("The nearest name is read;"), "{}", near.err);
    let far = bench.run(&["flows", "zzzzzz"]);
    assert!(far.is(2).err.contains(&format!("The names are {};", NAMES.join(", "))), "{}", far.err);
}

#[test]
fn schemas_and_digests_stand_alone() {
    let bench = Bench::new();
    let one = bench.run(&["flows", "read", "--schema", "--json"]).is(0).json();
    assert_eq!(keys(&one), ["input", "output"]);
    let all = bench.run(&["flows", "--schema", "--json"]).is(0).json();
    assert_eq!((keys(&all).len(), &all["read"]), (17, &one));
    let digests = bench.run(&["flows", "--digest", "--json"]).is(0).json();
    let text = bench.run(&["flows", "read", "--digest"]).is(0).out.clone();
    assert_eq!(digests["read"].as_str().unwrap(), text.trim_end());
    assert_eq!(text.trim_end().len(), 64);
    assert_eq!((digests["fetch"].clone(), digests["explore"].as_str().unwrap().len()), (json!(null), 64));
    assert_eq!(bench.run(&["flows", "--schema", "--digest", "--json"]).is(2).code(), "usage");
}
