//! What a run looks like from outside: one shape for a run that just ended and for one read back from its journal.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::Boundary;
use crate::error::{Escape, HarnessError, ParkedCall, PermissionRequest, SuspendCode, SuspendReason};
use crate::exec::{ExecParams, Prepared};
use crate::failure::{CallFailure, CallOutcome};
use crate::journal::{CellCall, ClosedStatus, Kind, Row, RunClosed, RunError, RunId, RunOpened};
use crate::keys;
use crate::program::Rejected;
use crate::realm::{BindingReading, Outcome, RealmFrame, Transition};

/// Where a reported run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportStatus {
    /// Its work is done.
    Completed,
    /// It failed; `error` says why.
    Failed,
    /// It waits; `suspended` says for what.
    Suspended,
    /// It had no frame left.
    Exhausted,
    /// A live owner works on it.
    Running,
    /// No owner, and not ended.
    Interrupted,
}

/// A run, frame by frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: ReportStatus,
    /// The output of the last frame that completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The same as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<SuspendedReport>,
    /// The call that waits for a permission; for people, and not part of the document.
    #[serde(skip)]
    pub parked: Option<ParkedCall>,
    /// Its frames.
    pub frames: Vec<FrameReport>,
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspendedReport {
    /// The reason.
    pub reason: SuspendCode,
    /// The permission, for `permission-required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PermissionRequest>,
    /// What the cell said when it parked; in the document it is its frame's message.
    #[serde(skip)]
    pub message: Option<String>,
}

impl From<&SuspendReason> for SuspendedReport {
    fn from(reason: &SuspendReason) -> Self {
        Self { reason: reason.code, request: reason.request.clone(), message: reason.message.clone() }
    }
}

/// How a frame's cell ended; absent while it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameOutcome {
    /// With a transition.
    Settled,
    /// With an exception.
    Raised,
    /// With a refusal of the cell.
    Rejected,
}

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameReport {
    /// The frame, from 0.
    pub frame: u64,
    /// The program, when one was recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How many cell blocks a reply held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// How the cell ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FrameOutcome>,
    /// `continue`, `complete` or `park`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<String>,
    /// The rejection's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The exception's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The exception's, rejection's or park's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The park's or the rejection's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the cell said to `ctx.justify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// The output, of a frame that completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What the cell printed.
    pub prints: String,
    /// The names that are bound after it.
    pub bindings: Vec<BindingReading>,
    /// Its calls, in issue order.
    pub calls: Vec<CallReport>,
}

/// One call of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallReport {
    /// Its place in the frame.
    pub ordinal: u64,
    /// The flow.
    pub flow: String,
    /// What was asked.
    pub input: Value,
    /// The checkpoint it was asked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether it succeeded.
    pub ok: bool,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// Whether its settlement was read back from the journal.
    pub replayed: bool,
    /// How long its dispatch took.
    pub ms: u64,
}

impl CallReport {
    pub(crate) fn new(record: &CellCall, replayed: bool) -> Self {
        let error = match &record.outcome {
            CallOutcome::Success(_) => None,
            CallOutcome::Failure(failure) => Some(failure.clone()),
        };
        Self {
            ordinal: record.ordinal,
            flow: record.flow.clone(),
            input: record.input.clone(),
            at: record.at.clone(),
            ok: error.is_none(),
            error,
            replayed,
            ms: record.ms,
        }
    }
}

impl FrameReport {
    /// A frame of which only the program is known.
    pub(crate) fn opened(frame: u64, prepared: &Prepared) -> Self {
        Self {
            frame,
            program: prepared.source.as_ref().map(|source| source.text.clone()),
            blocks: prepared.blocks,
            ..Self::default()
        }
    }

    /// Adds that the cell was refused before it ran.
    pub(crate) fn reject(&mut self, rejected: &Rejected) {
        self.outcome = Some(FrameOutcome::Rejected);
        self.code = Some(rejected.code.as_str().to_owned());
        self.message = Some(rejected.message.clone());
    }

    /// Adds how the cell ended.
    pub(crate) fn settle(&mut self, frame: &RealmFrame) {
        self.prints = frame.prints.clone();
        self.bindings = frame.bindings.clone();
        match &frame.outcome {
            Outcome::Settled { transition } => {
                self.outcome = Some(FrameOutcome::Settled);
                match transition {
                    Transition::Continue { justification } => {
                        self.transition = Some("continue".into());
                        self.justification = justification.clone();
                    }
                    Transition::Complete { output, .. } => {
                        self.transition = Some("complete".into());
                        self.output = Some(output.clone());
                    }
                    Transition::Park { reason, message } => {
                        self.transition = Some("park".into());
                        self.reason = Some(reason.as_str().to_owned());
                        self.message = Some(message.clone());
                    }
                }
            }
            Outcome::Raised { name, message } => {
                self.outcome = Some(FrameOutcome::Raised);
                self.name = Some(name.clone());
                self.message = Some(message.clone());
            }
            Outcome::Rejected { code, message, reason } => {
                self.outcome = Some(FrameOutcome::Rejected);
                self.code = Some(code.as_str().to_owned());
                self.message = Some(message.clone());
                self.reason = reason.clone();
            }
        }
    }

    /// Why the frame makes the run fail when it is the last one.
    pub(crate) fn error(&self) -> Option<RunError> {
        let message = self.message.clone().unwrap_or_default();
        match self.outcome? {
            FrameOutcome::Settled => None,
            FrameOutcome::Raised => Some(RunError {
                code: "raised".into(),
                message: match self.name.as_deref() {
                    Some(name) if !name.is_empty() => format!("{name}: {message}"),
                    _ => message,
                },
            }),
            FrameOutcome::Rejected => Some(RunError { code: self.code.clone().unwrap_or_default(), message }),
        }
    }
}

impl RunReport {
    /// A run whose frames are known and whose end is not.
    pub(crate) fn open(run: &RunId, status: ReportStatus, frames: Vec<FrameReport>) -> Self {
        Self {
            run: run.clone(),
            status,
            output: None,
            text: None,
            error: None,
            suspended: None,
            parked: None,
            frames,
        }
    }

    /// Adds the run's end.
    pub(crate) fn close(&mut self, closed: &RunClosed) {
        self.status = match closed.status {
            ClosedStatus::Completed => ReportStatus::Completed,
            ClosedStatus::Failed => ReportStatus::Failed,
        };
        self.output = Some(closed.output.clone());
        self.text = closed.text.clone();
        self.error = closed.error.clone();
    }

    /// Adds a suspension.
    pub(crate) fn suspend(&mut self, reason: &SuspendReason) {
        self.status = ReportStatus::Suspended;
        self.suspended = Some(reason.into());
        self.parked = reason.call.clone();
        if reason.code == SuspendCode::PermissionRequired && reason.request.is_none() {
            let message = reason.message.clone().unwrap_or_default();
            self.error = Some(RunError { code: "permission_denied".into(), message });
        }
    }

    /// Adds that the run cannot go on for now.
    pub(crate) fn fail(&mut self, escape: &Escape) {
        self.status = match escape {
            Escape::Aborted => ReportStatus::Interrupted,
            _ => ReportStatus::Failed,
        };
        self.error = Some(match escape {
            Escape::Harness(error) => {
                RunError { code: error.code.to_string(), message: error.message.clone() }
            }
            Escape::Permission(required) => {
                RunError { code: "suspended".into(), message: required.to_string() }
            }
            Escape::LeaseLost => RunError { code: "engine_failed".into(), message: escape.to_string() },
            Escape::Aborted => RunError { code: "aborted".into(), message: escape.to_string() },
        });
    }

    /// Reads a run back from its rows, evaluating nothing.
    ///
    /// # Errors
    /// `engine_failed` for rows that do not read; `incompatible_journal` for another format.
    pub fn of_rows(run: &RunId, status: ReportStatus, rows: &[Row]) -> Result<Self, HarnessError> {
        let mut index: HashMap<(Kind, &str), &Row> = HashMap::with_capacity(rows.len());
        for row in rows {
            index.insert((row.kind, row.key.as_str()), row);
        }
        let opened = opened(rows)?;
        let params = ExecParams::of(&opened)?;
        let closed = rows.iter().rev().find(|row| row.kind == Kind::RunClosed);
        let mut frames = Vec::new();
        // A cell that was refused before it ran leaves no record: it was reached when something after it was.
        let mut refused = Vec::new();
        for frame in 0..params.cells.len() as u64 {
            let prepared = params.prepare(frame);
            let mut report = FrameReport::opened(frame, &prepared);
            match &prepared.program {
                Err(rejected) => {
                    report.reject(rejected);
                    refused.push(report);
                }
                Ok(program) => {
                    if !read_frame(&mut report, &index, &opened.session, program.digest())? {
                        break;
                    }
                    frames.append(&mut refused);
                    frames.push(report);
                }
            }
        }
        if closed.is_some() {
            frames.append(&mut refused);
        }
        let mut report = Self::open(run, status, frames);
        if let Some(closed) = closed {
            report.close(&closed.decode()?);
        } else if status == ReportStatus::Suspended
            && let Some(row) = rows.iter().rev().find(|row| row.kind == Kind::Suspended)
        {
            report.suspend(&row.decode()?);
        }
        Ok(report)
    }
}

/// The `run-opened` row of a run, when this version reads it.
///
/// # Errors
/// `incompatible_journal` for another format; `engine_failed` when there is no such row or it does not read.
pub fn opened(rows: &[Row]) -> Result<RunOpened, HarnessError> {
    let row = rows
        .iter()
        .find(|row| row.kind == Kind::RunOpened)
        .ok_or_else(|| HarnessError::engine("the journal has no run-opened row"))?;
    let format = row.payload.get("format").cloned().unwrap_or(Value::Null);
    if format != json!(crate::journal::FORMAT) {
        return Err(HarnessError::incompatible(
            row.key.clone(),
            format!(
                "the run was journaled in format {format}; this version reads format {}. Start a new run",
                crate::journal::FORMAT
            ),
        ));
    }
    row.decode()
}

/// Whether the frame was reached; what the journal holds of it goes into the report.
fn read_frame(
    report: &mut FrameReport,
    index: &HashMap<(Kind, &str), &Row>,
    session: &str,
    cell: &str,
) -> Result<bool, HarnessError> {
    let mut slot = 0;
    let mut reached = false;
    loop {
        let key = Boundary::frame(session, report.frame, cell, slot).key()?;
        let Some(row) = index.get(&(Kind::CellFrame, key.as_str())) else { break };
        reached = true;
        if !row.payload.is_null() {
            report.settle(&row.decode::<RealmFrame>()?);
            break;
        }
        slot += 1;
    }
    for ordinal in 0.. {
        let boundary = keys::call_boundary(cell, ordinal);
        let key = keys::record_key(Kind::CellCall.as_str(), session, report.frame, &boundary)?;
        let Some(row) = index.get(&(Kind::CellCall, key.as_str())) else { break };
        report.calls.push(CallReport::new(&row.decode::<CellCall>()?, false));
    }
    Ok(reached)
}
