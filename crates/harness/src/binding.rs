//! Bindings: a flow's declaration together with the code that answers it (harness contract 11).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::kernel::{CallContext, Handler, HandlerError, PermissionError};
use async_trait::async_trait;
use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::checkpoint::AtCheckpoint;
use crate::engine::{BodyResult, Call};
use crate::error::{Escape, HarnessCode, HarnessError};
use crate::failure::{CallFailure, CallFailureCode, CallOutcome};
use crate::flows::canonical;
use crate::flows::decl::FlowDecl;
use crate::flows::decode::{self, DecodeError};
use crate::flows::descriptor::{Declared, FlowDescriptor, Placement, declaration_digest};
use crate::flows::effects::{Effects, Tier};
use crate::flows::error::StdError;
use crate::flows::schema::SchemaDoc;

/// What is bound: a declaration, and what a host says beside it.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The declaration.
    pub declared: Declared,
    /// Where it runs.
    pub placement: Option<Placement>,
    /// Whether a cell may call it.
    pub model_invocable: bool,
    /// What one input needs; `None` answers the declared effects for every input.
    pub effects_for: Option<fn(&Value) -> Effects>,
}

impl From<Declared> for Flow {
    fn from(declared: Declared) -> Self {
        Self { declared, placement: None, model_invocable: true, effects_for: None }
    }
}

impl From<&FlowDecl> for Flow {
    fn from(decl: &FlowDecl) -> Self {
        Self { effects_for: Some(decl.effects_for), ..Declared::from(decl).into() }
    }
}

/// What a binding's code gets beside the decoded input: the call it answers.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The call.
    pub call: &'a Call,
    /// Its guarded services.
    pub context: &'a CallContext,
}

/// The code of a binding: JSON in, JSON out, or a failure of its own.
#[async_trait]
pub trait Body: Send + Sync {
    /// Answers one call.
    ///
    /// # Errors
    /// See [`BodyError`].
    async fn answer(&self, invocation: Invocation<'_>, input: Value) -> Result<Value, BodyError>;
}

/// How a body fails.
#[derive(Debug)]
pub enum BodyError {
    /// The input does not decode: the handler was not run.
    Input(DecodeError),
    /// The handler failed, in the flow's own words.
    Flow(StdError),
    /// The handler failed, in words that are not for cells.
    Opaque,
    /// The handler's output is not what was declared, or not JSON; the text says which.
    Output(String),
    /// A kernel refusal that the handler passed on.
    Permission(PermissionError),
    /// The call was refused before it acted.
    Refused(String),
    /// The run is interrupted.
    Cancelled,
    /// The run failed.
    Harness(HarnessError),
}

/// Selects what a cell may read of a flow's own error. `None`, an empty text or a panic discloses nothing.
pub type PublicError = Arc<dyn Fn(&StdError) -> Option<String> + Send + Sync>;

/// A declaration and the code that answers it. A failure of the flow discloses nothing to the cell until
/// [`with_authored_errors`](Binding::with_authored_errors) or [`with_public_error`](Binding::with_public_error) says what.
#[derive(Clone)]
pub struct Binding {
    descriptor: Arc<FlowDescriptor>,
    digest: Arc<str>,
    effects_for: Option<fn(&Value) -> Effects>,
    body: Arc<dyn Body>,
    public_error: Option<PublicError>,
    idempotent: bool,
    at_checkpoint: AtCheckpoint,
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("name", &self.name())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// The text of a failure that discloses nothing.
pub fn opaque(name: &str) -> String {
    format!("Flow {name} failed.")
}

impl Binding {
    /// Binds a declaration to a handler. `source` is the handler's module source, whose digest is part of the
    /// declaration: a handler that changed is another flow.
    pub fn of_handler<H>(flow: impl Into<Flow>, source: &[u8], handler: H) -> Self
    where
        H: Handler + 'static,
        H::Input: DeserializeOwned + Send,
        H::Output: Serialize + Send,
    {
        let flow = flow.into();
        let body =
            Typed { input: flow.declared.input.clone(), output: flow.declared.output.clone(), handler };
        Self::of_body(flow, source, Arc::new(body))
    }

    /// Binds a declaration to code that takes and answers JSON.
    pub fn of_body(flow: impl Into<Flow>, source: &[u8], body: Arc<dyn Body>) -> Self {
        let Flow { declared, placement, model_invocable, effects_for } = flow.into();
        let mut descriptor = FlowDescriptor::bound(declared, canonical::sha256_hex(source));
        descriptor.placement = placement;
        descriptor.model_invocable = model_invocable;
        Self {
            digest: declaration_digest(&descriptor).into(),
            descriptor: Arc::new(descriptor),
            effects_for,
            body,
            public_error: None,
            idempotent: false,
            at_checkpoint: AtCheckpoint::Unsupported,
        }
    }

    /// Discloses the flow's own errors as `render` words them.
    #[must_use]
    pub fn with_public_error(mut self, render: PublicError) -> Self {
        self.public_error = Some(render);
        self
    }

    /// Discloses the flow's own errors in their own words: for handlers that word them for cells, as the standard ones do.
    #[must_use]
    pub fn with_authored_errors(self) -> Self {
        self.with_public_error(Arc::new(|error: &StdError| Some(error.message.clone())))
    }

    /// States that starting the body again under the same call key does nothing twice.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// States what the flow can do at a checkpoint.
    #[must_use]
    pub fn at_checkpoints(mut self, at: AtCheckpoint) -> Self {
        self.at_checkpoint = at;
        self
    }

    /// What the flow can do at a checkpoint.
    pub fn at_checkpoint(&self) -> AtCheckpoint {
        self.at_checkpoint
    }

    /// The flow's name.
    pub fn name(&self) -> &str {
        &self.descriptor.name
    }

    /// The declaration, as registries and digests know it.
    pub fn descriptor(&self) -> &FlowDescriptor {
        &self.descriptor
    }

    /// The declaration digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether the body may be started again after an unknown outcome.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// The tier of one call. Input that does not decode does nothing, and is judged by the declaration.
    pub fn tier_of(&self, input: &Value) -> Tier {
        let declared = self.descriptor.effects.tier;
        self.effects_for.map_or(declared, |effects_for| effects_for(input).tier)
    }

    /// Whether one call writes: its effects say so, or its input does.
    pub fn writes(&self, input: &Value) -> bool {
        let declared = || !self.descriptor.effects.writes.is_empty();
        self.effects_for.map_or_else(declared, |effects_for| !effects_for(input).writes.is_empty())
    }

    /// Answers a call. Every failure of the flow is a settlement; what the cell may not catch escapes.
    ///
    /// # Errors
    /// Permission, interruption and failures of the harness.
    pub async fn run(&self, invocation: Invocation<'_>) -> Result<BodyResult, Escape> {
        let input = invocation.call.input.clone();
        let answer = AssertUnwindSafe(self.body.answer(invocation, input)).catch_unwind().await;
        let outcome = match answer.unwrap_or(Err(BodyError::Opaque)) {
            Ok(value) => CallOutcome::Success(value),
            Err(BodyError::Input(error)) => self.failure(CallFailureCode::InvalidInput, error.to_string()),
            Err(BodyError::Flow(error)) => self.flow_failure(&error),
            Err(BodyError::Opaque) => self.failure(CallFailureCode::FlowFailed, opaque(self.name())),
            Err(BodyError::Output(why)) => {
                self.failure(CallFailureCode::FlowFailed, format!("Flow {} failed: {why}", self.name()))
            }
            Err(BodyError::Refused(why)) => self.failure(CallFailureCode::CapabilityRefused, why),
            Err(BodyError::Permission(PermissionError::Required(required))) => return Err(required.into()),
            Err(BodyError::Permission(PermissionError::Denied(denied))) => {
                return Err(HarnessError::new(HarnessCode::Suspended, denied.to_string()).into());
            }
            Err(BodyError::Permission(PermissionError::Store(error))) => {
                return Err(HarnessError::engine(error.to_string()).into());
            }
            Err(BodyError::Cancelled) => return Err(Escape::Aborted),
            Err(BodyError::Harness(error)) => return Err(error.into()),
        };
        Ok(BodyResult { outcome, notes: invocation.context.notes.take() })
    }

    fn failure(&self, code: CallFailureCode, message: String) -> CallOutcome {
        CallOutcome::Failure(CallFailure::new(code, message))
    }

    fn flow_failure(&self, error: &StdError) -> CallOutcome {
        let rendered = self
            .public_error
            .as_ref()
            .and_then(|render| catch_unwind(AssertUnwindSafe(|| render(error))).ok().flatten())
            .filter(|text| !text.trim().is_empty());
        match rendered {
            Some(text) => {
                let mut failure =
                    CallFailure::new(CallFailureCode::FlowFailed, format!("{}: {text}", error.code));
                failure.flow_code = Some(error.code.to_string());
                CallOutcome::Failure(failure)
            }
            None => self.failure(CallFailureCode::FlowFailed, opaque(self.name())),
        }
    }
}

struct Typed<H> {
    input: SchemaDoc,
    output: SchemaDoc,
    handler: H,
}

#[async_trait]
impl<H> Body for Typed<H>
where
    H: Handler,
    H::Input: DeserializeOwned + Send,
    H::Output: Serialize + Send,
{
    async fn answer(&self, invocation: Invocation<'_>, input: Value) -> Result<Value, BodyError> {
        let input = decode::decode::<H::Input>(&self.input, &input).map_err(BodyError::Input)?;
        let output = self.handler.run(invocation.context, input).await?;
        let output = serde_json::to_value(output)
            .map_err(|error| BodyError::Output(format!("its output is not serializable ({error}).")))?;
        match self.output.validate(&output).first() {
            None => Ok(output),
            Some(issue) => Err(BodyError::Output(format!("its output is not what it declares ({issue})."))),
        }
    }
}

impl From<HandlerError> for BodyError {
    fn from(error: HandlerError) -> Self {
        match error {
            HandlerError::Flow(error) => Self::Flow(error),
            HandlerError::Permission(error) => Self::Permission(error),
            HandlerError::Cancelled => Self::Cancelled,
        }
    }
}
