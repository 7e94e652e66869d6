//! `doctor`: what this machine can enforce and reach.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use async_trait::async_trait;
use flowcell_engines::harness::engine::Page;
use flowcell_engines::harness::failure::{CallFailure, CallFailureCode, CallOutcome};
use flowcell_engines::harness::host::confine::{self, Standing, Supervisor};
use flowcell_engines::harness::program::{Source, validate};
use flowcell_engines::harness::realm::{
    Bridge, BridgeRequest, FrameEnd, FrameOptions, Interrupted, Limits, Outcome, Realm,
};
use serde::Serialize;
use serde_json::json;

use super::Session;
use crate::context::Context;
use crate::engine::EngineUrl;
use crate::errors::{Exit, Failure};
use crate::policy::{Policy, Standing as Trust};
use crate::render::{count, line};

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// It works.
    Ok,
    /// It works in part, or not as it should.
    Degraded,
    /// It is not there, or this version does not use it.
    Missing,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Missing => "missing",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    why: String,
}

fn check(name: &'static str, (status, why): (Status, String)) -> Check {
    Check { name, status, why }
}

pub(super) async fn run(session: &mut Session<'_, '_>) -> Result<Exit, Failure> {
    let context = session.context()?;
    let policy = context.policy();
    let mut checks = vec![
        check("workspace", (Status::Ok, workspace(&context))),
        check("data folder", data_folder(&context)),
        check("engine", engine(&context).await),
        check("policy", policy_check(&policy)),
        check("workspace trust", trust(&policy)),
        check("realm", realm().await),
        check("openat2", openat2()),
    ];
    checks.extend(confinement(&context));
    checks.push(check("git", program(&context, "git")));
    let text = checks
        .iter()
        .map(|check| format!("{:<15} {:<8} {}\n", check.name, check.status.as_str(), line(&check.why)))
        .collect::<String>();
    session.print(&json!({ "checks": checks }), &text)?;
    // Nothing that policy rules runs with a policy that does not read.
    Ok(if policy.is_ok() { Exit::Done } else { Exit::Failed })
}

fn workspace(context: &Context<'_>) -> String {
    let (logical, canonical) = (context.workspace.logical(), context.workspace.canonical());
    if Path::new(logical) == canonical {
        logical.to_owned()
    } else {
        format!("{logical}, which is {}", canonical.display())
    }
}

fn data_folder(context: &Context<'_>) -> (Status, String) {
    let folder = Path::new(&context.data);
    let shown = folder.display();
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return (Status::Ok, format!("{shown} is not there yet; it is made on first need"));
        }
        Err(error) => return (Status::Missing, format!("{shown}: {error}")),
    };
    if found.is_symlink() && context.common.data_dir.is_none() {
        return (
            Status::Degraded,
            format!("{shown} is a link, which is not followed; name another with --data-dir"),
        );
    }
    if !folder.is_dir() {
        return (Status::Missing, format!("{shown} is not a directory"));
    }
    let mode = fs::metadata(folder).map_or(0, |found| found.permissions().mode() & 0o777);
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_err() {
        return (Status::Degraded, format!("{shown} (mode {mode:04o}) cannot be written"));
    }
    if mode & 0o077 != 0 {
        return (
            Status::Degraded,
            format!("{shown} is open to other users: its mode is {mode:04o}, not 0700"),
        );
    }
    (Status::Ok, format!("{shown}, mode {mode:04o}"))
}

async fn engine(context: &Context<'_>) -> (Status, String) {
    let path = match context.engine() {
        Ok(EngineUrl::Memory) => return (Status::Ok, "memory: keeps nothing after the process".into()),
        Ok(EngineUrl::Sqlite(path)) => path,
        Err(failure) => return (Status::Missing, failure.message.clone()),
    };
    let shown = path.display();
    match context.existing_store().await {
        Ok(None) => (Status::Ok, format!("SQLite: {shown} is not there yet; it is made on first need")),
        Err(failure) => (Status::Missing, format!("SQLite: {}: {}", failure.code, failure.message)),
        Ok(Some(store)) => match store.list(Page::default()).await {
            Err(error) => (Status::Degraded, format!("SQLite: {error}")),
            Ok(runs) => match journal_mode(&path) {
                Some("wal") => (
                    Status::Ok,
                    format!("SQLite: {shown}, write-ahead log, {}", count(runs.len() as u64, "run")),
                ),
                Some(other) => {
                    (Status::Degraded, format!("SQLite: {shown} has the journal mode {other}, not wal"))
                }
                None => (Status::Degraded, format!("SQLite: {shown} does not say its journal mode")),
            },
        },
    }
}

/// The journal mode that the header of a database file states.
fn journal_mode(path: &Path) -> Option<&'static str> {
    let mut header = [0; 20];
    fs::File::open(path).ok()?.read_exact(&mut header).ok()?;
    match (header[18], header[19]) {
        (2, 2) => Some("wal"),
        (1, 1) => Some("rollback"),
        _ => None,
    }
}

fn policy_check(policy: &Result<Policy, Failure>) -> (Status, String) {
    let policy = match policy {
        Ok(policy) => policy,
        Err(failure) => return (Status::Missing, failure.message.clone()),
    };
    let mut notes = Vec::new();
    if !policy.idle.is_empty() {
        notes.push(format!("this version does nothing with {}", policy.idle.join(", ")));
    }
    if notes.is_empty() {
        return (Status::Ok, count((policy.configured.len() + policy.narrowing.len()) as u64, "rule"));
    }
    (Status::Degraded, notes.join("; "))
}

fn trust(policy: &Result<Policy, Failure>) -> (Status, String) {
    let Ok(policy) = policy else { return (Status::Missing, "policy does not read".into()) };
    match policy.standing {
        Trust::Absent => (Status::Ok, "the workspace has no .flowcell.toml".into()),
        Trust::Trusted => (Status::Ok, ".flowcell.toml is trusted as it is".into()),
        Trust::Named => (Status::Ok, ".flowcell.toml is trusted for this call".into()),
        Trust::Untrusted | Trust::Changed => match policy.warnings.first() {
            Some(warning) => (Status::Degraded, warning.clone()),
            None => (Status::Degraded, ".flowcell.toml is not trusted; its deny and ask rules count".into()),
        },
    }
}

/// Answers nothing: the probe calls no flow.
struct NoCalls;

#[async_trait]
impl Bridge for NoCalls {
    async fn dispatch(&mut self, _ordinal: u64, _request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
        Ok(CallOutcome::Failure(CallFailure::new(CallFailureCode::Unimplemented, "No flow is bound here.")))
    }
}

async fn realm() -> (Status, String) {
    match probe_realm().await {
        Ok(()) => {
            (Status::Ok, "a cell ran on a thread of this process; no worker process in this version".into())
        }
        Err(why) => (Status::Missing, why),
    }
}

async fn probe_realm() -> Result<(), String> {
    let program = validate(&Source::new("ctx.done([6 * 7, typeof Date])")).map_err(|error| error.message)?;
    let limits = Limits::default();
    let mut realm = Realm::open(&limits).await.map_err(|error| error.to_string())?;
    let options = FrameOptions { limits, flows: Vec::new().into(), ..FrameOptions::default() };
    let end = realm.evaluate(0, &program, &options, &mut NoCalls).await;
    realm.close().await;
    match end.map_err(|error| error.to_string())? {
        FrameEnd::Done(frame) => match frame.outcome {
            Outcome::Settled { transition } => match serde_json::to_value(&transition) {
                Ok(value) if value.to_string().contains(r#"[42,"undefined"]"#) => Ok(()),
                _ => Err(format!("a cell answered {transition:?}")),
            },
            other => Err(format!("a cell ended otherwise than it should: {other:?}")),
        },
        FrameEnd::Interrupted { .. } => Err("a cell was interrupted".into()),
    }
}

#[cfg(target_os = "linux")]
fn openat2() -> (Status, String) {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(rustix::fs::CWD, "/", flags, Mode::empty(), resolve) {
        Ok(_) => (Status::Ok, "the kernel resolves paths without links".into()),
        Err(error) => (Status::Degraded, format!("{error}; paths are walked component by component")),
    }
}

#[cfg(not(target_os = "linux"))]
fn openat2() -> (Status, String) {
    (Status::Degraded, "this system has none; paths are walked component by component".into())
}

/// What commands can be confined with, each layer tried for real.
fn confinement(context: &Context<'_>) -> Vec<Check> {
    let probed = match &context.environment.program {
        Some(program) => Supervisor::new(program).probe(),
        None => confine::probe().clone(),
    };
    let layers = probed.layers();
    layers
        .into_iter()
        .map(|(name, standing)| match standing {
            Standing::Works { version: Some(version) } => {
                check(name, (Status::Ok, format!("tried, and it works (version {version})")))
            }
            Standing::Works { version: None } => check(name, (Status::Ok, "tried, and it works".into())),
            Standing::Missing { why } => check(name, (Status::Missing, why.clone())),
        })
        .collect()
}

fn program(context: &Context<'_>, name: &str) -> (Status, String) {
    let path = context.environment.path.clone().unwrap_or_default();
    let found = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok());
    match found {
        Some(file) => (Status::Ok, file.display().to_string()),
        None => (Status::Missing, format!("no folder of PATH has {name}")),
    }
}
