//! The registry: which declarations a run discloses (kernel contract 10).
//!
//! Readers see one complete, immutable snapshot. The first to claim a name keeps it; who comes later is named in a
//! warning.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Catalog;
use crate::flows::descriptor::FlowDescriptor;

/// The codes of a registry's failures. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistryCode {
    /// No entry has that name.
    NotFound,
    /// An entry claims a name that the system keeps.
    SystemCollision,
    /// The body of an entry cannot be read.
    BodyUnavailable,
    /// The entry is not a prompt.
    NotPromptFlow,
    /// Anything else.
    Unknown,
}

/// A failure of a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// What kind of failure it is.
    pub code: RegistryCode,
    /// What failed and why.
    pub message: String,
}

impl RegistryError {
    /// An error with a code and a message.
    pub fn new(code: RegistryCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// An entry that was left out because its name was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Always `duplicate_name`.
    pub code: String,
    /// Where the entry that was left out comes from.
    pub path: String,
    /// The name.
    pub name: String,
    /// The same in words.
    pub message: String,
}

impl Warning {
    fn duplicate(entry: &FlowDescriptor, keeper: &FlowDescriptor) -> Self {
        Self {
            code: "duplicate_name".into(),
            path: entry.path.clone(),
            name: entry.name.clone(),
            message: format!(
                "{} is left out: {} was found first and keeps the name {:?}",
                entry.path, keeper.path, entry.name
            ),
        }
    }
}

/// Declarations by name.
#[async_trait]
pub trait Registry: Send + Sync {
    /// Every entry, in order of discovery.
    fn list(&self) -> Vec<Arc<FlowDescriptor>>;

    /// The entries that a model may call, order kept.
    fn visible(&self) -> Vec<Arc<FlowDescriptor>> {
        self.list().into_iter().filter(|entry| entry.model_invocable).collect()
    }

    /// The entry of a name.
    ///
    /// # Errors
    /// `not_found`.
    fn get(&self, name: &str) -> Result<Arc<FlowDescriptor>, RegistryError> {
        self.get_option(name)
            .ok_or_else(|| RegistryError::new(RegistryCode::NotFound, format!("no flow is called {name:?}")))
    }

    /// The entry of a name, if there is one.
    fn get_option(&self, name: &str) -> Option<Arc<FlowDescriptor>>;

    /// What was left out, and why.
    fn warnings(&self) -> Vec<Warning>;

    /// The text of an entry's body.
    ///
    /// # Errors
    /// `not_found`; `body_unavailable` when there is none to read.
    async fn load_body(&self, name: &str) -> Result<String, RegistryError>;

    /// The prompt of an entry for some arguments.
    ///
    /// # Errors
    /// `not_prompt_flow` for an entry that is code; as [`Registry::load_body`].
    async fn render_prompt(&self, name: &str, arguments: &Value) -> Result<String, RegistryError>;

    /// Reads every source again, and replaces the snapshot only when all of them answered.
    ///
    /// # Errors
    /// Whatever a source failed with; the old snapshot stands.
    async fn refresh(&self) -> Result<(), RegistryError>;
}

/// A registry of entries that are known when it is made, none with a body of text.
#[derive(Clone, Debug, Default)]
pub struct FixedRegistry {
    entries: Vec<Arc<FlowDescriptor>>,
    by_name: HashMap<String, usize>,
    warnings: Vec<Warning>,
}

impl FixedRegistry {
    /// The registry of a list of entries.
    pub fn new(entries: impl IntoIterator<Item = FlowDescriptor>) -> Self {
        let mut registry = Self::default();
        for entry in entries {
            registry.add(Arc::new(entry));
        }
        registry
    }

    fn add(&mut self, entry: Arc<FlowDescriptor>) {
        match self.by_name.get(&entry.name) {
            Some(&keeper) => self.warnings.push(Warning::duplicate(&entry, &self.entries[keeper])),
            None => {
                self.by_name.insert(entry.name.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }

    fn no_body(&self, name: &str) -> RegistryError {
        match self.get(name) {
            Ok(_) => {
                RegistryError::new(RegistryCode::BodyUnavailable, format!("{name:?} has no body of text"))
            }
            Err(error) => error,
        }
    }
}

#[async_trait]
impl Registry for FixedRegistry {
    fn list(&self) -> Vec<Arc<FlowDescriptor>> {
        self.entries.clone()
    }
    fn get_option(&self, name: &str) -> Option<Arc<FlowDescriptor>> {
        self.by_name.get(name).map(|&index| Arc::clone(&self.entries[index]))
    }
    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
    async fn load_body(&self, name: &str) -> Result<String, RegistryError> {
        Err(self.no_body(name))
    }
    async fn render_prompt(&self, name: &str, _arguments: &Value) -> Result<String, RegistryError> {
        Err(match self.get(name) {
            Ok(_) => RegistryError::new(RegistryCode::NotPromptFlow, format!("{name:?} is not a prompt")),
            Err(error) => error,
        })
    }
    async fn refresh(&self) -> Result<(), RegistryError> {
        Ok(())
    }
}

/// A base registry with a catalog's declarations behind it. Entries of the base keep their names, hidden ones too.
pub struct Disclosed {
    base: Arc<dyn Registry>,
    catalog: Vec<Arc<FlowDescriptor>>,
}

impl fmt::Debug for Disclosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disclosed").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

/// Discloses a catalog through a registry.
pub fn disclose(base: Arc<dyn Registry>, catalog: &Catalog) -> Disclosed {
    let catalog = catalog.bindings().iter().map(|binding| Arc::new(binding.descriptor().clone())).collect();
    Disclosed { base, catalog }
}

#[async_trait]
impl Registry for Disclosed {
    fn list(&self) -> Vec<Arc<FlowDescriptor>> {
        let mut entries = self.base.list();
        let added = self.catalog.iter().filter(|entry| self.base.get_option(&entry.name).is_none()).cloned();
        entries.extend(added);
        entries
    }
    fn get_option(&self, name: &str) -> Option<Arc<FlowDescriptor>> {
        self.base.get_option(name).or_else(|| self.catalog.iter().find(|entry| entry.name == name).cloned())
    }
    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.base.warnings();
        for entry in &self.catalog {
            if let Some(keeper) = self.base.get_option(&entry.name) {
                warnings.push(Warning::duplicate(entry, &keeper));
            }
        }
        warnings
    }
    async fn load_body(&self, name: &str) -> Result<String, RegistryError> {
        self.base.load_body(name).await
    }
    async fn render_prompt(&self, name: &str, arguments: &Value) -> Result<String, RegistryError> {
        self.base.render_prompt(name, arguments).await
    }
    async fn refresh(&self) -> Result<(), RegistryError> {
        self.base.refresh().await
    }
}

/// Name and description of the visible entries, sorted by name.
pub fn entries(registry: &dyn Registry) -> Vec<(String, String)> {
    let mut entries: Vec<_> =
        registry.visible().iter().map(|entry| (entry.name.clone(), entry.description.clone())).collect();
    entries.sort();
    entries
}

/// The visible entries as the block of text that some hosts show to a model.
pub fn xml(registry: &dyn Registry) -> String {
    let mut text = String::from("<available_skills>\n");
    for (name, description) in entries(registry) {
        text.push_str("<skill><name>");
        escape(&mut text, &name);
        text.push_str("</name><description>");
        escape(&mut text, &description);
        text.push_str("</description></skill>\n");
    }
    text.push_str("</available_skills>");
    text
}

fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
}
