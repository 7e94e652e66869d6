//! One record, decoded for a host (transcript contract 10, *Endpoint*). Pure: a body in, a status and an answer out.

use std::io::{self, Write};

use flowcell_engines::harness::transcripts::{ClaudeState, CodexState, Decoded, Entry, Limits, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::agent::Format;

/// The longest record, in bytes.
pub(crate) const RECORD: usize = 1_048_576;
/// The largest body, in bytes: a record in which every byte is escaped, and a state that holds requests without a result.
pub(crate) const BODY: usize = 16_777_216;
/// The largest answer, in bytes. The ids of a record are said with each of its entries, and one report may be of many
/// results: without a bound a small record could ask for a very large answer.
const ANSWER: usize = 33_554_432;

/// An answer: the HTTP status and a JSON document.
#[derive(Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A failure that is not the decoder's.
    pub(crate) fn failure(status: u16, code: &str, message: &str) -> Self {
        let body = json!({"error": {"code": code, "message": message}});
        Self { status, body: body.to_string().into_bytes() }
    }

    pub(crate) fn too_large(what: &str, most: usize) -> Self {
        Self::failure(413, "too_large", &format!("{what} is larger than {most} bytes"))
    }

    fn wrong(message: &str) -> Self {
        Self::failure(400, "invalid_input", message)
    }
}

/// What tells which decoder the rest is for.
#[derive(Deserialize)]
struct Head {
    profile: String,
}

/// The body of a request. `session` is the registry's name for the session: it is asked for and selects nothing.
#[derive(Deserialize)]
struct Request<S> {
    owner: String,
    participant: String,
    #[serde(rename = "session")]
    _session: String,
    record: String,
    state: Option<S>,
}

/// An entry with the name that the caller's registry has for its role.
#[derive(Serialize)]
struct Authored<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    author: &'a str,
}

/// Answers one request. Nothing is kept.
pub(crate) fn normalize(body: &[u8]) -> Reply {
    let head: Head = match serde_json::from_slice(body) {
        Ok(head) => head,
        Err(error) => return Reply::wrong(&format!("the body does not decode: {error}")),
    };
    match head.profile.split_once('/') {
        Some(("codex-rollout", _)) => record::<CodexState>(body),
        Some(("claude-code", _)) => record::<ClaudeState>(body),
        _ => Reply::wrong("the family of the profile is neither codex-rollout nor claude-code"),
    }
}

fn record<S: Format>(body: &[u8]) -> Reply {
    let request: Request<S> = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return Reply::wrong(&format!("the body does not decode: {error}")),
    };
    let Request { owner, participant, record, state, .. } = request;
    if record.len() > RECORD {
        return Reply::too_large("the record", RECORD);
    }
    if record.contains('\n') {
        return Reply::wrong("the record is one line, without its newline");
    }
    let limits = Limits { line_bytes: RECORD };
    match state.unwrap_or_default().decode_with(&limits, format!("{record}\n").as_bytes()) {
        Ok(decoded) => answer(&decoded, &owner, &participant),
        Err(error) => Reply { status: 422, body: json!({"error": error}).to_string().into_bytes() },
    }
}

fn answer<S: Format>(decoded: &Decoded<S>, owner: &str, participant: &str) -> Reply {
    let mut body = Bounded(Vec::new());
    let written = body.write_all(b"{\"entries\":[").and_then(|()| {
        for (number, entry) in decoded.entries.iter().enumerate() {
            if number > 0 {
                body.write_all(b",")?;
            }
            let author = if entry.role == Role::User { owner } else { participant };
            serde_json::to_writer(&mut body, &Authored { entry, author })?;
        }
        body.write_all(b"],\"state\":")?;
        serde_json::to_writer(&mut body, &decoded.state)?;
        body.write_all(b"}")
    });
    match written {
        Ok(()) => Reply { status: 200, body: body.0 },
        Err(_) => Reply::too_large("the answer", ANSWER),
    }
}

/// Takes [`ANSWER`] bytes and no more.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > ANSWER {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn ask(body: &Value) -> (u16, Value) {
        let reply = normalize(body.to_string().as_bytes());
        (reply.status, serde_json::from_slice(&reply.body).unwrap())
    }

    fn body(record: &str) -> Value {
        json!({"profile": "claude-code/2.1", "owner": "ada", "participant": "agent-7", "session": "x", "record": record})
    }

    const PROMPT: &str =
        r#"{"type":"user","version":"2.1.0","sessionId":"s","author":"eve","message":{"content":"hello"}}"#;

    #[test]
    fn authors_are_the_callers() {
        let (status, answer) = ask(&body(PROMPT));
        assert_eq!((status, &answer["entries"][0]["author"]), (200, &json!("ada")));
        assert_eq!(answer["state"], json!({"pending": "", "line": 1, "seq": 1, "session": "s", "calls": {}}));
        let mut next = body(
            &PROMPT
                .replace("user", "assistant")
                .replace("\"hello\"", "[{\"type\":\"text\",\"text\":\"hi\"}]"),
        );
        next["state"] = answer["state"].clone();
        let (status, answer) = ask(&next);
        assert_eq!((status, &answer["entries"][0]["author"]), (200, &json!("agent-7")));
        assert_eq!(answer["entries"][0]["source_id"], json!("s:2"));
    }

    #[test]
    fn refusals_have_the_decoders_code_and_nothing_else() {
        let (status, answer) = ask(&body(r#"{"type":"new-kind","version":"2.1.0"}"#));
        let message = "Claude Code wrote a record this release does not read: new-kind";
        assert_eq!(status, 422);
        assert_eq!(answer, json!({"error": {"code": "unsupported_record", "message": message, "line": 1}}));
    }

    #[test]
    fn wrong_bodies() {
        for (wrong, status) in [
            (json!({}), 400),
            (json!([]), 400),
            (
                json!({"profile": "gemini/1", "owner": "", "participant": "", "session": "", "record": ""}),
                400,
            ),
            (json!({"profile": "claude-code/2.1", "owner": "", "participant": "", "session": ""}), 400),
            (
                json!({"profile": "claude-code/2.1", "owner": 1, "participant": "", "session": "", "record": ""}),
                400,
            ),
            (body(&format!("{PROMPT}\n{PROMPT}")), 400),
            (body(&"x".repeat(RECORD + 1)), 413),
        ] {
            let (answered, document) = ask(&wrong);
            assert_eq!(answered, status, "{document}");
            assert!(document["error"]["code"].is_string() && document["error"]["line"].is_null());
        }
        assert_eq!(ask(&body(&"x".repeat(RECORD))).0, 422);
        let mut wrong = body(PROMPT);
        wrong["state"] = json!({"line": "x"});
        assert_eq!(ask(&wrong).0, 400);
        assert_eq!(normalize(b"{").status, 400);
        assert_eq!(normalize(b"\xff").status, 400);
    }

    #[test]
    fn a_small_record_has_no_very_large_answer() {
        // The turn's id is as long as the half of the record and is said with each of its many entries.
        let results = r#"{"type":"tool_result","tool_use_id":"x"},"#.repeat(12_000);
        let record = format!(
            r#"{{"type":"user","version":"2.1.0","sessionId":"s","promptId":"{}","message":{{"content":[{}]}}}}"#,
            "p".repeat(500_000),
            results.trim_end_matches(',')
        );
        assert!(record.len() <= RECORD);
        let reply = normalize(body(&record).to_string().as_bytes());
        assert!([413, 422].contains(&reply.status) && reply.body.len() < 1_000, "{}", reply.status);
    }
}
