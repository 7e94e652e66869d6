//! The handlers: JSON in, JSON out (search contract 1).

use crate::support::{Place, block_on, failure, tree_t};
use async_trait::async_trait;
use flowcell_kernel::flows::error::{Code, StdError};
use flowcell_kernel::flows::{glob, grep};
use flowcell_kernel::{CallContext, Handler, HandlerError};
use flowcell_search::{GlobAnswer, GlobHandler, GlobQuery, GrepAnswer, GrepHandler, GrepQuery, Search};
use serde_json::{Value, json};
use std::sync::Arc;

fn run_grep(place: &Place, input: Value) -> Result<Value, StdError> {
    let input: grep::Input = serde_json::from_value(input).unwrap();
    let output = block_on(GrepHandler::default().run(&place.cx, input)).map_err(failure)?;
    Ok(serde_json::to_value(output).unwrap())
}

fn run_glob(place: &Place, input: Value) -> Result<Value, StdError> {
    let input: glob::Input = serde_json::from_value(input).unwrap();
    let output = block_on(GlobHandler::default().run(&place.cx, input)).map_err(failure)?;
    Ok(serde_json::to_value(output).unwrap())
}

#[test]
fn grep_in_json() {
    let place = tree_t();
    let input = json!({"pattern": "needle = ", "afterContext": 1, "globs": ["*.py"]});
    let want = json!({
        "matches": [{
            "file": "mod.py", "line": 3, "text": "        needle = v", "before": [],
            "after": [{"line": 4, "text": "        return needle"}],
            "symbol": {"kind": "def", "name": "widen", "startLine": 2, "endLine": 4},
        }],
        "files": [], "filesSearched": 1, "skippedBinary": 0, "truncated": false,
    });
    assert_eq!(run_grep(&place, input).unwrap(), want);
    let input = json!({
        "pattern": "NEEDLE", "ignoreCase": true, "filesWithMatches": true, "limit": 1, "hidden": true,
        "noIgnore": true, "symbols": false, "fixedStrings": true, "root": "sub", "maxCount": 3,
    });
    let want = json!({
        "matches": [], "files": ["sub/a.log"], "filesSearched": 4, "skippedBinary": 0, "truncated": true,
        "notice": "Showing 1 of 3 files; narrow the search or raise limit (at most 200).",
    });
    assert_eq!(run_grep(&place, input).unwrap(), want);
    let input = json!({"pattern": "needle", "symbols": false, "globs": ["*.py"], "limit": 1});
    assert_eq!(run_grep(&place, input).unwrap()["matches"][0].get("symbol"), None);
}

#[test]
fn glob_in_json() {
    let place = tree_t();
    let want = json!({"paths": ["sub/b.ts", "sub/deep/b.ts"], "total": 2, "truncated": false});
    assert_eq!(run_glob(&place, json!({"pattern": "b.ts", "noIgnore": true})).unwrap(), want);
    let want = json!({
        "paths": [], "total": 9, "truncated": true,
        "notice": "Showing 0 of 9 paths; narrow the search or raise limit (at most 1000).",
    });
    assert_eq!(run_glob(&place, json!({"pattern": "**", "limit": 0})).unwrap(), want);
}

#[test]
fn failures_carry_code_and_root() {
    let place = tree_t();
    let error = run_grep(&place, json!({"pattern": "x", "root": "nowhere"})).unwrap_err();
    let want = json!({"code": "not_found", "message": "nowhere does not exist", "path": "nowhere"});
    assert_eq!(serde_json::to_value(error).unwrap(), want);
    let error = run_grep(&place, json!({"pattern": "x", "root": "bin.dat"})).unwrap_err();
    assert_eq!((error.code, error.path.as_deref()), (Code::BinaryFile, Some("bin.dat")));
    let error = run_grep(&place, json!({"pattern": "\\d"})).unwrap_err();
    assert_eq!((error.code, error.path), (Code::InvalidPattern, None));
    let error = run_grep(&place, json!({"pattern": "x", "maxCount": 0})).unwrap_err();
    assert_eq!(error.code, Code::InvalidInput);
    let error = run_glob(&place, json!({"pattern": ""})).unwrap_err();
    assert_eq!(error.code, Code::InvalidInput);
}

/// A peer that a host binds in place of the engine.
struct Peer;

#[async_trait]
impl Search for Peer {
    async fn glob(&self, _: &CallContext, _: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        Err(StdError::new(Code::ProviderUnavailable, "away").into())
    }

    async fn grep(&self, _: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        Err(StdError::new(Code::RequestFailed, query.pattern).into())
    }
}

#[test]
fn failures_of_a_peer_pass_unchanged() {
    let place = Place::new();
    let peer = Arc::new(Peer);
    let input = glob::Input { pattern: "a".to_owned(), ..glob::Input::default() };
    let error = block_on(GlobHandler::new(peer.clone()).run(&place.cx, input)).unwrap_err();
    assert_eq!(failure(error), StdError::new(Code::ProviderUnavailable, "away"));
    let input = grep::Input { pattern: "(".to_owned(), ..grep::Input::default() };
    let error = block_on(GrepHandler::new(peer).run(&place.cx, input)).unwrap_err();
    assert_eq!(failure(error), StdError::new(Code::RequestFailed, "("));
}
