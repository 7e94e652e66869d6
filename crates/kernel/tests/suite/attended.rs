use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flowcell_kernel::flows::capability::CapabilityPattern;
use flowcell_kernel::flows::effects::Tier;
use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::{
    GrantEvent, GrantStore, GrantStoreCode, GrantStoreError, GrantStoreOptions, MAX_PENDING, MAX_RULES,
    MemoryPersist, Meta, POLICY_RUN, PendingRequest, PermissionDenied, PermissionError, Persist,
    PersistError, PersistedEvent, Resolution, Source,
};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, yield_now};

use crate::support::{cap, pattern_of, rule};

/// A journal in memory that works, fails or hangs, as it is told.
#[derive(Default)]
pub(crate) struct Switched {
    pub(crate) inner: MemoryPersist,
    how: AtomicU8,
    pub(crate) gate: tokio::sync::Notify,
}

pub(crate) const WORKS: u8 = 0;
pub(crate) const FAILS: u8 = 1;
/// Records when the gate opens.
pub(crate) const SLOW: u8 = 2;

impl Switched {
    pub(crate) fn set(&self, how: u8) {
        self.how.store(how, Ordering::SeqCst);
    }
}

#[async_trait]
impl Persist for Switched {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        match self.how.load(Ordering::SeqCst) {
            FAILS => return Err(PersistError::new("the disk is full")),
            SLOW => self.gate.notified().await,
            _ => {}
        }
        self.inner.append(run, event_type, event).await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        self.inner.page(run, after, limit).await
    }
}

pub(crate) fn options(persist: Arc<dyn Persist>) -> GrantStoreOptions {
    let mut options = GrantStoreOptions::new("/ws", persist);
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    options
}

async fn bench() -> (Arc<Switched>, Arc<GrantStore>) {
    let journal = Arc::new(Switched::default());
    let store = GrantStore::open(options(journal.clone())).await.unwrap();
    (journal, store)
}

type Asked = JoinHandle<Result<(), PermissionError>>;

/// Asks, and comes back when the request waits.
async fn park(store: &Arc<GrantStore>, request: &str) -> (String, Asked) {
    park_under(store, request, CapabilitySet::unrestricted()).await
}

async fn park_under(store: &Arc<GrantStore>, request: &str, ceiling: CapabilitySet) -> (String, Asked) {
    let (own, request) = (store.clone(), cap(request));
    let asked = tokio::spawn(async move { own.check(&ceiling, request, Meta::new()).await });
    yield_now().await;
    (store.list().last().unwrap().request_id.clone(), asked)
}

fn code<T: std::fmt::Debug>(result: Result<T, GrantStoreError>) -> GrantStoreCode {
    result.unwrap_err().code
}

fn denied(request: &str, reason: &str) -> Result<(), PermissionError> {
    Err(PermissionDenied::new(cap(request), reason).into())
}

fn decide(store: &GrantStore, request: &str) -> Effect {
    store.decide(&CapabilitySet::unrestricted(), &cap(request))
}

#[tokio::test]
async fn a_store_is_attended_unless_it_is_told_otherwise() {
    assert!(GrantStoreOptions::new("/ws", Arc::new(MemoryPersist::new())).attended);
    let (_, store) = bench().await;
    assert!(store.is_attended());
    let (id, asked) = park(&store, "fs:write:/ws/a").await;
    assert!(!asked.is_finished());
    let expected = PendingRequest {
        request_id: "permission-1".to_owned(),
        capability: cap("fs:write:/ws/a"),
        tier: Tier::Compensable,
        meta: Meta::new(),
    };
    assert_eq!((id.as_str(), store.list()), ("permission-1", vec![expected]));
    assert!(store.run_id() == Some("run-1") && store.plan_digest() == Some("plan-1"));
    assert_eq!(store.workspace_root(), "/ws");
}

#[tokio::test]
async fn every_reply_of_the_table() {
    let (journal, store) = bench().await;
    let exact = json!({"action": "fs:read", "resource": "/ws/a"});
    let with = |event_type: &str, run: &str, id: &str, scope: &str| {
        json!({
            "eventType": event_type, "requestId": id, "runId": run, "planDigest": "plan-1",
            "capability": exact, "pattern": exact, "scope": scope, "tier": "sealed",
        })
    };

    // Once frees this request only: the twin beside it still waits.
    let (one, first) = park(&store, "fs:read:/ws/a").await;
    let (two, second) = park(&store, "fs:read:/ws/a").await;
    assert_eq!((one.as_str(), two.as_str()), ("permission-1", "permission-2"));
    let answered = store.reply(&one, Resolution::Once, None).await.unwrap();
    assert_eq!(answered.request_id, one);
    assert_eq!(first.await.unwrap(), Ok(()));
    assert!(!second.is_finished() && store.rules().is_empty());
    // Deny fails this request, and the next asks again.
    store.reply(&two, Resolution::Deny, None).await.unwrap();
    assert_eq!(second.await.unwrap(), denied("fs:read:/ws/a", "denied on request"));
    let (three, third) = park(&store, "fs:read:/ws/a").await;
    assert_eq!(three, "permission-3");

    // Run adds a rule under the asker's ceiling.
    let ceiling = CapabilitySet::of([pattern_of("fs:read:/ws/a"), pattern_of("fs:read:/ws/b")]);
    let (four, fourth) = park_under(&store, "fs:read:/ws/a", ceiling).await;
    store.reply(&four, Resolution::Run, Some(pattern_of("fs:read:/ws/?"))).await.unwrap();
    assert_eq!(fourth.await.unwrap(), Ok(()));
    assert_eq!(third.await.unwrap(), Ok(()), "covered");
    assert_eq!(decide(&store, "fs:read:/ws/b"), Effect::Allow);
    assert_eq!(decide(&store, "fs:read:/ws/c"), Effect::Ask);
    assert_eq!(store.rules(), [(rule("allow fs:read:/ws/?"), Source::Run { seq: Some(3) })]);

    // Remembered adds a rule without one, in the policy run.
    let narrow = CapabilitySet::of([pattern_of("net:get:example.com")]);
    let (five, fifth) = park_under(&store, "net:get:example.com", narrow).await;
    store.reply(&five, Resolution::Remembered, Some(pattern_of("net:get:*"))).await.unwrap();
    assert_eq!(fifth.await.unwrap(), Ok(()));
    assert_eq!(decide(&store, "net:get:other.example"), Effect::Allow);

    let run: Vec<Value> = journal.inner.events("run-1").into_iter().map(|event| event.event).collect();
    let mut run_grant = with(GrantEvent::RUN, "run-1", "permission-4", "run");
    run_grant["pattern"] = json!({"action": "fs:read", "resource": "/ws/?"});
    run_grant["ceiling"] = json!([[
        {"action": "fs:read", "resource": "/ws/a"}, {"action": "fs:read", "resource": "/ws/b"},
    ]]);
    assert_eq!(
        run,
        [
            with(GrantEvent::ONCE, "run-1", "permission-1", "once"),
            with(GrantEvent::DENIED, "run-1", "permission-2", "once"),
            run_grant,
        ]
    );
    let policy: Vec<Value> = journal.inner.events(POLICY_RUN).into_iter().map(|event| event.event).collect();
    let host = json!({"action": "net:get", "resource": "example.com"});
    let mut remembered = with(GrantEvent::REMEMBERED, POLICY_RUN, "permission-5", "remembered");
    remembered["capability"] = host;
    remembered["pattern"] = json!({"action": "net:get", "resource": "*"});
    assert_eq!(policy, [remembered]);

    // A later process has both rules, another run's only the remembered one, and another plan's as well.
    let again = GrantStore::open(options(journal.clone())).await.unwrap();
    assert_eq!(again.rules(), store.rules());
    for (run, plan) in [("run-2", "plan-1"), ("run-1", "plan-2")] {
        let mut other = options(journal.clone());
        other.run_id = Some(run.to_owned());
        other.plan_digest = Some(plan.to_owned());
        let rules = GrantStore::open(other).await.unwrap().rules();
        assert_eq!(rules, [(rule("allow net:get:*"), Source::Remembered { seq: Some(1) })]);
    }
    // The ceiling of a process bounds replayed run grants.
    let mut bounded = options(journal.clone());
    bounded.ceiling = CapabilitySet::of([pattern_of("fs:read:/ws/b")]);
    let bounded = GrantStore::open(bounded).await.unwrap();
    assert_eq!(decide(&bounded, "fs:read:/ws/b"), Effect::Allow);
    assert_eq!(decide(&bounded, "fs:read:/ws/a"), Effect::Ask);
}

#[tokio::test]
async fn patterns_are_valid_to_the_letter() {
    // request, pattern, valid
    let rows: &[(&str, Option<&str>, bool)] = &[
        ("fs:read:/ws/a", None, true),
        ("fs:read:/ws/a*", None, false),
        ("fs:read:/ws/a*", Some("fs:read:/ws/a*"), false),
        ("fs:read:/ws/a*", Some("fs:read:/ws/*"), true),
        ("fs:read:/ws/a", Some("fs:*:/ws/a"), false),
        ("fs:read:/ws/a", Some("*"), false),
        ("fs:read:/ws/a", Some("fs:write:/ws/a"), false),
        ("fs:read:/ws/a", Some("fs:read:/ws/b"), false),
        ("fs:read:/ws/a", Some("fs:read:**"), true),
        ("proc:spawn:ls -l", Some("proc:spawn:ls *"), true),
        ("proc:spawn:rm *", None, false),
        ("net:private:http://10.1.1.1", Some("net:private:**"), true),
        ("net:private:http://10.1.1.1", Some("net:*:**"), false),
        ("fs:write:/ws/a", None, true),
        ("fs:write:/ws", Some("fs:write:/ws"), true),
        ("fs:write:/ws/a", Some("fs:write:/ws/**"), true),
        ("fs:write:/ws/d/a", Some("fs:write:/ws/d/*"), true),
        ("fs:write:/ws/d/a", Some("fs:write:/w*/d/a"), false),
        ("fs:write:/ws/a", Some("fs:write:/**"), false),
        ("fs:write:/ws/a", Some("fs:write:/ws/./**"), false),
        ("fs:write:/ws/./a", None, false),
        ("fs:write:/etc/a", None, true),
        ("fs:write:/etc/a", Some("fs:write:/etc/*"), false),
        ("fs:write:/etc/a", Some("fs:write:**"), false),
    ];
    for (request, pattern, valid) in rows {
        for resolution in [Resolution::Run, Resolution::Remembered] {
            let (journal, store) = bench().await;
            let (id, asked) = park(&store, request).await;
            let result = store.reply(&id, resolution, pattern.map(pattern_of)).await;
            if *valid {
                result.unwrap();
                assert_eq!(asked.await.unwrap(), Ok(()));
                assert_eq!(GrantStore::open(options(journal)).await.unwrap().rules(), store.rules());
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!(error.code, GrantStoreCode::InvalidResolution, "{request} {pattern:?}");
            let expected = match pattern {
                Some(_) => "pattern is wider than the request",
                None if request.contains('*') => "no pattern is exactly the request: one has to be given",
                None => "pattern is wider than the request",
            };
            assert_eq!(error.message.as_deref(), Some(expected), "{request} {pattern:?}");
            // Nothing changed, and the request still waits.
            assert!(store.rules().is_empty() && store.list().len() == 1 && !asked.is_finished());
            assert!(journal.inner.events("run-1").is_empty() && journal.inner.events(POLICY_RUN).is_empty());
        }
    }
    // Of a root with a wildcard in its name nothing is provable.
    let mut wild = options(Arc::new(MemoryPersist::new()));
    wild.workspace_root = "/w*".into();
    let store = GrantStore::open(wild).await.unwrap();
    let (id, _asked) = park(&store, "fs:write:/w*/a").await;
    let pattern = Some(pattern_of("fs:write:/w*/**"));
    assert_eq!(code(store.reply(&id, Resolution::Run, pattern).await), GrantStoreCode::InvalidResolution);
}

#[tokio::test]
async fn an_answer_needs_where_to_record_it() {
    let open = |change: fn(&mut GrantStoreOptions)| async move {
        let mut options = options(Arc::new(MemoryPersist::new()));
        change(&mut options);
        let store = GrantStore::open(options).await.unwrap();
        let (id, asked) = park(&store, "fs:read:/ws/a").await;
        (store, id, asked)
    };
    let message = |error: GrantStoreError| error.message.unwrap();
    let (store, id, asked) = open(|options| options.plan_digest = None).await;
    let error = store.reply(&id, Resolution::Run, None).await.unwrap_err();
    assert_eq!(message(error), "a run grant is bound to a plan, and there is none");
    store.reply(&id, Resolution::Remembered, None).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
    let (store, id, asked) = open(|options| options.run_id = None).await;
    for resolution in [Resolution::Once, Resolution::Deny, Resolution::Run] {
        let error = store.reply(&id, resolution, None).await.unwrap_err();
        assert_eq!(message(error), "an answer is recorded in a run, and the store has none");
    }
    for resolution in [Resolution::Once, Resolution::Deny] {
        let pattern = Some(pattern_of("fs:read:/ws/a"));
        let error = store.reply(&id, resolution, pattern).await.unwrap_err();
        assert_eq!(message(error), "a pattern goes with a grant that adds a rule");
    }
    store.reply(&id, Resolution::Remembered, None).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_rule_releases_whom_it_covers_and_nobody_else() {
    let (_, store) = bench().await;
    let narrow = CapabilitySet::of([pattern_of("fs:read:/ws/**")]);
    let (first, a) = park_under(&store, "fs:read:/ws/a", narrow).await;
    let (_, b) = park(&store, "fs:read:/ws/b").await;
    let (_, other) = park(&store, "fs:read:/etc/b").await;
    let (_, write) = park(&store, "fs:write:/ws/b").await;
    // The rule is bound to the ceiling of the one that asked: /etc/b is matched and stays outside.
    store.reply(&first, Resolution::Run, Some(pattern_of("fs:read:**"))).await.unwrap();
    assert_eq!(a.await.unwrap(), Ok(()));
    assert_eq!(b.await.unwrap(), Ok(()));
    yield_now().await;
    assert!(!other.is_finished() && !write.is_finished());
    assert_eq!(store.list().len(), 2);
    // A remembered one has no ceiling.
    let (last, c) = park(&store, "fs:read:/etc/c").await;
    store.reply(&last, Resolution::Remembered, Some(pattern_of("fs:read:**"))).await.unwrap();
    assert_eq!(c.await.unwrap(), Ok(()));
    assert_eq!(other.await.unwrap(), Ok(()));
    assert!(!write.is_finished());
}

#[tokio::test]
async fn whoever_goes_away_takes_the_request_along() {
    let (_, store) = bench().await;
    let (id, asked) = park(&store, "fs:read:/ws/a").await;
    let mut watch = store.watch();
    assert_eq!(watch.next().await.unwrap().request_id, id);
    let settled = tokio::spawn({
        let (watch, id) = (store.watch(), id.clone());
        async move { watch.settled(&id).await }
    });
    yield_now().await;
    assert!(!settled.is_finished());
    asked.abort();
    assert!(asked.await.unwrap_err().is_cancelled());
    settled.await.unwrap();
    assert!(store.list().is_empty());
    assert_eq!(code(store.reply(&id, Resolution::Once, None).await), GrantStoreCode::RequestNotFound);
}

#[tokio::test]
async fn a_host_learns_of_requests_as_they_come() {
    let (_, store) = bench().await;
    let (one, _a) = park(&store, "fs:read:/ws/a").await;
    let mut watch = store.watch();
    let mut other = store.watch();
    assert_eq!(watch.next().await.unwrap().request_id, one);
    let next = tokio::spawn(async move {
        let next = watch.next().await;
        (watch, next)
    });
    yield_now().await;
    assert!(!next.is_finished());
    let (two, _b) = park(&store, "fs:read:/ws/b").await;
    let (mut watch, next) = next.await.unwrap();
    assert_eq!(next.unwrap().request_id, two);
    // Each watcher is told of all; one that was answered meanwhile is left out.
    store.reply(&one, Resolution::Once, None).await.unwrap();
    assert_eq!(other.next().await.unwrap().request_id, two);
    // A dropped wait loses nothing.
    assert!(tokio::time::timeout(Duration::from_millis(1), watch.next()).await.is_err());
    let (three, _c) = park(&store, "fs:read:/ws/c").await;
    assert_eq!(watch.next().await.unwrap().request_id, three);
    watch.settled("permission-99").await;
    // The end of the store is the end of the watch, be it closed or gone.
    store.close();
    assert_eq!(watch.next().await, None);
    other.settled(&three).await;
    let (_, store) = bench().await;
    let mut watch = store.watch();
    drop(store);
    assert_eq!(watch.next().await, None);
    watch.settled("permission-1").await;
}

#[tokio::test]
async fn closing_ends_every_wait() {
    let (_, store) = bench().await;
    let (id, a) = park(&store, "fs:read:/ws/a").await;
    let (_, b) = park(&store, "fs:write:/ws/b").await;
    store.close();
    store.close();
    assert_eq!(a.await.unwrap(), denied("fs:read:/ws/a", "store closed"));
    assert_eq!(b.await.unwrap(), denied("fs:write:/ws/b", "store closed"));
    let closed = GrantStoreError { code: GrantStoreCode::StoreClosed, message: None };
    assert_eq!(store.reply(&id, Resolution::Once, None).await, Err(closed.clone()));
    assert_eq!(store.revoke(1).await, Err(closed.clone()));
    let envelope = flowcell_kernel::Envelope::new("plan-1", vec![]);
    assert_eq!(store.grant_envelope(envelope).await, Err(closed.clone()));
    let late = store.check(&CapabilitySet::unrestricted(), cap("fs:read:/ws/a"), Meta::new()).await;
    assert_eq!(late, Err(closed.into()));
}

#[tokio::test]
async fn no_more_wait_than_the_bound() {
    let (_, store) = bench().await;
    let mut asked = Vec::new();
    for _ in 0..MAX_PENDING {
        asked.push(park(&store, "fs:read:/ws/a").await.1);
    }
    let refused = store.check(&CapabilitySet::unrestricted(), cap("fs:read:/ws/a"), Meta::new()).await;
    let Err(PermissionError::Store(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.code, GrantStoreCode::InvalidResolution);
    assert_eq!(store.list().len(), MAX_PENDING);
    // One goes, one comes.
    asked.pop().unwrap().abort();
    yield_now().await;
    let (id, _asked) = park(&store, "fs:read:/ws/a").await;
    assert_eq!(id, format!("permission-{}", MAX_PENDING + 1));
}

#[tokio::test]
async fn no_more_rules_than_the_bound_even_while_they_are_written() {
    let journal = Arc::new(Switched::default());
    let mut full = options(journal.clone());
    full.configured = (1..MAX_RULES).map(|n| rule(&format!("allow fs:read:/{n}"))).collect();
    let store = GrantStore::open(full).await.unwrap();
    let (one, a) = park(&store, "fs:read:/ws/a").await;
    let (two, b) = park(&store, "fs:read:/ws/b").await;
    journal.set(SLOW);
    let writes = tokio::spawn({
        let store = store.clone();
        async move { store.reply(&one, Resolution::Run, None).await }
    });
    yield_now().await;
    for resolution in [Resolution::Run, Resolution::Remembered] {
        assert_eq!(code(store.reply(&two, resolution, None).await), GrantStoreCode::InvalidResolution);
    }
    journal.gate.notify_one();
    writes.await.unwrap().unwrap();
    assert_eq!(a.await.unwrap(), Ok(()));
    assert_eq!(store.rules().len(), MAX_RULES);
    // An answer that adds no rule has room.
    journal.set(WORKS);
    store.reply(&two, Resolution::Once, None).await.unwrap();
    assert_eq!(b.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn nothing_counts_before_it_is_recorded() {
    for resolution in [Resolution::Once, Resolution::Run, Resolution::Remembered, Resolution::Deny] {
        let (journal, store) = bench().await;
        let (id, asked) = park(&store, "fs:read:/ws/a").await;
        let (other, beside) = park(&store, "fs:read:/ws/b").await;
        // Fails: still waiting, still answerable.
        journal.set(FAILS);
        let error = store.reply(&id, resolution, None).await.unwrap_err();
        assert_eq!(error.to_string(), "grant store journal_failed: the disk is full");
        // Hangs: nothing is active, a second answer finds no request, nobody else is stalled.
        journal.set(SLOW);
        let slow = tokio::spawn({
            let (store, id) = (store.clone(), id.clone());
            async move { store.reply(&id, resolution, None).await }
        });
        yield_now().await;
        assert_eq!(code(store.reply(&id, Resolution::Deny, None).await), GrantStoreCode::RequestNotFound);
        assert!(!asked.is_finished() && store.rules().is_empty() && store.list().len() == 2);
        journal.set(WORKS);
        store.reply(&other, Resolution::Once, None).await.unwrap();
        assert_eq!(beside.await.unwrap(), Ok(()));
        // Late: as failed. The time is Tokio's own.
        let before = tokio::time::Instant::now();
        let error = slow.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "grant store journal_failed: the write took more than 30000 ms");
        assert_eq!(before.elapsed(), Duration::from_millis(30_000));
        assert!(!asked.is_finished() && store.rules().is_empty());
        let answered = store.reply(&id, resolution, None).await.unwrap();
        assert_eq!(answered.request_id, id);
        let expected = match resolution {
            Resolution::Deny => denied("fs:read:/ws/a", "denied on request"),
            _ => Ok(()),
        };
        assert_eq!(asked.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn an_asker_that_goes_away_during_the_write() {
    for (resolution, activates) in [
        (Resolution::Once, false),
        (Resolution::Deny, false),
        (Resolution::Run, true),
        (Resolution::Remembered, true),
    ] {
        let (journal, store) = bench().await;
        let (id, asked) = park(&store, "fs:read:/ws/a").await;
        journal.set(SLOW);
        let reply = tokio::spawn({
            let (store, id) = (store.clone(), id.clone());
            async move { store.reply(&id, resolution, None).await }
        });
        yield_now().await;
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        assert!(store.list().is_empty());
        let (_, beside) = park(&store, "fs:read:/ws/a").await;
        journal.gate.notify_one();
        let result = reply.await.unwrap();
        if activates {
            assert_eq!(result.unwrap().request_id, id);
            assert_eq!(store.rules().len(), 1);
            assert_eq!(beside.await.unwrap(), Ok(()), "covered");
        } else {
            assert_eq!(code(result), GrantStoreCode::RequestNotFound);
            assert!(store.rules().is_empty() && !beside.is_finished());
        }
    }
}

#[tokio::test]
async fn closing_during_a_write_frees_nobody() {
    let (journal, store) = bench().await;
    let (id, asked) = park(&store, "fs:read:/ws/a").await;
    journal.set(SLOW);
    let reply = tokio::spawn({
        let store = store.clone();
        async move { store.reply(&id, Resolution::Run, None).await }
    });
    yield_now().await;
    store.close();
    assert_eq!(asked.await.unwrap(), denied("fs:read:/ws/a", "store closed"));
    journal.gate.notify_one();
    assert_eq!(code(reply.await.unwrap()), GrantStoreCode::StoreClosed);
    // The record is there, and counts for the next process.
    assert_eq!(GrantStore::open(options(journal)).await.unwrap().rules().len(), 1);
}

#[tokio::test]
async fn an_unattended_answer_covers_as_well() {
    let journal = Arc::new(MemoryPersist::new());
    let store = GrantStore::open(options(journal).unattended()).await.unwrap();
    let unrestricted = CapabilitySet::unrestricted();
    for name in ["a", "b"] {
        let request = cap(&format!("fs:read:/ws/{name}"));
        assert!(store.check(&unrestricted, request, Meta::new()).await.is_err());
    }
    let write = store.check(&unrestricted, cap("fs:write:/ws/a"), Meta::new()).await;
    assert!(matches!(write, Err(PermissionError::Required(_))));
    let pattern: Option<CapabilityPattern> = Some(pattern_of("fs:read:/ws/*"));
    store.reply("permission-1", Resolution::Run, pattern).await.unwrap();
    let left: Vec<String> = store.list().into_iter().map(|request| request.request_id).collect();
    assert_eq!(left, ["permission-3"]);
    assert_eq!(store.check(&unrestricted, cap("fs:read:/ws/b"), Meta::new()).await, Ok(()));
}

/// On threads of their own: whoever asks while a rule is added is covered by it or waits for an answer that comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_stranded_between_a_look_and_a_wait() {
    const ROUNDS: usize = 150;
    const ASKERS: usize = 6;
    let (journal, store) = bench().await;
    let mut watch = store.watch();
    let answering = tokio::spawn({
        let store = store.clone();
        async move {
            let mut answers = 0;
            while let Some(request) = watch.next().await {
                let round = request.capability.resource().rsplit_once('/').unwrap().0.to_owned();
                let pattern = Some(pattern_of(&format!("fs:read:{round}/*")));
                match store.reply(&request.request_id, Resolution::Run, pattern).await {
                    Ok(_) => answers += 1,
                    Err(error) => assert_eq!(error.code, GrantStoreCode::RequestNotFound),
                }
            }
            answers
        }
    });
    for round in 0..ROUNDS {
        let asked: Vec<Asked> = (0..ASKERS)
            .map(|asker| {
                let (store, request) = (store.clone(), cap(&format!("fs:read:/ws/{round}/{asker}")));
                tokio::spawn(async move {
                    store.check(&CapabilitySet::unrestricted(), request, Meta::new()).await
                })
            })
            .collect();
        for asked in asked {
            let ended = tokio::time::timeout(Duration::from_secs(20), asked).await;
            assert_eq!(ended.expect("stranded").unwrap(), Ok(()));
        }
    }
    store.close();
    let answers = answering.await.unwrap();
    assert!(answers >= ROUNDS && journal.inner.events("run-1").len() == answers);
    assert_eq!(store.rules().len(), answers);
}
