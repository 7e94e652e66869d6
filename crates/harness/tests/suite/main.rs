//! The crate's public behaviour, one module a subject.
#![allow(clippy::unwrap_used, clippy::large_futures, missing_docs, unreachable_pub)]

mod calls;
mod corpus;
mod extract;
mod hostile;
mod limits;
mod program;
mod properties;
mod realm;
mod support;
mod world;
