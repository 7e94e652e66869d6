//! The engine, and the trait that a host may bind a peer of its own for.

use crate::call::{open_root, run};
use crate::error::SearchError;
use crate::find::{Find, FindCall};
use crate::glob::GlobList;
use crate::grep::{Grep, GrepCall};
use crate::listing::{Admission, Lister};
use crate::pool::Pool;
use crate::query::{GlobAnswer, GlobQuery, GrepAnswer, GrepQuery};
use crate::text::shortened;
use async_trait::async_trait;
use flowcell_kernel::{CallContext, HandlerError};
use std::sync::Arc;

/// What the flows `glob` and `grep` are served by. [`Engine`] is the implementation; a host may bind its
/// own, whose failures pass unchanged.
#[async_trait]
pub trait Search: Send + Sync {
    /// Finds files by their names (search contract 1.1).
    ///
    /// # Errors
    ///
    /// Those of search contract 7.
    async fn glob(&self, cx: &CallContext, query: GlobQuery) -> Result<GlobAnswer, HandlerError>;

    /// Finds lines by what they hold (search contract 1.2).
    ///
    /// # Errors
    ///
    /// Those of search contract 7.
    async fn grep(&self, cx: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError>;
}

/// The search engine in process.
///
/// It reads through the file system of the call alone, on threads of its own, and stops when the call is cancelled,
/// dropped or over its deadline. The threads start when there is something to do and end when there is nothing for ten
/// seconds. All calls of an engine and of its clones share them, and the directories that it holds open: parallel calls
/// multiply neither. An answer does not depend on their number.
#[derive(Debug, Clone)]
pub struct Engine {
    pool: Arc<Pool>,
}

impl Engine {
    /// An engine of one thread.
    pub fn new() -> Self {
        Self::with_threads(1)
    }

    /// An engine of at most so many threads, itself at least 1 and at most [`MAX_THREADS`](crate::MAX_THREADS). How many
    /// a host gives it is the host's decision; as many as there are processors is a good one.
    pub fn with_threads(threads: usize) -> Self {
        Self { pool: Arc::new(Pool::new(threads)) }
    }

    /// Threads of the engine, at most.
    pub fn threads(&self) -> usize {
        self.pool.size()
    }

    fn lister(&self) -> impl FnOnce(Admission) -> Lister + use<> {
        let handles = self.pool.handles();
        |admission| Lister { admission, handles, explains: false }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Search for Engine {
    async fn glob(&self, cx: &CallContext, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        let find = Find::new(query)?;
        let (root, name) = (open_root(cx, &find.root).await?, find.root.clone());
        let absolute = cx.files.absolute(&name);
        let call = |watch, reply| FindCall::new(find, absolute, self.lister(), root, watch, reply);
        Ok(run(&self.pool, cx, &name, call).await?)
    }

    async fn grep(&self, cx: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        let grep = Grep::new(query)?;
        let (root, name) = (open_root(cx, &grep.root).await?, grep.root.clone());
        let absolute = cx.files.absolute(&name);
        let threads = self.pool.size();
        let call = |watch, reply| GrepCall::new(grep, absolute, self.lister(), threads, root, watch, reply);
        Ok(run(&self.pool, cx, &name, call).await?)
    }
}

/// The root as given; the workspace when none is given, or an empty one.
pub(crate) fn root_of(root: Option<String>) -> String {
    root.filter(|root| !root.is_empty()).unwrap_or_else(|| ".".to_owned())
}

/// Accepts globs in order; a refusal names its glob, because a list can hold many.
pub(crate) fn accept(globs: &[String]) -> Result<GlobList, SearchError> {
    GlobList::accept(globs).map_err(|(index, refusal)| {
        let glob = shortened(globs.get(index).map_or("", String::as_str));
        SearchError::InvalidPattern(format!("in the glob \"{glob}\": {refusal}"))
    })
}
