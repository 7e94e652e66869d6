//! Which patterns a grant may have (kernel contract 5).

use crate::flows::capability::{Action, ActionSel, Capability, CapabilityPattern, is_literal};
use crate::flows::effects::{Tier, has_dot_segment};

/// Whether a run or remembered grant may take this pattern for this request: it may not be wider than the request's tier
/// admits.
pub(crate) fn valid_for(pattern: &CapabilityPattern, cap: &Capability, tier: Tier, root: &str) -> bool {
    let resource = pattern.resource();
    if pattern.action() != ActionSel::Exact(cap.action()) || !pattern.matches(cap) {
        return false;
    }
    if !is_literal(resource) && resource == cap.resource() {
        return false;
    }
    cap.action() != Action::FsWrite
        || match tier {
            Tier::Irreversible => is_literal(resource),
            Tier::Sealed | Tier::Compensable => within_root(pattern, root),
        }
}

/// Whether an envelope may hold this pattern: an exact action, and no wildcard write outside the workspace.
pub(crate) fn valid_in_envelope(pattern: &CapabilityPattern, root: &str) -> bool {
    match pattern.action() {
        ActionSel::Exact(Action::FsWrite) => {
            is_literal(pattern.resource()) || (pattern.resource() != root && within_root(pattern, root))
        }
        ActionSel::Exact(_) => true,
        ActionSel::Fs | ActionSel::Net | ActionSel::Proc | ActionSel::Model | ActionSel::All => false,
    }
}

/// Whether the pattern is the root itself, or provably under `<root>/**`. Of a root with a wildcard in its name nothing is
/// provable: as a pattern that name selects other directories as well.
fn within_root(pattern: &CapabilityPattern, root: &str) -> bool {
    if !is_literal(root) {
        return false;
    }
    let below = format!("{}/**", root.trim_end_matches('/'));
    pattern.resource() == root
        || (!has_dot_segment(pattern.resource())
            && CapabilityPattern::new(pattern.action(), below).is_some_and(|below| below.subsumes(pattern)))
}
