//! The handler of `grep`.

use crate::query::{self, GrepAnswer, GrepQuery};
use crate::search::{Engine, Search};
use async_trait::async_trait;
use flowcell_kernel::flows::grep::{ContextLine, Input, Match, Output, Symbol};
use flowcell_kernel::{CallContext, Handler, HandlerError};
use std::fmt;
use std::sync::Arc;

/// Serves `grep` from a [`Search`].
#[derive(Clone)]
pub struct GrepHandler {
    search: Arc<dyn Search>,
}

impl GrepHandler {
    /// A handler on `search`.
    pub fn new(search: Arc<dyn Search>) -> Self {
        Self { search }
    }
}

impl Default for GrepHandler {
    /// A handler on the engine of this crate.
    fn default() -> Self {
        Self::new(Arc::new(Engine::new()))
    }
}

impl fmt::Debug for GrepHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrepHandler").finish_non_exhaustive()
    }
}

#[async_trait]
impl Handler for GrepHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        Ok(output(self.search.grep(cx, query(input)).await?))
    }
}

fn query(input: Input) -> GrepQuery {
    GrepQuery {
        pattern: input.pattern,
        root: input.root,
        fixed_strings: input.fixed_strings.unwrap_or(false),
        ignore_case: input.ignore_case.unwrap_or(false),
        smart_case: input.smart_case.unwrap_or(false),
        globs: input.globs.unwrap_or_default(),
        before_context: input.before_context,
        after_context: input.after_context,
        context: input.context,
        max_count: input.max_count,
        files_with_matches: input.files_with_matches.unwrap_or(false),
        hidden: input.hidden.unwrap_or(false),
        no_symbols: !input.symbols.unwrap_or(true),
        no_ignore: input.no_ignore.unwrap_or(false),
        limit: input.limit,
    }
}

fn output(answer: GrepAnswer) -> Output {
    Output {
        matches: answer.matches.into_iter().map(found).collect(),
        files: answer.files,
        files_searched: answer.files_searched,
        skipped_binary: answer.skipped_binary,
        truncated: answer.truncated,
        retried_as_literal: answer.retried_as_literal.then_some(true),
        notice: answer.notice,
    }
}

fn found(found: query::Match) -> Match {
    Match {
        file: found.file,
        line: found.line,
        text: found.text,
        before: lines(found.before),
        after: lines(found.after),
        symbol: found.symbol.map(|symbol| Symbol {
            kind: symbol.kind,
            name: symbol.name,
            start_line: symbol.start_line,
            end_line: symbol.end_line,
        }),
    }
}

fn lines(lines: Vec<query::ContextLine>) -> Vec<ContextLine> {
    lines.into_iter().map(|line| ContextLine { line: line.line, text: line.text }).collect()
}
