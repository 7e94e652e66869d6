//! What is asked of the service, and what comes back.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::confine::{Confinement, HermeticEnforcement, Supervisor};
use crate::kernel::process::{SpawnError, SpawnRequest};

/// One command to be run.
#[derive(Clone, Debug)]
pub struct ProcessRequest {
    /// What is started. `confine`, `launcher` and `inherit` are the service's own: it sets them.
    pub spawn: SpawnRequest,
    /// Wall time from the start on; over 0.
    pub timeout: Duration,
    /// What is kept of each stream.
    pub capture: Capture,
    /// The paths of a hermetic command; `None` confines nothing.
    pub confinement: Option<Confinement>,
    /// What the host set up.
    pub options: ProcessOptions,
}

impl ProcessRequest {
    /// A command that is not confined, on a host that set up nothing.
    pub fn new(spawn: SpawnRequest, timeout: Duration, capture: Capture) -> Self {
        ProcessRequest { spawn, timeout, capture, confinement: None, options: ProcessOptions::default() }
    }
}

/// What a host sets up for the processes of its calls. Clones share the supervisor's findings.
#[derive(Clone, Debug, Default)]
pub struct ProcessOptions {
    /// The program that owns what commands leave, and sets up namespaces. Without one, what leaves a command's process group
    /// is not swept.
    pub supervisor: Option<Supervisor>,
    /// The directory in which the private directories of hermetic calls are made: absolute, writable. Without one it is the
    /// `TMPDIR` of the ambient environment that the host handed to the spawner, else `/tmp`.
    pub temp: Option<PathBuf>,
    /// Whether a hermetic command runs where it cannot be confined.
    pub hermetic: HermeticEnforcement,
}

/// What is kept of a stream, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The first `head` bytes, and the last `tail` of those after them.
    HeadTail {
        /// Bytes kept from the start.
        head: usize,
        /// Bytes kept from the end.
        tail: usize,
    },
    /// The last `bytes`.
    Tail {
        /// Bytes kept.
        bytes: usize,
    },
}

/// A captured stream. What is missing of it lies between `head` and `tail`: `total - head.len() - tail.len()` bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The start; empty when only a tail was asked for.
    pub head: Vec<u8>,
    /// The end, from after `head` on.
    pub tail: Vec<u8>,
    /// Bytes that were printed.
    pub total: u64,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited {
        /// Its status, or 128 and the signal that killed it.
        code: i32,
        /// Standard output.
        stdout: Captured,
        /// Standard error.
        stderr: Captured,
        /// From its start until it ended.
        duration: Duration,
    },
    /// It ran out of time and was stopped.
    TimedOut {
        /// Standard output until then.
        stdout: Captured,
        /// Standard error until then.
        stderr: Captured,
        /// From its start until it was stopped.
        duration: Duration,
    },
}

/// A command that did not run to an end of its own or of its time.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It was not started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The call was interrupted; what had started was stopped, swept and reaped.
    #[error("cancelled")]
    Cancelled,
    /// It cannot be confined as the host requires, and was not started (`provider_unavailable`).
    #[error("{0}")]
    Unavailable(String),
    /// A declared write does not exist, and neither does a declared directory that it lies in
    /// (`outside_declared_writes`).
    #[error("{path} does not exist, and no declared directory holds it")]
    OutsideWrites {
        /// The path, absolute.
        path: String,
    },
    /// The host failed while the command ran, or before.
    #[error(transparent)]
    Host(#[from] io::Error),
}
