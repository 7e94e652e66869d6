//! A journal in a file: one JSON line a record.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GRANT_SOURCE, Persist, PersistError, PersistedEvent};

/// Bytes of one line of the file at most, its end included.
pub const MAX_RECORD_BYTES: usize = 1_048_576;
/// How every record begins; what a crash left of one is a piece of such a line.
const RECORD_START: &[u8] = br#"{"run":""#;
const LOCK_ATTEMPTS: u32 = 6_000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);
const READ_CHUNK: usize = 65_536;

/// A journal that only grows, in a file of one JSON line a record:
/// `{"run": .., "seq": .., "source": .., "type": .., "event": ..}`.
///
/// An append that answers `Ok` has been written and flushed to the disk with `fsync`; opening flushes what it finds, and the
/// directory that holds the file. A last line without an end is what a crash leaves: it counts for nothing and is cut off
/// before the next append. Anything else that is no record, a `seq` out of turn, and a file that shrank or was replaced
/// under its reader refuses every call with an error that names the line.
///
/// **Invariant:** any number of handles, in this process and in others, may append to one file: each append holds the file's
/// advisory lock (`flock`) from reading the last `seq` until its record is on the disk. A lock that is held for 30 seconds
/// is an error.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flowcell_kernel::{FilePersist, GrantEvent, POLICY_RUN, Persist};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("grants.jsonl");
/// let journal = FilePersist::open(&path).await?;
/// let event = GrantEvent::Revoked { seq: 1 };
/// let seq = journal.append(POLICY_RUN, event.event_type(), &event.encode()?).await?;
/// let again = FilePersist::open(&path).await?;
/// assert_eq!(again.page(POLICY_RUN, 0, 10).await?[0].seq, seq);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FilePersist {
    journal: Arc<Journal>,
}

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: File,
    seen: Mutex<Seen>,
}

/// What was read of the file.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes of whole records.
    bytes: u64,
    /// Lines of whole records.
    lines: u64,
    /// Where each run's records lie, in the order of their `seq`, which is their number in the run.
    runs: BTreeMap<String, Vec<Place>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    bytes: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    run: String,
    seq: u64,
    source: String,
    #[serde(rename = "type")]
    event_type: String,
    event: Value,
}

impl FilePersist {
    /// Opens the journal at a path, or creates it with mode 0600; its directory has to exist. A path that leads to no
    /// regular file, or is itself a link, and a file that is no journal are errors. Needs a Tokio runtime.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, PersistError> {
        let path = path.into();
        let journal = blocking(move || Journal::open(path)).await?;
        Ok(FilePersist { journal: Arc::new(journal) })
    }

    /// Where the journal lies.
    pub fn path(&self) -> &Path {
        &self.journal.path
    }

    async fn write(
        &self,
        run: &str,
        last: Option<u64>,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        let journal = self.journal.clone();
        let (run, event_type, event) = (run.to_owned(), event_type.to_owned(), event.clone());
        blocking(move || journal.append(run, last, event_type, event)).await
    }
}

#[async_trait]
impl Persist for FilePersist {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        let seq = self.write(run, None, event_type, event).await?;
        seq.ok_or_else(|| PersistError::new("the record was not appended"))
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let journal = self.journal.clone();
        let run = run.to_owned();
        blocking(move || journal.page(&run, after, limit)).await
    }

    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        self.write(run, Some(last), event_type, event).await
    }
}

impl Journal {
    fn open(path: PathBuf) -> Result<Self, PersistError> {
        let failed = |what: &str, error: &io::Error| {
            PersistError::new(format!("the journal {}: {what}: {error}", path.display()))
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(no_follow())
            .open(&path)
            .map_err(|error| failed("open", &error))?;
        let kind = file.metadata().map_err(|error| failed("look", &error))?;
        if !kind.is_file() {
            return Err(PersistError::new(format!("the journal {} is no regular file", path.display())));
        }
        // Whoever created it may have died before its name was on the disk.
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        File::open(parent)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| failed("flush the directory", &error))?;
        let journal = Journal { path, file, seen: Mutex::default() };
        journal.reading(|_seen| Ok(()))?;
        Ok(journal)
    }

    fn append(
        &self,
        run: String,
        last: Option<u64>,
        event_type: String,
        event: Value,
    ) -> Result<Option<u64>, PersistError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = Lock::take(self, true)?;
        let end = self.catch_up(&mut seen)?;
        let held = seen.runs.get(&run).map_or(0, Vec::len) as u64;
        if last.is_some_and(|last| held > last) {
            return Ok(None);
        }
        let seq = held + 1;
        let record = Record { run, seq, source: GRANT_SOURCE.to_owned(), event_type, event };
        let mut line = serde_json::to_vec(&record)
            .map_err(|error| self.error(format_args!("the record is not encodable: {error}")))?;
        line.push(b'\n');
        if line.len() > MAX_RECORD_BYTES {
            return Err(self.error(format_args!("a record of more than {MAX_RECORD_BYTES} bytes")));
        }
        if end > seen.bytes {
            self.file.set_len(seen.bytes).map_err(|error| self.failed("cut a torn line", &error))?;
        }
        if let Err(error) = self.put(&line, seen.bytes) {
            // Nothing of it may stay, lest the next record be glued to it. Should this fail too, the next append finds a
            // torn line and cuts it, or a whole record, which then counts.
            drop(self.file.set_len(seen.bytes).and_then(|()| self.file.sync_all()));
            return Err(self.failed("write", &error));
        }
        let place = Place { offset: seen.bytes, bytes: line.len() };
        seen.runs.entry(record.run).or_default().push(place);
        seen.bytes += line.len() as u64;
        seen.lines += 1;
        Ok(Some(seq))
    }

    fn put(&self, line: &[u8], at: u64) -> io::Result<()> {
        let mut writer = At { file: &self.file, at };
        writer.write_all(line)?;
        self.file.sync_all()
    }

    fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        self.reading(|seen| {
            let places = seen.runs.get(run).map_or(&[][..], Vec::as_slice);
            let start = usize::try_from(after).unwrap_or(usize::MAX).min(places.len());
            let mut events = Vec::new();
            for place in places[start..].iter().take(limit) {
                let mut line = vec![0; place.bytes];
                self.file
                    .read_exact_at(&mut line, place.offset)
                    .map_err(|error| self.failed("read", &error))?;
                let record: Record = serde_json::from_slice(&line).map_err(|error| {
                    self.error(format_args!("a record changed under its reader: {error}"))
                })?;
                let Record { seq, source, event_type, event, .. } = record;
                events.push(PersistedEvent { seq, source, event_type, event });
            }
            Ok(events)
        })
    }

    fn reading<T>(&self, read: impl FnOnce(&Seen) -> Result<T, PersistError>) -> Result<T, PersistError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = Lock::take(self, false)?;
        let before = seen.bytes;
        self.catch_up(&mut seen)?;
        if seen.bytes > before {
            // Its writer may have died between the write and the flush; what is given out has to be on the disk.
            self.file.sync_all().map_err(|error| self.failed("flush", &error))?;
        }
        read(&seen)
    }

    /// Reads the records that were appended since, and gives the length of the file, a torn last line included.
    fn catch_up(&self, seen: &mut Seen) -> Result<u64, PersistError> {
        let own = self.file.metadata().map_err(|error| self.failed("look", &error))?;
        let named = std::fs::symlink_metadata(&self.path).map_err(|error| self.failed("look", &error))?;
        if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
            return Err(self.error(format_args!("it was replaced while it was open")));
        }
        if own.len() < seen.bytes {
            return Err(self.error(format_args!("it shrank while it was open")));
        }
        let mut line: Vec<u8> = Vec::new();
        let mut chunk = vec![0; READ_CHUNK];
        let mut at = seen.bytes;
        loop {
            let count = self.file.read_at(&mut chunk, at).map_err(|error| self.failed("read", &error))?;
            if count == 0 {
                break;
            }
            at += count as u64;
            for piece in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.len() > MAX_RECORD_BYTES {
                    let number = seen.lines + 1;
                    return Err(
                        self.error(format_args!("line {number} is longer than {MAX_RECORD_BYTES} bytes"))
                    );
                }
                if line.ends_with(b"\n") {
                    self.take(seen, &line)?;
                    line.clear();
                }
            }
        }
        if !is_torn_record(&line) {
            let number = seen.lines + 1;
            return Err(self.error(format_args!("line {number} is no record: it is not even a piece of one")));
        }
        Ok(at)
    }

    fn take(&self, seen: &mut Seen, line: &[u8]) -> Result<(), PersistError> {
        let number = seen.lines + 1;
        let record: Record = serde_json::from_slice(line)
            .map_err(|error| self.error(format_args!("line {number} is no record: {error}")))?;
        let places = seen.runs.entry(record.run).or_default();
        let expected = places.len() as u64 + 1;
        if record.seq != expected {
            let found = record.seq;
            return Err(self.error(format_args!("line {number} has seq {found} where {expected} belongs")));
        }
        places.push(Place { offset: seen.bytes, bytes: line.len() });
        seen.bytes += line.len() as u64;
        seen.lines = number;
        Ok(())
    }

    fn failed(&self, what: &str, error: &io::Error) -> PersistError {
        self.error(format_args!("{what}: {error}"))
    }

    fn error(&self, what: std::fmt::Arguments<'_>) -> PersistError {
        PersistError::new(format!("the journal {}: {what}", self.path.display()))
    }
}

/// Whether a last line without an end is what a crash leaves: a piece of a record, of which the disk may have kept the
/// length and not the text.
fn is_torn_record(line: &[u8]) -> bool {
    let text = line.iter().rposition(|byte| *byte != 0).map_or(&[][..], |last| &line[..=last]);
    text.starts_with(RECORD_START) || RECORD_START.starts_with(text)
}

/// The advisory lock of the file.
struct Lock<'a>(&'a File);

impl<'a> Lock<'a> {
    fn take(journal: &'a Journal, exclusive: bool) -> Result<Self, PersistError> {
        for _ in 0..LOCK_ATTEMPTS {
            let taken = if exclusive { journal.file.try_lock() } else { journal.file.try_lock_shared() };
            match taken {
                Ok(()) => return Ok(Lock(&journal.file)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(journal.failed("lock", &error)),
            }
        }
        Err(journal.error(format_args!("another process keeps it locked")))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A lock that does not come off goes with the descriptor.
        drop(self.0.unlock());
    }
}

/// Writes at a place of a file.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl io::Write for At<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn no_follow() -> i32 {
    (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK)
        .bits()
        .cast_signed()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PersistError> + Send + 'static,
) -> Result<T, PersistError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_gone) => Err(PersistError::new("the runtime is shutting down")),
    }
}
