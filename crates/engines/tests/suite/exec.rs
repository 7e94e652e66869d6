//! What the controller does with calls that do not simply settle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flowcell_engines::harness::binding::{Binding, Body, BodyError, Invocation};
use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::catalog::Catalog;
use flowcell_engines::harness::error::SuspendCode;
use flowcell_engines::harness::exec::{
    CellText, ExecKind, ExecParams, Host, Unobserved, resume, spec, start,
};
use flowcell_engines::harness::extract::StopReason;
use flowcell_engines::harness::flows::capability::Capability;
use flowcell_engines::harness::flows::descriptor::Declared;
use flowcell_engines::harness::flows::effects::Effects;
use flowcell_engines::harness::flows::schema::SchemaDoc;
use flowcell_engines::harness::kernel::{
    Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, PermissionDenied,
    PermissionError, SeededEntropy, SystemClock, Workspace,
};
use flowcell_engines::harness::realm::Limits;
use flowcell_engines::harness::report::{ReportStatus, RunReport};
use flowcell_engines::harness::services::Services;
use flowcell_engines::memory::Memory;
use serde_json::{Value, json};

use crate::world::{options, owner, run};

struct Denied;

#[async_trait]
impl Body for Denied {
    async fn answer(&self, _invocation: Invocation<'_>, _input: Value) -> Result<Value, BodyError> {
        let capability = Capability::parse("net:get:example.com").unwrap();
        let denied = PermissionDenied::new(capability, "denied by policy");
        Err(BodyError::Permission(PermissionError::Denied(denied)))
    }
}

struct Slow;

#[async_trait]
impl Body for Slow {
    async fn answer(&self, _invocation: Invocation<'_>, _input: Value) -> Result<Value, BodyError> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(json!("done"))
    }
}

fn binding(name: &str, input: Value, body: Arc<dyn Body>) -> Binding {
    let declared = Declared {
        name: name.into(),
        description: "Do one thing.".into(),
        input: SchemaDoc::from_document(input),
        output: SchemaDoc::from_document(json!({})),
        effects: Effects::undeclared(),
        capabilities: vec![],
        flows: vec![],
        model: None,
    };
    Binding::of_body(declared, b"source", body)
}

/// One cell on the memory engine: its report, and that of taking the run up again.
async fn twice(bindings: Vec<Binding>, limits: Limits, cell: &str) -> (RunReport, RunReport) {
    let root = tempfile::tempdir().unwrap();
    let store = GrantStoreOptions::new(root.path(), Arc::new(MemoryPersist::new())).unattended();
    let authority = Authority::root(GrantStore::open(store).await.unwrap());
    let workspace = Workspace::open(root.path()).unwrap();
    let entropy = Arc::new(SeededEntropy::new(1));
    let files =
        FileSystem::new(authority, workspace, FsOptions::default(), Arc::clone(&entropy) as _).unwrap();
    let services = Services::new(files, Arc::new(SystemClock::new()), entropy);
    let calls = CellCalls::of_catalog(Catalog::of(bindings).unwrap());
    let host = Host { calls: &calls, services: &services, observer: &Unobserved };
    let params = ExecParams {
        kind: ExecKind::Exec,
        cells: vec![CellText { name: "cell".into(), text: cell.into() }],
        reply: false,
        stop: StopReason::End,
        checkpoints: false,
    };
    let store = Memory::new().open(options());
    let first =
        start(&store, spec(run("r"), &params, limits, &calls).unwrap(), owner(1), &host).await.unwrap();
    let second = resume(&store, &run("r"), owner(1), &host).await.unwrap();
    (first, second)
}

#[tokio::test]
async fn a_denial_that_a_handler_passes_on_suspends_the_run() {
    let flow = binding("gate", json!({}), Arc::new(Denied));
    let (first, second) =
        twice(vec![flow], Limits::default(), "ctx.done(await ctx.call('gate', {n: 1}))").await;
    for report in [first, second] {
        assert_eq!(report.status, ReportStatus::Suspended);
        let suspended = report.suspended.unwrap();
        assert_eq!((suspended.reason, suspended.request), (SuspendCode::PermissionRequired, None));
        let error = report.error.unwrap();
        assert_eq!(error.code, "permission_denied");
        assert!(error.message.contains("net:get:example.com"), "{}", error.message);
        let parked = report.parked.unwrap();
        assert_eq!((parked.ordinal, parked.flow.as_str(), parked.input), (0, "gate", json!({"n": 1})));
    }
}

#[tokio::test]
async fn a_ceiling_never_undercuts_the_timeout_that_a_flow_declares() {
    let with = json!({"type": "object", "properties": {"timeoutMs": {"type": "number"}}});
    let seconds = json!({"type": "object", "properties": {"timeout": {"type": "number"}}});
    let flows = vec![
        binding("ms", with.clone(), Arc::new(Slow)),
        binding("union", json!({"anyOf": [with, {}]}), Arc::new(Slow)),
        binding("seconds", seconds, Arc::new(Slow)),
        binding("none", json!({}), Arc::new(Slow)),
    ];
    let limits = Limits { call_ms: 40, ..Limits::default() };
    let cell = "const say = async (name, input) => { const r = await ctx.call(name, input); return r.ok === false ? \
                r.error.code + ': ' + r.error.message : r; }; ctx.done([await say('ms', {timeoutMs: 300}), await \
                say('union', {timeoutMs: 300}), await say('seconds', {timeout: 1}), await say('ms', {}), await \
                say('ms', {timeoutMs: -1}), await say('none', {timeoutMs: 300, timeout: 9})]);";
    let (report, _) = twice(flows, limits, cell).await;
    let cut = |name: &str| format!("timeout: Flow {name} timed out after 0.04 seconds.");
    assert_eq!(report.output, Some(json!(["done", "done", "done", cut("ms"), cut("ms"), cut("none")])));
}
