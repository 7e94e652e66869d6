//! The handler of `glob`.

use crate::query::{GlobAnswer, GlobQuery};
use crate::search::{Engine, Search};
use async_trait::async_trait;
use flowcell_kernel::flows::glob::{Input, Output};
use flowcell_kernel::{CallContext, Handler, HandlerError};
use std::fmt;
use std::sync::Arc;

/// Serves `glob` from a [`Search`].
#[derive(Clone)]
pub struct GlobHandler {
    search: Arc<dyn Search>,
}

impl GlobHandler {
    /// A handler on `search`.
    pub fn new(search: Arc<dyn Search>) -> Self {
        Self { search }
    }
}

impl Default for GlobHandler {
    /// A handler on the engine of this crate.
    fn default() -> Self {
        Self::new(Arc::new(Engine::new()))
    }
}

impl fmt::Debug for GlobHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobHandler").finish_non_exhaustive()
    }
}

#[async_trait]
impl Handler for GlobHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let query = GlobQuery {
            pattern: input.pattern,
            root: input.root,
            hidden: input.hidden.unwrap_or(false),
            no_ignore: input.no_ignore.unwrap_or(false),
            limit: input.limit,
        };
        let GlobAnswer { paths, total, truncated, notice } = self.search.glob(cx, query).await?;
        Ok(Output { paths, total, truncated, notice })
    }
}
