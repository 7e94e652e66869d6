//! Snapshots of the workspace: the port behind `ctx.checkpoint()`, `ctx.base` and the call option `at` (host contract 8).

use std::any::Any;
use std::fmt;

use std::sync::Arc;

use async_trait::async_trait;
use flowcell_host::checkpoints as host;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use crate::kernel::FileSystem;

/// The name of the tree as it was before the run's first call that is not sealed.
pub const BASE: &str = "base";

/// How many checkpoints one run may mint (harness contract 7, `checkpointCap`). The base is not counted.
pub const CHECKPOINT_CAP: usize = 8;

/// Why a snapshot cannot be taken or opened, in words for the cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// A snapshot of the tree, opened as a file system: its root is a copy, and its paths are those of the workspace.
pub struct View {
    /// The file system of the copy. Grants name the same paths as in the workspace.
    pub files: FileSystem,
    /// What keeps the copy; a copy of one call goes when this is dropped.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

/// Keeps snapshots of one workspace. What it does with the tree is its own: the user's version control is not part of it.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Takes a snapshot of the tree as it is and answers its reference, by which it is found again in any later process.
    ///
    /// # Errors
    /// [`Unavailable`] when the tree is over a bound, keeps changing, or cannot be kept.
    async fn capture(&self, run: &str) -> Result<String, Unavailable>;

    /// Opens a snapshot for reading. Calls share what it is read from.
    ///
    /// # Errors
    /// [`Unavailable`] when the snapshot is not there any more.
    async fn view(&self, reference: &str) -> Result<View, Unavailable>;

    /// Opens a snapshot for one call that may change it. What it changes is lost.
    ///
    /// # Errors
    /// As [`Checkpoints::view`].
    async fn scratch(&self, reference: &str) -> Result<View, Unavailable>;
}

/// What a flow can do at a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCheckpoint {
    /// Nothing: a call with `at` is `checkpoint_unsupported`.
    #[default]
    Unsupported,
    /// It reads: it runs over the copy that all readers of the checkpoint share.
    Reads,
    /// It runs programs: it gets a copy of its own, which is removed when the call ends.
    Runs,
}

/// The record of a checkpoint, or of the attempt to take one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointTaken {
    /// `cp-<frame>-<ordinal>`, or `base`.
    pub id: String,
    /// The snapshot; absent when none was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Why none was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a store of snapshots is opened, and why it cannot be.
type Opener = dyn Fn() -> Result<host::Checkpoints, String> + Send + Sync;

/// The host crate's store of snapshots, as the harness asks it. It is opened when it is first asked, so that a run that
/// takes no checkpoint leaves no trace of them.
#[derive(Clone)]
pub struct HostCheckpoints {
    open: Arc<Opener>,
    opened: Arc<OnceCell<host::Checkpoints>>,
}

impl fmt::Debug for HostCheckpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCheckpoints").field("opened", &self.opened.get()).finish_non_exhaustive()
    }
}

impl HostCheckpoints {
    /// Over the store that this opens. It runs on a thread that may block, again when it failed before.
    pub fn new(open: impl Fn() -> Result<host::Checkpoints, String> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), opened: Arc::default() }
    }

    async fn store(&self) -> Result<&host::Checkpoints, Unavailable> {
        let open = || async {
            let open = Arc::clone(&self.open);
            let opened = tokio::task::spawn_blocking(move || open()).await;
            opened.unwrap_or_else(|error| Err(error.to_string())).map_err(Unavailable)
        };
        self.opened.get_or_try_init(open).await
    }
}

fn unavailable(error: &host::CheckpointError) -> Unavailable {
    Unavailable(error.to_string())
}

#[async_trait]
impl Checkpoints for HostCheckpoints {
    async fn capture(&self, run: &str) -> Result<String, Unavailable> {
        Ok(self.store().await?.capture(run).await.map_err(|error| unavailable(&error))?.reference)
    }

    async fn view(&self, reference: &str) -> Result<View, Unavailable> {
        let view = self.store().await?.view(reference).await.map_err(|error| unavailable(&error))?;
        Ok(View { files: view.files().clone(), guard: Box::new(view) })
    }

    async fn scratch(&self, reference: &str) -> Result<View, Unavailable> {
        let view = self.store().await?.scratch(reference).await.map_err(|error| unavailable(&error))?;
        Ok(View { files: view.files().clone(), guard: Box::new(view) })
    }
}
