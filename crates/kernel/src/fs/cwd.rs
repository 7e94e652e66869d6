//! Directories that processes start in.

use std::os::fd::OwnedFd;

use rustix::fs::Mode;

use super::pin::WALK;
use super::{FileSystem, FsError};
use crate::flows::capability::Action;

/// A directory, open for a process to start in.
pub(crate) struct ProcessDir {
    pub(crate) fd: OwnedFd,
    /// Its resource: the path as a capability would name it.
    pub(crate) resource: String,
}

impl FileSystem {
    /// Opens a directory for a process to start in. It asks nothing (kernel contract 6.2); what the kernel refuses whatever
    /// is granted it refuses here too, and the descriptor reads no name of the directory.
    pub(crate) fn process_dir(&self, path: &str) -> Result<ProcessDir, FsError> {
        let target = self.target(Action::FsRead, path, true)?;
        self.expect_root(&target)?;
        let pins = &self.inner.pins;
        let place = pins.place(target.canonical()).map_err(|errno| target.parent_error(errno, "open"))?;
        let fd = place.open(WALK, Mode::empty()).map_err(|errno| target.entry_error(errno, "open"))?;
        Ok(ProcessDir { fd, resource: target.resolved.resource })
    }
}
