//! The flow `test` by its handler, with the suite's own exit code and a judge of it.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;

use flowcell_engines::harness::flows::capability::CapabilityPattern;
use flowcell_engines::harness::flows::decode::decode;
use flowcell_engines::harness::flows::rules::{Effect, Rule};
use flowcell_engines::harness::flows::test as flow;
use flowcell_engines::harness::host::judge::{ATTRIBUTION, EXECUTED};
use flowcell_engines::harness::host::process::ProcessOptions;
use flowcell_engines::harness::host::runner::Runner;
use flowcell_engines::harness::host::{Supervisor, TestHandler};
use flowcell_engines::harness::kernel::{
    Answer, Answers, Authority, CallContext, Evaluator, EvaluatorError, FileSystem, FsOptions, GrantStore,
    GrantStoreOptions, Handler, MemoryPersist, Question, SystemClock, SystemEntropy, Workspace, async_trait,
};
use flowcell_tests::flowcell;
use serde_json::{Value, json};

use super::project::Project;

/// A judge for whom every exit code speaks of the tree.
struct Tree;

#[async_trait]
impl Evaluator for Tree {
    async fn evaluate(&self, question: &Question) -> Result<Answers, EvaluatorError> {
        assert_ne!(question.state["exitCode"], json!(0), "success is not asked about");
        let choice = Answer::Choice { value: "tree".to_owned(), confidence: 0.9, evidence: None };
        let executed = Answer::Boolean { value: true, probability: 0.9, evidence: None };
        Ok([(ATTRIBUTION.to_owned(), choice), (EXECUTED.to_owned(), executed)].into())
    }
}

/// One call of `test`; `against` is `workspace` or `base`.
pub(super) fn test(project: &Project, against: &str) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let output = runtime.block_on(called(project, against));
    serde_json::to_value(output).unwrap()
}

async fn called(project: &Project, against: &str) -> flow::Output {
    let root = project.root().canonicalize().unwrap();
    let rule = |pattern: &str| Rule::new(Effect::Allow, CapabilityPattern::parse(pattern).unwrap());
    let mut options = GrantStoreOptions::new(root.clone(), Arc::new(MemoryPersist::new())).unattended();
    options.configured = vec![rule("fs:*:/**"), rule("proc:spawn:**")];
    let store = GrantStore::open(options).await.unwrap();
    let decl = flow::decl();
    let authority = Authority::root(store).attenuate_declared(&decl.capabilities).unwrap();
    let entropy = Arc::new(SystemEntropy::new().unwrap());
    let workspace = Workspace::open(&root).unwrap();
    let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let environment = BTreeMap::from([
        ("PATH".to_owned(), env::var("PATH").unwrap()),
        ("HOME".to_owned(), home.path().to_str().unwrap().to_owned()),
    ]);
    let cx = CallContext::new(files, Arc::new(SystemClock::new()), entropy).with_environment(environment);

    let runner = Runner {
        root: Some(".".to_owned()),
        env: project.environment.clone(),
        ..Runner::new(project.command.clone())
    };
    let supervisor = Some(Supervisor::new(flowcell().unwrap()));
    let handler = TestHandler::new(Some(Arc::new(runner)))
        .with_processes(ProcessOptions { supervisor, ..ProcessOptions::default() })
        .with_evaluator(Arc::new(Tree));
    let input = decode(&decl.input, &json!({"against": against})).unwrap();
    handler.run(&cx, input).await.unwrap()
}
