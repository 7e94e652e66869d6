use flowcell_kernel::flows::capability::{Action, Capability, CapabilityPattern};
use flowcell_kernel::flows::effects::{Tier, tier_of};
use flowcell_kernel::flows::rules::CapabilitySet;
use flowcell_kernel::{
    Envelope, EnvelopeScope, GrantEvent, GrantRecord, GrantStoreCode, MAX_EVENT_BYTES, POLICY_RUN,
    ReplyContext, Resolution, RunGrantRecord, plan_reply,
};
use proptest::prelude::*;
use serde_json::json;

use crate::exercise;
use crate::support::{cap, pattern_of};

#[test]
fn seeds_of_the_fuzz_target() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/grant_events");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        exercise::grant_events(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 10, "{count} seeds");
}

fn record() -> GrantRecord {
    GrantRecord {
        request_id: "permission-1".to_owned(),
        run_id: "run-1".to_owned(),
        plan_digest: Some("plan-1".to_owned()),
        capability: cap("fs:read:/ws/a"),
        pattern: pattern_of("fs:read:/ws/a"),
        tier: Tier::Sealed,
    }
}

#[test]
fn events_name_their_type_and_run() {
    let remembered = GrantRecord { run_id: POLICY_RUN.to_owned(), ..record() };
    let run = RunGrantRecord {
        request_id: "permission-1".to_owned(),
        run_id: "run-1".to_owned(),
        plan_digest: "plan-1".to_owned(),
        capability: cap("fs:read:/ws/a"),
        pattern: pattern_of("fs:read:/ws/a"),
        tier: Tier::Sealed,
        ceiling: CapabilitySet::unrestricted(),
    };
    let envelope = |scope| Envelope { scope, ..Envelope::new("plan-1", vec![pattern_of("fs:read:/a")]) };
    let rows = [
        (GrantEvent::Once(record()), "once", "run-1"),
        (GrantEvent::Denied(record()), "denied", "run-1"),
        (GrantEvent::Run(run), "run", "run-1"),
        (GrantEvent::Remembered(remembered), "remembered", POLICY_RUN),
        (GrantEvent::of_envelope("run-1", &envelope(EnvelopeScope::Run)), "envelope", "run-1"),
        (GrantEvent::of_envelope("run-1", &envelope(EnvelopeScope::Remembered)), "envelope", POLICY_RUN),
        (GrantEvent::Revoked { seq: 3 }, "revoked", POLICY_RUN),
    ];
    for (event, word, run) in rows {
        assert_eq!(event.event_type(), format!("flowcell.kernel.grant.{word}.v1"));
        assert_eq!(event.run(), run);
        let payload = event.encode().unwrap();
        assert_eq!(payload["eventType"], event.event_type());
        assert_eq!(GrantEvent::decode(event.event_type(), &payload).unwrap(), Some(event));
    }
    assert_eq!(GrantEvent::decode("flowcell.kernel.grant.once.v2", &json!(1)).unwrap(), None);
}

#[test]
fn bounds_of_events_hold_in_both_directions() {
    let invalid = |event: &GrantEvent| {
        assert_eq!(event.encode().unwrap_err().code, GrantStoreCode::InvalidResolution);
    };
    for bad in ["", "a\0", &"x".repeat(4_097)] {
        invalid(&GrantEvent::Once(GrantRecord { request_id: bad.to_owned(), ..record() }));
        invalid(&GrantEvent::Once(GrantRecord { run_id: bad.to_owned(), ..record() }));
        invalid(&GrantEvent::Once(GrantRecord { plan_digest: Some(bad.to_owned()), ..record() }));
        for member in ["requestId", "runId", "planDigest"] {
            let mut payload = GrantEvent::Once(record()).encode().unwrap();
            payload[member] = json!(bad);
            assert!(GrantEvent::decode(GrantEvent::ONCE, &payload).is_err(), "{member}");
        }
    }
    let mut payload = GrantEvent::Once(record()).encode().unwrap();
    payload["planDigest"] = json!(null);
    assert!(GrantEvent::decode(GrantEvent::ONCE, &payload).is_err(), "absent, not null");
    payload.as_object_mut().unwrap().remove("planDigest");
    assert!(GrantEvent::decode(GrantEvent::ONCE, &payload).is_ok());
    // To the byte.
    let patterns = |last: usize| {
        let long = |n: usize| CapabilityPattern::new(Action::FsRead, format!("/{n:04}{}", "x".repeat(4_000)));
        let mut patterns: Vec<_> = (0..64).filter_map(long).collect();
        patterns.extend(CapabilityPattern::new(Action::FsRead, "y".repeat(last)));
        GrantEvent::Envelope { run_id: "run-1".to_owned(), envelope: Envelope::new("p", patterns) }
    };
    let bytes = |event: &GrantEvent| event.encode().map(|payload| payload.to_string().len());
    let base = bytes(&patterns(1)).unwrap();
    let room = 1 + MAX_EVENT_BYTES - base;
    assert!(room <= 4_096, "{room}");
    assert_eq!(bytes(&patterns(room)).unwrap(), MAX_EVENT_BYTES);
    invalid(&patterns(room + 1));
}

fn context<'a>(capability: &'a Capability, tier: Tier, ceiling: &'a CapabilitySet) -> ReplyContext<'a> {
    ReplyContext {
        request_id: "permission-7",
        capability,
        tier,
        ceiling,
        run_id: Some("run-1"),
        plan_digest: Some("plan-1"),
        workspace_root: "/ws",
    }
}

#[test]
fn an_answer_of_another_process_is_the_event_of_the_store() {
    let (capability, ceiling) = (cap("fs:write:/ws/a"), CapabilitySet::of([pattern_of("fs:write:/ws/**")]));
    let request = context(&capability, Tier::Compensable, &ceiling);
    let own = pattern_of("fs:write:/ws/a");
    let base = GrantRecord {
        request_id: "permission-7".to_owned(),
        run_id: "run-1".to_owned(),
        plan_digest: Some("plan-1".to_owned()),
        capability: capability.clone(),
        pattern: own,
        tier: Tier::Compensable,
    };
    assert_eq!(plan_reply(&request, Resolution::Once, None), Ok(GrantEvent::Once(base.clone())));
    assert_eq!(plan_reply(&request, Resolution::Deny, None), Ok(GrantEvent::Denied(base.clone())));
    let remembered = GrantRecord { run_id: POLICY_RUN.to_owned(), ..base };
    assert_eq!(plan_reply(&request, Resolution::Remembered, None), Ok(GrantEvent::Remembered(remembered)));
    let Ok(GrantEvent::Run(run)) = plan_reply(&request, Resolution::Run, Some(pattern_of("fs:write:/ws/**")))
    else {
        panic!("no run grant")
    };
    assert_eq!((run.pattern, run.ceiling), (pattern_of("fs:write:/ws/**"), ceiling.clone()));
    let refused = |request: &ReplyContext<'_>, resolution| {
        let error = plan_reply(request, resolution, None).unwrap_err();
        assert_eq!(error.code, GrantStoreCode::InvalidResolution);
        error.message.unwrap()
    };
    // A tier that is not the capability's would make a grant that no store replays.
    let graver = ReplyContext { tier: Tier::Irreversible, ..request };
    for resolution in [Resolution::Run, Resolution::Remembered] {
        assert_eq!(refused(&graver, resolution), "the tier is not that of the capability");
    }
    assert!(plan_reply(&graver, Resolution::Once, None).is_ok());
    for resolution in [Resolution::Once, Resolution::Deny, Resolution::Run] {
        let policy = ReplyContext { run_id: Some(POLICY_RUN), ..request };
        assert_eq!(refused(&policy, resolution), "the run id is that of the policy run");
        let empty = ReplyContext { run_id: Some(""), ..request };
        assert_eq!(refused(&empty, resolution), "the run id has to be of 1 to 4096 units without NUL");
    }
}

fn resource() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/ws", "/ws2", "/etc", "/a", "/b", "/..", "/.", "/*", "/**", "/?", "*", " x",
    ]);
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

fn action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![
        Action::FsRead,
        Action::FsWrite,
        Action::ProcSpawn,
        Action::NetGet,
        Action::NetPrivate,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What an answer may grant: it selects the request it is for; of writes, a literal outside the workspace, and inside
    /// nothing that reaches out of it.
    #[test]
    fn a_grant_is_never_wider_than_its_request(
        action in action(),
        asked in resource(),
        given in prop::option::of((action_sel(), resource())),
        probe in resource(),
    ) {
        let capability = Capability::new(action, asked).unwrap();
        let given = given.and_then(|(action, glob)| CapabilityPattern::parse(&format!("{action}:{glob}")));
        let (tier, ceiling) = (tier_of(&capability, "/ws"), CapabilitySet::unrestricted());
        let request = context(&capability, tier, &ceiling);
        let Ok(event) = plan_reply(&request, Resolution::Remembered, given) else { return Ok(()) };
        let GrantEvent::Remembered(grant) = &event else { panic!("{event:?}") };
        prop_assert!(grant.pattern.matches(&capability));
        prop_assert_eq!(GrantEvent::decode(event.event_type(), &event.encode().unwrap()).unwrap(), Some(event.clone()));
        let probe = Capability::new(action, probe).unwrap();
        if grant.pattern.matches(&probe) && action == Action::FsWrite && probe != capability {
            prop_assert_eq!(tier, Tier::Compensable);
            prop_assert!(probe.resource() == "/ws" || probe.resource().starts_with("/ws/"));
        }
        for other in [Action::FsRead, Action::FsWrite, Action::NetPost, Action::ModelCall] {
            if other != action {
                prop_assert!(!grant.pattern.matches(&Capability::new(other, probe.resource()).unwrap()));
            }
        }
    }

    #[test]
    fn any_text_is_decoded_or_refused(lines in prop::collection::vec("\\PC{0,80}", 0..4)) {
        exercise::grant_events(lines.join("\n").as_bytes());
    }
}

fn action_sel() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "fs:read",
        "fs:write",
        "proc:spawn",
        "net:get",
        "net:private",
        "fs:*",
        "net:*",
        "*",
    ])
}
