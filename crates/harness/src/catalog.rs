//! The catalog: the bindings of a run, each name once (harness contract 11).

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::binding::Binding;
use crate::error::{HarnessCode, HarnessError};
use crate::flows::descriptor::FlowDescriptor;
use crate::journal::CatalogEntry;
use crate::realm::FlowProjection;

/// Where bindings come from. A source may connect to something to learn them, and fail then.
#[async_trait]
pub trait Source: Send + Sync {
    /// The source's name, for messages.
    fn name(&self) -> &str;

    /// Its bindings, in order.
    ///
    /// # Errors
    /// `assembly_failed` when the source cannot be read.
    async fn bindings(&self) -> Result<Vec<Binding>, HarnessError>;
}

/// A source whose bindings are known.
#[derive(Clone, Debug)]
pub struct Fixed {
    name: String,
    bindings: Vec<Binding>,
}

impl Fixed {
    /// Lifts a list of bindings into a source.
    pub fn new(name: impl Into<String>, bindings: Vec<Binding>) -> Self {
        Self { name: name.into(), bindings }
    }
}

#[async_trait]
impl Source for Fixed {
    fn name(&self) -> &str {
        &self.name
    }
    async fn bindings(&self) -> Result<Vec<Binding>, HarnessError> {
        Ok(self.bindings.clone())
    }
}

/// Bindings by name, in the order of their sources. Immutable.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    bindings: Arc<[Binding]>,
    by_name: Arc<HashMap<String, usize>>,
}

impl Catalog {
    /// The catalog of ordered sources.
    ///
    /// # Errors
    /// `assembly_failed` when a source fails, and as [`Catalog::of`].
    pub async fn compose(sources: &[&dyn Source]) -> Result<Self, HarnessError> {
        let mut bindings = Vec::new();
        for source in sources {
            bindings.extend(source.bindings().await?);
        }
        Self::of(bindings)
    }

    /// The catalog of a list of bindings.
    ///
    /// # Errors
    /// `assembly_failed` for an empty name, a name that stands twice, and an output with a member `ok` at its top,
    /// which a cell could not tell from a failure (3.2).
    pub fn of(bindings: Vec<Binding>) -> Result<Self, HarnessError> {
        let failed = |message: String| HarnessError::new(HarnessCode::AssemblyFailed, message);
        let mut by_name = HashMap::with_capacity(bindings.len());
        for (index, binding) in bindings.iter().enumerate() {
            let name = binding.name();
            if name.is_empty() {
                return Err(failed("a binding has no name".into()));
            }
            if declares_ok(binding.descriptor()) {
                return Err(failed(format!(
                    "the output of {name:?} declares a member `ok`, which a cell reads as the mark of a failure"
                )));
            }
            if by_name.insert(name.to_owned(), index).is_some() {
                return Err(failed(format!("two bindings are called {name:?}")));
            }
        }
        Ok(Self { bindings: bindings.into(), by_name: Arc::new(by_name) })
    }

    /// The binding of a name.
    pub fn get(&self, name: &str) -> Option<&Binding> {
        self.by_name.get(name).map(|&index| &self.bindings[index])
    }

    /// The bindings, in order.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// What the journal pins of the catalog.
    pub fn entries(&self) -> Vec<CatalogEntry> {
        self.bindings
            .iter()
            .map(|binding| CatalogEntry {
                name: binding.name().to_owned(),
                digest: binding.digest().to_owned(),
            })
            .collect()
    }

    /// What a cell sees of the catalog: the flows it may call.
    pub fn projections(&self) -> Arc<[FlowProjection]> {
        self.bindings
            .iter()
            .filter(|binding| binding.descriptor().model_invocable)
            .map(|binding| projection(binding.descriptor()))
            .collect()
    }
}

/// Whether the flow's output declares a member `ok` at its top.
fn declares_ok(flow: &FlowDescriptor) -> bool {
    let Some(document) = flow.output.document() else { return false };
    let has = |schema: &Value| schema.pointer("/properties/ok").is_some();
    let document = document.document();
    has(document) || document.get("anyOf").and_then(Value::as_array).is_some_and(|of| of.iter().any(has))
}

/// The entry of `ctx.flows` for a flow.
fn projection(flow: &FlowDescriptor) -> FlowProjection {
    FlowProjection {
        name: flow.name.clone(),
        description: flow.description.clone(),
        capabilities: flow.capabilities.clone(),
        tier: Some(flow.effects.tier.to_string()),
        placement: flow.placement.map(|placement| placement.as_str().to_owned()),
        input: flow.input.document().map(|document| document.document().clone()),
    }
}
