//! Driving a run: progress while it runs, Ctrl-C, and what its end means for the caller.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::engine::{OpenError, Owner, RunSpec, RunStatus, RunStore};
use flowcell_engines::harness::exec::{Host, resume, start};
use flowcell_engines::harness::journal::RunId;
use flowcell_engines::harness::report::{FrameReport, ReportStatus, RunReport};

use super::answer::{once, record};
use super::{Session, unprinted};
use crate::ask::{Ask, Reply, ask};
use crate::context::Context;
use crate::engine::owner;
use crate::errors::{Exit, Failure};
use crate::interrupt::Signals;
use crate::pins::OnceStore;
use crate::policy::Policy;
use crate::progress::{Progress, failed_frame, frame_label, parked_line, print, suspended_line};
use crate::render::{Messages, line};

/// What a cell raises when its heap is full and it did not catch that.
const OUT_OF_MEMORY: &str = "InternalError: out of memory";

/// How often a run that another process works on is asked for.
const POLL: Duration = Duration::from_millis(250);

/// A run, and what it is driven with.
pub(super) struct Driver<'a> {
    /// What the command stands on.
    pub(super) context: &'a Context<'a>,
    /// Policy.
    pub(super) policy: &'a Policy,
    /// The store of runs.
    pub(super) store: Arc<dyn RunStore>,
    /// The run.
    pub(super) run: &'a RunId,
    /// Its mocks.
    pub(super) mocks: &'a [PathBuf],
    /// What answers its calls.
    pub(super) calls: CellCalls,
}

/// How a run is taken up.
pub(super) enum Begin {
    /// It is made, or found again.
    Start(Box<RunSpec>),
    /// It is there.
    Resume {
        /// Whether another process that works on it is waited for.
        wait: bool,
    },
}

impl Driver<'_> {
    /// Whether runs keep checkpoints here.
    pub(super) fn keeps_checkpoints(&self) -> bool {
        self.context.keeps_checkpoints(self.policy)
    }

    /// Drives the run to its end, its suspension, its failure, or the first signal. Where somebody can be asked, a
    /// permission that it waits for is asked for, and the run goes on. It is suspended while it waits: a process that
    /// dies meanwhile loses nothing.
    pub(super) async fn drive(
        &self,
        session: &mut Session<'_, '_>,
        signals: &mut Signals,
        mut begin: Begin,
    ) -> Result<Exit, Failure> {
        let owner = owner()?;
        let ended = has_ended(self.store.as_ref(), self.run).await;
        let progress = Progress::new(session.surface.messages);
        // An answer for one call frees it only when this user gave it.
        let store = OnceStore::new(Arc::clone(&self.store), once(self.context, self.run)?);
        let driven =
            Driven { context: self.context, run: self.run, mocks: self.mocks, progress: &progress, ended };
        loop {
            let calls = self.calls.clone();
            let hosted = self.context.hosted(self.policy, self.store.grants(), Some(self.run), calls).await?;
            let host = Host { calls: &hosted.calls, services: &hosted.services, observer: &progress };
            let work = async {
                match begin {
                    Begin::Start(spec) => start(&store, *spec, owner.clone(), &host).await,
                    Begin::Resume { wait } => self.take_up(&store, &owner, &host, wait).await,
                }
            };
            let report = match signals.or(Box::pin(work), &self.context.cancel).await {
                Some(Ok(report)) if report.status == ReportStatus::Interrupted => {
                    driven.warn_of_frames(session.surface.messages, &report.frames);
                    return Err(driven.interrupted());
                }
                Some(Ok(report)) => report,
                Some(Err(OpenError::Held(_))) if self.context.cancel.is_cancelled() => {
                    return Err(driven.interrupted());
                }
                Some(Err(error)) => return Err(driven.not_opened(error)),
                None => return Err(driven.interrupted()),
            };
            let asked = signals.or(self.ask(&report), &self.context.cancel).await;
            match asked {
                None => return Err(driven.interrupted()),
                Some(Ok(false)) if self.context.cancel.is_cancelled() => return Err(driven.interrupted()),
                Some(answered) => {
                    if !answered? {
                        return driven.finish(session, &report);
                    }
                }
            }
            progress.again();
            begin = Begin::Resume { wait: true };
        }
    }

    async fn take_up(
        &self,
        store: &dyn RunStore,
        owner: &Owner,
        host: &Host<'_>,
        wait: bool,
    ) -> Result<RunReport, OpenError> {
        let mut said = false;
        loop {
            match resume(store, self.run, owner.clone(), host).await {
                Err(OpenError::Held(other)) if wait => {
                    if !said {
                        self.context.messages.say(&format!(
                            "waiting for process {}, which works on run {}",
                            other.pid, self.run
                        ));
                        said = true;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(POLL) => {}
                        () = self.context.cancel.cancelled() => return Err(OpenError::Held(other)),
                    }
                }
                ended => return ended,
            }
        }
    }

    /// Asks for what a suspended run waits for; whether it was answered.
    async fn ask(&self, report: &RunReport) -> Result<bool, Failure> {
        let request = report.suspended.as_ref().and_then(|suspended| suspended.request.as_ref());
        let Some(request) = request.filter(|_| self.context.attended(self.policy)) else { return Ok(false) };
        let variables = self.context.variables();
        let what = Ask {
            call: parked_line(report),
            capability: &request.capability,
            tier: request.tier,
            lasting: true,
            variables: &variables,
            cancel: &self.context.cancel,
        };
        loop {
            let reply = ask(self.context.messages, &what).await.map_err(|error| {
                Failure::engine(format!("the answer cannot be read from the terminal: {error}"))
            })?;
            let Reply::Answer(resolution, pattern) = reply else { return Ok(false) };
            let store = self.store.as_ref();
            match record(self.context, store, self.run, Some(&request.request_id), resolution, pattern).await
            {
                Ok(_) => return Ok(true),
                Err(failure) if failure.code == "invalid_resolution" => {
                    self.context.messages.say(&failure.message);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// A run that is driven, and what is said of it.
struct Driven<'a> {
    context: &'a Context<'a>,
    run: &'a RunId,
    mocks: &'a [PathBuf],
    /// What is shown while it runs.
    progress: &'a Progress,
    /// Whether it had ended before, so that it is read back.
    ended: bool,
}

/// Whether a run is there and has ended. What goes wrong here goes wrong again when the run is opened.
async fn has_ended(store: &dyn RunStore, run: &RunId) -> bool {
    store
        .summary(run)
        .await
        .is_ok_and(|summary| matches!(summary.status, RunStatus::Completed | RunStatus::Failed))
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
