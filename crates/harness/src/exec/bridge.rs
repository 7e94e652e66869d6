//! The host's end of the realm's bridge: from what a cell asks to a settlement of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::checkpoints::{Taken, none_here};
use super::{Event, Host};
use crate::calls::Identified;
use crate::checkpoint::{AtCheckpoint, BASE, CHECKPOINT_CAP, Unavailable, View};
use crate::engine::{Boundary, Call, CallResult, Dispatch, Engine};
use crate::error::{Attempt, Escape, HarnessError};
use crate::failure::{CallFailure, CallFailureCode, CallOutcome};
use crate::flows::effects::Tier;
use crate::keys::{self, CallIdentity, Epoch};
use crate::realm::{Bridge, BridgeRequest, FrameBoundary, Interrupted};
use crate::report::CallReport;

/// Why the bridge stopped a frame, and at which call.
pub(super) struct Stop {
    pub(super) escape: Escape,
    pub(super) call: Option<StoppedCall>,
}

/// The call at which a frame stopped.
pub(super) struct StoppedCall {
    /// The record key of its settlement.
    pub(super) at: String,
    pub(super) attempt: Attempt,
    pub(super) ordinal: u64,
    pub(super) flow: String,
    pub(super) input: Value,
}

/// The host's end of the realm's bridge for one frame.
pub(super) struct FrameBridge<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) host: &'a Host<'a>,
    pub(super) frame: u64,
    pub(super) cell: &'a str,
    pub(super) terminal: bool,
    /// Where a frame that ran out of time was cut.
    pub(super) cutoff: Option<FrameBoundary>,
    pub(super) mutated: u64,
    pub(super) unsealed: u64,
    /// The run's checkpoints.
    pub(super) taken: &'a mut Taken,
    pub(super) calls: Vec<CallReport>,
    pub(super) escape: Option<Stop>,
}

/// What a cell asks.
#[derive(Debug)]
struct Asked {
    flow: String,
    input: Value,
    at: Option<Value>,
    /// It asks for a checkpoint, and calls no flow.
    mint: bool,
}

impl From<BridgeRequest> for Asked {
    fn from(request: BridgeRequest) -> Self {
        match request {
            BridgeRequest::Call { name, input, at } => Self { flow: name, input, at, mint: false },
            BridgeRequest::Checkpoint => {
                Self { flow: "checkpoint".to_owned(), input: Value::Null, at: None, mint: true }
            }
        }
    }
}

/// What stands behind a call.
#[derive(Debug)]
enum Plan {
    /// An answer that is known without running anything.
    Settled(CallOutcome),
    /// The flow, over the live tree.
    Live,
    /// A checkpoint is taken.
    Mint,
    /// The flow, over a checkpoint.
    At(String, AtCheckpoint),
}

impl Plan {
    fn refuse(code: CallFailureCode, message: impl Into<String>) -> Self {
        Self::Settled(CallOutcome::Failure(CallFailure::new(code, message)))
    }
}

#[async_trait]
impl Bridge for FrameBridge<'_> {
    async fn dispatch(&mut self, ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
        let asked = Asked::from(request);
        if let Some(cutoff) = self.cutoff {
            let place = i64::try_from(ordinal).unwrap_or(i64::MAX);
            if place > cutoff.settled {
                if place <= cutoff.dispatched {
                    self.claim(ordinal, asked).await;
                }
                return Err(Interrupted);
            }
        }
        self.settle(ordinal, asked).await.map_err(|stop| {
            self.escape = Some(stop);
            Interrupted
        })
    }
}

impl FrameBridge<'_> {
    /// The call that was with the host when its frame was cut: it counts as it did then, and a settlement that came too
    /// late for the cell is asked for, so that the journal's records stay in order. There need not be one.
    async fn claim(&mut self, ordinal: u64, asked: Asked) {
        if let Ok((call, plan)) = self.call(ordinal, asked) {
            self.unsealed += u64::from(call.tier != Tier::Sealed);
            if let Plan::Mint = plan {
                self.taken.claim(self.engine, self.mint_at(&call)).await;
            }
            let body = Box::new(|_| -> BoxFuture<'_, _> { Box::pin(async { Err(Escape::Aborted) }) });
            let _ = self.engine.call(call, body).await;
        }
    }

    async fn settle(&mut self, ordinal: u64, asked: Asked) -> Result<CallOutcome, Stop> {
        let stop = |escape| Stop { escape, call: None };
        let (call, plan) = self.call(ordinal, asked).map_err(|error| stop(error.into()))?;
        self.host.observer.event(&Event::CallStarted { frame: self.frame, ordinal, flow: &call.flow });
        if self.taken.enabled && (call.tier != Tier::Sealed || call.at.as_deref() == Some(BASE)) {
            self.taken.base(self.engine, self.host).await.map_err(stop)?;
        }
        if call.tier != Tier::Sealed {
            self.unsealed += 1;
        }
        let plan = match plan {
            Plan::Mint => Plan::Settled(self.mint(&call).await.map_err(stop)?),
            Plan::At(id, at) => match self.taken.reference(&id) {
                Ok(reference) => Plan::At(reference, at),
                Err(why) => Plan::refuse(CallFailureCode::CheckpointUnavailable, why),
            },
            plan => plan,
        };
        let settled = match self.engine.admit(&call).await.map_err(stop)? {
            Some(settled) => settled,
            None => self.through_engine(&call, plan).await?,
        };
        let report = CallReport {
            ordinal,
            flow: call.flow,
            input: call.input,
            at: call.at,
            ok: matches!(settled.outcome, CallOutcome::Success(_)),
            error: match &settled.outcome {
                CallOutcome::Success(_) => None,
                CallOutcome::Failure(failure) => Some(failure.clone()),
            },
            replayed: settled.replayed,
            ms: settled.ms,
        };
        self.host.observer.event(&Event::CallSettled { frame: self.frame, call: &report });
        self.calls.push(report);
        Ok(settled.outcome)
    }

    fn mint_at(&self, call: &Call) -> Boundary {
        Boundary::checkpoint(&call.identity.session, self.frame, self.cell, call.identity.ordinal)
    }

    /// Mints the checkpoint that a cell asks for: the record comes before the settlement, so that a settled handle always
    /// has a snapshot behind it.
    async fn mint(&mut self, call: &Call) -> Result<CallOutcome, Escape> {
        if self.taken.minted() >= CHECKPOINT_CAP {
            let message = format!("The run has taken all of its {CHECKPOINT_CAP} checkpoints.");
            return Ok(CallOutcome::Failure(CallFailure::new(CallFailureCode::CheckpointExhausted, message)));
        }
        let id = format!("cp-{}-{}", self.frame, call.identity.ordinal);
        let at = self.mint_at(call);
        Ok(match self.taken.mint(self.engine, self.host, at, id).await? {
            Ok(id) => CallOutcome::Success(json!({ "checkpoint": id })),
            Err(why) => CallOutcome::Failure(CallFailure::new(CallFailureCode::CheckpointUnavailable, why)),
        })
    }

    async fn through_engine(&self, call: &Call, plan: Plan) -> Result<CallResult, Stop> {
        let at = call.boundary().key().map_err(|error| Stop { escape: error.into(), call: None })?;
        let attempt = Arc::new(AtomicU32::new(0));
        let started = Arc::clone(&attempt);
        let ceiling = self.ceiling(call);
        let (host, asked) = (self.host, call.clone());
        let body = Box::new(move |dispatch: Dispatch| -> BoxFuture<'_, _> {
            started.store(dispatch.attempt, Ordering::Relaxed);
            Box::pin(async move {
                let answer = async {
                    match plan {
                        Plan::Settled(outcome) => Ok(outcome.into()),
                        Plan::Live | Plan::Mint => host.calls.run(&asked, dispatch, host.services).await,
                        Plan::At(reference, at) => match open(host, &reference, at).await {
                            Ok(view) => {
                                let services = host.services.with_files(view.files);
                                let answer = host.calls.run(&asked, dispatch, &services).await;
                                drop(view.guard);
                                answer
                            }
                            Err(why) => {
                                let code = CallFailureCode::CheckpointUnavailable;
                                Ok(CallOutcome::Failure(CallFailure::new(code, why.0)).into())
                            }
                        },
                    }
                };
                match tokio::time::timeout(ceiling, answer).await {
                    Ok(answer) => answer,
                    Err(_) => Ok(CallOutcome::Failure(timed_out(&asked.flow, ceiling)).into()),
                }
            })
        });
        self.engine.call(call.clone(), body).await.map_err(|escape| Stop {
            escape,
            call: Some(StoppedCall {
                at,
                attempt: Attempt { key: call.key.clone(), number: attempt.load(Ordering::Relaxed) },
                ordinal: call.identity.ordinal,
                flow: call.flow.clone(),
                input: call.input.clone(),
            }),
        })
    }

    /// The call as the engine keys it, and what stands behind it.
    fn call(&self, ordinal: u64, asked: Asked) -> Result<(Call, Plan), HarnessError> {
        let Asked { flow, input, at, mint } = asked;
        let opened = self.engine.opened();
        let mut identified =
            if mint { Identified::default() } else { self.host.calls.identify(&flow, &input) };
        let mut plan = match mint {
            true if self.taken.enabled => Plan::Mint,
            true => Plan::refuse(CallFailureCode::CheckpointUnavailable, none_here()),
            false => Plan::Live,
        };
        let at = match at {
            None => None,
            Some(handle) => match handle.get("checkpoint").and_then(Value::as_str) {
                Some(id) => {
                    plan = self.at(&flow, id, &identified);
                    Some(id.to_owned())
                }
                None => {
                    plan = Plan::refuse(
                        CallFailureCode::InvalidInput,
                        "The option `at` takes what ctx.checkpoint() answered, or ctx.base.",
                    );
                    None
                }
            },
        };
        if matches!(plan, Plan::Settled(_)) {
            identified.tier = Tier::Sealed;
        }
        let identity = CallIdentity {
            session: opened.session.clone(),
            frame: self.frame,
            cell: self.cell.to_owned(),
            ordinal,
            declaration: identified.declaration,
            layers: opened.layers.clone(),
        };
        let epoch = Epoch { frames: self.mutated, calls: self.unsealed };
        let key = keys::call_key(
            &identity,
            identified.tier,
            &identified.capabilities,
            &input,
            at.as_deref(),
            epoch,
        )?;
        let call = Call {
            identity,
            flow,
            input,
            at,
            tier: identified.tier,
            key,
            idempotent: identified.idempotent,
            terminal: self.terminal,
        };
        Ok((call, plan))
    }

    /// What stands behind a call with `at`.
    fn at(&self, flow: &str, id: &str, identified: &Identified) -> Plan {
        if !self.taken.enabled {
            return Plan::refuse(CallFailureCode::CheckpointUnavailable, none_here());
        }
        if identified.writes {
            let message = format!("This call of {flow} writes, and a checkpoint is not written to.");
            return Plan::refuse(CallFailureCode::CheckpointReadonly, message);
        }
        // A name that nobody declared keeps its own refusal, which the resolver words.
        if identified.declaration.is_empty() {
            return Plan::Live;
        }
        if identified.at_checkpoint == AtCheckpoint::Unsupported {
            let message = format!("{flow} does not run at a checkpoint.");
            return Plan::refuse(CallFailureCode::CheckpointUnsupported, message);
        }
        Plan::At(id.to_owned(), identified.at_checkpoint)
    }

    /// How long a call may take: never less than what its flow was asked to allow itself (3.5). Only a member that the
    /// flow declares says so; `timeout` is in seconds, the others in milliseconds.
    fn ceiling(&self, call: &Call) -> Duration {
        let limit = Duration::from_millis(self.engine.opened().limits.call_ms);
        let Some(entry) = self.host.calls.registry().get_option(&call.flow) else { return limit };
        let own = |(name, seconds): &(&str, f64)| {
            let asked = call.input.get(name)?.as_f64().filter(|asked| *asked > 0.0)?;
            let declared = entry.input.document().is_some_and(|document| declares(document.document(), name));
            declared.then(|| Duration::try_from_secs_f64(asked * seconds).ok()).flatten()
        };
        let own = [("timeoutMs", 1e-3), ("timeout_ms", 1e-3), ("timeout", 1.0)].iter().find_map(own);
        own.map_or(limit, |own| own.saturating_add(Duration::from_secs(5)).max(limit))
    }
}

/// Whether a schema, or one that it is a union of, declares a member.
fn declares(schema: &Value, name: &str) -> bool {
    let has =
        |schema: &Value| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    has(schema) || schema.get("anyOf").and_then(Value::as_array).is_some_and(|of| of.iter().any(has))
}

/// Opens the checkpoint that a call is asked at.
async fn open(host: &Host<'_>, reference: &str, at: AtCheckpoint) -> Result<View, Unavailable> {
    let Some(checkpoints) = &host.services.checkpoints else { return Err(Unavailable(none_here())) };
    match at {
        AtCheckpoint::Runs => checkpoints.scratch(reference).await,
        AtCheckpoint::Reads | AtCheckpoint::Unsupported => checkpoints.view(reference).await,
    }
}

fn timed_out(flow: &str, after: Duration) -> CallFailure {
    let seconds = after.as_secs_f64();
    CallFailure::new(CallFailureCode::Timeout, format!("Flow {flow} timed out after {seconds} seconds."))
}
