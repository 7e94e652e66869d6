//! What a transcript decodes to (transcript contract 1).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One thing that happened in the session of another agent (transcript contract 1, *Entry*).
///
/// An entry is text to show. Nothing in it selects a person, a branch or a tool, and nothing in it is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Always `external`.
    pub origin: Origin,
    /// The agent whose format it was.
    pub agent_kind: AgentKind,
    /// The profile: `codex-rollout/<major.minor>` or `claude-code/<major.minor>` of the release that wrote the record.
    pub format_version: String,
    /// The agent's own id of the session. For display; it selects nothing.
    pub session_id: String,
    /// `<session_id>:<line>`; the second and later entries of one record add `#1`, `#2`, …
    pub source_id: String,
    /// Always `true`.
    pub read_only: ReadOnly,
    /// Number of the entry in its source, from 0, without gaps.
    pub seq: u64,
    /// The record's time in milliseconds since 1970; 0 when it is unreadable.
    pub at: i64,
    /// The turn the record names; never empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// `user` only for a prompt and a goal; everything else is the agent's.
    pub role: Role,
    /// What happened.
    pub part: Part,
}

/// The constant `"external"`: an entry comes from another agent's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Another agent's file.
    #[default]
    External,
}

/// The agent that wrote a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// Codex: `rollout-*.jsonl`.
    Codex,
    /// Claude Code: `<session>.jsonl`.
    ClaudeCode,
}

impl AgentKind {
    /// As it is written in JSON: `codex` or `claude-code`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::ClaudeCode => "claude-code",
        }
    }

    /// The family of its profiles: `codex-rollout` or `claude-code`, the part of `format_version` before the slash.
    #[must_use]
    pub const fn family(self) -> &'static str {
        match self {
            Self::Codex => "codex-rollout",
            Self::ClaudeCode => "claude-code",
        }
    }
}

/// The constant `true`: nothing that was decoded can be edited or answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOnly;

impl Serialize for ReadOnly {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for ReadOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            return Ok(Self);
        }
        Err(serde::de::Error::custom("read_only is always true"))
    }
}

/// Whose words or acts an entry shows. The caller maps `user` to the owner it has registered and `assistant` to the agent
/// it has registered; the transcript confers neither (transcript contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The owner of the session.
    User,
    /// The agent.
    Assistant,
}

/// What happened (transcript contract 1, the table of `part.type`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Part {
    /// What the owner typed.
    Prompt {
        /// Its words.
        text: String,
    },
    /// What the owner set as the goal.
    Goal {
        /// The goal in the owner's words.
        objective: String,
        /// What the agent says of it.
        status: String,
    },
    /// What the agent said.
    Text {
        /// Its words.
        text: String,
        /// Whether it is the answer that ends the turn.
        #[serde(rename = "final")]
        is_final: bool,
    },
    /// A summary of the model's reasoning that the agent wrote down.
    Reasoning {
        /// The summary.
        text: String,
    },
    /// A message whose body is ciphertext.
    Encrypted,
    /// A command or another tool that ran.
    Tool {
        /// The agent's id of the call; any string, perhaps empty.
        call_id: String,
        /// What ran.
        command: String,
        /// What it read, in a few words each.
        reads: Vec<String>,
        /// How it ended.
        status: ToolStatus,
        /// The exit code of its process, when the agent reports one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// What it wrote.
        output: String,
        /// How long it took, in milliseconds; 0 when that is unknown.
        duration_ms: u64,
    },
    /// Files that the agent reports as changed.
    Edit {
        /// The agent's id of the call.
        call_id: String,
        /// The files, in the order of the record.
        files: Vec<EditedFile>,
        /// Whether the agent says that it happened.
        outcome: EditOutcome,
    },
    /// A search of the web, or a page that was fetched.
    Search {
        /// The agent's id of the call.
        call_id: String,
        /// What was looked for.
        query: String,
    },
    /// Another agent that this one started, or something it did.
    Helper {
        /// The agent's id of the call.
        call_id: String,
        /// Name of the helper.
        agent: String,
        /// What it does, or what happened to it.
        activity: String,
    },
    /// The agent shortened its context here.
    Compaction,
    /// A failure that ended a turn or a request, or an interruption.
    Error {
        /// The agent's words for it.
        message: String,
    },
}

impl Part {
    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Prompt { text } | Self::Text { text, .. } | Self::Reasoning { text } => text.len(),
            Self::Error { message } => message.len(),
            Self::Goal { objective, status } => objective.len() + status.len(),
            Self::Tool { call_id, command, reads, output, .. } => {
                call_id.len() + command.len() + output.len() + reads.iter().map(String::len).sum::<usize>()
            }
            Self::Edit { call_id, files, .. } => {
                let file = |file: &EditedFile| {
                    file.path.len() + file.renamed_to.as_ref().map_or(0, String::len) + file.diff.len()
                };
                call_id.len() + files.iter().map(file).sum::<usize>()
            }
            Self::Search { call_id, query } => call_id.len() + query.len(),
            Self::Helper { call_id, agent, activity } => call_id.len() + agent.len() + activity.len(),
            Self::Encrypted | Self::Compaction => 0,
        }
    }
}

/// How a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// It succeeded.
    Ok,
    /// It failed or was declined.
    Error,
    /// It still ran when the record was written.
    Running,
}

/// Whether an edit happened, as the agent reports it; never an observed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EditOutcome {
    /// The agent says that the files were written.
    Applied,
    /// They were not.
    Failed,
}

/// What an edit did to one file (transcript contract 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditedFile {
    /// Its path, as the agent wrote it.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// Its new path, when it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<String>,
    /// The change as a unified diff without file headers; empty when the agent reports none.
    pub diff: String,
}

/// The kinds of change to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// Its text changed.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Renamed,
}
