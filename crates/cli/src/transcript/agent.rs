//! Which agent wrote a transcript.

use std::fmt::Debug;

use flowcell_engines::harness::transcripts::{AgentKind, State};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::args::Agent;

/// The state of either format, as JSON too.
pub(crate) trait Format:
    State + serde::Serialize + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<S: State + serde::Serialize + DeserializeOwned + Debug + Send + Sync + 'static> Format for S {}

impl Agent {
    /// As the command line and the document of `decode` name it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
        }
    }

    /// As people name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Codex => "Codex",
            Self::Claude => "Claude Code",
        }
    }
}

impl From<AgentKind> for Agent {
    fn from(kind: AgentKind) -> Self {
        match kind {
            AgentKind::Codex => Self::Codex,
            AgentKind::ClaudeCode => Self::Claude,
        }
    }
}

/// The members that tell the formats apart. Records of Codex, and no others, have their content in `payload`.
#[derive(Deserialize)]
struct Shape {
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
    payload: Option<IgnoredAny>,
}

/// The agent that wrote the first record in these bytes; `None` when no line of them is one. A last line without its newline
/// counts when it is whole.
pub(crate) fn of_records(bytes: &[u8]) -> Option<Agent> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let text = String::from_utf8_lossy(line);
        let shape: Shape = serde_json::from_str(text.trim()).ok()?;
        shape.kind?;
        Some(if shape.payload.is_some() { Agent::Codex } else { Agent::Claude })
    })
}

/// The agent of a state: the session of Codex is an object, and only Claude Code always has `calls`.
pub(crate) fn of_state(state: &Value) -> Option<Agent> {
    let state = state.as_object()?;
    match state.get("session") {
        Some(Value::Object(_)) => return Some(Agent::Codex),
        Some(Value::String(_)) => return Some(Agent::Claude),
        _ => {}
    }
    if state.contains_key("goal") || !state.contains_key("calls") {
        Some(Agent::Codex)
    } else {
        Some(Agent::Claude)
    }
}

/// The agent whose files have this name.
pub(crate) fn of_name(path: &std::path::Path) -> Option<Agent> {
    let name = path.file_name()?.to_str()?;
    (name.starts_with("rollout-") && name.ends_with(".jsonl")).then_some(Agent::Codex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_tells() {
        assert_eq!(of_records(b"\n{\"type\":\"session_meta\",\"payload\":{}}\n"), Some(Agent::Codex));
        assert_eq!(of_records(b"{\"type\":\"mode\",\"mode\":\"x\"}"), Some(Agent::Claude));
        assert_eq!(of_records(b"no\n{\"payload\":1}\n{\"type\":\"user\"}\n"), Some(Agent::Claude));
        for nothing in [&b""[..], b"\n\n", b"[1]", b"{\"type\":", b"\xff\xfe"] {
            assert_eq!(of_records(nothing), None);
        }
    }

    #[test]
    fn a_state_tells() {
        use flowcell_engines::harness::transcripts::{ClaudeState, CodexState};
        assert_eq!(of_state(&serde_json::to_value(CodexState::default()).unwrap()), Some(Agent::Codex));
        assert_eq!(of_state(&serde_json::to_value(ClaudeState::default()).unwrap()), Some(Agent::Claude));
        assert_eq!(of_state(&serde_json::json!({"session": "s", "calls": {}})), Some(Agent::Claude));
        assert_eq!(of_state(&serde_json::json!({"session": {}, "calls": {}})), Some(Agent::Codex));
        assert_eq!(of_state(&Value::Null), None);
    }
}
