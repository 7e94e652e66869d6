//! Driving a run: progress while it runs, Ctrl-C, and what its end means for the caller.

use std::future::Future;
use std::path::PathBuf;

use flowcell_engines::harness::engine::{OpenError, RunStatus, RunStore};
use flowcell_engines::harness::journal::RunId;
use flowcell_engines::harness::report::{FrameReport, ReportStatus, RunReport};

use super::{Session, unprinted};
use crate::context::Context;
use crate::errors::{Exit, Failure};
use crate::interrupt::Signals;
use crate::progress::{Progress, failed_frame, frame_label, parked_line, print, suspended_line};
use crate::render::{Messages, line};

/// What a cell raises when its heap is full and it did not catch that.
const OUT_OF_MEMORY: &str = "InternalError: out of memory";

/// A run that is driven, and what is said of it.
pub(super) struct Driven<'a> {
    /// What the command stands on.
    pub(super) context: &'a Context<'a>,
    /// The run.
    pub(super) run: &'a RunId,
    /// Its mocks.
    pub(super) mocks: &'a [PathBuf],
    /// What is shown while it runs.
    pub(super) progress: &'a Progress,
    /// Whether it had ended before, so that it is read back.
    pub(super) ended: bool,
}

/// Whether a run is there and has ended. What goes wrong here goes wrong again when the run is opened.
pub(super) async fn has_ended(store: &dyn RunStore, run: &RunId) -> bool {
    store
        .summary(run)
        .await
        .is_ok_and(|summary| matches!(summary.status, RunStatus::Completed | RunStatus::Failed))
}

/// Drives a run to its end, its suspension, its failure, or the first signal.
pub(super) async fn drive(
    session: &mut Session<'_, '_>,
    signals: &mut Signals,
    driven: &Driven<'_>,
    work: impl Future<Output = Result<RunReport, OpenError>>,
) -> Result<Exit, Failure> {
    let cancel = &driven.context.cancel;
    let ended = signals.or(work, cancel).await;
    match ended {
        Some(Ok(report)) if report.status == ReportStatus::Interrupted => {
            driven.warn_of_frames(session.surface.messages, &report.frames);
            Err(driven.interrupted())
        }
        Some(Ok(report)) => driven.finish(session, &report),
        Some(Err(OpenError::Held(_))) if cancel.is_cancelled() => Err(driven.interrupted()),
        Some(Err(error)) => Err(driven.not_opened(error)),
        None => Err(driven.interrupted()),
    }
}

impl Driven<'_> {
    fn resume(&self) -> String {
        format!("`flowcell resume {}{}`", self.run, self.context.resume_flags(self.mocks))
    }

    fn keeps_nothing(&self) -> bool {
        self.context.common.engine.as_deref() == Some("memory:")
    }

    fn interrupted(&self) -> Failure {
        let message = format!("run {} was interrupted", self.run);
        let failure = Failure::new(Exit::Interrupted, "interrupted", message);
        if self.keeps_nothing() {
            return failure.hint("The memory engine keeps nothing; run it again.");
        }
        failure.hint(format!("go on with {}", self.resume()))
    }

    fn not_opened(&self, error: OpenError) -> Failure {
        let held = matches!(error, OpenError::Held(_));
        let failure = Failure::from(error);
        if !held {
            return failure;
        }
        failure.hint(format!(
            "run {} waits for that process; when it has ended, go on with {}",
            self.run,
            self.resume()
        ))
    }

    /// Says which frames raised or were rejected: a later frame that is fine does not hide them.
    fn warn_of_frames(&self, messages: Messages, frames: &[FrameReport]) {
        for frame in frames {
            if let Some(failed) = failed_frame(frame, self.progress.name(frame.frame).as_deref()) {
                messages.warn(&failed);
            }
        }
    }

    /// Prints how a run ended, and says what status that is.
    fn finish(&self, session: &mut Session<'_, '_>, report: &RunReport) -> Result<Exit, Failure> {
        if session.surface.json {
            session.surface.document(report).map_err(|error| unprinted(&error))?;
        } else if report.status == ReportStatus::Completed
            && let Some(text) = &report.text
        {
            session.surface.text(text).map_err(|error| unprinted(&error))?;
        }
        let messages = session.surface.messages;
        if self.ended {
            messages.note(&format!("run {} has ended; its result is read back, and nothing ran", report.run));
        }
        match report.status {
            ReportStatus::Suspended => {
                self.warn_of_frames(messages, &report.frames);
                // The frame that waits has not ended, so its prints have not been shown.
                if let Some(frame) = report.frames.last() {
                    print(messages, &frame.prints);
                }
                if let Some(parked) = parked_line(report) {
                    messages.say(&parked);
                }
                messages.say(&suspended_line(self.context, report, self.mocks));
            }
            ReportStatus::Failed | ReportStatus::Exhausted => self.failed(messages, report),
            ReportStatus::Completed | ReportStatus::Running | ReportStatus::Interrupted => {
                self.warn_of_frames(messages, &report.frames);
            }
        }
        Ok(exit_of(report))
    }

    fn failed(&self, messages: Messages, report: &RunReport) {
        let run = &report.run;
        let (last, before) = match report.frames.split_last() {
            Some((last, before)) => (Some(last), before),
            None => (None, &[][..]),
        };
        self.warn_of_frames(messages, before);
        let place = last
            .map(|frame| format!(" in {}", frame_label(frame, self.progress.name(frame.frame).as_deref())));
        let (code, message) = match &report.error {
            Some(error) => (error.code.as_str(), error.message.as_str()),
            None => ("failed", "it says no more"),
        };
        let place = place.unwrap_or_default();
        // What a cell threw stays on its line; what the harness says of a cell quotes it on the next.
        let shown = if code == "raised" { line(message) } else { message.to_owned() };
        messages.error(&format!("run {run} failed{place}: {}: {shown}", line(code)));
        match code {
            "limit_exceeded" => {
                messages.say(&limit_hint(last.and_then(|frame| frame.reason.as_deref())));
            }
            "raised" if message == OUT_OF_MEMORY => messages.say(&limit_hint(Some("heap"))),
            "compile_failed" => {
                messages.say("cells are JavaScript, not TypeScript: leave out types, JSX and imports");
            }
            _ => {}
        }
        if self.keeps_nothing() {
            return;
        }
        messages.say(&format!("see it with `flowcell show {run}{}`", self.context.place_flags()));
        if code == "engine_failed" {
            messages.say(&format!("nothing is lost: when the cause is gone, go on with {}", self.resume()));
        }
    }
}

/// The flag that sets the limit which a frame ran into.
fn limit_hint(reason: Option<&str>) -> String {
    let (name, unit) = match reason {
        Some("heap") => ("memoryBytes", "BYTES"),
        Some("stack") => ("stackBytes", "BYTES"),
        Some(name @ ("timeMs" | "totalMs" | "callMs")) => (name, "MS"),
        Some(name @ ("calls" | "steps")) => (name, "N"),
        _ => return "a new run takes another limit with `--limit NAME=VALUE`; `flowcell exec --help` names them".into(),
    };
    format!("a run keeps its limits; a new run takes a higher one with `--limit {name}={unit}`")
}

fn exit_of(report: &RunReport) -> Exit {
    match report.status {
        ReportStatus::Completed | ReportStatus::Running => Exit::Done,
        ReportStatus::Suspended => Exit::Suspended,
        ReportStatus::Interrupted => Exit::Interrupted,
        ReportStatus::Failed | ReportStatus::Exhausted => match &report.error {
            Some(error) if error.code == "incompatible_journal" => Exit::Incompatible,
            _ => Exit::Failed,
        },
    }
}
