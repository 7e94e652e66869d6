//! `test`: the declared test runner, read into passes and failures (host contract 5.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, PROC_SPAWN, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::Code;
use crate::probe::InvalidProbe;
use crate::schema::SchemaDoc;

/// The registry name.
pub const NAME: &str = "test";

/// The failure codes of a call (flow reference, host contract 5.3).
pub const CODES: &[Code] = &[
    Code::ProviderUnavailable,
    Code::RequestFailed,
    Code::InvalidInput,
    Code::NotFound,
    Code::Timeout,
    Code::CommandFailed,
];

/// Wall-clock milliseconds of a run for which neither the call nor the runner names a timeout.
pub const DEFAULT_TIMEOUT_MS: u64 = 600_000;
/// Bytes of one stream that are kept in memory while the runner runs.
pub const MAX_CAPTURE_BYTES: usize = 8_000_000;

/// What to test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Test ids or paths, handed to the runner as arguments. Every test when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Vec<String>>,
    /// Whether to run the pristine base commit too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// Wall-clock milliseconds of the run. Defaults to what the runner declares, else 600,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<f64>,
}

/// What a run is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Against {
    /// Nothing: the workspace alone.
    Workspace,
    /// The base commit.
    Base,
}

/// One run of the test runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The command as meant, without a container's transport.
    pub command: String,
    /// Exit code of the runner.
    #[schemars(with = "f64")]
    pub exit_code: i32,
    /// Tests reported passing; 0 when the report could not be read.
    #[schemars(with = "f64")]
    pub passed: u64,
    /// Ids reported failing or in error.
    pub failed: Vec<String>,
    /// Whether the complete report could be read.
    pub parsed: bool,
    /// The end of the runner's output.
    pub tail: String,
    /// Whether the tail is a fragment.
    pub tail_truncated: bool,
    /// Bytes left out before the tail.
    #[schemars(with = "f64")]
    pub tail_dropped_bytes: u64,
    /// Present when the exit code describes the command, not the tree, as a judge read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_probe: Option<InvalidProbe>,
}

/// The run of the base commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseOutcome {
    /// The run itself.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The ref that named the base.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The commit it named.
    pub commit: String,
}

/// The run of the workspace, and how it differs from the base where both could be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The run of the workspace.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The run of the base commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseOutcome>,
    /// Failing here and not on the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introduced: Option<Vec<String>>,
    /// Failing on both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preexisting: Option<Vec<String>>,
    /// Failing on the base and passing here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Vec<String>>,
}

/// The declaration of `test`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Run the declared test runner and report passes and failures, on request against the base commit.",
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
