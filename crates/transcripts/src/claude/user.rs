//! `user` records: the results of tools and what the owner wrote (transcript contract 4.1).

use super::blocks::{self, Content};
use super::{Record, Scene, by_the_owner, settled, words};
use crate::TranscriptError;
use crate::raw::Member;

pub(super) fn user(scene: &mut Scene<'_, '_>, record: &Record<'_>) -> Result<(), TranscriptError> {
    let line = scene.line;
    let said = match blocks::content(line, "user", record.message.member("content"))? {
        Content::Words(words) => words.into_owned(),
        Content::Blocks(items) => {
            let mut texts = Vec::new();
            // An entry made before a later block is refused goes nowhere: the call ends with its error.
            for block in items {
                let [kind, text, id, content, is_error] =
                    block.pick(["type", "text", "tool_use_id", "content", "is_error"]);
                match &*kind.text() {
                    "" => return Err(line.malformed("names no content block type")),
                    "text" => texts.push(blocks::text(line, text)?),
                    "image" | "document" => {}
                    "tool_result" => {
                        let Some(id) = id.filled() else {
                            return Err(line.faulty("tool result", "names no call"));
                        };
                        settled::result(scene, record.report, &id, content, is_error.truthful());
                        if scene.emit.room.is_none() {
                            // The record is refused: a report is not read once more for each of the other results.
                            return Ok(());
                        }
                    }
                    other => return Err(line.unread("a content block", other)),
                }
            }
            blocks::joined(texts)
        }
    };
    let shown = !record.is_meta && !record.is_summary && by_the_owner(record.origin);
    if shown && let Some(part) = words::part(said) {
        scene.entry(part);
    }
    Ok(())
}
