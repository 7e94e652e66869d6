//! `unsafe-report` and `longest-functions` on real sources: they agree with a `syn` visitor, block by block.

use flowcell_tests::{Exec, files};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::outline::Outline;
use super::{CALLS, cell, parameters, unpacked};

/// Functions of which the lists are compared: more than any package holds, so all of them and their order.
const COUNT: usize = 100_000;

/// The part of tokio that CI looks at: its parser, not optimised there, takes seconds for the rest.
const TOKIO: [&str; 2] = ["src/runtime", "src/sync"];

/// A package as a workspace, and what the parser sees in it.
struct Input {
    workspace: TempDir,
    files: usize,
    expected: Outline,
}

impl Input {
    /// The parser looks at the files that hold `word`.
    fn of(package: &str, word: &str) -> Self {
        let workspace = unpacked(package, if package == "tokio" { &TOKIO } else { &["src"] });
        let mut sources = files(workspace.path(), "rs").unwrap();
        let files = sources.len();
        sources.retain(|_, text| text.contains(word));
        Self { files, expected: Outline::of(&sources), workspace }
    }

    fn run(&self, name: &str) -> Value {
        let exec = Exec::new(self.workspace.path()).unwrap().limit("calls", CALLS);
        let output = exec.cell(&cell(name)).unwrap().output().unwrap().clone();
        assert_eq!(output["skipped"], json!([]));
        assert_eq!(output["files"], json!(self.files));
        output
    }
}

fn unsafe_report_agrees(package: &str) {
    let input = Input::of(package, "unsafe");
    let blocks = &input.expected.blocks;
    assert!(blocks.len() > 100, "{package} is real input: {} blocks", blocks.len());
    same(input.run("unsafe-report.js")["blocks"].as_array().unwrap(), blocks);
}

fn longest_functions_agree(package: &str) {
    let input = Input::of(package, "fn");
    let functions = input.expected.longest(COUNT);
    assert!(functions.len() > 500, "{package} is real input: {} functions", functions.len());
    parameters(input.workspace.path(), &json!({"count": COUNT}));
    let output = input.run("longest-functions.js");
    assert_eq!(output["functions"], json!(functions.len()));
    same(output["longest"].as_array().unwrap(), &functions);
}

/// Compares lists entry by entry, so that a difference shows as the entries that differ.
fn same(found: &[Value], expected: &[Value]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn unsafe_report_agrees_with_the_parser_on_tokio() {
    unsafe_report_agrees("tokio");
}

#[test]
fn unsafe_report_agrees_with_the_parser_on_rusqlite() {
    unsafe_report_agrees("rusqlite");
}

#[test]
fn unsafe_report_agrees_with_the_parser_on_rquickjs_core() {
    unsafe_report_agrees("rquickjs-core");
}

#[test]
fn longest_functions_agree_with_the_parser_on_tokio() {
    longest_functions_agree("tokio");
}

#[test]
fn longest_functions_agree_with_the_parser_on_rusqlite() {
    longest_functions_agree("rusqlite");
}

#[test]
fn longest_functions_agree_with_the_parser_on_rquickjs_core() {
    longest_functions_agree("rquickjs-core");
}
