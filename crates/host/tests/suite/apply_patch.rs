//! `apply_patch` over the scenario folders: each a tree, a patch, and the tree or the failure that has to come of it.

use std::fs;
use std::path::{Path, PathBuf};

use flowcell_host::kernel::flows::error::StdError;
use serde_json::{Value, json};

use crate::support::{Fixture, failure};
use crate::tree::{copy, files, tree};

fn index(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("index.json")).unwrap();
    let Value::Array(scenarios) = serde_json::from_str(&text).unwrap() else { panic!("{folder:?}: no list") };
    let mut folders =
        fs::read_dir(folder).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    for scenario in &scenarios {
        assert!(folder.join(scenario["name"].as_str().unwrap()).is_dir(), "{scenario}");
        folders -= 1;
    }
    assert_eq!(folders, 0, "{folder:?}: every folder is in the list");
    scenarios
}

struct Ran {
    fixture: Fixture,
    outcome: Result<Value, StdError>,
    unchanged: bool,
}

async fn run(folder: &Path) -> Ran {
    let fixture = Fixture::new();
    copy(&folder.join("input"), &fixture.root());
    let before = tree(&fixture.root());
    let patch = fs::read_to_string(folder.join("patch.txt")).unwrap();
    let outcome = match fixture.patch(&patch).await {
        Ok(output) => Ok(serde_json::to_value(output).unwrap()),
        failed => Err(failure(failed)),
    };
    let unchanged = tree(&fixture.root()) == before;
    Ran { fixture, outcome, unchanged }
}

#[tokio::test]
async fn every_scenario_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/apply_patch");
    let scenarios = index(&folder);
    assert!(scenarios.len() >= 40);
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap();
        let folder = folder.join(name);
        let ran = run(&folder).await;
        if scenario["ok"] == json!(true) {
            let output = fs::read_to_string(folder.join("expected-output.txt")).unwrap();
            let expected = json!({
                "output": output,
                "added": scenario["added"],
                "modified": scenario["modified"],
                "deleted": scenario["deleted"],
            });
            assert_eq!(ran.outcome.as_ref(), Ok(&expected), "{name}");
            assert_eq!(files(&ran.fixture.root()), files(&folder.join("expected")), "{name}");
            continue;
        }
        let error = ran.outcome.expect_err(name);
        let expected = fs::read_to_string(folder.join("expected-error.txt")).unwrap();
        let line = |field: &str| {
            let prefix = format!("{field}: ");
            expected
                .lines()
                .find_map(|line| line.strip_prefix(&prefix))
                .unwrap_or_else(|| panic!("{name}: {field}"))
        };
        assert_eq!(error.code.as_str(), line("code"), "{name}: {error:?}");
        assert_eq!(error.path.as_deref().unwrap_or("-"), line("path"), "{name}: {error:?}");
        assert!(error.message.contains(line("contains")), "{name}: {error:?}");
        let said = [&scenario["code"], &scenario["path"], &scenario["contains"]];
        let path = if line("path") == "-" { Value::Null } else { json!(line("path")) };
        assert_eq!(
            said,
            [&json!(line("code")), &path, &json!(line("contains"))],
            "{name}: the two lists agree"
        );
        assert!(ran.unchanged, "{name}: the tree changed");
    }
}

/// The scenarios of the tool that the flow clones. They are no part of this repository.
#[tokio::test]
async fn every_scenario_of_codex_holds() {
    const NAME: &str = "every_scenario_of_codex_holds";
    let given =
        std::env::var_os("FLOWCELL_PEER_DIR").map_or_else(|| PathBuf::from("../shared/peer"), PathBuf::from);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join(given).join("codex_apply_patch");
    if !folder.is_dir() {
        crate::support::skip(NAME, "FLOWCELL_PEER_DIR holds no codex_apply_patch");
        return;
    }
    let scenarios = index(&folder);
    assert!(scenarios.len() >= 20);
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap();
        let ran = run(&folder.join(name)).await;
        match &ran.outcome {
            Ok(output) => {
                assert_eq!(scenario["ok"], json!(true), "{name}: {output}");
                assert_eq!(output["output"], scenario["output"], "{name}");
            }
            Err(error) => {
                assert_eq!(scenario["ok"], json!(false), "{name}: {error:?}");
                assert_eq!(json!(error.code), scenario["code"], "{name}: {error:?}");
                assert!(ran.unchanged, "{name}: the tree changed");
            }
        }
        assert_eq!(files(&ran.fixture.root()), files(&folder.join(name).join("expected")), "{name}");
    }
}
