//! What a piece of code may ask for.

use std::fmt;
use std::sync::Arc;

use crate::flows::capability::{Action, ActionSel, Capability, CapabilityPattern};
use crate::flows::rules::{CapabilitySet, Effect};
use crate::meta::Meta;
use crate::permission::PermissionError;
use crate::store::{GrantStore, Judge};

/// A grant store seen through a ceiling (kernel contract 3). Authority is explicit: there is no ambient one, and the only
/// way it moves is down.
///
/// **Invariant:** nothing widens an authority. [`attenuate`](Self::attenuate) narrows its ceiling; what
/// [`admitting`](Self::admitting) adds answers an ask, never a deny and never a request outside the ceiling.
#[derive(Clone)]
pub struct Authority {
    store: Arc<GrantStore>,
    ceiling: Arc<CapabilitySet>,
    admitted: Arc<[Capability]>,
}

impl Authority {
    /// An unrestricted authority over a store; for the host alone.
    pub fn root(store: Arc<GrantStore>) -> Self {
        Authority { store, ceiling: Arc::new(CapabilitySet::unrestricted()), admitted: Arc::new([]) }
    }

    /// This authority, narrowed to what some pattern of the group matches. An empty group leaves nothing.
    pub fn attenuate(&self, group: &[CapabilityPattern]) -> Self {
        let ceiling = self.ceiling.intersect(&CapabilitySet::of(group.iter().cloned()));
        Authority { ceiling: Arc::new(ceiling), ..self.clone() }
    }

    /// This authority, narrowed to a flow's declared capabilities: the patterns of these texts, and `net:private:**` when
    /// one of them is of `net:get` or `net:post` (kernel contract 3). A text that is no pattern is an error.
    pub fn attenuate_declared(&self, capabilities: &[String]) -> Result<Self, InvalidCapability> {
        let mut group = Vec::with_capacity(capabilities.len() + 1);
        for text in capabilities {
            let pattern = CapabilityPattern::parse(text).ok_or_else(|| InvalidCapability(text.clone()))?;
            group.push(pattern);
        }
        let web = [ActionSel::Exact(Action::NetGet), ActionSel::Exact(Action::NetPost)];
        if group.iter().any(|pattern| web.contains(&pattern.action())) {
            group.extend(CapabilityPattern::new(Action::NetPrivate, "**"));
        }
        Ok(self.attenuate(&group))
    }

    /// This authority with capabilities that a person answered `once`, for the one call it serves. Where policy says ask
    /// they count as allowed; where it says deny, and outside the ceiling, they change nothing.
    pub fn admitting(&self, once: Vec<Capability>) -> Self {
        Authority { admitted: once.into(), ..self.clone() }
    }

    /// Asks for a capability. `Ok` means that the caller may act; `meta` is what a person who decides would see.
    ///
    /// The order is that of kernel contract 5: bounds of `meta`, closed store, ceiling, rules.
    pub async fn check(&self, cap: Capability, meta: Meta) -> Result<(), PermissionError> {
        self.check_by(cap, meta, None).await
    }

    /// What [`check`](Self::check) would meet, without asking: never parks, writes nothing. A closed store and a request
    /// outside the ceiling answer deny.
    pub fn decide(&self, cap: &Capability) -> Effect {
        self.decide_by(cap, None)
    }

    /// As [`check`](Self::check) for a request that is judged by more than its own text. The judge sees the rules alone:
    /// what else has to lie within the ceiling is its own business.
    pub(crate) async fn check_by(
        &self,
        cap: Capability,
        meta: Meta,
        judge: Option<Judge>,
    ) -> Result<(), PermissionError> {
        self.store.check_by(&self.ceiling, &self.admitted, cap, meta, judge).await
    }

    /// As [`decide`](Self::decide) for a request that is judged by more than its own text.
    pub(crate) fn decide_by(&self, cap: &Capability, judge: Option<&Judge>) -> Effect {
        match self.store.decide_by(&self.ceiling, cap, judge) {
            Effect::Ask if self.admitted.contains(cap) => Effect::Allow,
            effect => effect,
        }
    }

    /// The ceiling; what a grant for the whole run is bound to.
    pub fn ceiling(&self) -> &CapabilitySet {
        &self.ceiling
    }

    /// The store that decides.
    pub fn store(&self) -> &Arc<GrantStore> {
        &self.store
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("ceiling", &self.ceiling)
            .field("admitted", &self.admitted)
            .finish_non_exhaustive()
    }
}

/// A declared capability that is no capability pattern (kernel contract 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a capability pattern")]
pub struct InvalidCapability(
    /// The text as declared.
    pub String,
);
