//! Claude Code: `<session>.jsonl` (transcript contract 4).

mod assistant;
mod attachment;
mod blocks;
mod settled;
mod state;
mod system;
mod user;
mod words;

use crate::emit::Emit;
use crate::framing::{Cut, Lines};
use crate::raw::{Member, Raw, record};
use crate::{AgentKind, Calls, Decoded, Entry, ErrorCode, Limits, TranscriptError, release, time};

pub use state::{ClaudeCall, ClaudeState};

/// The release lines whose transcripts are read.
pub const CLAUDE_RELEASES: &[&str] = &["2.1"];

/// Kinds of record that say nothing of the conversation, whatever else they carry.
const BOOKKEEPING: [&str; 18] = [
    "progress",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "tools-used",
    "mode",
    "permission-mode",
    "atis-latch",
    "last-prompt",
    "ai-title",
    "custom-title",
    "agent-name",
    "queue-operation",
    "file-history-snapshot",
    "file-history-delta",
    "cost-state",
    "pr-link",
    "bridge-session",
];

/// Decodes the next bytes of a Claude Code transcript (transcript contract 4), with the default [`Limits`].
///
/// Pass [`ClaudeState::default`] with the first chunk and the returned state with each next one. A chunk may end anywhere.
///
/// # Errors
///
/// The first record of the chunk that is refused (transcript contract 1, *Error*). No entry and no state comes back then.
pub fn decode_claude(state: &ClaudeState, chunk: &[u8]) -> Result<Decoded<ClaudeState>, TranscriptError> {
    decode_claude_with(&Limits::default(), state, chunk)
}

/// [`decode_claude`] with limits.
///
/// # Errors
///
/// As [`decode_claude`].
pub fn decode_claude_with(
    limits: &Limits,
    state: &ClaudeState,
    chunk: &[u8],
) -> Result<Decoded<ClaudeState>, TranscriptError> {
    let cut = Cut { pending: state.pending.clone(), tail: state.tail, line: state.line };
    let most = limits.record_bytes();
    let mut transcript = Transcript { state: state.without_text(), entries: Vec::new(), most };
    let Cut { pending, tail, line } = cut.feed(limits, chunk, &mut transcript)?;
    let Transcript { mut state, entries, .. } = transcript;
    (state.pending, state.tail, state.line) = (pending, tail, line);
    Ok(Decoded { entries, state })
}

struct Transcript {
    state: ClaudeState,
    entries: Vec<Entry>,
    /// Bytes of text that the entries of one record may hold.
    most: usize,
}

/// The members of a conversation record, beside those that every kind is judged by.
#[derive(Default)]
struct Record<'a> {
    message: Option<Raw<'a>>,
    attachment: Option<Raw<'a>>,
    subtype: Option<Raw<'a>>,
    origin: Option<Raw<'a>>,
    report: Option<Raw<'a>>,
    error: Option<Raw<'a>>,
    is_meta: bool,
    is_summary: bool,
    is_api_error: bool,
}

/// What a record may add to and settle.
struct Scene<'a, 'b> {
    emit: &'a mut Emit<'b>,
    calls: &'a mut Calls<ClaudeCall>,
    turn: Option<&'a str>,
    line: Line,
}

impl Lines for Transcript {
    fn record(&mut self, number: u64, text: &str) -> Result<(), TranscriptError> {
        let line = Line(number);
        let names = [
            "type",
            "version",
            "sessionId",
            "isSidechain",
            "promptId",
            "timestamp",
            "message",
            "attachment",
            "subtype",
            "origin",
            "toolUseResult",
            "error",
            "isMeta",
            "isCompactSummary",
            "isApiErrorMessage",
        ];
        let Some(
            [kind, version, session, sidechain, prompt, timestamp, message, attachment, subtype, rest @ ..],
        ) = record(text, names)
        else {
            return Err(line.malformed("is not a JSON record"));
        };
        let kind = kind.text();
        match &*kind {
            "" => return Err(line.malformed("names no record type")),
            kind if BOOKKEEPING.contains(&kind) => return Ok(()),
            "user" | "assistant" | "system" | "attachment" => {}
            other => return Err(line.unread("a record", other)),
        }
        let format_version = profile(line, &version.text())?;
        let ClaudeState { seq, session: known, turn, calls, .. } = &mut self.state;
        let session_id: &str = match known {
            Some(known) => known,
            None => {
                let named = session.filled().ok_or_else(|| line.malformed("names no session"))?;
                known.insert(named.into_owned())
            }
        };
        if sidechain.truthful() {
            return Ok(());
        }
        if kind == "user"
            && let Some(prompt) = prompt.filled()
            && turn.as_deref() != Some(&*prompt)
        {
            *turn = Some(prompt.into_owned());
        }
        let [origin, report, error, is_meta, is_summary, is_api_error] = rest;
        let record = Record {
            message,
            attachment,
            subtype,
            origin,
            report: report.filter(|report| report.is_object()),
            error,
            is_meta: is_meta.truthful(),
            is_summary: is_summary.truthful(),
            is_api_error: is_api_error.truthful(),
        };
        let mut emit = Emit {
            entries: &mut self.entries,
            seq,
            agent_kind: AgentKind::ClaudeCode,
            format_version: &format_version,
            session_id,
            line: number,
            at: time::millis(&timestamp.text()),
            count: 0,
            room: Some(self.most),
        };
        let mut scene = Scene { emit: &mut emit, calls, turn: turn.as_deref(), line };
        match &*kind {
            "user" => user::user(&mut scene, &record)?,
            "assistant" => assistant::assistant(&mut scene, &record)?,
            "system" => system::system(&mut scene, &record)?,
            _ => attachment::attachment(&mut scene, &record)?,
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

impl Scene<'_, '_> {
    fn entry(&mut self, part: crate::Part) {
        self.emit.entry(self.turn, part);
    }
}

/// The release gate; the profile it opens.
fn profile(line: Line, version: &str) -> Result<String, TranscriptError> {
    if version.is_empty() {
        return Err(TranscriptError {
            code: ErrorCode::MissingVersion,
            message: format!("Claude Code transcript line {} names no release.", line.0),
            line: line.0,
        });
    }
    match release::gate(version, CLAUDE_RELEASES) {
        Some(known) => Ok(format!("{}/{known}", AgentKind::ClaudeCode.family())),
        None => Err(TranscriptError {
            code: ErrorCode::UnsupportedVersion,
            message: format!(
                "Claude Code {version} wrote this transcript; supported: {}.",
                CLAUDE_RELEASES.join(", ")
            ),
            line: line.0,
        }),
    }
}

/// Whether the owner wrote it: no origin, or one whose kind is `human`.
fn by_the_owner(origin: Option<Raw<'_>>) -> bool {
    origin.is_none_or(Raw::is_null) || origin.member("kind").text() == "human"
}

/// The number of a line, for what is said of it (transcript contract 7).
#[derive(Clone, Copy)]
struct Line(u64);

impl Line {
    fn malformed(self, what: &str) -> TranscriptError {
        TranscriptError::malformed(self.0, format!("Claude Code transcript line {} {what}.", self.0))
    }

    /// `thing` on this line `fault`.
    fn faulty(self, thing: &str, fault: &str) -> TranscriptError {
        TranscriptError::malformed(self.0, format!("Claude Code {thing} on line {} {fault}.", self.0))
    }

    fn unread(self, thing: &str, kind: &str) -> TranscriptError {
        let message = format!("Claude Code wrote {thing} this release does not read: {kind}");
        TranscriptError::unsupported(self.0, message)
    }
}
