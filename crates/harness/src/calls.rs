//! Resolution of a call's name into the body that answers it (harness contract 11).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::CallContext;
use async_trait::async_trait;
use serde_json::Value;

use crate::binding::{Binding, Invocation};
use crate::catalog::Catalog;
use crate::checkpoint::AtCheckpoint;
use crate::engine::{BodyResult, Call, Dispatch};
use crate::error::{Escape, HarnessError};
use crate::failure::{CallFailure, CallFailureCode, CallOutcome};
use crate::flows::descriptor::{Body, FlowDescriptor, declaration_digest};
use crate::flows::effects::Tier;
use crate::registry::{FixedRegistry, Registry, RegistryCode, disclose};
use crate::services::Services;

/// A host's own code for a flow that is declared elsewhere.
#[async_trait]
pub trait Implementation: Send + Sync {
    /// Answers one call.
    ///
    /// # Errors
    /// Permission, interruption and failures of the harness.
    async fn run(&self, call: &Call, context: &CallContext) -> Result<CallOutcome, Escape>;
}

/// Runs the prompt of a flow that is a page of text.
#[async_trait]
pub trait PromptRunner: Send + Sync {
    /// Answers one call whose flow renders to `prompt`.
    ///
    /// # Errors
    /// As [`Implementation::run`].
    async fn run(&self, call: &Call, prompt: String, context: &CallContext) -> Result<CallOutcome, Escape>;
}

/// Turns a call's name into the body that answers it. Every refusal is a settlement.
#[derive(Clone)]
pub struct CellCalls {
    registry: Arc<dyn Registry>,
    catalog: Catalog,
    implementations: HashMap<String, Arc<dyn Implementation>>,
    prompts: Option<Arc<dyn PromptRunner>>,
    digests: Digests,
}

/// Digests of the entries that were asked for, each beside the very entry it is of: entries do not change, registries do.
type Digests = Arc<Mutex<HashMap<String, (Arc<FlowDescriptor>, Arc<str>)>>>;

impl fmt::Debug for CellCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellCalls").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl CellCalls {
    /// A resolver of a catalog alone: every binding is disclosed, nothing else is.
    pub fn of_catalog(catalog: Catalog) -> Self {
        let registry = disclose(Arc::new(FixedRegistry::default()), &catalog);
        Self::new(Arc::new(registry), catalog)
    }

    /// A resolver of a registry that discloses, among others, a catalog.
    pub fn new(registry: Arc<dyn Registry>, catalog: Catalog) -> Self {
        Self {
            registry,
            catalog,
            implementations: HashMap::new(),
            prompts: None,
            digests: Digests::default(),
        }
    }

    /// Adds a host's own code for a name.
    #[must_use]
    pub fn with_implementation(mut self, name: impl Into<String>, code: Arc<dyn Implementation>) -> Self {
        self.implementations.insert(name.into(), code);
        self
    }

    /// Adds what runs prompts.
    #[must_use]
    pub fn with_prompts(mut self, prompts: Arc<dyn PromptRunner>) -> Self {
        self.prompts = Some(prompts);
        self
    }

    /// The registry that names are looked up in.
    pub fn registry(&self) -> &dyn Registry {
        self.registry.as_ref()
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What a call of this name is keyed on: declaration, tier, capabilities, and whether it may be started again.
    /// A name that nobody declared does nothing and is sealed.
    pub fn identify(&self, name: &str, input: &Value) -> Identified {
        let Some(entry) = self.registry.get_option(name) else {
            return Identified::default();
        };
        let declaration = self.digest_of(&entry);
        let binding = self.binding_of(name, &declaration);
        Identified {
            tier: binding.map_or(entry.effects.tier, |binding| binding.tier_of(input)),
            idempotent: binding.is_some_and(Binding::is_idempotent),
            capabilities: entry.capabilities.clone(),
            at_checkpoint: binding.map_or(AtCheckpoint::Unsupported, Binding::at_checkpoint),
            writes: named_writes(input)
                || binding.map_or(!entry.effects.writes.is_empty(), |binding| binding.writes(input)),
            declaration: declaration.to_string(),
        }
    }

    /// The entry's declaration digest, worked out once for each entry.
    fn digest_of(&self, entry: &Arc<FlowDescriptor>) -> Arc<str> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        match digests.get(&entry.name) {
            Some((of, digest)) if Arc::ptr_eq(of, entry) => Arc::clone(digest),
            _ => {
                let digest: Arc<str> = declaration_digest(entry).into();
                digests.insert(entry.name.clone(), (Arc::clone(entry), Arc::clone(&digest)));
                digest
            }
        }
    }

    fn binding_of(&self, name: &str, declaration: &str) -> Option<&Binding> {
        self.catalog.get(name).filter(|binding| binding.digest() == declaration)
    }

    /// Answers a call, in the contract's order.
    ///
    /// # Errors
    /// Permission, interruption and failures of the harness.
    pub async fn run(
        &self,
        call: &Call,
        dispatch: Dispatch,
        services: &Services,
    ) -> Result<BodyResult, Escape> {
        let refuse = |code, message: String| Ok(CallOutcome::Failure(CallFailure::new(code, message)).into());
        let name = &call.flow;
        let Some(entry) = self.registry.get_option(name) else {
            return refuse(CallFailureCode::UnknownFlow, format!("No flow is called {name:?}."));
        };
        if !entry.model_invocable {
            return refuse(CallFailureCode::CapabilityRefused, format!("A cell may not call {name}."));
        }
        let changed = || {
            format!(
                "The declaration of {name} is not the one that this frame was shown. Read ctx.flows again."
            )
        };
        if *self.digest_of(&entry) != *call.identity.declaration {
            return refuse(CallFailureCode::DeclarationChanged, changed());
        }
        let context = services.dispatch(&entry.capabilities, dispatch, &call.key)?;
        if let Some(binding) = self.catalog.get(name) {
            if binding.digest() != call.identity.declaration {
                return refuse(CallFailureCode::DeclarationChanged, changed());
            }
            return binding.run(Invocation { call, context: &context }).await;
        }
        if let Body::Markdown { .. } = entry.body {
            return self.prompt(call, &context).await;
        }
        match self.implementations.get(name) {
            Some(code) => {
                Ok(BodyResult { outcome: code.run(call, &context).await?, notes: context.notes.take() })
            }
            None => refuse(CallFailureCode::Unimplemented, format!("Nothing here runs {name}.")),
        }
    }

    async fn prompt(&self, call: &Call, context: &CallContext) -> Result<BodyResult, Escape> {
        let refuse = |code, message: String| Ok(CallOutcome::Failure(CallFailure::new(code, message)).into());
        if !call.input.get("args").is_some_and(Value::is_string) {
            return refuse(
                CallFailureCode::InvalidInput,
                format!("{} takes {{args: string}}: the flow is a page of text.", call.flow),
            );
        }
        let Some(prompts) = &self.prompts else {
            return refuse(CallFailureCode::Unimplemented, format!("Nothing here runs {}.", call.flow));
        };
        let prompt = self.registry.render_prompt(&call.flow, &call.input).await.map_err(|error| {
            let what = if error.code == RegistryCode::BodyUnavailable {
                "cannot be read"
            } else {
                "does not render"
            };
            HarnessError::engine(format!("the body of {} {what}: {error}", call.flow))
        })?;
        Ok(BodyResult { outcome: prompts.run(call, prompt, context).await?, notes: context.notes.take() })
    }
}

/// What a call of a name is keyed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The declaration digest; empty for a name that nobody declared.
    pub declaration: String,
    /// The tier of this call.
    pub tier: Tier,
    /// The declared capabilities.
    pub capabilities: Vec<String>,
    /// Whether it may be started again after an unknown outcome.
    pub idempotent: bool,
    /// What it can do at a checkpoint.
    pub at_checkpoint: AtCheckpoint,
    /// Whether this call writes, as far as it says.
    pub writes: bool,
}

/// Whether an input names paths that it writes.
fn named_writes(input: &Value) -> bool {
    input.get("writes").and_then(Value::as_array).is_some_and(|writes| !writes.is_empty())
}

impl Default for Identified {
    fn default() -> Self {
        Self {
            declaration: String::new(),
            tier: Tier::Sealed,
            capabilities: Vec::new(),
            idempotent: false,
            at_checkpoint: AtCheckpoint::Unsupported,
            writes: false,
        }
    }
}
