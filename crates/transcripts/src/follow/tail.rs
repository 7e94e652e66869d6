//! The records of one file, as they are written (transcript contract 10, *Tail*).

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read as _, Result, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::beneath;
use super::checkpoint::{Checkpoint, Source};
use crate::{Entry, Limits, Origin, Part, ReadOnly, Role, State, TranscriptError, scan};

/// The longest line of a file that is tailed, in bytes.
const LINE_BYTES: usize = 1_048_576;
/// Bytes of one read.
const READ: usize = 65_536;

/// What [`Tail::step`] found.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// One whole line: its entries, perhaps none. Once they are out, [`Tail::checkpoint`] may be kept.
    Record(Vec<Entry>),
    /// Nothing whole is there yet. Look again in a quarter of a second.
    Waiting,
    /// The file shrank, or another one has its name: it is read from its start as the next generation.
    Anew,
    /// A record was refused, or a line is over its limit. The source has ended; this is said once, with an entry that says
    /// it too.
    Stopped(Box<Entry>, TranscriptError),
    /// It had stopped before.
    Ended,
}

/// Follows one file. The caller looks at it four times a second: nothing here waits.
#[derive(Debug)]
pub struct Tail<S> {
    root: PathBuf,
    path: PathBuf,
    file: Option<File>,
    source: Source,
    generation: u64,
    offset: u64,
    state: S,
    /// Bytes behind `offset` that are no whole line yet, or not looked at.
    held: Vec<u8>,
    /// How many of them hold no newline.
    searched: usize,
    format_version: String,
    ended: bool,
}

impl<S: State> Tail<S> {
    /// Follows the file `path` beneath the folder `root`, from `from` when it is of this file, else from the start. A file
    /// that is another one than `from` says, or is shorter, begins as its next generation.
    ///
    /// # Errors
    ///
    /// When the file is not beneath `root`, is reached through a link or is not a regular file, and what the system says.
    pub fn open(root: &Path, path: &Path, from: Option<Checkpoint<S>>) -> Result<Self> {
        let file = beneath::open(root, path)?;
        let metadata = file.metadata()?;
        let source = identity(path, &metadata);
        let from = from.filter(|from| from.source.path == path);
        let (generation, offset, state) = match from {
            None => (0, 0, S::default()),
            Some(from) if from.source == source && from.offset <= metadata.len() => {
                (from.generation, from.offset, from.state)
            }
            Some(from) => (from.generation.saturating_add(1), 0, S::default()),
        };
        Ok(Self {
            root: root.to_owned(),
            path: path.to_owned(),
            file: Some(file),
            source,
            generation,
            offset,
            state,
            held: Vec::new(),
            searched: 0,
            format_version: S::AGENT.family().to_owned(),
            ended: false,
        })
    }

    /// The next thing that happened to the file. After [`Step::Record`] and [`Step::Anew`] there may be more at once.
    ///
    /// # Errors
    ///
    /// What the system says of reading. A file that is not there now is waited for.
    pub fn step(&mut self) -> Result<Step> {
        loop {
            if self.ended {
                return Ok(Step::Ended);
            }
            let unseen = self.held.get(self.searched..).unwrap_or_default();
            if let Some(newline) = scan::newline(unseen) {
                return Ok(self.record(self.searched + newline + 1));
            }
            self.searched = self.held.len();
            if self.held.len() > LINE_BYTES {
                // No newline yet, and too long already.
                return Ok(self.record(self.held.len()));
            }
            if self.shrank()? {
                self.begin_anew();
                return Ok(Step::Anew);
            }
            if self.read()? > 0 {
                continue;
            }
            // All of this file was read: only now another one of its name is looked at.
            return if self.replaced()? { Ok(Step::Anew) } else { Ok(Step::Waiting) };
        }
    }

    /// What to go on from, once the entries that came are out.
    pub fn checkpoint(&self) -> Checkpoint<S> {
        Checkpoint {
            source: self.source.clone(),
            generation: self.generation,
            offset: self.offset,
            state: self.state.clone(),
        }
    }

    /// The generation of the file that is read.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of whole records that were decoded: with the source and the generation, where the next record begins.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Decodes the first `length` bytes that are held.
    fn record(&mut self, length: usize) -> Step {
        let limits = Limits { line_bytes: LINE_BYTES };
        let line: Vec<u8> = self.held.drain(..length).collect();
        self.searched = 0;
        match self.state.decode_with(&limits, &line) {
            Ok(decoded) => {
                self.state = decoded.state;
                self.offset += line.len() as u64;
                if let Some(entry) = decoded.entries.last() {
                    self.format_version.clone_from(&entry.format_version);
                }
                Step::Record(decoded.entries)
            }
            Err(error) => {
                self.ended = true;
                self.file = None;
                Step::Stopped(Box::new(self.refusal(&error)), error)
            }
        }
    }

    /// The entry that says why the source ended.
    fn refusal(&self, error: &TranscriptError) -> Entry {
        let session_id = self.state.session_id().unwrap_or_default().to_owned();
        Entry {
            origin: Origin::External,
            agent_kind: S::AGENT,
            format_version: self.format_version.clone(),
            source_id: format!("{session_id}:{}", error.line),
            session_id,
            read_only: ReadOnly,
            seq: self.state.seq(),
            at: 0,
            turn_id: None,
            role: Role::Assistant,
            part: Part::Error { message: error.message.clone() },
        }
    }

    fn shrank(&self) -> Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        Ok(file.metadata()?.len() < self.offset + self.held.len() as u64)
    }

    fn read(&mut self) -> Result<usize> {
        let Some(file) = &mut self.file else { return Ok(0) };
        file.seek(SeekFrom::Start(self.offset + self.held.len() as u64))?;
        let mut part = file.take(READ as u64);
        part.read_to_end(&mut self.held)
    }

    /// Whether another file has the name; it is read from its start then.
    fn replaced(&mut self) -> Result<bool> {
        let named = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => identity(&self.path, &metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if named == self.source {
            return Ok(false);
        }
        let file = match beneath::open(&self.root, &self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        self.source = identity(&self.path, &file.metadata()?);
        self.file = Some(file);
        self.begin_anew();
        Ok(true)
    }

    fn begin_anew(&mut self) {
        self.generation = self.generation.saturating_add(1);
        self.offset = 0;
        self.state = S::default();
        self.held.clear();
        self.searched = 0;
    }
}

#[cfg(unix)]
fn identity(path: &Path, metadata: &Metadata) -> Source {
    use std::os::unix::fs::MetadataExt as _;
    Source { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() }
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Source {
    Source { path: path.to_owned(), device: 0, inode: 0 }
}
