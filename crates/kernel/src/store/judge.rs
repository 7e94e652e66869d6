//! How a request is judged by more than one look at the rules, as a command line is by its parts.

use std::sync::Arc;

use super::ruleset::{Counts, Explanation, Rulesets};
use crate::flows::capability::Action;
use crate::flows::rules::{Effect, Rule};

/// The rules at one moment.
pub(crate) struct View<'a>(pub(super) &'a Rulesets);

impl View<'_> {
    /// What the rules say of a resource of any length.
    pub(crate) fn effect(&self, action: Action, resource: &str) -> Effect {
        self.0.evaluate_text(action, resource, None)
    }

    /// As [`Self::effect`], counting only the rules that `counts` answers true for.
    pub(crate) fn effect_where(&self, action: Action, resource: &str, counts: Counts<'_>) -> Effect {
        self.0.evaluate_text(action, resource, Some(counts))
    }

    /// As [`Self::effect_where`], naming the rule that decided.
    pub(crate) fn explain_where(
        &self,
        action: Action,
        resource: &str,
        counts: &dyn Fn(&Rule) -> bool,
    ) -> Explanation {
        self.0.explain_text(action, resource, Some(counts))
    }
}

/// Judges one request. It is asked when the request is made, again before it waits, and whenever a rule is added while it
/// waits; it must not call the store.
pub(crate) type Judge = Arc<dyn Fn(&View<'_>) -> Effect + Send + Sync>;
