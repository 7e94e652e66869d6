//! Tool calls and their results (transcript contract 4.4).

use std::sync::Arc;

use super::{ClaudeCall, Scene, blocks};
use crate::diff::{replacement, whole};
use crate::label::{listed, searched};
use crate::path::basename;
use crate::raw::{Member, Raw};
use crate::{Change, EditOutcome, EditedFile, Json, Part, ToolStatus};

/// The entry of a call whose result is read; the call is released. `report` is the record's own account of it.
pub(super) fn result(
    scene: &mut Scene<'_, '_>,
    report: Option<Raw<'_>>,
    id: &str,
    content: Option<Raw<'_>>,
    failed: bool,
) {
    let call = scene
        .calls
        .release(id)
        .unwrap_or_else(|| Arc::new(ClaudeCall { name: String::new(), input: Json::empty_object(), at: 0 }));
    let input = call.input.raw();
    let text = |name: &str| input.get(name).text().into_owned();
    let call_id = id.to_owned();
    let part = match &*call.name {
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => Part::Edit {
            call_id,
            files: vec![file(&call, report)],
            outcome: if failed { EditOutcome::Failed } else { EditOutcome::Applied },
        },
        "WebSearch" => Part::Search { call_id, query: text("query") },
        "WebFetch" => Part::Search { call_id, query: text("url") },
        "Task" | "Agent" => {
            let agent = input.get("subagent_type").filled().unwrap_or("general-purpose".into());
            Part::Helper { call_id, agent: agent.into_owned(), activity: text("description") }
        }
        name => {
            let output = blocks::read(content);
            Part::Tool {
                call_id,
                command: command(&call),
                reads: reads(name, input),
                status: if failed { ToolStatus::Error } else { ToolStatus::Ok },
                exit_code: if failed { exit_code(&output) } else { None },
                output,
                duration_ms: took(call.at, scene.emit.at),
            }
        }
    };
    scene.entry(part);
}

/// Milliseconds from a call to its result; 0 when either time is not positive or the difference is not.
fn took(call: i64, result: i64) -> u64 {
    if call > 0 && result > call { result.abs_diff(call) } else { 0 }
}

/// What ran: a shell command as it is, any other tool by its name and input.
fn command(call: &ClaudeCall) -> String {
    let input = call.input.raw();
    if call.name == "Bash" {
        return input.get("command").text().into_owned();
    }
    if input.has_members() { format!("{} {}", call.name, call.input) } else { call.name.clone() }
}

fn reads(tool: &str, input: Raw<'_>) -> Vec<String> {
    let text = |name: &str| input.get(name).text();
    match tool {
        "Read" => vec![format!("Read {}", basename(&text("file_path")))],
        "Grep" | "Glob" => vec![searched(input.get("pattern").map(Raw::json).as_ref(), &text("path"))],
        "LS" => vec![listed(&text("path"))],
        _ => Vec::new(),
    }
}

/// The digits of `^Exit code (\d+)`.
fn exit_code(output: &str) -> Option<i64> {
    let rest = output.strip_prefix("Exit code ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

fn file(call: &ClaudeCall, report: Option<Raw<'_>>) -> EditedFile {
    let [file_path, notebook_path] = call.input.raw().pick(["file_path", "notebook_path"]);
    let path = file_path.filled().unwrap_or_else(|| notebook_path.text()).into_owned();
    let [kind, hunks] = report.fields(["type", "structuredPatch"]);
    let change =
        if call.name == "Write" && kind.text() == "create" { Change::Added } else { Change::Modified };
    let mut diff = reported(hunks);
    if diff.is_empty() {
        diff = requested(call);
    }
    EditedFile { path, change, renamed_to: None, diff }
}

/// The hunks that the agent reports.
fn reported(hunks: Option<Raw<'_>>) -> String {
    let mut diff = String::new();
    for hunk in hunks.each() {
        let [old_start, old_lines, new_start, new_lines, lines] =
            hunk.pick(["oldStart", "oldLines", "newStart", "newLines", "lines"]);
        let [old_start, old_lines, new_start, new_lines] =
            [old_start, old_lines, new_start, new_lines].map(|field| match field {
                Some(number) if number.number().is_some() => number.json().to_string(),
                _ => "0".to_owned(),
            });
        diff.push_str(&format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@\n"));
        for (number, line) in lines.each().enumerate() {
            if number > 0 {
                diff.push('\n');
            }
            diff.push_str(&line.string().unwrap_or_default());
        }
        diff.push('\n');
    }
    diff
}

/// The change that was asked for.
fn requested(call: &ClaudeCall) -> String {
    let input = call.input.raw();
    let replaced = |edit: Raw<'_>| {
        let [old, new] = edit.pick(["old_string", "new_string"]);
        replacement(&old.text(), &new.text())
    };
    match &*call.name {
        "Write" => whole(&input.get("content").text(), '+'),
        "NotebookEdit" => whole(&input.get("new_source").text(), '+'),
        "MultiEdit" => input.get("edits").each().map(replaced).collect(),
        _ => replaced(input),
    }
}
