//! `read`: one page of a text file (host contract 1).

use async_trait::async_trait;

use crate::failure::{Access, answer, check_count, check_path, failure, missing};
use crate::kernel::flows::error::Code;
use crate::kernel::flows::read::{DEFAULT_READ_LIMIT, Input, MAX_READ_FILE_BYTES, Output};
use crate::kernel::fs::{FsError, Kind};
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::lines::Text;
use crate::page::page;
use crate::suggest::suggest;

/// Serves `read`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadHandler;

#[async_trait]
impl Handler for ReadHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let path = input.path.as_str();
        check_path(path)?;
        check_count(path, "offset", input.offset)?;
        check_count(path, "limit", input.limit)?;
        let bytes = match load(cx, path).await {
            Ok(bytes) => bytes,
            Err(FsError::NotFound) => {
                let mut message = missing(path);
                if let Some(listing) = suggest(&cx.files, path).await {
                    message.push(' ');
                    message.push_str(&listing);
                }
                return Err(answer(Code::NotFound, path, message));
            }
            Err(FsError::IsADirectory) => {
                return Err(answer(Code::IsDirectory, path, format!("{path} is a directory; ls lists it.")));
            }
            Err(FsError::NotRegular) => {
                return Err(answer(
                    Code::NotFound,
                    path,
                    format!("{} It is no regular file.", missing(path)),
                ));
            }
            Err(error) => return Err(failure(Access::Reading, path, error)),
        };
        let Some(bytes) = bytes else {
            let message = format!(
                "{path} is over {MAX_READ_FILE_BYTES} bytes, the most that is read; grep searches larger files."
            );
            return Err(answer(Code::ResponseTooLarge, path, message));
        };
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        let text = Text::decode(bytes)
            .map_err(|error| answer(Code::BinaryFile, path, format!("{path} is no text file: {error}.")))?;
        let limit = input.limit.unwrap_or(DEFAULT_READ_LIMIT);
        let page = page(text.as_str(), input.offset.unwrap_or(1), limit)
            .map_err(|error| answer(Code::OffsetOutOfRange, path, error.to_string()))?;
        Ok(Output {
            content: page.content,
            start_line: page.start_line,
            end_line: page.end_line,
            total_lines: page.total_lines,
            truncated: page.truncated,
            notice: page.notice,
        })
    }
}

/// The bytes of a regular file; `None` for one that is over the limit. What claims to be is not read at all. One
/// permission serves it all, so that whoever grants it once is asked once.
async fn load(cx: &CallContext, path: &str) -> Result<Option<Vec<u8>>, FsError> {
    let file = match cx.files.open(path).await {
        // What may not be opened may still be seen to be no file.
        Err(refused @ FsError::AccessDenied { .. }) => {
            return Err(match cx.files.metadata(path).await.map(|stat| stat.kind) {
                Ok(Kind::Dir) => FsError::IsADirectory,
                Ok(Kind::Symlink | Kind::Other) => FsError::NotRegular,
                Ok(Kind::File) | Err(_) => refused,
            });
        }
        opened => opened?,
    };
    if file.opened().size > MAX_READ_FILE_BYTES {
        return Ok(None);
    }
    let bytes = file.read_to(MAX_READ_FILE_BYTES)?;
    Ok((bytes.len() as u64 <= MAX_READ_FILE_BYTES).then_some(bytes))
}
