//! Resolved twins of configured rules (kernel contract 6.1).
//!
//! The kernel checks where a path leads. A deny or an ask that names a link would miss what the link leads to, so it gets
//! a second rule of the resolved text. An allow never does: what a link leads to may change.

use crate::flows::capability::{Action, ActionSel, CapabilityPattern};
use crate::flows::rules::{Effect, Rule};
use crate::fs::Roots;
use crate::permission::GrantStoreError;

/// A rule's twin, or `None` when it needs none; `warnings` get a line for each twin, and for a rule that cannot be
/// resolved.
pub(crate) fn twin(
    rule: &Rule,
    roots: &Roots,
    warnings: &mut Vec<String>,
) -> Result<Option<Rule>, GrantStoreError> {
    let action = match rule.pattern.action() {
        sel @ (ActionSel::Exact(Action::FsRead | Action::FsWrite) | ActionSel::Fs) => sel,
        ActionSel::All => ActionSel::Fs,
        ActionSel::Exact(_) | ActionSel::Net | ActionSel::Proc | ActionSel::Model => return Ok(None),
    };
    let resource = rule.pattern.resource();
    if rule.effect == Effect::Allow || !resource.starts_with('/') || resource.contains('\0') {
        return Ok(None);
    }
    // The whole text when it is literal, else everything before the component with the first wildcard.
    let (prefix, rest) = match resource.find(['*', '?']) {
        None => (resource, ""),
        Some(wild) => resource.split_at(resource[..wild].rfind('/').unwrap_or(0)),
    };
    if prefix.is_empty() || prefix == "/" {
        return Ok(None);
    }
    let resolved = match roots.resolve(&crate::fs::lexical("/", prefix), true) {
        Ok(resolved) => resolved.resource,
        Err(error) => {
            warnings.push(format!(
                "the rule {} {}: {prefix} does not resolve: {error}",
                rule.effect, rule.pattern
            ));
            return Ok(None);
        }
    };
    let twin =
        if resolved == "/" && !rest.is_empty() { rest.to_owned() } else { format!("{resolved}{rest}") };
    if twin == resource {
        return Ok(None);
    }
    let pattern = CapabilityPattern::new(action, twin).ok_or_else(|| {
        GrantStoreError::invalid(format!("the rule {} resolves to a text that is too long", rule.pattern))
    })?;
    warnings.push(format!(
        "the rule {} {} names a link: {} {pattern} is added",
        rule.effect, rule.pattern, rule.effect
    ));
    Ok(Some(Rule::new(rule.effect, pattern)))
}
