//! Bindings, catalog, registry and the resolution of calls (harness contract 11, kernel contract 10).

use std::sync::Arc;

use async_trait::async_trait;
use flowcell_harness::HarnessCode;
use flowcell_harness::binding::{BodyError, Flow};
use flowcell_harness::calls::{CellCalls, Implementation, PromptRunner};
use flowcell_harness::catalog::{Catalog, Fixed, Source};
use flowcell_harness::engine::Call;
use flowcell_harness::error::{Escape, HarnessError};
use flowcell_harness::failure::{CallFailureCode, CallOutcome};
use flowcell_harness::flows::capability::Capability;
use flowcell_harness::flows::descriptor::{Body, FlowDescriptor, declaration_digest};
use flowcell_harness::flows::error::{Code, StdError};
use flowcell_harness::flows::rules::Effect;
use flowcell_harness::kernel::{CallContext, PermissionDenied, PermissionError};
use flowcell_harness::mock::mocks;
use flowcell_harness::registry::{
    self, FixedRegistry, Registry, RegistryCode, RegistryError, Warning, disclose,
};
use flowcell_harness::standard;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::world::{binding, call, declared, echo, run, services};

fn failure(outcome: CallOutcome) -> (CallFailureCode, String, Option<String>) {
    match outcome {
        CallOutcome::Failure(failure) => (failure.code, failure.message, failure.flow_code),
        CallOutcome::Success(value) => panic!("succeeded with {value}"),
    }
}

async fn settle(of: flowcell_harness::binding::Binding, input: Value) -> CallOutcome {
    let root = tempdir().unwrap();
    let services = services(root.path(), &[]).await;
    let call = call(of.name(), input, of.digest());
    run(&CellCalls::of_catalog(Catalog::of(vec![of]).unwrap()), &call, &services).await.unwrap().outcome
}

#[tokio::test]
async fn an_ordinary_failure_discloses_nothing() {
    let fails = |_| Err(BodyError::Flow(StdError::new(Code::CommandFailed, "secret /ws/key")));
    let flow = declared("f", json!({}), json!({}));
    let opaque = (CallFailureCode::FlowFailed, "Flow f failed.".to_owned(), None);
    assert_eq!(failure(settle(binding(flow.clone(), fails), json!(1)).await), opaque);
    let silent: [flowcell_harness::binding::PublicError; 3] =
        [Arc::new(|_| None), Arc::new(|_| Some("  ".into())), Arc::new(|_| panic!("in the renderer"))];
    for render in silent {
        let of = binding(flow.clone(), fails).with_public_error(render);
        assert_eq!(failure(settle(of, json!(1)).await), opaque);
    }
    let told =
        binding(flow.clone(), fails).with_public_error(Arc::new(|error| Some(error.message.to_uppercase())));
    let said =
        (CallFailureCode::FlowFailed, "command_failed: SECRET /WS/KEY".into(), Some("command_failed".into()));
    assert_eq!(failure(settle(told, json!(1)).await), said);
    let panics = binding(flow, |_| panic!("in the handler"));
    assert_eq!(failure(settle(panics, json!(1)).await), opaque);
}

#[tokio::test]
async fn a_disclosed_message_is_cut_to_four_kibibytes() {
    let long = binding(declared("f", json!({}), json!({})), |_| {
        Err(BodyError::Flow(StdError::new(Code::NoMatch, "é".repeat(5_000))))
    })
    .with_public_error(Arc::new(|error| Some(error.message.clone())));
    let (_, message, _) = failure(settle(long, json!(1)).await);
    assert!(message.len() <= 4096 && message.starts_with("no_match: é"), "{}", message.len());
}

#[tokio::test]
async fn standard_handlers_decode_their_input_and_word_their_failures() {
    let root = tempdir().unwrap();
    std::fs::write(root.path().join("a"), "x\n").unwrap();
    let services =
        services(root.path(), &[(Effect::Allow, &format!("fs:read:{}/**", root.path().display()))]).await;
    let calls = CellCalls::of_catalog(Catalog::of(standard::bindings().unwrap()).unwrap());
    let ask = |name: &str, input: Value| {
        let digest = calls.catalog().get(name).unwrap().digest().to_owned();
        call(name, input, &digest)
    };
    let read = run(&calls, &ask("read", json!({"path": "a", "limit": null, "surplus": 1})), &services)
        .await
        .unwrap();
    let CallOutcome::Success(page) = read.outcome else { panic!("{read:?}") };
    assert_eq!(page["content"], "x");
    let wrong = run(&calls, &ask("read", json!({"path": 1})), &services).await.unwrap().outcome;
    let (code, message, flow_code) = failure(wrong);
    assert_eq!((code, flow_code), (CallFailureCode::InvalidInput, None));
    assert!(message.contains("path"), "{message}");
    let missing = run(&calls, &ask("read", json!({"path": "b"})), &services).await.unwrap().outcome;
    let (code, message, flow_code) = failure(missing);
    assert_eq!((code, flow_code.as_deref()), (CallFailureCode::FlowFailed, Some("not_found")));
    assert!(message.starts_with("not_found: File not found: b."), "{message}");
    let parked = run(&calls, &ask("write", json!({"path": "b", "content": ""})), &services).await;
    let Err(Escape::Permission(required)) = parked else { panic!("{parked:?}") };
    assert_eq!(required.capability.to_string(), format!("fs:write:{}/b", root.path().display()));
    assert!(!root.path().join("b").exists());
}

#[tokio::test]
async fn kernel_refusals_that_a_body_passes_on_escape() {
    let denied = || {
        Err(BodyError::Permission(PermissionError::Denied(PermissionDenied::new(
            Capability::parse("fs:read:/ws/a").unwrap(),
            "denied by policy",
        ))))
    };
    type Fails = Box<dyn Fn() -> Result<Value, BodyError> + Send + Sync>;
    let cases: [(Fails, &str); 3] = [
        (Box::new(denied), "suspended"),
        (Box::new(|| Err(BodyError::Harness(HarnessError::engine("x")))), "engine_failed"),
        (Box::new(|| Err(BodyError::Cancelled)), "aborted"),
    ];
    for (answer, expected) in cases {
        let root = tempdir().unwrap();
        let services = services(root.path(), &[]).await;
        let of = binding(declared("f", json!({}), json!({})), move |_| answer());
        let call = call("f", json!(1), of.digest());
        let escape =
            run(&CellCalls::of_catalog(Catalog::of(vec![of]).unwrap()), &call, &services).await.unwrap_err();
        match (expected, escape) {
            ("aborted", Escape::Aborted) => {}
            (code, Escape::Harness(error)) => assert_eq!(error.code.as_str(), code),
            (code, other) => panic!("{code}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_catalog_holds_each_name_once() {
    let failed = |bindings| Catalog::of(bindings).unwrap_err();
    let empty = failed(vec![echo("")]);
    let twice = failed(vec![echo("a"), echo("b"), echo("a")]);
    assert_eq!((empty.code, twice.code), (HarnessCode::AssemblyFailed, HarnessCode::AssemblyFailed));
    assert_ne!(empty.message, twice.message);
    let marked = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    assert_eq!(failed(vec![binding(declared("f", json!({}), marked), Ok)]).code, HarnessCode::AssemblyFailed);
    let one = Fixed::new("one", vec![echo("a")]);
    let two = Fixed::new("two", vec![echo("b")]);
    let catalog = Catalog::compose(&[&one, &two]).await.unwrap();
    assert_eq!(catalog.entries().iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(two.name(), "two");
    assert_eq!(Catalog::compose(&[&one, &one]).await.unwrap_err().code, HarnessCode::AssemblyFailed);
}

fn hidden(name: &str) -> FlowDescriptor {
    let mut entry = FlowDescriptor::dynamic(declared(name, json!({}), json!({})));
    entry.model_invocable = false;
    entry
}

#[tokio::test]
async fn the_base_of_a_registry_keeps_its_names() {
    let base =
        FixedRegistry::new([hidden("a"), FlowDescriptor::dynamic(declared("b", json!({}), json!({})))]);
    let catalog = Catalog::of(vec![echo("a"), echo("c")]).unwrap();
    let disclosed = disclose(Arc::new(base), &catalog);
    let names =
        |entries: Vec<Arc<FlowDescriptor>>| entries.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(disclosed.list()), ["a", "b", "c"]);
    assert_eq!(names(disclosed.visible()), ["b", "c"]);
    assert_eq!(
        disclosed.warnings().iter().map(|w| (w.code.as_str(), w.name.as_str())).collect::<Vec<_>>(),
        [("duplicate_name", "a")]
    );
    assert_eq!(disclosed.get("zz").unwrap_err().code, RegistryCode::NotFound);
    assert_eq!(disclosed.load_body("b").await.unwrap_err().code, RegistryCode::BodyUnavailable);
    assert_eq!(disclosed.render_prompt("b", &json!({})).await.unwrap_err().code, RegistryCode::NotPromptFlow);
    assert_eq!(disclosed.load_body("zz").await.unwrap_err().code, RegistryCode::NotFound);
    disclosed.refresh().await.unwrap();
}

#[test]
fn a_registry_is_shown_as_escaped_text() {
    let mut entry = FlowDescriptor::dynamic(declared("a<b", json!({}), json!({})));
    entry.description = "Say \"x\" & 'y' > z.".into();
    let registry = FixedRegistry::new([entry, hidden("h")]);
    assert_eq!(
        registry::xml(&registry),
        "<available_skills>\n<skill><name>a&lt;b</name><description>Say &quot;x&quot; &amp; &apos;y&apos; &gt; \
         z.</description></skill>\n</available_skills>"
    );
    assert_eq!(registry::xml(&FixedRegistry::default()), "<available_skills>\n</available_skills>");
}

#[tokio::test]
async fn a_call_is_resolved_in_the_contracts_order() {
    let root = tempdir().unwrap();
    let services = services(root.path(), &[]).await;
    let bound = echo("bound");
    let bare = FlowDescriptor::dynamic(declared("bare", json!({}), json!({})));
    let mut page = bare.clone();
    page.name = "page".into();
    page.body = Body::Markdown { path: "p.md".into(), content_digest: None };
    let base = Pages(FixedRegistry::new([bare.clone(), hidden("hidden"), page.clone()]));
    let catalog = Catalog::of(vec![bound.clone()]).unwrap();
    let registry: Arc<dyn Registry> = Arc::new(disclose(Arc::new(base), &catalog));
    let calls = CellCalls::new(registry, catalog);
    let refused = async |calls: &CellCalls, name: &str, input: Value, digest: &str| {
        failure(run(calls, &call(name, input, digest), &services).await.unwrap().outcome).0
    };
    let digest = |entry: &FlowDescriptor| declaration_digest(entry);
    assert_eq!(refused(&calls, "nothing", json!(1), "").await, CallFailureCode::UnknownFlow);
    assert_eq!(
        refused(&calls, "hidden", json!(1), &digest(&hidden("hidden"))).await,
        CallFailureCode::CapabilityRefused
    );
    assert_eq!(refused(&calls, "bound", json!(1), "another").await, CallFailureCode::DeclarationChanged);
    assert_eq!(refused(&calls, "bare", json!(1), &digest(&bare)).await, CallFailureCode::Unimplemented);
    assert_eq!(
        refused(&calls, "page", json!({"args": 1}), &digest(&page)).await,
        CallFailureCode::InvalidInput
    );
    assert_eq!(
        refused(&calls, "page", json!({"args": "x"}), &digest(&page)).await,
        CallFailureCode::Unimplemented
    );
    let answered = run(&calls, &call("bound", json!({"n": 1}), bound.digest()), &services).await.unwrap();
    assert_eq!(answered.outcome, CallOutcome::Success(json!({"n": 1})));

    let calls = calls.with_implementation("bare", Arc::new(Shout)).with_prompts(Arc::new(Shout));
    let bare_call = run(&calls, &call("bare", json!("x"), &digest(&bare)), &services).await.unwrap();
    assert_eq!(bare_call.outcome, CallOutcome::Success(json!("bare!")));
    let prompt = run(&calls, &call("page", json!({"args": "x"}), &digest(&page)), &services).await.unwrap();
    assert_eq!(prompt.outcome, CallOutcome::Success(json!("page says x")));
    let unread = run(&calls, &call("page", json!({"args": "unreadable"}), &digest(&page)), &services).await;
    let Err(Escape::Harness(error)) = unread else { panic!("{unread:?}") };
    assert_eq!(error.code, HarnessCode::EngineFailed);
}

#[test]
fn a_binding_that_is_not_the_disclosed_declaration_is_not_keyed_on() {
    let mut flow = Flow::from(declared("f", json!({}), json!({})));
    flow.model_invocable = true;
    let calls = CellCalls::of_catalog(Catalog::of(vec![binding(flow, Ok).idempotent()]).unwrap());
    assert!(calls.identify("f", &json!(1)).idempotent);
    assert!(calls.identify("g", &json!(1)).declaration.is_empty());
}

struct Shout;

#[async_trait]
impl Implementation for Shout {
    async fn run(&self, call: &Call, _context: &CallContext) -> Result<CallOutcome, Escape> {
        Ok(CallOutcome::Success(json!(format!("{}!", call.flow))))
    }
}

#[async_trait]
impl PromptRunner for Shout {
    async fn run(&self, _call: &Call, prompt: String, _context: &CallContext) -> Result<CallOutcome, Escape> {
        Ok(CallOutcome::Success(json!(prompt)))
    }
}

/// A registry whose pages render to their name and arguments.
struct Pages(FixedRegistry);

#[async_trait]
impl Registry for Pages {
    fn list(&self) -> Vec<Arc<FlowDescriptor>> {
        self.0.list()
    }
    fn get_option(&self, name: &str) -> Option<Arc<FlowDescriptor>> {
        self.0.get_option(name)
    }
    fn warnings(&self) -> Vec<Warning> {
        self.0.warnings()
    }
    async fn load_body(&self, name: &str) -> Result<String, RegistryError> {
        self.0.load_body(name).await
    }
    async fn render_prompt(&self, name: &str, arguments: &Value) -> Result<String, RegistryError> {
        match arguments["args"].as_str() {
            Some("unreadable") => Err(RegistryError::new(RegistryCode::BodyUnavailable, "gone")),
            args => Ok(format!("{name} says {}", args.unwrap_or_default())),
        }
    }
    async fn refresh(&self) -> Result<(), RegistryError> {
        self.0.refresh().await
    }
}

#[test]
fn a_mock_document_is_checked_whole() {
    for (document, says) in [
        (json!([]), "not a JSON object"),
        (json!({"a": {"retuns": 1}}), "unknown field"),
        (json!({"a": {"returns": 1, "ident": true}}), "more than one answer"),
        (json!({"a": {"code": "no_match"}}), "goes with"),
        (json!({"a": {"fails": "x", "code": "no_such"}}), "unknown variant"),
        (json!({"a": {"permission": "fs:lick:/ws"}}), "not a capability"),
        (json!({"a": {"delay_ms": 3_600_001}}), "delay_ms"),
        (json!({"a": {"tier": "holy"}}), "unknown variant"),
    ] {
        let error = mocks(&document).unwrap_err();
        assert!(error.to_string().contains(says), "{document}: {error}");
    }
}

#[tokio::test]
async fn mocks_answer_as_their_document_says() {
    let root = tempdir().unwrap();
    let counter = root.path().join("n");
    let services =
        services(root.path(), &[(Effect::Deny, "net:get:**"), (Effect::Allow, "net:post:a")]).await;
    let document = json!({
        "ident": {"ident": true, "tier": "sealed"},
        "value": {"returns": {"a": null}},
        "null": {"returns": null},
        "count": {"counter": counter.to_str().unwrap(), "delay_ms": 1},
        "opaque": {"fails": "secret"},
        "coded": {"fails": "told", "code": "no_match"},
        "strict": {"ident": true, "input": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
        "denied": {"permission": "net:get:a"},
        "granted": {"permission": "net:post:a"},
        "asked": {"permission": "net:post:b"},
        "engine": {"engine_error": true},
    });
    let calls = CellCalls::of_catalog(Catalog::of(mocks(&document).unwrap()).unwrap());
    let ask = async |name: &str, input: Value| {
        let digest = calls.catalog().get(name).unwrap().digest().to_owned();
        run(&calls, &call(name, input, &digest), &services).await
    };
    let value = async |name: &str, input: Value| match ask(name, input).await.unwrap().outcome {
        CallOutcome::Success(value) => value,
        CallOutcome::Failure(failure) => json!([failure.code, failure.message]),
    };
    assert_eq!(value("ident", json!({"x": [1]})).await, json!({"x": [1]}));
    assert_eq!(value("value", json!(1)).await, json!({"a": null}));
    assert_eq!(value("null", json!(1)).await, json!(null));
    assert_eq!(value("count", json!(1)).await, json!({"n": 1}));
    assert_eq!(value("count", json!(1)).await, json!({"n": 2}));
    assert_eq!(value("opaque", json!(1)).await, json!(["flow_failed", "Flow opaque failed."]));
    assert_eq!(value("coded", json!(1)).await, json!(["flow_failed", "no_match: told"]));
    assert_eq!(value("strict", json!({"n": "1"})).await[0], json!("invalid_input"));
    assert_eq!(value("denied", json!(1)).await[0], json!("capability_refused"));
    assert_eq!(value("granted", json!(1)).await, json!({"granted": true}));
    assert!(matches!(ask("asked", json!(1)).await, Err(Escape::Permission(_))));
    assert!(
        matches!(ask("engine", json!(1)).await, Err(Escape::Harness(error)) if error.code == HarnessCode::EngineFailed)
    );
}
