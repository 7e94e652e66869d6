//! What a child prints.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

/// The reading end of a child's standard output or standard error. It reads as long as any process holds the other end:
/// what the child left behind may outlive it.
#[derive(Debug)]
pub struct ChildOutput {
    pipe: pipe::Receiver,
}

impl ChildOutput {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(ChildOutput { pipe: pipe::Receiver::from_owned_fd(fd)? })
    }

    /// Reads into `buffer`; 0 bytes are the end. A dropped future has read nothing.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        poll_fn(|context| Pin::new(&mut *self).poll_read(context, &mut buffer)).await?;
        Ok(buffer.filled().len())
    }

    /// Reads what is there without waiting: `WouldBlock` when there is nothing yet.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.try_read(buffer)
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().pipe).poll_read(context, buffer)
    }
}
