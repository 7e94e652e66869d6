//! Capability text, resource globs and matching (kernel contract 1 and 2).
//!
//! A capability is `action ":" resource`. The action is the first two colon-separated components and the resource is
//! everything after the second colon, colons and newlines included. Texts are compared as they stand: no Unicode
//! normalisation, no case folding. A *unit* is one UTF-16 code unit.

use std::cmp::Ordering;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical::utf16_cmp;

/// The most units a resource may have, in a capability and in a pattern alike.
pub const MAX_RESOURCE_UNITS: usize = 4096;

/// The most matching work: pattern units times resource units. A pair above it is undecidable.
pub const MAX_MATCH_WORK: usize = 4096 * 4096;

/// What a request asks to do. The list may grow; an action never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// `fs:read`: read the file or directory that the resource names.
    #[serde(rename = "fs:read")]
    FsRead,
    /// `fs:write`: create, change or remove what the resource names.
    #[serde(rename = "fs:write")]
    FsWrite,
    /// `net:get`: fetch from the host.
    #[serde(rename = "net:get")]
    NetGet,
    /// `net:post`: send to the host.
    #[serde(rename = "net:post")]
    NetPost,
    /// `net:private`: reach a destination that is not public. It supplements `net:get` or `net:post`.
    #[serde(rename = "net:private")]
    NetPrivate,
    /// `proc:spawn`: start the process that the resource spells.
    #[serde(rename = "proc:spawn")]
    ProcSpawn,
    /// `model:call`: ask the model that the resource names.
    #[serde(rename = "model:call")]
    ModelCall,
}

impl Action {
    /// Every action, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::FsRead,
        Self::FsWrite,
        Self::NetGet,
        Self::NetPost,
        Self::NetPrivate,
        Self::ProcSpawn,
        Self::ModelCall,
    ];

    /// The action's text, as in `fs:read`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FsRead => "fs:read",
            Self::FsWrite => "fs:write",
            Self::NetGet => "net:get",
            Self::NetPost => "net:post",
            Self::NetPrivate => "net:private",
            Self::ProcSpawn => "proc:spawn",
            Self::ModelCall => "model:call",
        }
    }

    /// The action that `text` names exactly, case included; an unknown action is never read as something near.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Which actions a pattern selects: one, a family, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionSel {
    /// One action.
    Exact(Action),
    /// `fs:*`.
    Fs,
    /// `net:*`, `net:private` included (but see [`crate::rules`] for allow rules).
    Net,
    /// `proc:*`.
    Proc,
    /// `model:*`.
    Model,
    /// `*`.
    All,
}

impl ActionSel {
    /// The selector's text, as in `fs:read`, `fs:*` or `*`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exact(action) => action.as_str(),
            Self::Fs => "fs:*",
            Self::Net => "net:*",
            Self::Proc => "proc:*",
            Self::Model => "model:*",
            Self::All => "*",
        }
    }

    /// The selector that `text` spells exactly; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "fs:*" => Some(Self::Fs),
            "net:*" => Some(Self::Net),
            "proc:*" => Some(Self::Proc),
            "model:*" => Some(Self::Model),
            "*" => Some(Self::All),
            _ => Action::parse(text).map(Self::Exact),
        }
    }

    /// Whether `action` is one of the selected actions.
    #[must_use]
    pub fn covers(self, action: Action) -> bool {
        match self {
            Self::Exact(own) => own == action,
            Self::Fs => matches!(action, Action::FsRead | Action::FsWrite),
            Self::Net => matches!(action, Action::NetGet | Action::NetPost | Action::NetPrivate),
            Self::Proc => action == Action::ProcSpawn,
            Self::Model => action == Action::ModelCall,
            Self::All => true,
        }
    }

    /// Whether every action of `other` is provably one of these: equal, `*`, or a family over itself or a member.
    ///
    /// `proc:spawn` is today the only member of `proc:*`, but it does not subsume the family: a family may grow.
    #[must_use]
    pub fn subsumes(self, other: Self) -> bool {
        self == other
            || match other {
                Self::Exact(action) => self.covers(action),
                Self::Fs | Self::Net | Self::Proc | Self::Model | Self::All => self == Self::All,
            }
    }

    /// Whether the two selectors have an action in common.
    #[must_use]
    pub fn may_overlap(self, other: Self) -> bool {
        Action::ALL.into_iter().any(|action| self.covers(action) && other.covers(action))
    }
}

impl From<Action> for ActionSel {
    fn from(action: Action) -> Self {
        Self::Exact(action)
    }
}

impl fmt::Display for ActionSel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Serialize for ActionSel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ActionSel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format_args!("unknown action {text:?}")))
    }
}

/// An exact request: one action on one resource, never a wildcard. A `*` in its resource is that character.
///
/// In JSON it is `{"action": "fs:read", "resource": "/ws/a"}`; its text ([`fmt::Display`]) is its durable identity.
///
/// ```
/// use flowcell_flows::capability::{Action, Capability};
/// let capability = Capability::parse("net:private:http://127.0.0.1:8080").ok_or("text")?;
/// assert_eq!(capability.action(), Action::NetPrivate);
/// assert_eq!(capability.resource(), "http://127.0.0.1:8080");
/// assert_eq!(capability.to_string(), "net:private:http://127.0.0.1:8080");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Capability {
    action: Action,
    resource: String,
}

impl Capability {
    /// A request for `action` on `resource`; `None` when the resource has more than [`MAX_RESOURCE_UNITS`] units.
    #[must_use]
    pub fn new(action: Action, resource: impl Into<String>) -> Option<Self> {
        let resource = resource.into();
        fits(&resource).then_some(Self { action, resource })
    }

    /// Reads `action:resource`. `None` for an unknown action, a missing resource (an empty one is legal) or a resource
    /// of more than [`MAX_RESOURCE_UNITS`] units.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (action, resource) = split(text)?;
        Self::new(Action::parse(action)?, resource)
    }

    /// What is asked.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// What it is asked on: for `fs` a canonical absolute path, for `net` a host or origin, for `proc` a rendered
    /// command, for `model` `host/model`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

/// What a rule or a ceiling names: a selector of actions and a glob of resources.
///
/// | In the glob | Selects |
/// | --- | --- |
/// | `*` or `**` | any run of units, `/` and newline included |
/// | `?` | exactly one unit |
/// | blank and `*` at the end | additionally the text before that blank |
/// | anything else | itself |
///
/// There is no escape, and the whole resource has to match.
///
/// ```
/// use flowcell_flows::capability::{Capability, CapabilityPattern};
/// let pattern = CapabilityPattern::parse("proc:spawn:npm *").ok_or("text")?;
/// for (line, selected) in [("npm", true), ("npm test", true), ("npmx", false)] {
///     let request = Capability::parse(&format!("proc:spawn:{line}")).ok_or("text")?;
///     assert_eq!(pattern.matches(&request), selected);
/// }
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CapabilityPattern {
    action: ActionSel,
    resource: String,
}

impl CapabilityPattern {
    /// A pattern of a selector and a glob; `None` when the glob has more than [`MAX_RESOURCE_UNITS`] units.
    #[must_use]
    pub fn new(action: impl Into<ActionSel>, resource: impl Into<String>) -> Option<Self> {
        let resource = resource.into();
        fits(&resource).then(|| Self { action: action.into(), resource })
    }

    /// Reads `selector:glob`. The bare text `*` means `*:**`; where the first component is `*` it is the whole
    /// selector, so `*:read:/ws` has the glob `read:/ws`. `None` as for [`Capability::parse`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Self::new(ActionSel::All, "**");
        }
        if let Some(resource) = text.strip_prefix("*:") {
            return Self::new(ActionSel::All, resource);
        }
        let (action, resource) = split(text)?;
        Self::new(ActionSel::parse(action)?, resource)
    }

    /// The pattern that selects exactly this request; `None` when the resource is not literal, because the grammar
    /// could only widen it. It is the only way to turn a request into a grant without asking a person for a pattern.
    #[must_use]
    pub fn exact(capability: &Capability) -> Option<Self> {
        if !is_literal(&capability.resource) {
            return None;
        }
        Self::new(capability.action, capability.resource.clone())
    }

    /// Which actions the pattern selects.
    #[must_use]
    pub fn action(&self) -> ActionSel {
        self.action
    }

    /// The glob over resources.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Whether the selector covers the action and the glob covers the resource. An undecidable pair is no match.
    #[must_use]
    pub fn matches(&self, capability: &Capability) -> bool {
        self.select(capability) == Selection::Selects
    }

    /// As [`Self::matches`], telling an undecidable pair apart.
    #[must_use]
    pub fn select(&self, capability: &Capability) -> Selection {
        self.select_text(capability.action, &capability.resource)
    }

    /// As [`Self::select`] for a resource text of any length, as a rendered command may be.
    #[must_use]
    pub fn select_text(&self, action: Action, resource: &str) -> Selection {
        if self.action.covers(action) { select_resource(&self.resource, resource) } else { Selection::Passes }
    }

    /// Whether this pattern provably covers everything that `other` selects. A false answer proves nothing.
    ///
    /// The proof is textual: refuse dot segments before asking. Resources: equal, or this one is `**`, or this one
    /// ends in `/**` and the other starts with the text before it and `/`.
    #[must_use]
    pub fn subsumes(&self, other: &Self) -> bool {
        self.action.subsumes(other.action) && resource_subsumes(&self.resource, &other.resource)
    }

    /// False only when no request can match both patterns, provably: no action in common, two different literals, or
    /// literal prefixes that disagree. Ask it before dropping a restriction.
    #[must_use]
    pub fn may_overlap(&self, other: &Self) -> bool {
        self.action.may_overlap(other.action) && resource_may_overlap(&self.resource, &other.resource)
    }
}

/// What a pattern says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The pattern selects the request.
    Selects,
    /// The pattern does not select it.
    Passes,
    /// The action is covered, and matching the resource would take more than [`MAX_MATCH_WORK`].
    Undecidable,
}

/// Whether a resource holds neither `*` nor `?`, so that as a glob it selects itself alone.
#[must_use]
pub fn is_literal(resource: &str) -> bool {
    !resource.contains(['*', '?'])
}

/// The number of UTF-16 code units of `text`.
#[must_use]
pub fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

fn fits(resource: &str) -> bool {
    // A unit takes one to three bytes of UTF-8, so most texts need no counting.
    resource.len() <= MAX_RESOURCE_UNITS
        || (resource.len() <= 3 * MAX_RESOURCE_UNITS && units(resource) <= MAX_RESOURCE_UNITS)
}

fn split(text: &str) -> Option<(&str, &str)> {
    let first = text.find(':')?;
    let second = first + 1 + text.get(first + 1..)?.find(':')?;
    Some((text.get(..second)?, text.get(second + 1..)?))
}

fn select_resource(glob: &str, resource: &str) -> Selection {
    match units(glob).checked_mul(units(resource)) {
        Some(work) if work <= MAX_MATCH_WORK => {}
        _ => return Selection::Undecidable,
    }
    let selected = if glob.is_ascii() && resource.is_ascii() {
        matches_with_tail(glob.as_bytes(), resource.as_bytes())
    } else {
        let glob: Vec<u16> = glob.encode_utf16().collect();
        let resource: Vec<u16> = resource.encode_utf16().collect();
        matches_with_tail(&glob, &resource)
    };
    if selected { Selection::Selects } else { Selection::Passes }
}

fn matches_with_tail<U: Copy + PartialEq + From<u8>>(glob: &[U], resource: &[U]) -> bool {
    if scan(glob, resource, || {}) {
        return true;
    }
    match glob {
        [head @ .., blank, star] if *blank == U::from(b' ') && *star == U::from(b'*') => {
            scan(head, resource, || {})
        }
        _ => false,
    }
}

/// The two-pointer scan: remember the latest `*`; on a mismatch advance its anchor by one unit. `step` is called once
/// a turn of the loop, so that tests can count the work.
fn scan<U: Copy + PartialEq + From<u8>>(glob: &[U], resource: &[U], mut step: impl FnMut()) -> bool {
    let (star, any) = (U::from(b'*'), U::from(b'?'));
    let (mut at, mut position) = (0, 0);
    // After the latest star: where the glob goes on, and where its run of units now ends.
    let mut anchor: Option<(usize, usize)> = None;
    while let Some(unit) = resource.get(position) {
        step();
        match glob.get(at) {
            Some(own) if *own == star => {
                at += 1;
                anchor = Some((at, position));
            }
            Some(own) if *own == any || own == unit => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((after, end)) = anchor.as_mut() else { return false };
                *end += 1;
                (at, position) = (*after, *end);
            }
        }
    }
    glob.get(at..).is_some_and(|rest| rest.iter().all(|own| *own == star))
}

fn resource_subsumes(wide: &str, narrow: &str) -> bool {
    wide == narrow
        || wide == "**"
        || wide.strip_suffix("**").is_some_and(|folder| folder.ends_with('/') && narrow.starts_with(folder))
}

fn resource_may_overlap(left: &str, right: &str) -> bool {
    if is_literal(left) && is_literal(right) {
        return left == right;
    }
    let (left, right) = (literal_prefix(left), literal_prefix(right));
    left.starts_with(right) || right.starts_with(left)
}

/// The text that every selected resource starts with. The blank of a closing blank and `*` is not part of it, because
/// such a glob also selects the text without the blank.
fn literal_prefix(glob: &str) -> &str {
    let end = glob.find(['*', '?']).unwrap_or(glob.len());
    let prefix = glob.get(..end).unwrap_or(glob);
    if glob.get(end..) == Some("*") { prefix.strip_suffix(' ').unwrap_or(prefix) } else { prefix }
}

fn compare(left: (&str, &str), right: (&str, &str)) -> Ordering {
    // No action and its colon begin another action and its colon, so the resources meet only where the actions are one.
    let actions = left.0.bytes().chain([b':']).cmp(right.0.bytes().chain([b':']));
    actions.then_with(|| utf16_cmp(left.1, right.1))
}

macro_rules! text_identity {
    ($type:ident) => {
        /// The one renderer; its text is the durable identity, and parsing it gives the same value back.
        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{}:{}", self.action.as_str(), self.resource)
            }
        }

        impl std::str::FromStr for $type {
            type Err = ParseCapabilityError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text).ok_or(ParseCapabilityError)
            }
        }

        /// The order of the rendered texts by UTF-16 code units.
        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                compare((self.action.as_str(), &self.resource), (other.action.as_str(), &other.resource))
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    };
}

text_identity!(Capability);
text_identity!(CapabilityPattern);

/// A text that is no capability or no pattern: an unknown action, a missing resource, or one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a capability: expected action:resource with a known action and at most {MAX_RESOURCE_UNITS} units"
)]
pub struct ParseCapabilityError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<A> {
    action: A,
    resource: String,
}

const TOO_LONG: &str = "resource is longer than 4096 UTF-16 units";

impl<'de> Deserialize<'de> for Capability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::<Action>::deserialize(deserializer)?;
        Self::new(wire.action, wire.resource).ok_or_else(|| D::Error::custom(TOO_LONG))
    }
}

impl<'de> Deserialize<'de> for CapabilityPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::<ActionSel>::deserialize(deserializer)?;
        Self::new(wire.action, wire.resource).ok_or_else(|| D::Error::custom(TOO_LONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of the loop that one scan takes.
    fn work(glob: &str, resource: &str) -> usize {
        let mut turns = 0;
        scan(glob.as_bytes(), resource.as_bytes(), || turns += 1);
        turns
    }

    #[test]
    fn the_scan_of_adversarial_pairs_stays_within_the_product_of_lengths() {
        let resource = "a".repeat(MAX_RESOURCE_UNITS);
        let half = "a".repeat(MAX_RESOURCE_UNITS / 2);
        let globs = [
            format!("*{}b", "a".repeat(MAX_RESOURCE_UNITS - 2)),
            format!("*{half}b"),
            format!("{}b", "*a".repeat(MAX_RESOURCE_UNITS / 2 - 1)),
            format!("{}b", "a*".repeat(MAX_RESOURCE_UNITS / 2 - 1)),
            format!("{}b", "*?".repeat(MAX_RESOURCE_UNITS / 2 - 1)),
            format!("{}b", "*".repeat(MAX_RESOURCE_UNITS - 1)),
        ];
        for glob in globs {
            let turns = work(&glob, &resource);
            // One more turn for each star met and each anchor moved.
            let most = glob.len() * resource.len() + glob.len() + resource.len();
            assert!(turns <= most, "{turns} turns for {:?}...", glob.get(..8));
            assert_eq!(select_resource(&glob, &resource), Selection::Passes);
        }
    }

    #[test]
    fn one_unit_over_the_work_limit_is_undecidable() {
        let glob = "*".repeat(MAX_RESOURCE_UNITS);
        assert_eq!(select_resource(&glob, &"a".repeat(MAX_RESOURCE_UNITS)), Selection::Selects);
        assert_eq!(select_resource(&glob, &"a".repeat(MAX_RESOURCE_UNITS + 1)), Selection::Undecidable);
    }
}
