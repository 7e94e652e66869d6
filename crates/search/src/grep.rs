//! One call of `grep`: files are numbered in the order of the walk, searched by whoever is free, and counted in that
//! order again.

use crate::call::{NEITHER, Reply};
use crate::content::{Ask, Both, Found, Outcome, Scanner, Unreadable};
use crate::error::SearchError;
use crate::file::FileContent;
use crate::frontier::{Frontier, ListingJob, Passed, Stand};
use crate::listing::{Admission, Lister};
use crate::matcher::{CompileError, LineMatcher};
use crate::node::Node;
use crate::paths::{normalize, prefix};
use crate::pattern::Pattern;
use crate::pool::{Step, Work};
use crate::query::{GREP_LIMIT, GrepAnswer, GrepQuery, MAX_CONTEXT};
use crate::search::{accept, root_of};
use crate::symbols::has_symbols;
use crate::tally::Tally;
use crate::watch::{Cut, Watch};
use crate::why::Nothing;
use flowcell_kernel::{OpenFile, WalkRoot};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Files that are searched, or wait for it or for their turn, at once.
const WINDOW: usize = 256;
/// Files that a thread takes at once, at most.
const BATCH: usize = 8;

/// A `grep` whose input was accepted.
pub(crate) struct Grep {
    pub(crate) root: String,
    pattern: Pattern,
    /// What the pattern says as plain text, when it could mean something else.
    literal: Option<Pattern>,
    pub(crate) admission: Admission,
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// More context was asked for than is given.
    pub(crate) context_cut: bool,
    pub(crate) max_count: u64,
    pub(crate) files_only: bool,
    pub(crate) symbols: bool,
    pub(crate) limit: u64,
}

impl Grep {
    pub(crate) fn new(query: GrepQuery) -> Result<Self, SearchError> {
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
            literal: pattern.as_literal(),
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

    fn compile(&self) -> Result<Both<LineMatcher>, CompileError> {
        Ok(Both {
            pattern: LineMatcher::new(&self.pattern)?,
            literal: self.literal.as_ref().map(LineMatcher::new).transpose()?,
        })
    }
}

/// The call while it runs.
pub(crate) struct GrepCall {
    grep: Grep,
    /// The root as an absolute path.
    absolute: String,
    prefix: String,
    lister: Lister,
    threads: usize,
    watch: Arc<Watch>,
    reply: Reply<GrepAnswer>,
    compiled: OnceLock<Result<Both<LineMatcher>, CompileError>>,
    /// Scanners that no thread uses at the moment.
    scanners: Mutex<Vec<Scanner>>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// Files that wait to be searched.
    ready: VecDeque<Job>,
    /// The files from number `taken` on.
    window: VecDeque<Option<Searched>>,
    /// How many files were counted.
    taken: u64,
    pattern: Tally,
    literal: Tally,
}

enum Phase {
    Start(WalkRoot),
    /// One thread opens the root or explains an empty answer.
    Alone,
    /// The root is one file.
    File,
    Walk(Box<Frontier>, Arc<Node>),
    Over,
}

/// A file to search.
struct Job {
    number: u64,
    source: Source,
    /// What the walk had passed over before.
    passed: Passed,
}

enum Source {
    Root(OpenFile),
    Entry(Arc<Node>, OsString),
}

/// A file that was searched.
struct Searched {
    number: u64,
    /// Where it is; none for a root.
    entry: Option<(Arc<Node>, OsString)>,
    passed: Passed,
    in_turn: bool,
    outcome: Outcome,
}

/// What to look for in the files of one batch, the first of which may be in turn.
#[derive(Clone, Copy)]
struct Asks {
    first: Both<Ask>,
    first_in_turn: bool,
    other: Both<Ask>,
}

enum Task {
    Open(WalkRoot),
    List(ListingJob),
    Search(Vec<Job>, Asks),
}

impl GrepCall {
    pub(crate) fn new(
        mut grep: Grep,
        absolute: String,
        lister: impl FnOnce(Admission) -> Lister,
        threads: usize,
        root: WalkRoot,
        watch: Arc<Watch>,
        reply: Reply<GrepAnswer>,
    ) -> Self {
        Self {
            prefix: prefix(&grep.root),
            absolute,
            lister: lister(std::mem::take(&mut grep.admission)),
            grep,
            threads,
            watch,
            reply,
            compiled: OnceLock::new(),
            scanners: Mutex::default(),
            state: Mutex::new(State {
                phase: Phase::Start(root),
                ready: VecDeque::new(),
                window: VecDeque::new(),
                taken: 0,
                pattern: Tally::default(),
                literal: Tally::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work, and whether there may be another one.
    fn pick(&self) -> Result<(Task, bool), Step> {
        let mut state = self.lock();
        let state = &mut *state;
        match &mut state.phase {
            Phase::Start(_) => match std::mem::replace(&mut state.phase, Phase::Alone) {
                Phase::Start(root) => return Ok((Task::Open(root), false)),
                _ => return Err(Step::Idle),
            },
            Phase::Walk(frontier, _) => {
                if state.ready.len() < self.threads * BATCH
                    && let Some(listing) = frontier.next_listing()
                {
                    return Ok((Task::List(listing), true));
                }
            }
            Phase::File => {}
            Phase::Alone => return Err(Step::Idle),
            Phase::Over => return Err(Step::Over),
        }
        let count = (state.ready.len() / (2 * self.threads)).clamp(1, BATCH).min(state.ready.len());
        let jobs: Vec<Job> = state.ready.drain(..count).collect();
        let Some(first) = jobs.first() else { return Err(Step::Idle) };
        let first_in_turn = first.number == state.taken;
        let wants_literal =
            self.grep.literal.is_some() && state.pattern.total() == 0 && !state.literal.is_full();
        let asks = |in_turn: bool| Both {
            pattern: state.pattern.ask(&self.grep, in_turn, true),
            literal: wants_literal.then(|| state.literal.ask(&self.grep, in_turn, true)),
        };
        let asks = Asks { first: asks(first_in_turn), first_in_turn, other: asks(false) };
        Ok((Task::Search(jobs, asks), !state.ready.is_empty()))
    }

    fn run(&self, task: Task) -> Result<Step, Cut> {
        match task {
            Task::Open(WalkRoot::Dir(dir)) => match self.lister.root(&Arc::new(dir), &self.watch) {
                Ok(listed) => {
                    let listed = listed?;
                    let node = Arc::clone(&listed.node);
                    let mut state = self.lock();
                    state.phase = Phase::Walk(Box::new(Frontier::new(listed)), node);
                    self.advance(state)
                }
                Err(error) => Ok(self.end(Err(SearchError::of_root(error, &self.grep.root)))),
            },
            Task::Open(WalkRoot::File(file)) => {
                let mut state = self.lock();
                state.phase = Phase::File;
                let job = Job { number: 0, source: Source::Root(file), passed: Passed::default() };
                state.ready.push_back(job);
                state.window.push_back(None);
                Ok(Step::Worked)
            }
            Task::Open(WalkRoot::Other) => {
                let reason = NEITHER.to_owned();
                Ok(self.end(Err(SearchError::CommandFailed { root: self.grep.root.clone(), reason })))
            }
            Task::List(job) => {
                let ListingJob { node, name, .. } = &job;
                let listed = self.lister.list(node, name.clone(), false, &self.watch)?;
                let mut state = self.lock();
                if let Phase::Walk(frontier, _) = &mut state.phase {
                    frontier.complete(&job, listed);
                }
                self.advance(state)
            }
            Task::Search(jobs, asks) => {
                let mut scanner = match self.scanner() {
                    Ok(scanner) => scanner,
                    Err(error) => return Ok(self.end(Err(SearchError::InvalidPattern(error.to_string())))),
                };
                let mut searched = Vec::with_capacity(jobs.len());
                for (index, job) in jobs.into_iter().enumerate() {
                    let (asks, in_turn) = match index {
                        0 => (asks.first, asks.first_in_turn),
                        _ => (asks.other, false),
                    };
                    searched.push(self.search(&mut scanner, job, asks, in_turn)?);
                }
                self.scanners.lock().unwrap_or_else(PoisonError::into_inner).push(scanner);
                let mut state = self.lock();
                for file in searched {
                    let place = file.number.checked_sub(state.taken).and_then(|at| usize::try_from(at).ok());
                    if let Some(place) = place.and_then(|at| state.window.get_mut(at)) {
                        *place = Some(file);
                    }
                }
                self.advance(state)
            }
        }
    }

    fn scanner(&self) -> Result<Scanner, CompileError> {
        let idle = self.scanners.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(scanner) = idle {
            return Ok(scanner);
        }
        let compiled = self.compiled.get_or_init(|| self.grep.compile()).as_ref().map_err(Clone::clone)?;
        Ok(Scanner::new(compiled.clone()))
    }

    fn search(
        &self,
        scanner: &mut Scanner,
        job: Job,
        mut asks: Both<Ask>,
        in_turn: bool,
    ) -> Result<Searched, Cut> {
        let Job { number, source, passed } = job;
        let (opened, entry) = match source {
            Source::Root(file) => (Ok(file), None),
            Source::Entry(node, name) => (node.open_file(&name, &self.lister.handles), Some((node, name))),
        };
        if asks.pattern.symbols {
            let named = match &entry {
                Some((_, name)) => has_symbols(&name.to_string_lossy()),
                None => has_symbols(&self.grep.root),
            };
            asks.pattern.symbols = named;
            asks.literal = asks.literal.map(|ask| Ask { symbols: named, ..ask });
        }
        let outcome = match opened {
            Ok(file) => scanner.scan(&mut FileContent::new(file), asks, &self.watch)?,
            // It is below the root: nobody is told the reason.
            Err(_) => Outcome::Unreadable(Unreadable { gone: true, reason: String::new() }),
        };
        Ok(Searched { number, entry, passed, in_turn, outcome })
    }

    /// Counts the files whose turn has come, and hands out further ones.
    fn advance(&self, mut guard: MutexGuard<'_, State>) -> Result<Step, Cut> {
        let state = &mut *guard;
        while let Some(slot) = state.window.front_mut()
            && let Some(file) = slot.take()
        {
            if let Some(again) = self.again(state, &file) {
                state.ready.push_front(again);
                break;
            }
            state.window.pop_front();
            state.taken += 1;
            if let Err(error) = self.count(state, file) {
                drop(guard);
                return Ok(self.end(Err(error)));
            }
            if state.pattern.is_full() {
                let Some(tally) = self.conclude(state).map(|(tally, ..)| tally) else {
                    return Ok(Step::Over);
                };
                drop(guard);
                let answer = tally.finish(&self.grep, false, Passed::default(), Vec::new());
                return Ok(self.end(Ok(answer)));
            }
        }
        let at_end = match &mut state.phase {
            Phase::Walk(frontier, _) => loop {
                if state.window.len() >= WINDOW {
                    break false;
                }
                let (node, name) = match frontier.stand() {
                    Stand::File(node, name) => (Arc::clone(node), name.to_owned()),
                    Stand::Blocked => break false,
                    Stand::End => break true,
                };
                frontier.take();
                let number = state.taken + state.window.len() as u64;
                let passed = frontier.passed();
                state.ready.push_back(Job { number, source: Source::Entry(node, name), passed });
                state.window.push_back(None);
            },
            Phase::File => true,
            Phase::Start(_) | Phase::Alone => false,
            Phase::Over => return Ok(Step::Over),
        };
        if !at_end || !state.window.is_empty() {
            return Ok(Step::Worked);
        }
        let Some((pattern, literal, passed, node)) = self.conclude(state) else { return Ok(Step::Over) };
        drop(guard);
        let is_literal = pattern.total() == 0 && literal.total() > 0;
        let tally = if is_literal { literal } else { pattern };
        let mut why = Vec::new();
        if tally.total() == 0
            && let Some(node) = node
        {
            let nothing = Nothing {
                root: &self.grep.root,
                absolute: &self.absolute,
                node: &node,
                admission: &self.lister.admission,
                handles: &self.lister.handles,
                ignores: passed.ignoring > 0,
            };
            why = nothing.sentences(&self.watch)?;
        }
        Ok(self.end(Ok(tally.finish(&self.grep, is_literal, passed, why))))
    }

    /// Ends the walk, with what was counted.
    #[allow(clippy::type_complexity)]
    fn conclude(&self, state: &mut State) -> Option<(Tally, Tally, Passed, Option<Arc<Node>>)> {
        let (passed, node) = match std::mem::replace(&mut state.phase, Phase::Alone) {
            Phase::Walk(frontier, node) => (frontier.passed(), Some(node)),
            Phase::File => (Passed::default(), None),
            other => {
                state.phase = other;
                return None;
            }
        };
        Some((std::mem::take(&mut state.pattern), std::mem::take(&mut state.literal), passed, node))
    }

    /// The job to search the file once more, because it was searched before its turn and there was no room for all that is
    /// shown of it.
    fn again(&self, state: &State, file: &Searched) -> Option<Job> {
        let Outcome::Text(found) = &file.outcome else { return None };
        let pattern = &found.pattern;
        let literal = found.literal.as_ref().filter(|_| state.pattern.total() == 0 && pattern.count == 0);
        let needs = state.pattern.needs_more(&self.grep, pattern)
            || literal.is_some_and(|found| state.literal.needs_more(&self.grep, found));
        let (node, name) = file.entry.as_ref().filter(|_| needs)?;
        let source = Source::Entry(Arc::clone(node), name.clone());
        Some(Job { number: file.number, source, passed: file.passed })
    }

    fn count(&self, state: &mut State, file: Searched) -> Result<(), SearchError> {
        let Searched { entry, passed, in_turn, outcome, .. } = file;
        let State { pattern, literal, .. } = state;
        let literal = Some(literal).filter(|literal| pattern.total() == 0 && !literal.is_full());
        let shown = || match &entry {
            Some((node, name)) => node.shown(&self.prefix, name),
            None => normalize(&self.grep.root),
        };
        match outcome {
            Outcome::Text(Both { pattern: found, literal: as_literal }) => {
                pattern.text(&self.grep, found, in_turn, passed, shown);
                if let Some(literal) = literal {
                    let found: Found = as_literal.unwrap_or_default();
                    literal.text(&self.grep, found, in_turn, passed, shown);
                }
            }
            Outcome::Binary if entry.is_none() => {
                return Err(SearchError::BinaryFile { root: self.grep.root.clone() });
            }
            Outcome::Unreadable(Unreadable { gone: false, reason }) if entry.is_none() => {
                return Err(SearchError::CommandFailed { root: self.grep.root.clone(), reason });
            }
            Outcome::Binary => {
                pattern.binary();
                literal.into_iter().for_each(Tally::binary);
            }
            Outcome::Unreadable(_) => {
                pattern.unreadable();
                literal.into_iter().for_each(Tally::unreadable);
            }
        }
        Ok(())
    }

    fn end(&self, answer: Result<GrepAnswer, SearchError>) -> Step {
        let mut state = self.lock();
        let phase = std::mem::replace(&mut state.phase, Phase::Over);
        let ready = std::mem::take(&mut state.ready);
        let window = std::mem::take(&mut state.window);
        drop(state);
        // Who is stopped finds the answer given.
        self.reply.send(answer);
        self.watch.stop();
        drop((phase, ready, window));
        Step::Over
    }
}

impl Work for GrepCall {
    fn step(&self, more: &dyn Fn()) -> Step {
        let (task, another) = match self.pick() {
            Ok(picked) => picked,
            Err(step) => return step,
        };
        if another {
            more();
        }
        let step = match self.watch.check() {
            Ok(()) => self.run(task),
            Err(cut) => Err(cut),
        };
        step.unwrap_or_else(|cut| self.end(Err(cut.into())))
    }
}
