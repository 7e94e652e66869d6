//! Invariants of search contract 10 on random trees and calls.

use crate::support::{Place, lines, names};
use flowcell_kernel::flows::canonical::utf16_cmp;
use flowcell_search::{ContextLine, Glob, GlobList, GlobQuery, GrepAnswer, GrepQuery, Outline, Pattern};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeSet, HashMap};

/// Cases of a property that builds a tree.
const TREE_CASES: u32 = 40;
/// Cases of a property that reads more than 4 MiB.
const PIECE_CASES: u32 = 8;
/// Cases of a property that reads text alone.
const TEXT_CASES: u32 = 400;

fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(strategy, test).unwrap();
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[abc]",
        2 => "[ab]\\.(ts|log)",
        1 => Just(".h".to_owned()),
        1 => Just("a-b".to_owned()),
        1 => Just("\u{e000}".to_owned()),
        1 => Just("\u{1f600}".to_owned()),
        1 => Just("node_modules".to_owned()),
    ]
}

fn content() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        3 => "[ab]{0,3}",
        1 => Just("fn a() {".to_owned()),
        1 => Just("    ab".to_owned()),
        1 => Just("}".to_owned()),
        1 => Just("\r".to_owned()),
    ];
    (vec(line, 0..14), any::<bool>(), prop::bool::weighted(0.05)).prop_map(|(lines, end, nul)| {
        format!("{}{}{}", lines.join("\n"), if end { "\n" } else { "" }, if nul { "\0" } else { "" })
    })
}

fn tree() -> impl Strategy<Value = Vec<(String, String)>> {
    let file = (vec(name(), 1..4), content()).prop_map(|(path, content)| (path.join("/"), content));
    let rules =
        (vec(name(), 0..2), vec(prop_oneof![name(), Just("*.log".to_owned()), Just("!a".to_owned())], 1..3))
            .prop_map(|(mut dir, rules)| {
                dir.push(".gitignore".to_owned());
                (dir.join("/"), rules.join("\n"))
            });
    (vec(file, 1..16), vec(rules, 0..2)).prop_map(|(files, rules)| [files, rules].concat())
}

fn plant(files: &[(String, String)]) -> Place {
    let place = Place::new();
    for (path, content) in files {
        let path = place.at(path);
        if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
            std::fs::write(path, content).unwrap();
        }
    }
    place
}

fn glob_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => name(), 3 => Just("*".to_owned()), 2 => Just("**".to_owned()), 1 => Just("?".to_owned()),
        1 => Just("a*".to_owned()), 1 => Just("*.ts".to_owned()),
    ]
    .prop_filter("globs are ASCII", |piece| piece.is_ascii());
    vec(piece, 1..4).prop_map(|pieces| pieces.join("/"))
}

fn sorted(paths: &[String]) -> bool {
    paths.windows(2).all(|pair| utf16_cmp(&pair[0], &pair[1]).is_lt())
}

#[test]
fn answers_repeat_and_ascend() {
    check(TREE_CASES, &(tree(), glob_text()), |(files, pattern)| {
        let place = plant(&files);
        let answer = place.glob(names("**"));
        prop_assert!(sorted(&answer.paths), "{:?}", answer.paths);
        prop_assert_eq!(&place.glob(names("**")), &answer);
        let grep = place.grep(GrepQuery { globs: vec![pattern], context: Some(2), ..lines("a") });
        let again: Vec<_> = grep.matches.iter().map(|found| (found.file.clone(), found.line)).collect();
        let ascends = again
            .windows(2)
            .all(|pair| utf16_cmp(&pair[0].0, &pair[1].0).then(pair[0].1.cmp(&pair[1].1)).is_lt());
        prop_assert!(ascends, "{again:?}");
        Ok(())
    });
}

#[test]
fn braces_are_unions_and_exclusions_complements() {
    check(TREE_CASES, &(tree(), glob_text(), "[ab*/]{0,3}", "[ab*/]{0,3}"), |(files, tail, one, two)| {
        let place = plant(&files);
        let both = place.paths(&format!("{{{one},{two}}}{tail}"));
        let mut union: Vec<String> = [one, two]
            .iter()
            .map(|head| format!("{head}{tail}"))
            .flat_map(|glob| place.paths(&glob))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        union.sort_by(|left, right| utf16_cmp(left, right));
        prop_assert_eq!(&both, &union);
        Ok(())
    });
    // A glob with a dot in its name meets no directory of these trees.
    check(TREE_CASES, &tree(), |files| {
        let place = plant(&files);
        for (path, _) in &files {
            if place.at(path).is_dir() || path.contains("a.ts/") {
                return Ok(());
            }
        }
        let (with, without) = (place.paths("a.ts"), place.paths("!a.ts"));
        let mut all = [with, without].concat();
        all.sort_by(|left, right| utf16_cmp(left, right));
        prop_assert_eq!(all, place.paths("**"));
        Ok(())
    });
}

#[test]
fn globs_and_options_only_narrow_or_widen() {
    check(TREE_CASES, &(tree(), glob_text(), glob_text()), |(files, pattern, exclusion)| {
        let place = plant(&files);
        let set = |query: GlobQuery| -> BTreeSet<String> { place.glob(query).paths.into_iter().collect() };
        let plain = set(names(&pattern));
        prop_assert!(plain.is_subset(&set(names("**"))));
        let hidden = set(GlobQuery { hidden: true, ..names(&pattern) });
        let ignored = set(GlobQuery { no_ignore: true, ..names(&pattern) });
        prop_assert!(plain.is_subset(&hidden) && plain.is_subset(&ignored));
        let files = |globs: Vec<String>| -> GrepAnswer {
            place.grep(GrepQuery { globs, files_with_matches: true, ..lines("") })
        };
        let wide = files(vec![pattern.clone()]);
        let narrow = files(vec![pattern, format!("!{exclusion}")]);
        prop_assert!(narrow.files.iter().all(|file| wide.files.contains(file)));
        prop_assert_eq!(wide.files_searched, plain.len() as u64);
        Ok(())
    });
}

#[test]
fn files_are_those_of_the_matches() {
    let options = (0u64..4, 0u64..4, prop::option::of(1u64..3));
    check(
        TREE_CASES,
        &(tree(), prop::sample::select(vec!["a", "b", "a.", "b$", "^", "^a", "[^a]"]), options),
        |(files, pattern, (before, after, most))| {
            let place = plant(&files);
            let query = GrepQuery {
                before_context: Some(before),
                after_context: Some(after),
                max_count: most,
                ..lines(pattern)
            };
            let answer = place.grep(query.clone());
            let mut distinct: Vec<String> = answer.matches.iter().map(|found| found.file.clone()).collect();
            distinct.dedup();
            let listed = place.grep(GrepQuery { files_with_matches: true, ..query.clone() });
            prop_assert_eq!(&listed.files, &distinct);
            prop_assert_eq!(listed.files_searched, answer.files_searched);
            prop_assert_eq!(listed.skipped_binary, answer.skipped_binary);
            // Each line of context once, no match, near its owner.
            let mut seen: HashMap<(&str, u64), ()> = HashMap::new();
            for found in &answer.matches {
                prop_assert!(seen.insert((&found.file, found.line), ()).is_none());
                let near = |line: &ContextLine| match line.line.checked_sub(found.line) {
                    Some(below) => below >= 1 && below <= after,
                    None => found.line - line.line <= before,
                };
                for line in found.before.iter().chain(&found.after) {
                    prop_assert!(near(line));
                    prop_assert!(seen.insert((&found.file, line.line), ()).is_none());
                }
                if let Some(symbol) = &found.symbol {
                    let count =
                        std::fs::read_to_string(place.at(&found.file)).unwrap().lines().count() as u64;
                    prop_assert!(symbol.start_line <= found.line && found.line <= symbol.end_line);
                    prop_assert!(symbol.end_line <= count);
                }
            }
            for limit in 0..answer.matches.len() {
                let cut = place.grep(GrepQuery { limit: Some(limit as u64), ..query.clone() });
                prop_assert_eq!(&cut.matches, &answer.matches[..limit]);
                prop_assert!(cut.truncated);
            }
            Ok(())
        },
    );
}

#[test]
fn context_matches_a_plain_reading() {
    let text = vec(prop::bool::weighted(0.3), 0..30);
    check(
        TREE_CASES,
        &(text, 0u64..5, 0u64..5, prop::option::of(1usize..4)),
        |(marks, before, after, most)| {
            let place = Place::new();
            place.write("f", marks.iter().map(|mark| if *mark { "m\n" } else { "x\n" }).collect::<String>());
            let query = GrepQuery {
                before_context: Some(before),
                after_context: Some(after),
                max_count: most.map(|most| most as u64),
                ..lines("m")
            };
            let answer = place.grep(query);
            let hits: Vec<u64> =
                marks.iter().zip(1..).filter(|(mark, _)| **mark).map(|(_, line)| line).collect();
            let hits = &hits[..hits.len().min(most.unwrap_or(usize::MAX))];
            let mut want: Vec<(u64, Vec<u64>, Vec<u64>)> =
                hits.iter().map(|hit| (*hit, vec![], vec![])).collect();
            for line in (1..=marks.len() as u64).filter(|line| !hits.contains(line)) {
                let owner = want
                    .iter_mut()
                    .filter(|(hit, ..)| if *hit > line { hit - line <= before } else { line - *hit <= after })
                    .min_by_key(|(hit, ..)| hit.abs_diff(line));
                if let Some((hit, above, below)) = owner {
                    if *hit > line { above.push(line) } else { below.push(line) }
                }
            }
            let numbers = |lines: &[ContextLine]| lines.iter().map(|line| line.line).collect::<Vec<_>>();
            let got: Vec<_> = answer
                .matches
                .iter()
                .map(|found| (found.line, numbers(&found.before), numbers(&found.after)))
                .collect();
            prop_assert_eq!(got, want);
            Ok(())
        },
    );
}

#[test]
fn literals_are_escaped_expressions() {
    let needle = "[ab.*+?()|\\[\\]{}^$\\\\/ -]{0,3}";
    check(
        TREE_CASES,
        &(needle, vec("[ab.*+?()|\\[\\]{}^$\\\\/ -]{0,4}", 1..12), any::<bool>()),
        |(needle, text, fold)| {
            let place = Place::new();
            place.write("f", text.join("\n"));
            let escaped: String = needle
                .chars()
                .map(|c| if "^$\\.*+?()[]{}|/".contains(c) { format!("\\{c}") } else { c.to_string() })
                .collect();
            let literal = place.grep(GrepQuery { fixed_strings: true, ignore_case: fold, ..lines(&needle) });
            prop_assert_eq!(&literal, &place.grep(GrepQuery { ignore_case: fold, ..lines(&escaped) }));
            let plain: Vec<u64> = text
                .iter()
                .zip(1..)
                .filter(|(line, number)| {
                    line.contains(&needle) && !(*number == text.len() as u64 && line.is_empty())
                })
                .map(|(_, number)| number)
                .collect();
            prop_assert_eq!(literal.matches.iter().map(|found| found.line).collect::<Vec<_>>(), plain);
            Ok(())
        },
    );
}

/// The lines of a file as search contract 2.1 reads them, one at a time.
fn plain_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => line.strip_suffix('\r').unwrap_or(line).to_owned(),
            None => line.to_owned(),
        })
        .collect()
}

#[test]
fn blocks_match_as_single_lines_do() {
    let piece = prop_oneof![
        6 => "[abkK]{1,3}".prop_map(String::into_bytes),
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\xff".to_vec()),
        1 => Just(b"\xe2\x84".to_vec()),
        1 => Just("\u{212a}".as_bytes().to_vec()),
        1 => Just("\u{feff}".as_bytes().to_vec()),
    ];
    let part = prop::sample::select(vec![
        "a", "b", "k", ".", "^", "$", "[ab]", "[^a]", "(a|)", "(b|$)", ".*", "a+?", "[^k]*", "(^|a)", "k{2}",
        ".{0,2}",
    ]);
    let call = (vec(piece, 0..30), vec(part, 0..5), any::<bool>());
    check(TEXT_CASES, &call, |(pieces, parts, ignore_case)| {
        let (bytes, pattern) = (pieces.concat(), parts.concat());
        let syntax = regex_automata::util::syntax::Config::new().case_insensitive(ignore_case);
        let oracle = regex_automata::meta::Regex::builder().syntax(syntax).build(&pattern).unwrap();
        let want: Vec<(u64, String)> =
            (1..).zip(plain_lines(&bytes)).filter(|(_, line)| oracle.is_match(line.as_str())).collect();
        let place = Place::new();
        place.write("f", &bytes);
        let answer = place.grep(GrepQuery { ignore_case, ..lines(&pattern) });
        let got: Vec<(u64, String)> =
            answer.matches.into_iter().map(|found| (found.line, found.text)).collect();
        prop_assert_eq!(got, want, "{:?} in {:?}", pattern, bytes);
        Ok(())
    });
}

#[test]
fn no_text_panics_and_what_is_accepted_compiles() {
    let place = Place::new();
    place.write("f", b"a\xffb\r\n{}[]()\nab12 \xe2\x82\n");
    let pattern = "[ab1(){}\\[\\]|*+?^$.,\\\\&~\\- -]{0,14}";
    check(TEXT_CASES, &pattern, |text| {
        if let Ok(pattern) = Pattern::regex(&text) {
            prop_assert!(pattern.states() <= 8192);
            place.grep(lines(&text));
        }
        Ok(())
    });
    check(TEXT_CASES, &"\\PC{0,12}|[!ab{},*?/. \\[]{0,12}", |text| {
        let _ = Pattern::regex(&text).map(|pattern| pattern.states());
        if let Ok(glob) = Glob::parse(&text) {
            let list = GlobList::new(vec![glob.clone()]);
            prop_assert_eq!(list.includes_file("a/b"), glob.matches_file("a/b") != glob.is_exclusion());
        }
        Ok(())
    });
    check(TEXT_CASES, &vec(any::<u8>(), 0..200), |bytes| {
        let _ = flowcell_search::Gitignore::parse(&bytes).verdict("a/b", false);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let outline = Outline::new(&bytes);
        for line in 0..lines + 2 {
            if let Some(symbol) = outline.enclosing(line) {
                prop_assert!(
                    symbol.start_line <= line && line <= symbol.end_line && symbol.end_line <= lines
                );
            }
        }
        Ok(())
    });
}

#[test]
fn a_file_that_is_read_in_pieces_agrees_with_a_plain_reading() {
    let rare = ["needle", "x\u{e9}z", "x\u{fffd}z q", "q", "q\r", "xz"];
    let call = (vec((0usize..4_000, 0usize..6), 60..120), "[ab]{0,300}", 0u64..4, 0u64..4, 0usize..4);
    check(PIECE_CASES, &call, |(spots, filler, before, after, choice)| {
        let mut bytes = b"\xef\xbb\xbf".to_vec();
        while bytes.len() < 4 * 1024 * 1024 + 600_000 {
            for (skip, which) in &spots {
                for line in 0..skip % 400 {
                    bytes.extend_from_slice(&filler.as_bytes()[..(line * 37 + skip) % (filler.len() + 1)]);
                    bytes.extend_from_slice(if line % 5 == 0 { b"\r\n" } else { b"\n" });
                }
                bytes.extend_from_slice(if *which == 2 { b"x\xffz q" } else { rare[*which].as_bytes() });
                bytes.push(b'\n');
            }
        }
        bytes.extend_from_slice(b"needle q");
        let place = Place::new();
        place.write("f", &bytes);
        let pattern = ["needle", "x[^a]z", "q$", "^.{2}z"][choice];
        let query = GrepQuery { before_context: Some(before), after_context: Some(after), ..lines(pattern) };
        let answer = place.grep(query);
        let oracle = regex_automata::meta::Regex::new(pattern).unwrap();
        let all = plain_lines(&bytes);
        let hits: Vec<usize> = (0..all.len()).filter(|at| oracle.is_match(all[*at].as_str())).collect();
        let near = |line: usize| {
            let next = hits.partition_point(|hit| *hit < line);
            let above = next.checked_sub(1).map(|at| hits[at]).filter(|hit| (line - hit) as u64 <= after);
            let below = hits.get(next).copied().filter(|hit| *hit != line && (hit - line) as u64 <= before);
            match (above, below) {
                (Some(above), Some(below)) if below - line < line - above => Some(below),
                (above, below) => above.or(below),
            }
        };
        prop_assert_eq!(answer.truncated, hits.len() > 200);
        let total = format!("Showing 200 of {} matches", hits.len());
        prop_assert!(!(201..10_000).contains(&hits.len()) || answer.notice.unwrap().contains(&total));
        for (found, hit) in answer.matches.iter().zip(&hits) {
            prop_assert_eq!((found.line, found.text.as_str()), (*hit as u64 + 1, all[*hit].as_str()));
            let owned = |range: std::ops::Range<usize>| -> Vec<ContextLine> {
                let mine =
                    range.filter(|line| hits.binary_search(line).is_err() && near(*line) == Some(*hit));
                mine.map(|line| ContextLine { line: line as u64 + 1, text: all[line].clone() }).collect()
            };
            let first = hit.saturating_sub(usize::try_from(before).unwrap());
            let last = (hit + 1 + usize::try_from(after).unwrap()).min(all.len());
            prop_assert_eq!(&found.before, &owned(first..*hit));
            prop_assert_eq!(&found.after, &owned(hit + 1..last));
        }
        prop_assert_eq!(answer.matches.len(), hits.len().min(200));
        Ok(())
    });
}
