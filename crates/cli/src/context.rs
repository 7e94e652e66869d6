//! What a command stands on: the workspace, the data folder, policy, the store, and the host's services.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::checkpoint::HostCheckpoints;
use flowcell_engines::harness::engine::RunStore;
use flowcell_engines::harness::flows::canonical;
use flowcell_engines::harness::flows::error::StdError;
use flowcell_engines::harness::host::checkpoints::{self, CheckpointOptions};
use flowcell_engines::harness::host::confine::{HermeticEnforcement, Supervisor};
use flowcell_engines::harness::host::container::{CommandTransport, Container};
use flowcell_engines::harness::host::process::ProcessOptions;
use flowcell_engines::harness::host::runner::{Runner, TestRunner};
use flowcell_engines::harness::journal::RunId;
use flowcell_engines::harness::kernel::fs::{is_inside, lexical};
use flowcell_engines::harness::kernel::{
    Authority, Clock, Entropy, FileSystem, FsOptions, GrantStore, MemoryPersist, Persist, SystemClock,
    SystemEntropy, Workspace,
};
use flowcell_engines::harness::services::Services;
use flowcell_engines::harness::standard::StandardOptions;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::args::Common;
use crate::engine::{EngineUrl, Location};
use crate::environment::{Environment, read_bounded, read_text};
use crate::errors::Failure;
use crate::pins::{GrantPins, PinnedPersist};
use crate::policy::{
    FileText, MAX_POLICY_BYTES, Policy, PolicyError, Sources, Standing, StoreOptions, TestTable, Variables,
    open_store,
};
use crate::render::{Messages, shell_word};
use crate::trust::{Pin, TrustStore};

/// The name of a workspace's policy file.
pub const WORKSPACE_POLICY: &str = ".flowcell.toml";

/// What a command stands on. Making it touches nothing.
pub struct Context<'a> {
    /// The process's environment.
    pub environment: &'a Environment,
    /// The common flags.
    pub common: &'a Common,
    /// Where messages go.
    pub messages: Messages,
    /// The workspace.
    pub workspace: Workspace,
    /// The data folder: absolute, collapsed as text.
    pub data: String,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the command is interrupted.
    pub cancel: CancellationToken,
}

/// The test runner that policy declares.
struct Declared(TestTable);

impl TestRunner for Declared {
    fn declared(&self) -> Result<Runner, StdError> {
        let TestTable { command, cwd, root, container, env, base_ref, timeout_ms, report } = self.0.clone();
        Ok(Runner { command, cwd, root, container, env, base_ref, timeout_ms, report })
    }
}

/// A host's part of a run.
pub struct Hosted {
    /// What answers calls.
    pub calls: CellCalls,
    /// The guarded services.
    pub services: Services,
}

impl<'a> Context<'a> {
    /// Resolves the workspace and names the data folder.
    ///
    /// # Errors
    /// A workspace that is no directory (exit 2).
    pub fn open(
        environment: &'a Environment,
        common: &'a Common,
        messages: Messages,
    ) -> Result<Self, Failure> {
        let given = common.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
        let wrong = |why: String| {
            Failure::usage(
                "invalid_workspace",
                format!("the workspace {} cannot be used: {why}", given.display()),
            )
            .at(given.display().to_string())
            .hint("Name a directory with -C DIR.")
        };
        let root = absolute(environment, &given).map_err(wrong)?;
        let workspace = Workspace::open(&root).map_err(|error| wrong(error.to_string()))?;
        let data = match &common.data_dir {
            None => lexical(workspace.logical(), ".flowcell"),
            Some(given) => absolute(environment, given).map_err(|why| {
                Failure::usage(
                    "invalid_data_dir",
                    format!("the data folder {} cannot be used: {why}", given.display()),
                )
                .at(given.display().to_string())
            })?,
        };
        let entropy = SystemEntropy::new()
            .map_err(|error| Failure::engine(format!("the host gives no randomness: {error}")))?;
        Ok(Self {
            environment,
            common,
            messages,
            workspace,
            data,
            entropy: Arc::new(entropy),
            clock: Arc::new(SystemClock::new()),
            cancel: CancellationToken::new(),
        })
    }

    /// The workspace's own policy file.
    pub fn workspace_policy(&self) -> PathBuf {
        self.workspace.canonical().join(WORKSPACE_POLICY)
    }

    /// The pins of this user.
    ///
    /// # Errors
    /// When the process has no home (exit 2).
    pub fn trust(&self) -> Result<TrustStore, Failure> {
        let config = self.environment.config().ok_or_else(|| {
            Failure::usage("no_home", "trust is kept in the user's configuration folder, and there is none")
                .hint("Set HOME or XDG_CONFIG_HOME to an absolute path.")
        })?;
        Ok(TrustStore::new(&config))
    }

    /// What the variables of patterns stand for.
    pub fn variables(&self) -> Variables {
        let home = self.environment.home.as_ref().and_then(|home| home.to_str());
        Variables {
            workspace: self.workspace.logical().to_owned(),
            data: self.data.clone(),
            home: home.map(|home| lexical("/", home)),
        }
    }

    /// Whether somebody can be asked: policy does not forbid it, and both ends of the conversation are a terminal.
    pub fn attended(&self, policy: &Policy) -> bool {
        policy.attended != Some(false) && self.environment.terminal && self.environment.input_terminal
    }

    /// Whether runs keep checkpoints of the workspace: unless policy switches them off, and where there is a data folder
    /// that outlives the process.
    pub fn keeps_checkpoints(&self, policy: &Policy) -> bool {
        policy.host.checkpoints.unwrap_or(true) && matches!(self.engine(), Ok(EngineUrl::Sqlite(_)))
    }

    /// A store's grant journal, of which only what this user gave stands.
    ///
    /// # Errors
    /// As [`Context::engine`].
    pub fn pinned(&self, journal: Arc<dyn Persist>) -> Result<PinnedPersist, Failure> {
        let pins = match (self.engine()?, self.environment.config()) {
            (EngineUrl::Sqlite(file), Some(config)) => Some(GrantPins::new(&config, &file)),
            // What a process keeps in its own memory was given in it.
            (EngineUrl::Memory, _) => return Ok(PinnedPersist::trusting(journal, Arc::clone(&self.clock))),
            (EngineUrl::Sqlite(_), None) => None,
        };
        Ok(PinnedPersist::new(journal, pins, Arc::clone(&self.clock)))
    }

    /// Reads and puts together the policy of this call, without saying its warnings.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong, or a flag that is (exit 2).
    pub fn policy(&self) -> Result<Policy, Failure> {
        let config = self.environment.config();
        let variables = self.variables();
        let mut sources = Sources {
            flags: self.common.rules.0.clone(),
            data: self.spellings(&self.data),
            config: config
                .as_deref()
                .and_then(Path::to_str)
                .map(|path| self.spellings(path))
                .unwrap_or_default(),
            ..Sources::default()
        };
        if let EngineUrl::Sqlite(path) = self.engine()?
            && let Some(file) = path.to_str()
        {
            for end in ["", "-wal", "-shm", "-journal"] {
                sources.data.extend(self.spellings(&format!("{file}{end}")));
            }
        }
        if let Some(config) = &config {
            sources.user = optional_policy(&config.join("policy.toml"))?;
        }
        let own = self.workspace_policy();
        let mut names_own = false;
        for given in &self.common.policy {
            let path = self.path(given)?;
            let file = |error| Failure::unreadable("the policy file", given, error);
            let text = read_text(&path, MAX_POLICY_BYTES).map_err(file)?;
            names_own |= matches!((fs::canonicalize(&path), fs::canonicalize(&own)), (Ok(given), Ok(own)) if given == own);
            sources.named.push(FileText { name: given.display().to_string(), text });
        }
        if names_own {
            sources.standing = Standing::Named;
        } else if let Some(file) = optional_policy(&own)? {
            sources.standing = self.standing(&own, &file)?;
            let name = if self.common.workspace.is_none() { WORKSPACE_POLICY.to_owned() } else { file.name };
            sources.workspace = Some(FileText { name, text: file.text });
        }
        Policy::assemble(&sources, &variables).map_err(policy_failure)
    }

    fn standing(&self, path: &Path, file: &FileText) -> Result<Standing, Failure> {
        let Some(config) = self.environment.config() else { return Ok(Standing::Untrusted) };
        let pin = TrustStore::new(&config)
            .pin_of(path, file.text.as_bytes())
            .map_err(|error| Failure::engine(format!("the pins of trusted files cannot be read: {error}")))?;
        Ok(match pin {
            Pin::None => Standing::Untrusted,
            Pin::Other => Standing::Changed,
            Pin::Same => Standing::Trusted,
        })
    }

    /// The texts by which the kernel may name a folder: as it is written, with its links resolved, and, inside the
    /// workspace, under the logical root.
    fn spellings(&self, folder: &str) -> Vec<String> {
        let logical = lexical("/", folder);
        let mut spellings = BTreeSet::from([logical.clone()]);
        if let Some(resolved) = resolved(Path::new(&logical)).to_str() {
            let root = self.workspace.canonical().to_str().unwrap_or_default();
            if is_inside(root, resolved) {
                let below = resolved.get(root.trim_end_matches('/').len()..).unwrap_or_default();
                spellings.insert(lexical("/", &format!("{}/{below}", self.workspace.logical())));
            }
            spellings.insert(resolved.to_owned());
        }
        spellings.into_iter().collect()
    }

    /// The engine that the flags name.
    ///
    /// # Errors
    /// A URL that names none (exit 2).
    pub fn engine(&self) -> Result<EngineUrl, Failure> {
        let Some(url) = &self.common.engine else {
            return Ok(EngineUrl::Sqlite(Path::new(&self.data).join("flowcell.db")));
        };
        match url.parse()? {
            EngineUrl::Sqlite(path) => Ok(EngineUrl::Sqlite(self.path(&path)?)),
            other => Ok(other),
        }
    }

    /// The store of runs, made when it is missing, the data folder with it.
    ///
    /// # Errors
    /// What cannot be made or opened (exit 1), and a store of a newer version (exit 4).
    pub async fn store(&self) -> Result<Arc<dyn RunStore>, Failure> {
        let engine = self.engine()?;
        if let EngineUrl::Sqlite(path) = &engine
            && path.starts_with(&self.data)
        {
            self.refuse_links(path)?;
            make_data(Path::new(&self.data), self.common.data_dir.is_none())?;
        }
        engine.open(self.location()).await
    }

    /// The store of runs when there is one; nothing is made.
    ///
    /// # Errors
    /// As [`Context::store`].
    pub async fn existing_store(&self) -> Result<Option<Arc<dyn RunStore>>, Failure> {
        let engine = self.engine()?;
        match &engine {
            EngineUrl::Sqlite(path) => match fs::symlink_metadata(path) {
                Ok(_) => {
                    self.refuse_links(path)?;
                    Ok(Some(engine.open(self.location()).await?))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Failure::engine(format!("{} cannot be opened: {error}", path.display()))
                    .at(path.display().to_string())),
            },
            EngineUrl::Memory => Ok(None),
        }
    }

    /// Refuses a data folder in the workspace, and a store in it, that is a link. A workspace can come with one, and it
    /// would lend this workspace the grants of another. A folder that is named by a flag may lie behind links.
    fn refuse_links(&self, store: &Path) -> Result<(), Failure> {
        if self.common.data_dir.is_some() || !store.starts_with(&self.data) {
            return Ok(());
        }
        for path in [Path::new(&self.data), store] {
            if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
                let path = path.display().to_string();
                return Err(Failure::engine(format!("{path} cannot be used: it is a link"))
                    .at(path)
                    .hint("Remove the link, or name the folder it leads to with --data-dir DIR."));
            }
        }
        Ok(())
    }

    /// The grant journal of the store when there is one, else an empty one.
    ///
    /// # Errors
    /// As [`Context::store`].
    pub async fn grants(&self) -> Result<Arc<dyn Persist>, Failure> {
        Ok(match self.existing_store().await? {
            Some(store) => store.grants(),
            None => Arc::new(MemoryPersist::default()),
        })
    }

    /// The store of a run that has to be there.
    ///
    /// # Errors
    /// `not_found` when there is no store at all (exit 2); as [`Context::store`].
    pub async fn store_of(&self, run: &RunId) -> Result<Arc<dyn RunStore>, Failure> {
        self.existing_store().await?.ok_or_else(|| {
            let message = match self.common.engine.as_deref() {
                Some("memory:") => format!("no run is called {run}: the memory engine keeps nothing"),
                _ => format!("no run is called {run}: there are no runs yet"),
            };
            Failure::usage("not_found", message)
                .hint("Name the workspace with -C DIR, or its data with --data-dir DIR.")
        })
    }

    fn location(&self) -> Location<'_> {
        Location { clock: Arc::clone(&self.clock), crash_at: self.environment.crash_at.as_deref() }
    }

    /// Says a policy's warnings, and what of it has no effect.
    pub fn warn(&self, policy: &Policy) {
        for warning in &policy.warnings {
            self.messages.warn(warning);
        }
        for warning in policy.idle_warnings() {
            self.messages.warn(&warning);
        }
    }

    /// The grant store of a policy; its warnings are said. An attended one holds a request until it is answered in this
    /// process. A run is never attended in that way: it suspends, durably, and whoever drives it asks.
    ///
    /// # Errors
    /// As [`open_store`].
    pub async fn grant_store(
        &self,
        policy: &Policy,
        persist: Arc<dyn Persist>,
        run: Option<&RunId>,
        calls: Option<&CellCalls>,
        attended: bool,
    ) -> Result<Arc<GrantStore>, Failure> {
        let options = StoreOptions {
            run: run.map(ToString::to_string),
            plan_digest: calls.map(plan_digest).transpose()?,
            root: PathBuf::from(self.workspace.logical()),
            persist: Arc::new(self.pinned(persist)?),
            attended,
        };
        let (store, warnings) = open_store(policy, options).await?;
        for warning in warnings {
            self.messages.warn(&warning);
        }
        Ok(store)
    }

    /// The guarded services under a grant store.
    ///
    /// # Errors
    /// When the workspace cannot be opened (exit 1).
    pub fn services(&self, policy: &Policy, store: Arc<GrantStore>) -> Result<Services, Failure> {
        let authority = Authority::root(store);
        let defaults = FsOptions::default();
        let options = FsOptions {
            refuse_hard_linked_reads: policy
                .host
                .refuse_hard_linked_reads
                .unwrap_or(defaults.refuse_hard_linked_reads),
            allow_pseudo_fs: policy.host.allow_pseudo_fs.unwrap_or(defaults.allow_pseudo_fs),
            ..defaults
        };
        let files = FileSystem::new(authority, self.workspace.clone(), options, Arc::clone(&self.entropy))
            .map_err(|error| Failure::engine(format!("the workspace cannot be opened: {error}")))?;
        let mut services = Services::new(files, Arc::clone(&self.clock), Arc::clone(&self.entropy));
        services.cancel = self.cancel.clone();
        services.environment = Arc::new(self.environment.ambient.clone());
        Ok(services)
    }

    /// A host's part of a run.
    ///
    /// # Errors
    /// As [`Context::grant_store`] and [`Context::services`].
    pub async fn hosted(
        &self,
        policy: &Policy,
        persist: Arc<dyn Persist>,
        run: Option<&RunId>,
        calls: CellCalls,
    ) -> Result<Hosted, Failure> {
        let store = self.grant_store(policy, persist, run, Some(&calls), false).await?;
        let mut services = self.services(policy, store)?;
        if self.keeps_checkpoints(policy) {
            services.checkpoints = Some(Arc::new(self.checkpoints(&services.files)));
        }
        Ok(Hosted { services, calls })
    }

    /// The checkpoints of the data folder, which is made on first need. A folder that cannot be used costs a cell its
    /// checkpoints, and nothing else.
    fn checkpoints(&self, files: &FileSystem) -> HostCheckpoints {
        let (data, own) = (PathBuf::from(&self.data), self.common.data_dir.is_none());
        let files = files.clone();
        HostCheckpoints::new(move || {
            make_data(&data, own).map_err(|failure| failure.message.clone())?;
            let options = CheckpointOptions { left_out: vec![data.clone()], ..CheckpointOptions::default() };
            checkpoints::Checkpoints::open(data.join("checkpoints"), files.clone(), options)
                .map_err(|error| error.to_string())
        })
    }

    /// What policy and this process set up for the standard flows.
    pub fn standard(&self, policy: &Policy) -> StandardOptions {
        let hermetic = match policy.host.hermetic_required {
            Some(true) => HermeticEnforcement::Required,
            _ => HermeticEnforcement::BestEffort,
        };
        let supervisor = self.environment.program.clone().map(Supervisor::new);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        StandardOptions {
            processes: ProcessOptions { supervisor, hermetic, ..ProcessOptions::default() },
            runner: policy.test.clone().map(|table| Arc::new(Declared(table)) as Arc<dyn TestRunner>),
            container: policy
                .container
                .as_ref()
                .map(|program| Arc::new(CommandTransport::new(program)) as Arc<dyn Container>),
            evaluator: None,
            search_threads: threads,
        }
    }

    /// A path of the command line, absolute. Links are left alone.
    ///
    /// # Errors
    /// When the working folder is gone (exit 2).
    pub fn path(&self, given: &Path) -> Result<PathBuf, Failure> {
        if given.is_absolute() {
            return Ok(given.to_owned());
        }
        match &self.environment.folder {
            Some(folder) => Ok(folder.join(given)),
            None => Err(Failure::usage(
                "no_folder",
                "the working folder is gone, so a relative path names nothing",
            )
            .at(given.display().to_string())),
        }
    }

    /// The flags that lead another command to the same runs.
    pub fn place_flags(&self) -> String {
        let mut flags = String::new();
        let named = [
            ("-C", self.common.workspace.as_ref().map(|path| path.display().to_string())),
            ("--data-dir", self.common.data_dir.as_ref().map(|path| path.display().to_string())),
            ("--engine", self.common.engine.clone()),
        ];
        for (flag, value) in named {
            if let Some(value) = value {
                flags.push_str(&format!(" {flag} {}", shell_word(&value)));
            }
        }
        flags
    }

    /// The flags that a run needs again when it is taken up: its place, its rules and its mocks.
    pub fn resume_flags(&self, mocks: &[PathBuf]) -> String {
        let mut flags = self.place_flags();
        for path in &self.common.policy {
            flags.push_str(&format!(" --policy {}", shell_word(&path.display().to_string())));
        }
        for rule in &self.common.rules.0 {
            flags.push_str(&format!(" {} {}", rule.flag(), shell_word(&rule.pattern)));
        }
        for path in mocks {
            flags.push_str(&format!(" --mock {}", shell_word(&path.display().to_string())));
        }
        flags
    }
}

/// What run grants are bound to: the digest of the catalog's digests (harness contract 5).
fn plan_digest(calls: &CellCalls) -> Result<String, Failure> {
    let digests = calls.catalog().entries().into_iter().map(|entry| Value::String(entry.digest)).collect();
    canonical::digest(&Value::Array(digests))
        .map_err(|error| Failure::engine(format!("the catalog has no digest: {error}")))
}

fn policy_failure(error: PolicyError) -> Failure {
    let failure = Failure::usage("invalid_policy", error.to_string());
    match error {
        PolicyError::File(file) => {
            failure.at(file.file).hint("Correct the file; `flowcell doctor` checks it again.")
        }
        PolicyError::Flag { .. } => failure.hint("Rules look like `fs:read:${workspace}/**`."),
        PolicyError::Workspace(_) => {
            failure.hint("Rename the folder, or name it through a link without them.")
        }
    }
}

/// A policy file that need not be there.
fn optional_policy(path: &Path) -> Result<Option<FileText>, Failure> {
    let text = match read_bounded(path, MAX_POLICY_BYTES) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => Err(error.to_string()),
    };
    let text = text.map_err(|why| Failure::unreadable("the policy file", path, why))?;
    Ok(Some(FileText { name: path.display().to_string(), text }))
}

/// A path made absolute and collapsed as text.
fn absolute(environment: &Environment, given: &Path) -> Result<String, String> {
    let text = given.to_str().ok_or("its path is not UTF-8")?;
    if text.contains('\0') {
        return Err("its path has a NUL".into());
    }
    if given.is_absolute() {
        return Ok(lexical("/", text));
    }
    let folder = environment.folder.as_deref().and_then(Path::to_str).ok_or("the working folder is gone")?;
    Ok(lexical(folder, text))
}

/// A path with the links of what exists of it resolved.
fn resolved(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            return match path.strip_prefix(ancestor) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_owned()
}

/// Makes the data folder: mode 0700, with a `.gitignore` of `*`. One of our own naming (`own`) is no link.
fn make_data(folder: &Path, own: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::engine(format!("the data folder {} cannot be made: {error}", folder.display()))
            .at(folder.display().to_string())
            .hint("Make it writable, or name another one with --data-dir DIR.")
    };
    match fs::symlink_metadata(folder) {
        Ok(found) if own && found.is_symlink() => {
            return Err(failed(io::Error::other("it is a link")));
        }
        Ok(_) if !own => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    let ignore = fs::OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore"));
    match ignore {
        Ok(mut file) => file.write_all(b"*\n").map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
