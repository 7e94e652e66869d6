//! Stores, owners and runs for the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use flowcell_engines::harness::engine::{Owner, RunSpec};
use flowcell_engines::harness::journal::{FORMAT, RunId, RunOpened};
use flowcell_engines::harness::kernel::Clock;
use flowcell_engines::harness::realm::Limits;
use flowcell_engines::{Life, StoreOptions};
use serde_json::{Value, json};

/// A clock that moves a millisecond each time it is asked.
#[derive(Debug, Default)]
pub(crate) struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(self.wall_ms().unsigned_abs())
    }
    fn wall_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Options under which every owner lives.
pub(crate) fn options() -> StoreOptions {
    StoreOptions::with_liveness(Arc::new(Ticking::default()), Arc::new(|_: &Owner| Life::Alive))
}

pub(crate) fn owner(pid: u32) -> Owner {
    Owner { host: "here".into(), pid, started: 1 }
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn spec(name: &str, params: Value) -> RunSpec {
    let opened = RunOpened {
        format: FORMAT,
        session: name.into(),
        seat: None,
        params,
        layers: vec![],
        capabilities: vec![],
        limits: Limits::default(),
        catalog: vec![],
    };
    RunSpec { run: run(name), opened }
}

pub(crate) fn empty(name: &str) -> RunSpec {
    spec(name, json!({}))
}
