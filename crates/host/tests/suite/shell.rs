//! Calls of the process flows in a temporary workspace, and the programs that the tests need.
#![allow(clippy::disallowed_methods, clippy::print_stdout)] // tests read the environment and say what they skip

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_host::kernel::flows::decl::FlowDecl;
use flowcell_host::kernel::flows::decode::decode;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::flows::{bash, shell_command};
use flowcell_host::kernel::{CallContext, Handler, SystemEntropy};
use flowcell_host::{BashHandler, ProcessOptions, ShellCommandHandler, Supervisor};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::{Fixture, Result};

pub(crate) struct Shell {
    pub(crate) place: Fixture,
    pub(crate) env: BTreeMap<String, String>,
}

impl Shell {
    /// A workspace in which every command may run. Its home is empty, so that no profile of the machine's user plays a part.
    pub(crate) fn new() -> Self {
        Self::with_rules(&[(Effect::Allow, "proc:spawn:*")])
    }

    pub(crate) fn with_rules(rules: &[(Effect, &str)]) -> Self {
        let place = Fixture::with_rules(rules);
        place.dir(".home");
        let home = place.path(".home").to_str().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        let env = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), home),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ]);
        Self { place, env }
    }

    /// Puts a program where the commands look first.
    pub(crate) fn program(&mut self, name: &str, text: &str) {
        self.place.put(&format!(".bin/{name}"), text);
        self.place.chmod(&format!(".bin/{name}"), 0o755);
        let bin = self.place.path(".bin").to_str().unwrap().to_owned();
        let path = self.env.get("PATH").cloned().unwrap_or_default();
        if !path.starts_with(&bin) {
            self.env.insert("PATH".to_owned(), format!("{bin}:{path}"));
        }
    }

    pub(crate) async fn context(&self, decl: &FlowDecl) -> CallContext {
        let mut cx = self.place.context(self.place.store().await, decl).with_environment(self.env.clone());
        // What names things outside the workspace has to differ between tests.
        cx.entropy = Arc::new(SystemEntropy::new().unwrap());
        cx
    }

    pub(crate) async fn call<H>(&self, handler: H, decl: FlowDecl, input: Value) -> Result<H::Output>
    where
        H: Handler,
        H::Input: DeserializeOwned,
    {
        let cx = self.context(&decl).await;
        handler.run(&cx, decode(&decl.input, &input).unwrap()).await
    }

    pub(crate) async fn bash(&self, input: Value) -> Result<bash::Output> {
        self.call(BashHandler::new(None).with_processes(processes()), bash::decl(), input).await
    }

    pub(crate) async fn shell_command(&self, input: Value) -> Result<shell_command::Output> {
        self.call(ShellCommandHandler::new(processes()), shell_command::decl(), input).await
    }

    pub(crate) fn root(&self) -> String {
        self.place.root().to_str().unwrap().to_owned()
    }
}

/// What a host that has a supervisor sets up.
pub(crate) fn processes() -> ProcessOptions {
    static SUPERVISOR: std::sync::LazyLock<Supervisor> =
        std::sync::LazyLock::new(|| Supervisor::new(env!("CARGO_BIN_EXE_flowcell-supervisor")));
    ProcessOptions { supervisor: Some(SUPERVISOR.clone()), ..ProcessOptions::default() }
}

/// Where a program is, if the machine has it.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap();
    path.split(':').map(|dir| Path::new(dir).join(name)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// A program that a test cannot do without: absent, the test is skipped by name, and fails where nothing may be skipped.
pub(crate) fn need(test: &str, name: &str) -> Option<PathBuf> {
    let found = which(name);
    if found.is_none() {
        skip(test, &format!("no {name} on this machine"));
    }
    found
}

pub(crate) fn skip(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped where nothing may be: {test}: {why}");
}

/// The interpreter itself, not a wrapper of a version manager that needs a home.
pub(crate) fn python(test: &str) -> Option<String> {
    let found = need(test, "python3")?;
    let said = std::process::Command::new(found).args(["-c", "import sys; print(sys.executable)"]).output();
    Some(String::from_utf8(said.unwrap().stdout).unwrap().trim().to_owned())
}

/// Processes whose command line holds `mark`, this one aside.
pub(crate) fn running(mark: &str) -> Vec<u32> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        *id != own && String::from_utf8_lossy(&line).replace('\0', " ").contains(mark)
    };
    ids.filter(marked).collect()
}

/// Waits until nothing runs that holds `mark`, a moment at most.
pub(crate) fn gone(mark: &str) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        if running(mark).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
