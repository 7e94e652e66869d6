//! `ls`: the entries of a directory (host contract 4).

use async_trait::async_trait;

use crate::failure::{Access, answer, check_count, check_path, failure};
use crate::kernel::flows::error::Code;
use crate::kernel::flows::ls::{self, Input, MAX_ENTRIES, Output};
use crate::kernel::fs::{FsError, Kind};
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::listing::{Entry, list};

/// Serves `ls`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LsHandler;

#[async_trait]
impl Handler for LsHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let path = input.path.as_str();
        check_path(path)?;
        check_count(path, "offset", input.offset)?;
        check_count(path, "limit", input.limit)?;
        // One permission serves it all, so that whoever grants it once is asked once.
        let opened = cx.files.open_dir(path).await.and_then(|dir| Ok((dir.entries()?, dir)));
        let (found, dir) = match opened {
            Ok(opened) => opened,
            Err(FsError::NotADirectory) => {
                return Err(answer(Code::NotADirectory, path, format!("{path} is not a directory.")));
            }
            Err(error) => return Err(failure(Access::Reading, path, error)),
        };
        let mut entries = Vec::with_capacity(found.len());
        for entry in found {
            if cx.cancel.is_cancelled() {
                return Err(HandlerError::Cancelled);
            }
            let directory = match entry.kind {
                // Whatever a second look at it would say, it is shown as a file.
                Kind::File | Kind::Other => false,
                Kind::Dir | Kind::Symlink => {
                    matches!(dir.stat_entry_following(&entry.name), Ok(Kind::Dir))
                }
            };
            entries.push(Entry::new(entry.name, directory));
        }
        let page = list(entries, input.offset.unwrap_or(1), input.limit.unwrap_or(MAX_ENTRIES))
            .map_err(|error| answer(Code::OffsetOutOfRange, path, error.to_string()))?;
        let entries = page.entries.into_iter().map(|entry| ls::Entry {
            name: entry.name,
            kind: if entry.directory { ls::Kind::Directory } else { ls::Kind::File },
        });
        Ok(Output {
            entries: entries.collect(),
            total: page.total,
            truncated: page.truncated,
            notice: page.notice,
        })
    }
}
