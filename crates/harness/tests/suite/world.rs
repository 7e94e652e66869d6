//! A host with services over a temporary workspace, for tests of bindings and calls.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flowcell_harness::binding::{Binding, Body, BodyError, Flow, Invocation};
use flowcell_harness::engine::{BodyResult, Call, Dispatch};
use flowcell_harness::error::Escape;
use flowcell_harness::flows::canonical;
use flowcell_harness::flows::capability::CapabilityPattern;
use flowcell_harness::flows::descriptor::Declared;
use flowcell_harness::flows::effects::{Effects, Tier};
use flowcell_harness::flows::rules::{Effect, Rule};
use flowcell_harness::flows::schema::SchemaDoc;
use flowcell_harness::kernel::{
    Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SeededEntropy,
    SystemClock, Workspace,
};
use flowcell_harness::keys::CallIdentity;
use flowcell_harness::services::Services;
use serde_json::{Value, json};

pub async fn services(root: &std::path::Path, rules: &[(Effect, &str)]) -> Services {
    let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new())).unattended();
    options.configured = rules
        .iter()
        .map(|(effect, pattern)| Rule {
            effect: *effect,
            pattern: CapabilityPattern::parse(pattern).unwrap(),
        })
        .collect();
    let authority = Authority::root(GrantStore::open(options).await.unwrap());
    let workspace = Workspace::open(root).unwrap();
    let entropy = Arc::new(SeededEntropy::new(7));
    let files =
        FileSystem::new(authority, workspace, FsOptions::default(), Arc::clone(&entropy) as _).unwrap();
    Services::new(files, Arc::new(SystemClock::new()), entropy)
}

pub fn declared(name: &str, input: Value, output: Value) -> Declared {
    Declared {
        name: name.into(),
        description: "Do one thing.".into(),
        input: SchemaDoc::from_document(input),
        output: SchemaDoc::from_document(output),
        effects: Effects::undeclared(),
        capabilities: vec![],
        flows: vec![],
        model: None,
    }
}

/// A body made of a closure.
pub struct Answer<F>(pub F);

#[async_trait]
impl<F: Fn(Value) -> Result<Value, BodyError> + Send + Sync> Body for Answer<F> {
    async fn answer(&self, _invocation: Invocation<'_>, input: Value) -> Result<Value, BodyError> {
        tokio::time::sleep(Duration::ZERO).await;
        (self.0)(input)
    }
}

pub fn binding(
    flow: impl Into<Flow>,
    answer: impl Fn(Value) -> Result<Value, BodyError> + Send + Sync + 'static,
) -> Binding {
    Binding::of_body(flow, b"source", Arc::new(Answer(answer)))
}

pub fn echo(name: &str) -> Binding {
    binding(declared(name, json!({}), json!({})), Ok)
}

pub fn call(flow: &str, input: Value, declaration: &str) -> Call {
    Call {
        identity: CallIdentity {
            session: "s".into(),
            frame: 0,
            cell: canonical::sha256_hex(b"cell"),
            ordinal: 0,
            declaration: declaration.into(),
            layers: vec![],
        },
        flow: flow.into(),
        input,
        at: None,
        tier: Tier::Irreversible,
        key: "key1_0".into(),
        idempotent: false,
        terminal: false,
    }
}

pub async fn run(
    calls: &flowcell_harness::calls::CellCalls,
    call: &Call,
    services: &Services,
) -> Result<BodyResult, Escape> {
    calls.run(call, Dispatch { attempt: 1, admitted: vec![] }, services).await
}
