//! Effects and tiers (kernel contract 4).

use flowcell_flows::capability::Capability;
use flowcell_flows::effects::{
    EffectError, Effects, Mode, OnConflict, Tier, covers, narrow, overlaps, tier_of,
};
use flowcell_flows::{read, write};
use proptest::prelude::*;
use serde_json::json;

use crate::properties;

fn effects(reads: &[&str], writes: &[&str], mode: Mode, tier: Tier) -> Effects {
    let paths = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Effects::new(paths(reads), paths(writes), mode, OnConflict::Serialize, tier)
}

#[test]
fn paths_are_sorted_by_unit_without_repeats() {
    let made =
        effects(&["/\u{e000}", "/b", "/\u{1F600}", "/b"], &["/2", "/10", "/2"], Mode::Hermetic, Tier::Sealed);
    assert_eq!(made.reads, ["/b", "/\u{1F600}", "/\u{e000}"]);
    assert_eq!(made.writes, ["/10", "/2"]);
    let wire = json!({
        "reads": ["/b", "/\u{1F600}", "/\u{e000}"], "writes": ["/10", "/2"],
        "mode": "hermetic", "onConflict": "serialize", "tier": "sealed",
    });
    assert_eq!(serde_json::to_value(&made).unwrap(), wire);
    let shuffled = json!({
        "reads": ["/\u{e000}", "/\u{1F600}", "/b", "/b"], "writes": ["/2", "/10"],
        "mode": "hermetic", "onConflict": "serialize", "tier": "sealed",
    });
    assert_eq!(serde_json::from_value::<Effects>(shuffled).unwrap(), made);
}

#[test]
fn an_undeclared_set_is_the_worst_one() {
    let undeclared = Effects::undeclared();
    assert_eq!(undeclared, effects(&[], &[], Mode::Expected, Tier::Irreversible));
    assert_eq!(undeclared.on_conflict, OnConflict::Serialize);
}

#[test]
fn the_forms_of_an_entry() {
    for (entry, path, covered) in [
        ("/a", "/a", true),
        ("/a", "/a/b", false),
        ("/a/**", "/a/b/c", true),
        ("/a/**", "/a/", true),
        ("/a/**", "/a", false),
        ("/a/**", "/ab", false),
        ("/a/**", "/a/**", true),
        ("/**", "/a", true),
        ("/**", "a", false),
        ("/a*", "/ab/c", true),
        ("/a*", "/a", true),
        ("/a*", "/b", false),
        ("*", "a", true),
        ("**", "*a", true),
        ("**", "a", false),
        ("/**", "/a/../b", false),
        ("/**", "/a/./b", false),
        ("/..", "/..", false),
        (".", ".", false),
        ("/**", "/a/..b", true),
    ] {
        assert_eq!(covers(entry, path), covered, "{entry:?} over {path:?}");
    }
}

#[test]
fn narrowing_fails_on_paths_then_mode_then_tier() {
    let envelope = effects(&["/ws/**"], &["/ws/out/**"], Mode::Hermetic, Tier::Compensable);
    let fits = effects(&["/ws/a"], &["/ws/out/b"], Mode::Hermetic, Tier::Sealed);
    assert_eq!(narrow(&envelope, &fits), Ok(()));
    let worst = effects(&["/x", "/ws/a"], &["/ws/a", "/b"], Mode::Expected, Tier::Irreversible);
    let error = narrow(&envelope, &worst).unwrap_err();
    assert_eq!(error.code(), "effect_outside_envelope");
    assert_eq!(error, EffectError::OutsideEnvelope { paths: vec!["/b".into(), "/ws/a".into(), "/x".into()] });
    let wide = effects(&[], &[], Mode::Expected, Tier::Irreversible);
    assert_eq!(narrow(&envelope, &wide).unwrap_err().code(), "effect_mode_widening");
    let lasting = effects(&[], &[], Mode::Hermetic, Tier::Irreversible);
    assert_eq!(narrow(&envelope, &lasting).unwrap_err().code(), "effect_tier_widening");
    assert_eq!(narrow(&wide, &fits).unwrap_err().code(), "effect_outside_envelope");
}

#[test]
fn a_write_does_not_fit_what_read_declares() {
    let step = (write::decl().effects_for)(&json!({"path": "/ws/a", "content": ""}));
    assert_eq!(narrow(&read::decl().effects, &step).unwrap_err().code(), "effect_outside_envelope");
}

#[test]
fn overlaps_are_the_narrower_entries() {
    let left = effects(&[], &["/a/**", "/b", "/d/e"], Mode::Hermetic, Tier::Compensable);
    let right = effects(&["/b"], &["/a/x", "/c", "/d/**"], Mode::Hermetic, Tier::Compensable);
    assert_eq!(overlaps(&left, &right), ["/a/x", "/d/e"]);
    assert_eq!(overlaps(&right, &left), ["/a/x", "/d/e"]);
    assert_eq!(overlaps(&left, &effects(&["/a/x"], &[], Mode::Hermetic, Tier::Sealed)), Vec::<String>::new());
}

#[test]
fn the_tier_of_a_request() {
    for (request, root, tier) in [
        ("fs:read:/etc/passwd", "/ws", Tier::Sealed),
        ("net:get:example.com", "/ws", Tier::Sealed),
        ("model:call:h/m", "/ws", Tier::Sealed),
        ("net:post:example.com", "/ws", Tier::Irreversible),
        ("net:private:http://10.0.0.1", "/ws", Tier::Irreversible),
        ("proc:spawn:ls", "/ws", Tier::Irreversible),
        ("fs:write:/ws/a", "/ws", Tier::Compensable),
        ("fs:write:/ws", "/ws/", Tier::Compensable),
        ("fs:write:/ws/../etc", "/ws", Tier::Irreversible),
        ("fs:write:/ws/a/../b", "/ws", Tier::Compensable),
        ("fs:write:/ws2/a", "/ws", Tier::Irreversible),
        ("fs:write:/etc", "/ws", Tier::Irreversible),
        ("fs:write:ws/a", "/ws", Tier::Irreversible),
        ("fs:write:ws/a", "./ws", Tier::Compensable),
        ("fs:write:a", ".", Tier::Irreversible),
        ("fs:write:a", "", Tier::Irreversible),
        ("fs:write:a", "x/..", Tier::Irreversible),
        ("fs:write:/a", "/", Tier::Compensable),
        ("fs:write:../../a", "..", Tier::Irreversible),
        ("fs:write:../a", "..", Tier::Compensable),
    ] {
        assert_eq!(tier_of(&Capability::parse(request).unwrap(), root), tier, "{request} in {root:?}");
    }
    assert!(Tier::Irreversible.needs_idempotency_key());
    assert!(!Tier::Sealed.needs_idempotency_key() && !Tier::Compensable.needs_idempotency_key());
    assert!(Tier::Sealed < Tier::Compensable && Tier::Compensable < Tier::Irreversible);
}

proptest! {
    #![proptest_config(properties())]

    #[test]
    fn coverage_is_transitive_where_an_entry_covers_an_entry(
        wide in "(/[ab]){0,2}(/\\*\\*|\\*)?",
        narrow_entry in "(/[ab]){0,3}(/\\*\\*|\\*)?",
        path in "(/[ab]){0,4}",
    ) {
        if covers(&wide, &narrow_entry) && covers(&narrow_entry, &path) {
            prop_assert!(covers(&wide, &path), "{} over {} over {}", wide, narrow_entry, path);
        }
    }

    #[test]
    fn no_entry_covers_a_dot_segment(entry in "[./ab*]{0,8}", path in "[./ab]{0,8}") {
        if path.split('/').any(|segment| segment == "." || segment == "..") {
            prop_assert!(!covers(&entry, &path));
        }
    }
}
