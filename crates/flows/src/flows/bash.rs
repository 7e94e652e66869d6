//! `bash`: a shell command line, or a script given to an interpreter as data (host contract 5.1).

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::decl::{self, FlowDecl, PROC_SPAWN};
use crate::effects::{Effects, Mode, OnConflict, Tier};
use crate::error::Code;
use crate::probe::InvalidProbe;
use crate::schema::{Issue, SchemaDoc};

/// The registry name.
pub const NAME: &str = "bash";

/// The failure codes of a call (flow reference, host contract 5.1).
pub const CODES: &[Code] = &[
    Code::InvalidInput,
    Code::OutsideDeclaredReads,
    Code::OutsideDeclaredWrites,
    Code::ProviderUnavailable,
    Code::OutsideContainer,
    Code::Timeout,
    Code::CommandFailed,
];

/// Wall-clock milliseconds of a call that names no timeout.
pub const DEFAULT_TIMEOUT_MS: u64 = 600_000;
/// Bytes of one captured stream; `test` keeps a tail of as many.
pub const MAX_SHELL_OUTPUT_BYTES: usize = 30_000;

/// A command, with or without an envelope of paths. An absent `mode` decodes as `unhermetic`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// The command keeps to declared paths.
    Hermetic(Hermetic),
    /// The command declares nothing.
    Unhermetic(Unhermetic),
}

/// A command that keeps to the paths it declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hermetic {
    /// States that the command keeps to the declared paths.
    #[schemars(schema_with = "hermetic")]
    pub mode: HermeticMode,
    /// Paths the command may read.
    #[schemars(inner(length(min = 1)))]
    pub reads: Vec<String>,
    /// Paths the command may write.
    #[schemars(inner(length(min = 1)))]
    pub writes: Vec<String>,
    /// What to run.
    #[serde(flatten)]
    pub invocation: Invocation,
}

/// A command that declares no paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unhermetic {
    /// States that the command declares no paths, as it also does by leaving this out.
    #[serde(default)]
    #[schemars(schema_with = "unhermetic")]
    pub mode: UnhermeticMode,
    /// What to run.
    #[serde(flatten)]
    pub invocation: Invocation,
}

/// The literal `hermetic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HermeticMode {
    /// The only value.
    #[default]
    #[serde(rename = "hermetic")]
    Hermetic,
}

/// The literal `unhermetic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnhermeticMode {
    /// The only value.
    #[default]
    #[serde(rename = "unhermetic")]
    Unhermetic,
}

/// What to run, where and with what. The handler refuses combinations that contradict each other (`invalid_input`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// Shell command line. Give this or script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Program text, given to the interpreter on standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Program that reads the script. Defaults to bash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// Arguments handed to the script as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Text for the command's standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Container to run inside; unhermetic calls only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Wall-clock milliseconds. Defaults to 600,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
}

impl Default for Input {
    /// An unhermetic call that names nothing to run yet.
    fn default() -> Self {
        Self::Unhermetic(Unhermetic::default())
    }
}

impl Input {
    /// What to run, whatever the mode.
    #[must_use]
    pub fn invocation(&self) -> &Invocation {
        match self {
            Self::Hermetic(input) => &input.invocation,
            Self::Unhermetic(input) => &input.invocation,
        }
    }

    /// An unhermetic command line.
    #[must_use]
    pub fn command(line: impl Into<String>) -> Self {
        let invocation = Invocation { command: Some(line.into()), ..Invocation::default() };
        Self::Unhermetic(Unhermetic { invocation, ..Unhermetic::default() })
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Some(issue) = undeclared_paths(&value).into_iter().next() {
            return Err(D::Error::custom(issue));
        }
        if is_hermetic(&value) {
            serde_json::from_value(value).map(Self::Hermetic).map_err(D::Error::custom)
        } else {
            serde_json::from_value(value).map(Self::Unhermetic).map_err(D::Error::custom)
        }
    }
}

/// What the command printed and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Exit code of the command, 128 and the signal when a signal ended it.
    #[schemars(with = "f64")]
    pub exit_code: i32,
    /// Standard output; its start and end when it was cut.
    pub stdout: String,
    /// Standard error; its start and end when it was cut.
    pub stderr: String,
    /// Whether standard output is a fragment.
    pub stdout_truncated: bool,
    /// Whether standard error is a fragment.
    pub stderr_truncated: bool,
    /// Bytes left out of the middle of standard output.
    #[schemars(with = "f64")]
    pub stdout_dropped_bytes: u64,
    /// Bytes left out of the middle of standard error.
    #[schemars(with = "f64")]
    pub stderr_dropped_bytes: u64,
    /// Reserved for a launch failure that something else confirmed; never read from the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_probe: Option<InvalidProbe>,
}

/// The declaration of `bash`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Run a shell command line, or a script handed to an interpreter on standard input.",
        input: SchemaDoc::of::<Input>().with_check(undeclared_paths),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: vec![PROC_SPAWN.to_owned()],
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    decl::effects(Tier::Irreversible, Mode::Expected, false, false)
}

fn effects_for(input: &Value) -> Effects {
    match Input::deserialize(input) {
        Ok(Input::Hermetic(Hermetic { reads, writes, .. })) => {
            Effects::new(reads, writes, Mode::Hermetic, OnConflict::Serialize, Tier::Compensable)
        }
        _ => declared(),
    }
}

fn is_hermetic(input: &Value) -> bool {
    input.get("mode").and_then(Value::as_str) == Some("hermetic")
}

/// An envelope without the mode that enforces it is refused, not dropped: its caller believes in it.
fn undeclared_paths(input: &Value) -> Vec<Issue> {
    if is_hermetic(input) {
        return Vec::new();
    }
    let given = |name: &&str| input.get(name).is_some();
    ["reads", "writes"]
        .into_iter()
        .filter(given)
        .map(|name| Issue::new(name, "needs mode \"hermetic\""))
        .collect()
}

fn hermetic(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "const": "hermetic"})
}

fn unhermetic(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "const": "unhermetic"})
}
