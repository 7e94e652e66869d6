//! Operations of the guarded file system that wait for nothing.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::kernel::fs::FsError;

/// The outcome of an operation that nobody is to be asked for. One that would wait for an answer is refused.
pub(crate) fn now<T>(future: impl Future<Output = Result<T, FsError>>) -> Result<T, FsError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(FsError::Changed("its permission was taken back during the call".to_owned())),
    }
}
