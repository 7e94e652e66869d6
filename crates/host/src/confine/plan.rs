//! What the host tells the supervisor, and what the supervisor answers: one JSON line each.

use serde::{Deserialize, Serialize};

use super::{Confinement, Enforcement, ReapLayer};

/// What a supervisor does with the command in its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// None: the command is not confined.
    pub(crate) rights: Option<Rights>,
    /// The namespaces to set up; those that a probe found to work.
    pub(crate) spaces: Spaces,
}

/// What a confined command has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights {
    pub(crate) declared: Confinement,
    /// The call's private directory; absolute, links resolved.
    pub(crate) private: String,
    /// Whether the command is not to be started when its files or its network cannot be confined.
    pub(crate) required: bool,
}

/// Namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spaces {
    /// The others need one: the process is not privileged.
    pub(crate) user: bool,
    pub(crate) mount: bool,
    pub(crate) net: bool,
    pub(crate) pid: bool,
    pub(crate) ipc: bool,
    /// A `/proc` of the PID namespace can be mounted.
    pub(crate) proc: bool,
}

/// An answer of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command runs.
    Started {
        /// Its process id, and its group's, as the supervisor sees it.
        pid: i32,
        /// What was applied.
        enforcement: Enforcement,
    },
    /// The command was not started; nothing is left.
    Failed(Fate),
    /// The command ended, with its status or 128 and its signal. What it left may run on.
    Exited { code: i32 },
}

/// Why a command was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fate {
    /// There is no such program.
    NotFound,
    /// It cannot be confined as required.
    Unconfined { missing: String },
    /// The host failed at something.
    Host { operation: String, code: i32 },
}

impl Spaces {
    /// What ends the processes that the command leaves.
    #[cfg(target_os = "linux")]
    pub(crate) fn reap(self) -> ReapLayer {
        if self.pid { ReapLayer::PidNamespace } else { ReapLayer::Subreaper }
    }
}
