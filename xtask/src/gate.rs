//! `cargo xtask test`: every gate, then every test, then the counts.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cargo::{Workspace, describe, in_ci, output_of};
use crate::libtest::{self, Build};
use crate::tally::Findings;
use crate::{layers, pick, policy};

/// A test that takes longer fails CI.
const TOO_SLOW: Duration = Duration::from_secs(10);
/// A test that takes longer is named.
const SLOW: Duration = Duration::from_secs(5);
/// Tests that the list of the slowest holds.
const SLOWEST: usize = 10;

/// Counts over everything that ran.
#[derive(Default)]
pub(crate) struct Tally {
    passed: usize,
    failures: Vec<String>,
    skips: Vec<String>,
    times: Vec<(Duration, String)>,
}

impl Tally {
    /// Something passed.
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Something failed, and what it said.
    pub(crate) fn fail(&mut self, name: &str, said: &str) {
        println!("FAILED {name}");
        for line in said.trim_end().lines() {
            println!("    {line}");
        }
        self.failures.push(name.to_owned());
    }

    /// Something did not run, and why.
    pub(crate) fn skip(&mut self, what: &str) {
        self.skips.push(what.to_owned());
    }

    /// How long a test took.
    pub(crate) fn time(&mut self, name: &str, taken: Duration) {
        self.times.push((taken, name.to_owned()));
    }

    /// What passed, failed and was skipped so far.
    #[cfg(test)]
    pub(crate) fn figures(&self) -> (usize, usize, usize) {
        (self.passed, self.failures.len(), self.skips.len())
    }

    fn gate(&mut self, name: &str, findings: Result<Findings>) {
        match findings {
            Ok(findings) if findings.passed() => {
                findings.print();
                self.pass();
            }
            Ok(findings) => self.fail(findings.gate, &findings.errors.join("\n")),
            Err(error) => self.fail(name, &format!("{error:#}")),
        }
    }

    /// Prints the slowest tests, what failed, what was skipped and the closing line. `true` when all is well: nothing
    /// failed and, under CI, nothing was skipped.
    ///
    /// With `limit`, a test over ten seconds is an error under CI.
    pub(crate) fn close(mut self, limit: bool) -> bool {
        self.times.sort_by(|a, b| b.cmp(a));
        if !self.times.is_empty() {
            println!("slowest:");
        }
        for (taken, name) in self.times.iter().take(SLOWEST) {
            println!("{:8.2} s  {name}", taken.as_secs_f64());
        }
        if limit {
            for (taken, name) in self.times.iter().filter(|(taken, _)| *taken > SLOW) {
                if *taken > TOO_SLOW && in_ci() {
                    println!(
                        "error: {name} took {:.1} s; a test may take {} s",
                        taken.as_secs_f64(),
                        TOO_SLOW.as_secs()
                    );
                    self.failures.push(format!("time of {name}"));
                } else {
                    println!("slow: {name} took {:.1} s", taken.as_secs_f64());
                }
            }
        }
        for skip in &self.skips {
            println!("{}: {skip}", if in_ci() { "error: skipped" } else { "skipped" });
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failures.len(), self.skips.len());
        self.failures.is_empty() && (self.skips.is_empty() || !in_ci())
    }
}

/// Runs all of it; `true` when all is well.
pub(crate) fn test(workspace: &Workspace) -> Result<bool> {
    let begun = Instant::now();
    let mut tally = Tally::default();
    tool(workspace, "fmt", &["--all", "--check"], &mut tally)?;
    tally.gate("layers", layers::run(workspace));
    tally.gate("policy", policy::run(workspace));
    tally.gate("pick", pick::run(workspace, false));
    tool(
        workspace,
        "clippy",
        &["--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"],
        &mut tally,
    )?;
    match libtest::build(workspace, &["--workspace"])? {
        Build::Failed(said) => tally.fail("build of the tests", &said),
        Build::Done(built) => {
            libtest::run(workspace, built, &[], &mut tally)?;
            libtest::doctests(workspace, &mut tally)?;
        }
    }
    println!("took {:.0} s", begun.elapsed().as_secs_f64());
    Ok(tally.close(true))
}

/// A component of the toolchain that may not be there.
fn tool(workspace: &Workspace, name: &str, args: &[&str], tally: &mut Tally) -> Result<()> {
    let mut probe = workspace.cargo();
    probe.args([name, "--version"]);
    if !output_of(&mut probe)?.status.success() {
        tally.skip(&format!("{name}: this toolchain has no cargo {name}"));
        return Ok(());
    }
    let begun = Instant::now();
    let mut command = workspace.cargo();
    command.arg(name).args(args);
    let output = output_of(&mut command)?;
    if output.status.success() {
        println!("{name}: ok ({:.1} s)", begun.elapsed().as_secs_f64());
        tally.pass();
    } else {
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        tally.fail(name, &format!("{}\n{}", describe(&command), said.concat()));
    }
    Ok(())
}
