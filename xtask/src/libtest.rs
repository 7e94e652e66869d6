//! Test binaries: built once, run two or so at a time, their verdicts counted and timed.
//!
//! The times and the output of each test come from the test harness's JSON lines. They are an unstable format of a
//! stable program: `RUSTC_BOOTSTRAP` is set for the test binaries, and for nothing that is compiled. A binary that
//! prints no such line (a harness of its own) is judged by its exit status as one test.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::cargo::{Workspace, output_of};
use crate::gate::Tally;

/// A binary that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(20 * 60);

/// How often a running binary is looked at.
const POLL: Duration = Duration::from_millis(10);

/// The variable that tells the suites where the built `flowcell` is (`flowcell_tests::flowcell`).
const FLOWCELL: &str = "FLOWCELL_BIN";

/// What building came to.
pub(crate) enum Build {
    /// The binaries.
    Done(Built),
    /// What the compiler said.
    Failed(String),
}

/// What was built.
#[derive(Default)]
pub(crate) struct Built {
    tests: Vec<Binary>,
    /// The binary `flowcell`, where it was among them.
    flowcell: Option<PathBuf>,
}

/// One test binary.
pub(crate) struct Binary {
    /// Package and target, as in `flowcell-search::suite`.
    name: String,
    executable: PathBuf,
    folder: PathBuf,
    /// Integration suites are begun first, because they take longest.
    is_suite: bool,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Artifact>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Artifact {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the tests that `selection` names, and the binary `flowcell`.
pub(crate) fn build(workspace: &Workspace, selection: &[&str]) -> Result<Build> {
    let mut command = workspace.cargo();
    command.args(["test", "--no-run"]).args(selection);
    let mut built = match compile(command)? {
        Build::Done(built) => built,
        failed => return Ok(failed),
    };
    if built.flowcell.is_none() {
        let mut command = workspace.cargo();
        command.args(["build", "--package", "flowcell"]);
        match compile(command)? {
            Build::Done(Built { flowcell, .. }) => built.flowcell = flowcell,
            failed => return Ok(failed),
        }
    }
    Ok(Build::Done(built))
}

fn compile(mut command: Command) -> Result<Build> {
    command.args(["--locked", "--quiet", "--message-format", "json-render-diagnostics"]);
    let output = output_of(&mut command)?;
    if !output.status.success() {
        return Ok(Build::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    built(&String::from_utf8(output.stdout).context("cargo printed what is not UTF-8")?).map(Build::Done)
}

fn built(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message =
            serde_json::from_str(line).context("a message of cargo has an unknown shape")?;
        let (Some(target), Some(profile), Some(executable)) =
            (message.target, message.profile, message.executable)
        else {
            continue;
        };
        if !profile.test {
            if target.name == "flowcell" && target.kind.iter().any(|kind| kind == "bin") {
                built.flowcell = Some(executable);
            }
            continue;
        }
        let folder = message.manifest_path.parent().map(Path::to_path_buf).unwrap_or_default();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_suite = target.kind.iter().any(|kind| kind == "test");
        let is_binary = target.kind.iter().any(|kind| kind == "bin");
        let name = if is_suite || is_binary { format!("{package}::{}", target.name) } else { package };
        built.tests.push(Binary { name, executable, folder, is_suite });
    }
    built.tests.sort_by(|a, b| b.is_suite.cmp(&a.is_suite).then_with(|| a.name.cmp(&b.name)));
    Ok(built)
}

/// Runs the binaries, as many at a time as there are processors, one test at a time in each.
pub(crate) fn run(
    workspace: &Workspace,
    built: Built,
    variables: &[(&str, &str)],
    tally: &mut Tally,
) -> Result<()> {
    let mut variables: Vec<(&str, OsString)> =
        variables.iter().map(|(name, value)| (*name, value.into())).collect();
    variables.extend(built.flowcell.map(|path| (FLOWCELL, path.into_os_string())));
    let folder = workspace.members()?.target_directory.join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let workers = thread::available_parallelism().map_or(2, usize::from).min(built.tests.len().max(1));
    let queue = Mutex::new(built.tests.into_iter().enumerate().collect::<VecDeque<_>>());
    let tally = Mutex::new(tally);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((index, binary)) = lock(&queue).pop_front() {
                    let report = execute(&binary, &folder.join(format!("{index}")), &variables);
                    count(&binary, report, &mut lock(&tally));
                }
            });
        }
    });
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What one binary left behind.
struct Report {
    success: bool,
    /// How it ended, where that was not of its own accord.
    end: String,
    stdout: String,
    stderr: String,
    taken: Duration,
}

fn execute(binary: &Binary, files: &Path, variables: &[(&str, OsString)]) -> Result<Report> {
    // Into files: a child of a test that outlives it would hold a pipe open.
    let (out, err) = (files.with_extension("out"), files.with_extension("err"));
    let begun = Instant::now();
    let mut command = Command::new(&binary.executable);
    command.args([
        "--format",
        "json",
        "-Z",
        "unstable-options",
        "--report-time",
        "--show-output",
        "--test-threads",
        "1",
    ]);
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &binary.folder);
    command
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(&binary.folder)
        .stdin(Stdio::null());
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child =
        command.spawn().with_context(|| format!("{} did not start", binary.executable.display()))?;
    let (success, end) = loop {
        if let Some(status) = child.try_wait()? {
            break (status.success(), status.to_string());
        }
        if begun.elapsed() > HANGS_AFTER {
            child.kill()?;
            child.wait()?;
            break (false, format!("killed after {} s", HANGS_AFTER.as_secs()));
        }
        thread::sleep(POLL);
    };
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let report = Report { success, end, stdout: read(&out)?, stderr: read(&err)?, taken: begun.elapsed() };
    fs::remove_file(&out)?;
    fs::remove_file(&err)?;
    Ok(report)
}

/// One line of the test harness.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    #[serde(default)]
    name: String,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<String>,
    #[serde(default)]
    passed: usize,
    #[serde(default)]
    failed: usize,
    #[serde(default)]
    ignored: usize,
}

fn count(binary: &Binary, report: Result<Report>, tally: &mut Tally) {
    let report = match report {
        Ok(report) => report,
        Err(error) => return tally.fail(&binary.name, &format!("{error:#}")),
    };
    let mut counts = Counts::default();
    for line in report.stdout.lines() {
        counts.line(&binary.name, line, tally);
    }
    if !counts.began {
        // A harness of its own.
        skips(&binary.name, &report.stdout, tally);
        tally.time(&binary.name, report.taken);
        if report.success {
            tally.pass();
        } else {
            tally.fail(&binary.name, &format!("{}\n{}{}", report.end, report.stdout, report.stderr));
        }
        return;
    }
    if !counts.ended {
        let running = counts
            .running
            .iter()
            .map(|name| format!("{}::{name}", binary.name))
            .collect::<Vec<_>>()
            .join(", ");
        tally.fail(
            &binary.name,
            &format!("ended ({}) while these ran: {running}\n{}", report.end, report.stderr),
        );
    } else if !report.success && counts.failed == 0 {
        tally.fail(&binary.name, &format!("{} although no test failed\n{}", report.end, report.stderr));
    } else if counts.failed > 0 && !report.stderr.trim().is_empty() {
        println!("standard error of {}:\n{}", binary.name, report.stderr.trim_end());
    }
    println!(
        "{}: {} passed, {} failed, {} skipped ({:.1} s)",
        binary.name,
        counts.passed,
        counts.failed,
        counts.skipped,
        report.taken.as_secs_f64()
    );
}

#[derive(Default)]
struct Counts {
    began: bool,
    ended: bool,
    passed: usize,
    failed: usize,
    skipped: usize,
    running: Vec<String>,
}

impl Counts {
    fn line(&mut self, binary: &str, line: &str, tally: &mut Tally) {
        // A test that writes past the harness may have left the start of a line.
        let Some(event) =
            line.find("{ \"type\": ").and_then(|at| serde_json::from_str::<Event>(&line[at..]).ok())
        else {
            if let Some(why) = line.strip_prefix("skipped: ") {
                self.skipped += 1;
                tally.skip(why);
            }
            return;
        };
        let name = format!("{binary}::{}", event.name);
        let said = event.stdout.unwrap_or_default();
        match (event.kind.as_str(), event.event.as_str()) {
            ("suite", "started") => self.began = true,
            ("suite", "ok" | "failed") => {
                self.ended = event.passed + event.failed + event.ignored > 0 || self.running.is_empty();
            }
            ("test", "started") => self.running.push(event.name),
            ("test", verdict @ ("ok" | "failed" | "ignored")) => {
                self.running.retain(|running| *running != event.name);
                if let Some(taken) =
                    event.exec_time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                {
                    tally.time(&name, taken);
                }
                match verdict {
                    "ok" => {
                        for line in said.lines().filter_map(|line| line.strip_prefix("measured: ")) {
                            println!("{name}: {line}");
                        }
                        match skips(&name, &said, tally) {
                            0 => {
                                self.passed += 1;
                                tally.pass();
                            }
                            skipped => self.skipped += skipped,
                        }
                    }
                    "failed" => {
                        self.failed += 1;
                        tally.fail(&name, &format!("{said}{}", event.message.unwrap_or_default()));
                    }
                    // The half of another test that runs in a process of its own, or a tool: nothing is left out.
                    _ if event.message.as_deref().is_some_and(|why| why.starts_with("run by ")) => {}
                    _ => {
                        self.skipped += 1;
                        tally.skip(&format!(
                            "{name}: {}",
                            event.message.as_deref().unwrap_or("marked as ignored")
                        ));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Lines `skipped: NAME: WHY` of a test that passed.
fn skips(name: &str, said: &str, tally: &mut Tally) -> usize {
    let mut found = 0;
    for why in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        found += 1;
        tally.skip(&format!("{name}: {why}"));
    }
    found
}

/// The examples of the documentation, counted from what cargo prints.
pub(crate) fn doctests(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--workspace", "--doc", "--no-fail-fast"]);
    let begun = Instant::now();
    let output = output_of(&mut command)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (passed, failed, ignored) = totals(&said);
    (0..passed).for_each(|_| tally.pass());
    (0..ignored).for_each(|_| tally.skip("an example of the documentation is marked `ignore`"));
    if !output.status.success() {
        let failing: Vec<&str> =
            said.lines().filter(|line| line.starts_with("test ") && line.ends_with(" FAILED")).collect();
        tally.fail(
            "examples of the documentation",
            &format!("{}{}", said, String::from_utf8_lossy(&output.stderr)),
        );
        // The first failure is that entry; the others are entries of their own.
        failing.iter().skip(1).for_each(|line| tally.fail(line, ""));
    }
    println!(
        "doctests: {passed} passed, {failed} failed, {ignored} skipped ({:.1} s)",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Sums the lines `test result: …; N passed; N failed; N ignored; …`.
fn totals(said: &str) -> (usize, usize, usize) {
    let mut totals = (0, 0, 0);
    for line in said.lines().filter(|line| line.starts_with("test result: ")) {
        let figure = |word: &str| {
            line.split(['.', ';'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<usize>().ok())
                .unwrap_or(0)
        };
        totals.0 += figure("passed");
        totals.1 += figure("failed");
        totals.2 += figure("ignored");
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary() -> Binary {
        Binary { name: "b".to_owned(), executable: PathBuf::new(), folder: PathBuf::new(), is_suite: true }
    }

    fn report(success: bool, stdout: &str) -> Result<Report> {
        Ok(Report {
            success,
            end: "exit status: 101".to_owned(),
            stdout: stdout.to_owned(),
            stderr: String::new(),
            taken: Duration::ZERO,
        })
    }

    fn closing(success: bool, stdout: &str) -> (usize, usize, usize) {
        let mut tally = Tally::default();
        count(&binary(), report(success, stdout), &mut tally);
        tally.figures()
    }

    const STARTED: &str = r#"{ "type": "suite", "event": "started", "test_count": 1 }"#;
    const ENDED: &str =
        r#"{ "type": "suite", "event": "ok", "passed": 1, "failed": 0, "ignored": 0, "exec_time": 1.0 }"#;

    #[test]
    fn verdicts_are_counted() {
        let passed = r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5 }"#;
        let failed =
            r#"{ "type": "test", "name": "a", "event": "failed", "exec_time": 0.5, "stdout": "why" }"#;
        let ignored = r#"{ "type": "test", "name": "a", "event": "ignored", "message": "later" }"#;
        let skipped = r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5, "stdout": "x\nskipped: a: none here\n" }"#;
        assert_eq!(closing(true, &[STARTED, passed, ENDED].join("\n")), (1, 0, 0));
        assert_eq!(closing(false, &[STARTED, failed, ENDED].join("\n")), (0, 1, 0));
        assert_eq!(closing(true, &[STARTED, ignored, ENDED].join("\n")), (0, 0, 1));
        let half = ignored.replace("later", "run by b, in its own process");
        assert_eq!(closing(true, &[STARTED, passed, &half, ENDED].join("\n")), (1, 0, 0));
        assert_eq!(closing(true, &[STARTED, skipped, ENDED].join("\n")), (0, 0, 1));
    }

    #[test]
    fn what_a_test_prints_past_the_harness_hides_no_verdict() {
        let passed = r#"no newline{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5 }"#;
        assert_eq!(closing(true, &[STARTED, passed, "noise", ENDED].join("\n")), (1, 0, 0));
    }

    #[test]
    fn a_binary_that_dies_fails() {
        let started = r#"{ "type": "test", "event": "started", "name": "a" }"#;
        assert_eq!(closing(false, &[STARTED, started].join("\n")), (0, 1, 0));
        assert_eq!(closing(false, &[STARTED, ENDED].join("\n")), (0, 1, 0));
    }

    #[test]
    fn a_harness_of_its_own_is_one_test() {
        assert_eq!(closing(true, "all fine\n"), (1, 0, 0));
        assert_eq!(closing(false, "not fine\n"), (0, 1, 0));
    }

    #[test]
    fn totals_of_examples_are_summed() {
        let said = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(totals(said), (4, 2, 1));
    }

    #[test]
    fn test_binaries_are_picked_from_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"name":"a","kind":["lib"]},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"name":"a","kind":["lib"]},"profile":{"test":true},"executable":"/t/a"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/b/Cargo.toml","target":{"name":"suite","kind":["test"]},"profile":{"test":true},"executable":"/t/b"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"name":"flowcell","kind":["bin"]},"profile":{"test":false},"executable":"/t/flowcell"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        let found = built(messages).unwrap();
        assert_eq!(found.flowcell, Some(PathBuf::from("/t/flowcell")));
        assert_eq!(
            found.tests.iter().map(|binary| binary.name.as_str()).collect::<Vec<_>>(),
            ["b::suite", "a"]
        );
    }
}
