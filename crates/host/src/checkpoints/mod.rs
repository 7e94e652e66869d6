//! Checkpoints: what a workspace held at a moment, kept by content, to be looked at and run in later (host contract 8).
//!
//! [`Checkpoints`] walks the workspace as its policy allows, keeps each content once, and makes copies of what was captured.
//! The user's version control is never touched.
//!
//! ```
//! use std::sync::Arc;
//!
//! use flowcell_host::checkpoints::{CheckpointOptions, Checkpoints};
//! use flowcell_host::kernel::flows::capability::CapabilityPattern;
//! use flowcell_host::kernel::flows::rules::{Effect, Rule};
//! use flowcell_host::kernel::{
//!     Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SystemEntropy, Workspace,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let root = std::fs::canonicalize(dir.path())?;
//! # let data = tempfile::tempdir()?;
//! # std::fs::write(root.join("a"), "then")?;
//! let mut options = GrantStoreOptions::new(&root, Arc::new(MemoryPersist::new())).unattended();
//! let pattern = CapabilityPattern::parse("fs:read:/**").ok_or("pattern")?;
//! options.configured = vec![Rule::new(Effect::Allow, pattern)];
//! let authority = Authority::root(GrantStore::open(options).await?);
//! let workspace = Workspace::open(&root)?;
//! let files = FileSystem::new(authority, workspace, FsOptions::default(), Arc::new(SystemEntropy::new()?))?;
//!
//! let checkpoints = Checkpoints::open(data.path().join("checkpoints"), files, CheckpointOptions::default())?;
//! let snapshot = checkpoints.capture("run-1").await?;
//! std::fs::write(root.join("a"), "now")?;
//! let view = checkpoints.view(&snapshot.reference).await?;
//! assert_eq!(view.files().read("a", 100).await?.0, b"then");
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** two captures of an unchanged tree have one reference, and a copy of it has the same names, modes, bytes and
//! texts of links.
//!
//! **Invariant:** whatever kills a process at whatever write, every checkpoint that was captured before can be read.

mod capture;
mod copy;
mod error;
mod manifest;
mod observe;
mod rules;
mod store;
mod walk;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::FileSystem;

pub use copy::{ScratchView, View};
pub use error::CheckpointError;
pub use observe::Observation;

use capture::Known;
use observe::Seen;
use store::Store;
use walk::Scope;

/// Bounds, and what is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Folders that are left out, absolute: the data folder. The folder of the checkpoints itself always is.
    pub left_out: Vec<PathBuf>,
    /// Entries of a tree at most. Default 200,000.
    pub max_entries: usize,
    /// Bytes of contents that one capture adds to the store at most. Default 2 GiB.
    pub max_new_bytes: u64,
    /// Paths that an observation names at most. Default 1,000.
    pub max_paths: usize,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        CheckpointOptions {
            left_out: Vec::new(),
            max_entries: 200_000,
            max_new_bytes: 2 << 30,
            max_paths: 1_000,
        }
    }
}

/// What was captured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The digest of the manifest, 64 hexadecimal digits: the same for the same tree.
    pub reference: String,
}

/// The checkpoints of one workspace, kept in one folder. Clones share what they know; so may other processes, by the folder.
///
/// The methods need a Tokio runtime: they work on its blocking threads. A future that is dropped stops its work soon.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    files: FileSystem,
    scope: Scope,
    options: CheckpointOptions,
    /// What the last capture found, to read nothing twice.
    known: Mutex<Option<Arc<Known>>>,
    /// What the last observation found.
    seen: Mutex<Option<Seen>>,
}

impl Checkpoints {
    /// Opens the checkpoints in a folder, which is made when it is missing. `files` says what policy allows to read; nobody
    /// is asked for anything.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Store`] when the folder cannot be used.
    pub fn open(
        dir: impl Into<PathBuf>,
        files: FileSystem,
        options: CheckpointOptions,
    ) -> Result<Self, CheckpointError> {
        let store = Store::open(&dir.into())?;
        let scope = Scope::new(&files, options.left_out.iter().chain([&store.dir().to_owned()]));
        let inner = Inner { store, files, scope, options, known: Mutex::new(None), seen: Mutex::new(None) };
        Ok(Checkpoints { inner: Arc::new(inner) })
    }

    /// Captures the workspace for a run.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]: over a bound, a file that changes all the time, a workspace that may not be read.
    pub async fn capture(&self, run: &str) -> Result<Snapshot, CheckpointError> {
        let run = run.to_owned();
        self.work(move |inner, stop| capture::capture(inner, &run, stop)).await
    }

    /// Looks at the workspace: a digest of it, and what changed since the last look of these checkpoints.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] when the workspace cannot be listed.
    pub async fn observe(&self) -> Result<Observation, CheckpointError> {
        self.work(observe::observe).await
    }

    /// Whether this was captured, and for a run that still has its records.
    pub async fn contains(&self, reference: &str) -> bool {
        let reference = reference.to_owned();
        self.work(move |inner, _| Ok(inner.store.has_manifest(&reference))).await.unwrap_or(false)
    }

    /// A checkpoint to be read. The copy is made when it is first asked for.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Unknown`] for what was never captured; others when the copy cannot be made.
    pub async fn view(&self, reference: &str) -> Result<View, CheckpointError> {
        let reference = reference.to_owned();
        self.work(move |inner, stop| copy::view(inner, &reference, stop)).await
    }

    /// A checkpoint to work in: a copy of one's own, which is removed when it is dropped.
    ///
    /// # Errors
    ///
    /// As [`view`](Self::view).
    pub async fn scratch(&self, reference: &str) -> Result<ScratchView, CheckpointError> {
        let reference = reference.to_owned();
        self.work(move |inner, stop| copy::scratch(inner, &reference, stop)).await
    }

    /// Forgets what was captured for a run: its manifests, as far as no other run has them, and the contents and copies that
    /// are named by none any more.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Store`]; then nothing that a run still needs is gone.
    pub async fn forget(&self, run: &str) -> Result<(), CheckpointError> {
        let run = run.to_owned();
        self.work(move |inner, _| inner.store.forget(&run)).await
    }

    /// Works on a blocking thread, and tells it to stop when nobody waits any more.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &Stop) -> Result<T, CheckpointError> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let inner = Arc::clone(&self.inner);
        let stop = Stop::default();
        let _guard = StopOnDrop(stop.clone());
        let task = tokio::task::spawn_blocking(move || work(&inner, &stop));
        task.await.map_err(|error| CheckpointError::Store(format!("the work ended early: {error}")))?
    }
}

/// Whether work is to stop.
#[derive(Clone, Debug, Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn check(&self) -> Result<(), CheckpointError> {
        if self.0.load(Ordering::Relaxed) { Err(CheckpointError::Stopped) } else { Ok(()) }
    }
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Nothing that panics is done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
