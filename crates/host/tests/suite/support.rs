//! A workspace in a temporary folder, and calls on it as a host makes them: decoded by the flow's document, under an
//! authority narrowed to what the flow declares.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flowcell_host::kernel::flows::capability::CapabilityPattern;
use flowcell_host::kernel::flows::decl::FlowDecl;
use flowcell_host::kernel::flows::decode::decode;
use flowcell_host::kernel::flows::error::{Code, StdError};
use flowcell_host::kernel::flows::rules::{Effect, Rule};
use flowcell_host::kernel::flows::{apply_patch, edit, ls, read, write};
use flowcell_host::kernel::{
    Authority, CallContext, Entropy, FileSystem, FsOptions, GrantStore, GrantStoreOptions, Handler,
    HandlerError, MemoryPersist, SeededEntropy, SystemClock, Workspace,
};
use flowcell_host::{ApplyPatchHandler, EditHandler, LsHandler, ReadHandler, WriteHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) type Result<T> = std::result::Result<T, HandlerError>;

/// Random bytes, with something that happens when they are first asked for: when `replace` names its temporary file.
pub(crate) struct Hooked {
    bytes: SeededEntropy,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Entropy for Hooked {
    fn fill(&self, bytes: &mut [u8]) {
        if let Some(hook) = self.hook.lock().unwrap().take() {
            hook();
        }
        self.bytes.fill(bytes);
    }
}

pub(crate) struct Fixture {
    dir: TempDir,
    rules: Vec<Rule>,
    pub(crate) options: FsOptions,
    entropy: Arc<Hooked>,
}

impl Fixture {
    /// Everything is allowed.
    pub(crate) fn new() -> Self {
        Self::with_rules(&[(Effect::Allow, "fs:read:/**"), (Effect::Allow, "fs:write:/**")])
    }

    /// Rules as text; `{root}` stands for the workspace.
    pub(crate) fn with_rules(rules: &[(Effect, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let rule = |(effect, pattern): &(Effect, &str)| {
            let pattern = pattern.replace("{root}", root.to_str().unwrap());
            Rule::new(*effect, CapabilityPattern::parse(&pattern).unwrap())
        };
        let rules = rules.iter().map(rule).collect();
        let entropy = Arc::new(Hooked { bytes: SeededEntropy::new(7), hook: Mutex::new(None) });
        Self { dir, rules, options: FsOptions::default(), entropy }
    }

    pub(crate) fn root(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Puts a file, its parents too.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn dir(&self, path: &str) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub(crate) fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    /// The names of a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Does something once, while a replacement is under way: after the file was read, before the rename.
    pub(crate) fn during_replace(&self, hook: impl FnOnce() + Send + 'static) {
        *self.entropy.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) async fn store(&self) -> Arc<GrantStore> {
        let mut options = GrantStoreOptions::new(self.root(), Arc::new(MemoryPersist::new())).unattended();
        options.configured = self.rules.clone();
        GrantStore::open(options).await.unwrap()
    }

    /// The context of one call of a flow under a store.
    pub(crate) fn context(&self, store: Arc<GrantStore>, decl: &FlowDecl) -> CallContext {
        let authority = Authority::root(store).attenuate_declared(&decl.capabilities).unwrap();
        let workspace = Workspace::open(self.root()).unwrap();
        let entropy: Arc<dyn Entropy> = self.entropy.clone();
        let files = FileSystem::new(authority, workspace, self.options.clone(), entropy.clone()).unwrap();
        CallContext::new(files, Arc::new(SystemClock::new()), entropy)
    }

    /// One call: decode, run.
    pub(crate) async fn call<H>(&self, handler: H, decl: FlowDecl, input: Value) -> Result<H::Output>
    where
        H: Handler,
        H::Input: DeserializeOwned,
    {
        let cx = self.context(self.store().await, &decl);
        handler.run(&cx, decode(&decl.input, &input).unwrap()).await
    }

    pub(crate) async fn read(&self, input: Value) -> Result<read::Output> {
        self.call(ReadHandler, read::decl(), input).await
    }

    pub(crate) async fn write(&self, path: &str, content: &str) -> Result<write::Output> {
        let input = serde_json::json!({"path": path, "content": content});
        self.call(WriteHandler, write::decl(), input).await
    }

    pub(crate) async fn edit(&self, input: Value) -> Result<edit::Output> {
        self.call(EditHandler, edit::decl(), input).await
    }

    pub(crate) async fn patch(&self, patch: &str) -> Result<apply_patch::Output> {
        let input = serde_json::json!({"input": patch});
        let result = self.call(ApplyPatchHandler, apply_patch::decl(), input).await;
        if let Err(HandlerError::Flow(error)) = &result {
            assert!(apply_patch::CODES.contains(&error.code), "{error:?} is not declared");
        }
        result
    }

    pub(crate) async fn ls(&self, input: Value) -> Result<ls::Output> {
        self.call(LsHandler, ls::decl(), input).await
    }
}

/// The flow's own failure.
#[track_caller]
pub(crate) fn failure<T: std::fmt::Debug>(result: Result<T>) -> StdError {
    match result {
        Err(HandlerError::Flow(error)) => error,
        other => panic!("no failure of the flow: {other:?}"),
    }
}

/// The code of a failure, which has to name `path` as the caller gave it.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(path: &str, result: Result<T>) -> Code {
    let error = failure(result);
    assert_eq!(error.path.as_deref(), Some(path), "{error:?}");
    error.code
}

/// A test that needs what the machine lacks: said by name, and a failure where nothing may be lacking.
pub(crate) fn skip(name: &str, why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "skipped: {name}: {why}");
    println!("skipped: {name}: {why}");
}

/// Whether tests run at their full volume.
pub(crate) fn full_volume() -> bool {
    std::env::var("FLOWCELL_VOLUME").as_deref() == Ok("full")
}

/// A file system of its own in memory, unmounted when it goes.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this size, or says why that is not possible.
    pub(crate) fn mount(at: &Path, size: &str) -> std::result::Result<Self, String> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Self(at.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Makes a FIFO.
pub(crate) fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}
