//! Rules from the journal (kernel contract 5.1).
//!
//! Every known event type is decoded and checked. Once and denied events are records, never authority. Run, remembered and
//! envelope events of earlier processes become rules, and a revoked event takes its rule back.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::event::{self, EnvelopeEvent, GrantEvent, RevokedEvent, RunGrantEvent, Scope};
use super::pattern::{valid_for, valid_in_envelope};
use super::ruleset::{Rulesets, RunRule};
use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::effects::{Tier, tier_of};
use crate::flows::rules::Rule;
use crate::permission::{GrantStoreCode, GrantStoreError};
use crate::persist::{GRANT_SOURCE, Persist, PersistedEvent};

/// Events of one page.
pub const PAGE_EVENTS: usize = 256;
/// Patterns of one envelope at most.
pub const MAX_ENVELOPE_PATTERNS: usize = 256;
/// Envelope signatures that a store knows at most.
pub const MAX_ENVELOPE_SIGNATURES: usize = 1_024;

/// Who is replaying: what an event has to agree with.
pub(crate) struct Reader<'a> {
    pub(crate) root: &'a str,
    pub(crate) plan_digest: Option<&'a str>,
    pub(crate) policy_run: &'a str,
}

/// The store's own events of a run, read in pages of [`PAGE_EVENTS`]; those of other sources are let go.
pub(crate) async fn read_all(
    persist: &dyn Persist,
    run: &str,
) -> Result<Vec<PersistedEvent>, GrantStoreError> {
    let mut events: Vec<PersistedEvent> = Vec::new();
    let mut after = 0;
    loop {
        let page = persist
            .page(run, after, PAGE_EVENTS)
            .await
            .map_err(|error| GrantStoreError::new(GrantStoreCode::JournalFailed, error.to_string()))?;
        let count = page.len();
        for event in page {
            if event.seq <= after {
                return Err(GrantStoreError::invalid(format!(
                    "the journal does not advance: event {} after event {after}",
                    event.seq
                )));
            }
            after = event.seq;
            if event.source == GRANT_SOURCE {
                events.push(event);
            }
        }
        if count < PAGE_EVENTS {
            return Ok(events);
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
        events: &[PersistedEvent],
        rules: &mut Rulesets,
        signatures: &mut BTreeSet<String>,
    ) -> Result<(), GrantStoreError> {
        for PersistedEvent { seq, event_type, event, .. } in events {
            match event_type.as_str() {
                event::ONCE | event::DENIED => {
                    self.grant(event_type, *seq, event, run, Scope::Once)?;
                }
                event::RUN => {
                    let grant: RunGrantEvent = event::decode(event_type, *seq, event)?;
                    expect_scope(*seq, grant.scope, Scope::Run)?;
                    expect_run(*seq, &grant.run_id, run)?;
                    expect_identity(*seq, &grant.request_id)?;
                    expect_identity(*seq, &grant.plan_digest)?;
                    if self.plan_digest == Some(grant.plan_digest.as_str()) {
                        self.expect_pattern(*seq, &grant.pattern, &grant.capability, grant.tier)?;
                        let rule = Rule::allow(grant.pattern);
                        rules.push_run(RunRule { rule, ceiling: grant.ceiling }, Some(*seq));
                    }
                }
                event::ENVELOPE => {
                    let envelope = self.envelope(event_type, *seq, event, run, Scope::Run)?;
                    if self.plan_digest == Some(envelope.plan_digest.as_str()) {
                        for pattern in self.expect_envelope(*seq, envelope, signatures)? {
                            rules.envelope.push(Rule::allow(pattern), Some(*seq));
                        }
                    }
                }
                event::REMEMBERED | event::REVOKED => return Err(misplaced(*seq, event_type, run)),
                _ => {}
            }
        }
        rules.check_bound()
    }

    /// Puts the rules of the policy run into the remembered ruleset, once a pattern.
    pub(crate) fn replay_policy(
        &self,
        events: &[PersistedEvent],
        rules: &mut Rulesets,
        signatures: &mut BTreeSet<String>,
    ) -> Result<(), GrantStoreError> {
        let mut revoked = BTreeSet::new();
        for PersistedEvent { seq, event_type, event, .. } in events {
            if event_type == event::REVOKED {
                let event: RevokedEvent = event::decode(event_type, *seq, event)?;
                revoked.insert(event.seq);
            }
        }
        let mut seen = BTreeSet::new();
        for PersistedEvent { seq, event_type, event, .. } in events {
            let patterns = match event_type.as_str() {
                event::REMEMBERED => {
                    let grant = self.grant(event_type, *seq, event, self.policy_run, Scope::Remembered)?;
                    if revoked.contains(seq) {
                        continue;
                    }
                    self.expect_pattern(*seq, &grant.pattern, &grant.capability, grant.tier)?;
                    vec![grant.pattern]
                }
                event::ENVELOPE => {
                    let envelope =
                        self.envelope(event_type, *seq, event, self.policy_run, Scope::Remembered)?;
                    if revoked.contains(seq) {
                        continue;
                    }
                    self.expect_envelope(*seq, envelope, signatures)?
                }
                event::ONCE | event::DENIED | event::RUN => {
                    return Err(misplaced(*seq, event_type, self.policy_run));
                }
                _ => continue,
            };
            for pattern in patterns {
                if seen.insert(pattern.to_string()) {
                    rules.remembered.push(Rule::allow(pattern), Some(*seq));
                }
            }
        }
        rules.check_bound()
    }

    fn grant(
        &self,
        event_type: &str,
        seq: u64,
        payload: &Value,
        run: &str,
        scope: Scope,
    ) -> Result<GrantEvent, GrantStoreError> {
        let grant: GrantEvent = event::decode(event_type, seq, payload)?;
        expect_scope(seq, grant.scope, scope)?;
        expect_run(seq, &grant.run_id, run)?;
        expect_identity(seq, &grant.request_id)?;
        if let Some(digest) = &grant.plan_digest {
            expect_identity(seq, digest)?;
        }
        Ok(grant)
    }

    fn envelope(
        &self,
        event_type: &str,
        seq: u64,
        payload: &Value,
        run: &str,
        scope: Scope,
    ) -> Result<EnvelopeEvent, GrantStoreError> {
        let envelope: EnvelopeEvent = event::decode(event_type, seq, payload)?;
        expect_scope(seq, envelope.scope, scope)?;
        expect_run(seq, &envelope.run_id, run)?;
        expect_identity(seq, &envelope.plan_digest)?;
        Ok(envelope)
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

    fn expect_envelope(
        &self,
        seq: u64,
        envelope: EnvelopeEvent,
        signatures: &mut BTreeSet<String>,
    ) -> Result<Vec<CapabilityPattern>, GrantStoreError> {
        if envelope.patterns.len() > MAX_ENVELOPE_PATTERNS {
            return Err(GrantStoreError::invalid(format!(
                "event {seq}: an envelope of more than {MAX_ENVELOPE_PATTERNS} patterns"
            )));
        }
        match envelope.patterns.iter().find(|pattern| !valid_in_envelope(pattern, self.root)) {
            None => {}
            Some(bad) => {
                return Err(GrantStoreError::invalid(format!(
                    "event {seq}: {bad} has no place in an envelope"
                )));
            }
        }
        let patterns = canonical(envelope.patterns);
        let signature = json!([envelope.plan_digest, envelope.scope, patterns]).to_string();
        // A known one is in force already.
        if !signatures.insert(signature) {
            return Ok(Vec::new());
        }
        if signatures.len() > MAX_ENVELOPE_SIGNATURES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_ENVELOPE_SIGNATURES} envelopes")));
        }
        Ok(patterns)
    }
}

/// Deduplicated, sorted by rendered text.
fn canonical(mut patterns: Vec<CapabilityPattern>) -> Vec<CapabilityPattern> {
    patterns.sort_by_cached_key(ToString::to_string);
    patterns.dedup();
    patterns
}

fn misplaced(seq: u64, event_type: &str, run: &str) -> GrantStoreError {
    GrantStoreError::invalid(format!("event {seq} ({event_type}) has no place in run {run}"))
}

fn expect_scope(seq: u64, found: Scope, expected: Scope) -> Result<(), GrantStoreError> {
    if found == expected {
        return Ok(());
    }
    Err(GrantStoreError::invalid(
        format!("event {seq}: scope {found:?} where {expected:?} belongs").to_lowercase(),
    ))
}

fn expect_run(seq: u64, found: &str, expected: &str) -> Result<(), GrantStoreError> {
    if found == expected {
        return Ok(());
    }
    Err(GrantStoreError::invalid(format!("event {seq} is of run {found}, read from run {expected}")))
}

fn expect_identity(seq: u64, text: &str) -> Result<(), GrantStoreError> {
    super::check_identity("an identity", text).map_err(|error| {
        GrantStoreError::invalid(format!("event {seq}: {}", error.message.unwrap_or_default()))
    })
}
