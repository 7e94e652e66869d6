//! The ports behind which everything durable stands (harness contract 13): one opened, owned run ([`Engine`]) and
//! the store of all runs ([`RunStore`]).
//!
//! An engine promises: a committed record is never decided again; a call that may act is announced before it acts
//! and settled before anyone sees its answer; a stale owner writes nothing; a suspension is durable before it
//! returns. The conformance suite holds every implementation to that.

use std::convert::Infallible;
use std::sync::Arc;

use crate::flows::capability::{Capability, CapabilityPattern};
use crate::kernel::{Persist, PersistedEvent};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Escape, HarnessError, PermissionRequest, SuspendCode, SuspendReason};
use crate::failure::CallOutcome;
use crate::flows::effects::Tier;
use crate::journal::{Kind, Resolution, Row, RunId, RunOpened};
use crate::keys::{self, CallIdentity};

/// A place in the run that the journal decides once: its kind, and what its key is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The kind of row, which is the record's name too.
    pub kind: Kind,
    /// The session of the run.
    pub session: String,
    /// The frame it belongs to.
    pub frame: u64,
    /// The digest of the cell it belongs to; empty for a boundary of the run.
    pub cell: String,
    /// Its purpose and place, such as `cell-call:<cell>:<ordinal>`.
    pub boundary: String,
}

impl Boundary {
    /// The record key (harness contract 4).
    ///
    /// # Errors
    /// As [`keys::digest`].
    pub fn key(&self) -> Result<String, HarnessError> {
        keys::record_key(self.kind.as_str(), &self.session, self.frame, &self.boundary)
    }

    /// The boundary of attempt `slot` at a frame.
    pub fn frame(session: &str, frame: u64, cell: &str, slot: u64) -> Self {
        Self {
            kind: Kind::CellFrame,
            session: session.to_owned(),
            frame,
            cell: cell.to_owned(),
            boundary: keys::frame_boundary(cell, slot),
        }
    }

    /// The boundary of a checkpoint that a cell asks for.
    pub fn checkpoint(session: &str, frame: u64, cell: &str, ordinal: u64) -> Self {
        Self {
            kind: Kind::Checkpoint,
            session: session.to_owned(),
            frame,
            cell: cell.to_owned(),
            boundary: keys::checkpoint_boundary(cell, ordinal),
        }
    }

    /// The boundary of the checkpoint that is the run's base.
    pub fn base(session: &str) -> Self {
        Self {
            kind: Kind::Checkpoint,
            session: session.to_owned(),
            frame: 0,
            cell: String::new(),
            boundary: "checkpoint:base".to_owned(),
        }
    }

    /// The boundary of the run's end.
    pub fn closed(session: &str) -> Self {
        Self {
            kind: Kind::RunClosed,
            session: session.to_owned(),
            frame: 0,
            cell: String::new(),
            boundary: "run-closed".to_owned(),
        }
    }
}

/// A call, as the engine keys it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Which call of the run it is.
    pub identity: CallIdentity,
    /// The flow's name, as the cell gave it.
    pub flow: String,
    /// What the cell asks.
    pub input: Value,
    /// The checkpoint it is asked at.
    pub at: Option<String>,
    /// The tier of what this call does.
    pub tier: Tier,
    /// The call key (harness contract 4).
    pub key: String,
    /// Whether its binding may be started again under the same key after an unknown outcome.
    pub idempotent: bool,
    /// Whether a terminal frame replays: then a call without a record is `incompatible_journal`.
    pub terminal: bool,
}

impl Call {
    /// The boundary of the call's settlement.
    pub fn boundary(&self) -> Boundary {
        Boundary {
            kind: Kind::CellCall,
            session: self.identity.session.clone(),
            frame: self.identity.frame,
            cell: self.identity.cell.clone(),
            boundary: keys::call_boundary(&self.identity.cell, self.identity.ordinal),
        }
    }
}

/// What a body is told of the dispatch it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dispatch {
    /// The how-manieth start of the key, from 1; 0 for a sealed call.
    pub attempt: u32,
    /// Capabilities that a person allowed `once` for this very call.
    pub admitted: Vec<Capability>,
}

/// What a body answers: a settlement and the small facts that go with it into the record.
#[derive(Clone, Debug, PartialEq)]
pub struct BodyResult {
    /// What the call settles as.
    pub outcome: CallOutcome,
    /// Facts for the record (kernel contract 6.4).
    pub notes: Map<String, Value>,
}

impl From<CallOutcome> for BodyResult {
    fn from(outcome: CallOutcome) -> Self {
        Self { outcome, notes: Map::new() }
    }
}

/// A committed settlement.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    /// What the call settled as.
    pub outcome: CallOutcome,
    /// Whether it was settled before and read back.
    pub replayed: bool,
    /// How long its dispatch took, in milliseconds.
    pub ms: u64,
}

/// The work behind a call: started at most once per [`Engine::call`].
pub type CallBody<'a> = Box<dyn FnOnce(Dispatch) -> BoxFuture<'a, Result<BodyResult, Escape>> + Send + 'a>;

/// The work behind a record: `None` records `null`.
pub type RecordBody<'a> = Box<dyn FnOnce() -> BoxFuture<'a, Result<Value, Escape>> + Send + 'a>;

/// A record body for a value that is already known.
pub fn recorded<'a>(value: Value) -> RecordBody<'a> {
    Box::new(move || Box::pin(async move { Ok(value) }))
}

/// A committed record.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What was decided.
    pub value: Value,
    /// Whether this very call decided it.
    pub fresh: bool,
}

/// One opened, owned run.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The run that is open.
    fn run(&self) -> &RunId;

    /// What the run was opened with.
    fn opened(&self) -> &RunOpened;

    /// Decides a call before any clock runs, or lets it through with `None`.
    ///
    /// # Errors
    /// As [`Engine::call`].
    async fn admit(&self, call: &Call) -> Result<Option<CallResult>, Escape> {
        let _ = call;
        Ok(None)
    }

    /// Settles a call: from its record when there is one, else by its body. Commits `call-started` before the body of
    /// a call that is not sealed, and the settlement before it returns.
    ///
    /// # Errors
    /// `incompatible_journal` when the record differs from what is asked, or a terminal frame replays and there is
    /// none; `engine_failed` when the store fails; [`Escape::LeaseLost`] when another owner took the run; what the
    /// body escaped with. None of them leaves a settlement.
    async fn call(&self, call: Call, body: CallBody<'_>) -> Result<CallResult, Escape>;

    /// Decides a boundary once: from its record when there is one, else by its body.
    ///
    /// # Errors
    /// As [`Engine::call`].
    async fn record(&self, at: Boundary, body: RecordBody<'_>) -> Result<Recorded, Escape>;

    /// Whether this frame's park was already suspended once and taken up again: then it does not suspend again.
    ///
    /// # Errors
    /// As [`Engine::call`].
    async fn resumed(&self, at: &str) -> Result<bool, Escape>;

    /// How often the run was suspended. With it, each permission that a run asks for has an id of its own.
    ///
    /// # Errors
    /// As [`Engine::call`].
    async fn suspensions(&self) -> Result<u64, Escape>;

    /// Parks the run and lets go of it. The suspension is durable before this returns.
    ///
    /// # Errors
    /// Always: `suspended`, or why the run could not be suspended.
    async fn suspend(&self, why: SuspendReason) -> Result<Infallible, Escape>;

    /// Lets go of the run without deciding anything, so that another owner need not wait for the lease.
    async fn release(&self);
}

/// What a run is created with.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The run's id.
    pub run: RunId,
    /// Its parameters: the `run-opened` row.
    pub opened: RunOpened,
}

/// Who opens a run, so that its death can be proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Owner {
    /// The machine, as an id that outlives no boot of it.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When the process started, in the host's own units; with `pid` it names one process.
    pub started: u64,
}

/// Why a run did not open.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such run.
    #[error("no run is called {0}")]
    NotFound(RunId),
    /// A live owner holds it.
    #[error("process {} holds the run", .0.pid)]
    Held(Owner),
    /// The journal is of another format, or does not read.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// The store failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The codes of a store's own failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineCode {
    /// The store could not be read or written.
    EngineFailed,
    /// An id or a key is in use with another content.
    IdempotencyConflict,
    /// There is no such run, or no such request.
    NotFound,
    /// The store was written by a newer version.
    IncompatibleJournal,
    /// The answer is not one that the request allows.
    InvalidResolution,
}

impl EngineCode {
    /// The code as it appears in JSON and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EngineFailed => "engine_failed",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::NotFound => "not_found",
            Self::IncompatibleJournal => "incompatible_journal",
            Self::InvalidResolution => "invalid_resolution",
        }
    }
}

/// A failure of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct EngineError {
    /// What kind of failure it is.
    pub code: EngineCode,
    /// What failed and why.
    pub message: String,
}

impl EngineError {
    /// An error with a code and a message.
    pub fn new(code: EngineCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// `engine_failed` with a message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(EngineCode::EngineFailed, message)
    }
}

impl From<EngineError> for Escape {
    fn from(error: EngineError) -> Self {
        let code = match error.code {
            EngineCode::IncompatibleJournal => crate::HarnessCode::IncompatibleJournal,
            _ => crate::HarnessCode::EngineFailed,
        };
        Self::Harness(HarnessError::new(code, error.message))
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// A live owner works on it.
    Running,
    /// No owner, and not ended: it can be resumed.
    Interrupted,
    /// It waits; see `waiting`.
    Suspended,
    /// It ended with its work done.
    Completed,
    /// It ended with its last frame raised or rejected.
    Failed,
}

/// What a suspended run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The reason of the suspension.
    pub reason: SuspendCode,
    /// The permission, for `permission-required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PermissionRequest>,
    /// The answer that is already there and that a resume will act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Resolution>,
}

/// One run of a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run's id.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// Frames that have ended.
    pub frames: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_at: i64,
    /// When its last row was written.
    pub updated_at: i64,
    /// What it waits for, when it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// A page of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many to pass over.
    pub skip: u64,
    /// How many at most.
    pub limit: u64,
}

impl Default for Page {
    fn default() -> Self {
        Self { skip: 0, limit: 1_000 }
    }
}

/// An answer to a parked permission.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is answered.
    pub resolution: Resolution,
    /// For how much, for a run or remembered grant; without one, for exactly what was asked.
    pub pattern: Option<CapabilityPattern>,
    /// The logical workspace root, which a run or remembered grant is judged by; the other answers need none.
    pub workspace_root: String,
}

impl Decision {
    /// A grant that outlives the call, in a workspace.
    pub fn grant(
        resolution: Resolution,
        pattern: Option<CapabilityPattern>,
        workspace_root: impl Into<String>,
    ) -> Self {
        Self { resolution, pattern, workspace_root: workspace_root.into() }
    }
}

impl From<Resolution> for Decision {
    fn from(resolution: Resolution) -> Self {
        Self { resolution, pattern: None, workspace_root: String::new() }
    }
}

/// What was answered, and to which request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The run.
    pub run: RunId,
    /// The request's id.
    pub request: String,
    /// The answer that stands.
    pub resolution: Resolution,
    /// The grant that this answer put into the journal, and the run it is in: of an answer that outlives the call, and
    /// that was not there before.
    #[serde(skip)]
    pub grant: Option<(String, PersistedEvent)>,
}

/// The store of all runs: what `runs`, `show`, `resume`, `approve` and embedders call.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Creates a run durably; its `run-opened` row is the first. The same id with the same spec is the same run.
    ///
    /// # Errors
    /// `idempotency_conflict` when the id is in use with another spec; `engine_failed`.
    async fn create(&self, spec: RunSpec) -> Result<RunId, EngineError>;

    /// Takes ownership of a run.
    ///
    /// # Errors
    /// [`OpenError::NotFound`]; [`OpenError::Held`] while a live owner holds it; `incompatible_journal` for another
    /// format; `engine_failed`.
    async fn open(&self, run: &RunId, owner: Owner) -> Result<Arc<dyn Engine>, OpenError>;

    /// Runs, newest first.
    ///
    /// # Errors
    /// `engine_failed`.
    async fn list(&self, page: Page) -> Result<Vec<RunSummary>, EngineError>;

    /// The rows of a run after a `seq`, in order. Needs no ownership.
    ///
    /// # Errors
    /// `not_found` for no such run; `engine_failed`.
    async fn rows(&self, run: &RunId, after: u64) -> Result<Vec<Row>, EngineError>;

    /// One run's summary.
    ///
    /// # Errors
    /// `not_found` for no such run; `engine_failed`.
    async fn summary(&self, run: &RunId) -> Result<RunSummary, EngineError>;

    /// Answers a parked permission, durably; without a request id the only one. Answering again the same is the same
    /// answer. A grant for the run and a remembered one are held to the kernel's rules for patterns (kernel contract 5).
    ///
    /// # Errors
    /// `not_found` when the run does not wait for such a request; `idempotency_conflict` when another answer stands;
    /// `invalid_resolution` for a pattern that the request does not allow; `engine_failed`.
    async fn answer(
        &self,
        run: &RunId,
        request: Option<&str>,
        answer: Decision,
    ) -> Result<Answered, EngineError>;

    /// The grant journal on the same store.
    fn grants(&self) -> Arc<dyn Persist>;
}
