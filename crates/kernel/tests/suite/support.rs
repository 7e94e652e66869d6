//! A workspace, a store and a file system for each test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowcell_kernel::flows::capability::{Capability, CapabilityPattern};
use flowcell_kernel::flows::rules::{Effect, Rule};
use flowcell_kernel::{
    Authority, FileSystem, FsError, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, PermissionError,
    SeededEntropy, Workspace,
};

/// What the host says where the process has no right (EACCES).
pub(crate) const REFUSED: FsError = FsError::AccessDenied { errno: 13 };
/// What the host says of a file system mounted for reading only (EROFS).
pub(crate) const READ_ONLY: FsError = FsError::AccessDenied { errno: 30 };

/// A directory with a workspace `ws` in it, and beside it whatever a test puts there.
pub(crate) struct Bench {
    _dir: tempfile::TempDir,
    pub(crate) outside: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) persist: Arc<MemoryPersist>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().canonicalize().unwrap();
        let root = outside.join("ws");
        std::fs::create_dir(&root).unwrap();
        Bench { _dir: dir, outside, root, persist: Arc::new(MemoryPersist::new()) }
    }

    /// A rule from `allow fs:read:{ws}/**`; `{ws}` and `{out}` stand for the two directories.
    pub(crate) fn rule(&self, text: &str) -> Rule {
        let text = text
            .replace("{ws}", self.root.to_str().unwrap())
            .replace("{out}", self.outside.to_str().unwrap());
        rule(&text)
    }

    pub(crate) async fn store(&self, rules: &[&str]) -> Arc<GrantStore> {
        let mut options = GrantStoreOptions::new(&self.root, self.persist.clone()).unattended();
        options.configured = rules.iter().map(|text| self.rule(text)).collect();
        options.run_id = Some("run-1".to_owned());
        GrantStore::open(options).await.unwrap()
    }

    pub(crate) async fn files(&self, rules: &[&str]) -> FileSystem {
        self.files_with(rules, FsOptions::default()).await
    }

    pub(crate) async fn files_with(&self, rules: &[&str], options: FsOptions) -> FileSystem {
        self.files_at(&self.root, rules, options).await
    }

    pub(crate) async fn files_at(&self, root: &Path, rules: &[&str], options: FsOptions) -> FileSystem {
        let mut store = GrantStoreOptions::new(root, self.persist.clone()).unattended();
        store.configured = rules.iter().map(|text| self.rule(text)).collect();
        let store = GrantStore::open(store).await.unwrap();
        let entropy = Arc::new(SeededEntropy::new(1));
        FileSystem::new(Authority::root(store), Workspace::open(root).unwrap(), options, entropy).unwrap()
    }

    /// The file system once as the host has it, and once with every path walked by components.
    pub(crate) async fn both(&self, rules: &[&str]) -> [FileSystem; 2] {
        [self.files(rules).await, self.files(rules).await.without_openat2()]
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Whether a new entry of this path would be made below the bench's own directory, and not through a link.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        parent.is_some_and(|parent| parent.starts_with(&self.outside)) && path.symlink_metadata().is_err()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.root.join(path).to_str().unwrap().to_owned()
    }
}

pub(crate) const ALL: &[&str] = &["allow fs:*:{ws}", "allow fs:*:{ws}/**"];

pub(crate) fn rule(text: &str) -> Rule {
    let (effect, pattern) = text.split_once(' ').unwrap();
    let effect = match effect {
        "allow" => Effect::Allow,
        "deny" => Effect::Deny,
        "ask" => Effect::Ask,
        other => panic!("{other}"),
    };
    Rule::new(effect, pattern_of(pattern))
}

pub(crate) fn pattern_of(text: &str) -> CapabilityPattern {
    CapabilityPattern::parse(text).unwrap()
}

pub(crate) fn cap(text: &str) -> Capability {
    Capability::parse(text).unwrap()
}

/// The reason of a refusal.
pub(crate) fn reason<T: std::fmt::Debug>(result: Result<T, FsError>) -> String {
    match result {
        Err(FsError::Permission(PermissionError::Denied(denied))) => denied.reason,
        other => panic!("not a refusal: {other:?}"),
    }
}

/// What a requirement asks for.
pub(crate) fn required<T: std::fmt::Debug>(result: Result<T, FsError>) -> String {
    match result {
        Err(FsError::Permission(PermissionError::Required(required))) => required.capability.to_string(),
        other => panic!("not a requirement: {other:?}"),
    }
}

pub(crate) fn leftovers(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.ends_with(".tmp")).collect()
}

/// A test that the machine lacks something for. Where everything has to be there, it fails.
#[allow(clippy::disallowed_methods, reason = "tests read where they run")]
pub(crate) fn skipped(test: &str, why: impl std::fmt::Display) {
    println!("skipped: {test}: {why}");
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{test} is skipped: {why}");
}

const MARK: &str = "--skip=run-again-without-privileges";

/// Whether this process minds mode bits; if it does not, runs the named test again in one that does.
pub(crate) fn minds_mode_bits(test: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let probe = dir.path().join("probe");
    std::fs::write(&probe, "").unwrap();
    let mut bits = std::fs::metadata(&probe).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut bits, 0o444);
    std::fs::set_permissions(&probe, bits).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&probe).is_err() {
        return true;
    }
    assert!(!std::env::args().any(|arg| arg == MARK), "privileges did not go");
    let status = std::process::Command::new("setpriv")
        .arg("--bounding-set=-dac_override,-dac_read_search,-fowner,-chown")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", MARK])
        .status();
    match status {
        Ok(status) => assert!(status.success(), "{test} failed without privileges"),
        Err(error) => skipped(test, format!("setpriv: {error}")),
    }
    false
}
