//! Each cell on its fixture workspace: the result that stands beside the cell, `NAME.expected.json`.
//!
//! The file holds the workspace's name, the cell's parameters, its output, and the lines that it changed.

use std::collections::BTreeMap;
use std::fs;

use flowcell_tests::{Exec, files, workspace};
use serde_json::{Value, json};

use super::outline::Outline;
use super::{cell, parameters};

fn expected(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(cell(name).with_extension("expected.json")).unwrap()).unwrap()
}

/// The lines that differ, by file and number from 1.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Value {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let mut changed = serde_json::Map::new();
    for (path, text) in before {
        let (was, is): (Vec<&str>, Vec<&str>) =
            (text.split('\n').collect(), after[path].split('\n').collect());
        assert_eq!(was.len(), is.len(), "{path}");
        let differ = was.iter().zip(&is).enumerate().filter(|(_, (was, is))| was != is);
        let lines: serde_json::Map<String, Value> =
            differ.map(|(at, (_, is))| ((at + 1).to_string(), json!(is))).collect();
        if !lines.is_empty() {
            changed.insert(path.clone(), Value::Object(lines));
        }
    }
    Value::Object(changed)
}

/// Runs a cell on the workspace its expected result names; answers the files as they then are.
fn meets_its_expectation(name: &str) -> BTreeMap<String, String> {
    let expected = expected(name);
    let workspace = workspace(expected["workspace"].as_str().unwrap()).unwrap();
    let before = files(workspace.path(), "rs").unwrap();
    if !expected["input"].is_null() {
        parameters(workspace.path(), &expected["input"]);
    }
    let exec = Exec::new(workspace.path()).unwrap().allow_writing(workspace.path()).unwrap();
    let outcome = exec.cell(&cell(name)).unwrap();
    assert_eq!(outcome.output().unwrap(), &expected["output"]);
    let after = files(workspace.path(), "rs").unwrap();
    assert_eq!(changes(&before, &after), expected["changed"]);
    after
}

#[test]
fn unsafe_report() {
    let files = meets_its_expectation("unsafe-report.js");
    assert_eq!(json!(Outline::of(&files).blocks), expected("unsafe-report.js")["output"]["blocks"]);
}

#[test]
fn longest_functions() {
    let files = meets_its_expectation("longest-functions.js");
    assert_eq!(json!(Outline::of(&files).longest(5)), expected("longest-functions.js")["output"]["longest"]);
}

#[test]
fn rename_symbol() {
    let files = meets_its_expectation("rename-symbol.js");
    assert!(files.values().all(|text| syn::parse_file(text).is_ok()));
}

/// The three cells hold the same text where they say so.
#[test]
fn the_common_text_is_common() {
    let common = |name: &str| {
        let text = fs::read_to_string(cell(name)).unwrap();
        let (_, rest) = text.split_once("// --- Rust source, token by token").unwrap();
        let (common, _) = rest.split_once("// --- end of the common text ---").unwrap();
        common.to_owned()
    };
    let [report, longest, rename] = ["unsafe-report.js", "longest-functions.js", "rename-symbol.js"]
        .map(|name| common(name).trim_end().to_owned());
    assert_eq!(report, longest);
    // Renaming needs the tokens alone.
    assert!(report.starts_with(&rename));
}

/// Past the 1,000 paths of one `glob` the directories are asked for one by one, and nothing that `.gitignore`
/// leaves out comes in by that.
#[test]
fn more_files_than_one_glob_answers() {
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".gitignore", "target/\n");
    write("target/debug/build.rs", "fn ignored() {}\n");
    write("top.rs", "fn top() {\n}\n");
    for folder in ["a", "b", "b/deep [1]"] {
        for number in 0..350 {
            write(&format!("{folder}/f{number}.rs"), "// no more than a comment\n");
        }
    }
    write("b/deep [1]/last.rs", "fn last() {\n    unsafe {}\n}\n");
    let exec = Exec::new(root).unwrap().limit("calls", 200);
    let output = exec.cell(&cell("unsafe-report.js")).unwrap();
    let symbol = json!({"kind": "fn", "name": "last", "line": 1});
    let blocks = json!([{"file": "b/deep [1]/last.rs", "line": 2, "symbol": symbol}]);
    assert_eq!(output.output().unwrap(), &json!({"files": 1052, "blocks": blocks, "skipped": []}));
}
