//! Rules, their evaluation, and ceilings (kernel contract 3).

use serde::{Deserialize, Deserializer, Serialize};

use crate::capability::{Action, ActionSel, Capability, CapabilityPattern, Selection};

/// What a rule says, and what an evaluation answers. Lower-case in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The request goes through.
    Allow,
    /// The request is refused.
    Deny,
    /// A person decides; the default where no rule selects.
    Ask,
}

impl Effect {
    /// The effect's text: `allow`, `deny` or `ask`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

/// One line of policy: an effect for what a pattern selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// What the rule says.
    pub effect: Effect,
    /// Which requests it says it of.
    pub pattern: CapabilityPattern,
}

impl Rule {
    /// A rule of its two parts.
    #[must_use]
    pub fn new(effect: Effect, pattern: CapabilityPattern) -> Self {
        Self { effect, pattern }
    }

    /// An allow rule.
    #[must_use]
    pub fn allow(pattern: CapabilityPattern) -> Self {
        Self::new(Effect::Allow, pattern)
    }

    /// A deny rule.
    #[must_use]
    pub fn deny(pattern: CapabilityPattern) -> Self {
        Self::new(Effect::Deny, pattern)
    }

    /// An ask rule.
    #[must_use]
    pub fn ask(pattern: CapabilityPattern) -> Self {
        Self::new(Effect::Ask, pattern)
    }

    /// What the rule's pattern says of a request, under the exception of `net:private`: an allow rule selects it only
    /// when its selector is exactly `net:private`, else it is skipped; deny and ask rules follow their selectors.
    #[must_use]
    pub fn select(&self, capability: &Capability) -> Selection {
        self.select_text(capability.action(), capability.resource())
    }

    /// As [`Self::select`] for a resource text of any length.
    #[must_use]
    pub fn select_text(&self, action: Action, resource: &str) -> Selection {
        let skipped = self.effect == Effect::Allow
            && action == Action::NetPrivate
            && self.pattern.action() != ActionSel::Exact(Action::NetPrivate);
        if skipped { Selection::Passes } else { self.pattern.select_text(action, resource) }
    }
}

/// Which rule decided, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The answer.
    pub effect: Effect,
    /// The ruleset and the rule in it that gave the answer; `None` when no rule selects the request.
    pub rule: Option<(usize, usize)>,
    /// Why that rule had the last word.
    pub reason: Reason,
}

/// Why a decision is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No rule selects the request: ask.
    Default,
    /// The last rule that selects the request.
    LastMatch,
    /// The configured policy alone ends in a deny, whatever follows it.
    Veto,
    /// Matching the rule would take more work than is allowed: deny.
    Undecidable,
}

/// Decides a request over rulesets, ruleset 0 being the configured policy.
///
/// The default is [`Effect::Ask`]. The last selecting rule of all rulesets in order wins, but when ruleset 0 reduced
/// alone ends in a deny the answer is deny (a veto), and so it is when any rule whose action covers the request is
/// undecidable.
///
/// ```
/// use flowcell_flows::capability::{Capability, CapabilityPattern};
/// use flowcell_flows::rules::{Effect, Rule, evaluate};
/// let pattern = |text| CapabilityPattern::parse(text).ok_or("pattern");
/// let configured = [Rule::deny(pattern("fs:read:/ws/k/**")?)];
/// let run = [Rule::allow(pattern("fs:read:**")?)];
/// let request = Capability::parse("fs:read:/ws/k/a").ok_or("request")?;
/// assert_eq!(evaluate(&[&configured, &run], &request), Effect::Deny);
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn evaluate(rulesets: &[&[Rule]], capability: &Capability) -> Effect {
    explain(rulesets, capability).effect
}

/// As [`evaluate`] for a resource text of any length, such as one segment of a command line.
#[must_use]
pub fn evaluate_text(rulesets: &[&[Rule]], action: Action, resource: &str) -> Effect {
    explain_text(rulesets, action, resource).effect
}

/// As [`evaluate`], naming the rule that decided.
#[must_use]
pub fn explain(rulesets: &[&[Rule]], capability: &Capability) -> Decision {
    explain_text(rulesets, capability.action(), capability.resource())
}

/// As [`explain`] for a resource text of any length.
#[must_use]
pub fn explain_text(rulesets: &[&[Rule]], action: Action, resource: &str) -> Decision {
    let mut last = Decision { effect: Effect::Ask, rule: None, reason: Reason::Default };
    let mut veto = None;
    for (set, rules) in rulesets.iter().enumerate() {
        for (index, rule) in rules.iter().enumerate() {
            let rule_at = Some((set, index));
            match rule.select_text(action, resource) {
                Selection::Passes => {}
                Selection::Selects => {
                    last = Decision { effect: rule.effect, rule: rule_at, reason: Reason::LastMatch };
                }
                Selection::Undecidable => {
                    return Decision { effect: Effect::Deny, rule: rule_at, reason: Reason::Undecidable };
                }
            }
        }
        if set == 0 && last.effect == Effect::Deny {
            veto = Some(last);
        }
    }
    match veto {
        // The last rule of all is the configured deny itself: an ordinary last match.
        Some(deny) if deny.rule == last.rule => last,
        Some(deny) => Decision { reason: Reason::Veto, ..deny },
        None => last,
    }
}

/// A ceiling: a conjunction of any-of groups. A request is inside when every group has a matching pattern.
///
/// No groups: unrestricted. One empty group: nothing is inside. Groups are sorted and deduplicated, and the set never
/// changes; [`Self::intersect`] is commutative, associative and idempotent. Unlike an allow rule, a ceiling written as
/// `net:*` or `*` does include `net:private`. In JSON it is an array of arrays of patterns.
///
/// ```
/// use flowcell_flows::capability::{Capability, CapabilityPattern};
/// use flowcell_flows::rules::CapabilitySet;
/// let reads = CapabilitySet::of(CapabilityPattern::parse("fs:read:/ws/**"));
/// let write = Capability::parse("fs:write:/ws/a").ok_or("request")?;
/// assert!(!reads.allows(&write) && CapabilitySet::unrestricted().allows(&write));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CapabilitySet {
    groups: Vec<Vec<CapabilityPattern>>,
}

impl CapabilitySet {
    /// The set that every request is inside of; the identity of [`Self::intersect`].
    #[must_use]
    pub fn unrestricted() -> Self {
        Self { groups: Vec::new() }
    }

    /// The set that nothing is inside of; it absorbs under [`Self::intersect`].
    #[must_use]
    pub fn none() -> Self {
        Self { groups: vec![Vec::new()] }
    }

    /// A set of one any-of group. An empty group is [`Self::none`].
    #[must_use]
    pub fn of(group: impl IntoIterator<Item = CapabilityPattern>) -> Self {
        Self::from_groups([group.into_iter().collect()])
    }

    /// A set of any-of groups, each of which a request has to meet.
    #[must_use]
    pub fn from_groups(groups: impl IntoIterator<Item = Vec<CapabilityPattern>>) -> Self {
        let mut groups: Vec<Vec<CapabilityPattern>> = groups.into_iter().collect();
        for group in &mut groups {
            group.sort();
            group.dedup();
            if group.is_empty() {
                return Self::none();
            }
        }
        groups.sort();
        groups.dedup();
        Self { groups }
    }

    /// What is inside both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self::from_groups(self.groups.iter().chain(&other.groups).cloned())
    }

    /// Whether a request is inside. A pattern that is undecidable for it does not match.
    #[must_use]
    pub fn allows(&self, capability: &Capability) -> bool {
        self.allows_text(capability.action(), capability.resource())
    }

    /// As [`Self::allows`] for a resource text of any length.
    #[must_use]
    pub fn allows_text(&self, action: Action, resource: &str) -> bool {
        self.groups.iter().all(|group| {
            group.iter().any(|pattern| pattern.select_text(action, resource) == Selection::Selects)
        })
    }

    /// Whether the set has no groups, so that everything is inside.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups, sorted, each sorted and without repeats.
    #[must_use]
    pub fn groups(&self) -> &[Vec<CapabilityPattern>] {
        &self.groups
    }
}

impl<'de> Deserialize<'de> for CapabilitySet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Vec<CapabilityPattern>>::deserialize(deserializer).map(Self::from_groups)
    }
}
