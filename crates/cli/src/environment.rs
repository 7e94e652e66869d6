//! What the process was started with. Nothing else in the workspace reads it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The process's environment, as far as the binary reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The working folder; absent when it is gone.
    pub folder: Option<PathBuf>,
    /// `HOME`, when it is set and absolute.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, when it is set and absolute.
    pub config_home: Option<PathBuf>,
    /// `FLOWCELL_CRASH_AT`, when it is set.
    pub crash_at: Option<OsString>,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_colour: bool,
    /// `PATH`.
    pub path: Option<OsString>,
    /// Whether standard error is a terminal.
    pub terminal: bool,
    /// Whether standard input is one.
    pub input_terminal: bool,
    /// All variables of UTF-8: what commands inherit some names of.
    pub ambient: BTreeMap<String, String>,
    /// This program, which is started again to own what commands leave.
    pub program: Option<PathBuf>,
    /// Whether standard output is one.
    pub output_terminal: bool,
}

impl Environment {
    /// Reads the environment of this process.
    #[allow(
        clippy::disallowed_methods,
        reason = "the binary reads the process environment, here and nowhere else"
    )]
    pub fn of_process() -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            folder: std::env::current_dir().ok(),
            home: absolute("HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            crash_at: std::env::var_os("FLOWCELL_CRASH_AT"),
            no_colour: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            path: std::env::var_os("PATH"),
            terminal: io::stderr().is_terminal(),
            input_terminal: io::stdin().is_terminal(),
            ambient: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            program: std::env::current_exe().ok(),
            output_terminal: io::stdout().is_terminal(),
        }
    }

    /// The user's configuration folder of flowcell, when the process has a home.
    pub fn config(&self) -> Option<PathBuf> {
        let base =
            self.config_home.clone().or_else(|| self.home.as_ref().map(|home| home.join(".config")))?;
        Some(base.join("flowcell"))
    }
}

/// Reads a file of at most `most` bytes whole. What is no regular file is refused before it is opened for reading, so
/// that a FIFO does not hold the command up.
///
/// # Errors
/// As [`std::fs::File::open`]; `InvalidInput` for what is not a regular file, and for one that is too large.
pub fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !std::fs::metadata(path)?.is_file() {
        return refused("it is not a regular file".into());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return refused(format!("it is larger than {most} bytes"));
    }
    Ok(bytes)
}

/// As [`read_bounded`], for UTF-8 text.
///
/// # Errors
/// As [`read_bounded`]; `InvalidData` for bytes that are no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_bounded(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_folder_is_the_named_one_or_in_the_home() {
        let mut environment = Environment { home: Some("/h".into()), ..Environment::default() };
        assert_eq!(environment.config(), Some("/h/.config/flowcell".into()));
        environment.config_home = Some("/c".into());
        assert_eq!(environment.config(), Some("/c/flowcell".into()));
        assert_eq!(Environment::default().config(), None);
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, b"abc").unwrap();
        assert_eq!(read_bounded(&file, 3).unwrap(), b"abc");
        assert_eq!(read_bounded(&file, 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read_bounded(folder.path(), 9).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
