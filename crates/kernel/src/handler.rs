//! What serves a flow.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::authority::Authority;
use crate::flows::capability::Capability;
use crate::flows::error::StdError;
use crate::fs::FileSystem;
use crate::notes::Notes;
use crate::permission::{GrantStoreError, PermissionDenied, PermissionError, PermissionRequired};
use crate::ports::{Clock, Entropy};
use crate::process::Spawner;
use crate::workspace::Workspace;

/// Serves one flow (kernel contract 6.4): decoded input in, output or an error out. What it reads, writes and starts goes
/// through the services of its [`CallContext`].
#[async_trait]
pub trait Handler: Send + Sync {
    /// The flow's decoded input.
    type Input: Send;
    /// The flow's output.
    type Output;

    /// Runs one call.
    async fn run(&self, cx: &CallContext, input: Self::Input) -> Result<Self::Output, HandlerError>;
}

/// How a call ends without an output.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// A failure of the flow, with a code of its list.
    #[error(transparent)]
    Flow(#[from] StdError),
    /// A permission that is missing and leaves the handler unchanged (kernel contract 5.2): what a flow answers itself is
    /// a [`HandlerError::Flow`].
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl From<PermissionRequired> for HandlerError {
    fn from(error: PermissionRequired) -> Self {
        HandlerError::Permission(error.into())
    }
}

impl From<PermissionDenied> for HandlerError {
    fn from(error: PermissionDenied) -> Self {
        HandlerError::Permission(error.into())
    }
}

impl From<GrantStoreError> for HandlerError {
    fn from(error: GrantStoreError) -> Self {
        HandlerError::Permission(error.into())
    }
}

/// What one call has (kernel contract 6.4).
///
/// The authority is held three times: by itself, for what a handler asks, in `files`, for what the file system asks, and in
/// `spawner`, for what its processes ask. All have to be the same one; [`new`](Self::new), [`with_authority`](Self::with_authority) and
/// [`admitting`](Self::admitting) keep them so.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use flowcell_kernel::flows::capability::Capability;
/// use flowcell_kernel::{
///     Authority, CallContext, Clock, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist,
///     SystemClock, SystemEntropy, Workspace,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path();
/// # std::fs::write(root.join("a"), "text")?;
/// let workspace = Workspace::open(root)?;
/// let options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
/// let authority = Authority::root(GrantStore::open(options).await?);
/// let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy::new()?));
/// let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone())?;
///
/// let mut cx = CallContext::new(files, clock.clone(), entropy);
/// cx.deadline = Some(clock.now() + Duration::from_secs(5));
/// assert!(cx.files.read("a", 100).await.is_err());
///
/// // A person answered once: the call may read this file, and asks nobody again.
/// let path = format!("fs:read:{}/a", cx.workspace.logical());
/// let cx = cx.admitting(vec![Capability::parse(&path).ok_or("capability")?]);
/// assert_eq!(cx.files.read("a", 100).await?.0, b"text");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CallContext {
    /// The call's authority, narrowed to what its flow declares.
    pub authority: Authority,
    /// The guarded file system under that authority.
    pub files: FileSystem,
    /// Starts processes under that authority.
    pub spawner: Spawner,
    /// The root of relative paths.
    pub workspace: Workspace,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub entropy: Arc<dyn Entropy>,
    /// Cancelled when nobody waits for the call any more.
    pub cancel: CancellationToken,
    /// When the call has to be over, on the scale of [`Clock::now`].
    pub deadline: Option<Duration>,
    /// The key of an irreversible call.
    pub idempotency_key: Option<String>,
    /// Facts for the call's journal record.
    pub notes: Notes,
}

impl CallContext {
    /// The context of a call that reaches files through `files`: authority and workspace are those of `files`; there is no
    /// deadline and no idempotency key, nothing has cancelled it, and it has no notes yet. The fields are public: set what
    /// differs.
    pub fn new(files: FileSystem, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        CallContext {
            authority: files.authority().clone(),
            workspace: files.workspace().clone(),
            spawner: Spawner::new(files.clone(), BTreeMap::new()),
            files,
            clock,
            entropy,
            cancel: CancellationToken::new(),
            deadline: None,
            idempotency_key: None,
            notes: Notes::new(),
        }
    }

    /// The same call under another authority, for what it asks itself and for its file system alike. Cancellation and
    /// notes are shared with the original.
    #[must_use]
    pub fn with_authority(self, authority: Authority) -> Self {
        let files = self.files.with_authority(authority.clone());
        CallContext { spawner: self.spawner.with_files(files.clone()), files, authority, ..self }
    }

    /// The same call with this ambient environment: what its processes inherit some names of
    /// ([`build_environment`](crate::process::build_environment)). Without it the ambient environment is empty.
    #[must_use]
    pub fn with_environment(self, ambient: BTreeMap<String, String>) -> Self {
        CallContext { spawner: Spawner::new(self.files.clone(), ambient), ..self }
    }

    /// The same call, with capabilities that a person answered `once` ([`Authority::admitting`]).
    #[must_use]
    pub fn admitting(self, once: Vec<Capability>) -> Self {
        let authority = self.authority.admitting(once);
        self.with_authority(authority)
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("authority", &self.authority)
            .field("files", &self.files)
            .field("cancelled", &self.cancel.is_cancelled())
            .field("deadline", &self.deadline)
            .field("idempotency_key", &self.idempotency_key)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}
