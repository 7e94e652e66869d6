//! Running the program.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::error::SearchError;
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::{CallContext, HandlerError};

/// One run of `rg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCall {
    /// The arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The directory that it runs in.
    pub directory: PathBuf,
    /// What it reads from standard input, which ends there.
    pub input: Vec<u8>,
}

/// What a run answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, whole.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// What starts `rg` for a [`RgPeer`](super::RgPeer): a host's own process service, or a program path of its configuration.
#[async_trait]
pub trait RunProgram: Send + Sync {
    /// Runs the program to its end. A run that is dropped leaves no process behind.
    ///
    /// # Errors
    ///
    /// It could not be started: `provider_unavailable`, as a rule.
    async fn run(&self, cx: &CallContext, call: ProgramCall) -> Result<ProgramOutput, HandlerError>;
}

/// The program and the call that it runs for.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) program: &'a dyn RunProgram,
    pub(super) cx: &'a CallContext,
}

impl Run<'_> {
    /// Standard output of one run. Nothing found is no failure, and neither are files that could not be read.
    pub(super) async fn output(&self, call: ProgramCall) -> Result<Vec<u8>, HandlerError> {
        let over = self.cx.deadline.is_some_and(|deadline| self.cx.clock.now() >= deadline);
        if over || self.cx.cancel.is_cancelled() {
            return Err(SearchError::Timeout.into());
        }
        let output = tokio::select! {
            biased;
            () = self.cx.cancel.cancelled() => return Err(SearchError::Timeout.into()),
            output = self.program.run(self.cx, call) => output?,
        };
        match output.code {
            Some(0 | 1) => Ok(output.stdout),
            // What could not be opened says nothing: messages are off.
            Some(2) if output.stderr.is_empty() => Ok(output.stdout),
            _ => {
                let text = String::from_utf8_lossy(&output.stderr);
                let reason = text.lines().next().unwrap_or("no message").to_owned();
                Err(StdError::new(Code::RequestFailed, format!("rg failed: {reason}")).into())
            }
        }
    }
}
