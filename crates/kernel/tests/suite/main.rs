//! The kernel's public behaviour.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod authority;
mod entries;
mod faults;
mod handler;
mod hostile;
mod links;
mod mounts;
mod permission;
mod ports;
mod reading;
mod replace;
mod replay;
mod store;
mod support;
mod swapper;
mod twins;
mod walk;
mod workspace;
mod writing;
