//! The engine that keeps the runs, by its URL.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use flowcell_engines::harness::engine::{Owner, RunStore};
use flowcell_engines::harness::kernel::Clock;
use flowcell_engines::memory::Memory;
use flowcell_engines::{StoreOptions, process_owner};

use crate::errors::Failure;

/// Where the runs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineUrl {
    /// `sqlite:PATH`: one file.
    Sqlite(PathBuf),
    /// `memory:`: this process, and nothing after it.
    Memory,
}

impl FromStr for EngineUrl {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            Some(("memory", "")) => Ok(Self::Memory),
            _ => Err(Failure::usage("invalid_engine", format!("{text:?} names no engine of this version"))
                .at("--engine")
                .hint("Use `sqlite:PATH` or `memory:`.")),
        }
    }
}

/// What a store is opened with.
pub struct Location<'a> {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The value of `FLOWCELL_CRASH_AT`.
    pub crash_at: Option<&'a OsStr>,
}

impl EngineUrl {
    /// Opens the store. The folder of a file has to be there; the file is made.
    ///
    /// # Errors
    /// What cannot be opened (exit 1), a store of a newer version (exit 4), and, in builds that have it, a
    /// `FLOWCELL_CRASH_AT` that does not parse (exit 2).
    pub async fn open(&self, location: Location<'_>) -> Result<Arc<dyn RunStore>, Failure> {
        let options = StoreOptions::new(location.clock)
            .map_err(|error| Failure::engine(format!("this host does not say who it is: {error}")))?;
        let options = with_faults(options, location.crash_at)?;
        match self {
            Self::Memory => Ok(Arc::new(Memory::new().open(options))),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let opened = path.clone();
                let store =
                    tokio::task::spawn_blocking(move || flowcell_engines::sqlite::open(&opened, options))
                        .await
                        .map_err(|error| {
                            Failure::engine(format!("the store could not be opened: {error}"))
                        })?;
                let named = |error| Failure::from(error).at(path.display().to_string());
                Ok(Arc::new(store.map_err(named)?))
            }
            #[cfg(not(feature = "sqlite"))]
            Self::Sqlite(path) => Err(Failure::usage(
                "invalid_engine",
                format!("{}: this build has no SQLite engine", path.display()),
            )
            .hint("Use `--engine memory:`.")),
        }
    }
}

/// Checks `FLOWCELL_CRASH_AT`; builds without fault injection do not look at it.
///
/// # Errors
/// A value that is not `WHEN:KIND:N` (exit 2).
pub fn check_crash_at(crash_at: Option<&OsStr>) -> Result<(), Failure> {
    #[cfg(any(debug_assertions, feature = "fault-injection"))]
    plan(crash_at)?;
    #[cfg(not(any(debug_assertions, feature = "fault-injection")))]
    let _ = crash_at;
    Ok(())
}

#[cfg(any(debug_assertions, feature = "fault-injection"))]
fn plan(crash_at: Option<&OsStr>) -> Result<Option<flowcell_engines::fault::FaultPlan>, Failure> {
    let Some(text) = crash_at else { return Ok(None) };
    let plan = text.to_string_lossy().parse().map_err(|error| {
        Failure::usage("invalid_crash_at", format!("FLOWCELL_CRASH_AT: {error}"))
            .at("FLOWCELL_CRASH_AT")
            .hint("Set it to, for example, `after:cell-call:1`, or unset it.")
    })?;
    Ok(Some(plan))
}

#[cfg(any(debug_assertions, feature = "fault-injection"))]
fn with_faults(options: StoreOptions, crash_at: Option<&OsStr>) -> Result<StoreOptions, Failure> {
    Ok(match plan(crash_at)? {
        Some(plan) => options.with_faults(Arc::new(plan)),
        None => options,
    })
}

#[cfg(not(any(debug_assertions, feature = "fault-injection")))]
fn with_faults(options: StoreOptions, _crash_at: Option<&OsStr>) -> Result<StoreOptions, Failure> {
    Ok(options)
}

/// This process, as the owner of the runs that it drives.
///
/// # Errors
/// When the host does not say who it is (exit 1).
pub fn owner() -> Result<Owner, Failure> {
    process_owner()
        .map_err(|error| Failure::engine(format!("this host does not say which process this is: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_one_engine() {
        assert_eq!("memory:".parse(), Ok(EngineUrl::Memory));
        #[cfg(feature = "sqlite")]
        assert_eq!("sqlite:a/b.db".parse(), Ok(EngineUrl::Sqlite("a/b.db".into())));
        for bad in ["", "memory", "memory:x", "sqlite:", "sqlite", "restate:http://127.0.0.1:1", "a.db"] {
            let error = bad.parse::<EngineUrl>().unwrap_err();
            assert_eq!((error.exit.status(), error.code.as_str()), (2, "invalid_engine"), "{bad}");
        }
    }
}
