//! Lines, context, budget and options: search contract 1.2, 2.1 and 5.

use crate::support::{Place, assert_code, globs, lines, tree_t};
use flowcell_kernel::flows::error::Code;
use flowcell_search::{ContextLine, GrepAnswer, GrepQuery};

fn numbers(lines: &[ContextLine]) -> Vec<u64> {
    lines.iter().map(|line| line.line).collect()
}

/// Line, context above, context below of each match.
fn shape(answer: &GrepAnswer) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
    answer.matches.iter().map(|found| (found.line, numbers(&found.before), numbers(&found.after))).collect()
}

#[test]
fn rows_of_the_contract() {
    let place = tree_t();
    let answer = place.grep(GrepQuery {
        context: Some(1),
        globs: globs(&["a.ts"]),
        smart_case: true,
        ..lines("needle")
    });
    assert_eq!(shape(&answer), [(2, vec![1], vec![3]), (4, vec![], vec![5])]);
    assert_eq!(answer.matches[0].before[0].text, "intro");
    assert_eq!(answer.files_searched, 1);

    let answer = place.grep(lines("needle"));
    let found: Vec<_> = answer.matches.iter().map(|found| format!("{}:{}", found.file, found.line)).collect();
    let want = [
        "a-b/x.ts:1",
        "a.ts:4",
        "keep.log:1",
        "mod.py:3",
        "mod.py:4",
        "sub/a.log:1",
        "sub/deep/b.ts:1",
        "worktrees:1",
    ];
    assert_eq!(found, want);
    assert_eq!((answer.files_searched, answer.skipped_binary, answer.truncated), (9, 1, false));
    assert_eq!((answer.files.len(), answer.notice), (0, None));

    let query = GrepQuery { root: Some("bin.dat".to_owned()), ..lines("needle") };
    assert_eq!(assert_code(place.try_grep(query), Code::BinaryFile).path.as_deref(), Some("bin.dat"));
    let query = GrepQuery { root: Some("bin.dat".to_owned()), ..lines("nothing") };
    assert_code(place.try_grep(query), Code::BinaryFile);

    let query = GrepQuery { ignore_case: true, smart_case: true, ..lines("needle") };
    assert_code(place.try_grep(query), Code::InvalidInput);
    let query = GrepQuery { root: Some("nowhere".to_owned()), ..lines("x") };
    assert_eq!(assert_code(place.try_grep(query), Code::NotFound).path.as_deref(), Some("nowhere"));

    let answer = place.grep(GrepQuery {
        max_count: Some(1),
        after_context: Some(2),
        globs: globs(&["a.ts"]),
        ..lines("after|needle")
    });
    assert_eq!(shape(&answer), [(3, vec![], vec![4, 5])]);
}

#[test]
fn the_first_failure_is_the_answer() {
    let place = Place::new();
    let mut query = GrepQuery {
        ignore_case: true,
        smart_case: true,
        context: Some(0),
        before_context: Some(0),
        max_count: Some(0),
        globs: globs(&["[", "\\"]),
        root: Some("nowhere".to_owned()),
        ..lines("(")
    };
    let message = |query: &GrepQuery, code| assert_code(place.try_grep(query.clone()), code).message;
    assert!(message(&query, Code::InvalidInput).contains("smartCase"));
    query.smart_case = false;
    assert!(message(&query, Code::InvalidInput).contains("context"));
    query.before_context = None;
    assert!(message(&query, Code::InvalidInput).contains("maxCount"));
    query.max_count = None;
    assert!(message(&query, Code::InvalidPattern).contains("\"(\""));
    query.pattern = "a".to_owned();
    assert!(message(&query, Code::InvalidPattern).contains("\"[\""));
    query.globs.remove(0);
    assert!(message(&query, Code::InvalidPattern).contains('\\'));
    query.globs.clear();
    message(&query, Code::NotFound);
}

#[test]
fn context_conflicts_even_when_it_is_zero() {
    let place = Place::new();
    for query in [
        GrepQuery { context: Some(0), before_context: Some(0), ..lines("x") },
        GrepQuery { context: Some(2), after_context: Some(0), ..lines("x") },
    ] {
        assert_code(place.try_grep(query), Code::InvalidInput);
    }
    place.grep(GrepQuery { before_context: Some(1), after_context: Some(1), ..lines("x") });
}

#[test]
fn line_rules() {
    let place = Place::new();
    place.write("a", "").write("b", "\n").write("c", "x\r\n\ry\r").write("d", "\u{feff}bom\n");
    assert_eq!(place.found(lines("")), ["b:1", "c:1", "c:2", "d:1"]);
    assert_eq!(place.found(lines("^x$")), ["c:1"]);
    assert_eq!(place.found(lines("^.y.$")), ["c:2"]);
    assert_eq!(place.found(lines("^bom$")), ["d:1"]);
    let answer = place.grep(GrepQuery { globs: globs(&["c"]), ..lines("") });
    assert_eq!(answer.matches[0].text, "x");
    assert_eq!(answer.matches[1].text, "\ry\r");
}

#[test]
fn files_that_are_not_text() {
    let place = Place::new();
    place
        .write("latin", b"caf\xe9 needle\n")
        .write("cut", b"needle \xf0\x9f\x98\n")
        .write("clean", "needle\n");
    let answer = place.grep(lines("^(.*) ?needle"));
    let texts: Vec<_> = answer.matches.iter().map(|found| found.text.as_str()).collect();
    assert_eq!(texts, ["needle", "needle \u{fffd}", "caf\u{fffd} needle"]);
    assert_eq!(place.found(lines("^caf. ")), ["latin:1"]);
    assert_eq!(place.found(lines("^caf.. ")), Vec::<String>::new());
    assert_eq!(place.found(lines("needle [^a]$")), ["cut:1"]);
    assert_eq!((answer.files_searched, answer.skipped_binary), (3, 0));
}

#[test]
fn a_nul_anywhere_makes_a_file_binary() {
    let place = Place::new();
    let mut late = vec![b'n'; 300_000];
    late.extend_from_slice(b"\nneedle\n\0");
    place.write("late", &late).write("text", "needle\n");
    let answer = place.grep(lines("n"));
    assert_eq!(answer.matches.len(), 1);
    assert_eq!((answer.files_searched, answer.skipped_binary), (2, 1));
    let answer = place.grep(GrepQuery { files_with_matches: true, ..lines("n") });
    assert_eq!((answer.files.as_slice(), answer.skipped_binary), (&["text".to_owned()][..], 1));
    // The name is enough for a glob.
    assert_eq!(place.paths("late"), ["late"]);
}

#[test]
fn shown_lines_are_cut_and_it_is_said() {
    let place = Place::new();
    let long = format!("{}é needle", "x".repeat(499));
    place.write("f", format!("{long}\nneedle\n{long}\n{}\n", "y".repeat(500)));
    let answer = place.grep(GrepQuery { context: Some(1), ..lines("^needle|. needle$") });
    assert_eq!(shape(&answer), [(1, vec![], vec![]), (2, vec![], vec![]), (3, vec![], vec![4])]);
    assert_eq!(answer.matches[0].text, "x".repeat(499));
    assert_eq!(answer.matches[2].after[0].text.len(), 500);
    assert!(!answer.truncated);
    assert_eq!(answer.notice.as_deref(), Some("2 long lines were cut to 500 bytes."));
}

#[test]
fn context_is_capped_and_it_is_said() {
    let place = Place::new();
    place.write("f", format!("{}needle\n{}", "b\n".repeat(1500), "a\n".repeat(1500)));
    let answer = place.grep(GrepQuery { context: Some(u64::MAX), ..lines("needle") });
    let found = &answer.matches[0];
    assert_eq!((found.before.len(), found.after.len()), (1000, 1000));
    assert_eq!((found.before[0].line, found.after[999].line), (501, 2501));
    assert_eq!(answer.notice.as_deref(), Some("Context is at most 1000 lines on each side."));
    let answer = place.grep(GrepQuery { context: Some(1001), ..lines("absent") });
    assert_eq!(answer.notice, None);
    let answer = place.grep(GrepQuery { context: Some(1000), ..lines("needle") });
    assert_eq!(answer.notice, None);
}

#[test]
fn ownership_is_computed_before_the_limit_cuts() {
    let place = Place::new();
    place.write("f", "m\n1\n2\n3\nm\n4\nm\n");
    let query = GrepQuery { context: Some(3), ..lines("m") };
    let full = place.grep(query.clone());
    assert_eq!(shape(&full), [(1, vec![], vec![2, 3]), (5, vec![4], vec![6]), (7, vec![], vec![])]);
    for limit in 0..3 {
        let cut = place.grep(GrepQuery { limit: Some(limit), ..query.clone() });
        assert_eq!(cut.matches, full.matches[..limit as usize]);
        assert!(cut.truncated);
    }
}

#[test]
fn budget_and_notice() {
    let place = Place::new();
    place.write("a", "x\nx\nx\n").write("b", "x\nx\n").write("c", "y\n");
    let answer = place.grep(GrepQuery { limit: Some(4), ..lines("x") });
    assert_eq!(answer.matches.len(), 4);
    let notice = "Showing 4 of 5 matches; narrow the search or raise limit (at most 200).";
    assert_eq!((answer.truncated, answer.notice.as_deref()), (true, Some(notice)));
    let answer = place.grep(GrepQuery { limit: Some(5), ..lines("x") });
    assert_eq!((answer.matches.len(), answer.truncated, answer.notice), (5, false, None));
    let answer = place.grep(GrepQuery { limit: Some(0), ..lines("x") });
    assert_eq!((answer.matches.len(), answer.truncated), (0, true));
    let answer = place.grep(GrepQuery { limit: Some(0), ..lines("absent") });
    assert_eq!((answer.truncated, answer.notice), (false, None));
    let answer = place.grep(GrepQuery { limit: Some(1), files_with_matches: true, ..lines("x") });
    assert_eq!(answer.files, ["a"]);
    let notice = "Showing 1 of 2 files; narrow the search or raise limit (at most 200).";
    assert_eq!((answer.matches.len(), answer.notice.as_deref()), (0, Some(notice)));
    assert_eq!(answer.files_searched, 3);
    let answer = place.grep(GrepQuery { max_count: Some(1), files_with_matches: true, ..lines("x") });
    assert_eq!(answer.files, ["a", "b"]);
    let answer = place.grep(GrepQuery { max_count: Some(2), ..lines("x") });
    assert_eq!(shape(&answer).len(), 4);
}

#[test]
fn counting_stops_at_the_ceiling() {
    let place = Place::new();
    place.write("a", "x\n".repeat(6000)).write("b", "x\n".repeat(4000)).write("c", "x\n").write("d", "x\0");
    let answer = place.grep(lines("x"));
    assert_eq!(answer.matches.len(), 200);
    let notice = "Showing 200 of at least 10000 matches; narrow the search or raise limit (at most 200).";
    assert_eq!((answer.truncated, answer.notice.as_deref()), (true, Some(notice)));
    assert_eq!((answer.files_searched, answer.skipped_binary), (2, 0));
    let answer = place.grep(GrepQuery { max_count: Some(3999), ..lines("x") });
    let notice = "Showing 200 of 7999 matches; narrow the search or raise limit (at most 200).";
    assert_eq!(answer.notice.as_deref(), Some(notice));
    assert_eq!((answer.files_searched, answer.skipped_binary), (4, 1));
    // A file over the ceiling that turns out to be binary counts for nothing.
    place.write("a", format!("{}\0", "x\n".repeat(20_000)));
    let answer = place.grep(lines("x"));
    assert_eq!(
        answer.notice.as_deref(),
        Some("Showing 200 of 4001 matches; narrow the search or raise limit (at most 200).")
    );
    assert_eq!((answer.files_searched, answer.skipped_binary), (4, 2));
}

#[test]
fn a_file_as_root() {
    let place = tree_t();
    let query = |root: &str| GrepQuery {
        root: Some(root.to_owned()),
        globs: globs(&["!**", "*.rs"]),
        ..lines("needle")
    };
    for root in ["build/out.ts", "./build//out.ts", "sub/../build/out.ts"] {
        let answer = place.grep(query(root));
        assert_eq!(answer.matches[0].file, "build/out.ts");
        assert_eq!(answer.files_searched, 1);
    }
    assert_eq!(place.grep(query(".env")).matches.len(), 1);
    let absolute = place.at("a.ts").to_str().unwrap().to_owned();
    assert_eq!(place.grep(query(&absolute)).matches[0].file, absolute);
}

#[test]
fn literals() {
    let place = Place::new();
    place.write("f", "a.b\naxb\n(a|b)\n\\d\n");
    let literal = |pattern: &str| GrepQuery { fixed_strings: true, ..lines(pattern) };
    assert_eq!(place.found(literal("a.b")), ["f:1"]);
    assert_eq!(place.found(literal("(a|b)")), ["f:3"]);
    assert_eq!(place.found(literal("\\d")), ["f:4"]);
    assert_eq!(place.found(literal("")), ["f:1", "f:2", "f:3", "f:4"]);
    assert_eq!(place.found(lines("a.b")), ["f:1", "f:2", "f:3"]);
    // Nothing found stays nothing found.
    let answer = place.grep(lines("(q|z)"));
    assert_eq!((answer.matches.len(), answer.truncated), (0, false));
}

#[test]
fn a_long_text_is_looked_for_in_one_pass() {
    let place = Place::new();
    place.write("f", format!("{}\n", "a".repeat(60_000)).repeat(40));
    for (fixed_strings, end) in [(true, "b"), (false, "b"), (true, "(")] {
        let query = GrepQuery { fixed_strings, ..lines(&format!("{}{end}", "a".repeat(4095))) };
        assert_eq!(place.grep(query), GrepAnswer { files_searched: 1, ..GrepAnswer::default() });
    }
    let query = GrepQuery { limit: Some(1), ..lines(&"a".repeat(4096)) };
    assert_eq!(
        place.grep(query).notice.as_deref().map(|notice| notice.contains("of 40 matches")),
        Some(true)
    );
}
