use std::sync::Arc;

use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::{
    Envelope, EnvelopeScope, GrantEvent, GrantStore, GrantStoreCode, GrantStoreError, GrantStoreOptions,
    MAX_ENVELOPE_PATTERNS, MAX_ENVELOPE_SIGNATURES, MAX_RULES, MemoryPersist, Meta, POLICY_RUN, Resolution,
    Source,
};
use serde_json::json;
use tokio::task::yield_now;

use crate::attended::{FAILS, SLOW, Switched, WORKS, options};
use crate::support::{cap, pattern_of, rule};

fn envelope(scope: EnvelopeScope, patterns: &[&str]) -> Envelope {
    let patterns = patterns.iter().map(|text| pattern_of(text)).collect();
    Envelope { scope, ..Envelope::new("plan-1", patterns) }
}

async fn bench() -> (Arc<Switched>, Arc<GrantStore>) {
    let journal = Arc::new(Switched::default());
    let store = GrantStore::open(options(journal.clone())).await.unwrap();
    (journal, store)
}

fn code<T: std::fmt::Debug>(result: Result<T, GrantStoreError>) -> GrantStoreCode {
    result.unwrap_err().code
}

const WRITES: [&str; 3] = ["fs:write:/ws/**", "fs:read:/ws/**", "fs:read:/ws/**"];

#[test]
fn the_signature_of_the_contract() {
    let own = envelope(EnvelopeScope::Run, &WRITES);
    assert_eq!(own.signature(), "sha256:0782477f7edbd689decfeef17b2cc192daa2f9b00cb0c215bed1d659d5ed99a0");
    assert_eq!(own.canonical().patterns, [pattern_of("fs:read:/ws/**"), pattern_of("fs:write:/ws/**")]);
    assert_eq!(own.canonical().signature(), own.signature());
    assert_ne!(envelope(EnvelopeScope::Remembered, &WRITES).signature(), own.signature());
    assert_eq!(EnvelopeScope::default(), EnvelopeScope::Run);
    // A digest with quotes and controls is a JSON string.
    let odd = Envelope::new("a\"\n\u{1f600}", vec![]);
    assert_eq!(odd.signature(), odd.canonical().signature());
}

#[tokio::test]
async fn an_envelope_is_recorded_once_and_replayed() {
    for (scope, run, other) in
        [(EnvelopeScope::Run, "run-1", POLICY_RUN), (EnvelopeScope::Remembered, POLICY_RUN, "run-1")]
    {
        let (journal, store) = bench().await;
        let (own, request) = (store.clone(), cap("fs:write:/ws/a"));
        let asked =
            tokio::spawn(
                async move { own.check(&CapabilitySet::unrestricted(), request, Meta::new()).await },
            );
        yield_now().await;
        for _ in 0..2 {
            store.grant_envelope(envelope(scope, &WRITES)).await.unwrap();
        }
        assert_eq!(asked.await.unwrap(), Ok(()), "covered");
        let source = match scope {
            EnvelopeScope::Run => Source::Envelope { seq: Some(1) },
            EnvelopeScope::Remembered => Source::Remembered { seq: Some(1) },
        };
        let rules = [rule("allow fs:read:/ws/**"), rule("allow fs:write:/ws/**")].map(|rule| (rule, source));
        assert_eq!(store.rules(), rules);
        let events = journal.inner.events(run);
        let scope_text = serde_json::to_value(scope).unwrap();
        let patterns = json!([
            {"action": "fs:read", "resource": "/ws/**"}, {"action": "fs:write", "resource": "/ws/**"},
        ]);
        assert_eq!(events.len(), 1);
        assert_eq!(
            events[0].event,
            json!({
                "eventType": GrantEvent::ENVELOPE, "runId": run, "planDigest": "plan-1",
                "patterns": patterns, "scope": scope_text,
            })
        );
        assert!(journal.inner.events(other).is_empty());
        // A later store knows the signature.
        let again = GrantStore::open(options(journal.clone())).await.unwrap();
        assert_eq!(again.rules(), rules);
        again.grant_envelope(envelope(scope, &WRITES)).await.unwrap();
        let mut with = options(journal.clone());
        with.envelope = Some(envelope(scope, &WRITES));
        assert_eq!(GrantStore::open(with).await.unwrap().rules(), rules);
        assert_eq!(journal.inner.events(run).len(), 1);
    }
}

#[tokio::test]
async fn one_bad_pattern_refuses_the_whole_envelope() {
    let (journal, store) = bench().await;
    for bad in [
        "fs:*:/ws/a",
        "*",
        "net:*:**",
        "fs:write:/**",
        "fs:write:/etc/*",
        "fs:write:/ws/../*",
        "fs:write:/w?/a",
    ] {
        for scope in [EnvelopeScope::Run, EnvelopeScope::Remembered] {
            let envelope = envelope(scope, &["fs:read:/ws/**", bad]);
            assert_eq!(
                code(store.grant_envelope(envelope.clone()).await),
                GrantStoreCode::InvalidResolution,
                "{bad}"
            );
            let mut with = options(journal.clone());
            with.envelope = Some(envelope);
            assert_eq!(code(GrantStore::open(with).await), GrantStoreCode::InvalidResolution);
        }
    }
    // A literal write anywhere, and any pattern of another action.
    for fine in ["fs:write:/etc/a", "fs:read:**", "proc:spawn:**", "net:private:**"] {
        store.grant_envelope(envelope(EnvelopeScope::Run, &[fine])).await.unwrap();
    }
    assert_eq!(store.rules().len(), 4);
    assert_eq!(
        store.decide(&CapabilitySet::unrestricted(), &cap("net:private:http://10.0.0.1")),
        Effect::Allow
    );
    let many: Vec<String> = (0..=MAX_ENVELOPE_PATTERNS).map(|n| format!("fs:read:/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        code(store.grant_envelope(envelope(EnvelopeScope::Run, &many)).await),
        GrantStoreCode::InvalidResolution
    );
    store.grant_envelope(envelope(EnvelopeScope::Run, &many[1..])).await.unwrap();
    // The plan is the store's; an empty envelope changes nothing.
    let other = Envelope::new("plan-2", vec![pattern_of("fs:read:/a")]);
    assert_eq!(code(store.grant_envelope(other).await), GrantStoreCode::InvalidResolution);
    let before = journal.inner.events("run-1").len();
    store.grant_envelope(envelope(EnvelopeScope::Run, &[])).await.unwrap();
    assert_eq!(journal.inner.events("run-1").len(), before);
    let mut no_run = options(journal.clone());
    no_run.run_id = None;
    let store = GrantStore::open(no_run).await.unwrap();
    let run = envelope(EnvelopeScope::Run, &["fs:read:/a"]);
    assert_eq!(code(store.grant_envelope(run).await), GrantStoreCode::InvalidResolution);
    store.grant_envelope(envelope(EnvelopeScope::Remembered, &["fs:read:/a"])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_identical_envelope_adopts_the_outcome_in_flight() {
    let (journal, store) = bench().await;
    let grant = |patterns: &'static [&'static str]| {
        let store = store.clone();
        tokio::spawn(async move { store.grant_envelope(envelope(EnvelopeScope::Run, patterns)).await })
    };
    journal.set(SLOW);
    let (first, second) = (grant(&WRITES), grant(&["fs:read:/ws/**", "fs:write:/ws/**"]));
    for _ in 0..4 {
        yield_now().await;
    }
    assert!(store.rules().is_empty());
    journal.gate.notify_waiters();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(()), Ok(())));
    assert_eq!((journal.inner.events("run-1").len(), store.rules().len()), (1, 2));
    // A failure is adopted as well.
    let (first, second) = (grant(&["fs:read:/b"]), grant(&["fs:read:/b"]));
    let outcomes = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(code(outcomes.0.clone()), GrantStoreCode::JournalFailed);
    assert_eq!(outcomes.0, outcomes.1);
    // A writer that is dropped leaves the turn to the other.
    let (first, second) = (grant(&["fs:read:/c"]), grant(&["fs:read:/c"]));
    yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    yield_now().await;
    journal.gate.notify_waiters();
    assert_eq!(second.await.unwrap(), Ok(()));
    assert_eq!((journal.inner.events("run-1").len(), store.rules().len()), (2, 3));
    journal.set(FAILS);
    assert_eq!(grant(&["fs:read:/d"]).await.unwrap().unwrap_err().code, GrantStoreCode::JournalFailed);
    journal.set(WORKS);
    grant(&["fs:read:/d"]).await.unwrap().unwrap();
    assert_eq!(store.rules().len(), 4);
}

#[tokio::test]
async fn a_vouched_signature_makes_no_record() {
    for scope in [EnvelopeScope::Run, EnvelopeScope::Remembered] {
        let journal = Arc::new(MemoryPersist::new());
        let mut with = options(journal.clone());
        with.envelope_signatures = vec![envelope(scope, &WRITES).signature()];
        let store = GrantStore::open(with.clone()).await.unwrap();
        assert!(store.rules().is_empty());
        for _ in 0..2 {
            store.grant_envelope(envelope(scope, &WRITES)).await.unwrap();
        }
        assert_eq!(store.rules().len(), 2);
        assert!(store.rules().iter().all(|(_, source)| source.seq().is_none()));
        with.envelope = Some(envelope(scope, &WRITES));
        assert_eq!(GrantStore::open(with).await.unwrap().rules(), store.rules());
        assert!(journal.events("run-1").is_empty() && journal.events(POLICY_RUN).is_empty());
    }
    let refused = |signatures: Vec<String>| async {
        let mut with = options(Arc::new(MemoryPersist::new()));
        with.envelope_signatures = signatures;
        code(GrantStore::open(with).await)
    };
    assert_eq!(refused(vec![String::new()]).await, GrantStoreCode::InvalidResolution);
    let many: Vec<String> = (0..=MAX_ENVELOPE_SIGNATURES).map(|n| format!("sha256:{n}")).collect();
    assert_eq!(refused(many.clone()).await, GrantStoreCode::InvalidResolution);
    let mut full = options(Arc::new(MemoryPersist::new()));
    full.envelope_signatures = many[1..].to_vec();
    let store = GrantStore::open(full).await.unwrap();
    assert_eq!(
        code(store.grant_envelope(envelope(EnvelopeScope::Run, &["fs:read:/a"])).await),
        GrantStoreCode::InvalidResolution
    );
}

#[tokio::test]
async fn a_full_store_takes_no_envelope() {
    let journal = Arc::new(MemoryPersist::new());
    let full = |journal: &Arc<MemoryPersist>| {
        let mut options = options(journal.clone());
        options.configured = (1..MAX_RULES).map(|n| rule(&format!("allow fs:read:/{n}"))).collect();
        options
    };
    let store = GrantStore::open(full(&journal)).await.unwrap();
    let two = envelope(EnvelopeScope::Run, &["fs:read:/a", "fs:read:/b"]);
    assert_eq!(code(store.grant_envelope(two.clone()).await), GrantStoreCode::InvalidResolution);
    let mut with = full(&journal);
    with.envelope = Some(two);
    assert_eq!(code(GrantStore::open(with).await), GrantStoreCode::InvalidResolution);
    assert!(journal.events("run-1").is_empty());
    store.grant_envelope(envelope(EnvelopeScope::Run, &["fs:read:/a"])).await.unwrap();
}

async fn remember(store: &Arc<GrantStore>, request: &str) {
    let (own, request) = (store.clone(), cap(request));
    let asked =
        tokio::spawn(async move { own.check(&CapabilitySet::unrestricted(), request, Meta::new()).await });
    yield_now().await;
    let id = store.list().last().unwrap().request_id.clone();
    store.reply(&id, Resolution::Remembered, None).await.unwrap();
    asked.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_remembered_grant_is_taken_back_after_it_is_recorded() {
    let (journal, store) = bench().await;
    remember(&store, "fs:read:/ws/a").await;
    store.grant_envelope(envelope(EnvelopeScope::Remembered, &["fs:read:/ws/b"])).await.unwrap();
    store.grant_envelope(envelope(EnvelopeScope::Run, &["fs:read:/ws/c"])).await.unwrap();
    for unknown in [0, 3, u64::MAX] {
        assert_eq!(code(store.revoke(unknown).await), GrantStoreCode::RequestNotFound);
    }
    for how in [FAILS, SLOW] {
        journal.set(how);
        assert_eq!(code(store.revoke(1).await), GrantStoreCode::JournalFailed);
        assert_eq!(store.rules().len(), 3);
    }
    let slow = tokio::spawn({
        let store = store.clone();
        async move { store.revoke(1).await }
    });
    yield_now().await;
    assert_eq!(code(store.revoke(1).await), GrantStoreCode::RequestNotFound);
    assert_eq!(store.rules().len(), 3);
    journal.gate.notify_waiters();
    slow.await.unwrap().unwrap();
    journal.set(WORKS);
    assert_eq!(code(store.revoke(1).await), GrantStoreCode::RequestNotFound);
    store.revoke(2).await.unwrap();
    let events = journal.inner.events(POLICY_RUN);
    assert_eq!(events.last().unwrap().event, json!({"eventType": GrantEvent::REVOKED, "seq": 2}));
    assert_eq!(store.rules(), [(rule("allow fs:read:/ws/c"), Source::Envelope { seq: Some(1) })]);
    assert_eq!(GrantStore::open(options(journal.clone())).await.unwrap().rules(), store.rules());
    // A revoked envelope can be granted again: that is a new record.
    store.grant_envelope(envelope(EnvelopeScope::Remembered, &["fs:read:/ws/b"])).await.unwrap();
    assert_eq!(store.rules().len(), 2);
    assert_eq!(GrantStore::open(options(journal.clone())).await.unwrap().rules(), store.rules());
    // Neither once nor run grants are revoked this way, and one that another process made after is unknown.
    assert_eq!(journal.inner.events("run-1").len(), 1);
}

#[tokio::test]
async fn two_grants_of_one_pattern_are_two() {
    let (journal, store) = bench().await;
    let unrestricted = CapabilitySet::unrestricted();
    let mut asked = Vec::new();
    for _ in 0..2 {
        let own = store.clone();
        let unrestricted = unrestricted.clone();
        asked.push(tokio::spawn(
            async move { own.check(&unrestricted, cap("fs:read:/ws/a"), Meta::new()).await },
        ));
    }
    yield_now().await;
    journal.set(SLOW);
    let replies = ["permission-1", "permission-2"].map(|id| {
        let store = store.clone();
        tokio::spawn(async move { store.reply(id, Resolution::Remembered, None).await })
    });
    yield_now().await;
    journal.gate.notify_waiters();
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
    for asked in asked {
        assert_eq!(asked.await.unwrap(), Ok(()));
    }
    journal.set(WORKS);
    let one = |seq| [(rule("allow fs:read:/ws/a"), Source::Remembered { seq: Some(seq) })];
    assert_eq!(store.rules(), one(1));
    store.revoke(1).await.unwrap();
    assert_eq!(store.rules(), one(2));
    assert_eq!(GrantStore::open(options(journal.clone())).await.unwrap().rules(), one(2));
    store.revoke(2).await.unwrap();
    assert!(store.rules().is_empty());
}

#[tokio::test]
async fn a_construction_envelope_that_is_not_recorded_is_no_store() {
    let journal = Arc::new(Switched::default());
    journal.set(FAILS);
    let with = || {
        let mut with: GrantStoreOptions = options(journal.clone());
        with.envelope = Some(envelope(EnvelopeScope::Run, &WRITES));
        GrantStore::open(with)
    };
    assert_eq!(code(with().await), GrantStoreCode::JournalFailed);
    journal.set(WORKS);
    assert_eq!(with().await.unwrap().rules().len(), 2);
}
