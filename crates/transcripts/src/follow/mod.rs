//! Finding and tailing the files of live sessions (transcript contract 10). The standard library only.
//!
//! [`participants`] lists the agents of the caller that run on this machine and the one transcript each of them writes (Linux;
//! elsewhere the file is named). A [`Tail`] gives the records of one file as they are written, one at a time, and a
//! [`Checkpoint`] to go on from.
//!
//! **Invariant:** a file is read only beneath the folder that was named, and never through a link.
//!
//! **Invariant:** from a checkpoint, the same bytes give the same entries with the same `source_id`s; no record is lost or
//! given twice.
//!
//! **Invariant:** a refused record or a line over the limit stops its source for good, and says so once.

mod beneath;
mod checkpoint;
#[cfg(target_os = "linux")]
mod participant;
mod tail;

pub use checkpoint::{Checkpoint, Source};
#[cfg(target_os = "linux")]
pub use participant::{Participant, Places, participants};
pub use tail::{Step, Tail};
