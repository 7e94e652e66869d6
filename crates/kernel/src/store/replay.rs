//! Rules from the journal (kernel contract 5.1).
//!
//! Every known event type is decoded and checked. Once and denied events are records, never authority. Run, remembered and
//! envelope events of earlier processes become rules, and a revoked event takes its rule back.

use std::collections::BTreeSet;

use super::envelope::{Envelope, EnvelopeScope, MAX_ENVELOPE_SIGNATURES};
use super::event::{GrantEvent, POLICY_RUN};
use super::pattern::valid_for;
use super::ruleset::{Rulesets, RunRule};
use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::effects::{Tier, tier_of};
use crate::flows::rules::{CapabilitySet, Rule};
use crate::permission::{GrantStoreCode, GrantStoreError};
use crate::persist::{GRANT_SOURCE, Persist};

/// Events of one page.
pub const PAGE_EVENTS: usize = 256;

/// Who is replaying: what an event has to agree with.
pub(crate) struct Reader<'a> {
    pub(crate) root: &'a str,
    pub(crate) plan_digest: Option<&'a str>,
    pub(crate) ceiling: &'a CapabilitySet,
}

/// The grant events of a run.
pub(crate) struct History {
    /// The last event of the run, of whatever source; 0 where there is none.
    pub(crate) last: u64,
    events: Vec<(u64, GrantEvent)>,
}

/// Reads a run in pages of [`PAGE_EVENTS`]. Events of other sources and of unknown types are let go.
pub(crate) async fn read_all(persist: &dyn Persist, run: &str) -> Result<History, GrantStoreError> {
    let mut history = History { last: 0, events: Vec::new() };
    loop {
        let page = persist
            .page(run, history.last, PAGE_EVENTS)
            .await
            .map_err(|error| GrantStoreError::new(GrantStoreCode::JournalFailed, error.to_string()))?;
        let count = page.len();
        for event in page {
            if event.seq <= history.last {
                return Err(GrantStoreError::invalid(format!(
                    "the journal does not advance: event {} after event {}",
                    event.seq, history.last
                )));
            }
            history.last = event.seq;
            if event.source == GRANT_SOURCE
                && let Some(decoded) = GrantEvent::decode(&event.event_type, &event.event)
                    .map_err(|error| at(event.seq, error))?
            {
                history.events.push((event.seq, decoded));
            }
        }
        if count < PAGE_EVENTS {
            return Ok(history);
        }
        if count > PAGE_EVENTS {
            return Err(GrantStoreError::invalid(format!("a page of the journal has {count} events")));
        }
    }
}

impl Reader<'_> {
    /// Puts the rules of a run's own events into the envelope and run rulesets.
    pub(crate) fn replay_run(
        &self,
        run: &str,
        history: History,
        rules: &mut Rulesets,
        signatures: &mut BTreeSet<String>,
    ) -> Result<(), GrantStoreError> {
        for (seq, event) in history.events {
            let event_type = event.event_type();
            match event {
                GrantEvent::Once(record) | GrantEvent::Denied(record) => {
                    expect_run(seq, &record.run_id, run)?;
                }
                GrantEvent::Run(grant) => {
                    expect_run(seq, &grant.run_id, run)?;
                    if self.plan_digest == Some(grant.plan_digest.as_str()) {
                        self.expect_pattern(seq, &grant.pattern, &grant.capability, grant.tier)?;
                        let ceiling = grant.ceiling.intersect(self.ceiling);
                        rules.push_run(RunRule { rule: Rule::allow(grant.pattern), ceiling }, Some(seq));
                    }
                }
                GrantEvent::Envelope { run_id, envelope } => {
                    if envelope.scope != EnvelopeScope::Run {
                        return Err(misplaced(seq, event_type, run));
                    }
                    expect_run(seq, &run_id, run)?;
                    // A known one is in force already.
                    if self.plan_digest == Some(envelope.plan_digest.as_str())
                        && self.sign(seq, &envelope, signatures)?
                    {
                        rules.push_envelope(envelope.canonical().patterns, Some(seq));
                    }
                }
                GrantEvent::Remembered(_) | GrantEvent::Revoked { .. } => {
                    return Err(misplaced(seq, event_type, run));
                }
            }
        }
        rules.check_bound()
    }

    /// Puts the rules of the policy run into the remembered ruleset, once a pattern.
    pub(crate) fn replay_policy(
        &self,
        history: History,
        rules: &mut Rulesets,
        signatures: &mut BTreeSet<String>,
    ) -> Result<(), GrantStoreError> {
        let revoked: BTreeSet<u64> = history
            .events
            .iter()
            .filter_map(|(at, event)| match event {
                // What is taken back was there before: an event that names a later one takes nothing back.
                GrantEvent::Revoked { seq } if seq < at => Some(*seq),
                _ => None,
            })
            .collect();
        for (seq, event) in history.events {
            let event_type = event.event_type();
            match event {
                GrantEvent::Remembered(grant) => {
                    expect_run(seq, &grant.run_id, POLICY_RUN)?;
                    if !revoked.contains(&seq) {
                        self.expect_pattern(seq, &grant.pattern, &grant.capability, grant.tier)?;
                        rules.remember(seq, vec![grant.pattern], None);
                    }
                }
                GrantEvent::Envelope { run_id, envelope } => {
                    if envelope.scope != EnvelopeScope::Remembered {
                        return Err(misplaced(seq, event_type, POLICY_RUN));
                    }
                    expect_run(seq, &run_id, POLICY_RUN)?;
                    if !revoked.contains(&seq) {
                        self.sign(seq, &envelope, signatures)?;
                        let signature = envelope.signature();
                        rules.remember(seq, envelope.canonical().patterns, Some(signature));
                    }
                }
                GrantEvent::Revoked { .. } => {}
                GrantEvent::Once(_) | GrantEvent::Denied(_) | GrantEvent::Run(_) => {
                    return Err(misplaced(seq, event_type, POLICY_RUN));
                }
            }
        }
        rules.derive_remembered();
        rules.check_bound()
    }

    fn expect_pattern(
        &self,
        seq: u64,
        pattern: &CapabilityPattern,
        cap: &Capability,
        tier: Tier,
    ) -> Result<(), GrantStoreError> {
        if tier == tier_of(cap, self.root) && valid_for(pattern, cap, tier, self.root) {
            return Ok(());
        }
        Err(GrantStoreError::invalid(format!("event {seq}: pattern is wider than the request")))
    }

    /// Checks an envelope and makes its signature known. False for one that was known.
    fn sign(
        &self,
        seq: u64,
        envelope: &Envelope,
        signatures: &mut BTreeSet<String>,
    ) -> Result<bool, GrantStoreError> {
        envelope.check(self.root).map_err(|error| at(seq, error))?;
        let new = signatures.insert(envelope.signature());
        if signatures.len() > MAX_ENVELOPE_SIGNATURES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_ENVELOPE_SIGNATURES} envelopes")));
        }
        Ok(new)
    }
}

fn at(seq: u64, error: GrantStoreError) -> GrantStoreError {
    GrantStoreError::invalid(format!("event {seq}: {}", error.message.unwrap_or_default()))
}

fn misplaced(seq: u64, event_type: &str, run: &str) -> GrantStoreError {
    GrantStoreError::invalid(format!("event {seq} ({event_type}) has no place in run {run}"))
}

fn expect_run(seq: u64, found: &str, expected: &str) -> Result<(), GrantStoreError> {
    if found == expected {
        return Ok(());
    }
    Err(GrantStoreError::invalid(format!("event {seq} is of run {found}, read from run {expected}")))
}
