//! `response_item` records: what the model said and was told (transcript contract 3.3).

use super::message::{self, Body, LETTER};
use super::{CodexCall, Line, report};
use crate::emit::Emit;
use crate::raw::{Member, Raw};
use crate::{Calls, EditOutcome, EditedFile, Part, ToolStatus, TranscriptError};

/// Judges one item by the type of its payload.
pub(super) fn response_item(
    emit: &mut Emit<'_>,
    calls: &mut Calls<CodexCall>,
    line: Line,
    payload: Option<Raw<'_>>,
) -> Result<(), TranscriptError> {
    let [kind, content, call_id, name, input, output, passthrough] = payload.fields([
        "type",
        "content",
        "call_id",
        "name",
        "input",
        "output",
        "internal_chat_message_metadata_passthrough",
    ]);
    let turn = || passthrough.member("turn_id").text();
    match &*kind.text() {
        "" => Err(line.names_no("response item type")),
        "message"
        | "reasoning"
        | "function_call"
        | "function_call_output"
        | "web_search_call"
        | "additional_tools" => Ok(()),
        "agent_message" => {
            let part = match LETTER.body(line, content)? {
                Body::Encrypted => Part::Encrypted,
                Body::Texts(texts) => Part::Text { text: message::joined(texts), is_final: false },
            };
            if !matches!(&part, Part::Text { text, .. } if text.is_empty()) {
                emit.entry(Some(&turn()), part);
            }
            Ok(())
        }
        "custom_tool_call" => {
            let (Some(id), Some(name), Some(input)) =
                (call_id.filled(), name.filled(), input.and_then(Raw::string))
            else {
                return Err(line.faulty("tool request", "names no call, tool or input"));
            };
            let call = CodexCall { name: name.into_owned(), input: input.into_owned() };
            if calls.hold(id.into_owned(), call) {
                Ok(())
            } else {
                Err(line.faulty("tool request", "repeats a held call"))
            }
        }
        "custom_tool_call_output" => {
            let report = match output {
                None => Some(String::new()),
                Some(output) if output.is_null() => Some(String::new()),
                Some(list) if list.is_list() => Some(message::read(output, "input_text")),
                Some(output) => output.string().map(String::from),
            };
            let (Some(id), Some(report)) = (call_id.filled(), report) else {
                return Err(line.faulty("tool output", "names no call or report"));
            };
            let held = calls.release(&id);
            if !report::is_done(&report) {
                let command = held.map(|call| call.input.clone()).unwrap_or_default();
                failure(emit, &turn(), &id, command, report);
            }
            Ok(())
        }
        other => Err(line.unread("a response item", other)),
    }
}

/// A failed script, and the edit it failed at.
fn failure(emit: &mut Emit<'_>, turn: &str, id: &str, command: String, report: String) {
    let path = report::failed_edit(&report).map(str::to_owned);
    emit.entry(
        Some(turn),
        Part::Tool {
            call_id: id.to_owned(),
            command,
            reads: Vec::new(),
            status: ToolStatus::Error,
            exit_code: None,
            output: report,
            duration_ms: 0,
        },
    );
    if let Some(path) = path {
        let file =
            EditedFile { path, change: crate::Change::Modified, renamed_to: None, diff: String::new() };
        let part = Part::Edit { call_id: id.to_owned(), files: vec![file], outcome: EditOutcome::Failed };
        emit.entry(Some(turn), part);
    }
}
