//! Completed items (transcript contract 3.2).

use std::borrow::Cow;

use super::message::{self, ANSWER, Body, PROMPT};
use super::{Line, reads};
use crate::diff::whole;
use crate::emit::Emit;
use crate::json;
use crate::path::basename;
use crate::raw::{Member, Raw};
use crate::{Change, EditOutcome, EditedFile, Part, ToolStatus, TranscriptError};

/// Judges one completed item by its type; `took` is in milliseconds.
pub(super) fn item(
    emit: &mut Emit<'_>,
    turn: &str,
    line: Line,
    item: Option<Raw<'_>>,
    took: u64,
) -> Result<(), TranscriptError> {
    let [kind, id] = item.fields(["type", "id"]);
    let (Some(item), Some(kind)) = (item, kind.filled()) else {
        return Err(line.names_no("item type"));
    };
    let call_id = || id.text().into_owned();
    let part = match &*kind {
        "UserMessage" => match PROMPT.body(line, item.get("content"))? {
            Body::Texts(texts) => Part::Prompt { text: message::one(texts) },
            Body::Encrypted => Part::Encrypted,
        },
        "AgentMessage" => {
            let [content, phase] = item.pick(["content", "phase"]);
            match ANSWER.body(line, content)? {
                Body::Texts(texts) => {
                    Part::Text { text: message::joined(texts), is_final: phase.text() == "final_answer" }
                }
                Body::Encrypted => Part::Encrypted,
            }
        }
        "Reasoning" => {
            let summary = item.get("summary_text").each().filter_map(|text| text.string().map(String::from));
            let text = message::joined(summary.collect());
            if text.is_empty() {
                return Ok(());
            }
            Part::Reasoning { text }
        }
        "CommandExecution" => command(item, call_id(), took),
        "FileChange" => {
            let [status, changes] = item.pick(["status", "changes"]);
            let outcome =
                if status.text() == "completed" { EditOutcome::Applied } else { EditOutcome::Failed };
            let changes = changes.map(Raw::members).unwrap_or_default();
            let files = changes.into_iter().map(|(path, change)| file(path, change)).collect();
            Part::Edit { call_id: call_id(), files, outcome }
        }
        "WebSearch" => Part::Search { call_id: call_id(), query: query(item) },
        "Extension" => match &*item.get("kind").text() {
            "web.search" => Part::Search { call_id: call_id(), query: query(item) },
            "" => return Err(line.faulty("extension", "names no kind")),
            other => return Err(line.unread("an extension", other)),
        },
        "SubAgentActivity" => {
            let [path, activity] = item.pick(["agent_path", "kind"]);
            Part::Helper {
                call_id: call_id(),
                agent: helper(&path.text()),
                activity: activity.text().into_owned(),
            }
        }
        "CollabAgentToolCall" => {
            let [agents, tool] = item.pick(["receiver_agents", "tool"]);
            let agents: Vec<String> = agents
                .each()
                .map(|agent| match agent.string() {
                    Some(path) => helper(&path),
                    None => helper(&agent.get("agent_path").text()),
                })
                .collect();
            let agent = if agents.is_empty() { "helpers".to_owned() } else { agents.join(", ") };
            Part::Helper { call_id: call_id(), agent, activity: tool.text().into_owned() }
        }
        "McpToolCall" => mcp(item, call_id(), took),
        "FunctionCallOutput" => {
            let [namespace, name, output] = item.pick(["namespace", "name", "output"]);
            let output = match output.and_then(Raw::string) {
                Some(text) => text.into_owned(),
                None => message::read(output, "input_text"),
            };
            tool(call_id(), dotted(&[namespace.text(), name.text()]), ToolStatus::Ok, output, took)
        }
        "ImageView" => {
            let path = item.get("path").text();
            Part::Tool {
                call_id: call_id(),
                command: format!("view_image {path}"),
                reads: vec![format!("Read {}", basename(&path))],
                status: ToolStatus::Ok,
                exit_code: None,
                output: String::new(),
                duration_ms: took,
            }
        }
        "ContextCompaction" => Part::Compaction,
        other => return Err(line.unread("an item", other)),
    };
    emit.entry(Some(turn), part);
    Ok(())
}

fn tool(call_id: String, command: String, status: ToolStatus, output: String, duration_ms: u64) -> Part {
    Part::Tool { call_id, command, reads: Vec::new(), status, exit_code: None, output, duration_ms }
}

fn command(item: Raw<'_>, call_id: String, took: u64) -> Part {
    let [command, status, exit_code, aggregated, formatted, parsed] =
        item.pick(["command", "status", "exit_code", "aggregated_output", "formatted_output", "parsed_cmd"]);
    let exit_code = exit_code.and_then(Raw::integer);
    Part::Tool {
        call_id,
        command: command.each().last().text().into_owned(),
        reads: reads::labels(parsed),
        status: settled(&status.text(), exit_code),
        exit_code,
        output: aggregated.filled().unwrap_or_else(|| formatted.text()).into_owned(),
        duration_ms: took,
    }
}

fn settled(status: &str, exit_code: Option<i64>) -> ToolStatus {
    match status {
        "in_progress" | "inProgress" => ToolStatus::Running,
        "completed" if exit_code.is_none_or(|code| code == 0) => ToolStatus::Ok,
        _ => ToolStatus::Error,
    }
}

fn mcp(item: Raw<'_>, call_id: String, took: u64) -> Part {
    let [server, tool_name, arguments, status, result, error] =
        item.pick(["server", "tool", "arguments", "status", "result", "error"]);
    let mut command = dotted(&[server.text(), tool_name.text()]);
    if let Some(arguments) = arguments.filter(|arguments| arguments.has_members()) {
        command.push(' ');
        json::write(arguments, &mut command);
    }
    let [is_error, content] = result.fields(["isError", "content"]);
    let status = if is_error.truthful() { ToolStatus::Error } else { settled(&status.text(), None) };
    let mut output = message::read(content, "text");
    if output.is_empty() {
        output = error.member("message").text().into_owned();
    }
    tool(call_id, command, status, output, took)
}

/// The texts that are not empty, joined by dots.
fn dotted(texts: &[Cow<'_, str>]) -> String {
    let filled: Vec<&str> = texts.iter().map(|text| &**text).filter(|text| !text.is_empty()).collect();
    filled.join(".")
}

/// Name of a helper by its path.
fn helper(path: &str) -> String {
    if path.is_empty() { "helper".to_owned() } else { basename(path).to_owned() }
}

/// The first that is not empty of a search's own query and what its action names.
fn query(item: Raw<'_>) -> String {
    let [query, action] = item.pick(["query", "action"]);
    let [asked, pattern, url] = action.fields(["query", "pattern", "url"]);
    [query, asked, pattern, url].into_iter().find_map(Member::filled).unwrap_or_default().into_owned()
}

/// One member of `changes`.
fn file(path: String, change: Raw<'_>) -> EditedFile {
    let [kind, diff, content, moved] = change.pick(["type", "unified_diff", "content", "move_path"]);
    let kind = kind.text();
    let renamed_to = moved.and_then(|moved| moved.string().map(String::from));
    let diff = match diff.filled() {
        Some(diff) => diff.into_owned(),
        None => whole(&content.text(), if kind == "delete" { '-' } else { '+' }),
    };
    let change = match &*kind {
        _ if renamed_to.is_some() => Change::Renamed,
        "add" => Change::Added,
        "delete" => Change::Deleted,
        _ => Change::Modified,
    };
    EditedFile { path, change, renamed_to, diff }
}
