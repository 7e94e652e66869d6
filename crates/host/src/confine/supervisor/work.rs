//! The supervisor's own life: it takes a plan, starts the command, and stays until nothing of it is left.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::super::plan::{Fate, Plan, Report, Spaces};
use super::super::sys::{self, Fork};
use super::super::{Enforcement, apply, mounts, remove};
use super::sweep;

/// Bytes of a plan at most: twice the paths that globs may come to, each of the longest length.
pub(crate) const MAX_PLAN: usize = 64 << 20;
/// How often orphans that ended are reaped while the command runs.
const REAP_EVERY: Duration = Duration::from_millis(500);
/// How often a command is looked at that nothing tells the end of.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What one byte of the host's asks for.
pub(crate) const TERMINATE: u8 = b't';
/// Likewise.
pub(crate) const FINISH: u8 = b'k';

/// Serves one command.
pub(super) fn run(descriptor: RawFd, argv: &[OsString]) -> ExitCode {
    let Ok(fd) = sys::inherited(descriptor) else { return ExitCode::from(2) };
    let mut line = Line { stream: UnixStream::from(fd) };
    let Some(plan) = line.plan() else { return ExitCode::from(2) };
    serve(line, &plan, argv)
}

/// The line to the host.
struct Line {
    stream: UnixStream,
}

impl Line {
    /// The plan: its length in four bytes, the highest first, and its text. Nothing beyond it is read.
    fn plan(&mut self) -> Option<Plan> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let length = usize::try_from(u32::from_be_bytes(length)).ok().filter(|length| *length <= MAX_PLAN)?;
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whether the host heard.
    fn tell(&mut self, report: &Report) -> bool {
        let Ok(mut text) = serde_json::to_vec(report) else { return false };
        text.push(b'\n');
        self.stream.write_all(&text).is_ok()
    }
}

/// A failure of the host at something.
fn failed(operation: &str, error: &io::Error) -> Fate {
    Fate::Host { operation: operation.to_owned(), code: error.raw_os_error().unwrap_or(0) }
}

/// Tells that the command was not started.
fn refuse(mut line: Line, fate: Fate) -> ExitCode {
    line.tell(&Report::Failed(fate));
    ExitCode::FAILURE
}

fn serve(mut line: Line, plan: &Plan, argv: &[OsString]) -> ExitCode {
    // A command that signals its parent, or everything of a name, does not get rid of whoever ends what it leaves.
    let mask = sys::shield();
    let mut spaces =
        if plan.rights.is_some() && sys::single_threaded() { plan.spaces } else { Spaces::default() };
    // Mounts are for the process that starts the command: what comes after it is done from where the host is.
    let outer = Spaces { mount: spaces.mount && !spaces.pid, ..spaces };
    if let Err(error) = mounts::enter(outer) {
        return refuse(line, failed("enter namespaces", &error));
    }
    if spaces.pid {
        match sys::fork() {
            Err(error) => return refuse(line, failed("fork", &error)),
            Ok(Fork::Parent(init)) => {
                // The line is the child's, and its end is to be seen when the child ends.
                drop(line);
                return stand_by(init, plan);
            }
            Ok(Fork::Child) => {
                // Killed with the parent, and everything in the namespace with it.
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                let inner = Spaces { mount: spaces.mount, ..Spaces::default() };
                if let Err(error) = mounts::enter(inner) {
                    return refuse(line, failed("enter namespaces", &error));
                }
            }
        }
    } else if let Err(errno) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        return refuse(line, failed("adopt orphans", &errno.into()));
    }
    if let Some(rights) = &plan.rights
        && spaces.mount
    {
        spaces.mount = mounts::read_only(rights).is_ok();
        spaces.proc = spaces.proc && spaces.mount && mounts::private_proc().is_ok();
    }
    let (command, enforcement) = match start(plan, spaces, argv, mask) {
        Ok(started) => started,
        Err(fate) => return refuse(line, fate),
    };
    let ended = tend(&mut line, command, enforcement);
    // The first process of a namespace only has to end, and every other ends with it.
    if !spaces.pid {
        sweep::sweep(command, ended);
        remove_private(plan);
    }
    ExitCode::SUCCESS
}

/// Waits for the first process of a PID namespace.
fn stand_by(init: Pid, plan: &Plan) -> ExitCode {
    let _ = silence();
    while matches!(rustix::process::waitpid(Some(init), WaitOptions::empty()), Err(Errno::INTR)) {}
    remove_private(plan);
    ExitCode::SUCCESS
}

/// Removes the private directory of a call that is over, whether or not the host still lives to do it.
fn remove_private(plan: &Plan) {
    if let Some(rights) = plan.rights.as_ref().filter(|rights| !rights.private.is_empty()) {
        remove(Path::new(&rights.private));
    }
}

/// Starts the command on a thread of its own, so that what confines it does not confine the supervisor: it can be killed by
/// nobody inside, and can kill everybody.
/// The command gets the signals that `mask` does not keep.
fn start(
    plan: &Plan,
    spaces: Spaces,
    argv: &[OsString],
    mask: sys::Mask,
) -> Result<(Pid, Enforcement), Fate> {
    let Some((program, arguments)) = argv.split_first() else { return Err(Fate::NotFound) };
    let mut command = Command::new(program);
    // A group of its own: signals for it do not reach the supervisor.
    command.args(arguments).process_group(0);
    let started = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            let enforcement = match &plan.rights {
                Some(rights) => {
                    let applied =
                        apply::confine(rights, spaces).map_err(|error| failed("confine", &error))?;
                    if let (true, Some(missing)) = (rights.required, applied.missing()) {
                        return Err(Fate::Unconfined { missing: missing.to_owned() });
                    }
                    applied
                }
                None => Enforcement::NONE,
            };
            // In the child alone: this thread keeps what it keeps, or a command that is quick would reach the supervisor.
            sys::restore_in_child(&mut command, mask);
            match command.spawn() {
                Ok(child) => Ok((Pid::from_child(&child), enforcement)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fate::NotFound),
                Err(error) => Err(failed("start", &error)),
            }
        });
        thread
            .map_err(|error| failed("start a thread", &error))?
            .join()
            .unwrap_or_else(|_| Err(Fate::Host { operation: "start".to_owned(), code: 0 }))
    });
    let (command, mut enforcement) = started?;
    enforcement.reap = spaces.reap();
    Ok((command, enforcement))
}

/// Serves the host until it wants everything to end, or is gone. Gives back whether the command has ended by then.
fn tend(line: &mut Line, command: Pid, enforcement: Enforcement) -> bool {
    // The command has these now; an end of file has to be its own and its children's.
    let _ = silence();
    let watch = rustix::process::pidfd_open(command, PidfdFlags::empty()).ok();
    let mut ended = false;
    if !line.tell(&Report::Started { pid: command.as_raw_nonzero().get(), enforcement }) {
        return ended;
    }
    loop {
        let mut asked = false;
        {
            let mut waiting = vec![PollFd::new(&line.stream, PollFlags::IN)];
            if let (Some(watch), false) = (&watch, ended) {
                waiting.push(PollFd::new(watch, PollFlags::IN));
            }
            let pause = if watch.is_none() && !ended { LOOK_EVERY } else { REAP_EVERY };
            let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
            if poll(&mut waiting, Some(&pause)).is_ok() {
                asked = waiting.first().is_some_and(|line| !line.revents().is_empty());
            }
        }
        if let Some(code) = reap(command) {
            ended = true;
            if !line.tell(&Report::Exited { code }) {
                return ended;
            }
        }
        if asked {
            let mut byte = [0_u8];
            match line.stream.read(&mut byte) {
                Ok(1) if byte[0] == TERMINATE => {
                    let _ = rustix::process::kill_process_group(command, Signal::TERM);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The word to finish, or the end of the line.
                _ => return ended,
            }
        }
    }
}

/// Reaps whoever ended; the command's code when it is among them. Its group keeps its number as long as it has members.
fn reap(command: Pid) -> Option<i32> {
    let mut code = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((id, status))) if id == command => code = Some(code_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return code,
        }
    }
}

fn code_of(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => signal.saturating_add(128),
        (None, None) => 0,
    }
}

/// Lets go of standard input, output and error.
fn silence() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
