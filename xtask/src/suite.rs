//! The suites of the `tests` member at full volume.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cargo::Workspace;
use crate::gate::Tally;
use crate::libtest::{self, Build};

/// The member that holds the suites; each is a test target of its own name.
const MEMBER: &str = "flowcell-tests";

/// What tells the suites to take their full volume (`flowcell_tests::volume`).
const VOLUME: (&str, &str) = ("FLOWCELL_VOLUME", "full");

/// One run.
pub(crate) fn integration(workspace: &Workspace, suite: &str) -> Result<bool> {
    check_name(workspace, suite)?;
    once(workspace, suite)
}

/// Runs until one fails or no further run is to begin.
pub(crate) fn soak(workspace: &Workspace, suite: &str, minutes: u64) -> Result<bool> {
    check_name(workspace, suite)?;
    let begun = Instant::now();
    let mut runs = 0_u64;
    loop {
        runs += 1;
        println!("run {runs}");
        if !once(workspace, suite)? {
            println!("soak {suite}: run {runs} failed");
            return Ok(false);
        }
        if begun.elapsed() >= Duration::from_secs(minutes.saturating_mul(60)) {
            println!("soak {suite}: {runs} runs passed");
            return Ok(true);
        }
    }
}

fn check_name(workspace: &Workspace, suite: &str) -> Result<()> {
    let members = workspace.members()?;
    let known: Vec<&str> = members
        .ours()
        .into_iter()
        .filter(|package| package.name == MEMBER)
        .flat_map(|package| &package.targets)
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .map(|target| target.name.as_str())
        .collect();
    if !known.contains(&suite) {
        bail!("no suite {suite}; there are: {}", known.join(", "));
    }
    Ok(())
}

fn once(workspace: &Workspace, suite: &str) -> Result<bool> {
    let mut tally = Tally::default();
    match libtest::build(workspace, &["--package", MEMBER, "--test", suite])? {
        Build::Failed(said) => tally.fail("build of the suite", &said),
        Build::Done(built) => libtest::run(workspace, built, &[VOLUME], &mut tally)?,
    }
    Ok(tally.close(false))
}
