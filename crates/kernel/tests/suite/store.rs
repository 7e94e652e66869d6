use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use flowcell_kernel::flows::effects::Tier;
use flowcell_kernel::flows::rules::{CapabilitySet, Effect, Reason};
use flowcell_kernel::{
    GRANT_SOURCE, GrantStore, GrantStoreCode, GrantStoreError, GrantStoreOptions, MAX_PENDING, MAX_RULES,
    MemoryPersist, Meta, POLICY_RUN, PermissionDenied, PermissionError, PermissionRequired, Persist,
    PersistError, PersistedEvent, Resolution, RunRule, Source,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{cap, pattern_of, rule};

fn options(persist: Arc<dyn Persist>) -> GrantStoreOptions {
    let mut options = GrantStoreOptions::new("/ws", persist).unattended();
    options.run_id = Some("run-1".to_owned());
    options
}

async fn store(rules: &[&str]) -> Arc<GrantStore> {
    let mut options = options(Arc::new(MemoryPersist::new()));
    options.configured = rules.iter().map(|text| rule(text)).collect();
    GrantStore::open(options).await.unwrap()
}

async fn check(store: &GrantStore, request: &str) -> Result<(), PermissionError> {
    store.check(&CapabilitySet::unrestricted(), cap(request), Meta::new()).await
}

async fn ask(store: &GrantStore, request: &str) -> PermissionRequired {
    match check(store, request).await {
        Err(PermissionError::Required(required)) => required,
        other => panic!("{request}: {other:?}"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, GrantStoreError>) -> GrantStoreCode {
    result.unwrap_err().code
}

#[tokio::test]
async fn the_cases_of_the_contract() {
    type Row<'a> = (&'a [&'a str], &'a [(&'a str, Effect)]);
    let rows: &[Row<'_>] = &[
        (&[], &[("fs:read:/ws/a", Effect::Ask)]),
        (
            &["allow fs:read:/ws/**"],
            &[
                ("fs:read:/ws/x/y", Effect::Allow),
                ("fs:read:/ws", Effect::Ask),
                ("fs:read:/ws2/a", Effect::Ask),
            ],
        ),
        (&["allow fs:read:/ws/**", "deny fs:read:/ws/k/**"], &[("fs:read:/ws/k/a", Effect::Deny)]),
        (&["deny fs:read:/ws/**", "allow fs:read:/ws/pub/**"], &[("fs:read:/ws/pub/a", Effect::Allow)]),
        (&["allow *"], &[("net:private:http://10.1.1.1", Effect::Ask)]),
        (
            &["allow net:private:http://10.1.1.1", "deny net:*:**"],
            &[("net:private:http://10.1.1.1", Effect::Deny)],
        ),
    ];
    for (rules, requests) in rows {
        let store = store(rules).await;
        for (request, effect) in *requests {
            let decided = store.decide(&CapabilitySet::unrestricted(), &cap(request));
            assert_eq!(decided, *effect, "{rules:?} {request}");
            let checked = check(&store, request).await;
            match effect {
                Effect::Allow => assert_eq!(checked, Ok(())),
                Effect::Deny => assert_eq!(
                    checked,
                    Err(PermissionDenied::new(cap(request), PermissionDenied::BY_POLICY).into())
                ),
                Effect::Ask => assert!(matches!(checked, Err(PermissionError::Required(_)))),
            }
        }
    }
    // Deny configured, allow of the run: a veto. And a run rule counts under its own ceiling only.
    let mut with_run = options(Arc::new(MemoryPersist::new()));
    with_run.configured = vec![rule("deny fs:read:/ws/k/**")];
    with_run.run_rules = vec![
        RunRule {
            rule: rule("allow fs:read:**"),
            ceiling: CapabilitySet::of([pattern_of("fs:read:/ws/**")]),
        },
        RunRule { rule: rule("allow proc:spawn:ls"), ceiling: CapabilitySet::unrestricted() },
    ];
    with_run.remembered = vec![rule("allow model:call:h/m")];
    let store = GrantStore::open(with_run).await.unwrap();
    let decide = |request: &str| store.decide(&CapabilitySet::unrestricted(), &cap(request));
    assert_eq!(decide("fs:read:/ws/k/a"), Effect::Deny);
    assert_eq!(decide("fs:read:/ws/a"), Effect::Allow);
    assert_eq!(decide("fs:read:/etc/a"), Effect::Ask);
    assert_eq!(decide("proc:spawn:ls"), Effect::Allow);
    assert_eq!(decide("model:call:h/m"), Effect::Allow);
    let explained = store.explain(&cap("fs:read:/ws/k/a"));
    assert_eq!(explained.rule, Some((rule("deny fs:read:/ws/k/**"), Source::Configured)));
    assert_eq!((explained.effect, explained.reason), (Effect::Deny, Reason::Veto));
    // The first run rule's ceiling leaves it out, and the second is found all the same.
    let explained = store.explain(&cap("proc:spawn:ls"));
    assert_eq!(explained.rule, Some((rule("allow proc:spawn:ls"), Source::Run { seq: None })));
    assert_eq!(store.explain(&cap("fs:read:/etc/a")).rule, None);
    let sources: Vec<Source> = store.rules().into_iter().map(|(_, source)| source).collect();
    let run = Source::Run { seq: None };
    assert_eq!(sources, [Source::Configured, run, run, Source::Remembered { seq: None }]);
}

#[tokio::test]
async fn an_ask_is_kept_until_it_is_answered() {
    let store = store(&[]).await;
    let mut meta = Meta::new();
    meta.insert("operation".to_owned(), json!("read"));
    let error =
        store.check(&CapabilitySet::unrestricted(), cap("fs:write:/ws/a"), meta.clone()).await.unwrap_err();
    let expected = PermissionRequired {
        request_id: "permission-1".to_owned(),
        run_id: Some("run-1".to_owned()),
        capability: cap("fs:write:/ws/a"),
        tier: Tier::Compensable,
        meta,
    };
    assert_eq!(error, PermissionError::Required(expected));
    // Two on one capability are two requests.
    assert_eq!(ask(&store, "fs:write:/ws/a").await.request_id, "permission-2");
    assert_eq!(ask(&store, "fs:write:/etc/a").await.tier, Tier::Irreversible);
    let ids: Vec<String> = store.list().into_iter().map(|request| request.request_id).collect();
    assert_eq!(ids, ["permission-1", "permission-2", "permission-3"]);
    let answered = store.reply("permission-2", Resolution::Deny, None).await.unwrap();
    assert_eq!(answered.capability, cap("fs:write:/ws/a"));
    for unknown in ["permission-2", "permission-4", "permission-01", "permission-", "1", ""] {
        assert_eq!(
            code(store.reply(unknown, Resolution::Once, None).await),
            GrantStoreCode::RequestNotFound,
            "{unknown:?}"
        );
    }
    // Peeking keeps nothing.
    assert_eq!(store.decide(&CapabilitySet::unrestricted(), &cap("fs:read:/x")), Effect::Ask);
    assert_eq!(store.list().len(), 2);
}

#[tokio::test]
async fn answers_are_recorded_and_add_no_rule() {
    let persist = Arc::new(MemoryPersist::new());
    let mut with_plan = options(persist.clone());
    with_plan.plan_digest = Some("plan-1".to_owned());
    let store = GrantStore::open(with_plan.clone()).await.unwrap();
    ask(&store, "proc:spawn:rm *").await;
    ask(&store, "fs:read:/ws/a").await;
    store.reply("permission-1", Resolution::Once, None).await.unwrap();
    store.reply("permission-2", Resolution::Deny, None).await.unwrap();
    let events = persist.events("run-1");
    let expected = [
        json!({
            "eventType": "flowcell.kernel.grant.once.v1", "requestId": "permission-1", "runId": "run-1",
            "planDigest": "plan-1", "capability": {"action": "proc:spawn", "resource": "rm *"},
            "pattern": {"action": "proc:spawn", "resource": "rm *"}, "scope": "once", "tier": "irreversible",
        }),
        json!({
            "eventType": "flowcell.kernel.grant.denied.v1", "requestId": "permission-2", "runId": "run-1",
            "planDigest": "plan-1", "capability": {"action": "fs:read", "resource": "/ws/a"},
            "pattern": {"action": "fs:read", "resource": "/ws/a"}, "scope": "once", "tier": "sealed",
        }),
    ];
    assert_eq!(events.len(), 2);
    for (event, expected) in events.iter().zip(&expected) {
        assert_eq!(&event.event, expected);
        assert_eq!(event.source, GRANT_SOURCE);
        assert_eq!(Value::from(event.event_type.as_str()), expected["eventType"]);
    }
    assert!(store.rules().is_empty() && persist.events(POLICY_RUN).is_empty());
    // Neither is authority, here or after a replay: the next request asks again.
    ask(&store, "proc:spawn:rm *").await;
    let again = GrantStore::open(with_plan).await.unwrap();
    assert!(again.rules().is_empty());
    assert_eq!(ask(&again, "fs:read:/ws/a").await.request_id, "permission-1");
}

#[tokio::test]
async fn a_closed_store_serves_nothing() {
    let store = store(&["allow fs:read:**"]).await;
    ask(&store, "fs:write:/ws/a").await;
    store.close();
    store.close();
    let closed = GrantStoreError { code: GrantStoreCode::StoreClosed, message: None };
    assert_eq!(check(&store, "fs:read:/a").await, Err(closed.clone().into()));
    assert_eq!(store.decide(&CapabilitySet::unrestricted(), &cap("fs:read:/a")), Effect::Deny);
    assert_eq!(store.reply("permission-1", Resolution::Once, None).await, Err(closed));
    assert!(store.list().is_empty());
}

#[tokio::test]
async fn bounds_are_refused_before_anything_changes() {
    let store = store(&[]).await;
    let mut deep = json!({});
    for _ in 0..16 {
        deep = json!({ "a": deep });
    }
    for meta in [deep, json!({"a": vec![0; 1_024]}), json!({"a": "x".repeat(65_536)})] {
        let Value::Object(meta) = meta else { unreachable!() };
        let refused = store.check(&CapabilitySet::unrestricted(), cap("fs:read:/a"), meta).await;
        let Err(PermissionError::Store(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, GrantStoreCode::InvalidResolution);
    }
    assert!(store.list().is_empty());
    // A pattern adds a rule, and these answers add none.
    ask(&store, "fs:read:/a").await;
    let pattern = Some(pattern_of("fs:read:/a"));
    assert_eq!(
        code(store.reply("permission-1", Resolution::Once, pattern).await),
        GrantStoreCode::InvalidResolution
    );
    assert_eq!(store.list().len(), 1);
    for _ in 1..MAX_PENDING {
        ask(&store, "fs:read:/a").await;
    }
    // Nobody waits in an unattended store: the oldest request makes room.
    assert_eq!(ask(&store, "fs:read:/a").await.request_id, format!("permission-{}", MAX_PENDING + 1));
    assert_eq!(store.list().len(), MAX_PENDING);
    assert_eq!(
        code(store.reply("permission-1", Resolution::Once, None).await),
        GrantStoreCode::RequestNotFound
    );
    store.reply("permission-2", Resolution::Deny, None).await.unwrap();
    assert_eq!(store.list().len(), MAX_PENDING - 1);
}

#[tokio::test]
async fn options_are_checked() {
    let refused = |change: &dyn Fn(&mut GrantStoreOptions)| {
        let mut options = options(Arc::new(MemoryPersist::new()));
        change(&mut options);
        async { code(GrantStore::open(options).await) }
    };
    let invalid = GrantStoreCode::InvalidResolution;
    for bad in ["", "a\0b", &"x".repeat(4_097), POLICY_RUN] {
        assert_eq!(refused(&|options| options.run_id = Some(bad.to_owned())).await, invalid, "{bad:?}");
    }
    for bad in ["", "a\0b", &"x".repeat(4_097)] {
        assert_eq!(refused(&|options| options.plan_digest = Some(bad.to_owned())).await, invalid);
    }
    for bad in ["", "ws", "./ws", "/w\0s"] {
        assert_eq!(refused(&|options| options.workspace_root = bad.into()).await, invalid);
    }
    let many = |count: usize| (0..count).map(|n| rule(&format!("allow fs:read:/{n}"))).collect::<Vec<_>>();
    assert_eq!(refused(&|options| options.configured = many(MAX_RULES + 1)).await, invalid);
    let over = |options: &mut GrantStoreOptions| {
        options.configured = many(MAX_RULES);
        options.remembered = many(1);
    };
    assert_eq!(refused(&over).await, invalid);
    let mut full = options(Arc::new(MemoryPersist::new()));
    full.configured = many(MAX_RULES);
    assert_eq!(GrantStore::open(full).await.unwrap().rules().len(), MAX_RULES);
}

#[tokio::test]
async fn without_a_run_nothing_can_be_recorded() {
    let store = GrantStore::open(GrantStoreOptions::new("/ws", Arc::new(MemoryPersist::new())).unattended())
        .await
        .unwrap();
    assert_eq!(ask(&store, "fs:read:/a").await.run_id, None);
    assert_eq!(
        code(store.reply("permission-1", Resolution::Once, None).await),
        GrantStoreCode::InvalidResolution
    );
    assert_eq!(store.list().len(), 1);
}

/// A journal that fails, or never answers, until it is told to work.
#[derive(Default)]
struct Faulty {
    works: AtomicBool,
    hangs: bool,
    inner: MemoryPersist,
}

#[async_trait]
impl Persist for Faulty {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        if self.works.load(Ordering::SeqCst) {
            return self.inner.append(run, event_type, event).await;
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(PersistError::new("the disk is full"))
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        self.inner.page(run, after, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_or_is_late_changes_nothing() {
    for hangs in [false, true] {
        let persist = Arc::new(Faulty { hangs, ..Faulty::default() });
        let store = GrantStore::open(options(persist.clone())).await.unwrap();
        ask(&store, "fs:read:/a").await;
        let error = store.reply("permission-1", Resolution::Once, None).await.unwrap_err();
        assert_eq!(error.code, GrantStoreCode::JournalFailed);
        let said = if hangs { "the write took more than 30000 ms" } else { "the disk is full" };
        assert_eq!(error.message.as_deref(), Some(said));
        assert_eq!(store.list().len(), 1);
        persist.works.store(true, Ordering::SeqCst);
        store.reply("permission-1", Resolution::Once, None).await.unwrap();
        assert!(store.list().is_empty());
        assert_eq!(persist.inner.events("run-1").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_once_at_a_time() {
    let persist = Arc::new(Faulty { hangs: true, ..Faulty::default() });
    let store = GrantStore::open(options(persist.clone())).await.unwrap();
    ask(&store, "fs:read:/a").await;
    let first = {
        let store = store.clone();
        tokio::spawn(async move { store.reply("permission-1", Resolution::Once, None).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(
        code(store.reply("permission-1", Resolution::Deny, None).await),
        GrantStoreCode::RequestNotFound
    );
    // A slow write stalls nobody else.
    ask(&store, "fs:read:/b").await;
    // A reply that is dropped gives the request back.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    persist.works.store(true, Ordering::SeqCst);
    store.reply("permission-1", Resolution::Deny, None).await.unwrap();
    // Closed during the write: the answer does not count.
    persist.works.store(false, Ordering::SeqCst);
    let last = {
        let store = store.clone();
        tokio::spawn(async move { store.reply("permission-2", Resolution::Once, None).await })
    };
    tokio::task::yield_now().await;
    store.close();
    let error = last.await.unwrap().unwrap_err();
    assert_eq!(error.code, GrantStoreCode::JournalFailed);
    assert_eq!(code(store.reply("permission-2", Resolution::Once, None).await), GrantStoreCode::StoreClosed);
}

/// One step of a random history of a store.
#[derive(Clone, Debug)]
enum Step {
    Check(usize),
    Reply(u64, Resolution),
    Fault(bool),
    Reopen,
}

const REQUESTS: [&str; 4] = ["fs:read:/ws/a", "fs:read:/ws/allowed", "fs:read:/ws/denied", "fs:write:/ws/a"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..REQUESTS.len()).prop_map(Step::Check),
        4 => (1..12_u64, prop_oneof![Just(Resolution::Once), Just(Resolution::Deny)])
            .prop_map(|(number, resolution)| Step::Reply(number, resolution)),
        1 => any::<bool>().prop_map(Step::Fault),
        1 => Just(Step::Reopen),
    ]
}

async fn history(steps: Vec<Step>) {
    let persist = Arc::new(Faulty { works: AtomicBool::new(true), ..Faulty::default() });
    let mut options = options(persist.clone());
    options.configured = vec![rule("allow fs:read:/ws/allowed"), rule("deny fs:read:/ws/denied")];
    let mut store = GrantStore::open(options.clone()).await.unwrap();
    let mut waiting: Vec<u64> = Vec::new();
    let (mut asked, mut recorded) = (0, 0);
    for step in steps {
        match step {
            Step::Check(index) => match (REQUESTS[index], check(&store, REQUESTS[index]).await) {
                ("fs:read:/ws/allowed", result) => assert_eq!(result, Ok(())),
                ("fs:read:/ws/denied", Err(PermissionError::Denied(_))) => {}
                (_, Err(PermissionError::Required(required))) => {
                    asked += 1;
                    waiting.push(asked);
                    assert_eq!(required.request_id, format!("permission-{asked}"));
                }
                (request, other) => panic!("{request}: {other:?}"),
            },
            Step::Reply(number, resolution) => {
                let result = store.reply(&format!("permission-{number}"), resolution, None).await;
                let at = waiting.iter().position(|waits| *waits == number);
                match (at, persist.works.load(Ordering::SeqCst)) {
                    (None, _) => assert_eq!(code(result), GrantStoreCode::RequestNotFound),
                    (Some(_), false) => assert_eq!(code(result), GrantStoreCode::JournalFailed),
                    (Some(at), true) => {
                        assert_eq!(result.unwrap().request_id, format!("permission-{number}"));
                        waiting.remove(at);
                        recorded += 1;
                    }
                }
            }
            Step::Fault(works) => persist.works.store(works, Ordering::SeqCst),
            Step::Reopen => {
                store = GrantStore::open(options.clone()).await.unwrap();
                waiting.clear();
                asked = 0;
            }
        }
        let ids: Vec<String> = store.list().into_iter().map(|request| request.request_id).collect();
        assert_eq!(ids, waiting.iter().map(|number| format!("permission-{number}")).collect::<Vec<_>>());
        assert_eq!(persist.inner.events("run-1").len(), recorded);
        assert_eq!(store.rules().len(), 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_history_keeps_what_waits_and_what_is_recorded(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(history(steps));
    }
}
