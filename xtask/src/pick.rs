//! How much each crate brings along (architecture, Layers): counted, compared with a budget, and checked alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::cargo::{Workspace, describe, output_of, stdout_of};
use crate::layers::{HARNESS, layer};
use crate::tally::Findings;

/// Where the counts are taken, whatever machine counts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The budget, below the workspace root.
const BUDGET: &str = "xtask/budget.toml";

/// What no crate below the harness may bring: the JavaScript engine and the database.
const HEAVY: [&str; 5] = ["rquickjs", "rquickjs-core", "rquickjs-sys", "rusqlite", "libsqlite3-sys"];

/// Which features of a crate are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Features {
    /// The default ones.
    Default,
    /// None.
    None,
    /// All.
    All,
}

impl Features {
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[],
            Self::None => &["--no-default-features"],
            Self::All => &["--all-features"],
        }
    }
}

/// Crates that one crate may bring.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Share {
    /// With its default features.
    default: usize,
    /// With none.
    none: usize,
}

/// Name and version of each package that is compiled for `package`, itself left out: dependencies and
/// build-dependencies, procedural macros and what they need.
pub(crate) fn tree(
    workspace: &Workspace,
    package: &str,
    features: Features,
    targets: &[String],
) -> Result<BTreeSet<(String, String)>> {
    let mut command = workspace.cargo();
    command.args(["tree", "--locked", "--package", package, "--edges", "normal,build", "--prefix", "none"]);
    command.args(["--format", "{p}"]).args(features.args());
    for target in targets {
        command.args(["--target", target]);
    }
    let mut packages = parse_tree(&stdout_of(&mut command)?);
    packages.retain(|(name, _)| name != package);
    Ok(packages)
}

/// Lines of `name vVERSION (where or what)`.
fn parse_tree(text: &str) -> BTreeSet<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            let version = words.next()?.strip_prefix('v')?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// The published crates of ours.
fn crates(workspace: &Workspace) -> Result<Vec<String>> {
    let members = workspace.members()?;
    Ok(members
        .ours()
        .into_iter()
        .filter(|package| package.is_published())
        .map(|package| package.name.clone())
        .collect())
}

fn counts(workspace: &Workspace, names: &[String]) -> Result<BTreeMap<String, Share>> {
    let target = [TARGET.to_owned()];
    let count =
        |name: &str, features| tree(workspace, name, features, &target).map(|packages| packages.len());
    names
        .iter()
        .map(|name| {
            let share =
                Share { default: count(name, Features::Default)?, none: count(name, Features::None)? };
            Ok((name.clone(), share))
        })
        .collect()
}

/// Counts, compares with the budget and, with `compile`, checks every crate alone.
pub(crate) fn run(workspace: &Workspace, compile: bool) -> Result<Findings> {
    let path = workspace.root().join(BUDGET);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let budget: BTreeMap<String, Share> = toml::from_str(&text).context(BUDGET)?;
    let names = crates(workspace)?;
    let counted = counts(workspace, &names)?;
    let mut findings = compare(&counted, &budget);
    for name in names.iter().filter(|name| layer(name) < layer(HARNESS)) {
        let all = tree(workspace, name, Features::All, &[TARGET.to_owned()])?;
        for heavy in heavy(&all) {
            findings.error(format!("{name} is below the harness and brings {heavy}"));
        }
    }
    if compile {
        for name in &names {
            check_alone(workspace, name, Features::Default, &mut findings)?;
            check_alone(workspace, name, Features::None, &mut findings)?;
        }
    }
    findings.summary =
        format!("{} crates {}", names.len(), if compile { "checked alone" } else { "counted" });
    Ok(findings)
}

/// Prints the budget file that the present counts make.
pub(crate) fn print_budget(workspace: &Workspace) -> Result<bool> {
    println!(
        "# Crates that each of ours brings along, with its default features and with none: what `cargo xtask pick`"
    );
    println!("# counts on {TARGET}. Raising a figure is a decision; lower it when the count falls.");
    for (name, share) in counts(workspace, &crates(workspace)?)? {
        println!("{name} = {{ default = {}, none = {} }}", share.default, share.none);
    }
    Ok(true)
}

fn heavy(packages: &BTreeSet<(String, String)>) -> Vec<&str> {
    packages.iter().map(|(name, _)| name.as_str()).filter(|name| HEAVY.contains(name)).collect()
}

fn compare(counted: &BTreeMap<String, Share>, budget: &BTreeMap<String, Share>) -> Findings {
    let mut findings = Findings::of("pick");
    for (name, share) in counted {
        let Some(allowed) = budget.get(name) else {
            findings.error(format!(
                "{name} has no line in {BUDGET}; it brings {} and {}",
                share.default, share.none
            ));
            continue;
        };
        let figure = |count: usize, allowed: usize| format!("{count} of {allowed}");
        findings.note(format!(
            "{name:28} default features {:10} none {}",
            figure(share.default, allowed.default),
            figure(share.none, allowed.none)
        ));
        for (kind, count, allowed) in [
            ("its default features", share.default, allowed.default),
            ("no features", share.none, allowed.none),
        ] {
            if count > allowed {
                findings.error(format!("{name} with {kind} brings {count} crates; its budget is {allowed}"));
            }
        }
    }
    for name in budget.keys().filter(|name| !counted.contains_key(*name)) {
        findings
            .error(format!("{BUDGET} has a line for {name}, which is no published crate of this workspace"));
    }
    findings
}

fn check_alone(workspace: &Workspace, name: &str, features: Features, findings: &mut Findings) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["check", "--locked", "--quiet", "--package", name]).args(features.args());
    let output = output_of(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.trim().is_empty() {
        let verdict = if output.status.success() { "warns" } else { "fails" };
        findings.error(format!("{} {verdict}:\n{}", describe(&command), said.trim_end()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(list: &[(&str, usize, usize)]) -> BTreeMap<String, Share> {
        list.iter()
            .map(|(name, default, none)| ((*name).to_owned(), Share { default: *default, none: *none }))
            .collect()
    }

    #[test]
    fn a_tree_is_read() {
        let text = "a v0.1.0 (/x/a)\nserde v1.0.2\nderive v1.0.2 (proc-macro)\nserde v1.0.2 (*)\n\n[build-dependencies]\n";
        let parsed = parse_tree(text);
        let names: Vec<&str> = parsed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "derive", "serde"]);
    }

    #[test]
    fn over_budget_fails() {
        let budget = shares(&[("a", 5, 3)]);
        assert!(compare(&shares(&[("a", 5, 3)]), &budget).passed());
        assert!(compare(&shares(&[("a", 4, 1)]), &budget).passed());
        assert_eq!(
            compare(&shares(&[("a", 6, 4)]), &budget).errors,
            [
                "a with its default features brings 6 crates; its budget is 5",
                "a with no features brings 4 crates; its budget is 3"
            ]
        );
    }

    #[test]
    fn a_missing_or_stale_line_fails() {
        let found = compare(&shares(&[("a", 1, 1)]), &shares(&[("b", 1, 1)])).errors;
        assert_eq!(
            found,
            [
                "a has no line in xtask/budget.toml; it brings 1 and 1",
                "xtask/budget.toml has a line for b, which is no published crate of this workspace"
            ]
        );
    }

    #[test]
    fn the_engine_and_the_database_are_heavy() {
        let packages = parse_tree("serde v1.0.0\nrquickjs-sys v0.14.0\nlibsqlite3-sys v0.36.0");
        assert_eq!(heavy(&packages), ["libsqlite3-sys", "rquickjs-sys"]);
    }
}
