//! Processes that are killed at a commit, and what their file holds then.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use flowcell_engines::fault::FaultPlan;
use flowcell_engines::harness::engine::{Boundary, RunStatus, RunStore, recorded};
use flowcell_engines::harness::journal::Kind;
use flowcell_engines::harness::kernel::SystemClock;
use flowcell_engines::{StoreOptions, process_owner, sqlite};
use serde_json::{Value, json};

use crate::world::{empty, run};

fn options() -> StoreOptions {
    StoreOptions::new(Arc::new(SystemClock::new())).unwrap()
}

/// The process that is killed: it reads its plan in its working folder, and does nothing where there is none.
#[tokio::test]
async fn a_process_with_a_plan() {
    let Ok(plan) = std::fs::read_to_string("plan") else { return };
    let plan: FaultPlan = plan.parse().unwrap();
    let store = sqlite::open(Path::new("runs.db"), options().with_faults(Arc::new(plan))).unwrap();
    let id = store.create(empty("r")).await.unwrap();
    let engine = store.open(&id, process_owner().unwrap()).await.unwrap();
    for frame in 0..3 {
        engine.record(Boundary::frame("r", frame, "cell", 0), recorded(Value::Null)).await.unwrap();
    }
    panic!("the process outlived its plan");
}

#[tokio::test]
async fn a_process_that_was_killed_is_proven_dead_and_its_commits_stand() {
    for (plan, rows) in
        [("before:run-opened:1", None), ("before:cell-frame:2", Some(2)), ("after:cell-frame:2", Some(3))]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plan"), plan).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["killed::a_process_with_a_plan", "--exact", "--test-threads=1"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(9), "{plan}: {}", String::from_utf8_lossy(&output.stdout));
        let store = sqlite::open(&folder.path().join("runs.db"), options()).unwrap();
        let found = store.rows(&run("r"), 0).await.ok();
        assert_eq!(found.as_ref().map(Vec::len), rows, "{plan}");
        let Some(found) = found else { continue };
        assert!(found.iter().skip(1).all(|row| row.kind == Kind::CellFrame && row.payload.is_null()));
        assert_eq!(store.summary(&run("r")).await.unwrap().status, RunStatus::Interrupted);
        let engine = store.open(&run("r"), process_owner().unwrap()).await.unwrap();
        for frame in 0..3u64 {
            let at = Boundary::frame("r", frame, "cell", 0);
            let recorded = engine.record(at, recorded(json!(null))).await.unwrap();
            assert_eq!(recorded.fresh, frame + 1 >= found.len() as u64);
        }
        engine.release().await;
    }
}
