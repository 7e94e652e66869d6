//! What a boundary costs: a realm, a call that is not journaled, and a journaled call on SQLite against the bare SQLite
//! commits that it contains.
//!
//! Every figure is a median over [`RUNS`] runs of one process; a ratio is the median of the ratios of the runs, in each of
//! which the two sides follow each other on one disk. The journaled cases fail when the journal holds another
//! number of rows than the case implies: a faster journal that writes less would be no journal.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::large_futures)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::catalog::Catalog;
use flowcell_engines::harness::engine::RunStore;
use flowcell_engines::harness::exec::{CellText, ExecKind, ExecParams, Host, Unobserved, spec, start};
use flowcell_engines::harness::extract::StopReason;
use flowcell_engines::harness::failure::CallOutcome;
use flowcell_engines::harness::journal::{Kind, Row, RunId};
use flowcell_engines::harness::kernel::{
    Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SeededEntropy,
    SystemClock, Workspace,
};
use flowcell_engines::harness::mock::mocks;
use flowcell_engines::harness::program::{Program, Source, validate};
use flowcell_engines::harness::realm::{
    Bridge, BridgeRequest, FrameEnd, FrameOptions, Interrupted, Limits, Outcome, Realm,
};
use flowcell_engines::harness::report::ReportStatus;
use flowcell_engines::harness::services::Services;
use flowcell_engines::{StoreOptions, process_owner, sqlite};
use serde_json::json;

/// Runs a median is taken over.
const RUNS: usize = 11;
/// Calls of one run.
const CALLS: u32 = 500;
/// Realms opened and closed in one run.
const REALMS: u32 = 20;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("medians over {RUNS} runs of {CALLS} calls ({REALMS} realms)");
    let mut realms = Vec::new();
    let mut calls = Vec::new();
    for _ in 0..RUNS {
        realms.push(open_and_close().await / REALMS);
        calls.push(unjournaled().await / CALLS);
    }
    row("realm, open and close", median(&mut realms), None);
    row("call, not journaled, round trip", median(&mut calls), None);
    for (tier, name, commits) in [("sealed", "sealed call", 1), ("irreversible", "irreversible call", 2)] {
        let (mut journaled, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let folder = tempfile::tempdir().unwrap();
            let (took, rows) = journaled_run(folder.path(), tier).await;
            check(&rows, commits);
            let alone = bare_commits(folder.path(), &rows);
            ratios.push(took.as_secs_f64() / alone.as_secs_f64());
            journaled.push(took / CALLS);
            bare.push(alone / CALLS);
        }
        ratios.sort_by(f64::total_cmp);
        row(&format!("{name}, journaled on SQLite"), median(&mut journaled), None);
        let ratio = Some(ratios[ratios.len() / 2]);
        row(&format!("bare SQLite, the same {commits} commit(s)"), median(&mut bare), ratio);
    }
}

fn row(name: &str, took: Duration, ratio: Option<f64>) {
    let ratio = ratio.map_or(String::new(), |ratio| format!("   journaled / bare = {ratio:.2}"));
    println!("{name:<44} {:>10.1} µs{ratio}", took.as_secs_f64() * 1e6);
}

fn median(samples: &mut [Duration]) -> Duration {
    samples.sort();
    samples[samples.len() / 2]
}

/// One row a sealed call, two another; beside them the run's opening and end, and the frame's marker and end.
fn check(rows: &[Row], commits: usize) {
    let count = |kind: Kind| rows.iter().filter(|row| row.kind == kind).count();
    let calls = CALLS as usize;
    assert_eq!(count(Kind::CellCall), calls, "settlements");
    assert_eq!(count(Kind::CallStarted), calls * (commits - 1), "starts");
    assert_eq!(rows.len(), calls * commits + 4, "rows in all");
}

async fn open_and_close() -> Duration {
    let limits = Limits::default();
    let start = Instant::now();
    for _ in 0..REALMS {
        Realm::open(&limits).await.unwrap().close().await;
    }
    start.elapsed()
}

struct Echo;

#[async_trait::async_trait]
impl Bridge for Echo {
    async fn dispatch(&mut self, _ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
        match request {
            BridgeRequest::Call { input, .. } => Ok(CallOutcome::Success(input)),
            BridgeRequest::Checkpoint => Err(Interrupted),
        }
    }
}

fn text() -> String {
    format!(
        "for (let i = 0; i < {CALLS}; i++) {{ await ctx.call(\"ident\", {{ path: \"src/lib.rs\", n: i }}); }} ctx.done(1);"
    )
}

fn limits() -> Limits {
    Limits { calls: u64::from(CALLS), ..Limits::default() }
}

fn program() -> Program {
    validate(&Source::new(text())).unwrap()
}

async fn unjournaled() -> Duration {
    let limits = limits();
    let mut realm = Realm::open(&limits).await.unwrap();
    let options = FrameOptions { limits, flows: [].into(), ..FrameOptions::default() };
    let program = program();
    let start = Instant::now();
    let FrameEnd::Done(frame) = realm.evaluate(0, &program, &options, &mut Echo).await.unwrap() else {
        panic!("the frame was interrupted");
    };
    let took = start.elapsed();
    assert!(matches!(frame.outcome, Outcome::Settled { .. }), "{frame:?}");
    realm.close().await;
    took
}

async fn journaled_run(folder: &Path, tier: &str) -> (Duration, Vec<Row>) {
    let services = services(folder).await;
    let mock = json!({ "ident": { "ident": true, "tier": tier } });
    let calls = CellCalls::of_catalog(Catalog::of(mocks(&mock).unwrap()).unwrap());
    let params = ExecParams {
        kind: ExecKind::Exec,
        cells: vec![CellText { name: "bench".into(), text: text() }],
        reply: false,
        stop: StopReason::End,
        checkpoints: false,
    };
    let run = RunId::new("bench").unwrap();
    let store =
        sqlite::open(&folder.join("flowcell.db"), StoreOptions::new(Arc::clone(&services.clock)).unwrap())
            .unwrap();
    let spec = spec(run.clone(), &params, limits(), &calls).unwrap();
    let host = Host { calls: &calls, services: &services, observer: &Unobserved };
    let begin = Instant::now();
    let report = start(&store, spec, process_owner().unwrap(), &host).await.unwrap();
    let took = begin.elapsed();
    assert_eq!(report.status, ReportStatus::Completed, "{:?}", report.error);
    (took, store.rows(&run, 0).await.unwrap())
}

async fn services(root: &Path) -> Services {
    let options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
    let authority = Authority::root(GrantStore::open(options).await.unwrap());
    let workspace = Workspace::open(root).unwrap();
    let entropy = Arc::new(SeededEntropy::new(1));
    let files =
        FileSystem::new(authority, workspace, FsOptions::default(), Arc::clone(&entropy) as _).unwrap();
    Services::new(files, Arc::new(SystemClock::new()), entropy)
}

/// The same rows, one transaction each, on a bare connection with the engine's settings.
fn bare_commits(folder: &Path, rows: &[Row]) -> Duration {
    let connection = rusqlite::Connection::open(folder.join("bare.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
        .execute_batch(
            "CREATE TABLE rows (run TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, \
             payload TEXT NOT NULL, owner_epoch INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (run, seq), \
             UNIQUE (run, kind, key)) STRICT, WITHOUT ROWID",
        )
        .unwrap();
    let rows: Vec<_> = rows
        .iter()
        .filter(|row| matches!(row.kind, Kind::CallStarted | Kind::CellCall))
        .map(|row| (row, row.payload.to_string()))
        .collect();
    let begin = Instant::now();
    for (row, payload) in &rows {
        let mut insert =
            connection.prepare_cached("INSERT INTO rows VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)").unwrap();
        insert
            .execute(rusqlite::params![
                row.run_id.as_str(),
                i64::try_from(row.seq).unwrap(),
                row.kind.as_str(),
                row.key,
                payload,
                i64::try_from(row.owner_epoch).unwrap(),
                row.at_ms
            ])
            .unwrap();
    }
    begin.elapsed()
}
