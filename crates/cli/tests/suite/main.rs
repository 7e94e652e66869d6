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
mod remember;
mod replay;
mod store;
mod terminal;
#[cfg(feature = "transcripts")]
mod transcript;
#[cfg(all(feature = "transcripts", target_os = "linux"))]
mod transcript_follow;
#[cfg(all(feature = "transcripts", target_os = "linux"))]
mod transcript_live;
#[cfg(feature = "transcripts")]
mod transcript_page;
#[cfg(feature = "transcripts")]
mod transcript_serve;
mod usage;
