//! Trees on disk and calls on them.

use flowcell_kernel::flows::capability::CapabilityPattern;
use flowcell_kernel::flows::error::{Code, StdError};
use flowcell_kernel::flows::rules::{Effect, Rule};
use flowcell_kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, HandlerError,
    MemoryPersist, SeededEntropy, SystemClock, Workspace,
};
use flowcell_search::{Engine, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery, Search};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A workspace and the context of calls in it.
pub(crate) struct Place {
    dir: TempDir,
    pub(crate) cx: CallContext,
}

pub(crate) fn rule(effect: Effect, pattern: &str) -> Rule {
    Rule { effect, pattern: CapabilityPattern::parse(pattern).unwrap() }
}

impl Place {
    /// An empty workspace in which everything may be read.
    pub(crate) fn new() -> Self {
        Self::with_rules(|_| vec![rule(Effect::Allow, "fs:read:**")])
    }

    /// An empty workspace under the rules that `rules` makes of its path.
    pub(crate) fn with_rules(rules: impl FnOnce(&str) -> Vec<Rule>) -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().to_str().unwrap().to_owned();
        let mut options = GrantStoreOptions::new(dir.path(), Arc::new(MemoryPersist::new())).unattended();
        options.configured = rules(&root);
        let store = block_on(GrantStore::open(options)).unwrap();
        let authority = Authority::root(store);
        let entropy = Arc::new(SeededEntropy::new(7));
        let workspace = Workspace::open(dir.path()).unwrap();
        let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone()).unwrap();
        let cx = CallContext::new(files, Arc::new(SystemClock::new()), entropy);
        Self { dir, cx }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn try_glob(&self, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        block_on(Engine::new().glob(&self.cx, query))
    }

    pub(crate) fn try_grep(&self, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        block_on(Engine::new().grep(&self.cx, query))
    }

    /// On an engine of so many threads.
    pub(crate) fn glob_on(&self, threads: usize, query: GlobQuery) -> GlobAnswer {
        block_on(Engine::with_threads(threads).glob(&self.cx, query)).unwrap()
    }

    /// On an engine of so many threads.
    pub(crate) fn grep_on(&self, threads: usize, query: GrepQuery) -> GrepAnswer {
        block_on(Engine::with_threads(threads).grep(&self.cx, query)).unwrap()
    }

    pub(crate) fn glob(&self, query: GlobQuery) -> GlobAnswer {
        self.try_glob(query).unwrap()
    }

    pub(crate) fn grep(&self, query: GrepQuery) -> GrepAnswer {
        self.try_grep(query).unwrap()
    }

    /// The paths that a plain glob finds.
    pub(crate) fn paths(&self, pattern: &str) -> Vec<String> {
        self.glob(names(pattern)).paths
    }

    /// `file:line` of each match, context lines in brackets.
    pub(crate) fn found(&self, query: GrepQuery) -> Vec<String> {
        self.grep(query).matches.iter().map(|found| format!("{}:{}", found.file, found.line)).collect()
    }
}

/// The tree T of search contract 11.
pub(crate) fn tree_t() -> Place {
    let place = Place::new();
    place
        .write(".gitignore", "*.log\nbuild/\n!keep.log\n")
        .write("a.ts", "intro\nNeedle one\nafter\nneedle two\nend")
        .write("a-b/x.ts", "needle")
        .write("a.log", "")
        .write("keep.log", "needle")
        .write("build/out.ts", "needle")
        .write("sub/.gitignore", "!a.log\n/b.ts\n")
        .write("sub/a.log", "needle")
        .write("sub/b.ts", "needle")
        .write("sub/deep/b.ts", "needle")
        .write(".env", "needle")
        .write("node_modules/p/i.ts", "needle")
        .write("bin.dat", "needle\0")
        .write("worktrees", "needle")
        .write("é.ts", "")
        .write(
            "mod.py",
            "class W:\n    def widen(self, v):\n        needle = v\n        return needle\n\ndef other():\n    pass\n",
        );
    place
}

pub(crate) fn names(pattern: &str) -> GlobQuery {
    GlobQuery { pattern: pattern.to_owned(), ..GlobQuery::default() }
}

pub(crate) fn lines(pattern: &str) -> GrepQuery {
    GrepQuery { pattern: pattern.to_owned(), ..GrepQuery::default() }
}

pub(crate) fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|glob| (*glob).to_owned()).collect()
}

pub(crate) fn failure(error: HandlerError) -> StdError {
    match error {
        HandlerError::Flow(error) => error,
        other => panic!("not a failure of the flow: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_code<T: std::fmt::Debug>(result: Result<T, HandlerError>, code: Code) -> StdError {
    let error = failure(result.unwrap_err());
    assert_eq!(error.code, code, "{error:?}");
    error
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// How much a test does: `full` when `FLOWCELL_VOLUME=full` is set.
pub(crate) fn volume<T>(short: T, full: T) -> T {
    if std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full") { full } else { short }
}

/// Runs a test a second time in a process that mode bits keep out, when they do not keep this one out. Whether it did: the
/// caller has nothing left to do then.
pub(crate) fn ran_without_override(test: &str) -> bool {
    const MARK: &str = "FLOWCELL_WITHOUT_OVERRIDE";
    let probe = TempDir::new().unwrap();
    let file = probe.path().join("f");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_err() || std::env::var_os(MARK).is_some() {
        return false;
    }
    let run = std::process::Command::new("setpriv")
        .args(["--bounding-set=-dac_override,-dac_read_search", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "1")
        .output();
    match run {
        Ok(run) => {
            let (out, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            println!(
                "{}",
                out.lines().filter(|line| !line.starts_with("test ")).collect::<Vec<_>>().join("\n")
            );
            assert!(run.status.success() && out.contains("1 passed"), "{errors}");
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{test}: setpriv: {error}");
            println!("skipped: {test}: setpriv: {error}");
        }
    }
    true
}
