//! The engine: one call from its checks to its answer.

use crate::content::{Ask, Outcome, Scanner, Unreadable};
use crate::error::SearchError;
use crate::file::FileContent;
use crate::glob::GlobList;
use crate::hits::{Hit, Keep, Line};
use crate::matcher::LineMatcher;
use crate::notice::{self, Total};
use crate::paths::{normalize, prefix};
use crate::pattern::Pattern;
use crate::query::{
    COUNT_CEILING, ContextLine, GLOB_LIMIT, GREP_LIMIT, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery,
    MAX_CONTEXT, Match,
};
use crate::symbols::{Symbol, has_symbols};
use crate::walk::{Admission, Walk};
use crate::watch::{Cut, Watch};
use async_trait::async_trait;
use flowcell_kernel::{CallContext, HandlerError};
use flowcell_kernel::{OpenFile, WalkRoot};
use std::borrow::Cow;
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
/// It reads through the file system of the call alone, on a blocking thread of the surrounding Tokio
/// runtime, and stops when the call is cancelled, dropped or over its deadline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Engine;

impl Engine {
    /// The engine. It has no state of its own.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Search for Engine {
    async fn glob(&self, cx: &CallContext, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        let search = GlobSearch::new(query)?;
        let root = open_root(cx, &search.root).await?;
        Ok(on_thread(cx, move |watch| search.run(root, watch)).await?)
    }

    async fn grep(&self, cx: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        let search = GrepSearch::new(query)?;
        let root = open_root(cx, &search.root).await?;
        Ok(on_thread(cx, move |watch| search.run(root, watch)).await?)
    }
}

async fn open_root(cx: &CallContext, root: &str) -> Result<WalkRoot, SearchError> {
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(SearchError::Timeout),
        opened = cx.files.walk_root(root) => opened.map_err(|error| SearchError::of_root(error, root)),
    }
}

/// Runs `search` on a blocking thread. The answer to a cancellation does not wait for the thread, which
/// stops at its next look at the watch; so it does when the caller drops the call.
async fn on_thread<T: Send + 'static>(
    cx: &CallContext,
    search: impl FnOnce(&Watch) -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    let cancel = cx.cancel.child_token();
    let _stop_with_the_call = cancel.clone().drop_guard();
    let (clock, deadline) = (Arc::clone(&cx.clock), cx.deadline);
    let watch =
        Watch::new(move || cancel.is_cancelled() || deadline.is_some_and(|deadline| clock.now() >= deadline));
    let thread = tokio::task::spawn_blocking(move || {
        watch.check()?;
        search(&watch)
    });
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(SearchError::Timeout),
        // The thread fails to join only when the runtime shuts down or a defect panicked.
        done = thread => done.unwrap_or(Err(SearchError::Timeout)),
    }
}

impl From<Cut> for SearchError {
    fn from(_: Cut) -> Self {
        Self::Timeout
    }
}

/// Characters of a glob that a message shows.
const MAX_NAMED: usize = 200;
const NEITHER: &str = "it is neither a regular file nor a directory";

/// The root as given; the workspace when none is given, or an empty one.
fn root_of(root: Option<String>) -> String {
    root.filter(|root| !root.is_empty()).unwrap_or_else(|| ".".to_owned())
}

/// Accepts globs in order; a refusal names its glob, because a list can hold many.
fn accept(globs: &[String]) -> Result<GlobList, SearchError> {
    GlobList::accept(globs).map_err(|(index, refusal)| {
        let glob = shortened(globs.get(index).map_or("", String::as_str));
        SearchError::InvalidPattern(format!("in the glob \"{glob}\": {refusal}"))
    })
}

/// The start of a text that is too long for a message.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_NAMED) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A `glob` whose input was accepted.
struct GlobSearch {
    root: String,
    limit: u64,
    admission: Admission,
}

impl GlobSearch {
    fn new(query: GlobQuery) -> Result<Self, SearchError> {
        if query.pattern.is_empty() {
            return Err(SearchError::InvalidInput("pattern must not be empty".to_owned()));
        }
        let globs = accept(&[query.pattern])?;
        Ok(Self {
            root: root_of(query.root),
            limit: query.limit.unwrap_or(GLOB_LIMIT).min(GLOB_LIMIT),
            admission: Admission { hidden: query.hidden, no_ignore: query.no_ignore, globs },
        })
    }

    fn run(self, root: WalkRoot, watch: &Watch) -> Result<GlobAnswer, SearchError> {
        let mut answer = GlobAnswer::default();
        let mut not_permitted = 0;
        let mut found = |path: &str| {
            if answer.total < self.limit {
                answer.paths.push(path.to_owned());
            }
            answer.total += 1;
        };
        match root {
            WalkRoot::File(_) => found(&normalize(&self.root)),
            WalkRoot::Dir(dir) => {
                let mut walk = Walk::new(dir, prefix(&self.root), self.admission, watch)
                    .map_err(|error| SearchError::of_root(error, &self.root))??;
                while walk.next(watch)?.is_some() {
                    found(walk.shown());
                }
                not_permitted = walk.not_permitted();
            }
            WalkRoot::Other => {
                return Err(SearchError::CommandFailed { root: self.root, reason: NEITHER.to_owned() });
            }
        }
        answer.truncated = answer.total > self.limit;
        answer.notice = notice::join([
            answer.truncated.then(|| {
                notice::truncated(answer.paths.len(), Total::Exactly(answer.total), "paths", GLOB_LIMIT)
            }),
            notice::not_permitted(not_permitted),
        ]);
        Ok(answer)
    }
}

/// A `grep` whose input was accepted.
struct GrepSearch {
    root: String,
    pattern: Pattern,
    admission: Admission,
    before: u64,
    after: u64,
    /// More context was asked for than is given.
    context_cut: bool,
    max_count: u64,
    files_only: bool,
    symbols: bool,
    limit: u64,
}

impl GrepSearch {
    fn new(query: GrepQuery) -> Result<Self, SearchError> {
        let conflict = |text: &str| Err(SearchError::InvalidInput(text.to_owned()));
        if query.ignore_case && query.smart_case {
            return conflict("ignoreCase and smartCase exclude each other: pass one of them");
        }
        if query.context.is_some() && (query.before_context.is_some() || query.after_context.is_some()) {
            return conflict(
                "context excludes beforeContext and afterContext: pass either context or the other two",
            );
        }
        if query.max_count == Some(0) {
            return conflict("maxCount must be at least 1");
        }
        let pattern = match query.fixed_strings {
            true => Pattern::literal(&query.pattern)?,
            false => Pattern::regex(&query.pattern)?,
        };
        let pattern = match query.smart_case {
            true => pattern.smart_case(),
            false => pattern.ignoring_case(query.ignore_case),
        };
        let globs = accept(&query.globs)?;
        let before = query.context.or(query.before_context).unwrap_or(0);
        let after = query.context.or(query.after_context).unwrap_or(0);
        Ok(Self {
            root: root_of(query.root),
            pattern,
            admission: Admission { hidden: query.hidden, no_ignore: query.no_ignore, globs },
            before: before.min(MAX_CONTEXT),
            after: after.min(MAX_CONTEXT),
            context_cut: before.max(after) > MAX_CONTEXT,
            max_count: query.max_count.unwrap_or(u64::MAX),
            files_only: query.files_with_matches,
            symbols: !query.no_symbols && !query.files_with_matches,
            limit: query.limit.unwrap_or(GREP_LIMIT).min(GREP_LIMIT),
        })
    }

    fn run(mut self, root: WalkRoot, watch: &Watch) -> Result<GrepAnswer, SearchError> {
        let matcher = LineMatcher::new(&self.pattern)
            .map_err(|error| SearchError::InvalidPattern(error.to_string()))?;
        let mut scanner = Scanner::new(matcher);
        let mut tally = Tally::default();
        let mut not_permitted = 0;
        match root {
            WalkRoot::File(file) => {
                let shown = normalize(&self.root);
                match self.search_file(&mut scanner, file, &shown, &mut tally, watch)? {
                    Outcome::Binary => return Err(SearchError::BinaryFile { root: self.root }),
                    Outcome::Unreadable(Unreadable { gone: false, reason }) => {
                        return Err(SearchError::CommandFailed { root: self.root, reason });
                    }
                    _ => {}
                }
            }
            WalkRoot::Dir(dir) => {
                let admission = std::mem::take(&mut self.admission);
                let mut walk = Walk::new(dir, prefix(&self.root), admission, watch)
                    .map_err(|error| SearchError::of_root(error, &self.root))??;
                while tally.total < COUNT_CEILING
                    && let Some(name) = walk.next(watch)?
                {
                    match walk.open(&name) {
                        Ok(file) => {
                            self.search_file(&mut scanner, file, walk.shown(), &mut tally, watch)?;
                        }
                        Err(_) => tally.answer.files_searched += 1,
                    }
                }
                not_permitted = walk.not_permitted();
            }
            WalkRoot::Other => {
                return Err(SearchError::CommandFailed { root: self.root, reason: NEITHER.to_owned() });
            }
        }
        Ok(self.answer(tally, not_permitted))
    }

    fn search_file(
        &self,
        scanner: &mut Scanner,
        file: OpenFile,
        shown: &str,
        tally: &mut Tally,
        watch: &Watch,
    ) -> Result<Outcome, SearchError> {
        let left = if self.files_only { 0 } else { self.limit.saturating_sub(tally.total) };
        let most = if self.files_only { 1 } else { self.max_count.min(COUNT_CEILING - tally.total) };
        let ask = Ask {
            keep: Keep {
                hits: usize::try_from(left).unwrap_or(usize::MAX),
                before: self.before,
                after: self.after,
            },
            count: most,
            symbols: self.symbols && has_symbols(shown),
        };
        let outcome = scanner.scan(&mut FileContent::new(file), ask, watch)?;
        tally.answer.files_searched += 1;
        match outcome {
            Outcome::Text { count, hits } => {
                if self.files_only && count > 0 && tally.total < self.limit {
                    tally.answer.files.push(shown.to_owned());
                }
                tally.total += count;
                for (hit, symbol) in hits {
                    tally.show(shown, hit, symbol);
                }
                Ok(Outcome::Text { count, hits: Vec::new() })
            }
            Outcome::Binary => {
                tally.answer.skipped_binary += 1;
                Ok(Outcome::Binary)
            }
            unreadable => Ok(unreadable),
        }
    }

    fn answer(&self, tally: Tally, not_permitted: u64) -> GrepAnswer {
        let Tally { mut answer, total, cut_lines } = tally;
        answer.truncated = total > self.limit;
        let (shown, unit) =
            if self.files_only { (answer.files.len(), "files") } else { (answer.matches.len(), "matches") };
        let counted =
            if total >= COUNT_CEILING { Total::AtLeast(COUNT_CEILING) } else { Total::Exactly(total) };
        answer.notice = notice::join([
            answer.truncated.then(|| notice::truncated(shown, counted, unit, GREP_LIMIT)),
            notice::long_lines(cut_lines),
            (self.context_cut && total > 0).then(notice::context),
            notice::not_permitted(not_permitted),
        ]);
        answer
    }
}

/// What a `grep` found so far.
#[derive(Default)]
struct Tally {
    answer: GrepAnswer,
    /// Matches, or files under `filesWithMatches`.
    total: u64,
    /// Shown lines that were cut.
    cut_lines: u64,
}

impl Tally {
    fn show(&mut self, file: &str, hit: Hit, symbol: Option<Symbol>) {
        let mut line = |line: Line| {
            self.cut_lines += u64::from(line.shown.cut);
            ContextLine { line: line.number, text: line.shown.text }
        };
        let ContextLine { line: number, text } = line(hit.line);
        let before = hit.before.into_iter().map(&mut line).collect();
        let after = hit.after.into_iter().map(&mut line).collect();
        self.answer.matches.push(Match { file: file.to_owned(), line: number, text, before, after, symbol });
    }
}
