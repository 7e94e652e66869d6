//! What a host can confine a command with.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// How a layer stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It was tried and worked.
    Works {
        /// Its version, where it has one.
        version: Option<u32>,
    },
    /// It is not there.
    Missing {
        /// Why, for a person.
        why: String,
    },
}

impl Standing {
    /// Whether it works.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Standing::Works { .. })
    }
}

/// The layers of this host, each tried once (host contract 5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Landlock, from version 3 on.
    pub landlock: Standing,
    /// A seccomp filter.
    pub seccomp: Standing,
    /// A mount namespace in which everything is read-only.
    pub mount: Standing,
    /// A network namespace.
    pub network: Standing,
    /// A PID namespace.
    pub pid: Standing,
    /// A supervisor.
    pub supervisor: Standing,
}

impl Probed {
    /// The layers with their names, for a listing.
    #[must_use]
    pub fn layers(&self) -> [(&'static str, &Standing); 6] {
        [
            ("landlock", &self.landlock),
            ("seccomp", &self.seccomp),
            ("mount namespace", &self.mount),
            ("network namespace", &self.network),
            ("pid namespace", &self.pid),
            ("supervisor", &self.supervisor),
        ]
    }
}

/// What this process can apply without a supervisor, tried once on a thread that ends. Namespaces need a supervisor:
/// [`Supervisor::probe`](super::Supervisor::probe) tells of them too.
pub fn probe() -> &'static Probed {
    static PROBED: OnceLock<Probed> = OnceLock::new();
    PROBED.get_or_init(try_threads)
}

fn missing(why: impl Into<String>) -> Standing {
    Standing::Missing { why: why.into() }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn try_threads() -> Probed {
    let other = || missing("this is a layer of Linux");
    Probed {
        landlock: other(),
        seccomp: other(),
        mount: other(),
        network: other(),
        pid: other(),
        supervisor: other(),
    }
}

/// Tries what a thread can apply to itself. The threads are over when it returns.
#[cfg(target_os = "linux")]
pub(super) fn try_threads() -> Probed {
    use std::io;

    use super::plan::Rights;
    use super::{FileLayer, filter, rules, sys};

    fn on_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let thread = std::thread::Builder::new().spawn(work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the trial failed")))
    }
    let landlock = match on_thread(|| rules::apply(&Rights::default(), false)) {
        Ok(FileLayer::Landlock { abi }) => Standing::Works { version: Some(abi) },
        Ok(FileLayer::None) => match sys::landlock_version() {
            0 => missing("the kernel does not enforce it"),
            version => missing(format!("the kernel's version is {version}, and 3 is the lowest that counts")),
        },
        Err(error) => missing(error.to_string()),
    };
    let seccomp = match on_thread(|| filter::apply(true, false)) {
        Ok(()) => Standing::Works { version: None },
        Err(error) => missing(error.to_string()),
    };
    let alone = || missing("no supervisor is set up");
    Probed { landlock, seccomp, mount: alone(), network: alone(), pid: alone(), supervisor: alone() }
}
