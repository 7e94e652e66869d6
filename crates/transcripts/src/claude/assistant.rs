//! `assistant` records (transcript contract 4.2).

use super::blocks::{self, Content};
use super::{ClaudeCall, Record, Scene};
use crate::raw::{Member, Raw};
use crate::{Json, Part, TranscriptError};

pub(super) fn assistant(scene: &mut Scene<'_, '_>, record: &Record<'_>) -> Result<(), TranscriptError> {
    let line = scene.line;
    let [content, stop_reason] = record.message.fields(["content", "stop_reason"]);
    if record.is_api_error {
        let mut message = blocks::read(content);
        if message.is_empty() {
            message = record.error.text().into_owned();
        }
        scene.entry(Part::Error { message });
        return Ok(());
    }
    let is_final = stop_reason.text() == "end_turn";
    match blocks::content(line, "assistant", content)? {
        Content::Words(words) => say(scene, &words, is_final),
        Content::Blocks(items) => {
            for block in items {
                self::block(scene, block, is_final)?;
            }
        }
    }
    Ok(())
}

fn block(scene: &mut Scene<'_, '_>, block: Raw<'_>, is_final: bool) -> Result<(), TranscriptError> {
    let line = scene.line;
    let [kind, text, thinking, id, name, input] =
        block.pick(["type", "text", "thinking", "id", "name", "input"]);
    match &*kind.text() {
        "" => return Err(line.malformed("names no content block type")),
        "text" => say(scene, &blocks::text(line, text)?, is_final),
        "thinking" => {
            if let Some(thinking) = thinking.filled() {
                scene.entry(Part::Reasoning { text: thinking.into_owned() });
            }
        }
        "redacted_thinking" | "fallback" => {}
        "tool_use" => {
            let (Some(id), Some(name)) = (id.filled(), name.filled()) else {
                return Err(line.faulty("tool call", "names no call or tool"));
            };
            let input = input.filter(|input| !input.is_null()).map_or_else(Json::empty_object, Raw::json);
            let call = ClaudeCall { name: name.into_owned(), input, at: scene.emit.at };
            if !scene.calls.hold(id.into_owned(), call) {
                return Err(line.faulty("tool call", "repeats a held call"));
            }
        }
        other => return Err(line.unread("a content block", other)),
    }
    Ok(())
}

fn say(scene: &mut Scene<'_, '_>, text: &str, is_final: bool) {
    if !text.is_empty() {
        scene.entry(Part::Text { text: text.to_owned(), is_final });
    }
}
