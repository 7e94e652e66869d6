//! The moments between two steps of an operation, for tests that do something there.

use std::cell::RefCell;

type Probe = Box<dyn FnMut(&'static str)>;

thread_local! {
    static PROBE: RefCell<Option<Probe>> = const { RefCell::new(None) };
}

/// Says that an operation on this thread has come to a moment.
pub(crate) fn reach(point: &'static str) {
    let probe = PROBE.with_borrow_mut(Option::take);
    if let Some(mut probe) = probe {
        probe(point);
        PROBE.with_borrow_mut(|at| *at = Some(probe));
    }
}

/// What to call at each moment from now on, on this thread.
pub(super) fn set(probe: impl FnMut(&'static str) + 'static) {
    PROBE.with_borrow_mut(|at| *at = Some(Box::new(probe)));
}

/// Calls nothing any more.
pub(super) fn clear() {
    PROBE.with_borrow_mut(|at| *at = None);
}
