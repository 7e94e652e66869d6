//! The frames of a run, one after the other: looked up, evaluated, recorded.

use serde::Deserialize;
use serde_json::Value;

use super::bridge::{FrameBridge, Stop};
use super::checkpoints::Taken;
use super::{Event, ExecParams, Host, same_catalog};
use crate::engine::{Boundary, Engine, recorded};
use crate::error::{
    Escape, HarnessCode, HarnessError, ParkedCall, PermissionRequest, SuspendCode, SuspendReason,
};
use crate::flows::rules::CapabilitySet;
use crate::journal::{ClosedStatus, RunClosed};
use crate::program::{Program, RejectionCode};
use crate::realm::{
    FrameBoundary, FrameEnd, FrameOptions, Outcome, Realm, RealmFrame, SandboxError, Transition,
};
use crate::report::{FrameReport, ReportStatus, RunReport};

/// A driven run: its report, and how it ended when it did not close.
pub(crate) struct Driven {
    pub(crate) report: RunReport,
    pub(crate) escape: Option<Escape>,
    pub(crate) frame: u64,
}

enum End {
    Closed(RunClosed),
    Suspended(SuspendReason),
}

/// Drives an opened run. With `verify`, a frame that replays has to come out as it is recorded.
pub(crate) async fn drive(engine: &dyn Engine, host: &Host<'_>, verify: bool) -> Driven {
    let mut controller = Controller {
        engine,
        host,
        verify,
        frames: Vec::new(),
        mutated: 0,
        taken: Taken::default(),
        frame: 0,
        output: None,
        text: None,
    };
    let result = tokio::select! {
        biased;
        result = controller.run() => result,
        () = host.services.cancel.cancelled() => Err(Escape::Aborted),
    };
    let mut report = RunReport::open(engine.run(), ReportStatus::Interrupted, controller.frames);
    let mut escape = None;
    match result {
        Ok(End::Closed(closed)) => report.close(&closed),
        Ok(End::Suspended(reason)) => report.suspend(&reason),
        Err(why) => {
            report.fail(&why);
            escape = Some(why);
        }
    }
    Driven { report, escape, frame: controller.frame }
}

struct Controller<'a> {
    engine: &'a dyn Engine,
    host: &'a Host<'a>,
    verify: bool,
    frames: Vec<FrameReport>,
    /// Frames so far that made a call which is not sealed.
    mutated: u64,
    /// The run's checkpoints so far.
    taken: Taken,
    frame: u64,
    /// What the last frame that completed answered.
    output: Option<Value>,
    text: Option<String>,
}

impl Controller<'_> {
    async fn run(&mut self) -> Result<End, Escape> {
        let opened = self.engine.opened();
        same_catalog(self.host.calls, opened)?;
        let params = ExecParams::of(opened)?;
        self.taken = Taken::new(params.checkpoints);
        let mut realm = Realm::open(&opened.limits).await.map_err(|error| sandbox(&error))?;
        let end = self.frames(&mut realm, &params).await;
        realm.close().await;
        end
    }

    async fn frames(&mut self, realm: &mut Realm, params: &ExecParams) -> Result<End, Escape> {
        for (frame, cell) in (0u64..).zip(&params.cells) {
            self.frame = frame;
            self.host.observer.event(&Event::FrameOpened { frame, name: &cell.name });
            let prepared = params.prepare(frame);
            let mut report = FrameReport::opened(frame, &prepared);
            match &prepared.program {
                Err(rejected) => report.reject(rejected),
                Ok(program) => match self.evaluate(realm, frame, program, &mut report).await {
                    Ok(None) => {}
                    Ok(Some(reason)) => {
                        self.frames.push(report);
                        return Ok(End::Suspended(reason));
                    }
                    Err(escape) => {
                        self.frames.push(report);
                        return Err(escape);
                    }
                },
            }
            self.host.observer.event(&Event::FrameClosed { frame: &report });
            self.frames.push(report);
        }
        let error = self.frames.last().and_then(FrameReport::error);
        let closed = RunClosed {
            status: if error.is_some() { ClosedStatus::Failed } else { ClosedStatus::Completed },
            frames: self.frames.len() as u64,
            output: self.output.take().unwrap_or_default(),
            text: self.text.take(),
            error,
        };
        let value = serde_json::to_value(&closed).map_err(|error| HarnessError::engine(error.to_string()))?;
        let at = Boundary::closed(&self.engine.opened().session);
        let stood = self.engine.record(at.clone(), recorded(value.clone())).await?;
        if self.verify && stood.value != value {
            return Err(
                HarnessError::incompatible(at.key()?, "the run ends otherwise than it is recorded").into()
            );
        }
        Ok(End::Closed(closed))
    }

    /// Evaluates one frame: `Some` when the run suspends at it.
    async fn evaluate(
        &mut self,
        realm: &mut Realm,
        frame: u64,
        program: &Program,
        report: &mut FrameReport,
    ) -> Result<Option<SuspendReason>, Escape> {
        let (slot, terminal) = self.look_up(frame, program.digest()).await?;
        let opened = self.engine.opened();
        let cutoff = match &terminal {
            Some(record) => self.frontier(frame, program.digest(), slot, record)?,
            None => None,
        };
        let options = FrameOptions {
            limits: opened.limits.clone(),
            flows: self.host.calls.catalog().projections(),
            clock_free: terminal.is_some(),
            cut_at: cutoff.and_then(|cutoff| cutoff.steps),
        };
        let mut bridge = FrameBridge {
            engine: self.engine,
            host: self.host,
            frame,
            cell: program.digest(),
            terminal: terminal.is_some(),
            cutoff,
            mutated: self.mutated,
            taken: &mut self.taken,
            unsealed: 0,
            calls: Vec::new(),
            escape: None,
        };
        let end = realm.evaluate(frame, program, &options, &mut bridge).await;
        let FrameBridge { calls, unsealed, escape, .. } = bridge;
        report.calls = calls;
        if let Ok(FrameEnd::Interrupted { prints }) = &end {
            report.prints.clone_from(prints);
        }
        if unsealed > 0 {
            self.mutated += 1;
        }
        if let Some(stop) = escape {
            return self.stopped(stop).await;
        }
        let settled = match (terminal, end.map_err(|error| sandbox(&error))?) {
            (Some(record), FrameEnd::Done(evaluated)) => {
                self.verify_frame(frame, program.digest(), slot, &record, &evaluated)?;
                record
            }
            (Some(record), FrameEnd::Interrupted { .. }) if cutoff.is_some() => record,
            (_, FrameEnd::Interrupted { .. }) => return Err(Escape::Aborted),
            (None, FrameEnd::Done(evaluated)) => {
                report.settle(&evaluated);
                if let Some(reason) = self.park(frame, program.digest(), &evaluated).await? {
                    return Ok(Some(reason));
                }
                let value = serde_json::to_value(&evaluated)
                    .map_err(|error| HarnessError::engine(error.to_string()))?;
                let at = Boundary::frame(&opened.session, frame, program.digest(), slot + 1);
                self.engine.record(at, recorded(value)).await?;
                evaluated
            }
        };
        report.settle(&settled);
        if let Outcome::Settled { transition: Transition::Complete { output: done, text: said } } =
            settled.outcome
        {
            self.output = Some(done);
            self.text = Some(said);
        }
        Ok(None)
    }

    /// The frame's slot, and its record when it ended before (6.1). Without a record a fresh marker stands there.
    async fn look_up(&self, frame: u64, cell: &str) -> Result<(u64, Option<RealmFrame>), Escape> {
        let session = &self.engine.opened().session;
        for slot in 0.. {
            let at = Boundary::frame(session, frame, cell, slot);
            let found = self.engine.record(at.clone(), recorded(Value::Null)).await?;
            if !found.value.is_null() {
                let record = RealmFrame::deserialize(&found.value).map_err(|error| {
                    HarnessError::engine(format!("the record of frame {frame} does not read: {error}"))
                })?;
                return Ok((slot, Some(record)));
            }
            if found.fresh {
                return Ok((slot, None));
            }
        }
        Err(HarnessError::engine("a frame was attempted too often").into())
    }

    /// How far the record of a cut frame says its calls came (6.3). Replay runs no clock of its own: it serves the calls
    /// up to there and interrupts whatever comes after, as the cut did.
    fn frontier(
        &self,
        frame: u64,
        cell: &str,
        slot: u64,
        record: &RealmFrame,
    ) -> Result<Option<FrameBoundary>, HarnessError> {
        let cut = matches!(record.outcome, Outcome::Rejected { code: RejectionCode::LimitExceeded, .. });
        if cut && record.boundary.is_none() {
            let key = Boundary::frame(&self.engine.opened().session, frame, cell, slot).key()?;
            let why = format!("the record of frame {frame} does not say how far its calls came");
            return Err(HarnessError::incompatible(key, why));
        }
        Ok(record.boundary)
    }

    /// The bridge stopped the frame: a permission parks the run, anything else ends it for now.
    async fn stopped(&self, stop: Stop) -> Result<Option<SuspendReason>, Escape> {
        let (escape, call) = match stop {
            Stop { escape, call: Some(call) } => (escape, call),
            Stop { escape, call: None } => return Err(escape),
        };
        let ceiling = self.ceiling(&call.flow);
        let parked = ParkedCall { ordinal: call.ordinal, flow: call.flow, input: call.input };
        // A grant store counts from 1 in each process. An answer to an old request must not meet a newer one.
        let number = self.engine.suspensions().await?.saturating_add(1);
        let (request, message) = match escape {
            Escape::Permission(required) => {
                let request_id = format!("permission-{number}");
                (Some(PermissionRequest { request_id, ..PermissionRequest::from(&required) }), None)
            }
            // A denial that the handler passed on as it is (11): nobody can answer it, but policy can change.
            Escape::Harness(error) if error.code == HarnessCode::Suspended => (None, Some(error.message)),
            escape => return Err(escape),
        };
        let reason = SuspendReason {
            code: SuspendCode::PermissionRequired,
            frame: self.frame,
            at: call.at,
            request,
            attempt: Some(call.attempt),
            call: Some(parked),
            ceiling,
            message,
        };
        self.suspend(reason).await.map(Some)
    }

    /// The ceiling that a flow's calls are under.
    fn ceiling(&self, flow: &str) -> Option<CapabilitySet> {
        let entry = self.host.calls.registry().get_option(flow)?;
        let narrowed = self.host.services.authority.attenuate_declared(&entry.capabilities).ok()?;
        Some(narrowed.ceiling().clone())
    }

    /// Whether the frame's park suspends the run. A park that was suspended and taken up again is over: the frame
    /// settles, and the next one runs.
    async fn park(
        &self,
        frame: u64,
        cell: &str,
        evaluated: &RealmFrame,
    ) -> Result<Option<SuspendReason>, Escape> {
        let Outcome::Settled { transition: Transition::Park { reason, message } } = &evaluated.outcome else {
            return Ok(None);
        };
        let code = SuspendCode::from(*reason);
        let at = Boundary::frame(&self.engine.opened().session, frame, cell, 0).key()?;
        if self.engine.resumed(&at).await? {
            return Ok(None);
        }
        let message = Some(message.clone());
        let reason = SuspendReason {
            code,
            frame,
            at,
            request: None,
            attempt: None,
            call: None,
            ceiling: None,
            message,
        };
        self.suspend(reason).await.map(Some)
    }

    async fn suspend(&self, reason: SuspendReason) -> Result<SuspendReason, Escape> {
        match self.engine.suspend(reason.clone()).await {
            Err(Escape::Harness(error)) if error.code == HarnessCode::Suspended => Ok(reason),
            Err(escape) => Err(escape),
            Ok(never) => match never {},
        }
    }

    /// In a replay, a frame that ran to its end has to come out as it is recorded. What a clock or a heap cut is
    /// not reproducible: there the record stands (6.3).
    fn verify_frame(
        &self,
        frame: u64,
        cell: &str,
        slot: u64,
        record: &RealmFrame,
        evaluated: &RealmFrame,
    ) -> Result<(), Escape> {
        let cut =
            matches!(&record.outcome, Outcome::Rejected { code, .. } if code.as_str() == "limit_exceeded");
        if !self.verify || cut {
            return Ok(());
        }
        let what = if record.outcome != evaluated.outcome {
            "its outcome"
        } else if record.prints != evaluated.prints {
            "what it prints"
        } else if record.bindings != evaluated.bindings {
            "the names it binds"
        } else {
            return Ok(());
        };
        let key = Boundary::frame(&self.engine.opened().session, frame, cell, slot).key()?;
        Err(HarnessError::incompatible(
            key,
            format!("the frame comes out otherwise than it is recorded: {what}"),
        )
        .into())
    }
}

fn sandbox(error: &SandboxError) -> Escape {
    HarnessError::engine(error.to_string()).into()
}
