//! Faults at journal commits, for tests of what survives them. Only in builds with debug assertions or the feature
//! `fault-injection`.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use flowcell_harness::journal::Kind;

use crate::storage::{Outcome, Refusal, lock};

/// When, seen from a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Nothing of the row is written.
    Before,
    /// The row is written and not committed.
    During,
    /// The row is committed, and nobody was told.
    After,
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The process sends itself SIGKILL.
    Kill,
    /// The store reports a failure. A commit that already stands is reported as failed too.
    Fail,
    /// The store's handle answers nothing any more, as if its process were gone.
    Drop,
}

/// Decides where faults happen.
pub trait Faults: Send + Sync {
    /// The fault at this moment of the `nth` commit of a kind, counted from 1 by the store's handle.
    fn at(&self, moment: Moment, kind: Kind, nth: u64) -> Option<Fault>;
}

impl<F> Faults for F
where
    F: Fn(Moment, Kind, u64) -> Option<Fault> + Send + Sync,
{
    fn at(&self, moment: Moment, kind: Kind, nth: u64) -> Option<Fault> {
        self(moment, kind, nth)
    }
}

/// Kill this process at one commit: `WHEN:KIND:N`, as in the variable `FLOWCELL_CRASH_AT` (CLI contract 1).
///
/// ```
/// use flowcell_engines::fault::{FaultPlan, Moment};
/// let plan: FaultPlan = "after:cell-call:2".parse()?;
/// assert_eq!((plan.when, plan.n), (Moment::After, 2));
/// assert!("during:cell-call:2".parse::<FaultPlan>().is_err());
/// # Ok::<(), flowcell_engines::fault::InvalidPlan>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Before the commit, or after it.
    pub when: Moment,
    /// The kind of row.
    pub kind: Kind,
    /// The how-manieth commit of that kind, from 1.
    pub n: u64,
}

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not WHEN:KIND:N: `before` or `after`, a journal kind, and a number from 1")]
pub struct InvalidPlan(
    /// The text.
    pub String,
);

impl FromStr for FaultPlan {
    type Err = InvalidPlan;

    fn from_str(text: &str) -> Result<Self, InvalidPlan> {
        let invalid = || InvalidPlan(text.to_owned());
        let mut parts = text.splitn(3, ':');
        let mut next = || parts.next().ok_or_else(invalid);
        let when = match next()? {
            "before" => Moment::Before,
            "after" => Moment::After,
            _ => return Err(invalid()),
        };
        let kind = next()?.parse().map_err(|_| invalid())?;
        let number = next()?;
        let n =
            number.parse().ok().filter(|n: &u64| *n > 0 && number.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(Self { when, kind, n: n.ok_or_else(invalid)? })
    }
}

impl Faults for FaultPlan {
    fn at(&self, moment: Moment, kind: Kind, nth: u64) -> Option<Fault> {
        (moment == self.when && kind == self.kind && nth == self.n).then_some(Fault::Kill)
    }
}

/// A plan of faults, and what one handle of a store has met of it.
pub(crate) struct FaultState {
    faults: Arc<dyn Faults>,
    committed: Mutex<HashMap<Kind, u64>>,
    gone: AtomicBool,
}

impl fmt::Debug for FaultState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultState").field("gone", &self.gone).finish_non_exhaustive()
    }
}

impl FaultState {
    pub(crate) fn new(faults: Arc<dyn Faults>) -> Self {
        Self { faults, committed: Mutex::default(), gone: AtomicBool::new(false) }
    }

    pub(crate) fn alive(&self) -> Outcome<()> {
        if self.gone.load(Ordering::SeqCst) { Err(gone()) } else { Ok(()) }
    }

    pub(crate) fn at(&self, moment: Moment, kind: Kind) -> Outcome<()> {
        let nth = lock(&self.committed).get(&kind).copied().unwrap_or(0).saturating_add(1);
        self.meet(moment, kind, nth)
    }

    pub(crate) fn committed(&self, kind: Kind) -> Outcome<()> {
        let nth = {
            let mut committed = lock(&self.committed);
            let count = committed.entry(kind).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.meet(Moment::After, kind, nth)
    }

    fn meet(&self, moment: Moment, kind: Kind, nth: u64) -> Outcome<()> {
        match self.faults.at(moment, kind, nth) {
            None => Ok(()),
            Some(Fault::Fail) => {
                Err(Refusal::Failed(format!("a fault was injected at commit {nth} of {kind}")))
            }
            Some(Fault::Drop) => {
                self.gone.store(true, Ordering::SeqCst);
                Err(gone())
            }
            Some(Fault::Kill) => {
                let killed =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                Err(Refusal::Failed(match killed {
                    Ok(()) => "the process was to be killed here".into(),
                    Err(error) => format!("the process could not be killed: {error}"),
                }))
            }
        }
    }
}

fn gone() -> Refusal {
    Refusal::Failed("an injected fault ended this handle of the store".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_three_parts() {
        let plan: FaultPlan = "before:call-started:1".parse().unwrap();
        assert_eq!(plan, FaultPlan { when: Moment::Before, kind: Kind::CallStarted, n: 1 });
        for bad in [
            "",
            "before",
            "before:cell-call",
            "before:cell-call:0",
            "before:cell-call:+1",
            "before:cell-call:1:2",
            "before:cell:1",
            "Before:cell-call:1",
            "before:cell-call:99999999999999999999",
        ] {
            assert!(bad.parse::<FaultPlan>().is_err(), "{bad}");
        }
    }

    #[test]
    fn commits_are_counted_by_kind() {
        let state = FaultState::new(Arc::new(|moment, kind, nth| {
            (moment == Moment::After && kind == Kind::CellCall && nth == 2).then_some(Fault::Drop)
        }));
        state.at(Moment::Before, Kind::CellCall).unwrap();
        state.committed(Kind::CellFrame).unwrap();
        state.committed(Kind::CellCall).unwrap();
        state.alive().unwrap();
        assert!(state.committed(Kind::CellCall).is_err());
        assert!(state.alive().is_err());
    }
}
