//! What writes to the journal: answers, envelopes, revocations. Each plans under the lock, writes without it, and activates
//! under it again (kernel contract 5).

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::envelope::{Envelope, EnvelopeScope, MAX_ENVELOPE_SIGNATURES};
use super::event::{GrantEvent, POLICY_RUN};
use super::options::GrantStoreOptions;
use super::replay;
use super::reply::{ReplyContext, Resolution, plan_reply};
use super::request::{End, PendingRequest, not_found};
use super::ruleset::{MAX_RULES, Rulesets, RunRule};
use super::sabotage::Sabotage;
use super::{GrantStore, State, judged};
use crate::flows::capability::CapabilityPattern;
use crate::flows::rules::{Effect, Rule};
use crate::permission::{GrantStoreCode, GrantStoreError};

/// Milliseconds that one write to the journal may take.
pub const PERSIST_MILLIS: u64 = 30_000;
/// How often construction reads a journal again that others write to meanwhile.
const CONSTRUCT_ATTEMPTS: usize = 64;

/// How a write ended.
pub(super) type Outcome = Result<(), GrantStoreError>;

impl GrantStore {
    /// Answers a request: records the event, then frees or fails whoever waits, adds the rule of `Run` and `Remembered`, and
    /// releases every other request that the rule covers. Gives the answered request back.
    ///
    /// What is valid is that of [`plan_reply`]. An unknown id, one whose answer is being written, and a `Once` or `Deny`
    /// whose asker went away during the write are `request_not_found`; a write that fails or is late is `journal_failed`
    /// and the request can be answered again. Needs a Tokio runtime with time.
    pub async fn reply(
        &self,
        request_id: &str,
        resolution: Resolution,
        pattern: Option<CapabilityPattern>,
    ) -> Result<PendingRequest, GrantStoreError> {
        let (request, event, mut planned) = self.plan(request_id, resolution, pattern)?;
        let payload = event.encode()?;
        if Sabotage::ActivateFirst.is_on() {
            let _early = self.activate(&request, event.clone(), u64::MAX, &mut planned);
        }
        let write = within(self.persist.append(event.run(), event.event_type(), &payload)).await;
        let seq = match write {
            Ok(seq) => seq,
            Err(error) => {
                if Sabotage::LoseOnFailure.is_on() {
                    self.forget(planned.number);
                }
                return Err(error);
            }
        };
        if Sabotage::ActivateFirst.is_on() {
            return Ok(request);
        }
        self.activate(&request, event, seq, &mut planned)?;
        Ok(request)
    }

    fn plan(
        &self,
        request_id: &str,
        resolution: Resolution,
        pattern: Option<CapabilityPattern>,
    ) -> Result<(PendingRequest, GrantEvent, Planned<'_>), GrantStoreError> {
        let mut state = self.state();
        if self.is_closed() {
            return Err(GrantStoreError::closed());
        }
        let number = state.requests.find(request_id).ok_or_else(|| not_found(request_id))?;
        let pending = state.requests.pending.get_mut(&number).ok_or_else(|| not_found(request_id))?;
        if pending.writing {
            return Err(not_found(request_id));
        }
        let request = pending.request.clone();
        let context = ReplyContext {
            request_id,
            capability: &request.capability,
            tier: request.tier,
            ceiling: &pending.ceiling,
            run_id: self.run_id.as_deref(),
            plan_digest: self.plan_digest.as_deref(),
            workspace_root: &self.root,
        };
        let event = plan_reply(&context, resolution, pattern)?;
        let rules = usize::from(matches!(event, GrantEvent::Run(_) | GrantEvent::Remembered(_)));
        self.reserve(&mut state, rules)?;
        if let Some(pending) = state.requests.pending.get_mut(&number) {
            pending.writing = true;
        }
        Ok((request, event, Planned { store: self, number, rules }))
    }

    fn activate(
        &self,
        request: &PendingRequest,
        event: GrantEvent,
        seq: u64,
        planned: &mut Planned<'_>,
    ) -> Outcome {
        let result = {
            let mut state = self.state();
            if self.is_closed() {
                return Err(GrantStoreError::closed());
            }
            state.reserved = state.reserved.saturating_sub(std::mem::take(&mut planned.rules));
            let waiting = state.requests.pending.remove(&planned.number);
            let end = if matches!(event, GrantEvent::Denied(_)) { End::Denied } else { End::Freed };
            let mut rules = self.ruleset_mut();
            let added = match event {
                GrantEvent::Run(grant) => {
                    let ceiling =
                        if Sabotage::LoseCeiling.is_on() { Default::default() } else { grant.ceiling };
                    rules.push_run(RunRule { rule: Rule::allow(grant.pattern), ceiling }, Some(seq));
                    true
                }
                GrantEvent::Remembered(grant) => {
                    rules.remember(seq, vec![grant.pattern], None);
                    rules.derive_remembered();
                    true
                }
                _ => false,
            };
            let gone = waiting.is_none();
            if let Some(waiting) = waiting {
                waiting.end(end);
            }
            if added {
                cover(&mut state, &rules);
            }
            if gone && !added { Err(not_found(&request.request_id)) } else { Ok(()) }
        };
        self.changed.send_replace(());
        result
    }

    /// Grants an envelope: records it and adds an allow rule for each of its patterns, in the envelope ruleset or, when it
    /// is remembered, in the remembered one.
    ///
    /// An empty envelope, and one whose signature is in force, change nothing; one whose signature the options vouch for is
    /// activated without a record; while an identical one is being written, its outcome is adopted. `invalid_resolution`:
    /// a plan other than the store's, a pattern that has no place in an envelope (the whole envelope is refused), a bound,
    /// or no run to record in. `journal_failed` as of [`reply`](Self::reply). Needs a Tokio runtime with time.
    pub async fn grant_envelope(&self, envelope: Envelope) -> Result<(), GrantStoreError> {
        let envelope = envelope.canonical();
        let signature = envelope.signature();
        loop {
            match self.plan_envelope(&envelope, &signature)? {
                Step::Done => return Ok(()),
                Step::Wait(mut outcome) => {
                    // The writer may be dropped before it knows: then it is this one's turn.
                    if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                        && let Some(outcome) = outcome.clone()
                    {
                        return outcome;
                    }
                }
                Step::Write(event, outcome, mut flight) => {
                    let result = self.write_envelope(&event, &envelope, &mut flight).await;
                    drop(flight);
                    outcome.send_replace(Some(result.clone()));
                    return result;
                }
            }
        }
    }

    fn plan_envelope(&self, envelope: &Envelope, signature: &str) -> Result<Step<'_>, GrantStoreError> {
        let mut state = self.state();
        if self.is_closed() {
            return Err(GrantStoreError::closed());
        }
        let Some(event) =
            planned_envelope(envelope, self.plan_digest.as_deref(), self.run_id.as_deref(), &self.root)?
        else {
            return Ok(Step::Done);
        };
        if state.signatures.contains(signature) {
            return Ok(Step::Done);
        }
        if let Some(outcome) = state.in_flight.get(signature) {
            return Ok(Step::Wait(outcome.clone()));
        }
        if state.vouched.contains(signature) {
            if self.ruleset().count() + state.reserved + envelope.patterns.len() > MAX_RULES {
                return Err(too_many_rules());
            }
            let mut rules = self.ruleset_mut();
            vouch(&mut rules, &mut state, envelope, signature);
            cover(&mut state, &rules);
            self.changed.send_replace(());
            return Ok(Step::Done);
        }
        if state.signatures.union(&state.vouched).count() + state.in_flight.len() >= MAX_ENVELOPE_SIGNATURES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_ENVELOPE_SIGNATURES} envelopes")));
        }
        self.reserve(&mut state, envelope.patterns.len())?;
        let (sender, receiver) = watch::channel(None);
        state.in_flight.insert(signature.to_owned(), receiver);
        let flight = Flight { store: self, signature: signature.to_owned(), rules: envelope.patterns.len() };
        Ok(Step::Write(event, sender, flight))
    }

    async fn write_envelope(
        &self,
        event: &GrantEvent,
        envelope: &Envelope,
        flight: &mut Flight<'_>,
    ) -> Outcome {
        let payload = event.encode()?;
        let seq = within(self.persist.append(event.run(), event.event_type(), &payload)).await?;
        {
            let mut state = self.state();
            if self.is_closed() {
                return Err(GrantStoreError::closed());
            }
            state.reserved = state.reserved.saturating_sub(std::mem::take(&mut flight.rules));
            let mut rules = self.ruleset_mut();
            add_envelope(&mut rules, &mut state, envelope, &flight.signature, seq);
            cover(&mut state, &rules);
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// Takes back a remembered grant or envelope by the `seq` of its event, as [`rules`](Self::rules) gives it: records the
    /// revocation, then drops the rules. Another grant of the same pattern stands by itself. Stores that are open elsewhere
    /// keep the rule until they close.
    ///
    /// An event that this store does not know, and one whose revocation is being written, is `request_not_found`;
    /// `journal_failed` as of [`reply`](Self::reply). Needs a Tokio runtime with time.
    pub async fn revoke(&self, seq: u64) -> Result<(), GrantStoreError> {
        let unknown = || {
            let message = format!("no remembered grant has the event {seq}");
            GrantStoreError::new(GrantStoreCode::RequestNotFound, message)
        };
        {
            let mut state = self.state();
            if self.is_closed() {
                return Err(GrantStoreError::closed());
            }
            if !self.ruleset().remembers(seq) || !state.revoking.insert(seq) {
                return Err(unknown());
            }
        }
        let _mark = Revoking { store: self, seq };
        let event = GrantEvent::Revoked { seq };
        if Sabotage::RevokeFirst.is_on() {
            let _signature = self.ruleset_mut().revoke(seq);
        }
        within(self.persist.append(event.run(), event.event_type(), &event.encode()?)).await?;
        let mut state = self.state();
        if self.is_closed() {
            return Err(GrantStoreError::closed());
        }
        if let Some(signature) = self.ruleset_mut().revoke(seq) {
            state.signatures.remove(&signature);
            state.vouched.remove(&signature);
        }
        Ok(())
    }

    fn reserve(&self, state: &mut State, rules: usize) -> Outcome {
        if rules > 0 && self.ruleset().count() + state.reserved + rules > MAX_RULES {
            return Err(too_many_rules());
        }
        state.reserved += rules;
        Ok(())
    }
}

/// What is to be done about an envelope.
enum Step<'a> {
    Done,
    Wait(watch::Receiver<Option<Outcome>>),
    Write(GrantEvent, watch::Sender<Option<Outcome>>, Flight<'a>),
}

/// An answer that is being written. However it ends, a dropped future included, the request can be answered again.
struct Planned<'a> {
    store: &'a GrantStore,
    number: u64,
    rules: usize,
}

impl Drop for Planned<'_> {
    fn drop(&mut self) {
        let mut state = self.store.state();
        state.reserved = state.reserved.saturating_sub(self.rules);
        if let Some(pending) = state.requests.pending.get_mut(&self.number) {
            pending.writing = false;
        }
    }
}

/// An envelope that is being written.
struct Flight<'a> {
    store: &'a GrantStore,
    signature: String,
    rules: usize,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.store.state();
        state.reserved = state.reserved.saturating_sub(self.rules);
        state.in_flight.remove(&self.signature);
    }
}

/// A grant whose revocation is being written.
struct Revoking<'a> {
    store: &'a GrantStore,
    seq: u64,
}

impl Drop for Revoking<'_> {
    fn drop(&mut self) {
        self.store.state().revoking.remove(&self.seq);
    }
}

/// Releases every request that the rules now allow.
fn cover(state: &mut State, rules: &Rulesets) {
    if Sabotage::ForgetCover.is_on() {
        return;
    }
    let covered: Vec<u64> = state
        .requests
        .pending
        .iter()
        .filter(|(_, pending)| {
            let capability = &pending.request.capability;
            pending.ceiling.allows(capability)
                && judged(rules, capability, pending.judge.as_ref()) == Effect::Allow
        })
        .map(|(number, _)| *number)
        .collect();
    for number in covered {
        if let Some(pending) = state.requests.pending.remove(&number) {
            pending.end(End::Freed);
        }
    }
}

fn add_envelope(rules: &mut Rulesets, state: &mut State, envelope: &Envelope, signature: &str, seq: u64) {
    state.signatures.insert(signature.to_owned());
    match envelope.scope {
        EnvelopeScope::Run => rules.push_envelope(envelope.patterns.clone(), Some(seq)),
        EnvelopeScope::Remembered => {
            rules.remember(seq, envelope.patterns.clone(), Some(signature.to_owned()));
            rules.derive_remembered();
        }
    }
}

/// Adds an envelope that the host vouches for.
fn vouch(rules: &mut Rulesets, state: &mut State, envelope: &Envelope, signature: &str) {
    state.signatures.insert(signature.to_owned());
    match envelope.scope {
        EnvelopeScope::Run => rules.push_envelope(envelope.patterns.clone(), None),
        EnvelopeScope::Remembered => rules.push_vouched(envelope.patterns.clone()),
    }
}

/// The event of a canonical envelope, or `None` for an empty one.
fn planned_envelope(
    envelope: &Envelope,
    plan_digest: Option<&str>,
    run_id: Option<&str>,
    root: &str,
) -> Result<Option<GrantEvent>, GrantStoreError> {
    if plan_digest != Some(envelope.plan_digest.as_str()) {
        return Err(GrantStoreError::invalid("the envelope is of another plan"));
    }
    envelope.check(root)?;
    if envelope.patterns.is_empty() {
        return Ok(None);
    }
    let run = match (envelope.scope, run_id) {
        (EnvelopeScope::Remembered, _) => POLICY_RUN,
        (EnvelopeScope::Run, Some(run)) => run,
        (EnvelopeScope::Run, None) => {
            return Err(GrantStoreError::invalid("an envelope is recorded in a run, and the store has none"));
        }
    };
    let event = GrantEvent::of_envelope(run, envelope);
    event.encode()?;
    Ok(Some(event))
}

/// Replays the journal and grants the envelope of the options. Where others write to the journal at the same time it is
/// read again, so that of two constructors with one envelope the second finds the record of the first.
pub(super) async fn construct(
    options: &GrantStoreOptions,
    root: &str,
    base: &Rulesets,
) -> Result<(Rulesets, State), GrantStoreError> {
    let envelope = options.envelope.as_ref().map(Envelope::canonical);
    let run_id = options.run_id.as_deref();
    let planned = match &envelope {
        Some(envelope) => planned_envelope(envelope, options.plan_digest.as_deref(), run_id, root)?,
        None => None,
    };
    let reader =
        replay::Reader { root, plan_digest: options.plan_digest.as_deref(), ceiling: &options.ceiling };
    for _ in 0..CONSTRUCT_ATTEMPTS {
        let mut rules = base.clone();
        let mut state =
            State { vouched: options.envelope_signatures.iter().cloned().collect(), ..State::default() };
        let mut last_of_run = 0;
        if let Some(run) = run_id {
            let history = replay::read_all(&*options.persist, run).await?;
            last_of_run = history.last;
            reader.replay_run(run, history, &mut rules, &mut state.signatures)?;
        }
        let history = replay::read_all(&*options.persist, POLICY_RUN).await?;
        let last_of_policy = history.last;
        reader.replay_policy(history, &mut rules, &mut state.signatures)?;

        let (Some(envelope), Some(event)) = (&envelope, &planned) else { return Ok((rules, state)) };
        let signature = envelope.signature();
        if state.signatures.contains(&signature) {
            return Ok((rules, state));
        }
        if rules.count() + envelope.patterns.len() > MAX_RULES {
            return Err(too_many_rules());
        }
        if state.vouched.contains(&signature) {
            vouch(&mut rules, &mut state, envelope, &signature);
            return Ok((rules, state));
        }
        if state.signatures.union(&state.vouched).count() >= MAX_ENVELOPE_SIGNATURES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_ENVELOPE_SIGNATURES} envelopes")));
        }
        let last = if event.run() == POLICY_RUN { last_of_policy } else { last_of_run };
        let payload: Value = event.encode()?;
        let write = options.persist.append_after(event.run(), last, event.event_type(), &payload);
        if let Some(seq) = within(write).await? {
            add_envelope(&mut rules, &mut state, envelope, &signature, seq);
            return Ok((rules, state));
        }
    }
    let message = "others write to the journal all the time";
    Err(GrantStoreError::new(GrantStoreCode::JournalFailed, message))
}

/// A write within its time.
async fn within<T>(
    write: impl Future<Output = Result<T, crate::persist::PersistError>>,
) -> Result<T, GrantStoreError> {
    match tokio::time::timeout(Duration::from_millis(PERSIST_MILLIS), write).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(GrantStoreError::new(GrantStoreCode::JournalFailed, error.to_string())),
        Err(_late) => {
            let message = format!("the write took more than {PERSIST_MILLIS} ms");
            Err(GrantStoreError::new(GrantStoreCode::JournalFailed, message))
        }
    }
}

fn too_many_rules() -> GrantStoreError {
    GrantStoreError::invalid(format!("more than {MAX_RULES} rules"))
}
