//! The supervisor: a process between the host and a command, which owns what the command leaves behind.
//!
//! It is the host's own program started again, or any other that calls [`intercept`] first thing in its `main`; the crate
//! has one, `flowcell-supervisor`. Orphans of the command fall to it, and it kills and reaps them until none is left, when
//! the host says so or when the host is gone. It sets up the namespaces of a hermetic command, which takes a process with
//! one thread: call `intercept` before anything starts threads, an async runtime included.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if let Some(code) = flowcell_host::supervisor::intercept(std::env::args_os()) {
//!         return code;
//!     }
//!     // The program itself, with its runtime.
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! ```
//! use flowcell_host::{ProcessOptions, Supervisor};
//!
//! // The path of the program is the host's to know; `std::env::current_exe` gives it to a binary.
//! let options = ProcessOptions { supervisor: Some(Supervisor::new("/usr/bin/product")), ..ProcessOptions::default() };
//! # drop(options);
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use super::plan::Spaces;
use super::probe::{Probed, Standing};

#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod trial;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
pub(crate) use work::{FINISH, MAX_PLAN, TERMINATE};

/// The first argument of a program that is started as a supervisor.
const MARK: &str = "--flowcell-supervise";
/// The second, when it is to say what the host can do.
const TRIAL: &str = "trial";
/// What a trial may take.
#[cfg(target_os = "linux")]
const TRIAL_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Serves as a supervisor if these arguments, the program's name first, say so. Call it before anything else and leave
/// with what it gives; `None` is for the program itself.
pub fn intercept(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let second = arguments.next();
    #[cfg(target_os = "linux")]
    let code = match second.as_deref().and_then(|second| second.to_str()) {
        Some(TRIAL) => trial::run(),
        Some(number) => number
            .parse()
            .map_or(ExitCode::from(2), |number| work::run(number, &arguments.collect::<Vec<_>>())),
        None => ExitCode::from(2),
    };
    #[cfg(not(target_os = "linux"))]
    let code = {
        drop((second, arguments));
        ExitCode::from(2)
    };
    Some(code)
}

/// A program that serves as a supervisor, and what it found the host to be able to do, which it is asked once. Clones
/// share that.
#[derive(Clone, Debug)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    arguments: Vec<OsString>,
    found: OnceLock<Found>,
}

/// What a trial found.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Found {
    pub(super) probed: Probed,
    pub(super) spaces: Spaces,
}

impl Supervisor {
    /// The program at this absolute path, which calls [`intercept`] first thing. Nothing is started yet.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self::with_arguments(program, Vec::new())
    }

    /// A program that comes to [`intercept`] with the arguments after these: a loader, an emulator.
    pub fn with_arguments(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> Self {
        Supervisor { inner: Arc::new(Inner { program: program.into(), arguments, found: OnceLock::new() }) }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.inner.program
    }

    /// What this host can confine a command with, each layer tried for real by the program; once, then remembered. It
    /// takes some milliseconds, and blocks.
    #[must_use]
    pub fn probe(&self) -> Probed {
        self.found().probed.clone()
    }

    /// The namespaces that work here.
    pub(crate) fn spaces(&self) -> Spaces {
        self.found().spaces
    }

    fn found(&self) -> &Found {
        self.inner.found.get_or_init(|| {
            self.ask().unwrap_or_else(|why| {
                let why = format!("the supervisor {}: {why}", self.inner.program.display());
                let missing = || Standing::Missing { why: why.clone() };
                let here = super::probe::probe().clone();
                let probed = Probed {
                    mount: missing(),
                    network: missing(),
                    pid: missing(),
                    supervisor: missing(),
                    ..here
                };
                Found { probed, spaces: Spaces::default() }
            })
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn ask(&self) -> Result<Found, String> {
        Err("supervisors are for Linux".to_owned())
    }

    #[cfg(target_os = "linux")]
    fn ask(&self) -> Result<Found, String> {
        use std::io::Read as _;
        use std::process::Stdio;
        use std::time::{Duration, Instant};

        let mut child = std::process::Command::new(&self.inner.program)
            .args(&self.inner.arguments)
            .args([MARK, TRIAL])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let until = Instant::now() + TRIAL_PATIENCE;
        let ended = loop {
            match child.try_wait() {
                Ok(Some(_)) => break true,
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => break false,
            }
        };
        if !ended {
            let _ = child.kill();
            let _ = child.wait();
            return Err("it did not answer".to_owned());
        }
        let mut answer = String::new();
        let stdout = child.stdout.take();
        // Short enough for the pipe to hold; a program that is no supervisor may have said more.
        stdout
            .map_or(Ok(0), |stdout| stdout.take(65_536).read_to_string(&mut answer))
            .map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|_| "it does not serve as one".to_owned())
    }

    /// What goes before a command; `descriptor` is the supervisor's end of the line to the host.
    #[cfg(target_os = "linux")]
    pub(crate) fn launcher(&self, descriptor: std::os::fd::RawFd) -> Vec<OsString> {
        let mut launcher = vec![self.inner.program.clone().into_os_string()];
        launcher.extend(self.inner.arguments.iter().cloned());
        launcher.extend([MARK.into(), descriptor.to_string().into()]);
        launcher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_arguments_are_the_programs_own() {
        let arguments = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(intercept(arguments(&[])).is_none());
        assert!(intercept(arguments(&["product"])).is_none());
        assert!(intercept(arguments(&["product", "exec", MARK])).is_none());
        assert!(intercept(arguments(&[MARK, "exec"])).is_none());
        assert!(intercept(arguments(&["product", MARK])).is_some());
        assert!(intercept(arguments(&["product", MARK, "no number", "true"])).is_some());
        assert!(intercept(arguments(&["product", MARK, "987654", "true"])).is_some());
    }

    #[test]
    fn what_is_no_supervisor_is_found_out() {
        for program in ["/bin/true", "/bin/echo", "/no/such/program"] {
            let supervisor = Supervisor::new(program);
            assert_eq!(supervisor.spaces(), Spaces::default());
            let probed = supervisor.probe();
            assert!(
                matches!(&probed.supervisor, Standing::Missing { why } if why.contains(program)),
                "{probed:?}"
            );
        }
    }
}
