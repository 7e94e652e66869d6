//! The capability kernel of coding agents: what a handler may do, and the services through which it does it.
//!
//! A [`GrantStore`] holds the rules and the requests that a person still has to decide. An [`Authority`] is that store seen
//! through a ceiling, and everything guarded is built from one: the [`FileSystem`] asks it before it touches a path. A
//! [`Handler`] serves one flow with the [`CallContext`] of one call. The ports ([`Clock`], [`Entropy`], [`Credentials`],
//! [`Evaluator`], [`Persist`]) are what a host gives instead of its environment.
//!
//! ```
//! use std::sync::Arc;
//!
//! use flowcell_kernel::flows::capability::CapabilityPattern;
//! use flowcell_kernel::flows::rules::Rule;
//! use flowcell_kernel::{
//!     Authority, FileSystem, FsError, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, PermissionError,
//!     SystemEntropy, Workspace,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let root = dir.path();
//! // The host's policy: everything in the workspace may be read.
//! let workspace = Workspace::open(root)?;
//! let below = CapabilityPattern::parse(&format!("fs:read:{}/**", workspace.logical())).ok_or("pattern")?;
//! let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new()));
//! options.configured = vec![Rule::allow(below)];
//! let authority = Authority::root(GrantStore::open(options).await?);
//!
//! // A call's file system reaches no further than what its flow declares.
//! let call = authority.attenuate_declared(&["fs:read:/**".to_owned(), "fs:write:/**".to_owned()])?;
//! let files = FileSystem::new(call, workspace, FsOptions::default(), Arc::new(SystemEntropy::new()?))?;
//! std::fs::write(root.join("a"), "text")?;
//! let (bytes, _stat) = files.read("a", 1_000).await?;
//! assert_eq!(bytes, b"text");
//!
//! // No rule speaks of writing, so a person has to decide; here nobody is there to.
//! let refused = files.replace("a", b"other", None, false).await;
//! assert!(matches!(refused, Err(FsError::Permission(PermissionError::Required(_)))));
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! **Invariant:** authority is explicit and only narrows. There is no ambient one and no constructor that widens.
//!
//! **Invariant:** a configured deny is a veto over every other rule.
//!
//! **Invariant:** persist before activate. An answer counts when its event is in the journal, and not before.
//!
//! **Invariant:** an answer of `once` is never authority by itself: it frees the one call that the host admits it to.
//!
//! **Invariant:** authorise, then act, on the same object. Paths are resolved, asked for, resolved again and walked by
//! descriptors that meet no link.
//!
//! **Invariant:** the kernel reads no environment, no home directory and no clock, and prints nothing.
//!
//! # What comes next
//!
//! The store is unattended: a request that no rule decides is refused with [`PermissionRequired`] and kept for an answer.
//! Waiting for an answer in place, grants for a run and remembered ones, envelopes, the policy of command lines and the
//! process service are not offered yet. Grants of those kinds that a journal holds already are replayed as rules.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![warn(missing_debug_implementations)]

mod authority;
pub mod fs;
mod handler;
mod meta;
mod notes;
mod permission;
mod persist;
mod ports;
mod store;
mod workspace;

pub use flowcell_flows as flows;

/// The macro that [`Handler`], [`Persist`] and the other asynchronous traits are written with; an implementation of one
/// needs it too.
pub use async_trait::async_trait;
/// How a call learns that nobody waits for it any more ([`CallContext::cancel`]).
pub use tokio_util::sync::CancellationToken;

pub use authority::{Authority, InvalidCapability};
pub use fs::{
    Dir, DirEntry, FileSystem, FsError, FsOptions, Kind, Metadata, OpenFile, Replaced, Stat, TempEntry,
    WalkRoot,
};
pub use handler::{CallContext, Handler, HandlerError};
pub use meta::{MAX_META_BYTES, MAX_META_DEPTH, MAX_META_NODES, Meta, check_meta};
pub use notes::{MAX_NOTE_BYTES, MAX_NOTES, NOTES_DROPPED, Notes};
pub use permission::{
    GrantStoreCode, GrantStoreError, MAX_FIELD_UNITS, PermissionDenied, PermissionError, PermissionRequired,
};
pub use persist::{GRANT_SOURCE, MemoryPersist, Persist, PersistError, PersistedEvent};
pub use ports::{
    Answer, Answers, Ask, AskKind, Clock, Credentials, CredentialsError, Entropy, Evaluator, EvaluatorError,
    Question, Secret, SeededEntropy, SystemClock, SystemEntropy,
};
pub use store::{
    Explanation, GrantStore, GrantStoreOptions, MAX_ENVELOPE_PATTERNS, MAX_ENVELOPE_SIGNATURES,
    MAX_EVENT_BYTES, MAX_PENDING, MAX_RULES, PAGE_EVENTS, PERSIST_MILLIS, POLICY_RUN, PendingRequest,
    Resolution, RunRule, Source,
};
pub use workspace::Workspace;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
