//! The host's end of the realm's bridge: from what a cell asks to a settlement of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Event, Host};
use crate::engine::{Call, CallResult, Dispatch, Engine};
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
    pub(super) calls: Vec<CallReport>,
    pub(super) escape: Option<Stop>,
}

#[async_trait]
impl Bridge for FrameBridge<'_> {
    async fn dispatch(&mut self, ordinal: u64, request: BridgeRequest) -> Result<CallOutcome, Interrupted> {
        let (flow, input, at) = match request {
            BridgeRequest::Call { name, input, at } => (name, input, at),
            BridgeRequest::Checkpoint => ("checkpoint".to_owned(), Value::Null, None),
        };
        if let Some(cutoff) = self.cutoff {
            let place = i64::try_from(ordinal).unwrap_or(i64::MAX);
            if place > cutoff.settled {
                if place <= cutoff.dispatched {
                    self.claim(ordinal, flow, input, at.as_ref()).await;
                }
                return Err(Interrupted);
            }
        }
        self.settle(ordinal, flow, input, at).await.map_err(|stop| {
            self.escape = Some(stop);
            Interrupted
        })
    }
}

impl FrameBridge<'_> {
    /// The call that was with the host when its frame was cut: it counts as it did then, and a settlement that came too
    /// late for the cell is asked for, so that the journal's records stay in order. There need not be one.
    async fn claim(&mut self, ordinal: u64, flow: String, input: Value, at: Option<&Value>) {
        if let Ok((call, _)) = self.call(ordinal, flow, input, at) {
            self.unsealed += u64::from(call.tier != Tier::Sealed);
            let body = Box::new(|_| -> BoxFuture<'_, _> { Box::pin(async { Err(Escape::Aborted) }) });
            let _ = self.engine.call(call, body).await;
        }
    }

    async fn settle(
        &mut self,
        ordinal: u64,
        flow: String,
        input: Value,
        at: Option<Value>,
    ) -> Result<CallOutcome, Stop> {
        let stop = |escape| Stop { escape, call: None };
        let (call, refusal) =
            self.call(ordinal, flow, input, at.as_ref()).map_err(|error| stop(error.into()))?;
        self.host.observer.event(&Event::CallStarted { frame: self.frame, ordinal, flow: &call.flow });
        if call.tier != Tier::Sealed {
            self.unsealed += 1;
        }
        let settled = match self.engine.admit(&call).await.map_err(stop)? {
            Some(settled) => settled,
            None => self.through_engine(&call, refusal).await?,
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

    async fn through_engine(&self, call: &Call, refusal: Option<CallFailure>) -> Result<CallResult, Stop> {
        let at = call.boundary().key().map_err(|error| Stop { escape: error.into(), call: None })?;
        let attempt = Arc::new(AtomicU32::new(0));
        let started = Arc::clone(&attempt);
        let ceiling = self.ceiling(call);
        let (host, asked) = (self.host, call.clone());
        let body = Box::new(move |dispatch: Dispatch| -> BoxFuture<'_, _> {
            started.store(dispatch.attempt, Ordering::Relaxed);
            Box::pin(async move {
                if let Some(refusal) = refusal {
                    return Ok(CallOutcome::Failure(refusal).into());
                }
                let answer = host.calls.run(&asked, dispatch, host.services);
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

    /// The call as the engine keys it, and why it is refused before anything runs.
    fn call(
        &self,
        ordinal: u64,
        flow: String,
        input: Value,
        at: Option<&Value>,
    ) -> Result<(Call, Option<CallFailure>), HarnessError> {
        let opened = self.engine.opened();
        let mut identified = self.host.calls.identify(&flow, &input);
        let mut refusal = None;
        let at = match at {
            None => None,
            Some(handle) => match handle.get("checkpoint").and_then(Value::as_str) {
                Some(id) => {
                    refusal = Some(no_checkpoints());
                    Some(id.to_owned())
                }
                None => {
                    refusal = Some(CallFailure::new(
                        CallFailureCode::InvalidInput,
                        "The option `at` takes what ctx.checkpoint() answered, or ctx.base.".to_owned(),
                    ));
                    None
                }
            },
        };
        if flow == "checkpoint" && identified.declaration.is_empty() && at.is_none() && input.is_null() {
            refusal = Some(no_checkpoints());
        }
        if refusal.is_some() {
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
        Ok((call, refusal))
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

fn no_checkpoints() -> CallFailure {
    CallFailure::new(CallFailureCode::CheckpointUnavailable, "This host keeps no checkpoints.".to_owned())
}

fn timed_out(flow: &str, after: Duration) -> CallFailure {
    let seconds = after.as_secs_f64();
    CallFailure::new(CallFailureCode::Timeout, format!("Flow {flow} timed out after {seconds} seconds."))
}
