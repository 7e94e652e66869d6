//! The built `flowcell`, and runs of it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::{cargo, repository, target_folder};

/// Where the task runner puts the path of the binary it built.
const BINARY: &str = "FLOWCELL_BIN";

/// The binary: the one the task runner built, else it is built here, once a process.
///
/// # Errors
///
/// It does not build; the message is the compiler's.
pub fn flowcell() -> Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| built().map_err(|error| format!("{error:#}")))
        .as_deref()
        .map_err(|error| anyhow!("{error}"))
}

fn built() -> Result<PathBuf> {
    if let Some(path) = env::var_os(BINARY).map(PathBuf::from) {
        return Ok(path);
    }
    let output =
        cargo(&repository()).args(["build", "--locked", "--quiet", "--package", "flowcell"]).output()?;
    if !output.status.success() {
        bail!("flowcell does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(target_folder()?.join("debug").join(format!("flowcell{}", env::consts::EXE_SUFFIX)))
}

/// One `flowcell exec --json`, with a home of its own: no policy of the machine's user counts.
#[derive(Debug)]
pub struct Exec {
    command: Command,
    _home: TempDir,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status; -1 for a process that a signal ended.
    pub status: i32,
    /// The one document of standard output.
    pub document: Value,
    /// Standard error.
    pub stderr: String,
}

impl Exec {
    /// A run in `workspace`, with the default limits and the built-in policy.
    ///
    /// # Errors
    ///
    /// The binary does not build, or there is no room for a home.
    pub fn new(workspace: &Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let mut command = Command::new(flowcell()?);
        command.arg("exec").arg("--json").arg("-C").arg(workspace);
        command.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path().join("config"));
        command.env_remove("FLOWCELL_CRASH_AT").stdin(Stdio::null());
        Ok(Self { command, _home: home })
    }

    /// Sets a limit (harness contract 3.5).
    #[must_use]
    pub fn limit(mut self, name: &str, value: u64) -> Self {
        self.command.arg("--limit").arg(format!("{name}={value}"));
        self
    }

    /// Adds a policy file.
    #[must_use]
    pub fn policy(mut self, file: &Path) -> Self {
        self.command.arg("--policy").arg(file);
        self
    }

    /// Allows what the pattern names.
    #[must_use]
    pub fn allow(mut self, pattern: impl Into<OsString>) -> Self {
        self.command.arg("--allow").arg(pattern.into());
        self
    }

    /// Allows writing below a folder.
    ///
    /// # Errors
    ///
    /// The folder is not there, or its path is not UTF-8.
    pub fn allow_writing(self, folder: &Path) -> Result<Self> {
        let folder = folder.canonicalize()?;
        let folder = folder.to_str().context("the path is not UTF-8")?;
        Ok(self.allow(format!("fs:write:{folder}/**")))
    }

    /// Runs one cell to its end.
    ///
    /// # Errors
    ///
    /// The process does not start, or standard output is not one JSON document.
    pub fn cell(mut self, cell: &Path) -> Result<Outcome> {
        let output = self.command.arg(cell).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout).with_context(|| {
            format!(
                "{}, and no document: {}\n{stderr}",
                output.status,
                String::from_utf8_lossy(&output.stdout)
            )
        })?;
        Ok(Outcome { status: output.status.code().unwrap_or(-1), document, stderr })
    }
}

/// One `flowcell call --json` under a policy file, with a home of its own.
///
/// # Errors
///
/// The process does not start, the call fails, or standard output is not one JSON document.
pub fn call(workspace: &Path, policy: &Path, flow: &str, input: &Value) -> Result<Value> {
    let home = tempfile::tempdir()?;
    let output = Command::new(flowcell()?)
        .arg("call")
        .arg("-C")
        .arg(workspace)
        .arg("--policy")
        .arg(policy)
        .args(["--json", flow, &input.to_string()])
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .stdin(Stdio::null())
        .output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{flow} {input}: {}: {stdout}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_str(&stdout).with_context(|| format!("{flow} {input}: no document: {stdout}"))
}

impl Outcome {
    /// The output of a run that completed.
    ///
    /// # Errors
    ///
    /// The run did not complete; the message is the whole outcome but the calls.
    pub fn output(&self) -> Result<&Value> {
        if self.status == 0 && self.document["status"] == "completed" {
            return Ok(&self.document["output"]);
        }
        let mut shown = self.document.clone();
        for frame in shown["frames"].as_array_mut().into_iter().flatten() {
            frame["calls"] = Value::Null;
            frame["program"] = Value::Null;
        }
        bail!("exit {}: {shown:#}\n{}", self.status, self.stderr)
    }
}
