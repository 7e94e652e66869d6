//! Trying what this host can do, each layer for real.

use std::io::{self, Write as _};
use std::process::ExitCode;

use rustix::process::WaitOptions;

use super::super::mounts;
use super::super::plan::{Rights, Spaces};
use super::super::probe::{self, Probed, Standing};
use super::super::sys::{self, Fork};
use super::Found;

/// Tries, and prints what was found as one JSON document: this is all that the program does.
pub(super) fn run() -> ExitCode {
    let user = !privileged();
    let only = |change: fn(&mut Spaces)| {
        let mut spaces = Spaces { user, ..Spaces::default() };
        change(&mut spaces);
        spaces
    };
    let mount = attempt(|| {
        mounts::enter(only(|spaces| spaces.mount = true))?;
        mounts::read_only(&Rights::default())
    });
    let net = attempt(|| mounts::enter(only(|spaces| spaces.net = true)));
    let ipc = attempt(|| mounts::enter(only(|spaces| spaces.ipc = true)));
    let pid = attempt(|| {
        mounts::enter(only(|spaces| spaces.pid = true))?;
        match sys::fork()? {
            Fork::Child => leave(Ok(())),
            Fork::Parent(_) => ended(),
        }
    });
    let proc = attempt(|| {
        mounts::enter(only(|spaces| (spaces.mount, spaces.pid) = (true, true)))?;
        match sys::fork()? {
            Fork::Child => leave(mounts::read_only(&Rights::default()).and_then(|()| mounts::private_proc())),
            Fork::Parent(_) => ended(),
        }
    });
    // Last: what is above needs a process with one thread.
    let here = probe::try_threads();
    let spaces = Spaces {
        user: user && (mount.is_ok() || net.is_ok() || pid.is_ok() || ipc.is_ok()),
        mount: mount.is_ok(),
        net: net.is_ok(),
        pid: pid.is_ok(),
        ipc: ipc.is_ok(),
        proc: proc.is_ok(),
    };
    let stand = |outcome: io::Result<()>| match outcome {
        Ok(()) => Standing::Works { version: None },
        Err(error) => Standing::Missing { why: error.to_string() },
    };
    let probed = Probed {
        mount: stand(mount),
        network: stand(net),
        pid: stand(pid),
        supervisor: Standing::Works { version: None },
        ..here
    };
    let Ok(text) = serde_json::to_vec(&Found { probed, spaces }) else { return ExitCode::FAILURE };
    match io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether namespaces need no user namespace.
fn privileged() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|have| have.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}

/// Does something in a process of its own, and tells whether it worked there.
fn attempt(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match sys::fork()? {
        Fork::Child => leave(work()),
        Fork::Parent(_) => ended(),
    }
}

/// Ends this process; its status is the errno.
#[allow(clippy::exit)] // A fork of the trial has nothing to return to.
fn leave(outcome: io::Result<()>) -> ! {
    let code = outcome.map_or_else(|error| error.raw_os_error().unwrap_or(1), |()| 0);
    std::process::exit(code)
}

/// Waits for the one child there is.
fn ended() -> io::Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(Some((_, status))) => {
                return match status.exit_status() {
                    Some(0) => Ok(()),
                    Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                    None => Err(io::Error::other("it was killed")),
                };
            }
            Ok(None) => {}
        }
    }
}
