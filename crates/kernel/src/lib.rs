//! The capability kernel of coding agents: what a handler may do, and the services through which it does it.
//!
//! A [`GrantStore`] holds the rules and the requests that a person still has to decide. An [`Authority`] is that store seen
//! through a ceiling, and everything guarded is built from one: the [`FileSystem`] asks it before it touches a path, the
//! [`Spawner`] before it starts a process ([`process`] has the policy of command lines). A [`Handler`] serves one flow with
//! the [`CallContext`] of one call. The ports ([`Clock`], [`Entropy`], [`Credentials`], [`Evaluator`], [`Persist`]) are what
//! a host gives instead of its environment.
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
//! let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
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
//! **Invariant:** a workspace that nobody trusts only narrows: its rules lower what the others answer, and of all grants only
//! a person's answer in this run satisfies what they ask.
//!
//! # Grants
//!
//! An attended store (the default) lets a request that no rule decides wait, and tells its host through a [`RequestWatch`];
//! an unattended one refuses it with [`PermissionRequired`] and keeps it. [`GrantStore::reply`] answers both: for one
//! request, for the run, for good, or no. [`plan_reply`] is the same answer as a pure function, for a host that answers a
//! request of another process: it gives the [`GrantEvent`] to append. [`Persist`] is the journal; [`FilePersist`] and
//! [`MemoryPersist`] come with the crate, and the suite `conformance` (feature of that name) is what every other one is
//! held to.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![warn(missing_debug_implementations)]

mod authority;
pub mod fs;
mod handler;
mod meta;
#[cfg(feature = "net")]
pub mod net;
mod notes;
mod permission;
mod persist;
mod ports;
pub mod process;
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
#[cfg(any(test, feature = "conformance"))]
pub use persist::conformance;
pub use persist::{
    FilePersist, GRANT_SOURCE, MAX_RECORD_BYTES, MemoryPersist, Persist, PersistError, PersistedEvent,
};
pub use ports::{
    Answer, Answers, Ask, AskKind, Clock, Credentials, CredentialsError, Entropy, Evaluator, EvaluatorError,
    Question, Secret, SeededEntropy, SystemClock, SystemEntropy,
};
pub use process::{Authorised, Child, ChildOutput, Confine, Exit, SpawnError, SpawnRequest, Spawner, Stdin};
pub use store::{
    Envelope, EnvelopeScope, Explanation, GrantEvent, GrantRecord, GrantStore, GrantStoreOptions,
    MAX_ENVELOPE_PATTERNS, MAX_ENVELOPE_SIGNATURES, MAX_EVENT_BYTES, MAX_PENDING, MAX_RULES, PAGE_EVENTS,
    PERSIST_MILLIS, POLICY_RUN, PendingRequest, ReplyContext, RequestWatch, Resolution, RunGrantRecord,
    RunRule, Source, plan_reply,
};
pub use workspace::Workspace;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
