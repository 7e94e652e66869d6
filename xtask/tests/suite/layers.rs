//! `layers` on a copy of this workspace's manifests, with edges planted in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The manifests of this workspace, each with an empty library beside it.
struct Skeleton(TempDir);

impl Skeleton {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let skeleton = Self(tempfile::tempdir().unwrap());
        fs::copy(root.join("Cargo.toml"), skeleton.path("Cargo.toml")).unwrap();
        let mut members = vec![PathBuf::from("xtask"), PathBuf::from("tests")];
        for entry in fs::read_dir(root.join("crates")).unwrap() {
            let folder = entry.unwrap().file_name();
            if root.join("crates").join(&folder).join("Cargo.toml").is_file() {
                members.push(Path::new("crates").join(folder));
            }
        }
        for member in members {
            let folder = skeleton.0.path().join(&member);
            fs::create_dir_all(folder.join("src")).unwrap();
            fs::create_dir_all(folder.join("tests/suite")).unwrap();
            fs::write(folder.join("src/lib.rs"), "").unwrap();
            fs::write(folder.join("src/main.rs"), "").unwrap();
            fs::write(folder.join("tests/suite/main.rs"), "").unwrap();
            // Targets other than these have files that are of no matter here.
            let manifest = fs::read_to_string(root.join(&member).join("Cargo.toml")).unwrap();
            fs::write(folder.join("Cargo.toml"), without_targets(&manifest)).unwrap();
        }
        skeleton
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    /// Adds a line to the `[dependencies]` of a crate.
    fn plant(&self, member: &str, line: &str) {
        let path = self.path(member).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        assert!(manifest.contains("\n[dependencies]\n"), "{member} has no [dependencies]");
        fs::write(&path, manifest.replacen("\n[dependencies]\n", &format!("\n[dependencies]\n{line}\n"), 1))
            .unwrap();
    }

    fn layers(&self) -> Output {
        let xtask = env!("CARGO_BIN_EXE_xtask");
        Command::new(xtask).arg("--root").arg(self.0.path()).arg("layers").output().unwrap()
    }
}

/// The manifest without its `[[bench]]`, `[[test]]`, `[[example]]` and `[[bin]]` tables.
fn without_targets(manifest: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[[");
        }
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn this_workspace_keeps_the_rule() {
    let output = Skeleton::new().layers();
    assert!(output.status.success(), "{}", stdout(&output));
}

#[test]
fn a_planted_upward_edge_fails() {
    let skeleton = Skeleton::new();
    skeleton.plant("crates/kernel", "flowcell-harness.workspace = true");
    let output = skeleton.layers();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("flowcell-kernel (layer 1) names flowcell-harness (layer 3): upwards"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_planted_sideways_edge_fails() {
    let skeleton = Skeleton::new();
    skeleton.plant("crates/host", "flowcell-search.workspace = true");
    let output = skeleton.layers();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("flowcell-host (layer 2) names flowcell-search (layer 2): sideways"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_planted_edge_past_a_layer_fails() {
    let skeleton = Skeleton::new();
    skeleton.plant("crates/cli", "flowcell-kernel.workspace = true");
    let output = skeleton.layers();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("flowcell (layer 5) names flowcell-kernel (layer 1): past layer 4"),
        "{}",
        stdout(&output)
    );
}
