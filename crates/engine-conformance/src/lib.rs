//! The suite that every engine of the flowcell harness has to pass (harness contract 13.1).
//!
//! An engine hands in a [`Factory`] of empty data sets, each with handles that can be opened again, faults at commits and
//! a pen for the journal. Each point is one function; [`all`] runs them one after the other.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use flowcell_engine_conformance::{Factory, Report, all};
//!
//! # async fn suite(factory: &dyn Factory, root: &Path) -> Result<(), String> {
//! let reports: Vec<Report> = all(factory, root).await?;
//! assert!(reports.iter().all(|report| report.cases > 0));
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** the suite can fail. It compares with a run that was left alone and counts what flows did; it never takes
//! the engine's word for either.

mod boundary;
mod crash;
mod divergence;
mod lab;
mod ownership;
mod permission;
mod replay;
mod report;
mod subject;
mod suite;

pub use boundary::boundaries;
pub use crash::{crashes_after, crashes_before, crashes_during, effect_ledger, storage_faults};
pub use divergence::divergence;
pub use lab::Failure;
pub use ownership::concurrency;
pub use permission::permission_park;
pub use replay::replay_purity;
pub use report::Report;
pub use subject::{Factory, Fault, Faults, Hooks, Life, Moment, Probe, Subject};
pub use suite::all;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
