//! `write`: the whole content of a file (host contract 2).

use async_trait::async_trait;

use crate::failure::{Access, answer, check_path, failure};
use crate::kernel::flows::error::Code;
use crate::kernel::flows::write::{Input, Output};
use crate::kernel::fs::FsError;
use crate::kernel::{CallContext, Handler, HandlerError};

/// Serves `write`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteHandler;

#[async_trait]
impl Handler for WriteHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let Input { path, content } = input;
        check_path(&path)?;
        if path.ends_with('/') {
            return Err(answer(Code::CommandFailed, &path, format!("{path} names a directory.")));
        }
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        match cx.files.replace(&path, content.as_bytes(), None, true).await {
            Ok(replaced) => {
                Ok(Output { path, bytes_written: content.len() as u64, created: replaced.created })
            }
            Err(FsError::IsADirectory) => {
                Err(answer(Code::CommandFailed, &path, format!("{path} is a directory.")))
            }
            Err(error) => Err(failure(Access::Writing, &path, error)),
        }
    }
}
