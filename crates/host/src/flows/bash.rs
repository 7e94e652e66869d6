//! `bash`: a command line, or a script given to an interpreter as data (host contract 5.1).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::shell::{Inside, fail, failed, timed_out, timeout};
use crate::capture;
use crate::confine::Confinement;
use crate::container::{Container, Request};
use crate::hermetic::{Access, Declared, Envelope, Expanded, MAX_EXPANDED, Outside};
use crate::kernel::flows::bash::{
    DEFAULT_TIMEOUT_MS, Hermetic, Input, Invocation, MAX_SHELL_OUTPUT_BYTES, Output,
};
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::process::{Command, SpawnRequest, Stdin};
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::process::{self, Capture, Captured, Ended, ProcessOptions, ProcessRequest};

/// Interpreters that read a script with `-s --`.
const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash"];
/// Interpreters that read a script from `-`.
const DASH: &[&str] = &["python", "python3", "node", "ruby", "perl"];

/// Serves `bash`.
#[derive(Clone, Default)]
pub struct BashHandler {
    container: Option<Arc<dyn Container>>,
    sealed: Option<String>,
    processes: ProcessOptions,
}

/// `bash` sealed to one container: a call that names another one, or none, is `outside_container` before anything else.
#[must_use]
pub fn sealed(name: impl Into<String>, transport: Arc<dyn Container>) -> BashHandler {
    BashHandler { sealed: Some(name.into()), ..BashHandler::new(Some(transport)) }
}

impl BashHandler {
    /// A handler; a call that names a container without a transport is `provider_unavailable`.
    #[must_use]
    pub fn new(container: Option<Arc<dyn Container>>) -> Self {
        BashHandler { container, ..Self::default() }
    }

    /// The same handler with what the host set up for processes.
    #[must_use]
    pub fn with_processes(self, processes: ProcessOptions) -> Self {
        BashHandler { processes, ..self }
    }
}

impl fmt::Debug for BashHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BashHandler")
            .field("container", &self.container.is_some())
            .field("sealed", &self.sealed)
            .field("processes", &self.processes)
            .finish()
    }
}

#[async_trait]
impl Handler for BashHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let invocation = input.invocation();
        if let Some(sealed) = &self.sealed
            && invocation.container.as_ref() != Some(sealed)
        {
            let message = format!("This shell runs inside the container {sealed} alone.");
            return Err(fail(Code::OutsideContainer, message));
        }
        let job = Job::of(&input)?;
        let timeout = timeout(invocation.timeout_ms, DEFAULT_TIMEOUT_MS)?;
        let half = MAX_SHELL_OUTPUT_BYTES / 2;
        let capture = Capture::HeadTail { head: half, tail: half };
        let ended = if let Some(name) = &invocation.container {
            let Some(transport) = &self.container else {
                let message = format!("No transport reaches the container {name}.");
                return Err(fail(Code::ProviderUnavailable, message));
            };
            let inside = job.inside(Arc::clone(transport), name, invocation);
            inside.run(cx, timeout, capture, &self.processes).await?
        } else {
            let confinement = match &input {
                Input::Hermetic(hermetic) => Some(confinement(cx, &check(cx, hermetic)?)?),
                Input::Unhermetic(_) => None,
            };
            let request = ProcessRequest {
                confinement,
                options: self.processes.clone(),
                ..ProcessRequest::new(job.spawn(invocation), timeout, capture)
            };
            process::run(cx, request).await.map_err(|error| failed(&job.command, error))?
        };
        match ended {
            Ended::Exited { code, stdout, stderr, .. } => Ok(output(code, &stdout, &stderr)),
            Ended::TimedOut { stdout, stderr, .. } => {
                let (stdout, stderr) = (shown(&stdout).text, shown(&stderr).text);
                Err(timed_out(&job.command, timeout, stdout.as_bytes(), stderr.as_bytes()))
            }
        }
    }
}

/// What a call runs.
struct Job {
    command: Command,
    /// The program and its arguments inside a container.
    inside: (String, Vec<String>),
    stdin: Option<Vec<u8>>,
}

impl Job {
    /// The checks of an input in the contract's order, and what it runs.
    fn of(input: &Input) -> Result<Self, HandlerError> {
        let invocation = input.invocation();
        let Invocation { command, script, interpreter, args, stdin, container, .. } = invocation;
        let hermetic = matches!(input, Input::Hermetic(_));
        let refuse = |message: &str| Err(fail(Code::InvalidInput, message));
        let program = interpreter.as_deref().unwrap_or("bash");
        match (command, script) {
            (Some(_), Some(_)) => return refuse("Give command or script, not both."),
            (None, None) => return refuse("Give command or script."),
            (_, Some(_)) if stdin.is_some() => {
                return refuse("A script is given on standard input, so stdin goes with command.");
            }
            (Some(_), _) if args.is_some() => return refuse("args go with script."),
            (Some(_), _) if interpreter.is_some() => return refuse("interpreter goes with script."),
            _ if hermetic && container.is_some() => return refuse("A container needs mode \"unhermetic\"."),
            (_, Some(_)) if hermetic && !SHELLS.contains(&program) => {
                return refuse("A hermetic script is for bash, sh, zsh or dash.");
            }
            _ => {}
        }
        if let Some(line) = command {
            return Ok(Job {
                command: Command::Line { line: line.clone(), shell: None },
                inside: ("bash".to_owned(), vec!["-lc".to_owned(), line.clone()]),
                stdin: stdin.as_ref().map(|text| text.clone().into_bytes()),
            });
        }
        let text = script.clone().unwrap_or_default();
        let args = args.as_deref().unwrap_or_default();
        let mut argv = vec![program.to_owned()];
        if SHELLS.contains(&program) {
            argv.extend(["-s", "--"].map(str::to_owned));
        } else if DASH.contains(&program) {
            argv.push("-".to_owned());
        } else if !args.is_empty() {
            let message =
                format!("How {program} takes arguments for a script on standard input is not known.");
            return Err(fail(Code::InvalidInput, message));
        }
        argv.extend(args.iter().cloned());
        // A login shell, so that what profiles activate is there.
        let mut login = ["-lc", "exec \"$@\"", "bash"].map(str::to_owned).to_vec();
        login.extend(argv.iter().cloned());
        Ok(Job {
            stdin: Some(text.clone().into_bytes()),
            command: Command::Script { argv, text },
            inside: ("bash".to_owned(), login),
        })
    }

    fn spawn(&self, invocation: &Invocation) -> SpawnRequest {
        let mut spawn = SpawnRequest::new(self.command.clone());
        spawn.cwd = invocation.cwd.clone();
        spawn.env = declared(invocation.env.as_ref());
        if let (Command::Line { .. }, Some(stdin)) = (&self.command, &self.stdin) {
            spawn.stdin = Stdin::Bytes(stdin.clone());
        }
        spawn
    }

    fn inside(&self, transport: Arc<dyn Container>, name: &str, invocation: &Invocation) -> Inside {
        let (file, args) = self.inside.clone();
        let mut request = Request::new(name, file, args);
        request.cwd = invocation.cwd.clone();
        request.env = invocation.env.clone().unwrap_or_default();
        Inside { transport, request, logical: self.command.clone(), stdin: self.stdin.clone() }
    }
}

fn declared(env: Option<&BTreeMap<String, String>>) -> BTreeMap<String, Option<String>> {
    env.into_iter().flatten().map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
}

/// The lexical pre-check: refuses before anything is started.
fn check(cx: &CallContext, hermetic: &Hermetic) -> Result<Envelope, HandlerError> {
    let Hermetic { reads, writes, invocation, .. } = hermetic;
    let envelope = Envelope::new(cx.workspace.logical(), invocation.cwd.as_deref(), reads, writes);
    let text = invocation.command.as_deref().or(invocation.script.as_deref()).unwrap_or_default();
    envelope.check(text).map(|()| envelope).map_err(|Outside { access, path, cwd }| {
        let (code, list) = match access {
            Access::Read => (Code::OutsideDeclaredReads, "reads"),
            Access::Write => (Code::OutsideDeclaredWrites, "writes"),
        };
        let what = if cwd { "The working directory" } else { "The path" };
        let message = format!("{what} {path} is not covered by the declared {list}.");
        HandlerError::Flow(StdError::new(code, message).with_path(path))
    })
}

/// The declared paths as rules of the host can name them: absolute, with their globs expanded.
fn confinement(cx: &CallContext, envelope: &Envelope) -> Result<Confinement, HandlerError> {
    let (logical, canonical) = (cx.workspace.logical(), cx.workspace.canonical());
    // Where a path of the workspace really is: the same place but in a view of a checkpoint.
    let place = |path: &str| match path.strip_prefix(logical) {
        Some(rest) if logical != "/" && (rest.is_empty() || rest.starts_with('/')) => {
            format!("{}{rest}", canonical.display())
        }
        _ => path.to_owned(),
    };
    let expand = |declared: &Declared| {
        let Expanded { paths, cut } = Expanded::of(declared, place);
        if cut {
            let message = format!("The declared globs come to more than {MAX_EXPANDED} paths.");
            return Err(fail(Code::InvalidInput, message));
        }
        Ok(paths)
    };
    Ok(Confinement::new(expand(envelope.reads())?, expand(envelope.writes())?))
}

fn output(code: i32, stdout: &Captured, stderr: &Captured) -> Output {
    let (stdout, stderr) = (shown(stdout), shown(stderr));
    Output {
        exit_code: code,
        stdout: stdout.text,
        stderr: stderr.text,
        stdout_truncated: stdout.truncated,
        stderr_truncated: stderr.truncated,
        stdout_dropped_bytes: stdout.dropped,
        stderr_dropped_bytes: stderr.dropped,
        invalid_probe: None,
    }
}

fn shown(captured: &Captured) -> capture::Shown {
    capture::show(&captured.head, &captured.tail, captured.total)
}
