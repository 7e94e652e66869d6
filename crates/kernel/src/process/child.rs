//! A child that runs.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::task::AbortHandle;

use super::output::ChildOutput;

/// What [`Child::stop`] leaves a group between SIGTERM and SIGKILL where the caller has no wish (kernel contract 6.2).
pub const DEFAULT_GRACE: Duration = Duration::from_millis(2_000);
/// The first and the longest pause between looks at a process that cannot be waited for otherwise.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The status, or 128 and the signal's number, as shells give it (host contract 5).
    pub fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// A signal for a group of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGHUP.
    Hangup,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Hangup => Self::HUP,
            Signal::Interrupt => Self::INT,
            Signal::Terminate => Self::TERM,
            Signal::Kill => Self::KILL,
        }
    }
}

/// A running child, at the head of its own session and process group.
///
/// Its end is seen, by [`wait`](Self::wait), before it is reaped: as long as this value lives its process id, and so its
/// group's, names nothing else, and [`kill_group`](Self::kill_group) cannot reach strangers. Dropping it kills the group
/// with SIGKILL and reaps the child; processes that left the group are not reached that way.
///
/// Waiting needs a Tokio runtime with IO and time.
pub struct Child {
    group: Group,
    stdout: Option<ChildOutput>,
    stderr: Option<ChildOutput>,
    feeder: Option<AbortHandle>,
    exit: Option<Exit>,
    watch: Watch,
}

impl Child {
    /// Takes a started process in. `input` is written to its standard input by a task of its own.
    pub(crate) fn adopt(mut group: Group, input: Option<Vec<u8>>) -> io::Result<Self> {
        let process = &mut group.process;
        let stdout = process.stdout.take().map(|pipe| ChildOutput::new(OwnedFd::from(pipe))).transpose()?;
        let stderr = process.stderr.take().map(|pipe| ChildOutput::new(OwnedFd::from(pipe))).transpose()?;
        let stdin =
            process.stdin.take().map(|pipe| pipe::Sender::from_owned_fd(OwnedFd::from(pipe))).transpose()?;
        let feeder = match (stdin, input) {
            // Reading less than there is is the child's right: EPIPE ends the task, and nobody asks how it ended.
            (Some(mut stdin), Some(input)) => {
                Some(tokio::spawn(async move { stdin.write_all(&input).await }).abort_handle())
            }
            _ => None,
        };
        let watch = Watch::of(group.id);
        Ok(Child { group, stdout, stderr, feeder, exit: None, watch })
    }

    /// The process id, which is the id of its group and of its session too.
    pub fn id(&self) -> u32 {
        self.group.process.id()
    }

    /// The reading end of its standard output; once.
    pub fn take_stdout(&mut self) -> Option<ChildOutput> {
        self.stdout.take()
    }

    /// The reading end of its standard error; once.
    pub fn take_stderr(&mut self) -> Option<ChildOutput> {
        self.stderr.take()
    }

    /// Waits until the child has ended. Its group may live on, and whoever inherited its output may go on writing.
    /// Calling again gives the same answer; a dropped future leaves everything as it was.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(exit) = self.try_wait()? {
                return Ok(exit);
            }
            self.watch.next(&mut pause).await?;
        }
    }

    /// How the child ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        if self.exit.is_none() {
            self.exit = ended(self.group.id)?;
        }
        Ok(self.exit)
    }

    /// Sends a signal to every process of the child's group. A group that has nobody left is fine.
    pub fn kill_group(&self, signal: Signal) -> io::Result<()> {
        self.group.kill(signal)
    }

    /// Stops the group: SIGTERM, and SIGKILL when `grace` is over or only the ended child is left of it. Gives back how the
    /// child ended.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<Exit> {
        self.kill_group(Signal::Terminate)?;
        let group = self.group.id;
        let over = async {
            self.wait().await?;
            let mut pause = FIRST_PAUSE;
            while group_lives(group) {
                rest(&mut pause).await;
            }
            Ok::<(), io::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(grace, over).await {
            // A child that cannot be waited for is not left running.
            self.kill_group(Signal::Kill)?;
            return Err(error);
        }
        self.kill_group(Signal::Kill)?;
        self.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).field("exit", &self.exit).finish_non_exhaustive()
    }
}

/// A started process that leads its group. Dropping it kills the group and reaps the process.
pub(crate) struct Group {
    process: process::Child,
    id: Pid,
}

impl Group {
    pub(crate) fn new(process: process::Child) -> Self {
        let id = Pid::from_child(&process);
        Group { process, id }
    }

    fn kill(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::kill_process_group(self.id, signal.into()) {
            // On some hosts a group of only ended processes answers EPERM.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(Errno::PERM) if matches!(ended(self.id), Ok(Some(_))) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.kill(Signal::Kill);
        if !matches!(self.process.try_wait(), Ok(None)) {
            return;
        }
        // Killed and not gone yet. It takes a moment, and longer while the host does something for it that cannot be
        // interrupted; a dropping thread may not wait for that. The thread that does ends with the child.
        let id = self.id;
        let reap = move || while wait_for(id, WaitIdOptions::EXITED) == Err(Errno::INTR) {};
        if std::thread::Builder::new()
            .name("flowcell-reap".to_owned())
            .stack_size(65_536)
            .spawn(reap)
            .is_err()
        {
            let _ = self.process.wait();
        }
    }
}

fn wait_for(id: Pid, options: WaitIdOptions) -> Result<Option<Exit>, Errno> {
    let status = rustix::process::waitid(WaitId::Pid(id), options)?;
    Ok(status.and_then(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Exit::Code(code)),
        (None, Some(signal)) => Some(Exit::Signal(signal)),
        (None, None) => None,
    }))
}

/// How a process ended, if it has; it is not reaped by that.
fn ended(id: Pid) -> io::Result<Option<Exit>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match wait_for(id, options) {
            Err(Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}

/// Whether a process of the group, the ended leader aside, still runs. Where that cannot be told it counts as running.
fn group_lives(group: Pid) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        processes.flatten().any(|process| {
            let name = process.file_name();
            if !name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
                return false;
            }
            let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { return false };
            // `pid (name) state parent group …`; the name may hold anything.
            let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
            let state = fields.next();
            let own: Option<i32> = fields.nth(1).and_then(|field| field.parse().ok());
            own == Some(group.as_raw_nonzero().get()) && !matches!(state, Some("Z" | "X"))
        })
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = group;
        true
    }
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
}

/// What tells that a process may have ended. No thread waits for one: a descriptor of the process becomes readable, and
/// where there are none of those the process is looked at again and again.
enum Watch {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Descriptor(tokio::io::unix::AsyncFd<OwnedFd>),
    Look,
}

impl Watch {
    fn of(id: Pid) -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::process::PidfdFlags;
            let descriptor = rustix::process::pidfd_open(id, PidfdFlags::empty())
                .map_err(io::Error::from)
                .and_then(super::exec::watch);
            if let Ok(descriptor) = descriptor {
                return Watch::Descriptor(descriptor);
            }
        }
        let _ = id;
        Watch::Look
    }

    async fn next(&mut self, pause: &mut Duration) -> io::Result<()> {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Watch::Descriptor(descriptor) => {
                // The caller has just seen the process running: what was ready before that is stale, and the descriptor
                // becomes ready anew, or is ready again at once.
                descriptor.readable().await?.clear_ready();
                Ok(())
            }
            Watch::Look => {
                rest(pause).await;
                Ok(())
            }
        }
    }
}
