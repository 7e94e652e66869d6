//! `update_plan`: a plan that the journal keeps (host contract 7).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decl::{FlowDecl, effects};
use crate::effects::{Effects, Mode, Tier};
use crate::error::{Code, StdError};
use crate::schema::{Issue, SchemaDoc};

/// The registry name.
pub const NAME: &str = "update_plan";

/// The failure codes of a call (flow reference, host contract 7).
pub const CODES: &[Code] = &[Code::InvalidInput];

/// The output text of every call.
pub const ACKNOWLEDGEMENT: &str = "Plan updated";

const MANY_IN_PROGRESS: &str = "at most one step may be in_progress";

/// The plan as it now stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Why the plan changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// The steps, in order. At most one is in_progress.
    pub plan: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What is to be done.
    pub step: String,
    /// How far it is.
    pub status: StepStatus,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// The acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Always the same text, Plan updated.
    pub output: String,
}

/// The rule that at most one step is in progress, for a handler called without decoding.
///
/// # Errors
///
/// [`Code::InvalidInput`] when two or more steps are.
pub fn check(plan: &[Step]) -> Result<(), StdError> {
    let running = plan.iter().filter(|step| step.status == StepStatus::InProgress).count();
    if running > 1 { Err(StdError::new(Code::InvalidInput, MANY_IN_PROGRESS)) } else { Ok(()) }
}

/// The declaration of `update_plan`. Its input's document also holds the rule of [`check`], at `plan`.
#[must_use]
pub fn decl() -> FlowDecl {
    FlowDecl {
        name: NAME,
        description: "Record the steps of a plan and how far each one is.",
        input: SchemaDoc::of::<Input>().with_check(single_in_progress),
        output: SchemaDoc::of::<Output>(),
        effects: declared(),
        capabilities: Vec::new(),
        effects_for,
        flows: &[],
        model: None,
    }
}

fn declared() -> Effects {
    effects(Tier::Sealed, Mode::Hermetic, false, false)
}

fn effects_for(_: &Value) -> Effects {
    declared()
}

fn single_in_progress(input: &Value) -> Vec<Issue> {
    let steps = input.get("plan").and_then(Value::as_array).into_iter().flatten();
    let is_running = |step: &&Value| step.get("status").and_then(Value::as_str) == Some("in_progress");
    if steps.filter(is_running).count() > 1 { vec![Issue::new("plan", MANY_IN_PROGRESS)] } else { Vec::new() }
}
