//! Why nothing was found, the literal retry, and what is bounded and said (search contract 5 and 6).

use crate::support::{Place, globs, lines, names, tree_t};
use flowcell_search::{GlobQuery, GrepAnswer, GrepQuery, MAX_CONTEXT_BYTES, MAX_GITIGNORE_BYTES};

const N3: &str = "Nothing matched as a regular expression; these results match the pattern as literal text (fixedStrings: true).";
const N5: &str =
    ".gitignore rules excluded files that this search would cover; pass noIgnore: true to include them.";

fn n4(glob: &str, root: &str, reason: &str) -> String {
    format!("The glob \"{glob}\" cannot match under {root}: {reason}.")
}

fn hidden() -> String {
    "it names a hidden path; pass hidden: true".to_owned()
}

/// The notice of a glob that finds nothing.
fn nothing(place: &Place, query: GlobQuery) -> Option<String> {
    let answer = place.glob(query);
    assert_eq!((answer.total, answer.truncated), (0, false), "{:?}", answer.paths);
    answer.notice
}

#[test]
fn rows_of_the_contract() {
    let place = tree_t();
    assert_eq!(nothing(&place, names("build/*.ts")).as_deref(), Some(N5));
    assert_eq!(nothing(&place, names(".env")), Some(n4(".env", ".", &hidden())));
    let query = GlobQuery { hidden: true, no_ignore: true, ..names("node_modules/**") };
    let skipped = "node_modules is never entered from above; name it as root";
    assert_eq!(nothing(&place, query), Some(n4("node_modules/**", ".", skipped)));
    let missing = n4("src/*.rs", ".", "there is no directory src");
    assert_eq!(nothing(&place, names("src/*.rs")), Some(missing));
    let answer = place.grep(lines("widen(self, v)"));
    let found: Vec<_> = answer.matches.iter().map(|found| (found.file.as_str(), found.line)).collect();
    assert_eq!((found.as_slice(), answer.retried_as_literal), (&[("mod.py", 2)][..], true));
    assert_eq!(answer.notice.as_deref(), Some(N3));
    assert_eq!((answer.files_searched, answer.skipped_binary), (9, 1));
}

#[test]
fn the_first_reason_that_applies_is_given() {
    let place = tree_t();
    place.write("a/sub/f", "x").write("~/f", "x").write(".hid/f", "x").write("sub/sub/f", "x");
    let absolute = place.at("sub").to_str().unwrap().to_owned();
    let relative = |rest: &str| format!("globs are relative to the root; use \"{rest}\"");
    let rows: Vec<(&str, String, Option<String>)> = vec![
        ("./a", "a/x.ts".to_owned(), Some(relative("x.ts"))),
        ("a/sub/", "a/sub/{x,y}.ts".to_owned(), Some(relative("x.ts"))),
        ("sub", format!("{absolute}/q*.ts"), Some(relative("q*.ts"))),
        (".", format!("{absolute}/q*.ts"), Some(relative("sub/q*.ts"))),
        // The directory is there once more.
        ("sub", "sub/x.ts".to_owned(), None),
        (".", "a/../b.ts".to_owned(), Some("a glob cannot leave the root".to_owned())),
        (".", "../.hid/x".to_owned(), Some("a glob cannot leave the root".to_owned())),
        (".", "x/.git/y".to_owned(), Some(".git is never entered from above; name it as root".to_owned())),
        // The last segment may be a file of that name.
        (".", "x/node_modules".to_owned(), Some("there is no directory x".to_owned())),
        (".", "sub/node_modules".to_owned(), None),
        (".", ".hid/*".to_owned(), Some(hidden())),
        (".", "*/.x".to_owned(), Some(hidden())),
        (".", "none/deep/*/x".to_owned(), Some("there is no directory none/deep".to_owned())),
        (".", "a/none/x".to_owned(), Some("there is no directory a/none".to_owned())),
        (".", "a.ts/x".to_owned(), Some("there is no directory a.ts".to_owned())),
        (".", "~b/x".to_owned(), Some("there is no directory ~b; ~ is not expanded".to_owned())),
        (".", "~/x".to_owned(), None),
        (".", "sub//x".to_owned(), Some("there is no directory sub/".to_owned())),
        (".", "{none,sub}/x".to_owned(), None),
        (".", "{none,.hid}/x".to_owned(), Some("there is no directory none".to_owned())),
        (".", "*.zz".to_owned(), None),
        (".", "sub/*.zz".to_owned(), None),
        (".", "!**".to_owned(), None),
    ];
    for (root, glob, reason) in rows {
        let query = GlobQuery { root: Some(root.to_owned()), no_ignore: true, ..names(&glob) };
        let want = reason.map(|reason| n4(&glob, root, &reason));
        assert_eq!(nothing(&place, query), want, "{glob} under {root}");
    }
    let query = GlobQuery { hidden: true, no_ignore: true, ..names(".hid/zz") };
    assert_eq!(nothing(&place, query), None);
}

#[test]
fn each_glob_of_a_list_has_its_sentence() {
    let place = tree_t();
    let query = GrepQuery { globs: globs(&["src/*.rs", "!*.md", "*.zz", ".env", "!.x"]), ..lines("needle") };
    let sentences = [n4("src/*.rs", ".", "there is no directory src"), n4(".env", ".", &hidden())].join(" ");
    assert_eq!(place.grep(query).notice, Some(sentences));
    // A root that is one file is searched whatever the globs say.
    let query = GrepQuery { root: Some("a.ts".to_owned()), globs: globs(&["src/*.rs"]), ..lines("zzz") };
    assert_eq!(place.grep(query).notice, None);
    // Something was found: nobody is told.
    let query = GrepQuery { globs: globs(&["src/*.rs", "*.ts"]), limit: Some(0), ..lines("needle") };
    let notice = place.grep(query).notice.unwrap();
    assert!(notice.starts_with("Showing 0 of ") && !notice.contains("cannot match"), "{notice}");
}

#[test]
fn what_gitignore_alone_left_out_is_said() {
    let said = |place: &Place, query: GlobQuery| nothing(place, query).is_some_and(|notice| notice == N5);
    let place = Place::new();
    place
        .write(".gitignore", "out/\n*.log\n.env\nnode_modules\n*.zip/\n")
        .write("out/deep/a.ts", "needle")
        .write("node_modules/b.js", "needle")
        .write(".env", "needle")
        .write("c.log", "needle")
        .write("d.zip/e.txt", "");
    assert!(said(&place, names("a.ts")) && said(&place, names("out/**")) && said(&place, names("c.log")));
    assert!(said(&place, names("e.txt")));
    // What another rule left out as well.
    assert!(!said(&place, names("b.js")) && !said(&place, names("*.zz")));
    assert!(!said(&place, names(".e*")));
    assert!(said(&place, GlobQuery { hidden: true, ..names(".e*") }));
    assert!(!said(&place, GlobQuery { no_ignore: true, ..names("z.ts") }));
    assert_eq!(place.grep(lines("needle")).notice.as_deref(), Some(N5));
    let query = GrepQuery { globs: globs(&["!out", "!*.log", "!*.zip"]), ..lines("needle") };
    assert_eq!(place.grep(query).notice, None);
    assert_eq!(place.grep(GrepQuery { no_ignore: true, ..lines("needle") }).matches.len(), 2);
    // Both: the glob that cannot match comes first.
    let query = GrepQuery { globs: globs(&["src/x", "*.log"]), ..lines("needle") };
    let want = format!("{} {N5}", n4("src/x", ".", "there is no directory src"));
    assert_eq!(place.grep(query).notice, Some(want));
}

#[test]
fn the_look_at_ignored_files_ends_after_ten_thousand_entries() {
    let place = Place::new();
    place.write("z/.gitignore", "*.o\n").write("z/x.o", "");
    // Ten directories of files, `z` and the rules in it come before the file that is ignored.
    let mut entries = 12;
    for dir in 0..10 {
        std::fs::create_dir(place.at(&format!("{dir}"))).unwrap();
    }
    while entries < 9_999 {
        std::fs::File::create(place.at(&format!("{}/{entries}", entries % 10))).unwrap();
        entries += 1;
    }
    assert_eq!(nothing(&place, names("*.o")).as_deref(), Some(N5));
    place.write("0/more", "");
    assert_eq!(nothing(&place, names("*.o")), None);
}

#[test]
fn the_literal_retry() {
    let place = Place::new();
    place.write("a", "x.y\n").write("b", "f(1)\nF(1)\n").write("c", "x+y f(1)").write("d", "a\0");
    let found = |query: GrepQuery| {
        let answer = place.grep(query);
        assert_eq!((answer.files_searched, answer.skipped_binary), (4, 1));
        (answer.matches.iter().map(|found| format!("{}:{}", found.file, found.line)).collect(), answer.notice)
    };
    let retried = |files: &[&str]| -> (Vec<String>, Option<String>) {
        (files.iter().map(|file| (*file).to_owned()).collect(), Some(N3.to_owned()))
    };
    assert_eq!(found(lines("f(1)")), retried(&["b:1", "c:1"]));
    assert_eq!(found(GrepQuery { ignore_case: true, ..lines("f(1)") }), retried(&["b:1", "b:2", "c:1"]));
    assert_eq!(found(GrepQuery { smart_case: true, ..lines("F(1)") }), retried(&["b:2"]));
    assert_eq!(found(lines("x+y f")), retried(&["c:1"]));
    // One match of the expression anywhere is enough.
    let answer = place.grep(lines("x.y"));
    assert_eq!((answer.matches.len(), answer.retried_as_literal), (2, false));
    // Neither finds anything, or there is nothing to retry.
    for query in [lines("q(1)"), lines("zzz"), GrepQuery { fixed_strings: true, ..lines("g(1)") }] {
        let answer = place.grep(query);
        assert_eq!((answer.retried_as_literal, answer.notice), (false, None));
    }
    // It is found, not merely shown.
    let answer = place.grep(GrepQuery { limit: Some(0), ..lines("x.y") });
    assert!(answer.truncated && !answer.retried_as_literal);
    let answer = place.grep(GrepQuery { limit: Some(1), files_with_matches: true, ..lines("f(1)") });
    assert_eq!((answer.files.as_slice(), answer.retried_as_literal), (&["b".to_owned()][..], true));
    let notice = format!("{N3} Showing 1 of 2 files; narrow the search or raise limit (at most 200).");
    assert_eq!(answer.notice, Some(notice));
    // In a root that is one file.
    let answer = place.grep(GrepQuery { root: Some("b".to_owned()), ..lines("f(1)") });
    assert_eq!((answer.matches.len(), answer.files_searched, answer.retried_as_literal), (1, 1, true));
}

#[test]
fn the_retry_has_a_ceiling_of_its_own() {
    let place = Place::new();
    let many = "f(1)\n".repeat(4_000);
    for name in ["a", "b", "c", "d", "e"] {
        place.write(name, &many);
    }
    let answer = place.grep_on(2, lines("f(1)"));
    assert_eq!((answer.matches.len(), answer.files_searched, answer.retried_as_literal), (200, 3, true));
    let notice = format!(
        "{N3} Showing 200 of at least 10000 matches; narrow the search or raise limit (at most 200)."
    );
    assert_eq!(answer.notice, Some(notice));
    // A match of the expression behind the literal's ceiling still takes its place.
    place.write("f", "f1\n");
    let answer = place.grep_on(2, lines("f(1)"));
    assert_eq!((answer.matches.len(), answer.files_searched, answer.retried_as_literal), (1, 6, false));
}

/// Bytes of context in an answer, as they are bounded.
fn context(answer: &GrepAnswer) -> u64 {
    let lines = answer.matches.iter().flat_map(|found| found.before.iter().chain(&found.after));
    lines.map(|line| line.text.len() as u64 + 32).sum()
}

#[test]
fn the_context_of_an_answer_is_bounded_and_it_is_said() {
    let place = Place::new();
    let line = format!("{}\n", "x".repeat(400));
    let text = format!("{}needle\n{}", line.repeat(500), line.repeat(500)).repeat(3);
    for name in ["a", "b", "c", "d", "e"] {
        place.write(name, &text);
    }
    let query = GrepQuery { context: Some(1000), ..lines("needle") };
    let answer = place.grep(query.clone());
    assert_eq!(answer.matches.len(), 15);
    assert!(context(&answer) <= MAX_CONTEXT_BYTES && context(&answer) + 432 > MAX_CONTEXT_BYTES);
    assert_eq!(
        answer.notice.as_deref(),
        Some("Context after the first 4 MiB of it was left out; ask for fewer lines of context.")
    );
    // What is shown is what comes first.
    let all = place.grep(GrepQuery { limit: Some(7), ..query.clone() });
    assert_eq!(answer.matches[..7], all.matches[..]);
    assert!(answer.matches[14].before.is_empty() && answer.matches[0].before.len() == 500);
    for threads in [2, 8] {
        assert_eq!(place.grep_on(threads, query.clone()), answer);
    }
    assert_eq!(place.grep(GrepQuery { context: Some(100), ..lines("needle") }).notice, None);
}

#[test]
fn rules_that_are_too_long_are_passed_over_and_it_is_said() {
    let place = Place::new();
    let long = format!("a\n{}", "#".repeat(usize::try_from(MAX_GITIGNORE_BYTES).unwrap()));
    place
        .write(".gitignore", "b\n")
        .write("d/.gitignore", &long)
        .write("d/a", "")
        .write("d/b", "")
        .write("b", "");
    let notice = "1 .gitignore files were not applied: with those above they are longer than 1 MiB.";
    let answer = place.glob(names("**"));
    assert_eq!((answer.paths.as_slice(), answer.notice.as_deref()), (&["d/a".to_owned()][..], Some(notice)));
    assert_eq!(place.grep(lines("x")).notice.as_deref(), Some(format!("{N5} {notice}").as_str()));
    assert_eq!(place.glob(GlobQuery { no_ignore: true, ..names("**") }).notice, None);
}
