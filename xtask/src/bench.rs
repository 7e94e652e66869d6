//! Benchmarks: targets of the crates themselves, run in the `bench` profile.

use anyhow::{Result, bail};

use crate::cargo::{Workspace, describe};

/// Runs the benchmarks, or the one with this name; `args` go to each.
pub(crate) fn run(workspace: &Workspace, name: Option<&str>, args: &[String]) -> Result<bool> {
    let members = workspace.members()?;
    let all: Vec<(String, String)> = members
        .ours()
        .into_iter()
        .flat_map(|package| {
            let benches =
                package.targets.iter().filter(|target| target.kind.iter().any(|kind| kind == "bench"));
            benches.map(|target| (package.name.clone(), target.name.clone()))
        })
        .collect();
    let chosen: Vec<&(String, String)> =
        all.iter().filter(|(_, bench)| name.is_none_or(|name| name == bench)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = all.iter().map(|(_, bench)| bench.as_str()).collect();
        bail!("no benchmark {}; there are: {}", name.unwrap_or("at all"), known.join(", "));
    }
    let mut passed = true;
    for (package, bench) in chosen {
        let mut command = workspace.cargo();
        command.args(["bench", "--locked", "--package", package, "--bench", bench, "--"]).args(args);
        let status = command.status()?;
        if !status.success() {
            eprintln!("error: {} failed ({status})", describe(&command));
            passed = false;
        }
    }
    Ok(passed)
}
