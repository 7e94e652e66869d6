//! Reading both streams at once.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::buffer::Buffer;
use super::request::{Capture, Captured};
use crate::kernel::process::{Child, ChildOutput};

/// Bytes read at once.
const CHUNK: usize = 32_768;

#[derive(Debug)]
struct Stream {
    /// None once it is at its end.
    pipe: Option<ChildOutput>,
    kept: Buffer,
    chunk: Box<[u8]>,
}

impl Stream {
    fn new(pipe: Option<ChildOutput>, capture: Capture) -> Self {
        Stream { pipe, kept: Buffer::new(capture), chunk: vec![0; CHUNK].into_boxed_slice() }
    }

    /// Reads once: whether something came. At the end of the stream this waits forever.
    async fn read(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        let count = pipe.read(&mut self.chunk).await?;
        if count == 0 {
            self.pipe = None;
            return Ok(false);
        }
        self.kept.push(&self.chunk[..count]);
        Ok(true)
    }
}

/// A child's two streams.
#[derive(Debug)]
pub(super) struct Streams {
    out: Stream,
    err: Stream,
}

impl Streams {
    pub(super) fn of(child: Option<&mut Child>, capture: Capture) -> Self {
        let (out, err) = child.map_or((None, None), |child| (child.take_stdout(), child.take_stderr()));
        Streams { out: Stream::new(out, capture), err: Stream::new(err, capture) }
    }

    fn at_end(&self) -> bool {
        self.out.pipe.is_none() && self.err.pipe.is_none()
    }

    /// Reads from whichever stream has something; waits forever when both are at their end. A dropped future has read
    /// nothing.
    async fn read(&mut self) -> io::Result<bool> {
        tokio::select! {
            read = self.out.read() => read,
            read = self.err.read() => read,
        }
    }

    /// Reads until `event` comes.
    pub(super) async fn until<T>(&mut self, event: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(event);
        loop {
            tokio::select! {
                outcome = &mut event => return Ok(outcome),
                read = self.read() => { read?; }
            }
        }
    }

    /// Reads until both streams are at their end, or nothing came for `silence`, or `limit` is over.
    pub(super) async fn drain(&mut self, silence: Duration, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        let mut quiet = Instant::now() + silence;
        while !self.at_end() {
            tokio::select! {
                biased;
                // Before reading, or a stream that never rests would never end.
                () = sleep_until(end) => return Ok(()),
                read = self.read() => {
                    if read? {
                        quiet = Instant::now() + silence;
                    }
                }
                () = sleep_until(quiet) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Closes the pipes: standard output, standard error.
    pub(super) fn finish(self) -> (Captured, Captured) {
        (self.out.kept.finish(), self.err.kept.finish())
    }
}
