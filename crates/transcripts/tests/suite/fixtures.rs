//! Every fixture: constructed pairs, refusals and live captures.

use std::fs;
use std::path::{Path, PathBuf};

use flowcell_transcripts::{ClaudeState, CodexState, TranscriptError};
use serde_json::{Value, json};

use crate::decode::{Format, lines, whole};

/// A transcript and what it gives.
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) agent: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Value,
}

/// An input and the one error it gives.
pub(crate) struct Refusal {
    pub(crate) name: String,
    pub(crate) agent: String,
    pub(crate) input: String,
    pub(crate) error: TranscriptError,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/transcripts")
}

/// The pairs of one folder.
fn folder(folder: &Path) -> Vec<Pair> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let pair = |path: PathBuf| {
        let expected: Value =
            serde_json::from_slice(&fs::read(path.with_extension("expected.json")).unwrap()).unwrap();
        Pair {
            name: path.strip_prefix(root()).unwrap().display().to_string(),
            agent: expected["agent"].as_str().unwrap().to_owned(),
            bytes: fs::read(&path).unwrap(),
            expected,
        }
    };
    paths.into_iter().map(pair).collect()
}

pub(crate) fn constructed() -> Vec<Pair> {
    folder(&root())
}

pub(crate) fn live() -> Vec<Pair> {
    let mut folders: Vec<PathBuf> = fs::read_dir(root().join("live"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders.iter().flat_map(|path| folder(path)).collect()
}

pub(crate) fn all() -> Vec<Pair> {
    constructed().into_iter().chain(live()).collect()
}

pub(crate) fn refusals() -> Vec<Refusal> {
    let file: Value = serde_json::from_slice(&fs::read(root().join("refusals.json")).unwrap()).unwrap();
    let case = |case: &Value| Refusal {
        name: case["name"].as_str().unwrap().to_owned(),
        agent: case["agent"].as_str().unwrap().to_owned(),
        input: case["input"].as_str().unwrap().to_owned(),
        error: serde_json::from_value(case["error"].clone()).unwrap(),
    };
    file["cases"].as_array().unwrap().iter().map(case).collect()
}

/// Runs `$work::<state of the agent>($($argument),*)`.
macro_rules! by_agent {
    ($agent:expr, $work:ident($($argument:expr),* $(,)?)) => {
        match $agent {
            "codex" => $work::<flowcell_transcripts::CodexState>($($argument),*),
            "claude" => $work::<flowcell_transcripts::ClaudeState>($($argument),*),
            other => panic!("a fixture of {other}"),
        }
    };
}
pub(crate) use by_agent;

fn gives<S: Format>(pair: &Pair) {
    let (entries, ended) = lines::<S>(&pair.bytes);
    let entries = serde_json::to_value(entries).unwrap();
    if pair.expected.get("error").is_some() {
        assert_eq!(json!(ended.unwrap_err()), pair.expected["error"], "{}", pair.name);
        assert_eq!(entries, pair.expected["entries_before_refusal"], "{}", pair.name);
        return;
    }
    let decoded = whole::<S>(&pair.bytes).unwrap();
    for (at, expected) in pair.expected["entries"].as_array().unwrap().iter().enumerate() {
        assert_eq!(&json!(decoded.entries.get(at)), expected, "{} entry {at}", pair.name);
    }
    assert_eq!(json!(decoded.entries), pair.expected["entries"], "{}", pair.name);
    assert_eq!(json!(decoded.state), pair.expected["state"], "{}", pair.name);
    // Key order of the held inputs too: as text.
    assert_eq!(entries, pair.expected["entries"], "{} line by line", pair.name);
    assert_eq!(ended.unwrap(), decoded.state, "{} line by line", pair.name);
}

#[test]
fn every_constructed_pair() {
    let pairs = constructed();
    assert_eq!(pairs.len(), 12);
    for pair in &pairs {
        by_agent!(&*pair.agent, gives(pair));
    }
}

#[test]
fn every_live_capture() {
    let pairs = live();
    assert_eq!(pairs.len(), 16);
    for pair in &pairs {
        by_agent!(&*pair.agent, gives(pair));
    }
    for release in flowcell_transcripts::CODEX_RELEASES {
        assert!(pairs.iter().any(|pair| pair.name.contains(&format!("codex-{release}."))), "{release}");
    }
    for release in flowcell_transcripts::CLAUDE_RELEASES {
        assert!(pairs.iter().any(|pair| pair.name.contains(&format!("claude-code-{release}."))), "{release}");
    }
}

#[test]
fn every_refusal() {
    fn refused<S: Format>(case: &Refusal) {
        assert_eq!(whole::<S>(case.input.as_bytes()).unwrap_err(), case.error, "{}", case.name);
    }
    let cases = refusals();
    assert_eq!(cases.len(), 75);
    for case in &cases {
        by_agent!(&*case.agent, refused(case));
        assert_eq!(case.error.to_string(), case.error.message);
    }
}

/// Entries and errors are read back as they were written.
#[test]
fn entries_through_json() {
    fn same<S: Format>(bytes: &[u8]) {
        let entries = whole::<S>(bytes).unwrap().entries;
        let text = serde_json::to_string(&entries).unwrap();
        let back: Vec<flowcell_transcripts::Entry> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, entries);
    }
    for pair in all() {
        by_agent!(&*pair.agent, same(&pair.bytes));
    }
    assert_eq!(
        serde_json::to_value(CodexState::default()).unwrap(),
        json!({"pending": "", "line": 0, "seq": 0})
    );
    let start = json!({"pending": "", "line": 0, "seq": 0, "calls": {}});
    assert_eq!(serde_json::to_value(ClaudeState::default()).unwrap(), start);
}
