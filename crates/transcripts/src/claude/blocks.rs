//! The content of a message (transcript contract 4).

use std::borrow::Cow;

use super::Line;
use crate::TranscriptError;
use crate::raw::{Items, Member, Raw};

/// `message.content`: a string is one text block.
pub(super) enum Content<'a> {
    /// The words.
    Words(Cow<'a, str>),
    /// The blocks, not judged yet.
    Blocks(Items<'a>),
}

/// The content of a record of the `kind` that is named in a refusal.
pub(super) fn content<'a>(
    line: Line,
    kind: &str,
    content: Option<Raw<'a>>,
) -> Result<Content<'a>, TranscriptError> {
    match content {
        Some(list) if list.is_list() => Ok(Content::Blocks(list.items())),
        other => match other.and_then(Raw::string) {
            Some(words) => Ok(Content::Words(words)),
            None => Err(line.faulty(&format!("{kind} record"), "has no content")),
        },
    }
}

/// The text of a `text` block.
pub(super) fn text<'a>(line: Line, text: Option<Raw<'a>>) -> Result<Cow<'a, str>, TranscriptError> {
    text.and_then(Raw::string).ok_or_else(|| line.faulty("text block", "has no text"))
}

/// The string, or its text blocks joined by newlines, or nothing; no block is judged.
pub(super) fn read(content: Option<Raw<'_>>) -> String {
    if let Some(words) = content.and_then(Raw::string) {
        return words.into_owned();
    }
    let mut texts = Vec::new();
    for block in content.each() {
        let [kind, text] = block.pick(["type", "text"]);
        if kind.text() == "text" {
            texts.push(text.text());
        }
    }
    joined(texts)
}

/// The texts, joined by newlines; a single one is not copied.
pub(super) fn joined(mut texts: Vec<Cow<'_, str>>) -> String {
    match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default().into_owned(),
        _ => texts.join("\n"),
    }
}
