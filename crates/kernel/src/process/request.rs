//! What a child is started with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::command::Command;
use super::error::SpawnError;

/// A hook that is run on the fresh thread that starts the child, before it does. What it restricts of that thread
/// (Landlock, seccomp, namespaces) the child inherits, and the host's other threads do not; the thread ends afterwards.
///
/// What belongs to a whole process, resource limits for one, is not for this hook: it would change the host. An error
/// refuses the start ([`SpawnError::Io`]). The hook may have to allow what the start itself needs: `fork`, `setsid`,
/// `fchdir`, `close_range`, `fcntl` and `execve`.
pub trait Confine: Send + Sync {
    /// Restricts the calling thread.
    fn confine(&self) -> io::Result<()>;
}

/// What a child reads on standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`: end of file at once.
    #[default]
    Null,
    /// These bytes, then end of file. A child that does not read them all is no error.
    Bytes(Vec<u8>),
}

/// A child to be started. Made by [`new`](Self::new); the fields are public: set what differs.
#[derive(Clone)]
pub struct SpawnRequest {
    /// What is started, and what is asked for.
    pub command: Command,
    /// The command that a container transport stands for: its deny candidates are evaluated as well as those of `command`.
    pub logical: Option<Command>,
    /// The working directory as the caller gave it, resolved on the workspace; `None` is the workspace root. Opening it
    /// asks nothing more.
    pub cwd: Option<String>,
    /// Declared variables. They win over inherited ones; `None` removes an inherited name.
    pub env: BTreeMap<String, Option<String>>,
    /// Standard input. It has to be [`Stdin::Null`] for a [`Command::Script`], whose text takes the place.
    pub stdin: Stdin,
    /// Run on the thread that starts the child.
    pub confine: Option<Arc<dyn Confine>>,
    /// A program of the host's own, by absolute path, and its arguments, put before the argv after authorisation: a
    /// supervisor. It is no part of what is asked, and what follows it is the argv unchanged.
    pub launcher: Vec<OsString>,
    /// Descriptors that the launcher inherits beside 0 to 2, under their numbers here; without a launcher there may be
    /// none. It is the launcher's to close them before it goes on.
    pub inherit: Vec<Arc<OwnedFd>>,
    /// A host's own directory (a view of a checkpoint, a private one) that the child starts in instead of `cwd`, which is
    /// what is shown still. It is opened as it is, links followed.
    pub real_cwd: Option<PathBuf>,
}

impl SpawnRequest {
    /// A command in the workspace root, without declared variables, input, hook or launcher.
    pub fn new(command: Command) -> Self {
        SpawnRequest {
            command,
            logical: None,
            cwd: None,
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            confine: None,
            launcher: Vec::new(),
            inherit: Vec::new(),
            real_cwd: None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SpawnError> {
        match &self.command {
            Command::Argv(argv) => check_argv(argv)?,
            Command::Script { argv, .. } => {
                check_argv(argv)?;
                if self.stdin != Stdin::Null {
                    return Err(SpawnError::invalid("a script and other input are both given"));
                }
            }
            Command::Line { line, shell } => {
                if line.contains('\0') {
                    return Err(SpawnError::invalid("the command line has a NUL"));
                }
                if let Some(shell) = shell {
                    let text =
                        shell.to_str().ok_or_else(|| SpawnError::invalid("the shell's path is not UTF-8"))?;
                    check_argv(std::slice::from_ref(&text))?;
                }
            }
        }
        match self.launcher.first() {
            Some(program) if !PathBuf::from(program).is_absolute() => {
                Err(SpawnError::invalid("the launcher is not an absolute path"))
            }
            None if !self.inherit.is_empty() => {
                Err(SpawnError::invalid("descriptors are passed without a launcher"))
            }
            _ => Ok(()),
        }
    }
}

fn check_argv<S: AsRef<str>>(argv: &[S]) -> Result<(), SpawnError> {
    if argv.first().is_none_or(|program| program.as_ref().is_empty()) {
        return Err(SpawnError::invalid("the command is empty"));
    }
    if argv.iter().any(|token| token.as_ref().contains('\0')) {
        return Err(SpawnError::invalid("an argument has a NUL"));
    }
    Ok(())
}

impl fmt::Debug for SpawnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: values and input are nobody's to see.
        f.debug_struct("SpawnRequest")
            .field("program", &self.command.program())
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("confined", &self.confine.is_some())
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}
