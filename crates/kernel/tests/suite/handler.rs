use std::sync::Arc;

use flowcell_kernel::flows::error::{Code, StdError};
use flowcell_kernel::flows::rules::Effect;
use flowcell_kernel::{
    CallContext, FsError, GrantStoreCode, GrantStoreError, Handler, HandlerError, PermissionDenied,
    PermissionError, SeededEntropy, SystemClock, async_trait,
};
use serde_json::json;

use crate::support::{Bench, cap};

/// Answers a file's length, as a file flow would map its failures (kernel contract 5.2).
struct Length;

#[async_trait]
impl Handler for Length {
    type Input = String;
    type Output = usize;

    async fn run(&self, cx: &CallContext, input: String) -> Result<usize, HandlerError> {
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        match cx.files.read(&input, 100).await {
            Ok((bytes, _)) => {
                cx.notes.put("bytes", json!(bytes.len()));
                Ok(bytes.len())
            }
            Err(FsError::Permission(PermissionError::Denied(denied))) => {
                Err(StdError::new(Code::PermissionDenied, denied.to_string()).with_path(input).into())
            }
            Err(FsError::Permission(other)) => Err(other.into()),
            Err(FsError::NotFound) => Err(StdError::new(Code::NotFound, "not found").with_path(input).into()),
            Err(other) => Err(StdError::new(Code::CommandFailed, other.to_string()).into()),
        }
    }
}

#[tokio::test]
async fn a_handler_works_through_its_context() {
    let bench = Bench::new();
    bench.put("a", "hello");
    let files = bench.files(&["allow fs:read:{ws}/**", "deny fs:read:{ws}/k", "ask fs:read:{ws}/q"]).await;
    let cx = CallContext::new(files, Arc::new(SystemClock::new()), Arc::new(SeededEntropy::new(3)));
    let run = async |path: &str| Length.run(&cx, path.to_owned()).await;
    assert_eq!(run("a").await.unwrap(), 5);
    assert_eq!(cx.notes.take()["bytes"], json!(5));
    assert!(matches!(run("k").await, Err(HandlerError::Flow(error)) if error.code == Code::PermissionDenied));
    assert!(matches!(run("none").await, Err(HandlerError::Flow(error)) if error.code == Code::NotFound));
    assert!(matches!(run("q").await, Err(HandlerError::Permission(PermissionError::Required(_)))));
    // Under another authority the same file system reaches less.
    let narrowed = cx.files.with_authority(cx.authority.attenuate(&[]));
    assert!(narrowed.read("a", 9).await.unwrap_err().is_denied());
    // An answer of once reaches the file system and what the handler asks itself; the original is as it was.
    let once = cap(&format!("fs:read:{}/q", cx.workspace.logical()));
    let admitted = cx.clone().admitting(vec![once.clone()]);
    assert_eq!(Length.run(&admitted, "q".to_owned()).await.unwrap_err().to_string(), "not found");
    assert_eq!(admitted.authority.decide(&once), Effect::Allow);
    assert_eq!(admitted.files.authority().decide(&once), Effect::Allow);
    assert_eq!(cx.authority.decide(&once), Effect::Ask);
    let shut = cx.clone().with_authority(cx.authority.attenuate(&[]));
    assert_eq!(shut.authority.decide(&once), Effect::Deny);
    assert!(shut.files.read("a", 9).await.unwrap_err().is_denied());
    let shown = format!("{cx:?}");
    assert!(shown.starts_with("CallContext {") && shown.contains("cancelled: false"), "{shown}");
    cx.authority.store().close();
    assert!(matches!(run("a").await, Err(HandlerError::Permission(PermissionError::Store(_)))));
    cx.cancel.cancel();
    assert!(matches!(run("a").await, Err(HandlerError::Cancelled)));
}

#[test]
fn errors_become_a_handler_s() {
    let denied = PermissionDenied::new(cap("fs:read:/a"), "denied by policy");
    assert!(matches!(denied.into(), HandlerError::Permission(PermissionError::Denied(_))));
    let store = GrantStoreError { code: GrantStoreCode::StoreClosed, message: None };
    let error = HandlerError::from(store.clone());
    assert_eq!(error.to_string(), "grant store store_closed");
    assert!(matches!(FsError::from(store), FsError::Permission(PermissionError::Store(_))));
    assert_eq!(HandlerError::Cancelled.to_string(), "cancelled");
}
