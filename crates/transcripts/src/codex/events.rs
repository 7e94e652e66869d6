//! `event_msg` records (transcript contract 3.1).

use super::{Line, items};
use crate::emit::Emit;
use crate::raw::{Member, Raw};
use crate::{Part, TranscriptError};

/// Judges one event by the type of its payload.
pub(super) fn event(
    emit: &mut Emit<'_>,
    latest_goal: &mut Option<String>,
    line: Line,
    payload: Option<Raw<'_>>,
) -> Result<(), TranscriptError> {
    let [kind, item, turn, goal, error, reason, message, started, completed] = payload.fields([
        "type",
        "item",
        "turn_id",
        "goal",
        "error",
        "reason",
        "message",
        "started_at_ms",
        "completed_at_ms",
    ]);
    let kind = kind.text();
    let failure = |what: Option<Raw<'_>>| {
        what.filled()
            .ok_or_else(|| line.faulty("failure", "has no message"))
            .map(|message| Part::Error { message: message.into_owned() })
    };
    let part = match &*kind {
        "" => return Err(line.names_no("event type")),
        "item_completed" => {
            let turn = turn.text();
            return items::item(emit, &turn, line, item, took(started, completed));
        }
        "thread_goal_updated" => {
            let [objective, status] = goal.fields(["objective", "status"]);
            let text = |member: Option<Raw<'_>>| member.and_then(|raw| raw.string().map(String::from));
            let (Some(objective), Some(status)) = (text(objective), text(status)) else {
                return Err(line.faulty("goal", "has no objective or status"));
            };
            let said = format!("{status}:{objective}");
            if latest_goal.as_ref() != Some(&said) {
                emit.entry(None, Part::Goal { objective, status });
                *latest_goal = Some(said);
            }
            return Ok(());
        }
        "task_complete" => match error {
            None => return Ok(()),
            Some(error) if error.is_null() => return Ok(()),
            Some(error) => failure(error.get("message"))?,
        },
        "turn_aborted" => failure(reason)?,
        "error" => failure(message)?,
        "task_started" | "token_count" | "thread_settings_applied" => return Ok(()),
        other => return Err(line.unread("an event", other)),
    };
    emit.entry(Some(&turn.text()), part);
    Ok(())
}

/// Whole milliseconds between two numbers, rounded down; 0 when one is none or the difference is not positive.
fn took(started: Option<Raw<'_>>, completed: Option<Raw<'_>>) -> u64 {
    let number = |member: Option<Raw<'_>>| member.and_then(Raw::number);
    let (Some(started), Some(completed)) = (number(started), number(completed)) else { return 0 };
    let took = (completed - started).floor();
    // A cast from f64 stops at the ends of the type.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = took as u64;
    whole
}
