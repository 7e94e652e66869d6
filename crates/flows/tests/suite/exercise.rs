//! What the fuzz targets do with their bytes; the suite runs the same over the kept corpus.

use std::cmp::Ordering;

use flowcell_flows::canonical;
use flowcell_flows::capability::{Action, Capability, CapabilityPattern, Selection, is_literal};

/// Units up to which the naive matcher is asked as well: with so many stars on both sides it takes some million steps.
const NAIVE_UNITS: usize = 12;

/// Bytes as two lines: a pattern and a capability. Panics when an invariant of the grammar does not hold.
pub(crate) fn capability(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (left, right) = text.split_once('\n').unwrap_or((&text, ""));
    for text in [left, right] {
        if let Some(capability) = Capability::parse(text) {
            assert_eq!(capability.to_string(), text);
            assert_eq!(CapabilityPattern::exact(&capability).is_some(), is_literal(capability.resource()));
        }
        if let Some(pattern) = CapabilityPattern::parse(text) {
            assert_eq!(CapabilityPattern::parse(&pattern.to_string()), Some(pattern.clone()));
            assert!(pattern.subsumes(&pattern) && pattern.cmp(&pattern) == Ordering::Equal);
        }
    }
    if let (Some(pattern), Some(capability)) = (CapabilityPattern::parse(left), Capability::parse(right)) {
        let selected = pattern.select(&capability);
        assert_ne!(selected, Selection::Undecidable, "both resources are within their bound");
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let (glob, resource) = (units(pattern.resource()), units(capability.resource()));
        if glob.len() <= NAIVE_UNITS && resource.len() <= NAIVE_UNITS {
            let expected = pattern.action().covers(capability.action()) && naive(&glob, &resource);
            assert_eq!(selected == Selection::Selects, expected, "{pattern} against {capability}");
        }
        if let Some(exact) = CapabilityPattern::exact(&capability)
            && selected == Selection::Selects
        {
            assert!(pattern.may_overlap(&exact) && exact.may_overlap(&pattern));
        }
    }
}

/// Bytes as two globs and a resource, on three lines and under one action. Panics when the matcher, or what is proven of
/// two globs without a resource, does not hold (kernel contract 12.2 to 12.4).
pub(crate) fn patterns(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let (left, right) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let Some(capability) = Capability::new(Action::FsRead, lines.next().unwrap_or("")) else { return };
    let glob = |text: &str| CapabilityPattern::new(Action::FsRead, text);
    let (Some(left), Some(right)) = (glob(left), glob(right)) else { return };
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let resource = units(capability.resource());
    let short = |pattern: &CapabilityPattern| {
        pattern.resource().encode_utf16().count() <= NAIVE_UNITS && resource.len() <= NAIVE_UNITS
    };
    let mut selects = [false; 2];
    for (pattern, selects) in [&left, &right].into_iter().zip(&mut selects) {
        *selects = pattern.select(&capability) == Selection::Selects;
        assert_eq!(*selects, pattern.matches(&capability));
        if short(pattern) {
            assert_eq!(
                *selects,
                naive(&units(pattern.resource()), &resource),
                "{pattern} against {capability}"
            );
        }
        if is_literal(pattern.resource()) {
            assert_eq!(
                *selects,
                pattern.resource() == capability.resource(),
                "{pattern} against {capability}"
            );
        }
    }
    assert!(
        !(left.subsumes(&right) && selects[1]) || selects[0],
        "{left} does not cover {right}: {capability}"
    );
    assert!(
        left.may_overlap(&right) || selects != [true, true],
        "{left} and {right} both select {capability}"
    );
    assert_eq!(left.may_overlap(&right), right.may_overlap(&left));
}

/// Bytes as a JSON document. Panics when its canonical text is not stable.
pub(crate) fn canonical(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let Ok(text) = canonical::to_string(&value) else { return };
    let again: serde_json::Value = serde_json::from_str(&text).expect("canonical text is JSON");
    // A whole number above 2^64 in plain digits reads back as the same double.
    assert_eq!(canonical::to_string(&again).as_ref(), Ok(&text));
}

/// The grammar of globs as it is written down, without any care for time.
pub(crate) fn naive(glob: &[u16], resource: &[u16]) -> bool {
    let tail = [u16::from(b' '), u16::from(b'*')];
    run(glob, resource) || glob.strip_suffix(&tail).is_some_and(|head| run(head, resource))
}

fn run(glob: &[u16], resource: &[u16]) -> bool {
    match (glob.split_first(), resource.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((own, glob_rest)), _) if *own == u16::from(b'*') => {
            run(glob_rest, resource)
                || resource.split_first().is_some_and(|(_, resource_rest)| run(glob, resource_rest))
        }
        (Some((own, glob_rest)), Some((unit, resource_rest))) => {
            (*own == u16::from(b'?') || own == unit) && run(glob_rest, resource_rest)
        }
        (Some(_), None) => false,
    }
}
