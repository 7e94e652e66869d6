//! The suite.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cases;
mod corpus;
mod decode;
mod exercise;
mod fixtures;
#[cfg(all(feature = "follow", target_os = "linux"))]
mod follow;
#[cfg(all(feature = "follow", target_os = "linux"))]
mod follow_live;
mod hostile;
mod properties;
mod seeds;
mod volume;
