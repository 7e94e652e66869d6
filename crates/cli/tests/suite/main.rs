//! The binary from outside: every exit status and JSON shape of the commands, and every rule of policy.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod bench;
mod call;
mod doctor;
mod exec;
mod flows;
mod grants;
mod interrupt;
mod mocks;
mod park;
mod policy;
mod replay;
mod store;
mod terminal;
mod usage;
