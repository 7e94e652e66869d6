//! The host's end of the line to a supervisor.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::confine::supervisor::{FINISH, MAX_PLAN, TERMINATE};
use crate::confine::{Plan, Report, Supervisor};
use crate::kernel::process::SpawnRequest;

/// Bytes of one report at most.
const MAX_REPORT: usize = 65_536;

/// The line to the supervisor of one command. When it is dropped the supervisor ends everything.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Link {
    /// Puts the supervisor in front of a command.
    pub(super) fn attach(supervisor: &Supervisor, spawn: &mut SpawnRequest) -> io::Result<Self> {
        let (ours, theirs) = Pair::pair()?;
        ours.set_nonblocking(true)?;
        let theirs = OwnedFd::from(theirs);
        spawn.launcher = supervisor.launcher(theirs.as_raw_fd());
        spawn.inherit = vec![Arc::new(theirs)];
        Ok(Link { stream: UnixStream::from_std(ours)?, read: Vec::new() })
    }

    /// Tells what is to be done.
    pub(super) async fn tell(&mut self, plan: &Plan) -> io::Result<()> {
        let text = serde_json::to_vec(plan).map_err(io::Error::other)?;
        let length = u32::try_from(text.len()).ok().filter(|_| text.len() <= MAX_PLAN);
        let length = length.ok_or_else(|| io::Error::other("the declared paths are too many"))?;
        self.stream.write_all(&length.to_be_bytes()).await?;
        self.stream.write_all(&text).await
    }

    /// The next report; `None` when there are no more. A dropped future has lost nothing.
    pub(super) async fn report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.read) {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(io::Error::other);
            }
            if self.read.len() > MAX_REPORT {
                return Err(io::Error::other("the supervisor's report is too long"));
            }
            match self.stream.read_buf(&mut self.read).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends SIGTERM to the command's group.
    pub(super) fn terminate(&self) {
        // One byte on an empty line; a supervisor that is gone needs no word.
        let _ = self.stream.try_write(&[TERMINATE]);
    }

    /// Ends everything.
    pub(super) fn finish(&self) {
        let _ = self.stream.try_write(&[FINISH]);
    }
}
