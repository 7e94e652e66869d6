//! The stores as subjects of the conformance suite.

use std::sync::Arc;

use async_trait::async_trait;
use flowcell_engine_conformance::{Factory, Fault, Hooks, Life, Moment, Subject};
use flowcell_engines::harness::engine::{Owner, RunStore};
use flowcell_engines::harness::journal::{Kind, Row, RunId};
use flowcell_engines::{Memory, StoreOptions, fault};

pub(crate) fn options(hooks: Hooks) -> StoreOptions {
    let Hooks { clock, probe, faults } = hooks;
    let liveness = move |owner: &Owner| match probe(owner) {
        Life::Alive => flowcell_engines::Life::Alive,
        Life::Dead => flowcell_engines::Life::Dead,
        Life::Unreachable => flowcell_engines::Life::Unreachable,
        Life::Unknown => flowcell_engines::Life::Unknown,
    };
    let injected = move |moment: fault::Moment, kind: Kind, _nth: u64| {
        let moment = match moment {
            fault::Moment::Before => Moment::Before,
            fault::Moment::During => Moment::During,
            fault::Moment::After => Moment::After,
        };
        faults(moment, kind).map(|fault| match fault {
            Fault::Crash => fault::Fault::Drop,
            Fault::Fail => fault::Fault::Fail,
        })
    };
    StoreOptions::with_liveness(clock, Arc::new(liveness)).with_faults(Arc::new(injected))
}

pub(crate) struct Memories;

#[async_trait]
impl Factory for Memories {
    async fn subject(&self) -> Result<Box<dyn Subject>, String> {
        Ok(Box::new(InMemory(Memory::new())))
    }
}

struct InMemory(Memory);

#[async_trait]
impl Subject for InMemory {
    async fn open(&self, hooks: Hooks) -> Result<Arc<dyn RunStore>, String> {
        Ok(Arc::new(self.0.open(options(hooks))))
    }

    async fn rewrite(&self, run: &RunId, rows: Vec<Row>) -> Result<(), String> {
        self.0.import(run, rows).map_err(|error| error.to_string())
    }
}

#[cfg(feature = "sqlite")]
pub(crate) use files::Files;

#[cfg(feature = "sqlite")]
mod files {
    use super::*;
    use crate::sqlite::write_rows;

    pub(crate) struct Files;

    #[async_trait]
    impl Factory for Files {
        async fn subject(&self) -> Result<Box<dyn Subject>, String> {
            Ok(Box::new(InFile(tempfile::tempdir().map_err(|error| error.to_string())?)))
        }
    }

    struct InFile(tempfile::TempDir);

    #[async_trait]
    impl Subject for InFile {
        async fn open(&self, hooks: Hooks) -> Result<Arc<dyn RunStore>, String> {
            let path = self.0.path().join("runs.db");
            let store =
                flowcell_engines::sqlite::open(&path, options(hooks)).map_err(|error| error.to_string())?;
            Ok(Arc::new(store))
        }

        async fn rewrite(&self, run: &RunId, rows: Vec<Row>) -> Result<(), String> {
            let path = self.0.path().join("runs.db");
            // The tables have to be there.
            if !path.exists() {
                let clock = Arc::new(flowcell_engines::harness::kernel::SystemClock::new());
                let options = StoreOptions::new(clock).map_err(|error| error.to_string())?;
                flowcell_engines::sqlite::open(&path, options).map_err(|error| error.to_string())?;
            }
            write_rows(&path, run, &rows).map_err(|error| error.to_string())
        }
    }
}
