//! What a patch costs: `apply_patch` on a file of 1 MiB with 200 hunks against `git apply` of the same change, both with the
//! reading and the writing of the file.
//!
//! Every figure is a median over [`RUNS`] runs of one process, in each of which the two sides follow each other on one disk;
//! the ratio is the median of the ratios of the runs. What it costs to start git at all is shown beside it. Both results are
//! compared with the expected bytes: a faster patch that changes something else would be no patch.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::large_futures)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_host::ApplyPatchHandler;
use flowcell_host::kernel::flows::apply_patch::{Input, decl};
use flowcell_host::kernel::flows::capability::CapabilityPattern;
use flowcell_host::kernel::flows::rules::{Effect, Rule};
use flowcell_host::kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, Handler as _,
    MemoryPersist, SeededEntropy, SystemClock, Workspace,
};

/// Runs a median is taken over.
const RUNS: usize = 41;
/// Bytes of the file, at least.
const SIZE: usize = 1 << 20;
/// Hunks of the patch.
const HUNKS: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (before, v4a, unified, after) = change();
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let file = root.join("file.rs");
    fs::write(root.join("change.diff"), &unified).unwrap();
    let cx = context(&root).await;
    println!("medians over {RUNS} runs: {} bytes, {HUNKS} hunks", before.len());
    let (mut ours, mut gits, mut starts, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        fs::write(&file, &before).unwrap();
        let begun = Instant::now();
        let output = ApplyPatchHandler.run(&cx, Input { input: v4a.clone() }).await.unwrap();
        let own = begun.elapsed();
        assert_eq!(output.modified, ["file.rs"]);
        assert!(fs::read_to_string(&file).unwrap() == after, "apply_patch");

        fs::write(&file, &before).unwrap();
        let begun = Instant::now();
        let status = git(&root).args(["apply", "change.diff"]).status().unwrap();
        let git_took = begun.elapsed();
        assert!(status.success() && fs::read_to_string(&file).unwrap() == after, "git apply");

        let begun = Instant::now();
        assert!(git(&root).arg("--version").output().unwrap().status.success());
        starts.push(begun.elapsed());
        ratios.push(own.as_secs_f64() / git_took.as_secs_f64());
        ours.push(own);
        gits.push(git_took);
    }
    ratios.sort_by(f64::total_cmp);
    row("apply_patch", median(&mut ours), &format!("   apply_patch / git apply = {:.2}", ratios[RUNS / 2]));
    row("git apply", median(&mut gits), "");
    row("git --version (the start of git alone)", median(&mut starts), "");
}

/// Git without the configuration of whoever runs the bench.
fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_CEILING_DIRECTORIES", root);
    git
}

fn row(name: &str, took: Duration, more: &str) {
    println!("{name:<44} {:>10.1} µs{more}", took.as_secs_f64() * 1e6);
}

fn median(samples: &mut [Duration]) -> Duration {
    samples.sort();
    samples[samples.len() / 2]
}

async fn context(root: &Path) -> CallContext {
    let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
    let allow = |pattern: &str| Rule::new(Effect::Allow, CapabilityPattern::parse(pattern).unwrap());
    options.configured = vec![allow("fs:read:/**"), allow("fs:write:/**")];
    let store = GrantStore::open(options).await.unwrap();
    let authority = Authority::root(store).attenuate_declared(&decl().capabilities).unwrap();
    let entropy = Arc::new(SeededEntropy::new(1));
    let workspace = Workspace::open(root).unwrap();
    let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone()).unwrap();
    CallContext::new(files, Arc::new(SystemClock::new()), entropy)
}

/// A file, a change of it in both notations with three lines of context, and the changed file.
fn change() -> (String, String, String, String) {
    let mut lines = Vec::new();
    let mut size = 0;
    while size < SIZE {
        let n = lines.len();
        // Some lines repeat all over the file, as they do in sources.
        let line = match n % 8 {
            0 => format!("fn function_{n}(argument: u32) -> u32 {{"),
            7 => "}".to_owned(),
            3 => String::new(),
            _ => format!("    let value_{n} = argument.wrapping_mul({n}).rotate_left({});", n % 31),
        };
        size += line.len() + 1;
        lines.push(line);
    }
    let before: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    let mut v4a = "*** Begin Patch\n*** Update File: file.rs\n".to_owned();
    let mut unified = "--- a/file.rs\n+++ b/file.rs\n".to_owned();
    let step = lines.len() / HUNKS;
    let mut changed = lines.clone();
    for hunk in 0..HUNKS {
        let at = hunk * step + step / 2;
        let new = format!("    let changed_{hunk} = {hunk};");
        writeln!(unified, "@@ -{0},7 +{0},7 @@", at - 2).unwrap();
        v4a.push_str("@@\n");
        for text in [&mut v4a, &mut unified] {
            for line in &lines[at - 3..at] {
                writeln!(text, " {line}").unwrap();
            }
            writeln!(text, "-{}\n+{new}", lines[at]).unwrap();
            for line in &lines[at + 1..at + 4] {
                writeln!(text, " {line}").unwrap();
            }
        }
        changed[at] = new;
    }
    v4a.push_str("*** End Patch\n");
    let after = changed.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    (before, v4a, unified, after)
}
