//! What a Codex decoder keeps between chunks (transcript contract 1, *State*).

use serde::{Deserialize, Serialize};

use crate::Calls;
use crate::pending::Pending;
use crate::tail::Tail;

/// The state of a Codex decoder: plain JSON, the caller's checkpoint. The default is the state before the first byte.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CodexState {
    pub(crate) pending: Pending,
    pub(crate) line: u64,
    pub(crate) seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<CodexSession>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<String>,
    #[serde(default, skip_serializing_if = "Calls::is_empty")]
    pub(crate) calls: Calls<CodexCall>,
    #[serde(default, skip_serializing_if = "Tail::is_empty")]
    pub(crate) tail: Tail,
}

/// What the session record says of the rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodexSession {
    /// Codex's id of the session.
    pub id: String,
    /// The profile, `codex-rollout/<major.minor>`.
    pub format_version: String,
    /// The folder of the session, or empty when the record names none.
    pub cwd: String,
}

/// A tool request that waits for its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodexCall {
    /// Name of the tool.
    pub name: String,
    /// What was asked of it: a script, a patch.
    pub input: String,
}

impl CodexState {
    /// The text after the last newline, which no one has judged yet.
    #[must_use]
    pub fn pending(&self) -> String {
        self.pending.with(str::to_owned)
    }

    /// How many bytes wait for the end of their line.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.pending.len() + self.tail.bytes().len()
    }

    /// Complete lines read, blank ones included.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Entries emitted.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// What the session record says, once it was read.
    #[must_use]
    pub const fn session(&self) -> Option<&CodexSession> {
        self.session.as_ref()
    }

    /// `<status>:<objective>` of the latest goal.
    #[must_use]
    pub fn goal(&self) -> Option<&str> {
        self.goal.as_deref()
    }

    /// The requests that wait for their outputs.
    #[must_use]
    pub const fn calls(&self) -> &Calls<CodexCall> {
        &self.calls
    }

    /// All of it but the text that waits.
    pub(crate) fn without_text(&self) -> Self {
        Self {
            pending: Pending::default(),
            tail: Tail::default(),
            line: self.line,
            seq: self.seq,
            session: self.session.clone(),
            goal: self.goal.clone(),
            calls: self.calls.clone(),
        }
    }
}
