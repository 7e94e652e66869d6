//! The stores, held to the conformance suite and to what a file on a disk can do to them.
#![allow(clippy::unwrap_used)]

#[cfg(any(debug_assertions, feature = "fault-injection"))]
mod broken;
mod checkpoints;
#[cfg(any(debug_assertions, feature = "fault-injection"))]
mod conformance;
mod exec;
mod grants;
#[cfg(all(feature = "sqlite", any(debug_assertions, feature = "fault-injection")))]
mod killed;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
#[cfg(any(debug_assertions, feature = "fault-injection"))]
mod subject;
mod world;
