//! `shell_command`: a script in the default shell, with Codex's names and result format (host contract 5.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, PROC_SPAWN, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "shell_command";

/// The failure codes of a call (flow reference, host contract 5 and 5.4).
pub const CODES: &[Code] = &[Code::CommandFailed, Code::InvalidInput];

/// Wall-clock milliseconds of a call that names no timeout.
pub const DEFAULT_TIMEOUT_MS: u64 = 10_000;
/// Tokens of output that are shown; a token is about four bytes.
pub const DEFAULT_MAX_OUTPUT_TOKENS: usize = 10_000;
/// Exit code of a command that ran out of time. That is a value, not a failure.
pub const TIMEOUT_EXIT_CODE: i32 = 124;
/// Bytes of one stream that are kept in memory while the command runs.
pub const MAX_CAPTURE_BYTES: usize = 8_000_000;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Script for the default shell.
    pub command: String,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Most milliseconds the command may take. Defaults to 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Exit code, wall time and output in Codex's layout; the middle may be cut.
    pub output: String,
    /// Exit code; 124 when the command ran out of time.
    #[schemars(with = "f64")]
    pub exit_code: i32,
}

/// The declaration of `shell_command`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Run a script in the default shell and return its output under a short header.",
        input: SchemaDoc::of::<Input>(),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![PROC_SPAWN.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Irreversible, Mode::Expected, false, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}
