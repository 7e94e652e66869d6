//! What a start costs: the process service in its ways against `std::process::Command` on the same program.
//!
//! Every figure is a median over [`RUNS`] rounds of one process, in each of which all sides follow each other; a ratio is the
//! median of the ratios of the rounds. Each command's output is checked, and a hermetic one's level of confinement printed:
//! a faster start that confines less would be no confinement.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::large_futures)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command as Std;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_host::kernel::flows::bash;
use flowcell_host::kernel::flows::capability::CapabilityPattern;
use flowcell_host::kernel::flows::rules::{Effect, Rule};
use flowcell_host::kernel::process::{Command, SpawnRequest};
use flowcell_host::kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SystemClock,
    SystemEntropy, Workspace,
};
use flowcell_host::process::{Capture, Ended, ProcessRequest, run};
use flowcell_host::{Confinement, Supervisor};

/// Rounds a median is taken over.
const RUNS: usize = 61;
const PATH: &str = "/usr/bin:/bin";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    let cx = context(&root).await;
    let supervisor = Supervisor::new(env!("CARGO_BIN_EXE_flowcell-supervisor"));
    let confinement = || Some(Confinement::new(vec![], vec![root.to_str().unwrap().to_owned()]));
    println!("medians over {RUNS} rounds of `/bin/echo x`");
    let ways = [
        ("the service", None, None),
        ("the service, supervised", Some(&supervisor), None),
        ("hermetic, without a supervisor", None, confinement()),
        ("hermetic, supervised", Some(&supervisor), confinement()),
    ];
    let mut bare = Vec::new();
    let mut took = vec![(Vec::new(), Vec::new()); ways.len()];
    for _ in 0..RUNS {
        let alone = std_process(&root);
        bare.push(alone);
        for ((_, supervisor, confinement), (samples, ratios)) in ways.iter().zip(&mut took) {
            let mut request = request();
            request.options.supervisor = supervisor.cloned();
            request.confinement.clone_from(confinement);
            let begin = Instant::now();
            let ended = run(&cx, request).await.unwrap();
            let time = begin.elapsed();
            let Ended::Exited { code: 0, stdout, .. } = ended else { panic!("{ended:?}") };
            assert_eq!(stdout.head, b"x\n");
            samples.push(time);
            ratios.push(time.as_secs_f64() / alone.as_secs_f64());
        }
    }
    println!("{:<34} {:>8.0} µs", "std::process::Command::output", micros(&mut bare));
    for ((name, supervisor, confinement), (mut samples, mut ratios)) in ways.into_iter().zip(took) {
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ratios.len() / 2];
        let mut level = String::new();
        if confinement.is_some() {
            let mut request = request();
            request.options.supervisor = supervisor.cloned();
            request.confinement = confinement;
            run(&cx, request).await.unwrap();
            level = format!("   {}", cx.notes.take()["enforcement"]);
        }
        println!("{name:<34} {:>8.0} µs   / std = {ratio:.2}{level}", micros(&mut samples));
    }
}

fn micros(samples: &mut [Duration]) -> f64 {
    samples.sort();
    samples[samples.len() / 2].as_secs_f64() * 1e6
}

fn request() -> ProcessRequest {
    let argv = ["/bin/echo", "x"].map(str::to_owned).to_vec();
    let capture = Capture::HeadTail { head: 15_000, tail: 15_000 };
    ProcessRequest::new(SpawnRequest::new(Command::Argv(argv)), Duration::from_secs(10), capture)
}

fn std_process(root: &Path) -> Duration {
    let begin = Instant::now();
    let output =
        Std::new("/bin/echo").arg("x").env_clear().env("PATH", PATH).current_dir(root).output().unwrap();
    let took = begin.elapsed();
    assert_eq!(output.stdout, b"x\n");
    took
}

async fn context(root: &Path) -> CallContext {
    let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
    options.configured = vec![Rule::new(Effect::Allow, CapabilityPattern::parse("proc:spawn:*").unwrap())];
    let store = GrantStore::open(options).await.unwrap();
    let authority = Authority::root(store).attenuate_declared(&bash::decl().capabilities).unwrap();
    let entropy = Arc::new(SystemEntropy::new().unwrap());
    let workspace = Workspace::open(root).unwrap();
    let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone()).unwrap();
    let ambient = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    CallContext::new(files, Arc::new(SystemClock::new()), entropy).with_environment(ambient)
}
