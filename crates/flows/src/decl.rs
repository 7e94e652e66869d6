//! The declaration of a flow (kernel contract 7).

use serde_json::Value;

use crate::effects::{Effects, Mode, OnConflict, Tier, has_dot_segment};
use crate::schema::SchemaDoc;

/// What a flow is, without the code that runs it.
///
/// `capabilities` are patterns, the most the flow may ask for; `effects` is the registry-time worst case;
/// `effects_for` tells what one decoded call needs.
#[derive(Clone, Debug)]
pub struct FlowDecl {
    /// The registry name, by which a cell calls it.
    pub name: &'static str,
    /// What it does, 1 to 200 characters, an imperative verb first.
    pub description: &'static str,
    /// The document of its input.
    pub input: SchemaDoc,
    /// The document of its output.
    pub output: SchemaDoc,
    /// The worst case of all calls.
    pub effects: Effects,
    /// Capability patterns, the most the flow may ask for.
    pub capabilities: Vec<String>,
    /// What one decoded input needs. `narrow(effects, effects_for(input))` holds for every input but a hermetic one of
    /// `bash`, which states its own paths. An input that does not decode needs the worst case.
    pub effects_for: fn(&Value) -> Effects,
    /// The flows that a dynamic flow is composed of, in order.
    pub flows: &'static [&'static str],
    /// The model that a dynamic flow is pinned to; `None` leaves it to the host.
    pub model: Option<String>,
}

/// The capability patterns of the standard flows.
pub(crate) const FS_READ: &str = "fs:read:/**";
pub(crate) const FS_WRITE: &str = "fs:write:/**";
pub(crate) const NET_GET: &str = "net:get:*";
pub(crate) const NET_POST: &str = "net:post:*";
pub(crate) const PROC_SPAWN: &str = "proc:spawn:*";

/// Every path there is.
const EVERYWHERE: &str = "/**";

/// Effects of a standard flow: `serialize`, and each of reads and writes either everywhere or nowhere.
pub(crate) fn effects(tier: Tier, mode: Mode, reads: bool, writes: bool) -> Effects {
    let paths = |listed: bool| if listed { vec![EVERYWHERE.to_owned()] } else { Vec::new() };
    Effects::new(paths(reads), paths(writes), mode, OnConflict::Serialize, tier)
}

/// The declared effects with every path entry replaced by `entry`; the declared ones themselves when there is none.
pub(crate) fn narrowed(declared: Effects, entry: Option<String>) -> Effects {
    let Some(entry) = entry else { return declared };
    let paths = |declared: Vec<String>| if declared.is_empty() { declared } else { vec![entry.clone()] };
    Effects::new(
        paths(declared.reads),
        paths(declared.writes),
        declared.mode,
        declared.on_conflict,
        declared.tier,
    )
}

/// The member `name` of an input, when it is an absolute path without dot segments.
///
/// A relative path has no place before a workspace is known, and a dot segment is covered by nothing, so such a call
/// keeps the declared entry: wider than need be, never narrower.
pub(crate) fn absolute(input: &Value, name: &str) -> Option<String> {
    let path = input.get(name)?.as_str()?;
    (path.starts_with('/') && !has_dot_segment(path)).then(|| path.to_owned())
}

/// Everything below `root`: `/**` for `/`, else the root without trailing slashes and `/**`.
pub(crate) fn subtree(root: &str) -> String {
    format!("{}/**", root.trim_end_matches('/'))
}
