//! Runs in one SQLite file (dependencies contract 5): write-ahead log, `synchronous=FULL`, one write transaction a
//! boundary, one writer connection on a thread of its own, a reader apart.
//!
//! The file has to be on a disk of this machine: its write-ahead index is memory that the processes share.

use std::path::Path;
use std::sync::Arc;

use flowcell_harness::engine::EngineError;

use crate::options::StoreOptions;
use crate::storage::{Access, Job, Storage};
use crate::store::Store;

mod file;
mod rows;
mod worker;

pub use file::{APPLICATION_ID, BUSY, SCHEMA_VERSION};
use worker::Worker;

/// Opens the store of a file, which is made with mode 0600 when it is not there. Its folder has to be there. Blocks
/// while it reads and writes the file.
///
/// # Errors
/// `incompatible_journal` for a file of a newer version; `engine_failed` for a path that is no regular file, no SQLite
/// database or the database of another program, and for a file that cannot be made, read or written. Such a file stays
/// as it is.
pub fn open(path: &Path, options: StoreOptions) -> Result<Store, EngineError> {
    let writer = file::open(path)?;
    let reader = file::open_reader(path)?;
    let storage = SqliteStorage {
        writer: Worker::start("flowcell-journal", path, writer, options.hooks.clone())?,
        reader: Worker::start("flowcell-reader", path, reader, options.hooks.clone())?,
    };
    Ok(Store::over(Arc::new(storage), options))
}

struct SqliteStorage {
    writer: Worker,
    reader: Worker,
}

impl Storage for SqliteStorage {
    fn submit(&self, job: Job) {
        match job.access {
            Access::Write => self.writer.submit(job),
            Access::Read => self.reader.submit(job),
        }
    }
}
