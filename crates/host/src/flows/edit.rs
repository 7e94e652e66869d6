//! `edit`: text replaced by exact bytes or by a range of lines (host contract 3).

use async_trait::async_trait;

use crate::anchor::{Anchor, AnchorError, apply};
use crate::failure::{Access, answer, check_count, check_path, failure};
use crate::kernel::flows::edit::{Input, Output};
use crate::kernel::flows::error::Code;
use crate::kernel::flows::read::MAX_READ_FILE_BYTES;
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::lines::Text;

/// Serves `edit`.
#[derive(Clone, Copy, Debug, Default)]
pub struct EditHandler;

#[async_trait]
impl Handler for EditHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let path = input.path.as_str();
        check_path(path)?;
        let anchor = anchor(&input).map_err(|message| answer(Code::InvalidInput, path, message))?;
        check_count(path, "startLine", input.start_line)?;
        let read = cx.files.read(path, MAX_READ_FILE_BYTES).await;
        let (bytes, seen) = read.map_err(|error| failure(Access::Reading, path, error))?;
        if bytes.len() as u64 > MAX_READ_FILE_BYTES {
            let message = format!("{path} is over {MAX_READ_FILE_BYTES} bytes, the most that is edited.");
            return Err(answer(Code::ResponseTooLarge, path, message));
        }
        let text = Text::decode(bytes)
            .map_err(|error| answer(Code::BinaryFile, path, format!("{path} is no text file: {error}.")))?;
        let limit = usize::try_from(MAX_READ_FILE_BYTES).unwrap_or(usize::MAX) - text.bom_bytes();
        let edited = apply(text.as_str(), anchor, &input.new_string, limit)
            .map_err(|error| answer(code(&error), path, error.to_string()))?;
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        let bytes = text.encode(&edited.text);
        cx.files
            .replace(path, &bytes, Some(seen), false)
            .await
            .map_err(|error| failure(Access::Writing, path, error))?;
        Ok(Output {
            replacements: edited.replacements,
            start_line: edited.hunk.start_line,
            end_line: edited.hunk.end_line,
            hunk: edited.hunk.text,
            path: input.path,
        })
    }
}

/// The anchor of an input, or what contradicts itself in it: the checks in their order, before any file is touched.
fn anchor(input: &Input) -> Result<Anchor<'_>, &'static str> {
    let lines = input.start_line.is_some() || input.end_line.is_some();
    match (input.old_string.as_deref(), input.start_line, input.end_line) {
        (Some(_), _, _) if lines => Err("oldString goes without startLine and endLine."),
        (None, None, None) => Err("An edit needs oldString, or startLine and endLine."),
        (None, None, _) | (None, _, None) => Err("startLine and endLine go together."),
        (Some(""), _, _) => Err("oldString is empty."),
        (Some(_), _, _) if input.expect.is_some() => {
            Err("expect goes with startLine and endLine, not with oldString.")
        }
        (Some(old), _, _) => Ok(Anchor::Text { old, all: input.replace_all == Some(true) }),
        (None, Some(_), Some(_)) if input.replace_all.is_some() => Err("replaceAll goes with oldString."),
        (None, Some(first), Some(last)) if last < first => Err("endLine is before startLine."),
        (None, Some(first), Some(last)) => Ok(Anchor::Lines { first, last, expect: input.expect.as_deref() }),
    }
}

fn code(error: &AnchorError) -> Code {
    match error {
        AnchorError::NotUnique { .. } | AnchorError::Backwards { .. } => Code::InvalidInput,
        AnchorError::NoMatch { .. } | AnchorError::Unexpected { .. } => Code::NoMatch,
        AnchorError::PastEnd { .. } => Code::OffsetOutOfRange,
        AnchorError::TooLarge { .. } => Code::ResponseTooLarge,
    }
}
