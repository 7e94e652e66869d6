//! Capability text and matching (kernel contract 1 and 2; invariants 1 to 4 of its section 12).

use flowcell_flows::capability::{
    Action, ActionSel, Capability, CapabilityPattern, MAX_RESOURCE_UNITS, Selection, is_literal, units,
};
use proptest::prelude::*;
use serde_json::json;

use crate::exercise::naive;
use crate::properties;

fn capability(text: &str) -> Capability {
    Capability::parse(text).unwrap()
}

fn pattern(text: &str) -> CapabilityPattern {
    CapabilityPattern::parse(text).unwrap()
}

fn glob_selects(glob: &str, resource: &str) -> bool {
    let pattern = CapabilityPattern::new(Action::ProcSpawn, glob).unwrap();
    pattern.matches(&Capability::new(Action::ProcSpawn, resource).unwrap())
}

#[test]
fn the_resource_is_everything_after_the_second_colon() {
    let request = capability("fs:read:/ws/a:b\nc");
    assert_eq!((request.action(), request.resource()), (Action::FsRead, "/ws/a:b\nc"));
    assert_eq!(capability("fs:read:").resource(), "");
    for text in
        ["", "fs", "fs:read", "read:/ws", "fs:delete:/ws", "FS:read:/ws", " fs:read:/ws", "fs:*:/ws", "*:/ws"]
    {
        assert_eq!(Capability::parse(text), None, "{text:?}");
    }
}

#[test]
fn patterns_know_families_and_the_whole() {
    for (text, action, resource) in [
        ("fs:*:/ws/**", ActionSel::Fs, "/ws/**"),
        ("net:*:", ActionSel::Net, ""),
        ("proc:*:a", ActionSel::Proc, "a"),
        ("model:*:a", ActionSel::Model, "a"),
        ("model:call:host/m", ActionSel::Exact(Action::ModelCall), "host/m"),
        ("*:read:/ws", ActionSel::All, "read:/ws"),
        ("*:", ActionSel::All, ""),
        ("*", ActionSel::All, "**"),
    ] {
        let parsed = pattern(text);
        assert_eq!((parsed.action(), parsed.resource()), (action, resource), "{text:?}");
    }
    assert_eq!(pattern("*").to_string(), "*:**");
    for text in ["fs:*", "fs:**:/a", "**:/a", "other:*:/a", "fs:", "*fs:read:/a"] {
        assert_eq!(CapabilityPattern::parse(text), None, "{text:?}");
    }
}

#[test]
fn resources_are_bounded_in_units_everywhere() {
    let fits = "é".repeat(MAX_RESOURCE_UNITS);
    let astral = "\u{1F600}".repeat(MAX_RESOURCE_UNITS / 2);
    let long = "a".repeat(MAX_RESOURCE_UNITS + 1);
    let long_astral = format!("{astral}a");
    assert_eq!((units(&fits), units(&astral)), (MAX_RESOURCE_UNITS, MAX_RESOURCE_UNITS));
    for resource in [&fits, &astral] {
        assert!(Capability::new(Action::FsRead, resource.as_str()).is_some());
        assert!(CapabilityPattern::new(ActionSel::All, resource.as_str()).is_some());
        assert!(Capability::parse(&format!("fs:read:{resource}")).is_some());
    }
    for resource in [&long, &long_astral] {
        assert!(Capability::new(Action::FsRead, resource.as_str()).is_none());
        assert!(CapabilityPattern::new(ActionSel::All, resource.as_str()).is_none());
        assert!(Capability::parse(&format!("fs:read:{resource}")).is_none());
        assert!(CapabilityPattern::parse(&format!("*:{resource}")).is_none());
        let wire = json!({"action": "fs:read", "resource": resource});
        assert!(serde_json::from_value::<Capability>(wire.clone()).is_err());
        assert!(serde_json::from_value::<CapabilityPattern>(wire).is_err());
    }
}

#[test]
fn json_is_action_and_resource() {
    let wire = json!({"action": "net:private", "resource": "https://10.0.0.5"});
    let request = capability("net:private:https://10.0.0.5");
    assert_eq!(serde_json::to_value(&request).unwrap(), wire);
    assert_eq!(serde_json::from_value::<Capability>(wire).unwrap(), request);
    let wire = json!({"action": "fs:*", "resource": "/ws/**"});
    assert_eq!(serde_json::to_value(pattern("fs:*:/ws/**")).unwrap(), wire);
    assert_eq!(serde_json::from_value::<CapabilityPattern>(wire).unwrap(), pattern("fs:*:/ws/**"));
    for wire in [
        json!({"action": "fs:delete", "resource": "a"}),
        json!({"action": "fs:*", "resource": "a"}),
        json!({"action": "fs:read"}),
        json!({"action": "fs:read", "resource": "a", "more": 1}),
        json!("fs:read:a"),
    ] {
        assert!(serde_json::from_value::<Capability>(wire.clone()).is_err(), "{wire}");
    }
}

#[test]
fn the_table_of_globs() {
    for (glob, resource, selected) in [
        ("a", "a", true),
        ("a", "A", false),
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "a/b\nc", true),
        ("**", "a/b\nc", true),
        ("/ws/*", "/ws/a/b", true),
        ("/ws/**", "/ws", false),
        ("/ws/**", "/ws/", true),
        ("?", "a", true),
        ("?", "", false),
        ("?", "\u{1F600}", false),
        ("??", "\u{1F600}", true),
        ("a?c", "abc", true),
        ("npm *", "npm", true),
        ("npm *", "npm ", true),
        ("npm *", "npm test", true),
        ("npm *", "npmx", false),
        ("npm **", "npm", false),
        ("npm  *", "npm", false),
        ("npm  *", "npm ", true),
        ("git * *", "git log", true),
        ("git * *", "git", false),
        (" *", "", true),
        ("npm\t*", "npm", false),
        ("a\\b", "a/b", false),
        ("[ab]", "a", false),
        ("[ab]", "[ab]", true),
        ("{a,b}", "a", false),
        ("e\u{301}", "\u{e9}", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("*?*", "", false),
    ] {
        assert_eq!(glob_selects(glob, resource), selected, "{glob:?} against {resource:?}");
    }
}

#[test]
fn exact_takes_literals_alone() {
    assert_eq!(CapabilityPattern::exact(&capability("fs:read:/a b")), Some(pattern("fs:read:/a b")));
    for text in ["fs:read:/a*", "fs:read:/a?", "proc:spawn:npm *"] {
        assert_eq!(CapabilityPattern::exact(&capability(text)), None, "{text:?}");
    }
    assert!(is_literal("[a]{b}\\") && !is_literal("*") && !is_literal("?"));
}

#[test]
fn subsumption_is_a_textual_proof() {
    for (left, right, proved) in [
        ("*", "fs:read:/a*", true),
        ("*", "fs:*:a", true),
        ("fs:*:**", "fs:read:/a", true),
        ("fs:*:**", "fs:*:*", true),
        ("fs:*:**", "*:a", false),
        ("fs:*:**", "net:get:a", false),
        ("proc:spawn:**", "proc:*:a", false),
        ("fs:read:/ws/**", "fs:read:/ws/a/**", true),
        ("fs:read:/ws/**", "fs:read:/ws/", true),
        ("fs:read:/ws/**", "fs:read:/ws", false),
        ("fs:read:/ws/**", "fs:read:/ws2/a", false),
        ("fs:read:/ws/**", "fs:write:/ws/a", false),
        ("fs:read:*", "fs:read:*", true),
        ("fs:read:*", "fs:read:/a", false),
        ("fs:read:*", "fs:read:**", false),
        ("fs:read:**", "fs:read:*", true),
        ("fs:read:/**", "fs:read:/a", true),
        ("fs:read:/ws**", "fs:read:/ws/a", false),
        ("proc:spawn:npm *", "proc:spawn:npm", false),
    ] {
        assert_eq!(pattern(left).subsumes(&pattern(right)), proved, "{left:?} over {right:?}");
    }
}

#[test]
fn disjointness_needs_a_proof() {
    for (left, right, possible) in [
        ("fs:read:/a", "fs:read:/a", true),
        ("fs:read:/a", "fs:read:/b", false),
        ("fs:read:/a", "fs:write:/a", false),
        ("fs:*:/a", "fs:write:/a", true),
        ("fs:*:**", "net:*:**", false),
        ("*:/a", "model:*:/a", true),
        ("fs:read:/ws/**", "fs:read:/etc/**", false),
        ("fs:read:/ws/**", "fs:read:/ws/k*", true),
        ("fs:read:/ws/**", "fs:read:/w*", true),
        ("proc:spawn:npm *", "proc:spawn:npm", true),
        ("proc:spawn:npm *", "proc:spawn:npx", false),
        ("proc:spawn:*a", "proc:spawn:*b", true),
    ] {
        assert_eq!(pattern(left).may_overlap(&pattern(right)), possible, "{left:?} with {right:?}");
        assert_eq!(pattern(right).may_overlap(&pattern(left)), possible, "{right:?} with {left:?}");
    }
}

#[test]
fn adversarial_pairs_of_full_length_are_decided() {
    let resource = "a".repeat(MAX_RESOURCE_UNITS);
    for glob in [
        format!("*{}b", "a".repeat(MAX_RESOURCE_UNITS - 2)),
        format!("{}b", "*a".repeat(MAX_RESOURCE_UNITS / 2 - 1)),
        format!("{} *", "*a".repeat(MAX_RESOURCE_UNITS / 2 - 1)),
    ] {
        let request = Capability::new(Action::FsRead, resource.as_str()).unwrap();
        let selection = CapabilityPattern::new(Action::FsRead, glob).unwrap().select(&request);
        assert_ne!(selection, Selection::Undecidable);
    }
}

#[test]
fn the_order_is_that_of_the_rendered_units() {
    let mut sorted = [
        pattern("proc:spawn:a"),
        pattern("fs:write:/a"),
        pattern("*"),
        pattern("fs:*:/\u{e000}"),
        pattern("fs:*:/\u{1F600}"),
        pattern("fs:read:/a"),
    ];
    sorted.sort();
    let texts: Vec<String> = sorted.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["*:**", "fs:*:/\u{1F600}", "fs:*:/\u{e000}", "fs:read:/a", "fs:write:/a", "proc:spawn:a"]
    );
}

fn any_action() -> impl Strategy<Value = Action> {
    prop::sample::select(Action::ALL.to_vec())
}

fn any_selector() -> impl Strategy<Value = ActionSel> {
    prop_oneof![
        any_action().prop_map(ActionSel::Exact),
        Just(ActionSel::Fs),
        Just(ActionSel::Net),
        Just(ActionSel::Proc),
        Just(ActionSel::Model),
        Just(ActionSel::All),
    ]
}

/// Short texts over few characters, so that globs and resources meet often.
fn any_glob() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab/ *?\u{1F600}]{0,9}",
        prop::sample::select(vec!["**", "*", "/a/**", "a *", "/**", "?"]).prop_map(str::to_owned),
    ]
}

fn any_resource() -> impl Strategy<Value = String> {
    "[ab/ \n\u{1F600}]{0,9}"
}

prop_compose! {
    fn any_pattern()(action in any_selector(), glob in any_glob()) -> CapabilityPattern {
        CapabilityPattern::new(action, glob).unwrap()
    }
}

prop_compose! {
    fn any_capability()(action in any_action(), resource in any_resource()) -> Capability {
        Capability::new(action, resource).unwrap()
    }
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn text_reads_back(action in any_action(), selector in any_selector(), resource in any::<String>()) {
        let request = Capability::new(action, resource.as_str()).unwrap();
        prop_assert_eq!(Capability::parse(&request.to_string()), Some(request));
        let pattern = CapabilityPattern::new(selector, resource).unwrap();
        prop_assert_eq!(CapabilityPattern::parse(&pattern.to_string()), Some(pattern));
    }

    #[test]
    fn no_text_panics(text in any::<String>(), near in "[a-z*]{0,5}:?[a-z*]{0,7}:?.{0,5}") {
        for text in [text, near] {
            if let Some(request) = Capability::parse(&text) {
                prop_assert_eq!(request.to_string(), text.as_str());
            }
            if let Some(pattern) = CapabilityPattern::parse(&text) {
                prop_assert!(pattern.to_string() == text || text == "*");
            }
        }
    }

    #[test]
    fn a_literal_selects_its_own_text_alone(literal in "[ab/ ]{0,3}", resource in any_resource()) {
        prop_assert_eq!(glob_selects(&literal, &resource), literal == resource);
        prop_assert!(glob_selects(&literal, &literal));
    }

    #[test]
    fn the_scan_agrees_with_the_grammar(glob in any_glob(), resource in any_resource()) {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        prop_assert_eq!(glob_selects(&glob, &resource), naive(&units(&glob), &units(&resource)));
    }

    #[test]
    fn subsumption_and_disjointness_hold(
        left in any_pattern(),
        right in any_pattern(),
        request in any_capability(),
    ) {
        if left.subsumes(&right) && right.matches(&request) {
            prop_assert!(left.matches(&request), "{} over {}, {}", left, right, request);
        }
        if left.matches(&request) && right.matches(&request) {
            prop_assert!(left.may_overlap(&right), "{} with {}, {}", left, right, request);
        }
        prop_assert!(left.subsumes(&left));
    }

    /// Requests taken from the patterns themselves meet them far more often than random ones do.
    #[test]
    fn subsumption_and_disjointness_hold_on_instances(
        left in any_pattern(),
        right in any_pattern(),
        fill in "[ab/ ]{0,3}",
        action in any_action(),
    ) {
        for base in [left.resource(), right.resource()] {
            let resource = base.replace('*', &fill).replace('?', "a");
            for resource in [resource.trim_end_matches(' ').to_owned(), resource] {
                let request = Capability::new(action, resource).unwrap();
                if left.subsumes(&right) && right.matches(&request) {
                    prop_assert!(left.matches(&request), "{} over {}, {}", left, right, request);
                }
                if left.matches(&request) && right.matches(&request) {
                    prop_assert!(left.may_overlap(&right), "{} with {}, {}", left, right, request);
                }
            }
        }
    }
}
