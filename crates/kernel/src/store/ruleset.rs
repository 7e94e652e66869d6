//! The four rulesets of a store.

use std::borrow::Cow;

use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::rules::{CapabilitySet, Effect, Reason, Rule, evaluate, explain};
use crate::permission::GrantStoreError;

/// Rules over the four rulesets at most.
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

/// Rules with the events that made them, side by side so that evaluation borrows a slice.
#[derive(Debug, Default)]
pub(crate) struct Held {
    rules: Vec<Rule>,
    seqs: Vec<Option<u64>>,
}

impl Held {
    pub(crate) fn push(&mut self, rule: Rule, seq: Option<u64>) {
        self.rules.push(rule);
        self.seqs.push(seq);
    }

    fn listed(&self, source: impl Fn(Option<u64>) -> Source) -> impl Iterator<Item = (Rule, Source)> {
        self.rules.iter().cloned().zip(self.seqs.iter().map(move |seq| source(*seq)))
    }
}

/// `[configured, envelope, run, remembered]`, in the order in which they are evaluated.
#[derive(Debug, Default)]
pub(crate) struct Rulesets {
    configured: Held,
    pub(crate) envelope: Held,
    run: Held,
    run_ceilings: Vec<CapabilitySet>,
    pub(crate) remembered: Held,
    /// Where the ask twins stand among the configured rules.
    ask_twins: Vec<usize>,
    /// The configured rules without them; empty when there are none. What these deny stays denied: where a link leads is
    /// not the policy's own word, so a twin may add a question and never take a refusal away.
    untwinned: Vec<Rule>,
}

impl Rulesets {
    /// Adds a rule of the policy, with its twin if it has one.
    pub(crate) fn push_configured(&mut self, rule: Rule, twin: Option<Rule>) {
        self.configured.push(rule, None);
        let Some(twin) = twin else { return };
        if twin.effect == Effect::Ask {
            self.ask_twins.push(self.configured.rules.len());
        }
        self.configured.push(twin, None);
    }

    /// To be called when the policy is complete.
    pub(crate) fn seal_configured(&mut self) {
        if self.ask_twins.is_empty() {
            return;
        }
        let rules = self.configured.rules.iter().enumerate();
        let own = rules.filter(|(index, _)| !self.ask_twins.contains(index));
        self.untwinned = own.map(|(_, rule)| rule.clone()).collect();
    }

    pub(crate) fn push_run(&mut self, rule: RunRule, seq: Option<u64>) {
        self.run.push(rule.rule, seq);
        self.run_ceilings.push(rule.ceiling);
    }

    pub(crate) fn check_bound(&self) -> Result<(), GrantStoreError> {
        let sets = [&self.configured, &self.envelope, &self.run, &self.remembered];
        if sets.iter().map(|set| set.rules.len()).sum::<usize>() > MAX_RULES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_RULES} rules")));
        }
        Ok(())
    }

    pub(crate) fn evaluate(&self, cap: &Capability) -> Effect {
        if !self.untwinned.is_empty() && evaluate(&[&self.untwinned], cap) == Effect::Deny {
            return Effect::Deny;
        }
        let run: Cow<'_, [Rule]> = if self.run_ceilings.iter().all(|ceiling| ceiling.allows(cap)) {
            Cow::Borrowed(&self.run.rules)
        } else {
            let pairs = self.run.rules.iter().zip(&self.run_ceilings);
            pairs.filter(|(_, ceiling)| ceiling.allows(cap)).map(|(rule, _)| rule.clone()).collect()
        };
        evaluate(&[&self.configured.rules, &self.envelope.rules, &run, &self.remembered.rules], cap)
    }

    pub(crate) fn may_deny(&self, pattern: &CapabilityPattern) -> bool {
        let sets = [&self.configured, &self.envelope, &self.run, &self.remembered];
        let mut rules = sets.iter().flat_map(|set| &set.rules);
        rules.any(|rule| rule.effect == Effect::Deny && rule.pattern.may_overlap(pattern))
    }

    pub(crate) fn explain(&self, cap: &Capability) -> Explanation {
        let in_run: Vec<usize> = (0..self.run.rules.len())
            .filter(|index| self.run_ceilings.get(*index).is_some_and(|ceiling| ceiling.allows(cap)))
            .collect();
        let run: Vec<Rule> = in_run.iter().filter_map(|index| self.run.rules.get(*index).cloned()).collect();
        let sets = [&self.configured.rules[..], &self.envelope.rules, &run, &self.remembered.rules];
        let mut decision = explain(&sets, cap);
        if !self.untwinned.is_empty() && decision.effect != Effect::Deny {
            let own = explain(&[&self.untwinned, sets[1], sets[2], sets[3]], cap);
            if own.effect == Effect::Deny {
                // The same rule among all: each ask twin at or before its place moves it by one.
                let place = |mut index: usize| {
                    self.ask_twins.iter().for_each(|twin| index += usize::from(*twin <= index));
                    index
                };
                decision = own;
                decision.rule = own.rule.map(|(set, at)| (set, if set == 0 { place(at) } else { at }));
            }
        }
        let rule = decision.rule.and_then(|(set, index)| {
            let (held, index) = match set {
                0 => (&self.configured, index),
                1 => (&self.envelope, index),
                2 => (&self.run, *in_run.get(index)?),
                _ => (&self.remembered, index),
            };
            let seq = *held.seqs.get(index)?;
            let source = match set {
                0 => Source::Configured,
                1 => Source::Envelope { seq },
                2 => Source::Run { seq },
                _ => Source::Remembered { seq },
            };
            Some((held.rules.get(index)?.clone(), source))
        });
        Explanation { effect: decision.effect, rule, reason: decision.reason }
    }

    pub(crate) fn listed(&self) -> Vec<(Rule, Source)> {
        self.configured
            .listed(|_| Source::Configured)
            .chain(self.envelope.listed(|seq| Source::Envelope { seq }))
            .chain(self.run.listed(|seq| Source::Run { seq }))
            .chain(self.remembered.listed(|seq| Source::Remembered { seq }))
            .collect()
    }
}
