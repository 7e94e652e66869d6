//! What the suite needs of an engine: stores over one set of data, faults, and a pen for the journal.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use flowcell_harness::engine::{Owner, RunStore};
use flowcell_harness::journal::{Kind, Row, RunId};
use flowcell_harness::kernel::Clock;

/// When, seen from the commit of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Nothing of the row is written.
    Before,
    /// The row is written and not committed.
    During,
    /// The row is committed, and nobody was told.
    After,
}

impl Moment {
    /// Every moment, in order.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The handle of the store answers nothing any more, as if its process had been killed.
    Crash,
    /// The store reports a failure, once.
    Fail,
}

/// Asked at every moment of every commit of a row, in order.
pub type Faults = Arc<dyn Fn(Moment, Kind) -> Option<Fault> + Send + Sync>;

/// What can be said of the owner of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// It lives.
    Alive,
    /// It is proven dead on this host.
    Dead,
    /// It is on another host, which is known to be unreachable.
    Unreachable,
    /// Nothing is known.
    Unknown,
}

/// Tells whether an owner lives.
pub type Probe = Arc<dyn Fn(&Owner) -> Life + Send + Sync>;

/// The ports that a store is opened with.
#[derive(Clone)]
pub struct Hooks {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Who lives.
    pub probe: Probe,
    /// What goes wrong.
    pub faults: Faults,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// One set of data.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A new handle to the data, as a new process has one.
    ///
    /// # Errors
    /// Why there is none, in words.
    async fn open(&self, hooks: Hooks) -> Result<Arc<dyn RunStore>, String>;

    /// Puts these rows in place of a run's, and makes the run when there is none. Nobody owns it then.
    ///
    /// # Errors
    /// Why it could not be done, in words.
    async fn rewrite(&self, run: &RunId, rows: Vec<Row>) -> Result<(), String>;
}

/// Makes empty sets of data.
#[async_trait]
pub trait Factory: Send + Sync {
    /// An empty set of data, apart from every other one.
    ///
    /// # Errors
    /// Why there is none, in words.
    async fn subject(&self) -> Result<Box<dyn Subject>, String>;
}
