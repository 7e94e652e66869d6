//! A pristine tree of a commit beside the workspace's, for as long as a run needs it (host contract 5.3).
//!
//! It is a git worktree below `.flows-test-base`, which walkers skip. **Invariant:** it is removed however the run ends,
//! and what git put into the repository's configuration for it is put back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::capture;
use crate::flows::shell::{fail, failed, tail, timed_out};
use crate::kernel::flows::error::Code;
use crate::kernel::process::{Command, SpawnRequest};
use crate::kernel::{CallContext, HandlerError};
use crate::process::{self, Capture, Ended, ProcessOptions, ProcessRequest};

/// The directory below a repository's root that holds the trees of base runs.
pub(crate) const SCRATCH: &str = ".flows-test-base";
/// The refs that name a base where a runner declares none, the first that exists.
pub(crate) const BASE_REFS: [&str; 2] = ["refs/flows/capture-base", "HEAD"];
/// What git changes for worktrees with relative paths.
const SETTINGS: [&str; 2] = ["core.repositoryformatversion", "extensions.relativeWorktrees"];
/// What one git command may take.
const PATIENCE: Duration = Duration::from_secs(300);
const CAPTURE: Capture = Capture::Tail { bytes: 64 * 1024 };

/// Worktrees are added and removed one at a time, so that what changed in between is known to be this call's doing.
static TURN: std::sync::LazyLock<Arc<Mutex<()>>> = std::sync::LazyLock::new(Arc::default);

/// The commit that a base run runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) reference: String,
    pub(crate) commit: String,
}

/// git in one repository.
#[derive(Clone)]
pub(crate) struct Git {
    cx: CallContext,
    root: String,
    options: ProcessOptions,
}

struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Git {
    /// git in the repository that holds `root`, an absolute path.
    pub(crate) fn new(cx: &CallContext, root: String, options: &ProcessOptions) -> Self {
        Git { cx: cx.clone(), root, options: options.clone() }
    }

    /// The base: the declared ref alone, or the first of `BASE_REFS` that exists.
    pub(crate) async fn base(&self, declared: Option<&str>) -> Result<Base, HandlerError> {
        let refs = declared.map_or_else(|| BASE_REFS.to_vec(), |declared| vec![declared]);
        for reference in &refs {
            let said =
                self.run(&["rev-parse", "--verify", "--quiet", &format!("{reference}^{{commit}}")]).await?;
            let commit = said.stdout.trim();
            if said.code == 0 && !commit.is_empty() {
                return Ok(Base { reference: (*reference).to_owned(), commit: commit.to_owned() });
            }
        }
        let message = format!("No base commit in {}: {} does not resolve.", self.root, refs.join(", then "));
        Err(fail(Code::NotFound, message))
    }

    /// Where `root` is in its repository: nothing, or a path that ends in a slash. A tree of a commit is one of the whole
    /// repository.
    pub(crate) async fn prefix(&self) -> Result<String, HandlerError> {
        let said = self.run(&["rev-parse", "--show-prefix"]).await?;
        if said.code != 0 {
            let why = said.stderr.trim();
            return Err(fail(Code::CommandFailed, format!("No place in a repository: {}: {why}", self.root)));
        }
        Ok(said.stdout.strip_suffix('\n').unwrap_or(&said.stdout).to_owned())
    }

    /// A worktree of a commit; the caller's turn lasts as long as it.
    pub(crate) async fn add(&self, commit: &str) -> Result<Worktree, HandlerError> {
        let cancel = self.cx.cancel.clone();
        let turn = tokio::select! {
            turn = Arc::clone(&TURN).lock_owned() => turn,
            () = cancel.cancelled() => return Err(HandlerError::Cancelled),
        };
        let mut before = Vec::new();
        for key in SETTINGS {
            before.push((key, self.setting(key).await?));
        }
        let name = format!("run-{}", self.uuid());
        let dir = format!("{}/{SCRATCH}/{name}", self.root.trim_end_matches('/'));
        // From here on there may be something to take away again, whatever comes of it.
        let worktree = Worktree {
            left: Some(Left { git: self.aftermath(), dir: dir.clone(), before, turn }),
            dir,
            name,
        };
        let said = self
            .run(&[
                "-c",
                "worktree.useRelativePaths=true",
                "worktree",
                "add",
                "--detach",
                "--force",
                &worktree.dir,
                commit,
            ])
            .await;
        match said {
            Ok(said) if said.code == 0 => Ok(worktree),
            Ok(said) => {
                worktree.remove().await;
                let why = said.stderr.trim().to_owned();
                Err(fail(Code::CommandFailed, format!("The base tree could not be made: {why}")))
            }
            Err(error) => {
                worktree.remove().await;
                Err(error)
            }
        }
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, HandlerError> {
        let said = self.run(&["config", "--local", "--get", key]).await?;
        Ok((said.code == 0).then(|| said.stdout.trim_end_matches('\n').to_owned()))
    }

    async fn run(&self, arguments: &[&str]) -> Result<Said, HandlerError> {
        let words = ["git", "-C", &self.root].into_iter().chain(arguments.iter().copied());
        let command = Command::Argv(words.map(str::to_owned).collect());
        let options = self.options.clone();
        let spawn = SpawnRequest::new(command.clone());
        let request = ProcessRequest { options, ..ProcessRequest::new(spawn, PATIENCE, CAPTURE) };
        match process::run(&self.cx, request).await.map_err(|error| failed(&command, error))? {
            Ended::Exited { code, stdout, stderr, .. } => Ok(Said {
                code,
                stdout: capture::text(tail(&stdout).0).into_owned(),
                stderr: capture::text(tail(&stderr).0).into_owned(),
            }),
            Ended::TimedOut { stdout, stderr, .. } => {
                Err(timed_out(&command, PATIENCE, tail(&stdout).0, tail(&stderr).0))
            }
        }
    }

    /// The same git for what has to be done although the call was cancelled or is late.
    fn aftermath(&self) -> Self {
        let mut cx = self.cx.clone();
        cx.cancel = CancellationToken::new();
        cx.deadline = None;
        Git { cx, ..self.clone() }
    }

    /// A random UUID, version 4.
    fn uuid(&self) -> String {
        let mut bytes = [0_u8; 16];
        self.cx.entropy.fill(&mut bytes);
        let mut hex = String::with_capacity(36);
        for (at, byte) in bytes.into_iter().enumerate() {
            let byte = match at {
                6 => byte & 0x0f | 0x40,
                8 => byte & 0x3f | 0x80,
                _ => byte,
            };
            if matches!(at, 4 | 6 | 8 | 10) {
                hex.push('-');
            }
            hex.push_str(&format!("{byte:02x}"));
        }
        hex
    }
}

/// A worktree that is there.
pub(crate) struct Worktree {
    /// Its directory on the host, absolute.
    pub(crate) dir: String,
    /// The last component of that.
    pub(crate) name: String,
    left: Option<Left>,
}

impl Worktree {
    /// Removes it and waits for that. A failure is logged and noted for the call's record; it changes no answer.
    pub(crate) async fn remove(mut self) {
        if let Some(left) = self.left.take() {
            left.clear().await;
        }
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        if let Some(left) = self.left.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(left.clear());
        }
    }
}

struct Left {
    git: Git,
    dir: String,
    before: Vec<(&'static str, Option<String>)>,
    turn: OwnedMutexGuard<()>,
}

impl Left {
    async fn clear(self) {
        let said = self.git.run(&["worktree", "remove", "--force", &self.dir]).await;
        let why = match said {
            Ok(said) if said.code == 0 || said.stderr.contains("is not a working tree") => None,
            Ok(said) => Some(said.stderr.trim().to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            tracing::warn!(dir = self.dir, why, "the base tree was not removed");
            self.git.cx.notes.put("testBaseNotRemoved", self.dir.clone().into());
        }
        // The extension first: git refuses a repository of version 0 that has one of version 1.
        for (key, before) in self.before.iter().rev() {
            if let Err(error) = self.put_back(key, before.as_deref()).await {
                tracing::warn!(key, why = error.to_string(), "a setting of the repository was not put back");
            }
        }
        drop(self.turn);
    }

    /// Puts a setting back that git changed for this worktree.
    async fn put_back(&self, key: &str, before: Option<&str>) -> Result<(), HandlerError> {
        if self.git.setting(key).await?.as_deref() == before {
            return Ok(());
        }
        match before {
            Some(value) => self.git.run(&["config", "--local", key, value]).await?,
            None => self.git.run(&["config", "--local", "--unset", key]).await?,
        };
        Ok(())
    }
}
