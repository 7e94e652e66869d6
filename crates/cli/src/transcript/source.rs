//! The file that is decoded, read once or twice, never held.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flowcell_engines::harness::transcripts::{Decoder, Entry, Limits, TranscriptError};

use super::agent::{self, Format};
use crate::args::Agent;
use crate::errors::Failure;

/// Bytes of one read.
const CHUNK: usize = 65_536;
/// How much of a file is looked at to recognise its agent.
const LOOK: u64 = 1_048_576;

/// A regular file, open for reading. What is appended to it after the first reading is not part of it.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    /// Bytes of the first reading, once it is done.
    length: Option<u64>,
}

/// How the reading of a whole file ended.
#[derive(Debug)]
pub(crate) enum Read1<S> {
    /// Every record was read; the state after the last byte.
    Whole(S),
    /// A record was refused.
    Refused(TranscriptError),
}

impl Source {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let unreadable = |why: String| {
            Failure::usage(
                "unreadable_file",
                format!("the transcript {} cannot be read: {why}", path.display()),
            )
            .at(path.display().to_string())
            .hint("Name a regular file that you may read, such as a rollout-*.jsonl of Codex or a SESSION.jsonl of Claude Code.")
        };
        // A FIFO would hold the command up when it is opened.
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !metadata.is_file() {
            return Err(unreadable("it is not a regular file".into()));
        }
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self { path: path.to_owned(), file, length: None })
    }

    /// The agent that was named, or the one that the first record or the file's name tells.
    pub(crate) fn agent(&mut self, named: Option<Agent>) -> Result<Agent, Failure> {
        if let Some(agent) = named {
            return Ok(agent);
        }
        let mut first = Vec::new();
        let read = (&self.file).take(LOOK).read_to_end(&mut first).and_then(|_| self.rewind());
        read.map_err(|error| self.unread(&error))?;
        agent::of_records(&first).or_else(|| agent::of_name(&self.path)).ok_or_else(|| {
            Failure::usage(
                "invalid_input",
                format!("no record at the start of {} tells which agent wrote it", self.path.display()),
            )
            .at(self.path.display().to_string())
            .hint("Say --agent codex or --agent claude.")
        })
    }

    /// Decodes the file from its start, one record a call, and hands the entries of each on as they come: every entry before a
    /// refused record counts (transcript contract 5), and no more than one record's entries are held.
    ///
    /// The outer error is of the file, the inner one of `sink`.
    pub(crate) fn read<S: Format>(
        &mut self,
        state: S,
        limits: Limits,
        mut sink: impl FnMut(Vec<Entry>) -> io::Result<()>,
    ) -> Result<io::Result<Read1<S>>, Failure> {
        self.rewind().map_err(|error| self.unread(&error))?;
        let mut decoder = Decoder::resume(state, limits);
        let mut chunk = vec![0; CHUNK];
        let mut length = 0_u64;
        loop {
            let most = self.length.map_or(u64::MAX, |whole| whole - length).min(CHUNK as u64);
            let most = usize::try_from(most).unwrap_or(CHUNK);
            let room = chunk.get_mut(..most).unwrap_or_default();
            let read = match self.file.read(room) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unread(&error)),
            };
            if read == 0 {
                self.length = Some(length);
                return Ok(Ok(Read1::Whole(decoder.into_state())));
            }
            length += read as u64;
            let bytes = chunk.get(..read).unwrap_or_default();
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                match decoder.feed(piece) {
                    Ok(entries) if entries.is_empty() => {}
                    Ok(entries) => {
                        if let Err(error) = sink(entries) {
                            return Ok(Err(error));
                        }
                    }
                    Err(error) => {
                        self.length.get_or_insert(length);
                        return Ok(Ok(Read1::Refused(error)));
                    }
                }
            }
        }
    }

    fn rewind(&self) -> io::Result<()> {
        (&self.file).seek(SeekFrom::Start(0)).map(|_| ())
    }

    fn unread(&self, error: &io::Error) -> Failure {
        Failure::usage("unreadable_file", format!("{} cannot be read: {error}", self.path.display()))
            .at(self.path.display().to_string())
    }
}
