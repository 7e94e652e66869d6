//! Symbols through the engine: search contract 5.

use crate::support::{Place, globs, lines, tree_t};
use flowcell_search::{GrepQuery, MAX_SYMBOL_BYTES, Outline, Symbol};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Random texts that are read line by line.
const CASES: u32 = 400;

#[test]
fn the_row_of_the_contract() {
    let answer = tree_t().grep(GrepQuery { globs: globs(&["*.py"]), ..lines("needle") });
    let symbol = Symbol { kind: "def".to_owned(), name: "widen".to_owned(), start_line: 2, end_line: 4 };
    let found: Vec<_> = answer.matches.iter().map(|found| (found.line, found.symbol.clone())).collect();
    assert_eq!(found, [(3, Some(symbol.clone())), (4, Some(symbol))]);
    let query = GrepQuery { globs: globs(&["*.py"]), no_symbols: true, ..lines("needle") };
    assert!(tree_t().grep(query).matches.iter().all(|found| found.symbol.is_none()));
}

#[test]
fn prose_and_large_files_have_none() {
    let place = Place::new();
    let text = "fn f() {\n    needle\n}\n";
    place.write("a.md", text).write("a.rs", text).write("noext", text).write("b.JSON", text);
    let mut exact = text.as_bytes().to_vec();
    exact.resize(MAX_SYMBOL_BYTES, b'\n');
    place.write("exact.rs", &exact);
    exact.push(b'\n');
    place.write("large.rs", &exact);
    let answer = place.grep(lines("needle"));
    let with: Vec<&str> = answer
        .matches
        .iter()
        .filter(|found| found.symbol.is_some())
        .map(|found| found.file.as_str())
        .collect();
    assert_eq!(answer.matches.len(), 6);
    assert_eq!(with, ["a.rs", "exact.rs", "noext"]);
}

#[test]
fn returns_and_marks_do_not_disturb() {
    let place = Place::new();
    place.write("a.rs", "\u{feff}fn f() {\r\n    needle\r\n\r\n}\r\n");
    let answer = place.grep(lines("needle"));
    let symbol = Symbol { kind: "fn".to_owned(), name: "f".to_owned(), start_line: 1, end_line: 4 };
    assert_eq!(answer.matches[0].symbol, Some(symbol));
    assert_eq!(answer.matches[0].text, "    needle");
}

/// The declaration around a line as search contract 5 words it, with no thought of cost.
fn plain(lines: &[&str], hit: usize) -> Option<Symbol> {
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let blank = |line: &str| line.trim_ascii().is_empty();
    let read = |line: &str| -> Option<(String, String)> {
        let mut words = line.split_ascii_whitespace().skip_while(|word| matches!(*word, "pub" | "async"));
        let kind = words.next().filter(|word| matches!(*word, "fn" | "class"))?;
        let name = words.next()?.trim_end_matches(':');
        Some((kind.to_owned(), name.to_owned()))
    };
    let end = |start: usize| {
        let mut end = lines.len() - 1;
        for (at, line) in lines.iter().enumerate().skip(start + 1) {
            if blank(line) || indentation(line) > indentation(lines[start]) {
                continue;
            }
            if line.trim_ascii().starts_with([')', '}', ']']) {
                if line.trim_ascii().ends_with(['{', '(', '[', ':']) {
                    continue;
                }
                end = at;
            } else {
                end = at - 1;
            }
            break;
        }
        (start..=end).rev().find(|at| *at == start || !blank(lines[*at])).unwrap()
    };
    let own = (0..=hit).rev().find(|at| !blank(lines[*at])).map(|at| indentation(lines[at]));
    let start = match read(lines[hit]) {
        Some(_) => hit,
        None => (0..hit).rev().find(|at| {
            read(lines[*at]).is_some() && own > Some(indentation(lines[*at])) && end(*at) >= hit
        })?,
    };
    let (kind, name) = read(lines[start])?;
    Some(Symbol { kind, name, start_line: start as u64 + 1, end_line: end(start) as u64 + 1 })
}

#[test]
fn every_line_agrees_with_a_plain_reading() {
    let body = prop::sample::select(vec![
        "fn a",
        "pub fn b (",
        "class a:",
        "async fn c",
        "x",
        "",
        ")",
        "}",
        ") {",
        "}:",
        "]  (  ",
        " ",
        "fn a {",
    ]);
    let line = ("[ \t]{0,3}", body).prop_map(|(indentation, body)| format!("{indentation}{body}"));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(prop::collection::vec(line, 1..24), any::<bool>()), |(lines, end)| {
            let text = lines.join("\n") + if end { "\n" } else { "" };
            let outline = Outline::new(text.as_bytes());
            let lines: Vec<&str> = text.split_terminator('\n').collect();
            for hit in 0..lines.len() {
                let want = plain(&lines, hit);
                prop_assert_eq!(outline.enclosing(hit as u64 + 1), want, "line {} of {:?}", hit + 1, text);
            }
            prop_assert_eq!(outline.enclosing(lines.len() as u64 + 1), None);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_look_up_does_not_walk_over_every_declaration() {
    let text = format!("{}x\n{}", "fn a\n".repeat(200_000), "  x\n".repeat(200_000));
    let outline = Outline::new(text.as_bytes());
    assert!((200_002..=400_001).all(|line| outline.enclosing(line).is_none()));
    assert_eq!(outline.enclosing(400_002), None);
}
