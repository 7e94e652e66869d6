use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::{
    GRANT_SOURCE, GrantStore, GrantStoreCode, GrantStoreError, GrantStoreOptions, MAX_ENVELOPE_PATTERNS,
    MAX_RULES, MemoryPersist, PAGE_EVENTS, POLICY_RUN, Persist, PersistError, PersistedEvent, Source,
};
use serde_json::{Value, json};

use crate::support::{cap, rule};

const ONCE: &str = "flowcell.kernel.grant.once.v1";
const RUN: &str = "flowcell.kernel.grant.run.v1";
const REMEMBERED: &str = "flowcell.kernel.grant.remembered.v1";
const DENIED: &str = "flowcell.kernel.grant.denied.v1";
const ENVELOPE: &str = "flowcell.kernel.grant.envelope.v1";
const REVOKED: &str = "flowcell.kernel.grant.revoked.v1";

fn pattern(action: &str, resource: &str) -> Value {
    json!({ "action": action, "resource": resource })
}

fn grant(event_type: &str, run: &str, scope: &str) -> Value {
    json!({
        "eventType": event_type, "requestId": "permission-1", "runId": run, "planDigest": "plan-1",
        "capability": pattern("fs:read", "/ws/a"), "pattern": pattern("fs:read", "/ws/**"),
        "scope": scope, "tier": "sealed",
    })
}

fn run_grant() -> Value {
    let mut event = grant(RUN, "run-1", "run");
    event["ceiling"] = json!([[pattern("fs:read", "/ws/**")]]);
    event
}

fn remembered(resource: &str) -> Value {
    let mut event = grant(REMEMBERED, POLICY_RUN, "remembered");
    event["capability"] = pattern("net:get", resource);
    event["pattern"] = pattern("net:get", resource);
    event
}

fn envelope(run: &str, scope: &str) -> Value {
    json!({
        "eventType": ENVELOPE, "runId": run, "planDigest": "plan-1", "scope": scope,
        "patterns": [pattern("fs:write", "/ws/**"), pattern("fs:read", "/ws/**"), pattern("fs:write", "/ws/**")],
    })
}

async fn open(persist: Arc<dyn Persist>) -> Result<Arc<GrantStore>, GrantStoreError> {
    let mut options = GrantStoreOptions::new("/ws", persist);
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    GrantStore::open(options).await
}

async fn replay(events: &[(&str, &str, Value)]) -> Result<Arc<GrantStore>, GrantStoreError> {
    let persist = MemoryPersist::new();
    for (run, event_type, event) in events {
        persist.append_from(run, GRANT_SOURCE, event_type, event.clone());
    }
    open(Arc::new(persist)).await
}

async fn refused(run: &str, event_type: &str, event: Value) -> String {
    let error = replay(&[(run, event_type, event.clone())]).await;
    let error = error.err().unwrap_or_else(|| panic!("accepted: {run} {event_type} {event}"));
    assert_eq!(error.code, GrantStoreCode::InvalidResolution);
    error.message.unwrap()
}

#[tokio::test]
async fn every_kind_of_grant_becomes_its_rules() {
    let store = replay(&[
        ("run-1", ONCE, grant(ONCE, "run-1", "once")),
        ("run-1", DENIED, grant(DENIED, "run-1", "once")),
        ("run-1", RUN, run_grant()),
        ("run-1", ENVELOPE, envelope("run-1", "run")),
        (POLICY_RUN, REMEMBERED, remembered("example.com")),
        (POLICY_RUN, REMEMBERED, remembered("example.com")),
        (POLICY_RUN, ENVELOPE, envelope(POLICY_RUN, "remembered")),
    ])
    .await
    .unwrap();
    let expected = [
        (rule("allow fs:read:/ws/**"), Source::Envelope { seq: Some(4) }),
        (rule("allow fs:write:/ws/**"), Source::Envelope { seq: Some(4) }),
        (rule("allow fs:read:/ws/**"), Source::Run { seq: Some(3) }),
        (rule("allow net:get:example.com"), Source::Remembered { seq: Some(1) }),
        (rule("allow fs:read:/ws/**"), Source::Remembered { seq: Some(3) }),
        (rule("allow fs:write:/ws/**"), Source::Remembered { seq: Some(3) }),
    ];
    assert_eq!(store.rules(), expected);
    let decide = |request: &str| store.decide(&CapabilitySet::unrestricted(), &cap(request));
    assert_eq!(decide("fs:write:/ws/a"), Effect::Allow);
    assert_eq!(decide("fs:write:/etc/a"), Effect::Ask);
}

#[tokio::test]
async fn a_run_grant_is_bound_to_its_ceiling() {
    let mut event = run_grant();
    event["ceiling"] = json!([[pattern("fs:read", "/ws/src/**")]]);
    let store = replay(&[("run-1", RUN, event)]).await.unwrap();
    let decide = |request: &str| store.decide(&CapabilitySet::unrestricted(), &cap(request));
    assert_eq!(decide("fs:read:/ws/src/a"), Effect::Allow);
    assert_eq!(decide("fs:read:/ws/a"), Effect::Ask);
}

#[tokio::test]
async fn others_and_what_is_not_for_now_are_ignored() {
    let persist = MemoryPersist::new();
    persist.append_from("run-1", "someone.else", RUN, json!("no grant at all"));
    persist.append_from(POLICY_RUN, "someone.else", REVOKED, json!(null));
    persist.append_from("run-1", GRANT_SOURCE, "flowcell.kernel.grant.later.v9", json!(1));
    let mut other_plan = run_grant();
    other_plan["planDigest"] = json!("plan-2");
    // Of another plan even what this workspace would not take is left alone.
    other_plan["pattern"] = pattern("fs:read", "/other/**");
    persist.append_from("run-1", GRANT_SOURCE, RUN, other_plan);
    let mut other_envelope = envelope("run-1", "run");
    other_envelope["planDigest"] = json!("plan-2");
    persist.append_from("run-1", GRANT_SOURCE, ENVELOPE, other_envelope);
    persist.append_from("run-2", GRANT_SOURCE, RUN, json!("another run's"));
    assert!(open(Arc::new(persist)).await.unwrap().rules().is_empty());
}

#[tokio::test]
async fn a_revoked_grant_does_not_come_back() {
    let revoked = |seq: u64| json!({ "eventType": REVOKED, "seq": seq });
    let store = replay(&[
        (POLICY_RUN, REMEMBERED, remembered("a.example")),
        (POLICY_RUN, REMEMBERED, remembered("b.example")),
        (POLICY_RUN, ENVELOPE, envelope(POLICY_RUN, "remembered")),
        (POLICY_RUN, REVOKED, revoked(1)),
        (POLICY_RUN, REVOKED, revoked(3)),
        // What is given later is not taken back ahead of time.
        (POLICY_RUN, REVOKED, revoked(7)),
        (POLICY_RUN, REMEMBERED, remembered("c.example")),
    ])
    .await
    .unwrap();
    let stands =
        |host: &str, seq| (rule(&format!("allow net:get:{host}")), Source::Remembered { seq: Some(seq) });
    assert_eq!(store.rules(), [stands("b.example", 2), stands("c.example", 7)]);
}

#[tokio::test]
async fn every_refusal_of_the_contract() {
    let base = [
        ("run-1", ONCE, grant(ONCE, "run-1", "once")),
        ("run-1", DENIED, grant(DENIED, "run-1", "once")),
        ("run-1", RUN, run_grant()),
        ("run-1", ENVELOPE, envelope("run-1", "run")),
        (POLICY_RUN, REMEMBERED, remembered("example.com")),
        (POLICY_RUN, ENVELOPE, envelope(POLICY_RUN, "remembered")),
        (POLICY_RUN, REVOKED, json!({ "eventType": REVOKED, "seq": 9 })),
    ];
    for (run, event_type, event) in base {
        let with = |key: &str, value: Value| {
            let mut event = event.clone();
            event[key] = value;
            event
        };
        let without = |key: &str| {
            let mut event = event.clone();
            event.as_object_mut().unwrap().remove(key);
            event
        };
        assert!(replay(&[(run, event_type, event.clone())]).await.is_ok(), "{event}");
        // Malformed, or of another type than it says.
        refused(run, event_type, json!("text")).await;
        refused(run, event_type, with("extra", json!(1))).await;
        refused(run, event_type, with("eventType", json!("flowcell.kernel.grant.other.v1"))).await;
        refused(run, event_type, without("eventType")).await;
        // In the other kind of run.
        let other = if run == POLICY_RUN { "run-1" } else { POLICY_RUN };
        refused(other, event_type, with("runId", json!(other))).await;
        if event_type == REVOKED {
            refused(run, event_type, without("seq")).await;
            continue;
        }
        // A run id other than the run that was read.
        refused(run, event_type, with("runId", json!("run-9"))).await;
        refused(run, event_type, without("runId")).await;
        refused(run, event_type, with("scope", json!("forever"))).await;
        for scope in ["once", "run", "remembered"] {
            if event["scope"] != scope {
                refused(run, event_type, with("scope", json!(scope))).await;
            }
        }
        if event_type != ENVELOPE {
            refused(run, event_type, with("requestId", json!(""))).await;
            refused(run, event_type, with("requestId", json!("a\u{0}"))).await;
            refused(run, event_type, with("capability", pattern("fs:*", "/ws/a"))).await;
            refused(run, event_type, with("pattern", pattern("fs:read", &"x".repeat(4_097)))).await;
            let mut nested = event.clone();
            nested["capability"]["extra"] = json!(1);
            refused(run, event_type, nested).await;
        }
    }
    let mut no_plan = run_grant();
    no_plan.as_object_mut().unwrap().remove("planDigest");
    refused("run-1", RUN, no_plan).await;
    let mut no_ceiling = run_grant();
    no_ceiling.as_object_mut().unwrap().remove("ceiling");
    refused("run-1", RUN, no_ceiling).await;
}

#[tokio::test]
async fn a_pattern_that_is_too_wide_is_refused() {
    // capability, tier, pattern, accepted
    let rows = [
        ("fs:read:/ws/a", "sealed", "fs:read:/ws/*", true),
        ("fs:read:/ws/a", "sealed", "fs:*:/ws/*", false),
        ("fs:read:/ws/a", "sealed", "fs:read:/etc/*", false),
        ("fs:read:/ws/a", "compensable", "fs:read:/ws/a", false),
        ("proc:spawn:rm *", "irreversible", "proc:spawn:rm *", false),
        ("proc:spawn:rm *", "irreversible", "proc:spawn:rm ?", true),
        ("fs:write:/ws/a", "compensable", "fs:write:/ws/**", true),
        ("fs:write:/ws/a", "compensable", "fs:write:/ws/a", true),
        ("fs:write:/ws", "compensable", "fs:write:/ws", true),
        ("fs:write:/ws/a", "compensable", "fs:write:/w**", false),
        ("fs:write:/ws/../a", "irreversible", "fs:write:/ws/**", false),
        ("fs:write:/etc/a", "irreversible", "fs:write:/etc/a", true),
        ("fs:write:/etc/a", "irreversible", "fs:write:/etc/*", false),
    ];
    for (request, tier, text, accepted) in rows {
        for (run, event_type) in [("run-1", RUN), (POLICY_RUN, REMEMBERED)] {
            let mut event = if event_type == RUN { run_grant() } else { remembered("x") };
            let (request, text) = (cap(request), crate::support::pattern_of(text));
            event["capability"] = serde_json::to_value(&request).unwrap();
            event["pattern"] = serde_json::to_value(&text).unwrap();
            event["tier"] = json!(tier);
            let result = replay(&[(run, event_type, event)]).await;
            assert_eq!(result.is_ok(), accepted, "{request} {tier} {text}: {result:?}");
        }
    }
    for bad in [pattern("fs:*", "/ws/a"), pattern("*", "**"), pattern("fs:write", "/**")] {
        let mut event = envelope("run-1", "run");
        event["patterns"] = json!([pattern("fs:read", "/ws/**"), bad]);
        refused("run-1", ENVELOPE, event).await;
    }
    let patterns: Vec<Value> =
        (0..=MAX_ENVELOPE_PATTERNS).map(|n| pattern("fs:read", &format!("/{n}"))).collect();
    let mut event = envelope("run-1", "run");
    event["patterns"] = json!(patterns);
    refused("run-1", ENVELOPE, event).await;
}

#[tokio::test]
async fn replay_reads_in_pages_and_keeps_the_bound_of_rules() {
    let many = |count: usize| {
        let persist = MemoryPersist::new();
        for n in 0..count {
            persist.append_from(POLICY_RUN, GRANT_SOURCE, REMEMBERED, remembered(&format!("{n}.example")));
        }
        Arc::new(persist)
    };
    for count in [PAGE_EVENTS - 1, PAGE_EVENTS, PAGE_EVENTS + 1, MAX_RULES] {
        assert_eq!(open(many(count)).await.unwrap().rules().len(), count);
    }
    let error = open(many(MAX_RULES + 1)).await.unwrap_err();
    assert_eq!(error.code, GrantStoreCode::InvalidResolution);
}

/// A journal that serves its pages wrong.
struct Stuck {
    seqs: Vec<u64>,
    fails: bool,
    calls: AtomicUsize,
}

#[async_trait]
impl Persist for Stuck {
    async fn append(&self, _run: &str, _event_type: &str, _event: &Value) -> Result<u64, PersistError> {
        Err(PersistError::new("read only"))
    }

    async fn page(&self, _run: &str, _after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        assert_eq!(limit, PAGE_EVENTS);
        if self.fails {
            return Err(PersistError::new("gone"));
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let event = |seq: &u64| PersistedEvent {
            seq: *seq,
            source: "x".to_owned(),
            event_type: "x".to_owned(),
            event: Value::Null,
        };
        Ok(self.seqs.iter().map(event).collect())
    }
}

#[tokio::test]
async fn a_page_that_does_not_advance_is_refused() {
    let full: Vec<u64> = (1..=PAGE_EVENTS as u64).collect();
    let long: Vec<u64> = (1..=PAGE_EVENTS as u64 + 1).collect();
    for seqs in [vec![0], vec![1, 1], vec![2, 1], full, long] {
        let persist = Arc::new(Stuck { seqs, fails: false, calls: AtomicUsize::new(0) });
        let error = open(persist.clone()).await.unwrap_err();
        assert_eq!(error.code, GrantStoreCode::InvalidResolution);
        assert!(persist.calls.load(Ordering::SeqCst) <= 2);
    }
    let persist = Arc::new(Stuck { seqs: vec![], fails: true, calls: AtomicUsize::new(0) });
    assert_eq!(open(persist).await.unwrap_err().code, GrantStoreCode::JournalFailed);
}
