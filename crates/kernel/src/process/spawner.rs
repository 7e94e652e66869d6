//! The port through which flows start processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use serde_json::Value;

use super::child::{Child, Group};
use super::command::Command;
use super::environment::build_environment;
use super::error::SpawnError;
use super::plan::Plan;
use super::request::{Confine, SpawnRequest, Stdin};
use super::{exec, program};
use crate::authority::Authority;
use crate::flows::rules::Effect;
use crate::fs::{FileSystem, FsError};
use crate::meta::Meta;
use crate::permission::PermissionError;

/// Starts processes as one authority may (kernel contract 6.2). Clones share everything.
///
/// The authority and the workspace are those of the file system; the ambient environment is a map that the host program
/// hands in, because the kernel reads none.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// use flowcell_kernel::flows::capability::CapabilityPattern;
/// use flowcell_kernel::flows::rules::Rule;
/// use flowcell_kernel::process::{Command, Exit, SpawnRequest, Spawner};
/// # use flowcell_kernel::{Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist,
/// #     SystemEntropy, Workspace};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let mut options = GrantStoreOptions::new(dir.path(), Arc::new(MemoryPersist::new()));
/// options.configured = vec![Rule::allow(CapabilityPattern::parse("proc:spawn:echo *").ok_or("pattern")?)];
/// # let authority = Authority::root(GrantStore::open(options).await?);
/// # let (workspace, entropy) = (Workspace::open(dir.path())?, Arc::new(SystemEntropy::new()?));
/// # let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy)?;
/// let spawner = Spawner::new(files, BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]));
/// let argv = ["echo", "a b"].map(str::to_owned).to_vec();
/// let mut child = spawner.spawn(SpawnRequest::new(Command::Argv(argv))).await?;
/// let mut text = [0; 16];
/// let mut stdout = child.take_stdout().ok_or("taken")?;
/// let length = stdout.read(&mut text).await?;
/// assert_eq!(&text[..length], b"a b\n");
/// assert_eq!(child.wait().await?, Exit::Code(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Spawner {
    files: FileSystem,
    ambient: Arc<BTreeMap<String, String>>,
}

/// A request that may be started: what was asked of the authority, and answered yes. [`Spawner::start`] takes it for that
/// request and for no other.
#[derive(Clone, Debug)]
pub struct Authorised {
    command: Command,
    logical: Option<Command>,
    cwd: String,
    names: Vec<String>,
}

impl Spawner {
    /// A spawner under the file system's authority and on its workspace, with this ambient environment.
    pub fn new(files: FileSystem, ambient: BTreeMap<String, String>) -> Self {
        Spawner { files, ambient: Arc::new(ambient) }
    }

    /// The same spawner over another file system: another authority, another workspace.
    #[must_use]
    pub fn with_files(&self, files: FileSystem) -> Self {
        Spawner { files, ambient: Arc::clone(&self.ambient) }
    }

    /// The file system whose authority and workspace are used.
    pub fn files(&self) -> &FileSystem {
        &self.files
    }

    /// The ambient environment, as the host handed it in.
    pub fn ambient(&self) -> &BTreeMap<String, String> {
        &self.ambient
    }

    fn authority(&self) -> &Authority {
        self.files.authority()
    }

    /// The environment that a child with these declared variables gets: see [`build_environment`].
    pub fn environment(
        &self,
        declared: &BTreeMap<String, Option<String>>,
    ) -> Result<BTreeMap<String, String>, SpawnError> {
        build_environment(&self.ambient, declared)
    }

    /// What asking for the command would meet, without asking: never parks, writes nothing.
    pub fn decide(&self, command: &Command) -> Effect {
        self.authority().decide_command(command, None)
    }

    /// Asks for a request, by the policy of kernel contract 6.2, and starts nothing. A person who decides sees the
    /// rendering, the working directory and the names of the declared variables. A declared variable that changes what the
    /// words of the command stand for, such as `PATH`, `BASH_ENV` or `LD_PRELOAD`, counts as an assignment in front of a
    /// line does: no prefix grant carries the command then.
    pub async fn authorise(&self, request: &SpawnRequest) -> Result<Authorised, PermissionError> {
        let asked = self.asked(request);
        let mut meta = Meta::new();
        meta.insert("cwd".to_owned(), Value::from(asked.cwd.as_str()));
        meta.insert("env".to_owned(), Value::from(asked.names.clone()));
        let plan = Plan::of(&asked.command, asked.logical.as_ref());
        let plan = plan.under(asked.names.iter().map(String::as_str));
        self.authority().check_plan(plan, meta).await?;
        Ok(asked)
    }

    fn asked(&self, request: &SpawnRequest) -> Authorised {
        let cwd = match &request.cwd {
            // Where it leads, when it leads somewhere; else starting fails anyway.
            Some(cwd) => self
                .files
                .process_dir(cwd)
                .map_or_else(|_| self.files.absolute(cwd), |directory| directory.resource),
            None => self.files.workspace().logical().to_owned(),
        };
        Authorised {
            command: request.command.clone(),
            logical: request.logical.clone(),
            cwd,
            names: request.env.keys().cloned().collect(),
        }
    }

    /// Asks for a request and starts it. What needs no permission is looked at first: input that no process can be started
    /// from, and a working directory that cannot be used.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Child, SpawnError> {
        let authorised = self.admit(&request).await?;
        self.start(&authorised, request).await
    }

    /// What [`spawn`](Self::spawn) does before it starts anything: the request is looked at, then asked for. For a caller
    /// that gives up while somebody is asked, and not while a process is being started.
    pub async fn admit(&self, request: &SpawnRequest) -> Result<Authorised, SpawnError> {
        request.validate()?;
        self.environment(&request.env)?;
        self.directory(request)?;
        Ok(self.authorise(request).await?)
    }

    /// Starts what [`authorise`](Self::authorise) let through. A request that asks for something else is
    /// [`SpawnError::InvalidInput`]. A dropped future leaves no process behind.
    pub async fn start(&self, authorised: &Authorised, request: SpawnRequest) -> Result<Child, SpawnError> {
        request.validate()?;
        let env = self.environment(&request.env)?;
        let (cwd, resource) = self.directory(&request)?;
        let names_match = authorised.names.iter().eq(request.env.keys());
        if authorised.command != request.command || authorised.logical != request.logical || !names_match {
            return Err(SpawnError::invalid("the request is not the one that was authorised"));
        }
        if resource.is_some_and(|resource| resource != authorised.cwd) {
            let path = request.cwd.unwrap_or_default();
            let error = FsError::Changed("path changed while permission was pending".to_owned());
            return Err(SpawnError::Cwd { path, error: Box::new(error) });
        }
        let SpawnRequest { command, stdin, confine, launcher, inherit, .. } = request;
        let (argv, input) = argv_and_input(command, stdin, &env, &cwd);
        let file = match argv.first() {
            Some(name) => program::find(name, &env, cwd.as_fd())?,
            None => return Err(SpawnError::invalid("the command is empty")),
        };
        let command = prepare(&file, &argv, &launcher, &env, input.is_some());
        let start = move || start_here(command, cwd, &inherit, confine.as_deref());
        // A thread of its own, so that what `confine` restricts ends with it.
        let (send, receive) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("flowcell-spawn".to_owned())
            .spawn(move || {
                // When nobody waits any more the child comes back, and is killed and reaped by that.
                let _ = send.send(start());
            })
            .map_err(|error| SpawnError::io("start a thread", error))?;
        let group = receive
            .await
            .map_err(|_| SpawnError::io("start", std::io::Error::other("the starting thread panicked")))??;
        Child::adopt(group, input).map_err(|error| SpawnError::io("watch the child", error))
    }

    /// The directory the child starts in, and the resource of the one that the caller named.
    fn directory(&self, request: &SpawnRequest) -> Result<(OwnedFd, Option<String>), SpawnError> {
        let named = match &request.cwd {
            Some(cwd) => Some(self.process_dir(cwd)?),
            None if request.real_cwd.is_none() => Some(self.process_dir(self.files.workspace().logical())?),
            None => None,
        };
        let (fd, resource) = match named {
            Some(directory) => (Some(directory.fd), request.cwd.is_some().then_some(directory.resource)),
            None => (None, None),
        };
        let fd = match (&request.real_cwd, fd) {
            (None, Some(fd)) => fd,
            (Some(path), _) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::openat(CWD, path, flags, Mode::empty())
                    .map_err(|errno| SpawnError::io("open the working directory", errno))?
            }
            (None, None) => return Err(SpawnError::invalid("there is no working directory")),
        };
        Ok((fd, resource))
    }

    fn process_dir(&self, path: &str) -> Result<crate::fs::ProcessDir, SpawnError> {
        self.files
            .process_dir(path)
            .map_err(|error| SpawnError::Cwd { path: path.to_owned(), error: Box::new(error) })
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner")
            .field("files", &self.files)
            .field("ambient", &self.ambient.keys())
            .finish_non_exhaustive()
    }
}

/// The argv that is executed, and what is fed to it.
fn argv_and_input(
    command: Command,
    stdin: Stdin,
    env: &BTreeMap<String, String>,
    cwd: &OwnedFd,
) -> (Vec<String>, Option<Vec<u8>>) {
    let input = match stdin {
        Stdin::Null => None,
        Stdin::Bytes(bytes) => Some(bytes),
    };
    match command {
        Command::Argv(argv) => (argv, input),
        Command::Script { argv, text } => (argv, Some(text.into_bytes())),
        Command::Line { line, shell } => {
            let shell = match shell {
                Some(shell) => shell.to_string_lossy().into_owned(),
                None if program::find("bash", env, cwd.as_fd()).is_ok() => "bash".to_owned(),
                None => "/bin/sh".to_owned(),
            };
            (vec![shell, "-c".to_owned(), line], input)
        }
    }
}

fn prepare(
    file: &str,
    argv: &[String],
    launcher: &[OsString],
    env: &BTreeMap<String, String>,
    fed: bool,
) -> std::process::Command {
    let mut command = match launcher.split_first() {
        Some((program, first)) => {
            let mut command = std::process::Command::new(program);
            command.args(first).args(argv);
            command
        }
        None => {
            let mut command = std::process::Command::new(file);
            if let Some((name, arguments)) = argv.split_first() {
                command.arg0(name).args(arguments);
            }
            command
        }
    };
    command
        .env_clear()
        .envs(env)
        .stdin(if fed { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn start_here(
    command: std::process::Command,
    cwd: OwnedFd,
    inherit: &[Arc<OwnedFd>],
    confine: Option<&dyn Confine>,
) -> Result<Group, SpawnError> {
    if let Some(confine) = confine {
        confine.confine().map_err(|error| SpawnError::io("confine the child", error))?;
    }
    let numbers = inherit.iter().map(AsRawFd::as_raw_fd).collect();
    exec::start(command, cwd, numbers).map(Group::new).map_err(|error| SpawnError::io("start", error))
}
