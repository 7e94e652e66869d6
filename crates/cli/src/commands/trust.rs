//! `trust`: the workspace's policy file as it is now.

use std::path::Path;

use serde_json::json;

use super::Session;
use crate::args::TrustArgs;
use crate::environment::read_text;
use crate::errors::{Exit, Failure};
use crate::policy::{MAX_POLICY_BYTES, PolicyFile};
use crate::render::line;

pub(super) fn run(session: &mut Session<'_, '_>, args: &TrustArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let pins = context.trust()?;
    let file = context.workspace_policy();
    let shown = file.display().to_string();
    let failed = |error: std::io::Error| {
        Failure::engine(format!("the pin of {shown} cannot be written: {error}"))
            .hint("Make the configuration folder writable, or set XDG_CONFIG_HOME.")
    };
    if args.revoke {
        let revoked = pins.revoke(&file).map_err(failed)?;
        let text = if revoked {
            format!("{shown} is not trusted any more\n")
        } else {
            format!("{shown} was not trusted\n")
        };
        session.print(&json!({"path": shown, "trusted": false, "revoked": revoked}), &text)?;
        return Ok(Exit::Done);
    }
    let text = read(&file)?;
    let policy = PolicyFile::parse(&shown, &text).map_err(|error| {
        Failure::usage("invalid_policy", error.to_string())
            .at(shown.clone())
            .hint("Correct the file before you trust it.")
    })?;
    let digest = pins.trust(&file, text.as_bytes()).map_err(failed)?;
    let said = format!("{shown} is trusted as it is now: sha256 {digest}\n{}", what_counts(&policy));
    session.print(&json!({"path": shown, "trusted": true, "sha256": digest}), &said)?;
    Ok(Exit::Done)
}

/// The rules and keys that a file brings.
fn what_counts(policy: &PolicyFile) -> String {
    let rules =
        policy.rules.iter().map(|rule| format!("  {:<6} {}\n", rule.effect.as_str(), line(&rule.pattern)));
    let idle = |member: &str| {
        let idle = policy.idle.iter().any(|idle| idle == member.trim_matches(['[', ']']));
        if idle { " (no effect in this version)" } else { "" }
    };
    let members = policy.members.iter().map(|member| format!("  {}{}\n", line(member), idle(member)));
    let counts: String = rules.chain(members).collect();
    if counts.is_empty() { "it says nothing\n".to_owned() } else { format!("what counts now:\n{counts}") }
}

fn read(file: &Path) -> Result<String, Failure> {
    read_text(file, MAX_POLICY_BYTES).map_err(|error| {
        Failure::unreadable("the workspace's policy file", file, error).hint(
            "`flowcell trust` pins the file .flowcell.toml of the workspace; name the workspace with -C DIR.",
        )
    })
}
