//! Time as a host tells it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time (kernel contract 6.4). Libraries ask this port and never the machine.
pub trait Clock: Send + Sync {
    /// Monotonic time since an origin of the clock's own choosing. It never goes back; two clocks share no origin.
    fn now(&self) -> Duration;

    /// Wall time in milliseconds since the Unix epoch; negative before it.
    fn wall_ms(&self) -> i64;
}

/// The machine's clocks, for a host to pass in. Nothing in the workspace's libraries makes one by itself.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic scale starts now.
    pub fn new() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }
}
