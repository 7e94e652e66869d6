//! `system` records (transcript contract 4.3).

use super::{Record, Scene};
use crate::raw::Member;
use crate::{Part, TranscriptError};

pub(super) fn system(scene: &mut Scene<'_, '_>, record: &Record<'_>) -> Result<(), TranscriptError> {
    match &*record.subtype.text() {
        "" => Err(scene.line.malformed("names no status line")),
        "compact_boundary" => {
            scene.entry(Part::Compaction);
            Ok(())
        }
        "turn_duration"
        | "informational"
        | "stop_hook_summary"
        | "away_summary"
        | "api_error"
        | "local_command"
        | "scheduled_task_fire"
        | "agents_killed"
        | "model_refusal_fallback" => Ok(()),
        other => Err(scene.line.unread("a status line", other)),
    }
}
