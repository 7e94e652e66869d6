//! What the cells refuse, and what is refused to them: nothing is half done.

use std::fs;

use flowcell_tests::{Exec, Outcome, files, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{cell, parameters};

/// `rename-symbol` on the fixture workspace with these parameters, allowed to write; nothing may change.
fn refused(input: &Value) -> String {
    let workspace = workspace("arena").unwrap();
    parameters(workspace.path(), input);
    refused_in(&workspace)
}

fn refused_in(workspace: &TempDir) -> String {
    let before = files(workspace.path(), "rs").unwrap();
    let exec = Exec::new(workspace.path()).unwrap().allow_writing(workspace.path()).unwrap();
    let outcome = exec.cell(&cell("rename-symbol.js")).unwrap();
    assert_eq!(files(workspace.path(), "rs").unwrap(), before);
    raised(&outcome)
}

/// The message of a run whose last frame raised.
fn raised(outcome: &Outcome) -> String {
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert_eq!(outcome.document["status"], "failed");
    let frame = outcome.document["frames"].as_array().unwrap().last().unwrap();
    assert_eq!(frame["outcome"], "raised");
    frame["message"].as_str().unwrap().to_owned()
}

#[test]
fn names_that_are_none_are_refused() {
    for name in ["", "a-b", "fn", "Self", "_", "r#Slot", "Slot "] {
        let message = format!("cell-input.json: {} is not an identifier that can be renamed", json!(name));
        assert_eq!(refused(&json!({"from": "Slot", "to": name})), message);
        assert_eq!(refused(&json!({"from": name, "to": "Place"})), message);
    }
    assert_eq!(refused(&json!({"from": "Slot", "to": "Slot"})), "cell-input.json: from and to are the same");
    assert_eq!(
        refused(&json!({"from": "Slot", "into": "Place"})),
        "cell-input.json: there is no parameter into"
    );
}

#[test]
fn a_new_name_in_use_is_refused() {
    assert_eq!(refused(&json!({"from": "Slot", "to": "SlotId"})), "SlotId is already a name at src/lib.rs:8");
    // In comments and strings alone it is free.
    let workspace = workspace("arena").unwrap();
    parameters(workspace.path(), &json!({"from": "Slot", "to": "not_a_function"}));
    let exec = Exec::new(workspace.path()).unwrap().allow_writing(workspace.path()).unwrap();
    assert_eq!(exec.cell(&cell("rename-symbol.js")).unwrap().output().unwrap()["to"], "not_a_function");
}

#[test]
fn a_file_that_cannot_be_read_whole_stops_a_rename() {
    let workspace = workspace("arena").unwrap();
    parameters(workspace.path(), &json!({"from": "Slot", "to": "Place"}));
    let long = format!("// Slot {}\n", "x".repeat(2_100));
    fs::write(workspace.path().join("src/wide.rs"), long).unwrap();
    assert_eq!(refused_in(&workspace), "src/wide.rs: a line is too long to read");
}

/// The reports name such a file and go on.
#[test]
fn a_file_that_cannot_be_read_whole_is_named_in_a_report() {
    let workspace = workspace("arena").unwrap();
    fs::write(workspace.path().join("src/wide.rs"), format!("// unsafe {}\n", "x".repeat(2_100))).unwrap();
    let outcome = Exec::new(workspace.path()).unwrap().cell(&cell("unsafe-report.js")).unwrap();
    let output = outcome.output().unwrap();
    assert_eq!(output["files"], json!(5));
    assert_eq!(
        output["skipped"],
        json!([{"file": "src/wide.rs", "why": "src/wide.rs: a line is too long to read"}])
    );
    assert!(!output["blocks"].as_array().unwrap().is_empty());
}

/// Nobody gave the right to write: the run waits at the first edit, and no file changed.
#[test]
fn writing_waits_for_permission() {
    let workspace = workspace("arena").unwrap();
    parameters(workspace.path(), &json!({"from": "Slot", "to": "Place"}));
    let before = files(workspace.path(), "rs").unwrap();
    let outcome = Exec::new(workspace.path()).unwrap().cell(&cell("rename-symbol.js")).unwrap();
    assert_eq!(outcome.status, 3, "{}", outcome.stderr);
    assert_eq!(outcome.document["status"], "suspended");
    assert_eq!(outcome.document["suspended"]["reason"], "permission-required");
    assert!(
        outcome.stderr.trim_end().lines().last().unwrap().contains("flowcell approve"),
        "{}",
        outcome.stderr
    );
    assert_eq!(files(workspace.path(), "rs").unwrap(), before);
}
