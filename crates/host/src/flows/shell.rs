//! What the process flows share: timeouts, failures, and the way into a container (host contract 5).

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::capture;
use crate::container::{Container, Request};
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::process::{Command, SpawnError, SpawnRequest, Stdin};
use crate::kernel::{CallContext, HandlerError, PermissionError};
use crate::process::{self, Capture, Captured, Ended, ProcessError, ProcessOptions, ProcessRequest};

/// Milliseconds of the longest timeout there is: about 31 years. A longer one is that one.
const LONGEST_MS: f64 = 1e12;
/// Bytes of output that a message may end in.
pub(super) const MESSAGE_OUTPUT: usize = 2_000;
/// Bytes of a command that a message quotes.
const MESSAGE_COMMAND: usize = 400;
/// What a call that ends waits for the killing of what runs inside a container, and what that may take beyond it.
const KILL_PATIENCE: Duration = Duration::from_secs(1);
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A flow's failure.
pub(crate) fn fail(code: Code, message: impl Into<String>) -> HandlerError {
    HandlerError::Flow(StdError::new(code, message))
}

/// A timeout in milliseconds: finite and over 0, fractions rounded up (host contract 5).
pub(crate) fn timeout(given: Option<f64>, default_ms: u64) -> Result<Duration, HandlerError> {
    let Some(given) = given else { return Ok(Duration::from_millis(default_ms)) };
    if !given.is_finite() || given <= 0.0 {
        return Err(fail(Code::InvalidInput, "The timeout has to be a finite number over 0."));
    }
    // In range and without a fraction.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let ms = given.ceil().min(LONGEST_MS) as u64;
    Ok(Duration::from_millis(ms))
}

/// A command as messages quote it.
pub(crate) fn quote(command: &Command) -> String {
    let rendered = command.render();
    let kept = capture::start(&rendered, MESSAGE_COMMAND);
    let mark = if kept.len() < rendered.len() { "…" } else { "" };
    format!("`{kept}{mark}`")
}

/// The failure of a command that was not run to its end. A refusal is `command_failed`; a permission that a person has to
/// decide, and a store that could not serve, leave the flow as they are (kernel contract 5.2).
pub(crate) fn failed(command: &Command, error: ProcessError) -> HandlerError {
    let error = match error {
        ProcessError::Cancelled => return HandlerError::Cancelled,
        ProcessError::Unavailable(why) => return fail(Code::ProviderUnavailable, why),
        ProcessError::OutsideWrites { path } => {
            let message = format!("{path} does not exist, and its directory is not declared in writes.");
            return HandlerError::Flow(StdError::new(Code::OutsideDeclaredWrites, message).with_path(path));
        }
        ProcessError::Spawn(error) => error,
        ProcessError::Host(error) => {
            return fail(Code::CommandFailed, format!("{} could not be run: {error}.", quote(command)));
        }
    };
    let why = match error {
        SpawnError::Permission(PermissionError::Denied(denied)) => denied.detail(),
        SpawnError::Permission(open) => return HandlerError::Permission(open),
        SpawnError::InvalidInput { message } => {
            return fail(Code::InvalidInput, format!("{} cannot be run: {message}.", quote(command)));
        }
        error => error.to_string(),
    };
    fail(Code::CommandFailed, format!("{} could not be started: {why}.", quote(command)))
}

/// The failure of a command that ran out of time; the message ends in the end of what it printed.
pub(crate) fn timed_out(command: &Command, timeout: Duration, stdout: &[u8], stderr: &[u8]) -> HandlerError {
    let mut message = format!("{} timed out after {} milliseconds.", quote(command), timeout.as_millis());
    let printed = combine(stdout, stderr);
    let printed = capture::text(capture::last(&printed, MESSAGE_OUTPUT)).into_owned();
    if !printed.is_empty() {
        message.push('\n');
        message.push_str(capture::end(&printed, MESSAGE_OUTPUT));
    }
    fail(Code::Timeout, message)
}

/// Both streams as one: the one that is not empty, or both with a line break between them.
pub(crate) fn combine(stdout: &[u8], stderr: &[u8]) -> Vec<u8> {
    match (stdout.is_empty(), stderr.is_empty()) {
        (_, true) => stdout.to_vec(),
        (true, false) => stderr.to_vec(),
        (false, false) => [stdout, b"\n", stderr].concat(),
    }
}

/// The tail that was kept of a stream, from a whole character on when something was before it, and how many bytes were.
pub(crate) fn tail(captured: &Captured) -> (&[u8], u64) {
    let tail = captured.tail.as_slice();
    let kept = if captured.total > tail.len() as u64 { capture::forward(tail) } else { tail };
    (kept, captured.total - kept.len() as u64)
}

/// A command for inside a container: how it gets there, what it is there, and what it reads.
pub(crate) struct Inside {
    pub(crate) transport: Arc<dyn Container>,
    pub(crate) request: Request,
    /// The command as meant: what messages quote, and what deny rules see beside the transport's.
    pub(crate) logical: Command,
    pub(crate) stdin: Option<Vec<u8>>,
}

impl Inside {
    /// Runs it. However the call ends before the command does, what runs inside is killed.
    ///
    /// At a checkpoint it is refused: inside is the tree of the container, and the answer would pass for one of the copy.
    pub(crate) async fn run(
        mut self,
        cx: &CallContext,
        timeout: Duration,
        capture: Capture,
        options: &ProcessOptions,
    ) -> Result<Ended, HandlerError> {
        if cx.workspace.live().is_some() {
            let message = format!("The container {} does not hold the checkpoint.", self.request.container);
            return Err(fail(Code::ProviderUnavailable, message));
        }
        self.request.stdin = self.stdin.is_some();
        self.request.mark = Some(mark(cx));
        let plan = self.transport.exec(&self.request)?;
        let mut spawn = SpawnRequest::new(argv(plan.file, plan.args));
        spawn.logical = Some(self.logical.clone());
        spawn.env = plan.env.into_iter().map(|(name, value)| (name, Some(value))).collect();
        spawn.stdin = self.stdin.map_or(Stdin::Null, Stdin::Bytes);
        let kill = self.transport.kill(&self.request).map(|plan| argv(plan.file, plan.args));
        let mut left = Left { cx: cx.clone(), kill, options: options.clone() };
        let request =
            ProcessRequest { options: options.clone(), ..ProcessRequest::new(spawn, timeout, capture) };
        let ended = process::run(cx, request).await;
        match &ended {
            Ok(Ended::Exited { .. }) | Err(ProcessError::Spawn(_)) => left.kill = None,
            _ => left.kill().await,
        }
        ended.map_err(|error| failed(&self.logical, error))
    }
}

/// What may still run inside a container; dropping it kills that without waiting.
struct Left {
    cx: CallContext,
    kill: Option<Command>,
    options: ProcessOptions,
}

impl Left {
    async fn kill(&mut self) {
        if let Some(command) = self.kill.take() {
            let killing = tokio::spawn(kill(self.cx.clone(), command, self.options.clone()));
            // One that takes longer goes on by itself: the call's bound holds.
            if tokio::time::timeout(KILL_PATIENCE, killing).await.is_err() {
                self.cx.notes.put("containerNotKilled", true.into());
            }
        }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(command) = self.kill.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(kill(self.cx.clone(), command, self.options.clone()));
        }
    }
}

/// Runs the command that ends what a call left inside its container. It is part of the call that was allowed, so it asks
/// nothing more; a rule that denies it stands.
async fn kill(cx: CallContext, command: Command, options: ProcessOptions) {
    let mut cx = cx.admitting(vec![command.capability()]);
    cx.cancel = CancellationToken::new();
    cx.deadline = None;
    let spawn = SpawnRequest::new(command);
    let request =
        ProcessRequest { options, ..ProcessRequest::new(spawn, KILL_TIMEOUT, Capture::Tail { bytes: 0 }) };
    if !matches!(process::run(&cx, request).await, Ok(Ended::Exited { code: 0, .. })) {
        cx.notes.put("containerNotKilled", true.into());
    }
}

/// A name that no other call has.
fn mark(cx: &CallContext) -> String {
    let mut bytes = [0_u8; 16];
    cx.entropy.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn argv(file: String, mut args: Vec<String>) -> Command {
    args.insert(0, file);
    Command::Argv(args)
}
