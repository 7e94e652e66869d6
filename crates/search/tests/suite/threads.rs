//! The answer does not depend on threads, and calls share them (search contract 8 and 10.1).

use crate::support::{Place, block_on, globs, lines, names};
use flowcell_search::{Engine, GlobQuery, GrepQuery, Search};
use std::fmt::Write;
use std::time::Duration;

/// Many files of all kinds, some of them long, below nested directories with rules.
fn forest(files: usize) -> Place {
    let place = Place::new();
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    place.write(".gitignore", "*.log\n/build\n").write("d1/.gitignore", "!*.log\nc*\n");
    for number in 0..files {
        let mut path = String::new();
        for _ in 0..next(4) {
            let _ = write!(path, "d{}/", next(4));
        }
        let extension = ["rs", "log", "py", "txt"][usize::try_from(next(4)).unwrap()];
        let _ =
            write!(path, "{}{number}.{extension}", ["a", "b", "c", ".h"][usize::try_from(next(4)).unwrap()]);
        let mut text = String::new();
        let length = if number % 37 == 0 { 9_000 } else { next(60) };
        for line in 0..length {
            let _ = match next(9) {
                0 => writeln!(text, "    let needle = f({line});"),
                1 => writeln!(text, "fn f{line}() {{"),
                2 => writeln!(text, "}}"),
                _ => writeln!(text, "        filler {}", "x".repeat(usize::try_from(next(80)).unwrap())),
            };
        }
        if next(15) == 0 {
            text.push('\0');
        }
        place.write(&path, text);
    }
    place
}

#[test]
fn the_answer_is_the_same_on_any_number_of_threads() {
    let place = forest(150);
    let greps = [
        lines("needle"),
        lines("f\\([0-9]+5\\)"),
        // The literal retry.
        lines("f(1)"),
        lines("zzz[a]"),
        GrepQuery { context: Some(4), limit: Some(150), ..lines("needle") },
        GrepQuery { before_context: Some(900), ..lines("needle") },
        GrepQuery { files_with_matches: true, ..lines("needle") },
        GrepQuery { max_count: Some(2), after_context: Some(2), ..lines("f") },
        GrepQuery { hidden: true, no_ignore: true, ..lines("") },
        GrepQuery { globs: globs(&["*.rs", "!d2"]), ignore_case: true, ..lines("NEEDLE") },
        GrepQuery { root: Some("d1".to_owned()), ..lines("filler x{40}") },
    ];
    for query in greps {
        let want = place.grep_on(1, query.clone());
        for threads in [1, 2, 8] {
            for _ in 0..2 {
                assert_eq!(place.grep_on(threads, query.clone()), want, "{threads} threads: {query:?}");
            }
        }
    }
    for query in [names("**"), names("*.log"), GlobQuery { hidden: true, limit: Some(9), ..names("d1/**") }] {
        let want = place.glob_on(1, query.clone());
        for threads in [2, 8] {
            assert_eq!(place.glob_on(threads, query.clone()), want, "{threads} threads: {query:?}");
        }
    }
}

#[test]
fn parallel_calls_of_one_engine_agree() {
    let place = forest(120);
    let want = (place.grep_on(1, lines("needle")), place.glob_on(1, names("**")));
    block_on(async {
        let engine = Engine::with_threads(3);
        assert_eq!(engine.threads(), 3);
        let mut calls = Vec::new();
        for _ in 0..20 {
            let (engine, cx) = (engine.clone(), place.cx.clone());
            calls.push(tokio::spawn(async move {
                (
                    engine.grep(&cx, lines("needle")).await.unwrap(),
                    engine.glob(&cx, names("**")).await.unwrap(),
                )
            }));
        }
        for call in calls {
            assert_eq!(call.await.unwrap(), want);
        }
    });
}

#[test]
fn a_long_search_does_not_block_a_short_one() {
    let place = Place::new();
    for number in 0..3 {
        place.write(&format!("slow/{number}"), vec![b'a'; 8 * 1024 * 1024]);
    }
    place.write("quick/a", "needle");
    block_on(async {
        let engine = Engine::with_threads(2);
        let slow = {
            let (engine, cx) = (engine.clone(), place.cx.clone());
            let root = Some("slow".to_owned());
            let query = GrepQuery { root, no_symbols: true, ..lines("(a|b)*(.{900}c){8}") };
            tokio::spawn(async move { engine.grep(&cx, query).await.map(drop) })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        // A caller that goes away takes its search with it.
        slow.abort();
        assert!(slow.await.unwrap_err().is_cancelled());
        let query = GrepQuery { root: Some("quick".to_owned()), ..lines("needle") };
        for _ in 0..3 {
            let answer = engine.grep(&place.cx, query.clone()).await.unwrap();
            assert_eq!(answer.matches.len(), 1);
        }
    });
}
