//! `update_plan`: host contract 7. And what every handler of the crate has.

use flowcell_host::kernel::flows::Manifest;
use flowcell_host::kernel::flows::decode::decode;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::update_plan::{Input, Step, StepStatus, decl};
use flowcell_host::kernel::{Handler as _, flows::canonical};
use flowcell_host::{SOURCES, UpdatePlanHandler};
use serde_json::json;

use crate::support::{Fixture, failure};

#[tokio::test]
async fn a_plan_is_acknowledged() {
    let fixture = Fixture::with_rules(&[]);
    for input in [
        json!({"plan": []}),
        json!({"plan": [{"step": "a", "status": "in_progress"}, {"step": "b", "status": "pending"}]}),
        json!({"explanation": "why", "plan": [{"step": "a", "status": "completed"}]}),
    ] {
        let output = fixture.call(UpdatePlanHandler, decl(), input).await.unwrap();
        assert_eq!(serde_json::to_value(output).unwrap(), json!({"output": "Plan updated"}));
    }
}

#[tokio::test]
async fn one_step_at_most_is_in_progress() {
    let two =
        json!({"plan": [{"step": "a", "status": "in_progress"}, {"step": "b", "status": "in_progress"}]});
    let error = decode::<Input>(&decl().input, &two).unwrap_err();
    assert_eq!(error.issues.iter().map(|issue| issue.path.as_str()).collect::<Vec<_>>(), ["plan"]);

    let fixture = Fixture::with_rules(&[]);
    let step = |step: &str| Step { step: step.to_owned(), status: StepStatus::InProgress };
    let cx = fixture.context(fixture.store().await, &decl());
    let input = Input { explanation: None, plan: vec![step("a"), step("b")] };
    assert_eq!(failure(UpdatePlanHandler.run(&cx, input).await).code, Code::InvalidInput);
}

#[test]
fn every_source_is_of_a_flow_with_a_handler() {
    let names: Vec<_> = SOURCES.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["apply_patch", "bash", "edit", "ls", "read", "shell_command", "test", "update_plan", "write"]
    );
    let mut digests: Vec<_> = SOURCES.iter().map(|(_, source)| canonical::sha256_hex(source)).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), names.len());
    assert!(names.iter().all(|name| Manifest::standard().handler_names().contains(name)));
}
