//! The README's first command does what its transcript says.

use std::fs;
use std::process::{Command, Stdio};

use flowcell_tests::{flowcell, repository};
use serde_json::Value;

#[test]
fn the_first_command_prints_its_transcript() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let block = |fence: &str| {
        let from = readme.find(fence).unwrap() + fence.len();
        readme[from..].split("```").next().unwrap().trim().to_owned()
    };
    let command = block("```sh\n");
    let words = command.strip_prefix("cargo run -p flowcell -- ").expect("the first command runs the binary");
    let transcript = block("```json\n");

    let aside = tempfile::tempdir().unwrap();
    let output = Command::new(flowcell().unwrap())
        .args(words.split(' '))
        .arg("--data-dir")
        .arg(aside.path().join("data"))
        .current_dir(repository())
        .env("HOME", aside.path())
        .env("XDG_CONFIG_HOME", aside.path().join("config"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let files = serde_json::from_str::<Value>(&printed).unwrap()["files"].as_u64().unwrap();
    assert!(files > 100, "it looked at {files} files");
    assert_eq!(printed.trim(), transcript.replace("FILES", &files.to_string()));
}
