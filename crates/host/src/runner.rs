//! The test runner that a host declares for its workspace (host contract 5.3).

use std::collections::BTreeMap;

use crate::kernel::flows::error::StdError;

/// How the tests of a workspace are run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runner {
    /// The runner as a line for `bash`; a selection of tests is handed to it as arguments.
    pub command: String,
    /// Where it runs; the workspace root when it is not given. In a container a path inside.
    pub cwd: Option<String>,
    /// The directory of the repository on the host, for `against: "base"`; `cwd` when it is not given.
    pub root: Option<String>,
    /// The container that it runs in.
    pub container: Option<String>,
    /// Variables for it. Values never show.
    pub env: BTreeMap<String, String>,
    /// The ref that names the base, without another to fall back to.
    pub base_ref: Option<String>,
    /// Wall-clock milliseconds of a run for which the call names none.
    pub timeout_ms: Option<f64>,
    /// A JUnit XML file that the runner writes, read against where it runs. A file that a run leaves unchanged is no
    /// report of that run; then, and where there is none, the output is read. It is read before and after each run by
    /// `cat -- <report>`, which is asked for like any other command.
    pub report: Option<String>,
}

impl Runner {
    /// A runner with a command and nothing else.
    pub fn new(command: impl Into<String>) -> Self {
        Runner { command: command.into(), ..Runner::default() }
    }
}

/// Tells how the tests are run. Without one, `test` is `provider_unavailable`.
pub trait TestRunner: Send + Sync {
    /// The runner of the workspace.
    ///
    /// # Errors
    /// A failure of the flow, when the host cannot say: `provider_unavailable` where it declares none.
    fn declared(&self) -> Result<Runner, StdError>;
}

impl TestRunner for Runner {
    fn declared(&self) -> Result<Runner, StdError> {
        Ok(self.clone())
    }
}
