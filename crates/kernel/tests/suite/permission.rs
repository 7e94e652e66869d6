use flowcell_kernel::flows::effects::Tier;
use flowcell_kernel::{
    GrantStoreCode, GrantStoreError, Meta, PermissionDenied, PermissionError, PermissionRequired,
};
use serde_json::{Value, json};

use crate::support::{READ_ONLY, REFUSED, cap};

fn required() -> PermissionRequired {
    let mut meta = Meta::new();
    meta.insert("path".to_owned(), json!("a"));
    PermissionRequired {
        request_id: "permission-3".to_owned(),
        run_id: Some("run-1".to_owned()),
        capability: cap("fs:write:/etc/a\nb"),
        tier: Tier::Irreversible,
        meta,
    }
}

#[test]
fn all_three_round_trip_through_json() {
    let values = [
        (
            PermissionError::from(required()),
            json!({
                "code": "permission_required", "request_id": "permission-3", "run_id": "run-1",
                "capability": {"action": "fs:write", "resource": "/etc/a\nb"},
                "tier": "irreversible", "meta": {"path": "a"},
            }),
        ),
        (
            PermissionDenied::new(cap("fs:read:/k"), "denied by policy").into(),
            json!({
                "code": "permission_denied", "capability": {"action": "fs:read", "resource": "/k"},
                "reason": "denied by policy",
            }),
        ),
        (
            GrantStoreError::new(GrantStoreCode::JournalFailed, "disk").into(),
            json!({"code": "journal_failed", "message": "disk"}),
        ),
        (
            GrantStoreError { code: GrantStoreCode::StoreClosed, message: None }.into(),
            json!({"code": "store_closed"}),
        ),
    ];
    for (error, expected) in values {
        let wire = serde_json::to_value(&error).unwrap();
        assert_eq!(wire, expected);
        assert_eq!(serde_json::from_value::<PermissionError>(wire).unwrap(), error);
    }
}

#[test]
fn a_wrong_code_or_member_does_not_decode() {
    let good = serde_json::to_value(required()).unwrap();
    for (key, value) in [("code", json!("permission_denied")), ("extra", json!(1)), ("tier", json!("none"))] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(serde_json::from_value::<PermissionRequired>(bad.clone()).is_err(), "{key}");
        assert!(serde_json::from_value::<PermissionError>(bad).is_err(), "{key}");
    }
    let long = "x".repeat(4_097);
    let bad = json!({"code": "permission_denied", "reason": "", "capability": {"action": "fs:read", "resource": long}});
    assert!(serde_json::from_value::<PermissionDenied>(bad).is_err());
    assert!(serde_json::from_value::<GrantStoreError>(json!({"code": "other"})).is_err());
    assert!(serde_json::from_value::<PermissionError>(Value::Null).is_err());
}

#[test]
fn each_renders_as_one_line() {
    assert_eq!(
        required().to_string(),
        "permission_required: fs:write:/etc/a\\u000ab (tier irreversible, request permission-3)"
    );
    let denied = PermissionDenied::new(cap("fs:read:/k"), "x".repeat(300));
    assert_eq!(denied.to_string(), format!("permission_denied: fs:read:/k: {}…[truncated]", "x".repeat(244)));
    let error = PermissionError::from(GrantStoreError::new(GrantStoreCode::RequestNotFound, "no\u{85}such"));
    assert_eq!(error.to_string(), "grant store request_not_found: no\\u0085such");
    assert_eq!(
        GrantStoreError { code: GrantStoreCode::StoreClosed, message: None }.to_string(),
        "grant store store_closed"
    );
}

#[test]
fn a_refusal_without_its_code() {
    let denied = PermissionDenied::new(cap("fs:read:/k\n"), "denied by policy");
    assert_eq!(denied.detail(), "fs:read:/k\\u000a: denied by policy");
    assert_eq!(denied.to_string(), format!("permission_denied: {}", denied.detail()));
}

#[test]
fn the_host_s_refusal_is_in_its_own_words() {
    assert_eq!(REFUSED.to_string(), "Permission denied (os error 13)");
    assert_eq!(READ_ONLY.to_string(), "Read-only file system (os error 30)");
    assert!(REFUSED.is_denied());
}
