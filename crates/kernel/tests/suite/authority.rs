use flowcell_kernel::flows::rules::Effect;
use flowcell_kernel::{Authority, InvalidCapability, Meta, PermissionDenied, PermissionError};

use proptest::prelude::*;

use crate::support::{Bench, cap, pattern_of};

async fn denied(authority: &Authority, request: &str) -> String {
    match authority.check(cap(request), Meta::new()).await {
        Err(PermissionError::Denied(denied)) => denied.reason,
        other => panic!("{request}: {other:?}"),
    }
}

#[tokio::test]
async fn a_ceiling_comes_before_the_rules() {
    let bench = Bench::new();
    let root = Authority::root(bench.store(&["allow net:private:**"]).await);
    let web = root.attenuate(&[pattern_of("net:get:*")]);
    let request = "net:private:http://10.1.1.1";
    assert_eq!(root.decide(&cap(request)), Effect::Allow);
    assert_eq!(web.decide(&cap(request)), Effect::Deny);
    assert_eq!(denied(&web, request).await, PermissionDenied::OUTSIDE_CEILING);
    // Attenuating never widens: the second group is a further condition.
    let both = web.attenuate(&[pattern_of("*")]);
    assert_eq!(denied(&both, request).await, PermissionDenied::OUTSIDE_CEILING);
    // A ceiling of the family includes the private capability.
    assert_eq!(root.attenuate(&[pattern_of("net:*:**")]).decide(&cap(request)), Effect::Allow);
    assert_eq!(denied(&root.attenuate(&[]), request).await, PermissionDenied::OUTSIDE_CEILING);
}

#[tokio::test]
async fn declared_web_capabilities_bring_the_private_one() {
    let bench = Bench::new();
    let root = Authority::root(bench.store(&["allow net:private:**", "allow fs:*:**"]).await);
    let declared = |texts: &[&str]| {
        root.attenuate_declared(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    };
    let private = cap("net:private:http://10.1.1.1");
    for pattern in ["net:get:*", "net:post:**"] {
        assert_eq!(declared(&[pattern]).unwrap().decide(&private), Effect::Allow, "{pattern}");
    }
    assert_eq!(declared(&["fs:read:/**"]).unwrap().decide(&private), Effect::Deny);
    assert_eq!(declared(&["fs:read:/**"]).unwrap().decide(&cap("fs:write:/a")), Effect::Deny);
    assert_eq!(declared(&[]).unwrap().decide(&cap("fs:read:/a")), Effect::Deny);
    assert_eq!(declared(&["fs:reed:/a"]).unwrap_err(), InvalidCapability("fs:reed:/a".to_owned()));
}

#[tokio::test]
async fn what_is_admitted_answers_an_ask_and_nothing_else() {
    let bench = Bench::new();
    let store = bench.store(&["deny fs:read:/k/**"]).await;
    let root = Authority::root(store.clone());
    let once = vec![cap("fs:read:/a"), cap("fs:read:/k/a"), cap("fs:write:/a")];
    let call = root.attenuate(&[pattern_of("fs:read:/**")]).admitting(once);
    assert_eq!(call.check(cap("fs:read:/a"), Meta::new()).await, Ok(()));
    assert_eq!(call.decide(&cap("fs:read:/a")), Effect::Allow);
    assert_eq!(call.decide(&cap("fs:read:/b")), Effect::Ask);
    assert_eq!(denied(&call, "fs:read:/k/a").await, PermissionDenied::BY_POLICY);
    assert_eq!(denied(&call, "fs:write:/a").await, PermissionDenied::OUTSIDE_CEILING);
    // It is this authority's alone, and leaves no rule.
    assert_eq!(root.decide(&cap("fs:read:/a")), Effect::Ask);
    assert_eq!(store.rules().len(), 1);
    // A closed store admits nothing.
    store.close();
    assert_eq!(call.decide(&cap("fs:read:/a")), Effect::Deny);
    assert!(matches!(call.check(cap("fs:read:/a"), Meta::new()).await, Err(PermissionError::Store(_))));
}

const GLOBS: [&str; 6] = ["fs:read:/a", "fs:*:/a/*", "fs:read:**", "*", "net:get:*", "fs:write:/?"];
const REQUESTS: [&str; 5] =
    ["fs:read:/a", "fs:read:/a/b", "fs:write:/a", "net:get:h", "net:private:http://10.0.0.1"];

fn group() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..GLOBS.len(), 0..3)
}

proptest! {
    /// Invariant 5, through an authority: two ceilings allow what both allow, in either order.
    #[test]
    fn ceilings_only_narrow(first in group(), second in group()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bench = Bench::new();
        let rules = ["allow *", "allow net:private:**"];
        let root = Authority::root(runtime.block_on(bench.store(&rules)));
        let patterns = |group: &[usize]| group.iter().map(|at| pattern_of(GLOBS[*at])).collect::<Vec<_>>();
        let (one, two) = (root.attenuate(&patterns(&first)), root.attenuate(&patterns(&second)));
        let both = one.attenuate(&patterns(&second));
        let turned = two.attenuate(&patterns(&first));
        prop_assert_eq!(both.ceiling(), turned.ceiling());
        for request in REQUESTS.map(cap) {
            let allowed = one.decide(&request) == Effect::Allow && two.decide(&request) == Effect::Allow;
            prop_assert_eq!(both.decide(&request) == Effect::Allow, allowed);
        }
    }
}
