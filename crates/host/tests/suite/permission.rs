//! What a refusal, a requirement and a closed store come to: kernel contract 5.2.

use flowcell_host::kernel::flows::capability::{Action, Capability};
use flowcell_host::kernel::flows::edit;
use flowcell_host::kernel::flows::error::Code;
use flowcell_host::kernel::flows::rules::Effect;
use flowcell_host::kernel::flows::write::{self, Input};
use flowcell_host::kernel::{Handler as _, HandlerError, PermissionError};
use flowcell_host::{EditHandler, WriteHandler};
use serde_json::json;

use crate::support::{Fixture, Result, code};

const ALL: [(Effect, &str); 2] = [(Effect::Allow, "fs:read:/**"), (Effect::Allow, "fs:write:/**")];

#[track_caller]
fn required<T: std::fmt::Debug>(result: Result<T>) -> Capability {
    match result {
        Err(HandlerError::Permission(PermissionError::Required(required))) => required.capability,
        other => panic!("no requirement: {other:?}"),
    }
}

fn fixture(more: &[(Effect, &str)]) -> Fixture {
    let fixture = Fixture::with_rules(&[&ALL[..], more].concat());
    fixture.put("k/f", "secret\n");
    fixture
}

#[tokio::test]
async fn a_denial_is_an_answer_with_the_path() {
    let fixture = fixture(&[(Effect::Deny, "*:{root}/k/**"), (Effect::Deny, "*:{root}/k")]);
    fixture.link("k/f", "l");
    for path in ["k/f", "./k/f", "k/none", "l"] {
        assert_eq!(code(path, fixture.read(json!({"path": path})).await), Code::PermissionDenied);
        assert_eq!(code(path, fixture.write(path, "x").await), Code::PermissionDenied);
        let input = json!({"path": path, "oldString": "secret", "newString": "x"});
        assert_eq!(code(path, fixture.edit(input).await), Code::PermissionDenied);
    }
    for path in ["k", "k/f", "k/none"] {
        assert_eq!(code(path, fixture.ls(json!({"path": path})).await), Code::PermissionDenied);
    }
    assert_eq!(fixture.text("k/f"), "secret\n");
    assert_eq!(fixture.names("k"), ["f"]);
}

/// The code stands beside the message; the message does not say it again.
#[tokio::test]
async fn a_denial_is_worded_once() {
    let fixture = fixture(&[(Effect::Deny, "*:{root}/k/**"), (Effect::Deny, "*:{root}/k")]);
    let root = fixture.path("k");
    let root = root.to_str().unwrap();
    let message = |result: Result<()>| match result {
        Err(HandlerError::Flow(error)) => error.message,
        other => panic!("no failure: {other:?}"),
    };
    let read = fixture.read(json!({"path": "k/f"})).await.map(drop);
    assert_eq!(message(read), format!("Cannot read k/f: fs:read:{root}/f: denied by policy."));
    let write = fixture.write("k/f", "x").await.map(drop);
    assert_eq!(message(write), format!("Cannot write k/f: fs:write:{root}/f: denied by policy."));
    let ls = fixture.ls(json!({"path": "k"})).await.map(drop);
    assert_eq!(message(ls), format!("Cannot read k: fs:read:{root}: denied by policy."));
}

#[tokio::test]
async fn a_denied_write_leaves_the_read_of_an_edit() {
    let fixture = fixture(&[(Effect::Deny, "fs:write:{root}/k/**")]);
    assert!(fixture.read(json!({"path": "k/f"})).await.is_ok());
    let input = json!({"path": "k/f", "oldString": "secret", "newString": "x"});
    assert_eq!(code("k/f", fixture.edit(input).await), Code::PermissionDenied);
    assert_eq!(fixture.text("k/f"), "secret\n");
}

#[tokio::test]
async fn a_requirement_leaves_the_handler_as_it_is() {
    let fixture = fixture(&[(Effect::Ask, "*:{root}/k/**"), (Effect::Ask, "*:{root}/k")]);
    let file = fixture.path("k/f");
    let file = file.to_str().unwrap();
    let read = Capability::new(Action::FsRead, file).unwrap();
    let write = Capability::new(Action::FsWrite, file).unwrap();
    assert_eq!(required(fixture.read(json!({"path": "k/f"})).await), read);
    assert_eq!(required(fixture.write("k/f", "x").await), write);
    let input = json!({"path": "k/f", "oldString": "secret", "newString": "x"});
    assert_eq!(required(fixture.edit(input).await), read);
    let dir = Capability::new(Action::FsRead, fixture.path("k").to_str().unwrap()).unwrap();
    assert_eq!(required(fixture.ls(json!({"path": "k"})).await), dir);
    assert_eq!(fixture.text("k/f"), "secret\n");
}

/// What a person answered once serves the whole call, however often the handler asks in it.
#[tokio::test]
async fn an_answer_for_once_serves_one_call() {
    let fixture = Fixture::with_rules(&[]);
    fixture.put("f", "a\n");
    let file = fixture.path("f");
    let once = [Action::FsRead, Action::FsWrite]
        .map(|action| Capability::new(action, file.to_str().unwrap()).unwrap());
    let store = fixture.store().await;
    let cx = fixture.context(store.clone(), &edit::decl()).admitting(once.to_vec());
    let input = edit::Input {
        path: "f".to_owned(),
        old_string: Some("a".to_owned()),
        new_string: "b".to_owned(),
        ..edit::Input::default()
    };
    EditHandler.run(&cx, input).await.unwrap();
    assert_eq!(fixture.text("f"), "b\n");
    assert!(store.list().is_empty());
}

#[tokio::test]
async fn a_grant_for_the_path_alone_is_enough_to_write() {
    let fixture = Fixture::with_rules(&[(Effect::Allow, "fs:write:{root}/new/deep/f")]);
    let output = fixture.write("new/deep/f", "x").await.unwrap();
    assert!(output.created);
    assert_eq!(fixture.names("new/deep"), ["f"]);
}

#[tokio::test]
async fn a_closed_store_is_no_denial() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
    let cx = fixture.context(store.clone(), &write::decl());
    store.close();
    let input = Input { path: "f".to_owned(), content: "x".to_owned() };
    let error = WriteHandler.run(&cx, input).await.unwrap_err();
    assert!(matches!(error, HandlerError::Permission(PermissionError::Store(_))), "{error:?}");
    assert!(!fixture.path("f").exists());
}
