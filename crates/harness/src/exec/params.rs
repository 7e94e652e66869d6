//! What a run of known cells is asked to do, and what its cells come to before they run.

use serde::{Deserialize, Serialize};

use crate::calls::CellCalls;
use crate::engine::RunSpec;
use crate::error::HarnessError;
use crate::extract::{StopReason, extract};
use crate::journal::{FORMAT, RunId, RunOpened};
use crate::program::{Program, Rejected, Source, validate};
use crate::realm::Limits;

/// A cell as it was handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellText {
    /// Where it comes from, for messages.
    pub name: String,
    /// The program, or the reply that holds it.
    pub text: String,
}

/// What a run of known cells is asked to do: the `params` of its `run-opened` row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecParams {
    /// Always `exec`.
    pub kind: ExecKind,
    /// The cells, one frame each.
    pub cells: Vec<CellText>,
    /// Whether each text is a model's reply, from which the program is recovered.
    pub reply: bool,
    /// How those replies ended.
    pub stop: StopReason,
    /// Whether the run keeps checkpoints: the host that started it could. Fixed for the run, so that every execution
    /// of it takes its base at the same place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkpoints: bool,
}

/// The one kind of run this controller drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecKind {
    /// Known cells, no model.
    #[default]
    Exec,
}

/// A frame's cell, recovered and validated.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The source, when a program was recovered.
    pub source: Option<Source>,
    /// How many cell blocks the reply held.
    pub blocks: Option<u64>,
    /// The program, or why it does not run.
    pub program: Result<Program, Rejected>,
}

impl ExecParams {
    /// The parameters of an opened run.
    ///
    /// # Errors
    /// `engine_failed` when they are those of another controller or do not read.
    pub fn of(opened: &RunOpened) -> Result<Self, HarnessError> {
        Self::deserialize(&opened.params)
            .map_err(|error| HarnessError::engine(format!("the run's parameters do not read: {error}")))
    }

    /// Recovers and validates the cell of a frame. Pure: the same for every execution of the run.
    pub fn prepare(&self, frame: u64) -> Prepared {
        let text =
            usize::try_from(frame).ok().and_then(|frame| self.cells.get(frame)).map_or("", |cell| &cell.text);
        let (program, blocks) = if self.reply {
            match extract(text, self.stop) {
                Ok(extracted) => (extracted.program, Some(extracted.blocks as u64)),
                Err(rejected) => return Prepared { source: None, blocks: None, program: Err(rejected) },
            }
        } else {
            (text.to_owned(), None)
        };
        let source = Source::new(program);
        Prepared { program: validate(&source), source: Some(source), blocks }
    }
}

/// The spec of a run of known cells.
///
/// # Errors
/// `engine_failed` when the parameters are not JSON, which they always are.
pub fn spec(
    run: RunId,
    params: &ExecParams,
    limits: Limits,
    calls: &CellCalls,
) -> Result<RunSpec, HarnessError> {
    let params = serde_json::to_value(params).map_err(|error| HarnessError::engine(error.to_string()))?;
    let opened = RunOpened {
        format: FORMAT,
        session: run.to_string(),
        seat: None,
        params,
        layers: Vec::new(),
        capabilities: Vec::new(),
        limits,
        catalog: calls.catalog().entries(),
    };
    Ok(RunSpec { run, opened })
}
