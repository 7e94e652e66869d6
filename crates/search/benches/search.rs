//! The figures of search contract 9, in one run: the engine against `rg` of the same trees and queries, in turn, and what
//! it takes of time, heap and directories by itself.
//!
//! `cargo xtask bench search [-- TREE...]`. The trees are those named, or those of `FLOWCELL_BENCH_TREES`, or two that are
//! made of registry sources into `target/tmp/search`. `rg` 15 is `FLOWCELL_RG`, or found on the path.
//!
//! A time of `rg` is its wall time less that of `rg --version` in the same round; a ratio is the median of the ratios of
//! [`ROUNDS`] rounds. The run fails when a requirement does not hold.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, clippy::exit)]

#[path = "search/heap.rs"]
mod heap;
#[path = "search/trees.rs"]
mod trees;

use flowcell_search::kernel::flows::capability::CapabilityPattern;
use flowcell_search::kernel::flows::rules::Rule;
use flowcell_search::kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SystemClock,
    SystemEntropy, Workspace,
};
use flowcell_search::{Engine, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery, MAX_THREADS, Search};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rounds a median is taken over.
const ROUNDS: usize = 9;
const FLAGS: [&str; 7] = [
    "--no-config",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--no-ignore-exclude",
    "--no-ignore-dot",
    "--no-messages",
];
const MEBIBYTE: f64 = 1024.0 * 1024.0;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() {
    let rg = match rg() {
        Ok(rg) => rg,
        Err(why) => {
            println!("skipped: search: {why}");
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
            return;
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let mut report = Report::default();
    for tree in trees::real() {
        let count = trees::files(&tree);
        assert!(count > 10_000, "{} has {count} files", tree.display());
        println!("\n{}: {count} files, {threads} threads, medians of {ROUNDS}", tree.display());
        against_rg(&mut report, &rg, &tree, threads).await;
        symbols(&mut report, &tree, threads).await;
    }
    println!("\ngenerated trees, {threads} threads");
    alone(&mut report, threads).await;
    cancellation(&mut report).await;
    println!("\nheap and directories");
    heap_above_idle(&mut report, threads).await;
    handles(&mut report).await;
    report.close();
}

/// The program, when it is of version 15.
fn rg() -> Result<PathBuf, String> {
    let rg = env::var_os("FLOWCELL_RG").unwrap_or_else(|| OsString::from("rg"));
    let output = Command::new(&rg).arg("--version").output().map_err(|error| format!("no rg: {error}"))?;
    let version = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    if !version.starts_with("ripgrep 15.") {
        return Err(format!("{} is {version:?}, not ripgrep 15", rg.display()));
    }
    println!("{version}");
    Ok(PathBuf::from(rg))
}

/// The rows and how they ended.
#[derive(Default)]
struct Report {
    rows: usize,
    missed: Vec<String>,
    goals: usize,
    reached: usize,
}

impl Report {
    /// A figure with what is required and what is hoped for; `unit` follows each number.
    fn row(&mut self, name: &str, measured: f64, required: f64, goal: Option<f64>, unit: &str) {
        let holds = measured <= required;
        self.rows += 1;
        if !holds {
            self.missed.push(name.to_owned());
        }
        let goal = goal.map_or_else(String::new, |goal| {
            self.goals += 1;
            self.reached += usize::from(measured <= goal);
            format!(", goal {goal}{unit} {}", if measured <= goal { "reached" } else { "missed" })
        });
        let verdict = if holds { "holds" } else { "MISSED" };
        println!("  {name:<58} {measured:>8.2}{unit:<4} required {required}{unit} {verdict}{goal}");
    }

    fn close(self) {
        let held = self.rows - self.missed.len();
        println!(
            "\n{held} of {} requirements hold, {} of {} goals are reached",
            self.rows, self.reached, self.goals
        );
        if !self.missed.is_empty() {
            println!("missed: {}", self.missed.join("; "));
            std::process::exit(1);
        }
    }
}

/// A context in which everything below `root` may be read.
async fn context(root: &Path) -> CallContext {
    let root = root.canonicalize().unwrap();
    let mut options = GrantStoreOptions::new(&root, Arc::new(MemoryPersist::new())).unattended();
    options.configured = vec![Rule::allow(CapabilityPattern::parse("fs:read:**").unwrap())];
    let authority = Authority::root(GrantStore::open(options).await.unwrap());
    let entropy = Arc::new(SystemEntropy::new().unwrap());
    let workspace = Workspace::open(&root).unwrap();
    let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone()).unwrap();
    CallContext::new(files, Arc::new(SystemClock::new()), entropy)
}

fn lines(pattern: &str) -> GrepQuery {
    GrepQuery { pattern: pattern.to_owned(), no_symbols: true, ..GrepQuery::default() }
}

fn names(pattern: &str) -> GlobQuery {
    GlobQuery { pattern: pattern.to_owned(), ..GlobQuery::default() }
}

/// One place to search with one engine.
struct Here {
    engine: Engine,
    cx: CallContext,
}

impl Here {
    async fn new(tree: &Path, threads: usize) -> Self {
        Self { engine: Engine::with_threads(threads), cx: context(tree).await }
    }

    async fn grep(&self, query: &GrepQuery) -> (Duration, GrepAnswer) {
        let start = Instant::now();
        let answer = self.engine.grep(&self.cx, query.clone()).await.unwrap();
        (start.elapsed(), answer)
    }

    async fn glob(&self, query: &GlobQuery) -> (Duration, GlobAnswer) {
        let start = Instant::now();
        let answer = self.engine.glob(&self.cx, query.clone()).await.unwrap();
        (start.elapsed(), answer)
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn timed(rg: &Path, tree: &Path, arguments: &[&str]) -> f64 {
    let mut command = Command::new(rg);
    command.args(arguments).current_dir(tree);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().unwrap();
    let took = start.elapsed().as_secs_f64();
    // 1 is "found nothing".
    assert!(matches!(status.code(), Some(0 | 1)), "{command:?}: {status}");
    took
}

/// The time of `rg` without the start of its process.
fn peer(rg: &Path, tree: &Path, arguments: &[&str]) -> f64 {
    let all: Vec<&str> = FLAGS.iter().chain(arguments).copied().collect();
    let took = timed(rg, tree, &all);
    (took - timed(rg, tree, &["--version"])).max(1e-6)
}

async fn against_rg(report: &mut Report, rg: &Path, tree: &Path, threads: usize) {
    let here = Here::new(tree, threads).await;
    let parallel = format!("-j{threads}");
    let sorted = ["--sort", "path"];
    let figures = [
        ("no match", "zqxjkvwpq", 1.3, 0.7, &sorted[..]),
        ("no match, an expression", "zqx[a-j]+kvw(pq|qp)", 1.3, 0.7, &sorted[..]),
        ("rare match", "Boyer|Knuth", 1.3, 0.7, &sorted[..]),
        ("no match", "zqxjkvwpq", 2.0, 1.2, &[parallel.as_str()][..]),
        ("no match, an expression", "zqx[a-j]+kvw(pq|qp)", 2.0, 1.2, &[parallel.as_str()][..]),
        ("rare match", "Boyer|Knuth", 2.0, 1.2, &[parallel.as_str()][..]),
    ];
    for (name, pattern, required, goal, flags) in figures {
        let query = lines(pattern);
        let arguments: Vec<&str> = flags.iter().copied().chain([pattern, "."]).collect();
        let ratio = ratio(&here, &query, || peer(rg, tree, &arguments)).await;
        report.row(&format!("grep {name} / rg {}", flags.join(" ")), ratio, required, Some(goal), "×");
    }
    for pattern in ["e", "in"] {
        let query = lines(pattern);
        let (_, answer) = here.grep(&query).await;
        assert!(answer.notice.is_some_and(|notice| notice.contains("at least")), "{pattern} is not common");
        let ratio = ratio(&here, &query, || peer(rg, tree, &[pattern, "."])).await;
        report.row(&format!("grep {pattern:?}, over the ceiling / rg printing all"), ratio, 0.5, None, "×");
    }
    let query = GrepQuery { files_with_matches: true, ..lines("return") };
    let found = ratio(&here, &query, || peer(rg, tree, &["-l", "--sort", "path", "return", "."])).await;
    report.row("filesWithMatches / rg -l --sort path", found, 1.5, Some(1.0), "×");
    for pattern in ["**", "*.{rs,ts}"] {
        let query = names(pattern);
        here.glob(&query).await;
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let ours = here.glob(&query).await.0.as_secs_f64();
            ratios.push(ours / peer(rg, tree, &["--files", "-g", pattern, "--sort", "path", "."]));
        }
        report.row(
            &format!("glob {pattern} / rg --files -g --sort path"),
            median(ratios),
            1.5,
            Some(1.0),
            "×",
        );
    }
}

async fn ratio(here: &Here, query: &GrepQuery, peer: impl Fn() -> f64) -> f64 {
    // Both once without being measured: the cache is warm.
    here.grep(query).await;
    peer();
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let ours = here.grep(query).await.0.as_secs_f64();
        ratios.push(ours / peer());
    }
    median(ratios)
}

async fn symbols(report: &mut Report, tree: &Path, threads: usize) {
    let here = Here::new(tree, threads).await;
    let without = lines("return");
    let with = GrepQuery { no_symbols: false, ..without.clone() };
    let mut more = Vec::new();
    for _ in 0..ROUNDS {
        let plain = here.grep(&without).await.0.as_secs_f64();
        let (took, answer) = here.grep(&with).await;
        assert!(answer.matches.len() == 200 && answer.matches.iter().any(|found| found.symbol.is_some()));
        more.push((took.as_secs_f64() - plain) * 1000.0);
    }
    report.row("symbols of 200 hits, more than without", median(more), 15.0, None, "ms");
}

async fn alone(report: &mut Report, threads: usize) {
    let mut times = Vec::new();
    for files in [5_000, 100_000] {
        let tree = trees::generated(files);
        let here = Here::new(&tree, threads).await;
        here.grep(&lines("needle")).await;
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            let (took, answer) = here.grep(&lines("needle")).await;
            assert_eq!((answer.matches.len(), answer.files_searched), (200, 2_500));
            samples.push(took.as_secs_f64() * 1000.0);
        }
        times.push(median(samples));
    }
    report.row("200 hits in the first 50 of 100,000 files, over the ceiling", times[1], 100.0, None, "ms");
    report.row("the same / in a tree of 5,000 files", times[1] / times[0], 2.0, Some(1.25), "×");
    let tree = trees::generated(100);
    for (name, symbols) in [("grep", false), ("grep with symbols", true)] {
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            let here = Here::new(&tree, threads).await;
            let query = GrepQuery { no_symbols: !symbols, ..lines("ne+dle") };
            samples.push(here.grep(&query).await.0.as_secs_f64() * 1000.0);
        }
        report.row(&format!("cold {name}, 100 files"), median(samples), 5.0, Some(2.0), "ms");
    }
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        let here = Here::new(&tree, threads).await;
        samples.push(here.glob(&names("*.rs")).await.0.as_secs_f64() * 1000.0);
    }
    report.row("cold glob, 100 files", median(samples), 5.0, Some(2.0), "ms");
}

/// How long the only thread of an engine stays with a call that was cancelled: until it has served another one.
async fn cancellation(report: &mut Report) {
    let long = trees::one_line(14);
    let small = trees::generated(100);
    let wide = trees::odd();
    for (name, tree, pattern) in
        [("in a long line", &long, "(a|b)*(.{900}c){8}"), ("in many files", &wide, "zqx(a|b)*kv")]
    {
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            let (slow, other) = (Here::new(tree, 1).await, context(&small).await);
            let (engine, cx, query) = (slow.engine.clone(), slow.cx.clone(), lines(pattern));
            let call = tokio::spawn(async move { engine.grep(&cx, query).await.map(drop) });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!call.is_finished(), "{name} is over too soon");
            let start = Instant::now();
            slow.cx.cancel.cancel();
            assert!(call.await.unwrap().is_err());
            slow.engine.glob(&other, names("**")).await.unwrap();
            samples.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        report.row(
            &format!("a call that is cancelled {name}: its thread is free"),
            median(samples),
            50.0,
            None,
            "ms",
        );
    }
}

async fn heap_above_idle(report: &mut Report, threads: usize) {
    let full = env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full");
    let mut places = vec![
        ("1,000 files".to_owned(), trees::generated(1_000)),
        ("100,000 files".to_owned(), trees::generated(100_000)),
        ("50,000 files in one directory, 500 levels deep".to_owned(), trees::odd()),
        ("one file of 256 MiB".to_owned(), trees::long_file(256)),
    ];
    if full {
        places.push(("1,000,000 files".to_owned(), trees::generated(1_000_000)));
    }
    for tree in trees::real() {
        places.push((tree.file_name().unwrap_or_default().to_string_lossy().into_owned(), tree));
    }
    for threads in [threads, MAX_THREADS] {
        for (name, tree) in &places {
            let mut worst = 0;
            for pattern in ["zqx[a-j]+kvw", "needle", "e", ".*(let|fn|function) +[a-z_]+.*"] {
                let queries = [
                    GrepQuery { no_symbols: false, context: Some(3), ..lines(pattern) },
                    GrepQuery { files_with_matches: true, ..lines(pattern) },
                ];
                for query in queries {
                    let here = Here::new(tree, threads).await;
                    let idle = heap::mark();
                    here.grep(&query).await;
                    worst = worst.max(heap::peak().saturating_sub(idle));
                }
            }
            let here = Here::new(tree, threads).await;
            let idle = heap::mark();
            here.glob(&names("**")).await;
            worst = worst.max(heap::peak().saturating_sub(idle));
            let name = format!("peak heap above idle, {name}, {threads} threads");
            #[allow(clippy::cast_precision_loss)]
            report.row(&name, worst as f64 / MEBIBYTE, 32.0, None, "MiB");
        }
    }
}

/// The most directories that are open in the process at once, seen by a thread that looks all the time.
async fn handles(report: &mut Report) {
    let tree = trees::odd();
    let more = trees::generated(100_000);
    for threads in [2, MAX_THREADS] {
        let idle = Descriptors::now();
        let most = Arc::new(AtomicUsize::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let looker = {
            let (most, over) = (Arc::clone(&most), Arc::clone(&over));
            thread::spawn(move || {
                let mut looks = 0u64;
                while !over.load(Ordering::Relaxed) {
                    most.fetch_max(Descriptors::now().directories_since(&idle), Ordering::Relaxed);
                    looks += 1;
                }
                looks
            })
        };
        for tree in [&tree, &more] {
            let here = Here::new(tree, threads).await;
            for _ in 0..3 {
                here.grep(&lines("zqxjkvwpq")).await;
                here.glob(&names("**")).await;
            }
        }
        over.store(true, Ordering::Relaxed);
        let looks = looker.join().unwrap();
        assert!(looks > 100, "{looks} looks");
        let most = most.load(Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss)]
        report.row(
            &format!("directories open, {threads} threads, {looks} looks"),
            most as f64,
            64.0,
            None,
            "",
        );
    }
}

/// What the process has open.
struct Descriptors {
    directories: usize,
    all: usize,
    highest: usize,
}

impl Descriptors {
    fn now() -> Self {
        let (mut directories, mut all, mut highest) = (0, 0, 0);
        for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
            all += 1;
            directories += usize::from(fs::metadata(entry.path()).is_ok_and(|meta| meta.is_dir()));
            let number = entry.file_name().to_string_lossy().parse().unwrap_or(0);
            highest = highest.max(number);
        }
        Self { directories, all, highest }
    }

    /// Directories opened since. A look takes a while and may see one after the other; but the host gives the lowest free
    /// number, so no more are open at once than the highest number tells.
    fn directories_since(&self, idle: &Self) -> usize {
        let counted = self.directories.saturating_sub(idle.directories);
        counted.min((self.highest + 1).saturating_sub(idle.all))
    }
}
