//! The host's services, and what one call gets of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::flows::capability::Capability;
use crate::kernel::fs::FileSystem;
use crate::kernel::{Authority, CallContext, Clock, Entropy, Workspace};
use tokio_util::sync::CancellationToken;

use crate::checkpoint::Checkpoints;
use crate::engine::Dispatch;
use crate::error::HarnessError;

/// What a host hands to the harness once, and what every call's guarded services are made of.
#[derive(Clone)]
pub struct Services {
    /// The host's authority, which every call's is narrowed from.
    pub authority: Authority,
    /// The guarded file system of the workspace.
    pub files: FileSystem,
    /// The workspace.
    pub workspace: Workspace,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Cancelled when the run is interrupted.
    pub cancel: CancellationToken,
    /// The environment that commands inherit some names of (kernel contract 6.2). The harness reads none itself.
    pub environment: Arc<BTreeMap<String, String>>,
    /// What keeps snapshots of the workspace; `None`: cells get none.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

impl Services {
    /// The services of a host whose authority and workspace are those of its file system. Nothing cancels them yet.
    pub fn new(files: FileSystem, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            authority: files.authority().clone(),
            workspace: files.workspace().clone(),
            files,
            clock,
            entropy,
            cancel: CancellationToken::new(),
            environment: Arc::default(),
            checkpoints: None,
        }
    }

    /// These services over another file system: that of a checkpoint.
    #[must_use]
    pub fn with_files(&self, files: FileSystem) -> Self {
        Self { workspace: files.workspace().clone(), files, ..self.clone() }
    }

    /// The services of one call: its authority is what its flow declared, and what a person allowed for it once.
    ///
    /// # Errors
    /// `engine_failed` when a declared capability does not parse.
    pub fn context(
        &self,
        declared: &[String],
        admitted: Vec<Capability>,
        idempotency_key: Option<String>,
    ) -> Result<CallContext, HarnessError> {
        let authority = self
            .authority
            .attenuate_declared(declared)
            .map_err(|error| HarnessError::engine(error.to_string()))?
            .admitting(admitted);
        let files = self.files.with_authority(authority);
        let mut context = CallContext::new(files, Arc::clone(&self.clock), Arc::clone(&self.entropy))
            .with_environment(BTreeMap::clone(&self.environment));
        context.cancel = self.cancel.child_token();
        context.idempotency_key = idempotency_key;
        Ok(context)
    }

    /// The services of a dispatch.
    ///
    /// # Errors
    /// As [`Services::context`].
    pub(crate) fn dispatch(
        &self,
        declared: &[String],
        dispatch: Dispatch,
        key: &str,
    ) -> Result<CallContext, HarnessError> {
        self.context(declared, dispatch.admitted, Some(key.to_owned()))
    }
}
