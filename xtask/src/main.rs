//! The tasks of this workspace, run as `cargo xtask TASK`.
//!
//! Everything here needs Rust, git and a C compiler, nothing else. What CI runs is `cargo xtask test`.
//!
//! **Invariant:** a gate that cannot run says so by name and is counted as skipped; under `CI=true` a skip is an
//! error, so that a machine that lacks something never looks green.

// This program is a tool of people at a terminal and of CI: it prints, and it reads the process environment.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cargo;
mod deny;
mod gate;
mod layers;
mod libtest;
mod metadata;
mod pick;
mod policy;
mod spdx;
mod suite;
mod tally;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::cargo::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The tasks of this workspace", version)]
struct Args {
    /// Workspace to look at; the one this program belongs to by default.
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything CI runs: format, lints, layers, policy, budgets, all tests; ends with the counts.
    Test,
    /// Fails on a dependency between our crates that is not on the layer directly beneath.
    Layers,
    /// Licences, sources, minimum Rust versions, bans, and names of this machine in the sources.
    Policy,
    /// Checks every crate alone, with default features and with none, and its dependency count against the budget.
    Pick {
        /// Only count; compile nothing.
        #[arg(long)]
        count: bool,
        /// Print the budget file that today's counts make, instead of comparing.
        #[arg(long)]
        budget: bool,
    },
    /// Runs the benchmarks, or those whose target has this name.
    Bench {
        /// Target name of a benchmark (`crates/*/benches/NAME.rs`).
        name: Option<String>,
        /// Passed to the benchmark.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Runs a suite of the `tests` member at full volume.
    Integration {
        /// The suite's name: `main`.
        suite: String,
    },
    /// Runs a suite of the `tests` member at full volume, again and again until one run fails or the time is up.
    Soak {
        /// The suite's name: `main`.
        suite: String,
        /// Minutes after which no further run is begun.
        #[arg(long, default_value_t = 10)]
        minutes: u64,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `true` when the task found nothing wrong.
fn run(args: Args) -> Result<bool> {
    let workspace = Workspace::at(args.root)?;
    match args.task {
        Task::Test => gate::test(&workspace),
        Task::Layers => Ok(layers::run(&workspace)?.print()),
        Task::Policy => Ok(policy::run(&workspace)?.print()),
        Task::Pick { budget: true, .. } => pick::print_budget(&workspace),
        Task::Pick { count, .. } => Ok(pick::run(&workspace, !count)?.print()),
        Task::Bench { name, args } => bench::run(&workspace, name.as_deref(), &args),
        Task::Integration { suite } => suite::integration(&workspace, &suite),
        Task::Soak { suite, minutes } => suite::soak(&workspace, &suite, minutes),
    }
}
