//! What the fuzz target of grant events does with its bytes; the suite runs the same over the kept corpus.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::{
    GRANT_SOURCE, GrantEvent, GrantStore, GrantStoreCode, GrantStoreOptions, MemoryPersist, POLICY_RUN,
};
use serde_json::Value;

const KNOWN: [&str; 6] = [
    GrantEvent::ONCE,
    GrantEvent::RUN,
    GrantEvent::REMEMBERED,
    GrantEvent::DENIED,
    GrantEvent::ENVELOPE,
    GrantEvent::REVOKED,
];

/// Bytes as lines of `type payload`, each an event of a journal: those whose payload says the policy run, or nothing of a
/// run, are of that. Panics when an event does not keep what it says, or a journal of events is more than its rules.
pub(crate) fn grant_events(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let journal = MemoryPersist::new();
    let mut grants = Vec::new();
    for line in text.lines() {
        let Some((event_type, payload)) = line.split_once(' ') else { continue };
        let Ok(payload) = serde_json::from_str::<Value>(payload) else { continue };
        match GrantEvent::decode(event_type, &payload) {
            Ok(None) => assert!(!KNOWN.contains(&event_type), "{event_type}"),
            Err(error) => assert_eq!(error.code, GrantStoreCode::InvalidResolution),
            Ok(Some(event)) => {
                assert_eq!(event.event_type(), event_type);
                let encoded = event.encode().expect("what was decoded is encodable");
                let again = GrantEvent::decode(event_type, &encoded).expect("what was encoded is decodable");
                assert_eq!(again.as_ref(), Some(&event));
                match event {
                    GrantEvent::Run(grant) => grants.push(grant.pattern),
                    GrantEvent::Remembered(grant) => grants.push(grant.pattern),
                    GrantEvent::Envelope { envelope, .. } => {
                        assert_eq!(envelope.signature(), envelope.canonical().signature());
                        grants.extend(envelope.patterns);
                    }
                    GrantEvent::Once(_) | GrantEvent::Denied(_) | GrantEvent::Revoked { .. } => {}
                }
            }
        }
        let run = payload.get("runId").and_then(Value::as_str).unwrap_or(POLICY_RUN);
        let run = if run == POLICY_RUN { POLICY_RUN } else { "run-1" };
        journal.append_from(run, GRANT_SOURCE, event_type, payload);
    }
    let mut options = GrantStoreOptions::new("/ws", Arc::new(journal)).unattended();
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    let open = pin!(GrantStore::open(options));
    // A journal in memory never waits.
    let Poll::Ready(opened) = open.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("construction waits")
    };
    let store = match opened {
        Ok(store) => store,
        Err(error) => {
            assert_eq!(error.code, GrantStoreCode::InvalidResolution);
            return;
        }
    };
    for (rule, source) in store.rules() {
        assert_eq!(rule.effect, Effect::Allow);
        assert!(source.seq().is_some() && grants.contains(&rule.pattern), "{rule:?}");
    }
    let veto =
        flowcell_kernel::flows::capability::Capability::parse("fs:write:/etc/passwd").expect("a capability");
    let literal = grants.iter().any(|pattern| pattern.resource() == veto.resource());
    if !literal {
        assert_ne!(
            store.decide(&CapabilitySet::unrestricted(), &veto),
            Effect::Allow,
            "no wildcard writes there"
        );
    }
}
