//! Engines of the flowcell harness: the [`RunStore`](harness::engine::RunStore) and
//! [`Engine`](harness::engine::Engine) ports over SQLite and in memory (harness contract 13).
//!
//! The semantics are written once, over a small transactional interface; a store differs in where its rows are.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use flowcell_engines::harness::engine::{Boundary, RunSpec, RunStore, recorded};
//! use flowcell_engines::harness::journal::{FORMAT, Kind, RunId, RunOpened};
//! use flowcell_engines::harness::kernel::SystemClock;
//! use flowcell_engines::harness::realm::Limits;
//! use flowcell_engines::{Memory, StoreOptions, process_owner};
//! use serde_json::json;
//!
//! let store = Memory::new().open(StoreOptions::new(Arc::new(SystemClock::new()))?);
//! let opened = RunOpened {
//!     format: FORMAT,
//!     session: "s".into(),
//!     seat: None,
//!     params: json!({}),
//!     layers: vec![],
//!     capabilities: vec![],
//!     limits: Limits::default(),
//!     catalog: vec![],
//! };
//! let run = store.create(RunSpec { run: RunId::new("first")?, opened }).await?;
//! let engine = store.open(&run, process_owner()?).await?;
//! let at = Boundary::frame("s", 0, "cell", 0);
//! assert!(engine.record(at.clone(), recorded(json!(1))).await?.fresh);
//! assert_eq!(engine.record(at, recorded(json!(2))).await?.value, json!(1));
//! engine.release().await;
//! assert_eq!(store.rows(&run, 0).await?[1].kind, Kind::CellFrame);
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** a boundary is decided once. Its row is committed before anyone sees its value, and the row is what
//! everyone sees from then on.
//!
//! **Invariant:** a call that is not sealed is announced by a committed `call-started` row before its body runs. A start
//! without a settlement and without a suspension is never followed by another one, unless its binding is idempotent.
//!
//! **Invariant:** every write carries the epoch of its owner and is refused when another owner has the run; nothing of it
//! is left then.
//!
//! **Invariant:** what an execution decides comes after everything that was decided before: a run that leaves its
//! journal stops with `incompatible_journal` and dispatches nothing.
//!
//! **Invariant:** nothing here reads the environment or a clock; the host hands in both what time it is and who lives.
//!
//! **Invariant:** a file that is not a store of this version stays as it is.

pub use flowcell_harness as harness;

mod engine;
#[cfg(any(debug_assertions, feature = "fault-injection"))]
pub mod fault;
mod grants;
mod index;
mod liveness;
mod locks;
pub mod memory;
mod options;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod storage;
mod store;
mod summary;

pub use engine::RENEWAL;
pub use liveness::{Life, Liveness, ProcLiveness, process_owner};
pub use memory::Memory;
pub use options::StoreOptions;
pub use store::{STALE_MS, Store};

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
