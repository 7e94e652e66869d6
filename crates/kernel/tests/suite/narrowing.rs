use std::os::unix::fs::symlink;
use std::sync::Arc;

use flowcell_kernel::flows::capability::Capability;
use flowcell_kernel::flows::rules::{CapabilitySet, Effect, Reason};
use flowcell_kernel::{
    Authority, Envelope, GrantStore, GrantStoreCode, GrantStoreOptions, MAX_RULES, MemoryPersist, Meta,
    PermissionError, Resolution, RunRule, Source,
};
use proptest::prelude::*;
use tokio::task::yield_now;

use crate::attended::options;
use crate::support::{Bench, cap, pattern_of, rule};

fn with(configured: &[&str], narrowing: &[&str]) -> GrantStoreOptions {
    let mut options = options(Arc::new(MemoryPersist::new()));
    options.configured = configured.iter().map(|text| rule(text)).collect();
    options.narrowing = narrowing.iter().map(|text| rule(text)).collect();
    options
}

async fn open(configured: &[&str], narrowing: &[&str]) -> Arc<GrantStore> {
    GrantStore::open(with(configured, narrowing)).await.unwrap()
}

fn decide(store: &GrantStore, request: &str) -> Effect {
    store.decide(&CapabilitySet::unrestricted(), &cap(request))
}

#[tokio::test]
async fn an_untrusted_rule_lowers_and_never_lifts() {
    // configured, narrowing, answer for fs:read:/ws/a
    let rows: &[(&[&str], &[&str], Effect)] = &[
        (&["allow fs:read:**"], &[], Effect::Allow),
        (&["allow fs:read:**"], &["ask fs:read:/ws/*"], Effect::Ask),
        (&["allow fs:read:**"], &["deny fs:read:/ws/*"], Effect::Deny),
        (&[], &["deny fs:read:/ws/*"], Effect::Deny),
        (&[], &["ask fs:read:/ws/*"], Effect::Ask),
        (&[], &["allow fs:read:/ws/*"], Effect::Ask),
        (&["deny fs:read:**"], &["ask fs:read:/ws/*"], Effect::Deny),
        (&["deny fs:read:**"], &["allow fs:read:/ws/*"], Effect::Deny),
        (&["allow fs:read:**"], &["ask fs:read:/other/*"], Effect::Allow),
        // The last that selects counts, and an allow counts for nothing.
        (&["allow fs:read:**"], &["deny fs:read:/ws/*", "ask fs:read:/ws/a"], Effect::Ask),
        (&["allow fs:read:**"], &["ask fs:read:/ws/a", "deny fs:read:/ws/*"], Effect::Deny),
        (&["allow fs:read:**"], &["deny fs:read:/ws/*", "allow fs:read:/ws/a"], Effect::Deny),
    ];
    for (configured, narrowing, effect) in rows {
        let store = open(configured, narrowing).await;
        assert_eq!(decide(&store, "fs:read:/ws/a"), *effect, "{configured:?} {narrowing:?}");
        let explained = store.explain(&cap("fs:read:/ws/a"));
        assert_eq!(explained.effect, *effect);
        let restricts = narrowing.iter().any(|text| !text.starts_with("allow") && text.contains("/ws"));
        let lowers =
            restricts && *effect != Effect::Allow && (!configured.is_empty() || *effect == Effect::Deny);
        let lowers = lowers && configured != &["deny fs:read:**"];
        let workspace = matches!(explained.rule, Some((_, Source::Workspace)));
        assert_eq!(workspace, lowers, "{configured:?} {narrowing:?}: {explained:?}");
    }
    let store = open(&["allow fs:read:**"], &["ask fs:read:/ws/*", "allow fs:write:**"]).await;
    let listed =
        [(rule("allow fs:read:**"), Source::Configured), (rule("ask fs:read:/ws/*"), Source::Workspace)];
    assert_eq!(store.rules(), listed);
    assert_eq!(Source::Workspace.as_str(), "workspace");
    let explained = store.explain(&cap("fs:read:/ws/a"));
    assert_eq!((explained.rule, explained.reason), (Some(listed[1].clone()), Reason::LastMatch));
}

#[tokio::test]
async fn only_a_person_in_this_run_lifts_an_untrusted_ask() {
    let narrowing = ["ask fs:read:/ws/**"];
    // Nothing that the host or the journal brings from elsewhere.
    let mut brought = with(&["allow fs:read:**"], &narrowing);
    brought.remembered = vec![rule("allow fs:read:/ws/a")];
    brought.run_rules =
        vec![RunRule { rule: rule("allow fs:read:/ws/a"), ceiling: CapabilitySet::unrestricted() }];
    brought.envelope = Some(Envelope::new("plan-1", vec![pattern_of("fs:read:/ws/a")]));
    let store = GrantStore::open(brought.clone()).await.unwrap();
    assert_eq!(store.rules().len(), 5);
    assert_eq!(decide(&store, "fs:read:/ws/a"), Effect::Ask);
    let ask = |request: &str| {
        let (store, request) = (store.clone(), cap(request));
        tokio::spawn(async move { store.check(&CapabilitySet::unrestricted(), request, Meta::new()).await })
    };
    // Once frees the call, and the next asks again.
    let asked = ask("fs:read:/ws/a");
    yield_now().await;
    store.reply("permission-1", Resolution::Once, None).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
    assert_eq!(decide(&store, "fs:read:/ws/a"), Effect::Ask);
    let admitted = Authority::root(store.clone()).admitting(vec![cap("fs:read:/ws/a")]);
    assert_eq!(admitted.check(cap("fs:read:/ws/a"), Meta::new()).await, Ok(()));
    // Remembered frees the call that it answers and no other.
    let (asked, beside) = (ask("fs:read:/ws/a"), ask("fs:read:/ws/a"));
    yield_now().await;
    store.reply("permission-2", Resolution::Remembered, None).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
    yield_now().await;
    assert!(!beside.is_finished());
    assert_eq!(decide(&store, "fs:read:/ws/a"), Effect::Ask);
    // Run counts for what it selects, here and where the run is resumed.
    store.reply("permission-3", Resolution::Run, Some(pattern_of("fs:read:/ws/?"))).await.unwrap();
    assert_eq!(beside.await.unwrap(), Ok(()));
    assert_eq!(decide(&store, "fs:read:/ws/b"), Effect::Allow);
    assert_eq!(decide(&store, "fs:read:/ws/bc"), Effect::Ask);
    let resumed = GrantStore::open(brought.clone()).await.unwrap();
    assert_eq!(decide(&resumed, "fs:read:/ws/b"), Effect::Allow);
    let explained = resumed.explain(&cap("fs:read:/ws/b"));
    assert_eq!(
        (explained.effect, explained.rule.map(|(_, source)| source)),
        (Effect::Allow, Some(Source::Run { seq: Some(3) }))
    );
    // In another run only the remembered one is left, and that does not count.
    brought.run_id = Some("run-2".to_owned());
    let other = GrantStore::open(brought.clone()).await.unwrap();
    assert_eq!(decide(&other, "fs:read:/ws/a"), Effect::Ask);
    // No answer lifts a deny, the workspace's own included.
    brought.run_id = Some("run-1".to_owned());
    brought.narrowing.push(rule("deny fs:read:/ws/b"));
    let denied = GrantStore::open(brought).await.unwrap();
    assert_eq!(decide(&denied, "fs:read:/ws/b"), Effect::Deny);
    assert_eq!(decide(&denied, "fs:read:/ws/a"), Effect::Allow);
    let refused = Authority::root(denied)
        .admitting(vec![cap("fs:read:/ws/b")])
        .check(cap("fs:read:/ws/b"), Meta::new())
        .await;
    assert!(matches!(refused, Err(PermissionError::Denied(_))));
}

#[tokio::test]
async fn an_answer_counts_under_its_ceiling_only() {
    let store = open(&["allow fs:read:**"], &["ask fs:read:/ws/**"]).await;
    let ceiling = CapabilitySet::of([pattern_of("fs:read:/ws/a")]);
    let asked = tokio::spawn({
        let store = store.clone();
        async move { store.check(&ceiling, cap("fs:read:/ws/a"), Meta::new()).await }
    });
    yield_now().await;
    store.reply("permission-1", Resolution::Run, Some(pattern_of("fs:read:/ws/*"))).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
    assert_eq!(decide(&store, "fs:read:/ws/a"), Effect::Allow);
    assert_eq!(decide(&store, "fs:read:/ws/b"), Effect::Ask);
}

#[tokio::test]
async fn an_untrusted_rule_that_names_a_link_gets_its_twin() {
    let bench = Bench::new();
    bench.put("secret/key", "k");
    bench.put("open/file", "f");
    symlink("secret", bench.root.join("link")).unwrap();
    symlink("secret/key", bench.root.join("ask")).unwrap();
    let mut options = GrantStoreOptions::new(&bench.root, bench.persist.clone()).unattended();
    options.configured = vec![bench.rule("allow fs:read:{ws}/**")];
    options.narrowing = vec![
        bench.rule("deny fs:read:{ws}/link/**"),
        bench.rule("deny fs:read:{ws}/secret/*"),
        bench.rule("ask fs:read:{ws}/ask"),
    ];
    let store = GrantStore::open(options).await.unwrap();
    let ask = |path: &str| decide(&store, &format!("fs:read:{}", bench.text(path)));
    assert_eq!(ask("secret/key"), Effect::Deny, "an ask twin takes no refusal away");
    assert_eq!(ask("link/key"), Effect::Deny);
    assert_eq!(ask("open/file"), Effect::Allow);
    assert_eq!(store.warnings().len(), 2, "{:?}", store.warnings());
    let explained = store.explain(&cap(&format!("fs:read:{}", bench.text("secret/key"))));
    let expected = (bench.rule("deny fs:read:{ws}/secret/*"), Source::Workspace);
    assert_eq!((explained.effect, explained.rule), (Effect::Deny, Some(expected)));
}

#[tokio::test]
async fn narrowing_rules_have_a_bound_of_their_own() {
    let many: Vec<String> = (0..=MAX_RULES).map(|n| format!("deny fs:read:/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = GrantStore::open(with(&[], &many)).await.unwrap_err();
    assert_eq!(error.code, GrantStoreCode::InvalidResolution);
    let store = open(&many[1..], &many[1..]).await;
    assert_eq!(store.rules().len(), 2 * MAX_RULES);
}

const PATHS: [&str; 5] = ["/ws/a", "/ws/a/b", "/ws/c", "/etc/a", "/"];
const GLOBS: [&str; 7] = ["/ws/**", "/ws/*", "/ws/a", "/ws/a/**", "**", "/etc/*", "/ws/?"];

fn any_rule() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec!["allow", "deny", "ask"]),
        prop::sample::select(vec!["fs:read", "fs:*", "*"]),
        0..GLOBS.len(),
    )
        .prop_map(|(effect, action, glob)| format!("{effect} {action}:{}", GLOBS[glob]))
}

fn rank(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Ask => 1,
        Effect::Allow => 2,
    }
}

fn effects(options: GrantStoreOptions) -> Vec<Effect> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = runtime.block_on(GrantStore::open(options)).unwrap();
    PATHS
        .iter()
        .map(|path| {
            let request: Capability = cap(&format!("fs:read:{path}"));
            let effect = decide(&store, &request.to_string());
            assert_eq!(store.explain(&request).effect, effect);
            effect
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Invariant 6, through the store: an allow added anywhere but in the policy turns no veto into an allow, a deny at the
    /// end of the policy widens nothing, and narrowing rules only lower.
    #[test]
    fn adding_rules_keeps_the_order_of_power(
        configured in prop::collection::vec(any_rule(), 0..5),
        narrowing in prop::collection::vec(any_rule(), 0..4),
        more in any_rule(),
    ) {
        let texts = |rules: &[String]| rules.iter().map(|text| rule(text)).collect::<Vec<_>>();
        let make = |narrowing: &[String]| {
            let mut options = options(Arc::new(MemoryPersist::new()));
            options.configured = texts(&configured);
            options.narrowing = texts(narrowing);
            options
        };
        let plain = effects(make(&[]));
        let narrowed = effects(make(&narrowing));
        for (plain, narrowed) in plain.iter().zip(&narrowed) {
            prop_assert!(rank(*narrowed) <= rank(*plain));
        }
        let allow = rule(&format!("allow {}", more.split_once(' ').unwrap().1));
        let adds: [fn(&mut GrantStoreOptions, flowcell_kernel::flows::rules::Rule); 2] = [
            |options, allow| options.remembered.push(allow),
            |options, allow| options.run_rules.push(RunRule { rule: allow, ceiling: CapabilitySet::unrestricted() }),
        ];
        for add in adds {
            let mut options = make(&narrowing);
            add(&mut options, allow.clone());
            for (before, after) in narrowed.iter().zip(effects(options)) {
                prop_assert!(*before != Effect::Deny || after == Effect::Deny);
            }
            // What the workspace asks for stays asked.
            let mut options = make(&narrowing);
            add(&mut options, allow.clone());
            options.narrowing.push(rule("ask *"));
            prop_assert!(effects(options).iter().all(|effect| *effect != Effect::Allow));
        }
        let mut denied = make(&narrowing);
        denied.configured.push(rule(&format!("deny {}", more.split_once(' ').unwrap().1)));
        for (before, after) in narrowed.iter().zip(effects(denied)) {
            prop_assert!(rank(after) <= rank(*before));
        }
    }
}
