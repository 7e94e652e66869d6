//! The host's side of a realm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc as channel;

use super::console::{self, Statement};
use super::message::{Cut, End, Finish, FromRealm, Intent as WireIntent, Request, ToRealm};
use super::values::{self, MAX_DEPTH};
use super::worker::{self, Port};
use super::{
    BindingReading, Bridge, BridgeRequest, FlowProjection, FrameEnd, Intent, Limits, Outcome, RealmFrame,
    SandboxError, repl_transition,
};
use crate::program::{Program, RejectionCode};

/// The stack of a realm's thread beyond `stackBytes`, for the engine's own frames.
const THREAD_STACK: usize = 8 << 20;

/// What one frame runs under.
#[derive(Clone, Debug, Default)]
pub struct FrameOptions {
    /// The frame's limits; its `memory_bytes` and `stack_bytes` are the realm's, whatever stands here.
    pub limits: Limits,
    /// What `ctx.flows` shows.
    pub flows: Arc<[FlowProjection]>,
    /// No wall clock ends the frame: it replays (harness contract 6.3).
    pub clock_free: bool,
    /// The interrupt polls after which a clock cut the frame when it ran first ([`FrameBoundary`](super::FrameBoundary)'s `steps`).
    pub cut_at: Option<u64>,
}

/// The realm of a run: one global object that all its cells share, on a thread of its own.
///
/// **Invariant:** a realm whose evaluation was dropped half-way takes no other frame.
pub struct Realm {
    to: mpsc::Sender<Vec<u8>>,
    from: channel::UnboundedReceiver<Vec<u8>>,
    abandoned: Arc<AtomicBool>,
    limits: Limits,
    usable: bool,
    flows: Option<Arc<[FlowProjection]>>,
    bindings: Vec<BindingReading>,
}

impl std::fmt::Debug for Realm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Realm").field("usable", &self.usable).finish_non_exhaustive()
    }
}

struct ThreadPort {
    to: channel::UnboundedSender<Vec<u8>>,
    from: mpsc::Receiver<Vec<u8>>,
}

impl Port for ThreadPort {
    fn send(&self, message: &FromRealm) -> Option<()> {
        self.to.send(serde_json::to_vec(message).ok()?).ok()
    }

    fn receive(&self) -> Option<ToRealm> {
        serde_json::from_slice(&self.from.recv().ok()?).ok()
    }
}

impl Realm {
    /// Opens a realm and runs its prelude.
    ///
    /// # Errors
    /// `unsupported` for a limit that is out of range, `unavailable` when no thread or no realm can be had.
    pub async fn open(limits: &Limits) -> Result<Self, SandboxError> {
        limits.validate()?;
        let abandoned = Arc::new(AtomicBool::new(false));
        let (flag, realm_limits) = (abandoned.clone(), limits.clone());
        Self::start(limits, abandoned, move |port| worker::serve(port, &realm_limits, flag)).await
    }

    /// Starts the realm's thread with the given body.
    async fn start(
        limits: &Limits,
        abandoned: Arc<AtomicBool>,
        body: impl FnOnce(&ThreadPort) + Send + 'static,
    ) -> Result<Self, SandboxError> {
        let stack = THREAD_STACK + usize::try_from(limits.stack_bytes).unwrap_or(0);
        let (to, to_realm) = mpsc::channel();
        let (from_realm, mut from) = channel::unbounded_channel();
        std::thread::Builder::new()
            .name("cell-realm".into())
            .stack_size(stack)
            .spawn(move || {
                let port = ThreadPort { to: from_realm, from: to_realm };
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&port))).is_err() {
                    port.send(&FromRealm::Failed { message: "The realm's thread failed".into() });
                }
            })
            .map_err(|error| SandboxError::Unavailable(format!("No thread for the realm: {error}")))?;
        match next(&mut from).await {
            Ok(FromRealm::Opened) => {}
            Ok(FromRealm::Failed { message }) => return Err(SandboxError::Unavailable(message)),
            Ok(_) | Err(_) => return Err(SandboxError::Unavailable("The realm did not open".into())),
        }
        Ok(Self {
            to,
            from,
            abandoned,
            limits: limits.clone(),
            usable: true,
            flows: None,
            bindings: Vec::new(),
        })
    }

    /// Runs one cell to its end. Calls are answered by the bridge, one at a time; the time spent in them is not the
    /// cell's. Needs a tokio runtime with its timer, unless `clock_free`.
    ///
    /// # Errors
    /// `unsupported` for limits out of range; `runtime_failed` when the realm broke, in this frame or before.
    pub async fn evaluate(
        &mut self,
        frame: u64,
        program: &Program,
        options: &FrameOptions,
        bridge: &mut dyn Bridge,
    ) -> Result<FrameEnd, SandboxError> {
        if !self.usable {
            return Err(SandboxError::RuntimeFailed("The realm is lost: a frame did not end in it".into()));
        }
        let limits = Limits {
            memory_bytes: self.limits.memory_bytes,
            stack_bytes: self.limits.stack_bytes,
            ..options.limits.clone()
        };
        limits.validate()?;
        self.usable = false;
        let ended = self.run(frame, program, options, limits, bridge).await?;
        self.usable = true;
        Ok(ended)
    }

    async fn run(
        &mut self,
        frame: u64,
        program: &Program,
        options: &FrameOptions,
        limits: Limits,
        bridge: &mut dyn Bridge,
    ) -> Result<FrameEnd, SandboxError> {
        let deadline = if options.clock_free {
            None
        } else {
            tokio::time::Instant::now().checked_add(Duration::from_millis(limits.total_ms))
        };
        let changed = self.flows.as_ref().is_none_or(|flows| **flows != *options.flows);
        let flows = changed.then(|| options.flows.to_vec());
        self.flows = Some(options.flows.clone());
        self.send(&ToRealm::Evaluate {
            frame,
            text: program.text().to_owned(),
            limits,
            flows,
            clock_free: options.clock_free,
            cut_at: options.cut_at,
            throws_null: program.throws_null(),
        })?;
        let mut statements: Vec<Statement> = Vec::new();
        // What a cell prints while it is torn down is not what it had to say.
        let mut stopped = None;
        loop {
            match next(&mut self.from).await? {
                FromRealm::Print { statement } => statements.push(statement),
                FromRealm::Call { ordinal, request } => {
                    let answer = answer(ordinal, request, deadline, bridge).await?;
                    if matches!(answer, ToRealm::Cut { why: Cut::Interrupted }) {
                        stopped = Some(statements.len());
                    }
                    self.send(&answer)?;
                }
                FromRealm::Finish { finish } => {
                    statements.truncate(stopped.unwrap_or(statements.len()));
                    return self.finish(*finish, &statements);
                }
                FromRealm::Failed { message } => return Err(SandboxError::RuntimeFailed(message)),
                FromRealm::Opened => return Err(garbled("it opened twice")),
            }
        }
    }

    fn finish(&mut self, finish: Finish, statements: &[Statement]) -> Result<FrameEnd, SandboxError> {
        if let Some(bindings) = finish.bindings {
            self.bindings = bindings;
        }
        let outcome = match finish.end {
            End::Interrupted => {
                return Ok(FrameEnd::Interrupted { prints: console::assemble(statements, finish.unread) });
            }
            End::Raised { name, message } => Outcome::Raised { name, message },
            End::Rejected { code, message, reason } => Outcome::Rejected { code, message, reason },
            End::Settled { intent, justification } => {
                let read = |text: &str| values::decode(text).map_err(|why| garbled(&why));
                let intent = match intent {
                    WireIntent::None => None,
                    WireIntent::Done { output } => Some(Intent::Done(read(&output)?)),
                    WireIntent::Park { reason, message } => {
                        Some(Intent::Park(read(&reason)?, read(&message)?))
                    }
                };
                let justification = justification.as_deref().map(read).transpose()?;
                match repl_transition(intent, justification) {
                    Ok(transition) => Outcome::Settled { transition },
                    Err(message) => {
                        Outcome::Rejected { code: RejectionCode::InvalidTransition, message, reason: None }
                    }
                }
            }
        };
        let prints = console::assemble(statements, finish.unread);
        Ok(FrameEnd::Done(RealmFrame {
            outcome,
            prints,
            bindings: self.bindings.clone(),
            boundary: finish.boundary,
        }))
    }

    /// Closes the realm and waits until its heap is gone.
    pub async fn close(mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        // A realm that is gone already is closed.
        let _ = self.send(&ToRealm::Close);
        while self.from.recv().await.is_some() {}
    }

    fn send(&self, message: &ToRealm) -> Result<(), SandboxError> {
        let bytes = serde_json::to_vec(message).map_err(|error| garbled(&error.to_string()))?;
        self.to.send(bytes).map_err(|_| SandboxError::RuntimeFailed("The realm is gone".into()))
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// The next message of a realm.
async fn next(from: &mut channel::UnboundedReceiver<Vec<u8>>) -> Result<FromRealm, SandboxError> {
    let bytes = from.recv().await.ok_or_else(|| SandboxError::RuntimeFailed("The realm is gone".into()))?;
    serde_json::from_slice(&bytes).map_err(|error| garbled(&error.to_string()))
}

/// Asks the bridge and turns its answer into what the realm is told.
async fn answer(
    ordinal: u64,
    request: Request,
    deadline: Option<tokio::time::Instant>,
    bridge: &mut dyn Bridge,
) -> Result<ToRealm, SandboxError> {
    let read = |text: &str| values::decode(text).map_err(|why| garbled(&why));
    let request = match request {
        Request::Checkpoint => BridgeRequest::Checkpoint,
        Request::Call { name, input, at } => {
            BridgeRequest::Call { name, input: read(&input)?, at: at.as_deref().map(read).transpose()? }
        }
    };
    let pending = bridge.dispatch(ordinal, request);
    let answered = match deadline {
        None => pending.await,
        Some(deadline) => match tokio::time::timeout_at(deadline, pending).await {
            Ok(answered) => answered,
            Err(_) => return Ok(ToRealm::Cut { why: Cut::Total }),
        },
    };
    let Ok(outcome) = answered else { return Ok(ToRealm::Cut { why: Cut::Interrupted }) };
    let reply = outcome.reply();
    let measure = values::measure(&reply);
    if measure.depth > MAX_DEPTH {
        return Ok(ToRealm::Cut {
            why: Cut::Heap(format!(
                "The reply to call {ordinal} nests {} levels deep; at most {MAX_DEPTH} cross into the realm.",
                measure.depth
            )),
        });
    }
    let text = serde_json::to_string(&*reply).map_err(|error| garbled(&error.to_string()))?;
    Ok(ToRealm::Settle { ordinal, reply: text, estimate: measure.estimate })
}

fn garbled(why: &str) -> SandboxError {
    SandboxError::RuntimeFailed(format!("The realm and its host do not understand each other: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::CallOutcome;
    use crate::program::{Source, validate};
    use crate::realm::Interrupted;

    struct Never;

    #[async_trait::async_trait]
    impl Bridge for Never {
        async fn dispatch(&mut self, _: u64, _: BridgeRequest) -> Result<CallOutcome, Interrupted> {
            Err(Interrupted)
        }
    }

    async fn failing(body: impl FnOnce(&ThreadPort) + Send + 'static) -> SandboxError {
        let abandoned = Arc::new(AtomicBool::new(false));
        let mut realm = Realm::start(&Limits::default(), abandoned, body).await.unwrap();
        let program = validate(&Source::new("1")).unwrap();
        let error = realm.evaluate(0, &program, &FrameOptions::default(), &mut Never).await.unwrap_err();
        let again = realm.evaluate(1, &program, &FrameOptions::default(), &mut Never).await.unwrap_err();
        assert_eq!(again.code(), "runtime_failed");
        realm.close().await;
        error
    }

    #[tokio::test]
    async fn a_realm_that_panics_or_talks_nonsense_is_lost_and_the_host_is_not() {
        let error = failing(|port| {
            port.send(&FromRealm::Opened);
            port.receive();
            std::panic::resume_unwind(Box::new("a defect"));
        })
        .await;
        assert_eq!(error, SandboxError::RuntimeFailed("The realm's thread failed".into()));
        let error = failing(|port| {
            port.send(&FromRealm::Opened);
            port.receive();
        })
        .await;
        assert_eq!(error.code(), "runtime_failed");
        let error = failing(|port| {
            port.send(&FromRealm::Opened);
            port.receive();
            let input = "[".repeat(100_000);
            port.send(&FromRealm::Call {
                ordinal: 0,
                request: Request::Call { name: "x".into(), input, at: None },
            });
            port.receive();
        })
        .await;
        assert_eq!(error.code(), "runtime_failed");
        let abandoned = Arc::new(AtomicBool::new(false));
        let gone = Realm::start(&Limits::default(), abandoned, |_| {}).await.unwrap_err();
        assert_eq!(gone.code(), "unavailable");
    }
}
