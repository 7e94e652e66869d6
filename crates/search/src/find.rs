//! One call of `glob`.

use crate::call::{NEITHER, Reply};
use crate::error::SearchError;
use crate::frontier::{Frontier, ListingJob, Stand};
use crate::listing::{Admission, Lister};
use crate::node::Node;
use crate::notice::{self, Total};
use crate::paths::{normalize, prefix};
use crate::pool::{Step, Work};
use crate::query::{GLOB_LIMIT, GlobAnswer, GlobQuery};
use crate::search::{accept, root_of};
use crate::watch::{Cut, Watch};
use crate::why::Nothing;
use flowcell_kernel::WalkRoot;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `glob` whose input was accepted.
pub(crate) struct Find {
    pub(crate) root: String,
    limit: u64,
    pub(crate) admission: Admission,
}

impl Find {
    pub(crate) fn new(query: GlobQuery) -> Result<Self, SearchError> {
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
}

/// The call while it runs.
pub(crate) struct FindCall {
    root: String,
    /// The root as an absolute path.
    absolute: String,
    prefix: String,
    limit: u64,
    lister: Lister,
    watch: Arc<Watch>,
    reply: Reply<GlobAnswer>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    answer: GlobAnswer,
}

enum Phase {
    Start(WalkRoot),
    /// One thread lists the root or explains an empty answer.
    Alone,
    Walk(Box<Frontier>, Arc<Node>),
    Over,
}

enum Task {
    Open(WalkRoot),
    List(ListingJob),
}

impl FindCall {
    pub(crate) fn new(
        find: Find,
        absolute: String,
        lister: impl FnOnce(Admission) -> Lister,
        root: WalkRoot,
        watch: Arc<Watch>,
        reply: Reply<GlobAnswer>,
    ) -> Self {
        Self {
            prefix: prefix(&find.root),
            root: find.root,
            absolute,
            limit: find.limit,
            lister: lister(find.admission),
            watch,
            reply,
            state: Mutex::new(State { phase: Phase::Start(root), answer: GlobAnswer::default() }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pick(&self) -> Result<Task, Step> {
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Walk(frontier, _) => frontier.next_listing().map(Task::List).ok_or(Step::Idle),
            Phase::Alone => Err(Step::Idle),
            Phase::Over => Err(Step::Over),
            Phase::Start(_) => match std::mem::replace(&mut state.phase, Phase::Alone) {
                Phase::Start(root) => Ok(Task::Open(root)),
                _ => Err(Step::Idle),
            },
        }
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
                Err(error) => Ok(self.end(Err(SearchError::of_root(error, &self.root)))),
            },
            Task::Open(WalkRoot::File(_)) => {
                let mut answer = GlobAnswer::default();
                self.found(&mut answer, || normalize(&self.root));
                Ok(self.end(Ok(self.finished(answer, 0, 0, Vec::new()))))
            }
            Task::Open(WalkRoot::Other) => {
                let reason = NEITHER.to_owned();
                Ok(self.end(Err(SearchError::CommandFailed { root: self.root.clone(), reason })))
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
        }
    }

    /// Takes every file that the walk can come to.
    fn advance(&self, mut state: MutexGuard<'_, State>) -> Result<Step, Cut> {
        let State { phase, answer } = &mut *state;
        let Phase::Walk(frontier, node) = phase else { return Ok(Step::Over) };
        let mut count = 0u32;
        loop {
            count += 1;
            if count.is_multiple_of(1024) {
                self.watch.check()?;
            }
            match frontier.stand() {
                Stand::File(node, name) => self.found(answer, || node.shown(&self.prefix, name)),
                Stand::Blocked => return Ok(Step::Worked),
                Stand::End => break,
            }
            frontier.take();
        }
        let (passed, node) = (frontier.passed(), Arc::clone(node));
        let answer = std::mem::take(answer);
        state.phase = Phase::Alone;
        drop(state);
        let mut why = Vec::new();
        if answer.total == 0 {
            let nothing = Nothing {
                root: &self.root,
                absolute: &self.absolute,
                node: &node,
                admission: &self.lister.admission,
                handles: &self.lister.handles,
                ignores: passed.ignoring > 0,
            };
            why = nothing.sentences(&self.watch)?;
        }
        Ok(self.end(Ok(self.finished(answer, passed.not_permitted, passed.long_rules, why))))
    }

    fn found(&self, answer: &mut GlobAnswer, shown: impl FnOnce() -> String) {
        if answer.total < self.limit {
            answer.paths.push(shown());
        }
        answer.total += 1;
    }

    fn finished(
        &self,
        mut answer: GlobAnswer,
        not_permitted: u64,
        long_rules: u64,
        why: Vec<String>,
    ) -> GlobAnswer {
        answer.truncated = answer.total > self.limit;
        let cut = answer.truncated.then(|| {
            notice::truncated(answer.paths.len(), Total::Exactly(answer.total), "paths", GLOB_LIMIT)
        });
        let why = why.into_iter().map(Some);
        let last = [notice::not_permitted(not_permitted), notice::long_rules(long_rules)];
        answer.notice = notice::join(std::iter::once(cut).chain(why).chain(last));
        answer
    }

    fn end(&self, answer: Result<GlobAnswer, SearchError>) -> Step {
        let ended = std::mem::replace(&mut self.lock().phase, Phase::Over);
        drop(ended);
        // Who is stopped finds the answer given.
        self.reply.send(answer);
        self.watch.stop();
        Step::Over
    }
}

impl Work for FindCall {
    fn step(&self, more: &dyn Fn()) -> Step {
        let task = match self.pick() {
            Ok(task) => task,
            Err(step) => return step,
        };
        if matches!(task, Task::List(_)) {
            more();
        }
        let cut = match self.watch.check() {
            Ok(()) => self.run(task),
            Err(cut) => Err(cut),
        };
        cut.unwrap_or_else(|cut| self.end(Err(cut.into())))
    }
}
