//! The process service of `bash`, `test` and `shell_command` (host contract 5).
//!
//! [`run`] starts a command through the kernel's spawner, reads both of its streams within fixed memory, and comes back when
//! the command has ended, has run out of time or was interrupted, with nothing of it left.
//!
//! **End of a call.** When the command itself ends, what is in its pipes is read until both are at their end, or nothing
//! comes for [`SILENCE`], or [`DRAIN`] is over. Then its process group is killed, what left the group is swept, and the
//! pipes are closed: a background child never holds a call open and never outlives it.
//!
//! **Sweep.** Best first: a PID namespace (hermetic calls), a [`Supervisor`](crate::Supervisor) to which orphans fall, or
//! the process group alone, where the host has set up no supervisor.
//!
//! **Timeout and interruption.** SIGTERM for the group, [`GRACE`], SIGKILL, sweep: a call returns within its timeout and
//! 2.5 s. [`CallContext::cancel`](crate::kernel::CallContext) and its deadline interrupt, and so does dropping the future:
//! stopping and reaping then go on by themselves.
//!
//! Needs a Tokio runtime with IO and time.
//!
//! **Invariant:** what a command prints costs its capture bound and no more, whatever it prints.
//!
//! **Invariant:** when a call has returned, no process of it runs that the host's best sweep reaches, and none is a zombie.

mod buffer;
#[cfg(target_os = "linux")]
mod link;
mod private;
mod request;
mod run;
mod started;
mod streams;

pub use request::{Capture, Captured, Ended, ProcessError, ProcessOptions, ProcessRequest};
pub use run::{DRAIN, GRACE, SILENCE, run};
