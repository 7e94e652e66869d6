//! The threads of an engine: a fixed number of them, shared by all its calls (search contract 8).
//!
//! Calls take turns: a thread does one piece of one call, then looks at the next call. So a long search
//! slows a short one down and never blocks it, and a hundred calls run on as many threads as one.

use crate::node::Handles;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most threads of one engine; more of them wait for each other, and each may hold three directories.
pub const MAX_THREADS: usize = 12;
/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(10);

/// What a piece of work came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done; there may be more.
    Worked,
    /// Other threads are at all that can be done now.
    Idle,
    /// The call has its answer.
    Over,
}

/// A call, in pieces.
pub(crate) trait Work: Send + Sync {
    /// Does one piece. `more` is called when another thread would find a piece too.
    fn step(&self, more: &dyn Fn()) -> Step;
}

/// The threads. They start when there is work, and end when there is none for a while or the pool is dropped.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    size: usize,
    /// Threads that wait, and those that could be started.
    spare: AtomicUsize,
    handles: Arc<Handles>,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    next_id: u64,
    threads: usize,
    waiting: usize,
    closed: bool,
}

struct Call {
    id: u64,
    work: Arc<dyn Work>,
    /// Nobody found it without a piece to do since something changed.
    runnable: bool,
    version: u64,
}

impl Pool {
    /// A pool of `size` threads, at least one and at most [`MAX_THREADS`].
    pub(crate) fn new(size: usize) -> Self {
        let size = size.clamp(1, MAX_THREADS);
        let shared = Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            size,
            spare: AtomicUsize::new(size),
            handles: Arc::new(Handles::new(size)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How many threads there are at most.
    pub(crate) fn size(&self) -> usize {
        self.shared.size
    }

    /// The directories that the engine holds open.
    pub(crate) fn handles(&self) -> Arc<Handles> {
        Arc::clone(&self.shared.handles)
    }

    /// Takes a call on; the number to take it off again. Fails when the host gives no thread at all.
    pub(crate) fn add(&self, work: Arc<dyn Work>) -> io::Result<u64> {
        let mut state = self.shared.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.calls.push_back(Call { id, work, runnable: true, version: 0 });
        if let Err(error) = self.shared.one_more(&mut state)
            && state.threads == 0
        {
            state.calls.pop_back();
            return Err(error);
        }
        Ok(id)
    }

    /// Takes a call off; the pieces of it that are being done end by themselves.
    pub(crate) fn remove(&self, id: u64) {
        let removed = self.shared.lock().remove(id);
        drop(removed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("size", &self.shared.size).finish_non_exhaustive()
    }
}

impl State {
    /// The next call in turn that may have a piece to do.
    fn pick(&mut self) -> Option<(u64, u64, Arc<dyn Work>)> {
        let at = self.calls.iter().position(|call| call.runnable)?;
        let call = self.calls.remove(at)?;
        let picked = (call.id, call.version, Arc::clone(&call.work));
        self.calls.push_back(call);
        Some(picked)
    }

    fn call(&mut self, id: u64) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.id == id)
    }

    fn remove(&mut self, id: u64) -> Option<Call> {
        let at = self.calls.iter().position(|call| call.id == id)?;
        self.calls.remove(at)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread that waits, or starts one.
    fn one_more(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if state.waiting > 0 {
            self.wake.notify_one();
        } else if state.threads < self.size {
            let shared = Arc::clone(self);
            thread::Builder::new().name("flowcell-search".to_owned()).spawn(move || shared.work())?;
            state.threads += 1;
        }
        self.count(state);
        Ok(())
    }

    fn count(&self, state: &State) {
        self.spare.store(state.waiting + self.size.saturating_sub(state.threads), Ordering::Relaxed);
    }

    /// Another thread would find something to do for call `id`.
    fn more(self: &Arc<Self>, id: u64) {
        if self.spare.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.lock();
        if let Some(call) = state.call(id) {
            call.runnable = true;
            call.version += 1;
            // Without one more thread the others do it.
            let _ = self.one_more(&mut state);
        }
    }

    fn work(self: Arc<Self>) {
        let mut state = self.lock();
        while !state.closed {
            let Some((id, version, work)) = state.pick() else {
                state.waiting += 1;
                self.count(&state);
                let waited = self.wake.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
                state = waited.0;
                state.waiting -= 1;
                self.count(&state);
                if waited.1.timed_out() && !state.calls.iter().any(|call| call.runnable) {
                    break;
                }
                continue;
            };
            drop(state);
            // A panic is a defect; it ends its call, whose answer then never comes, and no other.
            let step = catch_unwind(AssertUnwindSafe(|| work.step(&|| self.more(id))));
            drop(work);
            state = self.lock();
            let removed = match step {
                Ok(Step::Worked) => {
                    if let Some(call) = state.call(id) {
                        call.runnable = true;
                        call.version += 1;
                    }
                    None
                }
                Ok(Step::Idle) => {
                    if let Some(call) = state.call(id)
                        && call.version == version
                    {
                        call.runnable = false;
                    }
                    None
                }
                Ok(Step::Over) | Err(_) => state.remove(id),
            };
            if removed.is_some() {
                drop(state);
                drop(removed);
                state = self.lock();
            }
        }
        state.threads -= 1;
        self.count(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Counts down in pieces; notes the most pieces done at once over all calls.
    struct Count {
        left: AtomicUsize,
        at_once: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
        done: mpsc::Sender<()>,
    }

    impl Work for Count {
        fn step(&self, more: &dyn Fn()) -> Step {
            more();
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            thread::yield_now();
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            let taken =
                self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match taken {
                Ok(1) => {
                    let _ = self.done.send(());
                    Step::Over
                }
                Ok(_) => Step::Worked,
                Err(_) => Step::Over,
            }
        }
    }

    #[test]
    fn many_calls_share_the_threads() {
        let pool = Pool::new(3);
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done, receiver) = mpsc::channel();
        for _ in 0..40 {
            let left = AtomicUsize::new(50);
            let call =
                Count { left, at_once: Arc::clone(&at_once), most: Arc::clone(&most), done: done.clone() };
            pool.add(Arc::new(call)).unwrap();
        }
        for _ in 0..40 {
            receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 3);
    }

    struct Broken;

    impl Work for Broken {
        fn step(&self, _: &dyn Fn()) -> Step {
            panic!("a defect")
        }
    }

    #[test]
    fn a_panic_ends_its_call_alone() {
        let pool = Pool::new(1);
        let broken: Arc<dyn Work> = Arc::new(Broken);
        let weak = Arc::downgrade(&broken);
        pool.add(broken).unwrap();
        let (done, receiver) = mpsc::channel();
        let zero = || Arc::new(AtomicUsize::new(0));
        let call = Count { left: AtomicUsize::new(5), at_once: zero(), most: zero(), done };
        pool.add(Arc::new(call)).unwrap();
        receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(weak.upgrade().is_none());
    }
}
