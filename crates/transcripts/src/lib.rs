//! Decoders for the session transcripts of Codex and Claude Code: the JSONL file that one of these agents writes while it
//! works becomes ordered, read-only entries that a person or a program can show.
//!
//! [`decode_codex`] and [`decode_claude`] are pure: bytes and a state in, entries and the next state out. Neither reads a
//! file, a clock, the environment, a network or a process, and nothing that was decoded is ever run.
//!
//! ```
//! use flowcell_transcripts::{CodexState, Part, decode_codex};
//!
//! let session = br#"{"timestamp":"2026-11-02T09:00:01Z","type":"session_meta","payload":{"id":"s1","cwd":"/ws","cli_version":"0.160.0"}}"#;
//! let prompt = br#"{"timestamp":"2026-11-02T09:00:02Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"List the files"}]}}}"#;
//!
//! // A chunk may end anywhere: what follows the last newline waits in the state.
//! let first = decode_codex(&CodexState::default(), session)?;
//! assert!(first.entries.is_empty());
//! let rest = [b"\n", &prompt[..], b"\n"].concat();
//! let second = decode_codex(&first.state, &rest)?;
//! assert_eq!(second.entries[0].part, Part::Prompt { text: "List the files".into() });
//! assert_eq!(second.entries[0].source_id, "s1:2");
//! # Ok::<(), flowcell_transcripts::TranscriptError>(())
//! ```
//!
//! **Invariant:** where the bytes are cut changes nothing: any chunks that join to the same bytes give the same entries, the
//! same final state and the same refusal.
//!
//! **Invariant:** an error returns no entry and no state; the caller still holds the state from before the chunk.
//!
//! **Invariant:** identity comes from the tables of the transcript contract alone. A name, a role or a session written inside
//! a record's text changes nothing but that text.
//!
//! **Invariant:** a kind of record that is not named is refused, never ignored.

mod calls;
mod claude;
mod codex;
mod decoded;
mod decoder;
mod diff;
mod emit;
mod entry;
mod error;
#[cfg(feature = "follow")]
pub mod follow;
mod framing;
mod json;
mod label;
mod limits;
mod path;
mod pending;
mod raw;
mod release;
mod scan;
mod tail;
mod time;

pub use calls::Calls;
pub use claude::{CLAUDE_RELEASES, ClaudeCall, ClaudeState, decode_claude, decode_claude_with};
pub use codex::{CODEX_RELEASES, CodexCall, CodexSession, CodexState, decode_codex, decode_codex_with};
pub use decoded::Decoded;
pub use decoder::{Decoder, State};
pub use entry::{
    AgentKind, Change, EditOutcome, EditedFile, Entry, Origin, Part, ReadOnly, Role, ToolStatus,
};
pub use error::{ErrorCode, TranscriptError};
pub use json::Json;
pub use limits::{Limits, MAX_NESTING};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
