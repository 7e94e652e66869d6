//! The invariants of host contract 1, 3 and 4 on random texts.

use std::sync::OnceLock;

use flowcell_host::anchor::{Anchor, AnchorError, apply};
use flowcell_host::lines::{self, Text};
use flowcell_host::listing::{Entry, list};
use flowcell_host::page::page;
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::support::Fixture;

const CASES: u32 = 128;
const MAX: usize = 1 << 20;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap()).block_on(future)
}

/// Few letters, so that texts repeat; every line ending and separator there is.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just("a"), 3 => Just("b"), 1 => Just("é"), 1 => Just("😀"), 2 => Just(" "), 1 => Just("\t"),
        4 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"), 1 => Just("\u{2028}"), 1 => Just("\u{85}"),
        1 => Just("\u{feff}"), 1 => Just("\u{c}"),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A text, and one to look for in it that is often a part of it.
fn text_and_part() -> impl Strategy<Value = (String, String)> {
    (text(), text(), 0usize..40, 1usize..6, 0..4).prop_map(|(text, other, skip, take, choice)| {
        let part = match choice {
            0 => other,
            _ => text.chars().skip(skip % text.chars().count().max(1)).take(take).collect(),
        };
        (text, part)
    })
}

/// Left to right, without overlaps, one byte at a time.
fn naive(text: &str, needle: &str) -> Vec<usize> {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    let mut found = Vec::new();
    let mut at = 0;
    while at + needle.len() <= text.len() {
        if text[at..].starts_with(needle) {
            found.push(at);
            at += needle.len();
        } else {
            at += 1;
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn pages_give_back_the_text(text in text(), limit in 1u64..6) {
        let total = lines::count(&text);
        let mut pages = Vec::new();
        let mut offset = 1;
        loop {
            let page = page(&text, offset, limit).unwrap();
            prop_assert_eq!(page.total_lines, total);
            prop_assert_eq!(page.start_line, offset);
            prop_assert_eq!(page.truncated, page.end_line < total);
            prop_assert_eq!(page.notice.is_some(), page.truncated);
            if total > 0 {
                prop_assert_eq!(page.content.split('\n').count() as u64, page.end_line + 1 - page.start_line);
            }
            offset = page.end_line + 1;
            pages.push(page.content);
            if offset > total {
                break;
            }
        }
        let mut whole = pages.join("\n");
        if text.ends_with('\n') {
            whole.push('\n');
        }
        prop_assert_eq!(&whole, &text);
        prop_assert!(page(&text, total.max(1) + 1, 1).is_err());
    }

    #[test]
    fn every_uncut_line_is_an_anchor(text in text()) {
        let total = lines::count(&text);
        for line in 1..=total {
            let shown = page(&text, line, 1).unwrap().content;
            let by_lines = Anchor::Lines { first: line, last: line, expect: Some(&shown) };
            let edited = apply(&text, by_lines, &shown, MAX).unwrap();
            prop_assert_eq!(&edited.text, &text);
            if !shown.is_empty() {
                let by_text = Anchor::Text { old: &shown, all: true };
                prop_assert!(apply(&text, by_text, "", MAX).is_ok());
            }
        }
    }

    #[test]
    fn an_edit_by_text_is_splicing((text, old) in text_and_part(), new in text(), all: bool) {
        prop_assume!(!old.is_empty());
        let spots = naive(&text, &old);
        match apply(&text, Anchor::Text { old: &old, all }, &new, MAX) {
            Ok(edited) => {
                prop_assert!(spots.len() == 1 || (all && spots.len() > 1));
                prop_assert_eq!(edited.replacements, spots.len() as u64);
                let mut expected = String::new();
                let mut kept = 0;
                for spot in &spots {
                    expected += &text[kept..*spot];
                    expected += &new;
                    kept = spot + old.len();
                }
                expected += &text[kept..];
                prop_assert_eq!(&edited.text, &expected);
                check_hunk(&edited.text, &edited.hunk)?;
            }
            Err(AnchorError::NoMatch { .. }) => prop_assert!(spots.is_empty()),
            Err(AnchorError::NotUnique { count, lines: starts }) => {
                prop_assert!(!all);
                prop_assert_eq!(count, spots.len() as u64);
                let expected: Vec<_> = spots.iter().take(20).map(|at| 1 + lines::line_feeds(&text[..*at])).collect();
                prop_assert_eq!(starts, expected);
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn an_edit_by_lines_is_splicing(text in text(), first in 1u64..12, length in 0u64..6, new in text()) {
        let last = first + length;
        match apply(&text, Anchor::Lines { first, last, expect: None }, &new, MAX) {
            Ok(edited) => {
                let all: Vec<&str> = lines::each(&text).collect();
                let at = |line: u64| usize::try_from(line).unwrap();
                let mut expected = all[..at(first - 1)].to_vec();
                expected.push(&new);
                expected.extend(&all[at(last)..]);
                let mut expected = expected.join("\n");
                if text.ends_with('\n') {
                    expected.push('\n');
                }
                prop_assert_eq!(&edited.text, &expected);
                check_hunk(&edited.text, &edited.hunk)?;
            }
            Err(AnchorError::PastEnd { line, total }) => {
                prop_assert!(line > total && last > total && total == lines::count(&text));
            }
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn no_message_fails((text, old) in text_and_part()) {
        if let Err(error) = apply(&text, Anchor::Text { old: &old, all: false }, "", MAX) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn decoding_and_encoding_keep_every_byte(bytes in prop::collection::vec(any::<u8>(), 0..12), bom: bool) {
        let bytes = if bom { [b"\xef\xbb\xbf".as_slice(), &bytes].concat() } else { bytes };
        if let Ok(text) = Text::decode(bytes.clone()) {
            prop_assert_eq!(text.encode(text.as_str()), bytes);
        } else {
            prop_assert!(bytes.contains(&0) || std::str::from_utf8(&bytes).is_err());
        }
    }

    #[test]
    fn listing_pages_concatenate(
        names in prop::collection::btree_map("[a-c\u{ff5e}😀-]{1,3}", any::<bool>(), 0..20),
        limit in 1u64..7,
    ) {
        let entries: Vec<_> = names.into_iter().map(|(name, directory)| Entry::new(name.into(), directory)).collect();
        let whole = list(entries.clone(), 1, 1_000).unwrap();
        let mut joined = Vec::new();
        let mut offset = 1;
        loop {
            let page = list(entries.clone(), offset, limit).unwrap();
            prop_assert_eq!(page.total, entries.len() as u64);
            offset += page.entries.len() as u64;
            joined.extend(page.entries);
            if !page.truncated {
                break;
            }
        }
        prop_assert_eq!(joined, whole.entries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES / 4))]

    /// Through the handler: an edit and its inverse restore the file when both texts are unique, a failing one leaves it
    /// alone.
    #[test]
    fn an_edit_and_its_inverse((before, old) in text_and_part(), new in text(), bom: bool) {
        prop_assume!(!old.is_empty() && !new.is_empty() && !before.starts_with('\u{feff}'));
        let fixture = Fixture::new();
        let bytes = if bom { format!("\u{feff}{before}") } else { before.clone() };
        fixture.put("f", &bytes);
        let edit = |from: &str, to: &str| {
            let input = json!({"path": "f", "oldString": from, "newString": to});
            block_on(fixture.edit(input))
        };
        // Counted with overlaps: in `aaa` there are two places for `aa`.
        let unique = |text: &str, part: &str| {
            let (text, part) = (text.as_bytes(), part.as_bytes());
            (0..text.len()).filter(|at| text[*at..].starts_with(part)).count() == 1
        };
        match edit(&old, &new) {
            Err(_) => {
                prop_assert!(naive(&before, &old).len() != 1);
                prop_assert_eq!(fixture.text("f"), bytes);
            }
            Ok(output) => {
                prop_assert_eq!(output.replacements, 1);
                let changed = fixture.text("f");
                let after = Text::decode(changed.clone().into_bytes()).unwrap();
                let inverse = edit(&new, &old);
                if after.has_bom() == bom && unique(after.as_str(), &new) {
                    prop_assert!(inverse.is_ok());
                    prop_assert_eq!(fixture.text("f"), bytes);
                } else if inverse.is_err() {
                    prop_assert_eq!(fixture.text("f"), changed);
                }
            }
        }
        prop_assert_eq!(fixture.names("."), ["f"]);
    }
}

fn check_hunk(text: &str, hunk: &flowcell_host::anchor::Hunk) -> Result<(), TestCaseError> {
    let all: Vec<&str> = lines::each(text).collect();
    prop_assert!(hunk.end_line <= all.len() as u64);
    let range = usize::try_from(hunk.start_line - 1).unwrap()..usize::try_from(hunk.end_line).unwrap();
    prop_assert_eq!(&hunk.text, &all[range].join("\n"));
    Ok(())
}
