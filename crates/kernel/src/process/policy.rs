//! The policy of commands, asked of an authority.

use std::sync::Arc;

use super::command::Command;
use super::plan::{By, Part, Plan, Verdict};
use crate::authority::Authority;
use crate::flows::capability::{Action, is_literal};
use crate::flows::rules::{CapabilitySet, Effect, Rule};
use crate::meta::Meta;
use crate::permission::{PermissionDenied, PermissionError};
use crate::store::{Explanation, View};

/// Why a command is answered as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandExplanation {
    /// The answer, and which text decided.
    pub verdict: Verdict,
    /// What the rules say of that text: of the segment that settles it for a line allowed by its segments, of the whole
    /// command where nothing decided.
    pub explanation: Explanation,
    /// Whether the ceiling holds the command. Outside it the answer of a check is no, whatever the rules say.
    pub inside_ceiling: bool,
}

impl Authority {
    /// Asks for a command by the policy of lines (kernel contract 6.2): a deny of anything that it visibly runs is a deny,
    /// every segment allowed is an allow, and else the whole command is asked for. `logical` is what a container transport
    /// stands for.
    ///
    /// The ceiling has to hold the whole command as it has to be allowed: for a line of several segments by a pattern that
    /// is literal, `*` or `**`, or segment by segment.
    pub async fn check_command(
        &self,
        command: &Command,
        logical: Option<&Command>,
        meta: Meta,
    ) -> Result<(), PermissionError> {
        self.check_plan(Plan::of(command, logical), meta).await
    }

    /// As [`check_command`](Self::check_command), of a plan.
    pub(crate) async fn check_plan(&self, plan: Plan, meta: Meta) -> Result<(), PermissionError> {
        let capability = plan.capability().clone();
        if !within(self.ceiling(), &plan) {
            // The order of a check stays that of the store: its bounds and its end come first.
            let answer =
                self.check_by(capability.clone(), meta, Some(Arc::new(|_: &View<'_>| Effect::Deny))).await;
            return Err(match answer {
                Ok(()) | Err(PermissionError::Denied(_) | PermissionError::Required(_)) => {
                    PermissionDenied::new(capability, PermissionDenied::OUTSIDE_CEILING).into()
                }
                Err(store @ PermissionError::Store(_)) => store,
            });
        }
        self.check_by(capability, meta, Some(Arc::new(move |rules: &View<'_>| judge(&plan, rules).effect)))
            .await
    }

    /// What [`check_command`](Self::check_command) would meet, without asking: never parks, writes nothing.
    pub fn decide_command(&self, command: &Command, logical: Option<&Command>) -> Effect {
        let plan = Plan::of(command, logical);
        if !within(self.ceiling(), &plan) {
            return Effect::Deny;
        }
        let capability = plan.capability().clone();
        self.decide_by(
            &capability,
            Some(&(Arc::new(move |rules: &View<'_>| judge(&plan, rules).effect) as _)),
        )
    }

    /// Which text of a command decides about it, and which rule about that text. A closed store plays no part.
    pub fn explain_command(&self, command: &Command, logical: Option<&Command>) -> CommandExplanation {
        let plan = Plan::of(command, logical);
        let inside_ceiling = within(self.ceiling(), &plan);
        self.store().look(|rules| {
            let verdict = judge(&plan, rules);
            let every = |_: &Rule| true;
            let whole = || match plan.is_narrow() {
                true => rules.explain_where(Action::ProcSpawn, plan.capability().resource(), &counts_narrow),
                false => rules.explain_where(Action::ProcSpawn, plan.capability().resource(), &every),
            };
            let explanation = match &verdict.by {
                By::Candidate(text) => rules.explain_where(Action::ProcSpawn, text, &every),
                By::Segments(segments) => match segments.first() {
                    Some(text) => rules.explain_where(Action::ProcSpawn, text, &every),
                    None => whole(),
                },
                By::Whole | By::Undecidable | By::Nothing => whole(),
            };
            CommandExplanation { verdict, explanation, inside_ceiling }
        })
    }
}

fn judge(plan: &Plan, rules: &View<'_>) -> Verdict {
    plan.judge(&mut |part| match part {
        Part::Whole { text, narrow: false } | Part::Text(text) => rules.effect(Action::ProcSpawn, text),
        Part::Whole { text, narrow: true } => rules.effect_where(Action::ProcSpawn, text, &counts_narrow),
    })
}

/// Whether a rule counts for a line that a prefix must not carry.
fn counts_narrow(rule: &Rule) -> bool {
    rule.effect != Effect::Allow || carries_lines(rule.pattern.resource())
}

fn carries_lines(resource: &str) -> bool {
    is_literal(resource) || resource == "*" || resource == "**"
}

/// Whether a ceiling holds a command.
fn within(ceiling: &CapabilitySet, plan: &Plan) -> bool {
    if !ceiling.allows(plan.capability()) {
        return false;
    }
    if !plan.is_narrow() {
        return true;
    }
    let whole = ceiling.groups().iter().all(|group| {
        group.iter().any(|pattern| carries_lines(pattern.resource()) && pattern.matches(plan.capability()))
    });
    whole
        || plan
            .segments()
            .is_some_and(|segments| segments.iter().all(|text| ceiling.allows_text(Action::ProcSpawn, text)))
}
