//! The parts of messages (transcript contract 3.2 and 3.3).

use super::Line;
use crate::TranscriptError;
use crate::raw::{Member, Raw};

/// What the parts of one kind of message may be.
pub(super) struct Shape {
    /// What a message is called in a refusal.
    pub(super) thing: &'static str,
    /// The kinds that hold text.
    pub(super) texts: &'static [&'static str],
    /// The kinds that are skipped.
    pub(super) skipped: &'static [&'static str],
    /// Whether a part may be ciphertext.
    pub(super) encrypted: bool,
}

/// What the owner typed.
pub(super) const PROMPT: Shape = Shape {
    thing: "message",
    texts: &["text"],
    skipped: &["image", "local_image", "skill", "mention"],
    encrypted: false,
};

/// What the agent said.
pub(super) const ANSWER: Shape = Shape { thing: "message", texts: &["Text"], skipped: &[], encrypted: true };

/// What one agent said to another.
pub(super) const LETTER: Shape =
    Shape { thing: "agent message", texts: &["input_text", "output_text"], skipped: &[], encrypted: true };

/// The body of a message.
pub(super) enum Body {
    /// Its texts.
    Texts(Vec<String>),
    /// At least one part is ciphertext; whatever is beside it is not shown.
    Encrypted,
}

impl Shape {
    /// Judges all parts of `content`, in order.
    pub(super) fn body(&self, line: Line, content: Option<Raw<'_>>) -> Result<Body, TranscriptError> {
        let Some(content) = content.filter(|content| content.is_list()) else {
            return Err(line.faulty(self.thing, "has no content list"));
        };
        let mut texts = Vec::new();
        let mut ciphertext = false;
        for part in content.items() {
            let [kind, text, encrypted] = part.pick(["type", "text", "encrypted_content"]);
            let kind = kind.text();
            match &*kind {
                "" => return Err(line.names_no("message part type")),
                kind if self.texts.contains(&kind) => {
                    let Some(text) = text.and_then(Raw::string) else {
                        return Err(line.faulty(self.thing, "has a text part without text"));
                    };
                    texts.push(text.into_owned());
                }
                "encrypted_content" if self.encrypted => {
                    if encrypted.and_then(Raw::string).is_none_or(|body| body.is_empty()) {
                        return Err(line.faulty("encrypted body", "is empty"));
                    }
                    ciphertext = true;
                }
                kind if self.skipped.contains(&kind) => {}
                other => return Err(line.unread("a message part", other)),
            }
        }
        Ok(if ciphertext { Body::Encrypted } else { Body::Texts(texts) })
    }
}

/// The texts that are not empty, joined by newlines.
pub(super) fn joined(mut texts: Vec<String>) -> String {
    texts.retain(|text| !text.is_empty());
    one(texts)
}

/// The texts, joined by newlines; a single one is not copied.
pub(super) fn one(mut texts: Vec<String>) -> String {
    match texts.len() {
        0 | 1 => texts.pop().unwrap_or_default(),
        _ => texts.join("\n"),
    }
}

/// The text of the parts of one type in a list that is only read, joined by newlines; none of them is judged.
pub(super) fn read(list: Option<Raw<'_>>, kind: &str) -> String {
    let mut texts = Vec::new();
    for part in list.each() {
        let [own, text] = part.pick(["type", "text"]);
        if own.text() == kind {
            texts.push(text.text().into_owned());
        }
    }
    one(texts)
}
