//! A realm with a bridge that writes down what it is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flowcell_harness::failure::{CallFailure, CallFailureCode, CallOutcome};
use flowcell_harness::program::{RejectionCode, Source, validate};
use flowcell_harness::realm::{
    Bridge, BridgeRequest, FlowProjection, FrameEnd, FrameOptions, Interrupted, Limits, Outcome, Realm,
    RealmFrame, SandboxError, Transition,
};
use serde_json::Value;

/// What a scripted flow answers.
pub enum Answer {
    /// A reply instead of the flow's own.
    Reply(CallOutcome),
    /// Nothing, ever.
    Never,
    /// The frame is interrupted.
    Interrupt,
}

/// Answers `ident` with its input, `fail` with a failure, `slow` after `{ms}`, everything else with `unknown_flow`.
#[derive(Default)]
pub struct Recorder {
    /// Every request in the order of its dispatch.
    pub calls: Vec<(u64, BridgeRequest)>,
    /// The most requests that were pending at once.
    pub in_flight: usize,
    pending: Arc<std::sync::atomic::AtomicUsize>,
    /// Answers that come before the flows' own.
    pub script: VecDeque<Answer>,
}

impl Recorder {
    /// `(ordinal, name, input)` of the calls.
    pub fn issued(&self) -> Vec<(u64, String, Value)> {
        self.calls
            .iter()
            .map(|(ordinal, request)| match request {
                BridgeRequest::Call { name, input, .. } => (*ordinal, name.clone(), input.clone()),
                BridgeRequest::Checkpoint => (*ordinal, "#checkpoint".to_owned(), Value::Null),
            })
            .collect()
    }
}

#[async_trait]
impl Bridge for Recorder {
    async fn dispatch(&mut self, ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
        use std::sync::atomic::Ordering::SeqCst;
        self.in_flight = self.in_flight.max(self.pending.fetch_add(1, SeqCst) + 1);
        self.calls.push((ordinal, request.clone()));
        tokio::task::yield_now().await;
        let answer = match self.script.pop_front() {
            Some(Answer::Reply(outcome)) => Ok(outcome),
            Some(Answer::Never) => std::future::pending().await,
            Some(Answer::Interrupt) => Err(Interrupted),
            None => Ok(match request {
                BridgeRequest::Checkpoint | BridgeRequest::Call { at: Some(_), .. } => {
                    CallOutcome::Failure(CallFailure::new(
                        CallFailureCode::CheckpointUnavailable,
                        "There are no checkpoints here.",
                    ))
                }
                BridgeRequest::Call { name, input, .. } => match name.as_str() {
                    "ident" => CallOutcome::Success(input),
                    "slow" => {
                        tokio::time::sleep(Duration::from_millis(input["ms"].as_u64().unwrap_or(0))).await;
                        CallOutcome::Success(input)
                    }
                    "fail" => {
                        let mut failure =
                            CallFailure::new(CallFailureCode::FlowFailed, "stale_read: it changed");
                        failure.flow_code = Some("stale_read".into());
                        CallOutcome::Failure(failure)
                    }
                    _ => CallOutcome::Failure(CallFailure::new(
                        CallFailureCode::UnknownFlow,
                        format!("There is no flow {name}."),
                    )),
                },
            }),
        };
        self.pending.fetch_sub(1, SeqCst);
        answer
    }
}

/// A realm, its limits and the next frame's number.
pub struct Run {
    realm: Realm,
    /// The limits of the next frame.
    pub options: FrameOptions,
    frame: u64,
    /// The bridge of every frame.
    pub bridge: Recorder,
}

impl Run {
    /// A realm with the default limits.
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A realm with other limits.
    pub async fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        let realm = Realm::open(&limits).await.unwrap();
        let options = FrameOptions { limits, flows: Arc::from([]), ..FrameOptions::default() };
        Self { realm, options, frame: 0, bridge: Recorder::default() }
    }

    /// Shows a catalog of flows by name.
    pub fn flows(&mut self, names: &[&str]) {
        self.options.flows = names
            .iter()
            .map(|name| FlowProjection {
                name: (*name).to_owned(),
                description: format!("Does {name}."),
                capabilities: vec!["fs:read:**".into()],
                tier: Some("sealed".into()),
                placement: None,
                input: Some(serde_json::json!({"type": "object"})),
            })
            .collect();
    }

    /// Evaluates a cell, however it ends.
    pub async fn end(&mut self, text: &str) -> Result<FrameEnd, SandboxError> {
        let program = validate(&Source::new(text)).unwrap();
        self.bridge.calls.clear();
        self.bridge.in_flight = 0;
        let frame = self.frame;
        self.frame += 1;
        self.realm.evaluate(frame, &program, &self.options, &mut self.bridge).await
    }

    /// Evaluates a cell that comes to an outcome.
    pub async fn cell(&mut self, text: &str) -> RealmFrame {
        match self.end(text).await.unwrap() {
            FrameEnd::Done(frame) => frame,
            FrameEnd::Interrupted { .. } => panic!("interrupted: {text}"),
        }
    }

    /// What a cell that only prints prints.
    pub async fn prints(&mut self, text: &str) -> String {
        let frame = self.cell(text).await;
        assert_eq!(frame.outcome, go_on(), "{text}\n{}", frame.prints);
        frame.prints
    }

    /// Asserts that a realm still does what every next cell relies on.
    pub async fn assert_works(&mut self) {
        let frame = self
            .cell(
                "{ const r = await ctx.call('ident', {list: [1, {k: 'v'}], n: null});\n\
                 console.log('works', r, [r.list[1].k]); ctx.done(r.list); }",
            )
            .await;
        assert_eq!(frame.prints, "works {\"list\":[1,{\"k\":\"v\"}],\"n\":null} [\"v\"]");
        assert_eq!(
            frame.outcome,
            Outcome::Settled {
                transition: Transition::Complete {
                    output: serde_json::json!([1, {"k": "v"}]),
                    text: "[1,{\"k\":\"v\"}]".into()
                }
            }
        );
    }

    /// Closes the realm.
    pub async fn close(self) {
        self.realm.close().await;
    }
}

/// The outcome of a cell that neither completes nor parks.
pub fn go_on() -> Outcome {
    Outcome::Settled { transition: Transition::Continue { justification: None } }
}

/// `(code, reason)` of a rejection.
pub fn rejection(frame: &RealmFrame) -> (RejectionCode, Option<&str>) {
    match &frame.outcome {
        Outcome::Rejected { code, reason, .. } => (*code, reason.as_deref()),
        other => panic!("not rejected: {other:?}, prints: {}", frame.prints),
    }
}

/// `(name, message)` of a raised error.
pub fn raised(frame: &RealmFrame) -> (&str, &str) {
    match &frame.outcome {
        Outcome::Raised { name, message } => (name, message),
        other => panic!("not raised: {other:?}, prints: {}", frame.prints),
    }
}

/// The output of a complete frame.
pub fn completed(frame: &RealmFrame) -> &Value {
    match &frame.outcome {
        Outcome::Settled { transition: Transition::Complete { output, .. } } => output,
        other => panic!("not complete: {other:?}, prints: {}", frame.prints),
    }
}

/// Runs a future to its end, for tests that are not async themselves.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}
