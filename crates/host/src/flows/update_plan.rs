//! `update_plan`: a plan that the journal keeps (host contract 7).

use async_trait::async_trait;

use crate::kernel::flows::update_plan::{ACKNOWLEDGEMENT, Input, Output, check};
use crate::kernel::{CallContext, Handler, HandlerError};

/// Serves `update_plan`. It touches nothing: the call's own record is the plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdatePlanHandler;

#[async_trait]
impl Handler for UpdatePlanHandler {
    type Input = Input;
    type Output = Output;

    async fn run(&self, _: &CallContext, input: Input) -> Result<Output, HandlerError> {
        check(&input.plan)?;
        Ok(Output { output: ACKNOWLEDGEMENT.to_owned() })
    }
}
