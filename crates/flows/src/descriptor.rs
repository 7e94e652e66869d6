//! Descriptors, as registries hold them, and their digest (kernel contract 9 and 10).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::canonical::{self, utf16_cmp};
use crate::decl::FlowDecl;
use crate::effects::Effects;
use crate::schema::SchemaDoc;

/// What answers a call of the flow. Tagged with `_tag` in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "_tag", rename_all_fields = "camelCase")]
pub enum Body {
    /// Compiled code behind a binding.
    Module {
        /// `binding://<name>` for a bound flow.
        path: String,
        /// Lower-case hex SHA-256 of the handler's module source, or what the binding states.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_digest: Option<String>,
    },
    /// A prompt file.
    Markdown {
        /// Where the file is.
        path: String,
        /// Lower-case hex SHA-256 of the file's bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_digest: Option<String>,
    },
    /// A flow composed of other flows, run as a child.
    Dynamic {
        /// `flow://<name>`.
        path: String,
    },
}

impl Body {
    /// Where the body is.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Module { path, .. } | Self::Markdown { path, .. } | Self::Dynamic { path } => path,
        }
    }

    /// The digest of the body's content, where it has one.
    #[must_use]
    pub fn content_digest(&self) -> Option<&str> {
        match self {
            Self::Module { content_digest, .. } | Self::Markdown { content_digest, .. } => {
                content_digest.as_deref()
            }
            Self::Dynamic { .. } => None,
        }
    }
}

/// Where a flow runs. Lower-case in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// In the client.
    Client,
    /// On the host.
    Local,
    /// In a sandbox.
    Sandbox,
    /// On another machine.
    Remote,
}

impl Placement {
    /// The placement's text, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Local => "local",
            Self::Sandbox => "sandbox",
            Self::Remote => "remote",
        }
    }
}

/// Where a descriptor comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Provenance {
    /// The kind of source, such as `binding`.
    pub source: String,
    /// The source itself, such as `binding://` or a folder.
    pub root: String,
    /// The pack that brought it along. It is no part of the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<String>,
}

/// The schema of an input or an output. Tagged with `_tag` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "_tag")]
pub enum SchemaRef {
    /// A document given in place.
    Inline {
        /// The document.
        document: SchemaDoc,
    },
    /// No document is known.
    Absent,
}

impl SchemaRef {
    /// The document, where one is known.
    #[must_use]
    pub fn document(&self) -> Option<&SchemaDoc> {
        match self {
            Self::Inline { document } => Some(document),
            Self::Absent => None,
        }
    }
}

impl From<SchemaDoc> for SchemaRef {
    fn from(document: SchemaDoc) -> Self {
        Self::Inline { document }
    }
}

/// The declaration part of a bound flow, owned, for hosts whose names are not known when they are compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The registry name.
    pub name: String,
    /// What the flow does.
    pub description: String,
    /// The document of its input.
    pub input: SchemaDoc,
    /// The document of its output.
    pub output: SchemaDoc,
    /// Its worst case; [`Effects::undeclared`] where nothing is declared.
    pub effects: Effects,
    /// Capability patterns, the most it may ask for.
    pub capabilities: Vec<String>,
    /// The flows it is composed of.
    pub flows: Vec<String>,
    /// The model it is pinned to.
    pub model: Option<String>,
}

impl Declared {
    /// A flow that declares nothing but its name, what it does and its schemas: undeclared effects, no capabilities, made of
    /// no other flow, no model. The fields are public: set what differs.
    ///
    /// ```
    /// use flowcell_flows::descriptor::{Declared, FlowDescriptor};
    /// use flowcell_flows::{SchemaDoc, schemars, write};
    ///
    /// #[derive(schemars::JsonSchema)]
    /// #[schemars(crate = "flowcell_flows::schemars")]
    /// struct Note {
    ///     /// The text to keep.
    ///     text: String,
    /// }
    ///
    /// let (input, output) = (SchemaDoc::of::<Note>(), SchemaDoc::of::<write::Output>());
    /// let mut note = Declared::new("note", "Keep a note in the workspace.", input, output);
    /// note.effects = write::decl().effects;
    /// note.capabilities = write::decl().capabilities;
    /// assert_eq!(FlowDescriptor::dynamic(note).path, "flow://note");
    /// # let _ = Note { text: String::new() }.text;
    /// ```
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input: SchemaDoc,
        output: SchemaDoc,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input,
            output,
            effects: Effects::undeclared(),
            capabilities: Vec::new(),
            flows: Vec::new(),
            model: None,
        }
    }
}

impl From<&FlowDecl> for Declared {
    fn from(decl: &FlowDecl) -> Self {
        Self {
            name: decl.name.to_owned(),
            description: decl.description.to_owned(),
            input: decl.input.clone(),
            output: decl.output.clone(),
            effects: decl.effects.clone(),
            capabilities: decl.capabilities.clone(),
            flows: decl.flows.iter().map(|name| (*name).to_owned()).collect(),
            model: decl.model.clone(),
        }
    }
}

/// One entry of a registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowDescriptor {
    /// The registry name.
    pub name: String,
    /// What the flow does.
    pub description: String,
    /// What answers a call.
    pub body: Body,
    /// The schema of the input.
    pub input: SchemaRef,
    /// The schema of the output.
    pub output: SchemaRef,
    /// The model it is pinned to.
    pub model: Option<String>,
    /// The flows it is composed of, in declaration order.
    pub flows: Vec<String>,
    /// Capability patterns, the most it may ask for.
    pub capabilities: Vec<String>,
    /// Its worst case.
    pub effects: Effects,
    /// Where it runs, where that is declared.
    pub placement: Option<Placement>,
    /// Whether a model may call it; an entry that is not stays out of what a model is shown, and keeps its name.
    pub model_invocable: bool,
    /// The budget its source declares, as the source wrote it.
    pub budget: Option<Value>,
    /// Where the entry was found.
    pub path: String,
    /// The source's own members.
    pub frontmatter: Map<String, Value>,
    /// Where the entry comes from.
    pub provenance: Provenance,
}

impl FlowDescriptor {
    /// The descriptor of a bound flow: path `binding://<name>`, a module body with the digest of its handler's source,
    /// both schemas in place, model-invocable, no placement, budget or frontmatter.
    ///
    /// ```
    /// use flowcell_flows::{canonical::sha256_hex, descriptor::FlowDescriptor, read};
    /// let descriptor = FlowDescriptor::bound(&read::decl(), sha256_hex(b"handler source"));
    /// assert_eq!(descriptor.path, "binding://read");
    /// ```
    #[must_use]
    pub fn bound(declared: impl Into<Declared>, content_digest: impl Into<String>) -> Self {
        let declared = declared.into();
        let path = format!("binding://{}", declared.name);
        let body = Body::Module { path: path.clone(), content_digest: Some(content_digest.into()) };
        let provenance =
            Provenance { source: "binding".to_owned(), root: "binding://".to_owned(), pack: None };
        Self::assemble(declared, body, path, provenance)
    }

    /// The descriptor of a dynamic flow, such as `explore`: path `flow://<name>`, no content digest.
    #[must_use]
    pub fn dynamic(declared: impl Into<Declared>) -> Self {
        let declared = declared.into();
        let path = format!("flow://{}", declared.name);
        let body = Body::Dynamic { path: path.clone() };
        let provenance = Provenance { source: "flow".to_owned(), root: "flow://".to_owned(), pack: None };
        Self::assemble(declared, body, path, provenance)
    }

    fn assemble(declared: Declared, body: Body, path: String, provenance: Provenance) -> Self {
        Self {
            name: declared.name,
            description: declared.description,
            body,
            input: declared.input.into(),
            output: declared.output.into(),
            model: declared.model,
            flows: declared.flows,
            capabilities: declared.capabilities,
            effects: declared.effects,
            placement: None,
            model_invocable: true,
            budget: None,
            path,
            frontmatter: Map::new(),
            provenance,
        }
    }

    /// The entry of `ctx.flows` (kernel contract 8): `{name, description, capabilities, tier, placement, input}`, the
    /// last two `null` when absent. Nothing in it carries authority.
    #[must_use]
    pub fn entry(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "capabilities": self.capabilities,
            "tier": self.effects.tier,
            "placement": self.placement,
            "input": self.input.document().map(SchemaDoc::document),
        })
    }

    /// The digest's material (kernel contract 9). It does not depend on the order of `capabilities`.
    fn material(&self) -> Value {
        let mut capabilities = self.capabilities.clone();
        capabilities.sort_by(|left, right| utf16_cmp(left, right));
        json!({
            "body": body_material(&self.body),
            "budget": self.budget,
            "capabilities": capabilities,
            "description": self.description,
            "effects": {
                "mode": self.effects.mode,
                "onConflict": self.effects.on_conflict,
                "reads": self.effects.reads,
                "tier": self.effects.tier,
                "writes": self.effects.writes,
            },
            "flows": self.flows,
            "frontmatter": self.frontmatter,
            "input": schema_material(&self.input),
            "model": self.model,
            "modelInvocable": self.model_invocable,
            "name": self.name,
            "output": schema_material(&self.output),
            "path": self.path,
            "placement": self.placement,
            "provenance": {"root": self.provenance.root, "source": self.provenance.source},
        })
    }
}

/// The identity of a declaration: the lower-case hex SHA-256 of its canonical JSON.
///
/// Every field of the descriptor but `provenance.pack` is material, and only `capabilities` is sorted first. A foreign
/// document may hold an integer that no double holds; it enters with its exact digits, so that every descriptor has a
/// digest.
#[must_use]
pub fn declaration_digest(descriptor: &FlowDescriptor) -> String {
    canonical::sha256_hex(canonical::to_string_exact(&descriptor.material()).as_bytes())
}

fn body_material(body: &Body) -> Value {
    let tag = match body {
        Body::Module { .. } => "Module",
        Body::Markdown { .. } => "Markdown",
        Body::Dynamic { .. } => "Dynamic",
    };
    let mut material = json!({"_tag": tag, "path": body.path()});
    if let (Some(digest), Value::Object(members)) = (body.content_digest(), &mut material) {
        members.insert("contentDigest".to_owned(), Value::from(digest));
    }
    material
}

fn schema_material(schema: &SchemaRef) -> Value {
    match schema {
        SchemaRef::Inline { document } => json!({"_tag": "Inline", "document": document.document()}),
        SchemaRef::Absent => json!({"_tag": "Absent"}),
    }
}
