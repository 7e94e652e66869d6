//! `apply_patch`: a patch of several files, all of it or nothing (host contract 6).

use async_trait::async_trait;

use crate::kernel::flows::apply_patch::{Input, Output};
use crate::kernel::flows::error::{Code, StdError};
use crate::kernel::{CallContext, Handler, HandlerError};
use crate::patch::{Plan, Step, commit, parse, preflight};

/// Serves `apply_patch`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplyPatchHandler;

#[async_trait]
impl Handler for ApplyPatchHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &CallContext, input: Input) -> Result<Output, HandlerError> {
        let patch =
            parse(&input.input).map_err(|error| StdError::new(Code::InvalidInput, error.to_string()))?;
        let plan = preflight(cx, &patch).await?;
        commit(&plan)?;
        Ok(summary(&plan))
    }
}

/// What the patch did, by kind and within a kind in the patch's order.
fn summary(plan: &Plan<'_>) -> Output {
    let (mut added, mut modified, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for step in &plan.steps {
        let (list, path) = match step {
            Step::Write { update: false, write } => (&mut added, write.path),
            Step::Write { update: true, write } | Step::Move { write, .. } => (&mut modified, write.path),
            Step::Remove(entry) => (&mut deleted, entry.path),
        };
        list.push(path.to_owned());
    }
    let mut output = "Success. Updated the following files:\n".to_owned();
    for (mark, paths) in [("A", &added), ("M", &modified), ("D", &deleted)] {
        for path in paths {
            output.push_str(mark);
            output.push(' ');
            output.push_str(path);
            output.push('\n');
        }
    }
    Output { output, added, modified, deleted }
}
