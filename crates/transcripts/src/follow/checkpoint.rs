//! Where a tail was (transcript contract 10, *Checkpoint*).

use std::fs;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a tail goes on from: the file, how often it began anew, the bytes that were decoded, and the state behind them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint<S> {
    /// The file.
    pub source: Source,
    /// 0 at first; one more each time the file shrank or another file had its name.
    pub generation: u64,
    /// Bytes of whole records that were decoded.
    pub offset: u64,
    /// The state behind them.
    pub state: S,
}

/// One file: its path, and which file it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Number of its device; 0 where the system has none.
    pub device: u64,
    /// Number of the file on its device; 0 where the system has none.
    pub inode: u64,
}

impl<S: Serialize + DeserializeOwned> Checkpoint<S> {
    /// Reads a checkpoint; `None` when there is no file.
    ///
    /// # Errors
    ///
    /// What the system says, and `InvalidData` for a file that is no checkpoint.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Error::new(ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the checkpoint at `path` in one step: a reader, and a process that was killed meanwhile, finds the former one
    /// or this one. Written once the entries of its record are out, so that none is lost.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = path.with_file_name(name);
        let written = fs::File::create(&beside).and_then(|mut file| file.write_all(&bytes));
        let replaced = written.and_then(|()| fs::rename(&beside, path));
        if replaced.is_err() {
            // The error says what went wrong; what is left of the attempt is of no use.
            let _ = fs::remove_file(&beside);
        }
        replaced
    }
}
