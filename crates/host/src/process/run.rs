//! One call of the service.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[cfg(target_os = "linux")]
use super::link::Link;
use super::private::Private;
use super::request::{Ended, ProcessError, ProcessRequest};
use super::started::{Started, Via};
use super::streams::Streams;
use crate::confine::{Enforcement, HermeticEnforcement, probe};
#[cfg(target_os = "linux")]
use crate::confine::{InProcess, Plan, Rights, Spaces};
use crate::kernel::CallContext;
use crate::kernel::process::{SpawnError, SpawnRequest};

/// How long nothing has to come from a command that has ended until its pipes count as empty (host contract 5).
pub const SILENCE: Duration = Duration::from_millis(100);
/// How long the pipes of a command that has ended are read at most (host contract 5).
pub const DRAIN: Duration = Duration::from_millis(1_000);
/// What a stopped command has between SIGTERM and SIGKILL (host contract 5).
pub const GRACE: Duration = Duration::from_millis(1_000);
/// How long the pipes of a stopped command are read after its end.
const REST: Duration = Duration::from_millis(50);
/// What a supervisor may take to start a command.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The key of the note that says what confined a hermetic command: an [`Enforcement`].
const NOTE: &str = "enforcement";
/// The directories above which git looks for no repository.
const GIT_CEILING: &str = "GIT_CEILING_DIRECTORIES";

/// Runs a command to its end (host contract 5). The level of confinement that a hermetic one really had is put into the
/// call's notes under `enforcement`.
///
/// When the future is dropped the command is interrupted as by the call's token, and what that takes goes on by itself.
pub async fn run(cx: &CallContext, request: ProcessRequest) -> Result<Ended, ProcessError> {
    let stop = CancellationToken::new();
    let guard = stop.clone().drop_guard();
    let task = tokio::spawn(drive(cx.clone(), request, stop));
    let outcome = task.await;
    drop(guard);
    match outcome {
        Ok(outcome) => outcome,
        Err(error) if error.is_cancelled() => Err(ProcessError::Cancelled),
        Err(_) => Err(ProcessError::Host(io::Error::other("the process service failed"))),
    }
}

/// What ended the wait for a command.
enum Event {
    Ended(io::Result<i32>),
    TimedOut,
    Interrupted,
}

async fn drive(
    cx: CallContext,
    mut request: ProcessRequest,
    stop: CancellationToken,
) -> Result<Ended, ProcessError> {
    let invalid = |message: &str| Err(SpawnError::InvalidInput { message: message.to_owned() }.into());
    if request.timeout.is_zero() {
        return invalid("the timeout is zero");
    }
    match &request.spawn.cwd {
        Some(cwd) if cwd.is_empty() => return invalid("the path of its working directory is empty"),
        Some(cwd) if cwd.contains('\0') => return invalid("the path of its working directory has a NUL"),
        _ => {}
    }
    stay_in_copy(&cx, &mut request);
    let interrupted = interruption(&cx, stop);
    tokio::pin!(interrupted);
    let private = prepare(&cx, &mut request).await?;
    let private_path = private.as_ref().map(|private| private.path().to_owned());
    let outcome = watch(&cx, request, private_path, interrupted.as_mut()).await;
    if let Some(private) = private {
        // What it holds may be much.
        let _ = tokio::task::spawn_blocking(move || drop(private)).await;
    }
    outcome
}

/// Comes when nobody waits for the call any more, or it has to be over.
async fn interruption(cx: &CallContext, stop: CancellationToken) {
    let deadline = cx.deadline.map(|deadline| far(Instant::now(), deadline.saturating_sub(cx.clock.now())));
    let over = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = cx.cancel.cancelled() => {}
        () = stop.cancelled() => {}
        () = over => {}
    }
}

/// That long after `start`, or as long as an instant can be.
fn far(start: Instant, duration: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    start + duration.min(LONGEST)
}

/// A command at a checkpoint works in a copy that has no `.git` of its own. git would look for one in the directories above,
/// and where the data folder is in the workspace find the user's: it would then write to that and to the live tree (host
/// contract 8). It is told to stop at the copy, unless the call says otherwise.
fn stay_in_copy(cx: &CallContext, request: &mut ProcessRequest) {
    if cx.workspace.live().is_some()
        && let Some(above) = cx.workspace.canonical().parent().and_then(std::path::Path::to_str)
    {
        request.spawn.env.entry(GIT_CEILING.to_owned()).or_insert_with(|| Some(above.to_owned()));
    }
}

/// What is checked and made before anything is started. Gives back the private directory of a hermetic call.
async fn prepare(cx: &CallContext, request: &mut ProcessRequest) -> Result<Option<Private>, ProcessError> {
    let Some(confinement) = &request.confinement else { return Ok(None) };
    if let Some(path) = confinement.missing_write() {
        return Err(ProcessError::OutsideWrites { path: path.to_owned() });
    }
    if request.options.hermetic == HermeticEnforcement::Required {
        let here = probe();
        let missing = match (here.landlock.works(), here.seccomp.works()) {
            (true, true) => None,
            (false, true) => Some("its files"),
            // A network namespace does as well; whether there is one, the supervisor has to say.
            (true, false) if request.options.supervisor.is_some() => None,
            (true, false) => Some("its network"),
            (false, false) => Some("its files and its network"),
        };
        if let Some(missing) = missing {
            return Err(unconfined(missing));
        }
    }
    let temp = request.options.temp.clone().unwrap_or_else(|| {
        let ambient = cx.spawner.ambient().get("TMPDIR").filter(|path| path.starts_with('/'));
        PathBuf::from(ambient.map_or("/tmp", String::as_str))
    });
    let private = Private::new(&temp, cx.entropy.as_ref())?;
    request.spawn.env.insert("TMPDIR".to_owned(), Some(private.path().to_owned()));
    Ok(Some(private))
}

pub(super) fn unconfined(missing: &str) -> ProcessError {
    ProcessError::Unavailable(format!(
        "A hermetic command has to be confined by policy, and this host cannot confine {missing}."
    ))
}

/// Starts the command and stays with it to its end.
async fn watch(
    cx: &CallContext,
    request: ProcessRequest,
    private: Option<String>,
    mut interrupted: std::pin::Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<Ended, ProcessError> {
    let (timeout, capture) = (request.timeout, request.capture);
    let confined = request.confinement.is_some();
    let program = request.spawn.command.program();
    let mut started = start(cx, request, private, interrupted.as_mut()).await?;
    let begin = Instant::now();
    let mut streams = started.streams(capture);
    let shaken = tokio::select! {
        biased;
        () = interrupted.as_mut() => Err(ProcessError::Cancelled),
        shaken = tokio::time::timeout(HANDSHAKE.min(timeout), started.handshake(&program)) => match shaken {
            Ok(shaken) => shaken,
            Err(_) if timeout < HANDSHAKE => {
                started.sweep().await;
                let (stdout, stderr) = streams.finish();
                return Ok(Ended::TimedOut { stdout, stderr, duration: begin.elapsed() });
            }
            Err(_) => Err(io::Error::other("the supervisor did not start the command").into()),
        },
    };
    if let Err(error) = shaken {
        started.sweep().await;
        return Err(error);
    }
    if confined && let Ok(note) = serde_json::to_value(started.enforcement) {
        cx.notes.put(NOTE, note);
    }
    let event = {
        let event = async {
            tokio::select! {
                ended = started.ended() => Event::Ended(ended),
                () = tokio::time::sleep_until(far(begin, timeout)) => Event::TimedOut,
                () = interrupted => Event::Interrupted,
            }
        };
        streams.until(event).await
    };
    let duration = begin.elapsed();
    let outcome = match event {
        Ok(Event::Ended(Ok(code))) => streams.drain(SILENCE, DRAIN).await.map(|()| Some(code)),
        Ok(Event::Ended(Err(error))) | Err(error) => Err(error),
        Ok(Event::TimedOut) => stop(&mut streams, &mut started).await.map(|()| None),
        Ok(Event::Interrupted) => {
            let _ = stop(&mut streams, &mut started).await;
            started.sweep().await;
            return Err(ProcessError::Cancelled);
        }
    };
    started.sweep().await;
    let code = outcome?;
    let (stdout, stderr) = streams.finish();
    Ok(match code {
        Some(code) => Ended::Exited { code, stdout, stderr, duration },
        None => Ended::TimedOut { stdout, stderr, duration },
    })
}

/// Asks the command's group to end, and reads on until it has or its grace is over.
async fn stop(streams: &mut Streams, started: &mut Started) -> io::Result<()> {
    started.terminate();
    if let Ok(ended) = tokio::time::timeout(GRACE, streams.until(started.ended())).await {
        ended??;
        streams.drain(REST, REST).await?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
async fn start(
    cx: &CallContext,
    request: ProcessRequest,
    _private: Option<String>,
    interrupted: Interrupted<'_, impl Future<Output = ()> + Send>,
) -> Result<Started, ProcessError> {
    let child = spawn(cx, clean(request.spawn), interrupted).await?;
    Ok(Started::new(Via::Nothing, child, Enforcement::NONE))
}

/// The request without what is the service's own.
fn clean(mut spawn: SpawnRequest) -> SpawnRequest {
    spawn.launcher.clear();
    spawn.inherit.clear();
    spawn.confine = None;
    spawn
}

/// What tells that a call is over.
type Interrupted<'a, F> = std::pin::Pin<&'a mut F>;

/// Asks for a command and starts it. While somebody is asked the call can be interrupted; a start is waited for, so that
/// what was started is known, stopped and reaped.
async fn spawn(
    cx: &CallContext,
    request: SpawnRequest,
    interrupted: Interrupted<'_, impl Future<Output = ()> + Send>,
) -> Result<crate::kernel::process::Child, ProcessError> {
    let admitted = tokio::select! {
        biased;
        () = interrupted => return Err(ProcessError::Cancelled),
        admitted = cx.spawner.admit(&request) => admitted?,
    };
    Ok(cx.spawner.start(&admitted, request).await?)
}

/// Asks for the command and starts it, or the supervisor that will.
#[cfg(target_os = "linux")]
async fn start(
    cx: &CallContext,
    request: ProcessRequest,
    private: Option<String>,
    mut interrupted: Interrupted<'_, impl Future<Output = ()> + Send>,
) -> Result<Started, ProcessError> {
    let ProcessRequest { spawn, confinement, options, .. } = request;
    let mut spawn = clean(spawn);
    let rights = confinement.map(|declared| Rights {
        declared,
        private: private.unwrap_or_default(),
        required: options.hermetic == HermeticEnforcement::Required,
    });
    let Some(supervisor) = options.supervisor else {
        let hook = rights.map(InProcess::new);
        if let Some(hook) = &hook {
            spawn.confine = Some(Arc::clone(hook) as Arc<dyn crate::kernel::Confine>);
        }
        let outcome = self::spawn(cx, spawn, interrupted).await;
        let applied = hook.and_then(|hook| hook.applied());
        return match outcome {
            Ok(child) => Ok(Started::new(Via::Nothing, child, applied.unwrap_or(Enforcement::NONE))),
            Err(ProcessError::Spawn(SpawnError::Io { error, .. }))
                if error.kind() == io::ErrorKind::Unsupported =>
            {
                Err(unconfined(applied.and_then(|applied| applied.missing()).unwrap_or("it")))
            }
            Err(error) => Err(error),
        };
    };
    let spaces = if rights.is_some() {
        let supervisor = supervisor.clone();
        // Tried once; blocks while it is.
        tokio::task::spawn_blocking(move || supervisor.spaces()).await.map_err(io::Error::other)?
    } else {
        Spaces::default()
    };
    let link = Link::attach(&supervisor, &mut spawn)?;
    let child = self::spawn(cx, spawn, interrupted.as_mut()).await?;
    let via = Via::Supervisor { link, plan: Box::new(Plan { rights, spaces }), group: None };
    Ok(Started::new(via, child, Enforcement::NONE))
}
