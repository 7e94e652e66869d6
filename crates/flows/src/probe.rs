//! What a judge read out of an exit code (host contract 5.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An exit code that describes the command that was tried, not the tree it was tried on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvalidProbe {
    /// What the command got wrong.
    pub reason: Reason,
    /// The part of the output that shows it.
    pub evidence: String,
    /// The finding, for a person or a model.
    pub message: String,
}

/// What a command got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The program is not there.
    UnknownCommand,
    /// The selected test is not there.
    UnknownTest,
    /// The named path is not there.
    UnknownPath,
    /// The named module is not there.
    UnknownModule,
    /// The environment lacks something that the command needs.
    UnknownEnvironment,
}

impl Reason {
    /// The wire text of the reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownCommand => "unknown-command",
            Self::UnknownTest => "unknown-test",
            Self::UnknownPath => "unknown-path",
            Self::UnknownModule => "unknown-module",
            Self::UnknownEnvironment => "unknown-environment",
        }
    }
}
