//! Effects: what a flow reads and writes, and how lasting that is (kernel contract 4).

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::canonical::utf16_cmp;
use crate::capability::{Action, Capability};

/// Whether a call keeps to what it declares, or may do more than it can list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The declared reads and writes are all there is.
    Hermetic,
    /// The declared reads and writes are what is expected; there may be others.
    Expected,
}

/// What a runner does with two calls whose writes overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// One after the other.
    Serialize,
    /// Each in a lane of its own.
    Lane,
    /// The later call fails.
    Fail,
}

/// How lasting an effect is. The order is the rank: sealed, compensable, irreversible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Leaves nothing behind.
    Sealed,
    /// Leaves something that can be put back.
    Compensable,
    /// Leaves something that cannot be taken back.
    Irreversible,
}

impl Tier {
    /// The tier's text, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sealed => "sealed",
            Self::Compensable => "compensable",
            Self::Irreversible => "irreversible",
        }
    }

    /// Whether a call of this tier needs an idempotency key: only an irreversible one does.
    #[must_use]
    pub const fn needs_idempotency_key(self) -> bool {
        matches!(self, Self::Irreversible)
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What a flow, or one call of it, does to the world.
///
/// [`Effects::new`] and decoding sort `reads` and `writes` by UTF-16 code unit and drop repeats. A declared tier
/// speaks of the flow's lasting effect; [`tier_of`] is what a permission surface shows for one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effects {
    /// Path entries that are read; an entry may end in `/**` or `*` (see [`covers`]).
    pub reads: Vec<String>,
    /// Path entries that are written.
    pub writes: Vec<String>,
    /// Whether the lists are complete.
    pub mode: Mode,
    /// What happens to overlapping calls.
    pub on_conflict: OnConflict,
    /// How lasting the effect is.
    pub tier: Tier,
}

impl Effects {
    /// Effects of their parts, the path lists sorted by code unit and without repeats.
    #[must_use]
    pub fn new(
        reads: Vec<String>,
        writes: Vec<String>,
        mode: Mode,
        on_conflict: OnConflict,
        tier: Tier,
    ) -> Self {
        Self { reads: normalise(reads), writes: normalise(writes), mode, on_conflict, tier }
    }

    /// What an undeclared effect set is read as: expected, serialize, irreversible, no paths.
    #[must_use]
    pub fn undeclared() -> Self {
        Self::new(Vec::new(), Vec::new(), Mode::Expected, OnConflict::Serialize, Tier::Irreversible)
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::undeclared()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    reads: Vec<String>,
    writes: Vec<String>,
    mode: Mode,
    on_conflict: OnConflict,
    tier: Tier,
}

impl<'de> Deserialize<'de> for Effects {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        Ok(Self::new(wire.reads, wire.writes, wire.mode, wire.on_conflict, wire.tier))
    }
}

fn normalise(mut paths: Vec<String>) -> Vec<String> {
    paths.sort_by(|left, right| utf16_cmp(left, right));
    paths.dedup();
    paths
}

/// Why a step does not fit an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum EffectError {
    /// The step reads or writes paths that no entry of the envelope covers; sorted by code unit, without repeats.
    #[error("effect outside the envelope: {}", .paths.join(", "))]
    OutsideEnvelope {
        /// The uncovered paths.
        paths: Vec<String>,
    },
    /// The envelope is hermetic and the step is expected.
    #[error("an expected step does not fit a hermetic envelope")]
    ModeWidening,
    /// The step's tier ranks above the envelope's.
    #[error("a step of tier {step} does not fit an envelope of tier {envelope}")]
    TierWidening {
        /// The envelope's tier.
        envelope: Tier,
        /// The step's tier.
        step: Tier,
    },
}

impl EffectError {
    /// The stable code: `effect_outside_envelope`, `effect_mode_widening` or `effect_tier_widening`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OutsideEnvelope { .. } => "effect_outside_envelope",
            Self::ModeWidening => "effect_mode_widening",
            Self::TierWidening { .. } => "effect_tier_widening",
        }
    }
}

/// Whether an entry covers a path: they are equal, or the entry ends in `/**` and the path starts with the text up to
/// and including that `/`, or the entry ends in `*` and the path starts with the text before it.
///
/// A path with a `.` or `..` segment is covered by nothing.
///
/// ```
/// use flowcell_flows::effects::covers;
/// assert!(covers("/ws/**", "/ws/src/a.rs") && !covers("/ws/**", "/ws") && !covers("/ws/**", "/ws/../etc"));
/// ```
#[must_use]
pub fn covers(entry: &str, path: &str) -> bool {
    if has_dot_segment(path) {
        return false;
    }
    if entry == path {
        return true;
    }
    let under = |stem: Option<&str>| stem.is_some_and(|stem| path.starts_with(stem));
    under(entry.strip_suffix("**").filter(|stem| stem.ends_with('/'))) || under(entry.strip_suffix('*'))
}

/// Whether a path has a `.` or `..` segment.
#[must_use]
pub fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Checks that a step stays inside an envelope: its paths, then its mode, then its tier.
///
/// # Errors
///
/// The first of the three that does not fit, as an [`EffectError`].
pub fn narrow(envelope: &Effects, step: &Effects) -> Result<(), EffectError> {
    let uncovered = |entries: &[String], paths: &[String]| -> Vec<String> {
        paths.iter().filter(|path| !entries.iter().any(|entry| covers(entry, path))).cloned().collect()
    };
    let mut paths = uncovered(&envelope.reads, &step.reads);
    paths.extend(uncovered(&envelope.writes, &step.writes));
    if !paths.is_empty() {
        return Err(EffectError::OutsideEnvelope { paths: normalise(paths) });
    }
    if envelope.mode == Mode::Hermetic && step.mode == Mode::Expected {
        return Err(EffectError::ModeWidening);
    }
    if step.tier > envelope.tier {
        return Err(EffectError::TierWidening { envelope: envelope.tier, step: step.tier });
    }
    Ok(())
}

/// The writes that two effect sets share: the narrower of each pair of entries of which one covers the other, sorted
/// by code unit and without repeats. An empty answer means that no declared writes meet.
#[must_use]
pub fn overlaps(left: &Effects, right: &Effects) -> Vec<String> {
    let mut shared = Vec::new();
    for own in &left.writes {
        for other in &right.writes {
            if covers(own, other) {
                shared.push(other.clone());
            } else if covers(other, own) {
                shared.push(own.clone());
            }
        }
    }
    normalise(shared)
}

/// The tier of one request, for a permission surface.
///
/// `fs:read`, `net:get` and `model:call` are sealed; `fs:write` is compensable when its path lies lexically inside
/// the workspace root (the root itself included), else irreversible; `net:post`, `net:private` and `proc:spawn` are
/// irreversible. A root that normalises to `.` or to nothing has no inside.
#[must_use]
pub fn tier_of(capability: &Capability, workspace_root: &str) -> Tier {
    match capability.action() {
        Action::FsRead | Action::NetGet | Action::ModelCall => Tier::Sealed,
        Action::FsWrite if is_inside(capability.resource(), workspace_root) => Tier::Compensable,
        Action::FsWrite | Action::NetPost | Action::NetPrivate | Action::ProcSpawn => Tier::Irreversible,
    }
}

fn is_inside(path: &str, root: &str) -> bool {
    let (path, root) = (Lexical::of(path), Lexical::of(root));
    if root.segments.is_empty() && !root.absolute {
        return false;
    }
    // `..` that is left over at the front climbs out of wherever the path starts.
    path.absolute == root.absolute
        && path.segments.starts_with(&root.segments)
        && !path.segments.get(root.segments.len()..).is_some_and(|rest| rest.contains(&".."))
}

/// A path with `.`, repeated `/` and every `..` that has something to climb collapsed, by its text alone.
struct Lexical<'a> {
    absolute: bool,
    segments: Vec<&'a str>,
}

impl<'a> Lexical<'a> {
    fn of(path: &'a str) -> Self {
        let absolute = path.starts_with('/');
        let mut segments: Vec<&str> = Vec::new();
        for segment in path.split('/') {
            match segment {
                "" | "." => {}
                ".." => match segments.last() {
                    Some(last) if *last != ".." => {
                        segments.pop();
                    }
                    _ if absolute => {}
                    _ => segments.push(".."),
                },
                other => segments.push(other),
            }
        }
        Self { absolute, segments }
    }
}
