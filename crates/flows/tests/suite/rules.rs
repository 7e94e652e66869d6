//! Rules, vetoes and ceilings (kernel contract 3 and 13; invariants 5 and 6 of its section 12).

use flowcell_flows::capability::{Action, Capability, CapabilityPattern};
use flowcell_flows::rules::{
    CapabilitySet, Effect, Reason, Rule, evaluate, evaluate_text, explain, explain_text,
};
use proptest::prelude::*;
use serde_json::json;

use crate::properties;

fn rules(texts: &[&str]) -> Vec<Rule> {
    let rule = |text: &&str| {
        let (effect, pattern) = text.split_once(' ').unwrap();
        let effect = serde_json::from_value(json!(effect)).unwrap();
        Rule::new(effect, CapabilityPattern::parse(pattern).unwrap())
    };
    texts.iter().map(rule).collect()
}

fn decide(configured: &[&str], run: &[&str], request: &str) -> Effect {
    evaluate(&[&rules(configured), &rules(run)], &Capability::parse(request).unwrap())
}

#[test]
fn the_cases_of_the_contract() {
    use Effect::{Allow, Ask, Deny};
    let none: &[&str] = &[];
    let cases: [(&[&str], &[&str], &str, Effect); 17] = [
        (none, none, "fs:read:/ws/a", Ask),
        (&["allow fs:read:/ws/**"], none, "fs:read:/ws/x/y", Allow),
        (&["allow fs:read:/ws/**"], none, "fs:read:/ws", Ask),
        (&["allow fs:read:/ws/**"], none, "fs:read:/ws2/a", Ask),
        (&["allow fs:read:/ws/**", "deny fs:read:/ws/k/**"], none, "fs:read:/ws/k/a", Deny),
        (&["deny fs:read:/ws/k/**"], &["allow fs:read:**"], "fs:read:/ws/k/a", Deny),
        (&["deny fs:read:/ws/**", "allow fs:read:/ws/pub/**"], none, "fs:read:/ws/pub/a", Allow),
        (&["allow *"], none, "net:private:http://10.1.1.1", Ask),
        (&["allow net:*:**"], none, "net:private:http://10.1.1.1", Ask),
        (&["allow net:private:http://10.1.1.1"], none, "net:private:http://10.1.1.1", Allow),
        (&["allow net:private:http://10.1.1.1", "deny net:*:**"], none, "net:private:http://10.1.1.1", Deny),
        (&["allow net:private:**", "ask net:*:**"], none, "net:private:http://10.1.1.1", Ask),
        (&["allow proc:spawn:cargo *"], none, "proc:spawn:cargo", Allow),
        (&["allow proc:spawn:cargo *"], none, "proc:spawn:cargo test", Allow),
        (&["allow proc:spawn:cargo *"], none, "proc:spawn:cargox", Ask),
        // A configured deny that a later configured rule supersedes is no veto.
        (&["deny fs:read:**", "ask fs:read:**"], &["allow fs:read:**"], "fs:read:/a", Allow),
        (&["allow fs:read:**"], &["deny fs:read:/a"], "fs:read:/a", Deny),
    ];
    for (configured, run, request, expected) in cases {
        assert_eq!(decide(configured, run, request), expected, "{configured:?} {run:?} {request}");
    }
}

#[test]
fn a_ceiling_includes_private_destinations_only_by_its_own_pattern() {
    let private = Capability::parse("net:private:http://10.1.1.1").unwrap();
    let ceiling = |text: &str| CapabilitySet::of(CapabilityPattern::parse(text));
    assert!(!ceiling("net:get:*").allows(&private));
    assert!(ceiling("net:*:**").allows(&private) && ceiling("*").allows(&private));
    assert!(CapabilitySet::unrestricted().allows(&private) && !CapabilitySet::none().allows(&private));
}

#[test]
fn an_undecidable_rule_denies_where_its_action_covers() {
    let resource = "a".repeat(5_000);
    let long = "*".repeat(4_096);
    let set = rules(&["allow proc:spawn:**", &format!("allow proc:*:{long}"), "allow proc:spawn:*"]);
    let decision = explain_text(&[&set], Action::ProcSpawn, &resource);
    assert_eq!((decision.effect, decision.rule), (Effect::Deny, Some((0, 1))));
    assert_eq!(decision.reason, Reason::Undecidable);
    assert_eq!(evaluate_text(&[&[], &set], Action::ProcSpawn, &resource), Effect::Deny);
    assert_eq!(evaluate_text(&[&set], Action::FsRead, &resource), Effect::Ask);
    // An allow rule that is skipped for net:private is skipped before its work is weighed.
    let set = rules(&[&format!("allow *:{long}")]);
    assert_eq!(evaluate_text(&[&set], Action::NetPrivate, &resource), Effect::Ask);
    let ceiling = CapabilitySet::of(CapabilityPattern::parse(&format!("*:{long}")));
    assert!(!ceiling.allows_text(Action::ProcSpawn, &resource));
}

#[test]
fn a_decision_names_its_rule() {
    let request = Capability::parse("fs:read:/ws/k").unwrap();
    let configured = rules(&["allow fs:*:/ws/**", "deny fs:read:/ws/k", "allow net:get:*"]);
    let run = rules(&["allow fs:read:**"]);
    let decision = explain(&[&configured, &run], &request);
    assert_eq!((decision.effect, decision.rule, decision.reason), (Effect::Deny, Some((0, 1)), Reason::Veto));
    let decision = explain(&[&configured], &request);
    assert_eq!(
        (decision.effect, decision.rule, decision.reason),
        (Effect::Deny, Some((0, 1)), Reason::LastMatch)
    );
    let decision = explain(&[&[], &run], &request);
    assert_eq!(
        (decision.effect, decision.rule, decision.reason),
        (Effect::Allow, Some((1, 0)), Reason::LastMatch)
    );
    let decision = explain(&[], &request);
    assert_eq!((decision.effect, decision.rule, decision.reason), (Effect::Ask, None, Reason::Default));
}

#[test]
fn sets_and_rules_have_plain_json() {
    let set = CapabilitySet::from_groups([
        vec![
            CapabilityPattern::parse("net:get:*").unwrap(),
            CapabilityPattern::parse("fs:read:/**").unwrap(),
        ],
        vec![CapabilityPattern::parse("*").unwrap()],
    ]);
    let wire = json!([
        [{"action": "*", "resource": "**"}],
        [{"action": "fs:read", "resource": "/**"}, {"action": "net:get", "resource": "*"}],
    ]);
    assert_eq!(serde_json::to_value(&set).unwrap(), wire);
    let shuffled = json!([wire[1], [wire[0][0], wire[0][0]], wire[0]]);
    assert_eq!(serde_json::from_value::<CapabilitySet>(shuffled).unwrap(), set);
    assert_eq!(serde_json::from_value::<CapabilitySet>(json!([[], wire[0]])).unwrap(), CapabilitySet::none());
    assert_eq!(serde_json::to_value(CapabilitySet::unrestricted()).unwrap(), json!([]));
    let rule = &rules(&["deny fs:*:/a"])[0];
    let wire = json!({"effect": "deny", "pattern": {"action": "fs:*", "resource": "/a"}});
    assert_eq!(serde_json::to_value(rule).unwrap(), wire);
    assert_eq!(&serde_json::from_value::<Rule>(wire).unwrap(), rule);
}

fn any_pattern() -> impl Strategy<Value = CapabilityPattern> {
    let text = prop::sample::select(vec![
        "*",
        "fs:*:**",
        "fs:read:/a/**",
        "fs:read:/a/b",
        "fs:write:/a/*",
        "net:*:**",
        "net:private:**",
        "net:get:h",
        "proc:spawn:npm *",
        "proc:spawn:npm",
        "model:*:*",
        "*:/a/b",
    ]);
    text.prop_map(|text| CapabilityPattern::parse(text).unwrap())
}

fn any_capability() -> impl Strategy<Value = Capability> {
    let text = prop::sample::select(vec![
        "fs:read:/a/b",
        "fs:read:/a/c",
        "fs:write:/a/b",
        "net:get:h",
        "net:private:h",
        "net:post:h",
        "proc:spawn:npm",
        "proc:spawn:npm i",
        "model:call:h/m",
    ]);
    text.prop_map(|text| Capability::parse(text).unwrap())
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let effect = prop::sample::select(vec![Effect::Allow, Effect::Deny, Effect::Ask]);
    (effect, any_pattern()).prop_map(|(effect, pattern)| Rule::new(effect, pattern))
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(any_rule(), 0..6)
}

fn any_set() -> impl Strategy<Value = CapabilitySet> {
    prop::collection::vec(prop::collection::vec(any_pattern(), 0..4), 0..3)
        .prop_map(CapabilitySet::from_groups)
}

/// How much an answer lets through.
fn width(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Ask => 1,
        Effect::Allow => 2,
    }
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn an_intersection_allows_what_both_allow(left in any_set(), right in any_set(), request in any_capability()) {
        let both = left.intersect(&right);
        prop_assert_eq!(both.allows(&request), left.allows(&request) && right.allows(&request));
    }

    #[test]
    fn intersection_is_an_idempotent_commutative_monoid(a in any_set(), b in any_set(), c in any_set()) {
        prop_assert_eq!(a.intersect(&b), b.intersect(&a));
        prop_assert_eq!(a.intersect(&b).intersect(&c), a.intersect(&b.intersect(&c)));
        prop_assert_eq!(&a.intersect(&a), &a);
        prop_assert_eq!(&a.intersect(&CapabilitySet::unrestricted()), &a);
        prop_assert_eq!(a.intersect(&CapabilitySet::none()), CapabilitySet::none());
    }

    #[test]
    fn no_later_rule_lifts_a_veto(
        configured in any_rules(),
        more in any_rules(),
        added in any_pattern(),
        request in any_capability(),
    ) {
        if evaluate(&[&configured], &request) == Effect::Deny {
            prop_assert_eq!(evaluate(&[&configured, &more], &request), Effect::Deny);
            let with = [more, vec![Rule::allow(added)]].concat();
            prop_assert_eq!(evaluate(&[&configured, &with], &request), Effect::Deny);
        }
    }

    #[test]
    fn a_deny_at_the_end_of_the_policy_never_widens(
        configured in any_rules(),
        more in any_rules(),
        denied in any_pattern(),
        request in any_capability(),
    ) {
        let before = evaluate(&[&configured, &more], &request);
        let with = [configured, vec![Rule::deny(denied)]].concat();
        prop_assert!(width(evaluate(&[&with, &more], &request)) <= width(before));
    }

    #[test]
    fn an_explanation_agrees_with_its_rule(configured in any_rules(), more in any_rules(), request in any_capability()) {
        let sets: [&[Rule]; 2] = [&configured, &more];
        let decision = explain(&sets, &request);
        prop_assert_eq!(decision.effect, evaluate(&sets, &request));
        match decision.rule {
            Some((set, index)) => {
                let rule = &sets[set][index];
                prop_assert_eq!(rule.effect, decision.effect);
                prop_assert!(rule.pattern.matches(&request));
            }
            None => prop_assert_eq!(decision.effect, Effect::Ask),
        }
    }
}
