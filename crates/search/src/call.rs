//! What the calls of both flows have in common: they run on the threads of the engine while their caller waits.

use crate::error::SearchError;
use crate::pool::{Pool, Work};
use crate::watch::{Cut, Watch};
use flowcell_kernel::{CallContext, WalkRoot};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The root of a search as the kernel opened it.
pub(crate) async fn open_root(cx: &CallContext, root: &str) -> Result<WalkRoot, SearchError> {
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(SearchError::Timeout),
        opened = cx.files.walk_root(root) => opened.map_err(|error| SearchError::of_root(error, root)),
    }
}

/// Where the answer of a call goes, once.
pub(crate) struct Reply<T>(Mutex<Option<oneshot::Sender<Result<T, SearchError>>>>);

impl<T> Reply<T> {
    pub(crate) fn send(&self, answer: Result<T, SearchError>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // A caller that is gone wants no answer.
            let _ = sender.send(answer);
        }
    }
}

/// Takes a call off its pool when its caller has the answer, or is gone.
struct OffPool<'a> {
    pool: &'a Pool,
    id: u64,
    watch: Arc<Watch>,
}

impl Drop for OffPool<'_> {
    fn drop(&mut self) {
        self.watch.stop();
        self.pool.remove(self.id);
    }
}

/// Runs the call that `work` makes on the threads of `pool`. The answer to a cancellation does not wait for them; they
/// stop at their next look at the watch, and so they do when the caller drops the call.
pub(crate) async fn run<T: Send, W: Work + 'static>(
    pool: &Pool,
    cx: &CallContext,
    root: &str,
    work: impl FnOnce(Arc<Watch>, Reply<T>) -> W,
) -> Result<T, SearchError> {
    let (cancel, clock, deadline) = (cx.cancel.clone(), Arc::clone(&cx.clock), cx.deadline);
    let watch = Arc::new(Watch::new(move || {
        cancel.is_cancelled() || deadline.is_some_and(|deadline| clock.now() >= deadline)
    }));
    let (sender, receiver) = oneshot::channel();
    let work = Arc::new(work(Arc::clone(&watch), Reply(Mutex::new(Some(sender)))));
    let id = pool.add(work).map_err(|error| SearchError::CommandFailed {
        root: root.to_owned(),
        reason: format!("no thread could be started: {error}"),
    })?;
    let _off = OffPool { pool, id, watch };
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(SearchError::Timeout),
        // No answer comes only when a defect panicked.
        answer = receiver => answer.unwrap_or(Err(SearchError::Timeout)),
    }
}

impl From<Cut> for SearchError {
    fn from(_: Cut) -> Self {
        Self::Timeout
    }
}

pub(crate) const NEITHER: &str = "it is neither a regular file nor a directory";
