//! A connection and the thread that it lives on.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use flowcell_harness::engine::EngineError;
use rusqlite::Connection;

use super::rows::Rows;
use crate::storage::{Hooks, Job, transact};

/// A thread that runs transactions one after the other, in the order they were handed in. Dropping it waits until what
/// was handed in has run and the connection is closed.
pub(crate) struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(
        name: &str,
        path: &Path,
        connection: Connection,
        hooks: Hooks,
    ) -> Result<Self, EngineError> {
        let (jobs, queue) = channel();
        let path = path.to_owned();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(connection, path, &hooks, &queue))
            .map_err(|error| {
                EngineError::failed(format!("the thread of a store could not be started: {error}"))
            })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) fn submit(&self, job: Job) {
        // A job that cannot be handed over is dropped, and whoever waits for it learns that the store is closed.
        if let Some(jobs) = &self.jobs {
            drop(jobs.send(job));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        // The last handle may go with a job, on the thread itself.
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the thread of a store panicked");
        }
    }
}

fn serve(connection: Connection, path: PathBuf, hooks: &Hooks, queue: &Receiver<Job>) {
    let mut rows = Rows::new(connection, path);
    while let Ok(Job { access, work, done }) = queue.recv() {
        done(transact(&mut rows, hooks, access, work));
    }
}
