//! What the interrupt handler counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Limits;

/// The polls that the panel probe may take, and so may every other look at a cell's values (harness contract 3.6).
pub(super) const PROBE_POLLS: u64 = 200;

/// The polls of one hook that runs no code of a cell; it is there so that nothing can run for ever.
const HOST_POLLS: u64 = 200_000;

/// What ended a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trip {
    /// `steps`.
    Steps,
    /// `timeMs`.
    Time,
    /// `totalMs`.
    Total,
    /// Nobody waits for the realm any more.
    Abandoned,
}

/// Whose code runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cell,
    /// So many more polls, whatever runs.
    Fixed(u64),
}

struct State {
    mode: Mode,
    trip: Option<Trip>,
    steps: u64,
    /// The polls of the cell's code that let it go on.
    passed: u64,
    /// What is left of `timeMs`; none on replay.
    time: Option<Duration>,
    running_since: Option<Instant>,
    deadline: Option<Instant>,
}

/// The budgets of the frame that runs, shared with the interrupt handler.
#[derive(Clone)]
pub(super) struct Budget {
    state: Arc<Mutex<State>>,
    abandoned: Arc<AtomicBool>,
}

impl Budget {
    pub(super) fn new(abandoned: Arc<AtomicBool>) -> Self {
        let state = State {
            mode: Mode::Fixed(HOST_POLLS),
            trip: None,
            steps: 0,
            passed: 0,
            time: None,
            running_since: None,
            deadline: None,
        };
        Self { state: Arc::new(Mutex::new(state)), abandoned }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame begins. `cut_at` are the polls after which a clock cut it when it ran first.
    pub(super) fn open(&self, limits: &Limits, clock_free: bool, cut_at: Option<u64>) {
        let now = Instant::now();
        let mut state = self.state();
        state.trip = None;
        state.steps = cut_at.unwrap_or(limits.steps);
        state.passed = 0;
        state.time = (!clock_free).then(|| Duration::from_millis(limits.time_ms));
        state.deadline =
            (!clock_free).then(|| now.checked_add(Duration::from_millis(limits.total_ms))).flatten();
        state.running_since = None;
    }

    /// The cell's own code runs from here.
    pub(super) fn enter_cell(&self) {
        let mut state = self.state();
        state.mode = Mode::Cell;
        state.running_since = Some(Instant::now());
    }

    /// The cell's own code has stopped running; the time it took is spent.
    pub(super) fn leave_cell(&self) {
        let mut state = self.state();
        state.mode = Mode::Fixed(HOST_POLLS);
        if let Some(since) = state.running_since.take() {
            let took = since.elapsed();
            if let Some(left) = state.time {
                state.time = Some(left.saturating_sub(took));
            }
        }
    }

    /// A hook that touches nothing of a cell's runs next.
    pub(super) fn enter_host(&self) {
        self.state().mode = Mode::Fixed(HOST_POLLS);
    }

    /// A hook that may run a cell's getters runs next.
    pub(super) fn enter_probe(&self) {
        self.state().mode = Mode::Fixed(PROBE_POLLS);
    }

    /// What ended the frame, if anything did.
    pub(super) fn trip(&self) -> Option<Trip> {
        self.state().trip
    }

    /// How many polls passed before a clock ended the frame in the middle of the cell's code; none when no clock did.
    pub(super) fn cut_at(&self) -> Option<u64> {
        let state = self.state();
        matches!(state.trip, Some(Trip::Time | Trip::Total)).then_some(state.passed)
    }

    /// The interrupt handler: whether to stop what runs.
    pub(super) fn poll(&self) -> bool {
        let mut state = self.state();
        match state.mode {
            Mode::Fixed(0) => return true,
            Mode::Fixed(left) => {
                state.mode = Mode::Fixed(left - 1);
                return false;
            }
            Mode::Cell => {}
        }
        if state.trip.is_some() {
            return true;
        }
        if self.abandoned.load(Ordering::Relaxed) {
            state.trip = Some(Trip::Abandoned);
            return true;
        }
        if state.steps == 0 {
            state.trip = Some(Trip::Steps);
            return true;
        }
        state.steps -= 1;
        let now = Instant::now();
        if let (Some(left), Some(since)) = (state.time, state.running_since)
            && now.duration_since(since) > left
        {
            state.trip = Some(Trip::Time);
            return true;
        }
        if state.deadline.is_some_and(|deadline| now >= deadline) {
            state.trip = Some(Trip::Total);
            return true;
        }
        state.passed = state.passed.saturating_add(1);
        false
    }
}
