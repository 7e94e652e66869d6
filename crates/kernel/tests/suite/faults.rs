//! Journals, neighbours and rules that mean ill.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flowcell_kernel::flows::capability::is_literal;
use flowcell_kernel::flows::rules::{CapabilitySet, Effect, Reason, Rule};
use flowcell_kernel::{
    Authority, GRANT_SOURCE, GrantStore, GrantStoreCode, GrantStoreOptions, MAX_RULES, MemoryPersist, Meta,
    POLICY_RUN, PermissionDenied, PermissionError, Persist, PersistError, PersistedEvent, Resolution, Source,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{Bench, cap, pattern_of, rule};

fn options(persist: Arc<dyn Persist>) -> GrantStoreOptions {
    let mut options = GrantStoreOptions::new("/ws", persist).unattended();
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    options
}

async fn ask(store: &GrantStore, request: &str) {
    let asked = store.check(&CapabilitySet::unrestricted(), cap(request), Meta::new()).await;
    assert!(matches!(asked, Err(PermissionError::Required(_))), "{request}: {asked:?}");
}

fn code<T: std::fmt::Debug>(result: Result<T, flowcell_kernel::GrantStoreError>) -> GrantStoreCode {
    result.unwrap_err().code
}

/// How a journal takes an append.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// It writes, then answers when a permit is there; what was written stays, whoever stops waiting.
    Late,
    /// It writes, then says that it did not.
    Lies,
    Panics,
}

struct Odd {
    manner: Manner,
    gate: Semaphore,
    appends: AtomicUsize,
    inner: MemoryPersist,
}

impl Odd {
    fn new(manner: Manner) -> Arc<Self> {
        Arc::new(Odd {
            manner,
            gate: Semaphore::new(0),
            appends: AtomicUsize::new(0),
            inner: MemoryPersist::new(),
        })
    }
}

#[async_trait]
impl Persist for Odd {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        self.appends.fetch_add(1, Ordering::SeqCst);
        assert!(self.manner != Manner::Panics, "the journal panics");
        let seq = self.inner.append(run, event_type, event).await?;
        if self.manner == Manner::Lies {
            return Err(PersistError::new("not written"));
        }
        self.gate.acquire().await.map_err(|error| PersistError::new(error.to_string()))?.forget();
        Ok(seq)
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        self.inner.page(run, after, limit).await
    }
}

#[tokio::test]
async fn a_journal_that_panics_gives_the_request_back() {
    let persist = Odd::new(Manner::Panics);
    let store = GrantStore::open(options(persist.clone())).await.unwrap();
    ask(&store, "fs:read:/a").await;
    for attempt in 1..=2 {
        let store = store.clone();
        let task = tokio::spawn(async move { store.reply("permission-1", Resolution::Once, None).await });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(persist.appends.load(Ordering::SeqCst), attempt);
    }
    assert_eq!(store.list().len(), 1);
    ask(&store, "fs:read:/b").await;
}

/// A record that lands although the write failed, or after it was given up, is no authority, here or after a replay.
#[tokio::test(start_paused = true)]
async fn a_record_that_lands_after_its_write_failed_changes_nothing() {
    for manner in [Manner::Late, Manner::Lies] {
        let persist = Odd::new(manner);
        let store = GrantStore::open(options(persist.clone())).await.unwrap();
        ask(&store, "fs:read:/a").await;
        assert_eq!(
            code(store.reply("permission-1", Resolution::Once, None).await),
            GrantStoreCode::JournalFailed
        );
        assert_eq!(persist.inner.events("run-1").len(), 1);
        assert_eq!((store.list().len(), store.rules().len()), (1, 0));
        ask(&store, "fs:read:/a").await;
        // Another answer, the opposite one, is taken.
        persist.gate.add_permits(2);
        if manner == Manner::Late {
            store.reply("permission-1", Resolution::Deny, None).await.unwrap();
            assert_eq!(
                code(store.reply("permission-1", Resolution::Once, None).await),
                GrantStoreCode::RequestNotFound
            );
            assert_eq!(persist.inner.events("run-1").len(), 2);
        }
        let again = GrantStore::open(options(persist)).await.unwrap();
        assert!(again.rules().is_empty());
        ask(&again, "fs:read:/a").await;
    }
}

#[tokio::test]
async fn a_store_that_is_closed_during_a_write_gives_no_answer() {
    let persist = Odd::new(Manner::Late);
    let store = GrantStore::open(options(persist.clone())).await.unwrap();
    ask(&store, "fs:read:/a").await;
    let reply = {
        let store = store.clone();
        tokio::spawn(async move { store.reply("permission-1", Resolution::Once, None).await })
    };
    while persist.inner.events("run-1").is_empty() {
        tokio::task::yield_now().await;
    }
    store.close();
    persist.gate.add_permits(1);
    assert_eq!(code(reply.await.unwrap()), GrantStoreCode::StoreClosed);
    assert!(store.list().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_answers_at_once_one_counts() {
    let persist = Odd::new(Manner::Late);
    persist.gate.add_permits(1_000);
    let store = GrantStore::open(options(persist.clone())).await.unwrap();
    for round in 1..=20 {
        let asks: Vec<_> = (0..4)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { ask(&store, "fs:read:/a").await })
            })
            .collect();
        for task in asks {
            task.await.unwrap();
        }
        assert_eq!(store.list().len(), 4);
        let replies: Vec<_> = (0..32)
            .map(|n| {
                let store = store.clone();
                let id = format!("permission-{}", (round - 1) * 4 + 1 + n % 4);
                let resolution = if n % 3 == 0 { Resolution::Deny } else { Resolution::Once };
                tokio::spawn(async move { store.reply(&id, resolution, None).await })
            })
            .collect();
        let mut taken = 0;
        for task in replies {
            match task.await.unwrap() {
                Ok(_) => taken += 1,
                Err(error) => assert_eq!(error.code, GrantStoreCode::RequestNotFound),
            }
        }
        assert_eq!(taken, 4);
        assert_eq!(persist.inner.events("run-1").len(), round * 4);
        assert!(store.list().is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_is_given_up_at_any_moment_strands_nothing() {
    let persist = Odd::new(Manner::Late);
    let store = GrantStore::open(options(persist.clone())).await.unwrap();
    ask(&store, "fs:read:/a").await;
    for _ in 0..8 {
        let reply = store.reply("permission-1", Resolution::Once, None);
        assert!(tokio::time::timeout(Duration::from_millis(1), reply).await.is_err());
    }
    // Never polled at all.
    drop(store.reply("permission-1", Resolution::Once, None));
    persist.gate.add_permits(1);
    store.reply("permission-1", Resolution::Once, None).await.unwrap();
    assert!(store.list().is_empty());
}

#[tokio::test]
async fn an_admitted_request_lifts_no_refusal() {
    let mut options = options(Arc::new(MemoryPersist::new()));
    options.configured = vec![
        rule("deny fs:read:/ws/k/**"),
        rule("deny net:*:**"),
        rule("allow fs:*:/ws/free"),
        rule("ask fs:write:/ws/free"),
    ];
    let store = GrantStore::open(options).await.unwrap();
    let whole = Authority::root(store.clone());
    let texts = [
        "fs:read:/ws/k/a",
        "net:private:http://10.0.0.1",
        "net:get:example.com",
        "fs:write:/ws/free",
        "fs:read:/ws/a*",
    ];
    let call = whole.admitting(texts.iter().map(|text| cap(text)).collect());
    for (text, effect) in [
        (texts[0], Effect::Deny),
        (texts[1], Effect::Deny),
        (texts[2], Effect::Deny),
        (texts[3], Effect::Allow),
        // A request is admitted by its text: it is no pattern.
        (texts[4], Effect::Allow),
        ("fs:read:/ws/ab", Effect::Ask),
        ("fs:write:/ws/a*", Effect::Ask),
        ("fs:read:/ws/free", Effect::Allow),
    ] {
        assert_eq!(call.decide(&cap(text)), effect, "{text}");
        let checked = call.check(cap(text), Meta::new()).await;
        assert_eq!(checked.is_ok(), effect == Effect::Allow, "{text}");
    }
    // Narrowed after it was admitted, or before.
    let narrow = [pattern_of("fs:read:/ws/**")];
    for authority in [call.attenuate(&narrow), whole.attenuate(&narrow).admitting(vec![cap(texts[3])])] {
        let refused = PermissionDenied::new(cap(texts[3]), PermissionDenied::OUTSIDE_CEILING);
        assert_eq!(authority.check(cap(texts[3]), Meta::new()).await, Err(refused.into()));
    }
    // The admission is not handed on with the store.
    assert_eq!(Authority::root(store).decide(&cap(texts[3])), Effect::Ask);
}

/// Where a link leads is not the policy's word: the twin of an ask adds a question and takes no refusal away.
#[tokio::test]
async fn the_twin_of_an_ask_lifts_no_deny() {
    let bench = Bench::new();
    bench.put("secret/key", "k");
    bench.put("open/key", "k");
    std::os::unix::fs::symlink("secret", bench.root.join("vendor")).unwrap();
    std::os::unix::fs::symlink("open", bench.root.join("other")).unwrap();
    let rules = [
        "allow fs:read:{ws}/**",
        "ask fs:read:{ws}/other/**",
        "deny fs:read:{ws}/secret/**",
        "ask fs:read:{ws}/vendor/**",
    ];
    let store = bench.store(&rules).await;
    assert_eq!(store.rules().len(), 6);
    let all = CapabilitySet::unrestricted();
    let request = |path: &str| cap(&format!("fs:read:{}", bench.text(path)));
    for (path, effect) in [
        ("secret/key", Effect::Deny),
        ("vendor/key", Effect::Ask),
        ("open/key", Effect::Ask),
        ("other/key", Effect::Ask),
        ("third/key", Effect::Allow),
    ] {
        assert_eq!(store.decide(&all, &request(path)), effect, "{path}");
        assert_eq!(store.explain(&request(path)).effect, effect, "{path}");
    }
    let explained = store.explain(&request("secret/key"));
    assert_eq!(explained.rule, Some((bench.rule(rules[2]), Source::Configured)));
    assert_eq!(explained.reason, Reason::LastMatch);
    // What the policy itself lifts stays lifted, and the twin asks.
    let lifted = ["deny fs:read:{ws}/**", "allow fs:read:{ws}/secret/**", "ask fs:read:{ws}/vendor/**"];
    let store = bench.store(&lifted).await;
    assert_eq!(store.decide(&all, &request("secret/key")), Effect::Ask);
    assert_eq!(store.decide(&all, &request("open/key")), Effect::Deny);
}

/// As a pattern a root's name with a wildcard selects other directories as well, so nothing is provably under it.
#[tokio::test]
async fn a_root_with_a_wildcard_in_its_name_takes_no_wide_grant() {
    let pattern = |resource: &str| json!({"action": "fs:write", "resource": resource});
    for (root, resource, accepted) in
        [("/w*s", "/w*s/**", false), ("/w?s", "/w?s/d/**", false), ("/ws", "/ws/d/**", true)]
    {
        let envelope = json!({
            "eventType": "flowcell.kernel.grant.envelope.v1", "runId": "run-1", "planDigest": "plan-1",
            "scope": "run", "patterns": [pattern(resource)],
        });
        let grant = json!({
            "eventType": "flowcell.kernel.grant.run.v1", "requestId": "permission-1", "runId": "run-1",
            "planDigest": "plan-1", "capability": pattern(&format!("{root}/d/a")), "pattern": pattern(resource),
            "scope": "run", "tier": "compensable", "ceiling": [],
        });
        for event in [envelope, grant] {
            let persist = MemoryPersist::new();
            persist.append_from("run-1", GRANT_SOURCE, event["eventType"].as_str().unwrap(), event.clone());
            let mut options = options(Arc::new(persist));
            options.workspace_root = root.into();
            assert_eq!(GrantStore::open(options).await.is_ok(), accepted, "{event}");
        }
    }
}

#[tokio::test]
async fn one_envelope_in_two_records_is_one() {
    let persist = MemoryPersist::new();
    for n in 0..MAX_RULES {
        let patterns = [
            json!({"action": "fs:read", "resource": "/ws/**"}),
            json!({"action": "fs:read", "resource": "/ws/a"}),
        ];
        let turned = [patterns[n % 2].clone(), patterns[1 - n % 2].clone()];
        for (run, scope) in [("run-1", "run"), (POLICY_RUN, "remembered")] {
            let event = json!({
                "eventType": "flowcell.kernel.grant.envelope.v1", "runId": run, "planDigest": "plan-1",
                "scope": scope, "patterns": turned,
            });
            persist.append_from(run, GRANT_SOURCE, "flowcell.kernel.grant.envelope.v1", event);
        }
    }
    assert_eq!(GrantStore::open(options(Arc::new(persist))).await.unwrap().rules().len(), 4);
}

/// A value for a member of an event: what belongs there, or something near it.
fn member() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!("run-1")),
        Just(json!(POLICY_RUN)),
        Just(json!("plan-1")),
        Just(json!("run")),
        Just(json!("remembered")),
        Just(json!("once")),
        Just(json!("compensable")),
        Just(json!("irreversible")),
        Just(json!(1)),
        Just(json!(u64::MAX)),
        Just(json!([])),
        Just(json!([[]])),
        Just(json!({"action": "fs:write", "resource": "/ws/a"})),
        Just(json!({"action": "fs:write", "resource": "/ws/**"})),
        Just(json!({"action": "fs:write", "resource": "/**"})),
        Just(json!({"action": "fs:write", "resource": "/ws/../**"})),
        Just(json!({"action": "fs:*", "resource": "/ws/**"})),
        Just(json!({"action": "*", "resource": "**"})),
        Just(json!([{"action": "fs:write", "resource": "/ws/**"}])),
        Just(json!([{"action": "fs:write", "resource": "/ws/**", "more": 1}])),
        Just(json!([{"action": "fs:write", "resource": "/**"}])),
        Just(json!([[{"action": "fs:write", "resource": "/ws/b"}]])),
    ]
}

const MEMBERS: [&str; 13] = [
    "eventType",
    "requestId",
    "runId",
    "planDigest",
    "capability",
    "pattern",
    "scope",
    "tier",
    "ceiling",
    "patterns",
    "seq",
    "more",
    "",
];

fn hostile_event() -> impl Strategy<Value = (bool, Value)> {
    let kinds = ["once", "run", "remembered", "denied", "envelope", "revoked"];
    let changes = prop::collection::vec((0..MEMBERS.len(), member(), any::<bool>()), 0..3);
    (0..kinds.len(), any::<bool>(), changes).prop_map(move |(kind, policy, changes)| {
        let kind = kinds[kind];
        let run = if policy { POLICY_RUN } else { "run-1" };
        let mut event = match kind {
            "revoked" => json!({"seq": 1}),
            "envelope" => json!({
                "runId": run, "planDigest": "plan-1", "scope": if policy { "remembered" } else { "run" },
                "patterns": [{"action": "fs:write", "resource": "/ws/**"}],
            }),
            _ => json!({
                "requestId": "permission-1", "runId": run, "planDigest": "plan-1",
                "capability": {"action": "fs:write", "resource": "/ws/a"},
                "pattern": {"action": "fs:write", "resource": "/ws/**"},
                "scope": if kind == "denied" { "once" } else { kind }, "tier": "compensable",
            }),
        };
        if kind == "run" {
            event["ceiling"] = json!([]);
        }
        event["eventType"] = json!(format!("flowcell.kernel.grant.{kind}.v1"));
        for (at, value, remove) in changes {
            match (remove, event.as_object_mut()) {
                (true, Some(members)) => {
                    members.remove(MEMBERS[at]);
                }
                (false, Some(members)) => {
                    members.insert(MEMBERS[at].to_owned(), value);
                }
                (_, None) => {}
            }
        }
        (policy, event)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whatever a journal holds: it is refused, or the rules that come of it are allow rules of exact actions, and a
    /// write outside the workspace is allowed by none that is not literal.
    #[test]
    fn a_hostile_journal_is_refused_or_harmless(events in prop::collection::vec(hostile_event(), 0..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let persist = MemoryPersist::new();
        for (policy, event) in &events {
            let run = if *policy { POLICY_RUN } else { "run-1" };
            let event_type = event["eventType"].as_str().unwrap_or("flowcell.kernel.grant.run.v1");
            persist.append_from(run, GRANT_SOURCE, event_type, event.clone());
        }
        match runtime.block_on(GrantStore::open(options(Arc::new(persist)))) {
            Err(error) => prop_assert_eq!(error.code, GrantStoreCode::InvalidResolution),
            Ok(store) => {
                for (Rule { effect, pattern }, source) in store.rules() {
                    prop_assert_eq!(effect, Effect::Allow);
                    prop_assert!(!matches!(source, Source::Configured));
                    prop_assert!(pattern.to_string().starts_with("fs:write:/"));
                    let resource = pattern.resource();
                    prop_assert!(is_literal(resource) || resource == "/ws/**", "{}", resource);
                }
                prop_assert_ne!(
                    store.decide(&CapabilitySet::unrestricted(), &cap("fs:write:/etc/passwd")),
                    Effect::Allow
                );
            }
        }
    }
}
