//! `attachment` records (transcript contract 4.3).

use super::{Record, Scene, blocks, by_the_owner};
use crate::raw::Member;
use crate::{Part, TranscriptError};

/// Attachments that are context for the model.
const CONTEXT: [&str; 51] = [
    "agent_listing_delta",
    "auto_mode",
    "auto_mode_exit",
    "bash_output_audience_note",
    "batching_reminder_sent",
    "budget_usd",
    "command_permissions",
    "compact_file_reference",
    "credential_org",
    "date",
    "date_change",
    "deferred_tools_delta",
    "deferred_tools_record",
    "directory",
    "dynamic_skill",
    "edited_text_file",
    "environment",
    "file",
    "goal_status",
    "hook_additional_context",
    "hook_blocking_error",
    "hook_non_blocking_error",
    "hook_success",
    "hook_system_message",
    "inlined_image_paths",
    "instructions",
    "invoked_skills",
    "mcp_instructions_delta",
    "model",
    "nested_memory",
    "output_style",
    "output_style_instructions",
    "plan_file_reference",
    "plan_mode",
    "plan_mode_exit",
    "plan_mode_reentry",
    "prompt_snapshot",
    "read_truncation_notice",
    "remote_session_change",
    "session_context",
    "silent_turn_reminder",
    "skill_listing",
    "task_reminder",
    "task_status",
    "thinking_drop",
    "thinking_stripped",
    "todo_reminder",
    "total_tokens_reminder",
    "ultra_effort_enter",
    "ultra_effort_exit",
    "workflow_keyword_request",
];

pub(super) fn attachment(scene: &mut Scene<'_, '_>, record: &Record<'_>) -> Result<(), TranscriptError> {
    let [kind, mode, is_meta, origin, prompt] =
        record.attachment.fields(["type", "commandMode", "isMeta", "origin", "prompt"]);
    match &*kind.text() {
        "" => Err(scene.line.malformed("names no attachment type")),
        "queued_command" => {
            if mode.text() != "prompt" || is_meta.truthful() || !by_the_owner(origin) {
                return Ok(());
            }
            if !prompt.is_some_and(|prompt| prompt.is_list() || prompt.string().is_some()) {
                return Err(scene.line.faulty("queued prompt", "has no text"));
            }
            let text = blocks::read(prompt);
            if !text.is_empty() {
                scene.entry(Part::Prompt { text });
            }
            Ok(())
        }
        context if CONTEXT.contains(&context) => Ok(()),
        other => Err(scene.line.unread("an attachment", other)),
    }
}
