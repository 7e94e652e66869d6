//! Texts in messages.

use std::borrow::Cow;

/// Characters of a caller's text that a message shows.
const MAX_NAMED: usize = 200;

/// The start of a text that is too long for a message.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_NAMED) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
