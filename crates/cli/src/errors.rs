//! Exit statuses, and how a command says that it failed (CLI contract 1).

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use flowcell_engines::harness::engine::{EngineCode, EngineError, OpenError};
use flowcell_engines::harness::error::{HarnessCode, HarnessError};
use flowcell_engines::harness::kernel::{GrantStoreCode, GrantStoreError};
use serde_json::{Map, Value, json};

/// The exit statuses of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// What was asked for failed.
    Failed,
    /// The command line, an input or an input file is wrong; nothing was done.
    Usage,
    /// Suspended: the last line of standard error says what it waits for.
    Suspended,
    /// The journal is of another version or does not describe what now runs.
    Incompatible,
    /// Interrupted; the run can be resumed.
    Interrupted,
}

impl Exit {
    /// The process's exit status.
    pub const fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Suspended => 3,
            Self::Incompatible => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

/// Why a command did not do what was asked: what failed, where, why, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure(Box<Details>);

/// What a [`Failure`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    /// The exit status that goes with it.
    pub exit: Exit,
    /// A stable code for programs.
    pub code: String,
    /// What failed and why, in words for a person.
    pub message: String,
    /// The file, or the member of an input, that is at fault.
    pub path: Option<String>,
    /// The flow's own failure code.
    pub flow_code: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The one JSON document to print instead of the error object, where the contract has one.
    pub document: Option<Value>,
}

impl Failure {
    /// A failure with an exit status, a code and a message.
    pub fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            exit,
            code: code.into(),
            message: message.into(),
            path: None,
            flow_code: None,
            hint: None,
            document: None,
        }))
    }

    /// A wrong command line, input or input file (exit 2).
    pub fn usage(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// A failure of what was asked for (exit 1), with the code `engine_failed`.
    pub fn engine(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, "engine_failed", message)
    }

    /// A file that was named and cannot be read (exit 2).
    pub fn unreadable(what: &str, path: &Path, why: impl fmt::Display) -> Self {
        Self::usage("unreadable_file", format!("{what} {} cannot be read: {why}", path.display()))
            .at(path.display().to_string())
            .hint("Name a regular file of UTF-8 text that you may read.")
    }

    /// The same, naming what is at fault.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// The same, saying what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same with the flow's own code, when it has one.
    #[must_use]
    pub fn with_flow_code(mut self, code: Option<String>) -> Self {
        self.0.flow_code = code;
        self
    }

    /// The same with another document in the place of the error object.
    #[must_use]
    pub fn with_document(mut self, document: Value) -> Self {
        self.0.document = Some(document);
        self
    }

    /// The failure as the contract's JSON document.
    pub fn to_json(&self) -> Value {
        if let Some(document) = &self.document {
            return document.clone();
        }
        let mut error = Map::new();
        error.insert("code".into(), self.code.as_str().into());
        error.insert("message".into(), self.message.as_str().into());
        let optional = [("path", &self.path), ("flow_code", &self.flow_code), ("hint", &self.hint)];
        for (name, value) in optional {
            if let Some(value) = value {
                error.insert(name.into(), value.as_str().into());
            }
        }
        json!({ "error": error })
    }
}

impl std::ops::Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (exit, hint) = match error.code {
            EngineCode::EngineFailed => (
                Exit::Failed,
                Some("`flowcell doctor` says how the data folder stands; --data-dir DIR names another."),
            ),
            EngineCode::IdempotencyConflict => (Exit::Usage, Some("`flowcell show` says what stands.")),
            EngineCode::NotFound => {
                (Exit::Usage, Some("`flowcell runs` lists the runs and what they wait for."))
            }
            EngineCode::InvalidResolution => (
                Exit::Usage,
                Some(
                    "A pattern has the action of the request, covers it, and for writes stays in the workspace.",
                ),
            ),
            EngineCode::IncompatibleJournal => (
                Exit::Incompatible,
                Some("Use the version of flowcell that wrote it, or another --data-dir."),
            ),
        };
        let failure = Self::new(exit, error.code.as_str(), error.message);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<HarnessError> for Failure {
    fn from(error: HarnessError) -> Self {
        let exit =
            if error.code == HarnessCode::IncompatibleJournal { Exit::Incompatible } else { Exit::Failed };
        let hint = match error.code {
            HarnessCode::IncompatibleJournal => {
                "Take it up with what it was started with, the mocks included, or start a new run."
            }
            HarnessCode::EngineFailed => "`flowcell doctor` says how this machine and the data folder stand.",
            HarnessCode::AssemblyFailed => {
                "`flowcell flows` lists the flows; a mock takes the place of one or adds one."
            }
            _ => "`flowcell show RUN` says how far the run came.",
        };
        let failure = Self::new(exit, error.code.as_str(), error.message).hint(hint);
        match error.key {
            Some(key) => failure.at(key),
            None => failure,
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NotFound(run) => Self::usage("not_found", format!("no run is called {run}"))
                .hint("`flowcell runs` lists the runs of this data folder."),
            OpenError::Held(owner) => {
                Self::new(Exit::Suspended, "run_held", format!("process {} works on the run", owner.pid))
            }
            OpenError::Harness(error) => error.into(),
            OpenError::Engine(error) => error.into(),
        }
    }
}

impl From<GrantStoreError> for Failure {
    fn from(error: GrantStoreError) -> Self {
        let exit = if error.code == GrantStoreCode::InvalidResolution { Exit::Usage } else { Exit::Failed };
        Self::new(exit, error.code.as_str(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_contracts_members_and_no_others() {
        let failure = Failure::usage("invalid_input", "no").at("a.b").hint("do this");
        assert_eq!(
            failure.to_json(),
            json!({"error": {"code": "invalid_input", "message": "no", "path": "a.b", "hint": "do this"}})
        );
        assert_eq!(
            Failure::engine("x").to_json(),
            json!({"error": {"code": "engine_failed", "message": "x"}})
        );
    }

    #[test]
    fn codes_of_stores_have_their_exit_statuses() {
        let exit = |code| Failure::from(EngineError::new(code, "x")).exit.status();
        assert_eq!(exit(EngineCode::EngineFailed), 1);
        assert_eq!(exit(EngineCode::NotFound), 2);
        assert_eq!(exit(EngineCode::IdempotencyConflict), 2);
        assert_eq!(exit(EngineCode::IncompatibleJournal), 4);
    }
}
