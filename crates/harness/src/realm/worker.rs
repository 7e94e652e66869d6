//! The realm's own thread: it owns the engine, runs frames and speaks the message protocol.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::budget::{Budget, Trip};
use super::js::{Js, Script, Thrown};
use super::message::{Cut, End, Finish, FromRealm, ToRealm};
use super::text::cut_middle;
use super::{FrameBoundary, Limits, Terminal};
use crate::program::RejectionCode;

/// The jobs that may run while a cut frame is torn down (harness contract 3.5).
const TEARDOWN_JOBS: u64 = 1024;

/// The longest name or message of a raised error, in bytes; a longer one is cut in the middle and says so.
const MAX_RAISED_BYTES: usize = 4096;

/// What a pending call is rejected with when its frame is torn down.
pub(super) const INTERRUPTED: &str = "The cell was interrupted";

/// A realm's way to its host.
pub(super) trait Port {
    /// Sends a message; `None` when nobody listens any more.
    fn send(&self, message: &FromRealm) -> Option<()>;
    /// Waits for the next message; `None` when nobody will send one.
    fn receive(&self) -> Option<ToRealm>;
}

/// Serves a realm until its host closes it.
pub(super) fn serve(port: &impl Port, limits: &Limits, abandoned: Arc<AtomicBool>) {
    let js = match Js::open(limits, Budget::new(abandoned)) {
        Ok(js) => js,
        Err(message) => {
            port.send(&FromRealm::Failed { message });
            return;
        }
    };
    let mut worker = Worker { js, port, relief: false, throws_null: false };
    if port.send(&FromRealm::Opened).is_none() {
        return;
    }
    while let Some(message) = port.receive() {
        let ToRealm::Evaluate { frame, text, limits, flows, clock_free, cut_at, throws_null } = message
        else {
            return;
        };
        worker.throws_null |= throws_null;
        if let Some(flows) = flows {
            let entries = serde_json::to_string(&flows).unwrap_or_else(|_| "[]".into());
            if !worker.js.catalog(&entries) {
                port.send(&FromRealm::Failed { message: "the catalog does not fit the realm".into() });
                return;
            }
        }
        let Some(finish) = worker.frame(frame, &text, &limits, Clocks { free: clock_free, cut_at }) else {
            return;
        };
        if port.send(&FromRealm::Finish { finish: Box::new(finish) }).is_none() {
            return;
        }
    }
}

struct Worker<'a, P> {
    js: Js,
    port: &'a P,
    /// The next frame gets headroom, because the heap was full.
    relief: bool,
    /// A program of this realm could throw null on its own account.
    throws_null: bool,
}

/// Which clocks a frame runs under.
#[derive(Clone, Copy)]
struct Clocks {
    /// None: it replays.
    free: bool,
    /// The polls after which a clock cut it when it ran first.
    cut_at: Option<u64>,
}

/// How far a frame came.
struct Progress {
    dispatched: i64,
    settled: i64,
}

/// Why a frame was cut.
enum Why {
    Limit { reason: &'static str, message: String, terminal: Terminal },
    Interrupted,
}

/// The frame cannot go on because nobody listens or the engine broke.
struct Gone;

impl<P: Port> Worker<'_, P> {
    fn frame(&mut self, frame: u64, text: &str, limits: &Limits, clocks: Clocks) -> Option<Finish> {
        let relief = std::mem::take(&mut self.relief);
        self.js.budget.open(limits, clocks.free, clocks.cut_at);
        self.js.open_frame(relief).then_some(())?;
        let mut progress = Progress { dispatched: -1, settled: -1 };
        let driven = match self.js.evaluate(format!("cell-{frame}.js"), text) {
            Ok(()) => self.drive(limits, &mut progress).ok()?,
            Err(thrown) => match self.js.budget.trip() {
                Some(trip) => Err(tripped(trip, limits)),
                None => Ok(refused(&thrown, text)),
            },
        };
        self.flush()?;
        let (end, boundary) = match driven {
            Ok(end) => {
                self.js.close_frame(INTERRUPTED).then_some(())?;
                (end, None)
            }
            Err(why) => self.cut(why, &progress)?,
        };
        self.flush()?;
        let unread = self.js.unread();
        let ran_out = matches!(&end, End::Raised { name, message } if name == "InternalError" && message == "out of memory");
        if ran_out || self.js.full() {
            self.js.collect();
            self.relief = ran_out || self.js.full();
        }
        let bindings = self.js.probe();
        Some(Finish { end, bindings, boundary, unread })
    }

    /// The drive loop (harness contract 3.3). The inner error is what cut the frame.
    fn drive(&mut self, limits: &Limits, progress: &mut Progress) -> Result<Result<End, Why>, Gone> {
        loop {
            self.flush().ok_or(Gone)?;
            if let Some(trip) = self.js.budget.trip() {
                return Ok(Err(tripped(trip, limits)));
            }
            if !self.js.queued() {
                self.js.run_jobs(None);
                self.flush().ok_or(Gone)?;
                if let Some(trip) = self.js.budget.trip() {
                    return Ok(Err(tripped(trip, limits)));
                }
                match self.js.script() {
                    _ if self.js.queued() => continue,
                    Script::Ended => return Ok(self.settled()),
                    Script::Threw => return Ok(Ok(self.raised(&self.js.thrown()))),
                    Script::Pending => {
                        return Ok(Ok(End::Rejected {
                            code: RejectionCode::Stalled,
                            message: "The cell waits for a promise that nothing will settle.".into(),
                            reason: None,
                        }));
                    }
                }
            }
            let issued = u64::try_from(progress.dispatched + 1).unwrap_or(0);
            if issued >= limits.calls {
                return Ok(Err(Why::Limit {
                    reason: "calls",
                    message: format!(
                        "The frame's limit of {} calls is spent; no further call ran.",
                        limits.calls
                    ),
                    terminal: Terminal::Settled,
                }));
            }
            let request = match self.js.take() {
                Ok(Some(request)) => request,
                Ok(None) => continue,
                Err(()) => {
                    return Ok(Err(heap(format!(
                        "The input of call {issued} does not fit the realm while it is copied out."
                    ))));
                }
            };
            progress.dispatched += 1;
            self.port.send(&FromRealm::Call { ordinal: issued, request }).ok_or(Gone)?;
            match self.port.receive().ok_or(Gone)? {
                ToRealm::Settle { ordinal, reply, estimate } if ordinal == issued => {
                    if !self.js.free(estimate) {
                        return Ok(Err(heap(format!(
                            "The reply to call {issued} needs about {estimate} bytes, more than the realm has free."
                        ))));
                    }
                    if !self.js.settle(issued, &reply) {
                        return Ok(Err(heap(format!("The reply to call {issued} does not fit the realm."))));
                    }
                    progress.settled += 1;
                    self.js.run_jobs(None);
                }
                ToRealm::Cut { why: Cut::Total } => return Ok(Err(tripped(Trip::Total, limits))),
                ToRealm::Cut { why: Cut::Heap(message) } => return Ok(Err(heap(message))),
                ToRealm::Cut { why: Cut::Interrupted } => return Ok(Err(Why::Interrupted)),
                ToRealm::Settle { .. } | ToRealm::Evaluate { .. } | ToRealm::Close => return Err(Gone),
            }
        }
    }

    /// Hands the host what was printed.
    fn flush(&self) -> Option<()> {
        for statement in self.js.printed() {
            self.port.send(&FromRealm::Print { statement })?;
        }
        Some(())
    }

    fn settled(&self) -> Result<End, Why> {
        let (intent, justification) = self
            .js
            .latched()
            .ok_or_else(|| heap("The cell's result does not fit the realm while it is copied out.".into()))?;
        Ok(End::Settled { intent, justification })
    }

    fn raised(&self, thrown: &Thrown) -> End {
        let exhausted = thrown.nothing && (!self.throws_null || self.js.crowded());
        let memory = Thrown::out_of_memory();
        let thrown = if exhausted { &memory } else { thrown };
        End::Raised {
            name: cut_middle(&thrown.name, MAX_RAISED_BYTES),
            message: cut_middle(&thrown.message, MAX_RAISED_BYTES),
        }
    }

    /// Tears a cut frame down: admission closes, what is pending is rejected, a bounded number of jobs runs and the rest
    /// are dropped.
    fn cut(&mut self, why: Why, progress: &Progress) -> Option<(End, Option<FrameBoundary>)> {
        let cut_at = self.js.budget.cut_at();
        let message = match &why {
            Why::Limit { message, terminal: Terminal::Settled, .. } => message.as_str(),
            Why::Limit { terminal: Terminal::Timeout, .. } | Why::Interrupted => INTERRUPTED,
        };
        self.js.close_frame(message).then_some(())?;
        self.js.reject_all(message);
        self.js.run_jobs(Some(TEARDOWN_JOBS));
        self.js.drop_jobs();
        Some(match why {
            Why::Interrupted => (End::Interrupted, None),
            Why::Limit { reason, message, terminal } => (
                End::Rejected { code: RejectionCode::LimitExceeded, message, reason: Some(reason.into()) },
                Some(FrameBoundary {
                    terminal,
                    dispatched: progress.dispatched,
                    settled: progress.settled,
                    steps: cut_at,
                }),
            ),
        })
    }
}

fn heap(message: String) -> Why {
    Why::Limit { reason: "heap", message, terminal: Terminal::Settled }
}

fn tripped(trip: Trip, limits: &Limits) -> Why {
    let (reason, terminal, message) = match trip {
        Trip::Steps => (
            "steps",
            Terminal::Settled,
            format!("The cell's JavaScript ran past the steps limit of {} and was cut.", limits.steps),
        ),
        Trip::Time => (
            "timeMs",
            Terminal::Settled,
            format!("The cell's JavaScript ran longer than {} ms and was cut.", limits.time_ms),
        ),
        Trip::Total => (
            "totalMs",
            Terminal::Timeout,
            format!("The frame took longer than {} ms and was cut.", limits.total_ms),
        ),
        Trip::Abandoned => return Why::Interrupted,
    };
    Why::Limit { reason, message, terminal }
}

/// What was thrown before the script began: the program does not compile, or not here.
fn refused(thrown: &Thrown, text: &str) -> End {
    if thrown.is_out_of_memory() || thrown.nothing {
        let memory = Thrown::out_of_memory();
        return End::Raised { name: memory.name, message: memory.message };
    }
    let compiles = !matches!(thrown.name.as_str(), "SyntaxError" | "RangeError" | "InternalError");
    if compiles {
        return End::Raised {
            name: cut_middle(&thrown.name, MAX_RAISED_BYTES),
            message: cut_middle(&thrown.message, MAX_RAISED_BYTES),
        };
    }
    let message = cut_middle(&thrown.message, MAX_RAISED_BYTES);
    let place = place(&thrown.stack).map_or_else(String::new, |(line, column)| {
        let quoted = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        format!("Line {line}, column {column}: {message}.\n    {}", cut_middle(quoted, 400))
    });
    let message = if place.is_empty() { format!("{}: {message}", thrown.name) } else { place };
    End::Rejected { code: RejectionCode::CompileFailed, message, reason: None }
}

/// The line and column at the end of an error's first stack line, `    at cell-0.js:3:5`.
fn place(stack: &str) -> Option<(usize, usize)> {
    let line = stack.lines().next()?.trim_end().trim_end_matches(')');
    let mut parts = line.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    Some((number, column))
}
