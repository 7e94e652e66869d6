//! A command that runs, with or without a supervisor in front of it.

use std::io;
use std::time::Duration;

use crate::confine::Enforcement;
#[cfg(target_os = "linux")]
use crate::confine::{Fate, Plan, ReapLayer, Report};
use crate::kernel::process::{Child, Exit, Signal, SpawnError};

use super::request::{Capture, ProcessError};
#[cfg(target_os = "linux")]
use super::run::unconfined;
use super::streams::Streams;

#[cfg(target_os = "linux")]
use super::link::Link;

/// What killing and reaping may take. What takes longer is killed with the process group, and reaped by itself.
const SWEEP: Duration = Duration::from_millis(1_100);

/// What is between the host and the command.
#[derive(Debug)]
pub(super) enum Via {
    /// Nothing: the child is the command.
    Nothing,
    /// The child is a supervisor; the command's process id, as the host sees it, is here unless it has a PID namespace.
    #[cfg(target_os = "linux")]
    Supervisor { link: Link, plan: Box<Plan>, group: Option<i32> },
}

/// A command that runs. Dropping it ends everything that the sweep of its host reaches.
#[derive(Debug)]
pub(super) struct Started {
    // Dropped in this order: the supervisor hears that the host is gone before it is killed.
    via: Via,
    child: Option<Child>,
    swept: bool,
    pub(super) enforcement: Enforcement,
}

impl Started {
    pub(super) fn new(via: Via, child: Child, enforcement: Enforcement) -> Self {
        Started { via, child: Some(child), swept: false, enforcement }
    }

    /// Its streams; once.
    pub(super) fn streams(&mut self, capture: Capture) -> Streams {
        Streams::of(self.child.as_mut(), capture)
    }

    /// Waits until the command itself has started: `program` is its name. A command that did not is still to be swept.
    pub(super) async fn handshake(&mut self, program: &str) -> Result<(), ProcessError> {
        match &mut self.via {
            Via::Nothing => Ok(()),
            #[cfg(target_os = "linux")]
            Via::Supervisor { link, plan, group } => {
                // A supervisor that does not listen ends the line, and that is told by what it answers.
                let _ = link.tell(plan).await;
                match link.report().await? {
                    Some(Report::Started { pid, enforcement }) => {
                        *group = (enforcement.reap != ReapLayer::PidNamespace).then_some(pid);
                        self.enforcement = enforcement;
                        Ok(())
                    }
                    Some(Report::Failed(fate)) => Err(match fate {
                        Fate::NotFound => SpawnError::NotFound { program: program.to_owned() }.into(),
                        Fate::Unconfined { missing } => unconfined(&missing),
                        Fate::Host { operation, code } => {
                            let error = io::Error::from_raw_os_error(code);
                            io::Error::new(error.kind(), format!("{operation}: {error}")).into()
                        }
                    }),
                    Some(Report::Exited { .. }) | None => {
                        Err(io::Error::other("the supervisor ended before it started the command").into())
                    }
                }
            }
        }
    }

    /// Waits until the command itself has ended: its status, or 128 and its signal.
    pub(super) async fn ended(&mut self) -> io::Result<i32> {
        let Some(child) = &mut self.child else { return Err(io::Error::other("the command was swept")) };
        match &mut self.via {
            Via::Nothing => Ok(child.wait().await?.code()),
            #[cfg(target_os = "linux")]
            Via::Supervisor { link, .. } => match link.report().await? {
                Some(Report::Exited { code }) => Ok(code),
                _ => Err(io::Error::other("the supervisor of the command was killed")),
            },
        }
    }

    /// Sends SIGTERM to the command's group.
    pub(super) fn terminate(&self) {
        match (&self.via, &self.child) {
            (Via::Nothing, Some(child)) => {
                let _ = child.kill_group(Signal::Terminate);
            }
            #[cfg(target_os = "linux")]
            (Via::Supervisor { link, .. }, _) => link.terminate(),
            (_, None) => {}
        }
    }

    /// Kills the command's group and what left it, and reaps, within [`SWEEP`].
    pub(super) async fn sweep(mut self) {
        self.swept = true;
        let Some(mut child) = self.child.take() else { return };
        match &self.via {
            Via::Nothing => {
                let _ = child.kill_group(Signal::Kill);
            }
            #[cfg(target_os = "linux")]
            Via::Supervisor { link, .. } => link.finish(),
        }
        let ended = tokio::time::timeout(SWEEP, child.wait()).await;
        // A supervisor that was killed has swept nothing.
        let swept = matches!(ended, Ok(Ok(Exit::Code(0)))) && !matches!(self.via, Via::Nothing);
        if !swept {
            self.kill_group();
            // Its session is that of whatever it started and did not leave it, and is known before it told anything.
            #[cfg(target_os = "linux")]
            if let Via::Supervisor { .. } = &self.via {
                kill_session(child.id()).await;
            }
        }
        let group = child.id();
        // The group of the child, the first process of a PID namespace among it, and reaps.
        drop(child);
        if !swept {
            gone(group).await;
        }
    }

    /// Kills the group of a command whose supervisor cannot.
    fn kill_group(&self) {
        #[cfg(target_os = "linux")]
        if let Via::Supervisor { group: Some(group), .. } = &self.via
            && let Some(group) = rustix::process::Pid::from_raw(*group)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Kills the members of a session but the process that leads it, whose number it is and who is not reaped yet, until none is
/// left or a moment is over.
#[cfg(target_os = "linux")]
async fn kill_session(session: u32) {
    let mut pause = Duration::from_micros(500);
    for _ in 0..8 {
        let members = members(session);
        if members.is_empty() {
            return;
        }
        for member in members {
            let _ = rustix::process::kill_process(member, rustix::process::Signal::KILL);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// The processes of a session that have not ended, its leader aside.
#[cfg(target_os = "linux")]
fn members(session: u32) -> Vec<rustix::process::Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let member = |process: std::fs::DirEntry| {
        let id: i32 = process.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // `pid (name) state parent group session …`; the name may hold anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let ended = matches!(fields.next()?, "Z" | "X");
        let own: u32 = fields.nth(2)?.parse().ok()?;
        let leads = u32::try_from(id) == Ok(session);
        if own == session && !leads && !ended { rustix::process::Pid::from_raw(id) } else { None }
    };
    processes.filter_map(member).collect()
}

/// Waits a moment for the members of a killed group to be gone: a signal is sent before it does what it does. Whoever they
/// fell to has to reap them, which is out of this process's hands.
async fn gone(group: u32) {
    #[cfg(target_os = "linux")]
    {
        let Some(group) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw) else { return };
        let mut pause = Duration::from_micros(500);
        let mut left = 8;
        while left > 0 && rustix::process::test_kill_process_group(group).is_ok() {
            tokio::time::sleep(pause).await;
            pause *= 2;
            left -= 1;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = group;
}

impl Drop for Started {
    /// Only a runtime that is shut down, or a panic, comes here with a command that was not swept. The supervisor gets a
    /// moment, since it is about to be killed.
    fn drop(&mut self) {
        if self.swept {
            return;
        }
        #[cfg(target_os = "linux")]
        if let (Via::Supervisor { link, .. }, Some(child)) = (&self.via, &mut self.child) {
            link.finish();
            for _ in 0..250 {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            self.kill_group();
        }
    }
}
