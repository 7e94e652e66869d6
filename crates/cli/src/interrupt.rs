//! Ctrl-C and SIGTERM.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long what is interrupted has to end by itself: a run is let go of durably in that time. A run that is not is taken
/// over by whoever finds this process dead.
const GRACE: Duration = Duration::from_secs(2);

/// The signals that interrupt a command. From when they are made, they no longer end the process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens. Needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// When the host refuses a handler.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Awaits some work, or a signal. After one, `cancel` is cancelled and the work has a moment to end by itself; then
    /// it is dropped, and the answer is `None`.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> Option<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = self.next() => {}
        }
        cancel.cancel();
        tokio::select! {
            biased;
            done = &mut work => Some(done),
            () = self.next() => None,
            () = tokio::time::sleep(GRACE) => None,
        }
    }
}
