//! A process that is killed at any commit of its journal, and started again.
//!
//! The cell makes thirty calls, twenty-five of which act. For every row of a clean run the process is killed right
//! before and right after the commit of that row; then `resume` has to come to the same tree and the same output, with
//! nothing done twice, and `replay` has to reproduce every record.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flowcell_engines::harness::engine::RunStore as _;
use flowcell_engines::harness::journal::{Kind, RunId};
use flowcell_engines::harness::kernel::SystemClock;
use flowcell_engines::{StoreOptions, sqlite};
use flowcell_tests::{flowcell, repository, volume};
use serde_json::{Value, json};
use tempfile::TempDir;

const RUN: &str = "thirty";
const CALLS: usize = 30;

/// A workspace with its own home, and the mock that counts.
struct World {
    workspace: TempDir,
    aside: TempDir,
}

impl World {
    fn new() -> Self {
        let (workspace, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(workspace.path().join("log.txt"), "end\n").unwrap();
        let mock = json!({ "tick": { "counter": workspace.path().join("ticks") } });
        fs::write(aside.path().join("mock.json"), mock.to_string()).unwrap();
        Self { workspace, aside }
    }

    fn root(&self) -> PathBuf {
        self.workspace.path().canonicalize().unwrap()
    }

    fn flowcell(&self, words: &[&str], crash: Option<&str>) -> Output {
        let mut command = Command::new(flowcell().unwrap());
        command.args(words).arg("--json").arg("-C").arg(self.root());
        command.env("HOME", self.aside.path()).env("XDG_CONFIG_HOME", self.aside.path().join("config"));
        command.env_remove("FLOWCELL_CRASH_AT").stdin(Stdio::null());
        if let Some(at) = crash {
            command.env("FLOWCELL_CRASH_AT", at);
        }
        command.output().unwrap()
    }

    /// Rules and mocks are named again each time.
    fn named(&self, words: &[&str], crash: Option<&str>) -> Output {
        let mock = self.aside.path().join("mock.json");
        let allow = format!("fs:write:{}/**", self.root().display());
        let given = ["--mock", mock.to_str().unwrap(), "--allow", &allow];
        self.flowcell(&[words, &given].concat(), crash)
    }

    fn exec(&self, crash: Option<&str>) -> Output {
        let cell = repository().join("fixtures/cells/thirty-calls.js");
        self.named(&["exec", "--run-id", RUN, cell.to_str().unwrap()], crash)
    }

    /// Every file of the workspace but the data folder.
    fn tree(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned();
                if name == ".flowcell" {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        files
    }

    /// The kinds of the run's rows, in order.
    fn rows(&self) -> Vec<Kind> {
        let path = self.root().join(".flowcell/flowcell.db");
        if !path.exists() {
            return Vec::new();
        }
        let options = StoreOptions::new(Arc::new(SystemClock::new())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = sqlite::open(&path, options).unwrap();
            let rows = store.rows(&RunId::new(RUN).unwrap(), 0).await;
            rows.map(|rows| rows.iter().map(|row| row.kind).collect()).unwrap_or_default()
        })
    }
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{output:?}"))
}

fn killed(output: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    output.status.signal() == Some(9)
}

/// What a clean run leaves, and the boundaries it passes: `(kind, how-manieth of its kind)`.
fn clean() -> (BTreeMap<String, String>, Value, Vec<(Kind, usize)>) {
    let world = World::new();
    let output = world.exec(None);
    let report = document(&output);
    assert_eq!((output.status.code(), &report["status"]), (Some(0), &json!("completed")), "{report:#}");
    assert_eq!(report["frames"][0]["calls"].as_array().unwrap().len(), CALLS);
    let mut seen: HashMap<Kind, usize> = HashMap::new();
    let boundaries: Vec<_> = world
        .rows()
        .into_iter()
        .map(|kind| {
            let nth = seen.entry(kind).or_default();
            *nth += 1;
            (kind, *nth)
        })
        .collect();
    // One commit a sealed call, two another; the run's opening, base and end, the frame's marker and end.
    assert_eq!(boundaries.len(), 5 + 2 * 25 + 5);
    (world.tree(), report["output"].clone(), boundaries)
}

/// Kills at one boundary, takes the run up again, and holds what comes of it against the clean run.
fn crash(when: &str, kind: Kind, nth: usize, tree: &BTreeMap<String, String>, output: &Value) {
    let at = format!("{when}:{kind}:{nth}");
    let world = World::new();
    let first = world.exec(Some(&at));
    assert!(killed(&first), "{at}: the process was not killed: {first:?}");
    let rows = world.rows();
    let resumed = world.named(&["resume", RUN], None);
    let report = if rows.is_empty() {
        // Before `run-opened` there is no run.
        assert_eq!((when, kind), ("before", Kind::RunOpened), "{at}: no rows");
        assert_eq!(resumed.status.code(), Some(2), "{at}: {resumed:?}");
        document(&world.exec(None))
    } else {
        assert_eq!(resumed.status.code(), Some(0), "{at}: {resumed:?}");
        document(&resumed)
    };
    assert_eq!(report["status"], "completed", "{at}: {report:#}");
    assert_eq!(&report["output"], output, "{at}");
    assert_eq!(&world.tree(), tree, "{at}: the tree differs");

    let calls = report["frames"][0]["calls"].as_array().unwrap();
    let count = |holds: &dyn Fn(&Value) -> bool| calls.iter().filter(|call| holds(call)).count();
    let settled = rows.iter().filter(|&&kind| kind == Kind::CellCall).count();
    assert_eq!(count(&|call| call["replayed"] == true), settled, "{at}: settled calls are replayed");
    let started = rows.iter().filter(|&&kind| kind == Kind::CallStarted).count();
    let sealed = calls.iter().filter(|call| call["replayed"] == true && call["flow"] == "read").count();
    let lost = started + sealed - settled;
    assert!(lost <= 1, "{at}: {lost} starts without a settlement");
    assert_eq!(count(&|call| call["error"]["code"] == "outcome_unknown"), lost, "{at}");

    let replay = world
        .flowcell(&["replay", RUN, "--mock", world.aside.path().join("mock.json").to_str().unwrap()], None);
    assert_eq!(replay.status.code(), Some(0), "{at}: {replay:?}");
    assert_eq!(document(&replay)["ok"], true, "{at}");
    assert_eq!(&world.tree(), tree, "{at}: replay touched the tree");
    let again = document(&world.named(&["resume", RUN], None));
    assert_eq!(&again["output"], output, "{at}: a finished run is read back");
    assert_eq!(&world.tree(), tree, "{at}: reading back touched the tree");
}

#[test]
fn every_commit_survives_a_kill() {
    let (tree, output, boundaries) = clean();
    assert_eq!(tree["ticks"], "10");
    println!("measured: {} boundaries in a clean run's journal", boundaries.len());
    // In CI: each kind's first, the last rows, and every sixteenth between; the two cores share them.
    let stride = volume(16, 1);
    let chosen: Vec<_> = boundaries
        .iter()
        .enumerate()
        .filter(|(index, (_, nth))| *nth == 1 || index % stride == 0 || *index + 2 >= boundaries.len())
        .flat_map(|(_, &(kind, nth))| ["before", "after"].map(|when| (when, kind, nth)))
        .collect();
    println!("measured: {} kills, each before or after a boundary", chosen.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&(when, kind, nth)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    crash(when, kind, nth, &tree, &output);
                }
            });
        }
    });
}

/// The harness for reading a run is itself held to something: a boundary that no run passes kills nobody.
#[test]
fn a_boundary_that_is_not_passed_kills_nobody() {
    let world = World::new();
    let output = world.exec(Some("before:cell-call:31"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(world.tree()["ticks"], "10");
}

/// Where the data folder of a run is not the workspace's, nothing of the run is in the workspace.
#[test]
fn a_data_folder_elsewhere_leaves_the_workspace_alone() {
    let world = World::new();
    let data = world.aside.path().join("data");
    let cell = repository().join("fixtures/cells/thirty-calls.js");
    let words = ["exec", cell.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let output = world.named(&words, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!Path::new(&world.root()).join(".flowcell").exists());
    assert!(data.join("flowcell.db").exists());
}
