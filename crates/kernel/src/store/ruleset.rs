//! The rulesets of a store.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::flows::capability::{Action, Capability, CapabilityPattern};
use crate::flows::rules::{CapabilitySet, Decision, Effect, Reason, Rule, evaluate_text, explain_text};
use crate::permission::GrantStoreError;

/// Rules over the four rulesets at most; of the narrowing rules, as many again.
pub const MAX_RULES: usize = 1_024;

/// Where a rule of a store comes from. `seq` is the journal event that made it; a rule of the options has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The host's policy, resolved twins included.
    Configured,
    /// An envelope of this run's plan.
    Envelope {
        /// The event.
        seq: Option<u64>,
    },
    /// A grant for this run.
    Run {
        /// The event.
        seq: Option<u64>,
    },
    /// A grant that later processes keep.
    Remembered {
        /// The event.
        seq: Option<u64>,
    },
    /// A workspace that nobody trusts: a narrowing rule, resolved twins included.
    Workspace,
}

impl Source {
    /// The source in one word: `configured`, `envelope`, `run`, `remembered` or `workspace`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Configured => "configured",
            Source::Envelope { .. } => "envelope",
            Source::Run { .. } => "run",
            Source::Remembered { .. } => "remembered",
            Source::Workspace => "workspace",
        }
    }

    /// The journal event that made the rule.
    pub const fn seq(self) -> Option<u64> {
        match self {
            Source::Envelope { seq } | Source::Run { seq } | Source::Remembered { seq } => seq,
            Source::Configured | Source::Workspace => None,
        }
    }
}

/// What the rules say of a request, and which of them had the last word.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The answer.
    pub effect: Effect,
    /// The rule that gave it, and where it comes from; `None` when no rule selects the request.
    pub rule: Option<(Rule, Source)>,
    /// Why that rule had the last word.
    pub reason: Reason,
}

/// A rule of this run. It takes part only where the ceiling captured with it allows the request.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRule {
    /// The rule.
    pub rule: Rule,
    /// The ceiling of the authority that asked.
    pub ceiling: CapabilitySet,
}

/// Rules with the events that made them, side by side so that evaluation borrows a slice. Those of the options come first,
/// the others in the order of their events, whatever the order in which their writes ended.
#[derive(Clone, Debug, Default)]
struct Held {
    rules: Vec<Rule>,
    seqs: Vec<Option<u64>>,
}

impl Held {
    /// Puts a rule behind those of the same and earlier events, and says where.
    fn insert(&mut self, rule: Rule, seq: Option<u64>) -> usize {
        let at = self.seqs.partition_point(|held| *held <= seq);
        self.rules.insert(at, rule);
        self.seqs.insert(at, seq);
        at
    }

    fn listed(&self, source: impl Fn(Option<u64>) -> Source) -> impl Iterator<Item = (Rule, Source)> {
        self.rules.iter().cloned().zip(self.seqs.iter().map(move |seq| source(*seq)))
    }
}

/// Rules with resolved twins: the policy, and the narrowing rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
    /// Where the ask twins stand among the rules.
    ask_twins: BTreeSet<usize>,
    /// The rules without them; empty when there are none. What these deny stays denied: where a link leads is not the
    /// policy's own word, so a twin may add a question and never take a refusal away.
    untwinned: Vec<Rule>,
}

impl Policy {
    /// Adds a rule, with its twin if it has one.
    pub(crate) fn push(&mut self, rule: Rule, twin: Option<Rule>) {
        self.rules.push(rule);
        let Some(twin) = twin else { return };
        if twin.effect == Effect::Ask {
            self.ask_twins.insert(self.rules.len());
        }
        self.rules.push(twin);
    }

    /// To be called when the policy is complete.
    pub(crate) fn seal(&mut self) {
        if !self.ask_twins.is_empty() {
            let rules = self.rules.iter().enumerate();
            let own = rules.filter(|(index, _)| !self.ask_twins.contains(index));
            self.untwinned = own.map(|(_, rule)| rule.clone()).collect();
        }
    }

    fn denies(&self, action: Action, resource: &str) -> bool {
        !self.untwinned.is_empty() && evaluate_text(&[&self.untwinned], action, resource) == Effect::Deny
    }
}

/// A remembered event: its patterns, and of an envelope its signature.
#[derive(Clone, Debug)]
struct Grant {
    patterns: Vec<CapabilityPattern>,
    signature: Option<String>,
}

/// `[configured, envelope, run, remembered]`, in the order in which they are evaluated, and the narrowing rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rulesets {
    pub(crate) configured: Policy,
    pub(crate) narrowing: Policy,
    envelope: Held,
    run: Held,
    run_ceilings: Vec<CapabilitySet>,
    /// The host's own rules, then one for each pattern of the grants.
    remembered: Held,
    /// The remembered events that are in force, by `seq`.
    grants: BTreeMap<u64, Grant>,
}

/// Which rules a judge lets count.
pub(crate) type Counts<'a> = &'a dyn Fn(&Rule) -> bool;

impl Rulesets {
    /// Adds a rule of the options' remembered ruleset.
    pub(crate) fn push_remembered(&mut self, rule: Rule) {
        self.remembered.insert(rule, None);
    }

    pub(crate) fn push_run(&mut self, rule: RunRule, seq: Option<u64>) {
        let at = self.run.insert(rule.rule, seq);
        self.run_ceilings.insert(at, rule.ceiling);
    }

    pub(crate) fn push_envelope(&mut self, patterns: Vec<CapabilityPattern>, seq: Option<u64>) {
        for pattern in patterns {
            self.envelope.insert(Rule::allow(pattern), seq);
        }
    }

    /// Adds a remembered event; [`Self::derive_remembered`] makes its rules.
    pub(crate) fn remember(&mut self, seq: u64, patterns: Vec<CapabilityPattern>, signature: Option<String>) {
        self.grants.insert(seq, Grant { patterns, signature });
    }

    /// Adds a remembered envelope whose record the host vouches for.
    pub(crate) fn push_vouched(&mut self, patterns: Vec<CapabilityPattern>) {
        for pattern in patterns {
            let rule = Rule::allow(pattern);
            if !self.remembered.rules.contains(&rule) {
                self.push_remembered(rule);
            }
        }
    }

    /// Takes a remembered event back. The signature that no event in force has any more, if there is one.
    pub(crate) fn revoke(&mut self, seq: u64) -> Option<String> {
        let signature = self.grants.remove(&seq)?.signature;
        self.derive_remembered();
        signature.filter(|own| !self.grants.values().any(|grant| grant.signature.as_ref() == Some(own)))
    }

    pub(crate) fn remembers(&self, seq: u64) -> bool {
        self.grants.contains_key(&seq)
    }

    /// One rule for each rendered pattern, with the first event that holds it (kernel contract 5.1).
    pub(crate) fn derive_remembered(&mut self) {
        let own = self.remembered.seqs.partition_point(Option::is_none);
        self.remembered.rules.truncate(own);
        self.remembered.seqs.truncate(own);
        let mut seen = BTreeSet::new();
        for (seq, grant) in &self.grants {
            for pattern in &grant.patterns {
                if seen.insert(pattern.to_string()) {
                    self.remembered.rules.push(Rule::allow(pattern.clone()));
                    self.remembered.seqs.push(Some(*seq));
                }
            }
        }
    }

    /// Rules over the four rulesets.
    pub(crate) fn count(&self) -> usize {
        [&self.configured.rules, &self.envelope.rules, &self.run.rules, &self.remembered.rules]
            .map(Vec::len)
            .iter()
            .sum()
    }

    pub(crate) fn check_bound(&self) -> Result<(), GrantStoreError> {
        if self.count() > MAX_RULES || self.narrowing.rules.len() > MAX_RULES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_RULES} rules")));
        }
        Ok(())
    }

    pub(crate) fn evaluate(&self, cap: &Capability) -> Effect {
        self.evaluate_text(cap.action(), cap.resource(), None)
    }

    /// What the rules that count say of a resource of any length.
    pub(crate) fn evaluate_text(&self, action: Action, resource: &str, counts: Option<Counts<'_>>) -> Effect {
        if counts.is_some() {
            return self.explain_text(action, resource, counts).effect;
        }
        if self.configured.denies(action, resource) {
            return Effect::Deny;
        }
        let run: Cow<'_, [Rule]> =
            if self.run_ceilings.iter().all(|ceiling| ceiling.allows_text(action, resource)) {
                Cow::Borrowed(&self.run.rules)
            } else {
                let pairs = self.run.rules.iter().zip(&self.run_ceilings);
                pairs
                    .filter(|(_, ceiling)| ceiling.allows_text(action, resource))
                    .map(|(rule, _)| rule.clone())
                    .collect()
            };
        let sets = [&self.configured.rules[..], &self.envelope.rules, &run, &self.remembered.rules];
        let effect = evaluate_text(&sets, action, resource);
        if self.narrowing.rules.is_empty() {
            return effect;
        }
        self.narrowed(effect, action, resource, None).map_or(effect, |decision| decision.effect)
    }

    pub(crate) fn may_deny(&self, pattern: &CapabilityPattern) -> bool {
        let sets = [
            &self.configured.rules,
            &self.envelope.rules,
            &self.run.rules,
            &self.remembered.rules,
            &self.narrowing.rules,
        ];
        let mut rules = sets.into_iter().flatten();
        rules.any(|rule| rule.effect == Effect::Deny && rule.pattern.may_overlap(pattern))
    }

    pub(crate) fn explain(&self, cap: &Capability) -> Explanation {
        self.explain_text(cap.action(), cap.resource(), None)
    }

    /// As [`Self::evaluate_text`], naming the rule that decided.
    pub(crate) fn explain_text(
        &self,
        action: Action,
        resource: &str,
        counts: Option<Counts<'_>>,
    ) -> Explanation {
        let counts = |rule: &Rule| counts.is_none_or(|counts| counts(rule));
        let pick = |rules: &[Rule], keep: &dyn Fn(usize) -> bool| -> (Vec<usize>, Vec<Rule>) {
            let rules = rules.iter().enumerate();
            rules
                .filter(|(index, rule)| keep(*index) && counts(rule))
                .map(|(index, rule)| (index, rule.clone()))
                .unzip()
        };
        let in_ceiling = |index: usize| {
            self.run_ceilings.get(index).is_some_and(|ceiling| ceiling.allows_text(action, resource))
        };
        let (mut places, configured) = pick(&self.configured.rules, &|_| true);
        let (envelope_places, envelope) = pick(&self.envelope.rules, &|_| true);
        let (run_places, run) = pick(&self.run.rules, &in_ceiling);
        let (remembered_places, remembered) = pick(&self.remembered.rules, &|_| true);
        let mut decision = explain_text(&[&configured, &envelope, &run, &remembered], action, resource);
        if !self.configured.untwinned.is_empty() && decision.effect != Effect::Deny {
            let twins = &self.configured.ask_twins;
            let (own_places, own) = pick(&self.configured.rules, &|index| !twins.contains(&index));
            if evaluate_text(&[&own], action, resource) == Effect::Deny {
                decision = explain_text(&[&own, &envelope, &run, &remembered], action, resource);
                places = own_places;
            }
        }
        if let Some(narrowed) = self.narrowed(decision.effect, action, resource, Some(&counts)) {
            let rule = narrowed.rule.and_then(|(_, index)| self.narrowing.rules.get(index));
            let rule = rule.map(|rule| (rule.clone(), Source::Workspace));
            return Explanation { effect: narrowed.effect, rule, reason: narrowed.reason };
        }
        let rule = decision.rule.and_then(|(set, index)| {
            if set == 0 {
                let rule = self.configured.rules.get(*places.get(index)?)?;
                return Some((rule.clone(), Source::Configured));
            }
            let (held, places) = match set {
                1 => (&self.envelope, &envelope_places),
                2 => (&self.run, &run_places),
                _ => (&self.remembered, &remembered_places),
            };
            let index = *places.get(index)?;
            let seq = *held.seqs.get(index)?;
            let source = match set {
                1 => Source::Envelope { seq },
                2 => Source::Run { seq },
                _ => Source::Remembered { seq },
            };
            Some((held.rules.get(index)?.clone(), source))
        });
        Explanation { effect: decision.effect, rule, reason: decision.reason }
    }

    /// The decision of the narrowing rules, where it is lower than the answer of the others.
    fn narrowed(
        &self,
        effect: Effect,
        action: Action,
        resource: &str,
        counts: Option<Counts<'_>>,
    ) -> Option<Decision> {
        if self.narrowing.rules.is_empty() || effect == Effect::Deny {
            return None;
        }
        let mut decision = explain_text(&[&self.narrowing.rules], action, resource);
        if self.narrowing.denies(action, resource) && decision.effect != Effect::Deny {
            let twins = &self.narrowing.ask_twins;
            let mut own = (0..self.narrowing.rules.len()).filter(|index| !twins.contains(index));
            decision = explain_text(&[&self.narrowing.untwinned], action, resource);
            decision.rule = decision.rule.and_then(|(set, index)| Some((set, own.nth(index)?)));
        }
        decision.rule?;
        let lower = decision.effect == Effect::Deny
            || (effect == Effect::Allow && !self.answered(action, resource, counts));
        lower.then_some(decision)
    }

    /// Whether a person's answer for this run, of its journal, selects the request.
    fn answered(&self, action: Action, resource: &str, counts: Option<Counts<'_>>) -> bool {
        let grants = self.run.rules.iter().zip(&self.run.seqs).zip(&self.run_ceilings);
        grants.filter(|((_, seq), _)| seq.is_some()).any(|((rule, _), ceiling)| {
            counts.is_none_or(|counts| counts(rule))
                && ceiling.allows_text(action, resource)
                && evaluate_own(rule, action, resource)
        })
    }

    pub(crate) fn listed(&self) -> Vec<(Rule, Source)> {
        let policy = self.configured.rules.iter().cloned().map(|rule| (rule, Source::Configured));
        policy
            .chain(self.envelope.listed(|seq| Source::Envelope { seq }))
            .chain(self.run.listed(|seq| Source::Run { seq }))
            .chain(self.remembered.listed(|seq| Source::Remembered { seq }))
            .chain(self.narrowing.rules.iter().cloned().map(|rule| (rule, Source::Workspace)))
            .collect()
    }
}

fn evaluate_own(rule: &Rule, action: Action, resource: &str) -> bool {
    evaluate_text(&[std::slice::from_ref(rule)], action, resource) == Effect::Allow
}
