//! The engine against the program `rg` on random trees and calls (search contract 3, 4 and 5).

use crate::support::{block_on, volume};
use async_trait::async_trait;
use flowcell_kernel::flows::error::{Code, StdError};
use flowcell_kernel::{CallContext, HandlerError};
use flowcell_search::Engine;
use flowcell_search::conformance::{Answer, Call, Entry, Known, Rule, SearchConformance, Tree};
use flowcell_search::peer::{ProgramCall, ProgramOutput, RgPeer, RunProgram};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

const CASES: u64 = 100;
const FULL_CASES: u64 = 2_000;
/// Cases that have to hit each rule, of [`FULL_CASES`].
const LEAST: u64 = 20;
const SEED: u64 = 2026;

/// A program by its path.
struct Program(PathBuf);

#[async_trait]
impl RunProgram for Program {
    async fn run(&self, _: &CallContext, call: ProgramCall) -> Result<ProgramOutput, HandlerError> {
        let program = self.0.clone();
        let away = |error: std::io::Error| StdError::new(Code::ProviderUnavailable, error.to_string());
        let run = move || -> std::io::Result<ProgramOutput> {
            let mut child = Command::new(program)
                .args(&call.arguments)
                .current_dir(&call.directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut input = child.stdin.take().unwrap();
            // A program that does not read to the end is no failure.
            let writer = std::thread::spawn(move || drop(input.write_all(&call.input)));
            let output = child.wait_with_output()?;
            writer.join().unwrap();
            Ok(ProgramOutput { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
        };
        Ok(tokio::task::spawn_blocking(run).await.unwrap().map_err(away)?)
    }
}

/// The program `rg` of version 15; `None` when the test is skipped.
fn rg(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("FLOWCELL_RG").map_or_else(|| PathBuf::from("rg"), PathBuf::from);
    let version = Command::new(&path).arg("--version").output();
    let version =
        version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if version.starts_with("ripgrep 15.") {
        return Some(path);
    }
    let why = if version.is_empty() { "rg is missing" } else { "rg is not of version 15" };
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{test}: {why}");
    println!("skipped: {test}: {why}");
    None
}

/// Where the peer cannot answer as the contract says.
fn known() -> [Known; 1] {
    [Known {
        name: "N8 counts what rg does not list",
        rule: "search contract 4, not permitted: a directory that policy denies counts even when nothing below it is admitted",
        applies: |tree: &Tree, _: &Call, left: &Answer, right: &Answer| {
            let plain = |answer: &Answer| match answer {
                Answer::Glob(Ok(answer)) => {
                    let mut answer = answer.clone();
                    answer.notice = answer.notice.map(without_count).filter(|notice| !notice.is_empty());
                    format!("{answer:?}")
                }
                Answer::Grep(Ok(answer)) => {
                    let mut answer = answer.clone();
                    answer.notice = answer.notice.map(without_count).filter(|notice| !notice.is_empty());
                    format!("{answer:?}")
                }
                other => format!("{other:?}"),
            };
            tree.denied().iter().any(|path| tree.at(path) == Some(Entry::Dir)) && plain(left) == plain(right)
        },
    }]
}

/// A notice without N8, its last sentence.
fn without_count(notice: String) -> String {
    match notice.strip_suffix(" entries were skipped: reading them is not permitted.") {
        Some(rest) => rest.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().to_owned(),
        None => notice,
    }
}

const TEST: &str = "differential::the_engine_agrees_with_rg";

#[test]
fn the_engine_agrees_with_rg() {
    let Some(rg) = rg(TEST) else { return };
    if crate::support::ran_without_override(TEST) {
        return;
    }
    let scratch = TempDir::new().unwrap();
    let peer = Arc::new(RgPeer::new(Arc::new(Program(rg))));
    let kit = SearchConformance::new(Arc::new(Engine::default()), peer, scratch.path()).knowing(known());
    assert!(kit.locks_hold());
    let cases = volume(CASES, FULL_CASES);
    let report = block_on(kit.run(SEED, cases)).unwrap();
    println!(
        "measured: differential against rg: {} trees and calls, {} match, {} fail, {} differences, known {:?}",
        report.cases,
        report.matched,
        report.failed,
        report.differences.len(),
        report.known
    );
    println!("measured: rules hit: {}", report.coverage);
    for difference in &report.differences {
        println!("{difference}");
    }
    assert!(report.differences.is_empty(), "{} differences", report.differences.len());
    assert!(report.matched * 2 >= report.cases, "{} of {} match", report.matched, report.cases);
    if cases == FULL_CASES {
        assert_eq!(report.coverage.below(LEAST), []);
    } else {
        let missed = report.coverage.below(1);
        assert!(missed.len() * 10 <= Rule::ALL.len(), "not hit: {missed:?}");
    }
}
