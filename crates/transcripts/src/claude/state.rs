//! What a Claude Code decoder keeps between chunks (transcript contract 1, *State*).

use serde::{Deserialize, Serialize};

use crate::pending::Pending;
use crate::tail::Tail;
use crate::{Calls, Json};

/// The state of a Claude Code decoder: plain JSON, the caller's checkpoint. The default is the state before the first byte.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClaudeState {
    pub(crate) pending: Pending,
    pub(crate) line: u64,
    pub(crate) seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<String>,
    pub(crate) calls: Calls<ClaudeCall>,
    #[serde(default, skip_serializing_if = "Tail::is_empty")]
    pub(crate) tail: Tail,
}

/// A tool call that waits for its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaudeCall {
    /// Name of the tool.
    pub name: String,
    /// What was asked of it, members in source order.
    pub input: Json,
    /// When it was asked, in milliseconds since 1970; 0 when that is unreadable.
    pub at: i64,
}

impl ClaudeState {
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

    /// The session that the first conversation record named.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The turn of the latest record of the owner that named one.
    #[must_use]
    pub fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    /// The calls that wait for their results.
    #[must_use]
    pub const fn calls(&self) -> &Calls<ClaudeCall> {
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
            turn: self.turn.clone(),
            calls: self.calls.clone(),
        }
    }
}
