//! The content of a file of the guarded file system.

use crate::content::{Content, Unreadable};
use flowcell_kernel::{FsError, OpenFile};

/// Reads an open file from its start to its end.
#[derive(Debug)]
pub(crate) struct FileContent {
    file: OpenFile,
    offset: u64,
}

impl FileContent {
    pub(crate) fn new(file: OpenFile) -> Self {
        Self { file, offset: 0 }
    }
}

impl Content for FileContent {
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<bool, Unreadable> {
        let read = self.file.read_at(self.offset, most as u64).map_err(|error| unreadable(&error))?;
        self.offset += read.len() as u64;
        let at_end = read.len() < most;
        if into.is_empty() {
            *into = read;
        } else {
            into.extend_from_slice(&read);
        }
        Ok(at_end)
    }

    fn size(&self) -> u64 {
        self.file.opened().size
    }

    fn rewind(&mut self) -> bool {
        self.offset = 0;
        self.file.stat().is_ok_and(|now| now.same_version(&self.file.opened()))
    }
}

fn unreadable(error: &FsError) -> Unreadable {
    // A file that was opened is refused later only when its path does not name it any more.
    let gone = matches!(error, FsError::Permission(_) | FsError::NotFound | FsError::Changed(_));
    Unreadable { gone, reason: error.to_string() }
}
