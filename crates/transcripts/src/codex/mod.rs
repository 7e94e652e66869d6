//! Codex: `rollout-*.jsonl` (transcript contract 3).

mod events;
mod items;
mod message;
mod model;
mod reads;
mod report;
mod state;

use crate::emit::Emit;
use crate::framing::{Cut, Lines};
use crate::raw::{Member, Raw, record};
use crate::{AgentKind, Decoded, Entry, ErrorCode, Limits, TranscriptError, release, time};

pub use state::{CodexCall, CodexSession, CodexState};

/// The release lines whose rollouts are read, each proved by a live capture or by the source document.
pub const CODEX_RELEASES: &[&str] = &["0.159", "0.160", "0.171"];

/// Decodes the next bytes of a Codex rollout (transcript contract 3), with the default [`Limits`].
///
/// Pass [`CodexState::default`] with the first chunk and the returned state with each next one. A chunk may end anywhere.
///
/// # Errors
///
/// The first record of the chunk that is refused (transcript contract 1, *Error*). No entry and no state comes back then.
pub fn decode_codex(state: &CodexState, chunk: &[u8]) -> Result<Decoded<CodexState>, TranscriptError> {
    decode_codex_with(&Limits::default(), state, chunk)
}

/// [`decode_codex`] with limits.
///
/// # Errors
///
/// As [`decode_codex`].
pub fn decode_codex_with(
    limits: &Limits,
    state: &CodexState,
    chunk: &[u8],
) -> Result<Decoded<CodexState>, TranscriptError> {
    let cut = Cut { pending: state.pending.clone(), tail: state.tail, line: state.line };
    let most = limits.record_bytes();
    let mut rollout = Rollout { state: state.without_text(), entries: Vec::new(), most };
    let Cut { pending, tail, line } = cut.feed(limits, chunk, &mut rollout)?;
    let Rollout { mut state, entries, .. } = rollout;
    (state.pending, state.tail, state.line) = (pending, tail, line);
    Ok(Decoded { entries, state })
}

struct Rollout {
    state: CodexState,
    entries: Vec<Entry>,
    /// Bytes of text that the entries of one record may hold.
    most: usize,
}

impl Lines for Rollout {
    fn record(&mut self, number: u64, text: &str) -> Result<(), TranscriptError> {
        let line = Line(number);
        let Some([timestamp, kind, payload]) = record(text, ["timestamp", "type", "payload"]) else {
            return Err(line.malformed("is not a JSON record"));
        };
        let kind = kind.text();
        if kind == "session_meta" {
            return session(&mut self.state, line, payload);
        }
        let state = &mut self.state;
        let Some(known) = &state.session else {
            return Err(TranscriptError {
                code: ErrorCode::MissingVersion,
                message: format!("Codex rollout line {number} comes before its session record."),
                line: number,
            });
        };
        let mut emit = Emit {
            entries: &mut self.entries,
            seq: &mut state.seq,
            agent_kind: AgentKind::Codex,
            format_version: &known.format_version,
            session_id: &known.id,
            line: number,
            at: 0,
            count: 0,
            room: Some(self.most),
        };
        match &*kind {
            "" => return Err(line.names_no("record type")),
            "event_msg" => {
                emit.at = time::millis(&timestamp.text());
                events::event(&mut emit, &mut state.goal, line, payload)?;
            }
            "response_item" => {
                emit.at = time::millis(&timestamp.text());
                model::response_item(&mut emit, &mut state.calls, line, payload)?;
            }
            "turn_context"
            | "world_state"
            | "token_usage_record"
            | "compacted"
            | "inter_agent_communication_metadata" => {}
            other => return Err(line.unread("a record", other)),
        }
        if emit.room.is_none() {
            return Err(line.malformed(&format!("decodes to more than {} bytes", self.most)));
        }
        Ok(())
    }

    fn too_long(number: u64, line_bytes: usize) -> TranscriptError {
        Line(number).malformed(&format!("is longer than {line_bytes} bytes"))
    }
}

/// The session record: the release gate, and who the rollout is. The first identity stands: a forked rollout replays the
/// record of its parent.
fn session(state: &mut CodexState, line: Line, payload: Option<Raw<'_>>) -> Result<(), TranscriptError> {
    let [release, id, session_id, cwd] = payload.fields(["cli_version", "id", "session_id", "cwd"]);
    let release = release.text();
    let Some(known) = release::gate(&release, CODEX_RELEASES) else {
        let written = if release.is_empty() { "(no release)" } else { &release };
        return Err(TranscriptError {
            code: ErrorCode::UnsupportedVersion,
            message: format!("Codex {written} wrote this rollout; supported: {}.", CODEX_RELEASES.join(", ")),
            line: line.0,
        });
    };
    let Some(id) = id.filled().or_else(|| session_id.filled()) else {
        return Err(line.names_no("session"));
    };
    if state.session.as_ref().is_none_or(|first| first.id == id) {
        state.session = Some(CodexSession {
            id: id.into_owned(),
            format_version: format!("{}/{known}", AgentKind::Codex.family()),
            cwd: cwd.text().into_owned(),
        });
    }
    Ok(())
}

/// The number of a line, for what is said of it (transcript contract 7).
#[derive(Clone, Copy)]
struct Line(u64);

impl Line {
    fn malformed(self, what: &str) -> TranscriptError {
        TranscriptError::malformed(self.0, format!("Codex rollout line {} {what}.", self.0))
    }

    fn names_no(self, what: &str) -> TranscriptError {
        self.malformed(&format!("names no {what}"))
    }

    /// `thing` on this line `fault`.
    fn faulty(self, thing: &str, fault: &str) -> TranscriptError {
        TranscriptError::malformed(self.0, format!("Codex {thing} on line {} {fault}.", self.0))
    }

    fn unread(self, thing: &str, kind: &str) -> TranscriptError {
        let message = format!("Codex wrote {thing} this release does not read: {kind}");
        TranscriptError::unsupported(self.0, message)
    }
}
