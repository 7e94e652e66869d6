//! The glob grammar and its meaning: search contract 3.

use crate::support::{Place, assert_code, globs, lines, names, tree_t};
use flowcell_kernel::flows::canonical::utf16_cmp;
use flowcell_kernel::flows::error::Code;
use flowcell_search::{Glob, GlobList, GlobQuery, GrepQuery, MAX_GLOB_BYTES};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Random lists of globs.
const CASES: u32 = 200;

const REFUSED: &[(&str, usize, &str)] = &[
    ("   ", 0, "without a body"),
    ("!", 1, "without a body"),
    ("!  ", 1, "without a body"),
    ("{a,é}.ts", 3, "printable ASCII"),
    ("a\tb", 1, "printable ASCII"),
    ("a\\*", 1, "\\"),
    ("[ab]", 0, "["),
    ("ab]", 2, "]"),
    ("!a{b", 2, "{"),
    ("a}b", 1, "}"),
    ("x{a}", 1, "fewer than two"),
    ("{}", 0, "fewer than two"),
    ("{a,{b,c}}", 3, "inside braces"),
];

#[test]
fn refusals_name_the_offset() {
    for (glob, offset, construct) in REFUSED {
        let refusal = Glob::parse(glob).unwrap_err();
        assert_eq!(refusal.offset, *offset, "{glob}: {refusal}");
        assert!(refusal.construct.contains(construct), "{glob}: {refusal}");
        assert!(refusal.to_string().contains(&format!("at byte {offset};")));
        assert!(!refusal.way_out.is_empty());
    }
    let place = Place::new();
    for (glob, ..) in REFUSED {
        assert_code(place.try_glob(names(glob)), Code::InvalidPattern);
        let query = GrepQuery { globs: globs(&["*.rs", glob]), ..lines("x") };
        assert_code(place.try_grep(query), Code::InvalidPattern);
    }
    assert_code(place.try_glob(names("")), Code::InvalidInput);
    assert_code(place.try_grep(GrepQuery { globs: globs(&[""]), ..lines("x") }), Code::InvalidPattern);
}

#[test]
fn expansions_are_bounded() {
    Glob::parse(&"{a,b}".repeat(8)).unwrap();
    let refusal = Glob::parse(&"{a,b}".repeat(9)).unwrap_err();
    assert_eq!(refusal.offset, 40);
    assert!(refusal.construct.contains("256"));
    Glob::parse(&format!("{{{}}}", vec!["a"; 256].join(","))).unwrap();
    Glob::parse(&format!("{{{}}}", vec!["a"; 257].join(","))).unwrap_err();
}

#[test]
fn length_is_bounded_with_braces_written_out() {
    let long = "a".repeat(MAX_GLOB_BYTES);
    Glob::parse(&long).unwrap();
    let refused = |glob: String| Glob::parse(&glob).unwrap_err();
    assert!(refused(format!("{long}a")).construct.contains("262144"));
    assert!(refused(format!("{{{long},a}}")).construct.contains("262144"));
    assert!(refused(format!("{{{long}{long}")).construct.contains("262144"));
    let half = "a".repeat(MAX_GLOB_BYTES / 256 - 8);
    Glob::parse(&format!("{}{half}", "{a,b}".repeat(8))).unwrap();
    assert!(refused(format!("{}{half}a", "{a,b}".repeat(8))).offset > 40);
    assert_eq!(refused(format!("{half}{half}{}", "{a,b}".repeat(8))).offset, 2 * half.len() + 35);
    // All globs of a list count together, and a message does not repeat a glob that long.
    let half = "a".repeat(MAX_GLOB_BYTES / 2);
    GlobList::parse(&[&half, &half]).unwrap();
    GlobList::parse(&[&half, &half, &"a".to_owned()]).unwrap_err();
    let query = GrepQuery { globs: vec![half.clone(), half.clone(), "!é".to_owned()], ..lines("a") };
    assert!(assert_code(Place::new().try_grep(query), Code::InvalidPattern).message.contains("\"!é\""));
    let query = GrepQuery { globs: vec![half.clone(), half.clone(), half], ..lines("a") };
    let message = assert_code(Place::new().try_grep(query), Code::InvalidPattern).message;
    assert!(message.len() < 500 && message.contains("aaa...\""), "{}", message.len());
}

#[test]
fn one_glob_matches() {
    for (glob, path, want) in [
        ("a.ts", "a.ts", true),
        ("a.ts", "x/y/a.ts", true),
        ("a.ts", "a.tsx", false),
        ("a,b", "a,b", true),
        ("#a", "#a", true),
        ("*", ".hidden", true),
        ("?.ts", "é.ts", false),
        ("??.ts", "é.ts", true),
        ("*.ts", "x/y.ts", true),
        ("x/*.ts", "x/y.ts", true),
        ("x/*.ts", "x/z/y.ts", false),
        ("x/*.ts", "a/x/y.ts", false),
        ("/a", "a", true),
        ("/a", "x/a", false),
        ("./a", "a", true),
        ("./a", "x/a", false),
        ("/!b", "!b", true),
        ("./!b", "!b", true),
        ("**", "a/b/c", true),
        ("**/a", "a", true),
        ("**/a", "x/y/a", true),
        ("x/**/a", "x/a", true),
        ("x/**/a", "x/y/z/a", true),
        ("x/**/a", "xy/a", false),
        ("x/**", "x/a/b", true),
        ("x/**", "x", false),
        ("x/**/**", "x/a", true),
        ("a**b", "axxb", true),
        ("a**b", "a/b", false),
        ("x/a**b", "x/a/b", false),
        ("x/a**", "x/ab", true),
        ("***", "abc", true),
        ("a/./b", "a/b", true),
        ("a//b", "a/b", false),
        ("a/../b", "b", false),
        ("../a", "a", false),
        ("a/.", "a", false),
        ("a/", "a", false),
        ("/", "a", false),
        ("foo{,.txt}", "foo", true),
        ("foo{,.txt}", "x/foo.txt", true),
        ("{src/c,c}.ts", "deep/c.ts", true),
        ("{src/c,d}.ts", "deep/c.ts", false),
        ("{a,b}{1,2}", "b2", true),
        ("A.ts", "a.ts", false),
        ("*a*b*c*", "xxaxxbxxcxx", true),
        ("*a*b*c*d", "xxaxxbxxcxx", false),
        ("**/a/**/b", "x/a/y/a/z/b", true),
    ] {
        assert_eq!(Glob::parse(glob).unwrap().matches_file(path), want, "{glob} on {path}");
    }
    // Only the first mark is one.
    let glob = Glob::parse("!!b").unwrap();
    assert!(glob.is_exclusion() && glob.matches_file("!b") && !glob.matches_file("b"));
}

#[test]
fn the_last_match_decides() {
    let list = GlobList::parse(&["*.ts", "!*.test.ts", "a.test.ts"]).unwrap();
    assert!(list.includes_file("b.ts"));
    assert!(!list.includes_file("b.test.ts"));
    assert!(list.includes_file("x/a.test.ts"));
    assert!(!list.includes_file("a.rs"));
    let list = GlobList::parse(&["!*.rs"]).unwrap();
    assert!(list.includes_file("a.ts") && !list.includes_file("a.rs"));
    assert!(GlobList::parse::<&str>(&[]).unwrap().includes_file("a"));
}

#[test]
fn exclusions_prune_directories() {
    let place = Place::new();
    for path in ["m.js", "src/m.js", "src/sub/n.js", "src/a.ts", "vendor/v.js", "lib/vendor"] {
        place.write(path, "x");
    }
    let files = |list: &[&str]| {
        place.grep(GrepQuery { globs: globs(list), files_with_matches: true, ..lines("x") }).files
    };
    assert_eq!(files(&["!src", "*.js"]), ["m.js", "vendor/v.js"]);
    assert_eq!(files(&["!src/**", "*.js"]), ["m.js", "src/m.js", "vendor/v.js"]);
    assert_eq!(files(&["!src", "src", "*.js"]), ["m.js", "src/m.js", "src/sub/n.js", "vendor/v.js"]);
    assert_eq!(files(&["!vendor"]), ["m.js", "src/a.ts", "src/m.js", "src/sub/n.js"]);
    assert_eq!(files(&["!vendor/"]), ["lib/vendor", "m.js", "src/a.ts", "src/m.js", "src/sub/n.js"]);
    assert_eq!(files(&["vendor/"]), Vec::<String>::new());
    assert_eq!(files(&["src"]), Vec::<String>::new());
    assert_eq!(files(&["vendor"]), ["lib/vendor"]);
    assert_eq!(files(&["!**"]), Vec::<String>::new());
    assert_eq!(place.paths("!*.js"), ["lib/vendor", "src/a.ts"]);
}

#[test]
fn rows_of_the_contract() {
    let place = tree_t();
    let all = [
        "a-b/x.ts",
        "a.ts",
        "bin.dat",
        "keep.log",
        "mod.py",
        "sub/a.log",
        "sub/deep/b.ts",
        "worktrees",
        "é.ts",
    ];
    let answer = place.glob(names("**"));
    assert_eq!(
        (answer.paths.as_slice(), answer.total, answer.truncated),
        (&all.map(String::from)[..], 9, false)
    );
    assert_eq!(answer.notice, None);
    assert_eq!(place.paths("*.ts"), ["a-b/x.ts", "a.ts", "sub/deep/b.ts", "é.ts"]);
    assert_eq!(place.paths("?.ts"), ["a-b/x.ts", "a.ts", "sub/deep/b.ts"]);
    let answer = place.glob(GlobQuery { no_ignore: true, ..names("b.ts") });
    assert_eq!(answer.paths, ["sub/b.ts", "sub/deep/b.ts"]);
    assert_eq!(place.paths("*.log"), ["keep.log", "sub/a.log"]);
    assert_eq!(place.paths("build/*.ts"), Vec::<String>::new());
    assert_eq!(place.paths(".env"), Vec::<String>::new());
    let answer = place.glob(GlobQuery { hidden: true, no_ignore: true, ..names("node_modules/**") });
    assert_eq!((answer.total, answer.paths.len()), (0, 0));
    let answer = place.glob(GlobQuery { root: Some("node_modules".to_owned()), ..names("**") });
    assert_eq!(answer.paths, ["node_modules/p/i.ts"]);
    assert_eq!(place.paths("src/*.rs"), Vec::<String>::new());
    assert_eq!(place.paths("a.ts "), ["a.ts"]);
    assert_code(place.try_glob(names("{a,é}.ts")), Code::InvalidPattern);
    let answer = place.glob(GlobQuery { limit: Some(0), ..names("**") });
    assert_eq!((answer.paths.len(), answer.total, answer.truncated), (0, 9, true));
    let notice = "Showing 0 of 9 paths; narrow the search or raise limit (at most 1000).";
    assert_eq!(answer.notice.as_deref(), Some(notice));
}

#[test]
fn the_limit_is_capped_and_the_total_exact() {
    let place = Place::new();
    for number in 0..1005 {
        place.write(&format!("{number:04}"), "");
    }
    let answer = place.glob(GlobQuery { limit: Some(5000), ..names("**") });
    assert_eq!((answer.paths.len(), answer.total, answer.truncated), (1000, 1005, true));
    let notice = "Showing 1000 of 1005 paths; narrow the search or raise limit (at most 1000).";
    assert_eq!(answer.notice.as_deref(), Some(notice));
    let answer = place.glob(GlobQuery { limit: Some(1005), ..names("0*") });
    assert_eq!(
        (answer.paths.len(), answer.total, answer.truncated, answer.notice),
        (1000, 1000, false, None)
    );
}

/// The alternatives of a glob's body, its braces written out.
fn plain_expansions(body: &str) -> Vec<String> {
    let Some(open) = body.find('{') else { return vec![body.to_owned()] };
    let close = open + body[open..].find('}').unwrap();
    let tails = plain_expansions(&body[close + 1..]);
    let heads = body[open + 1..close].split(',').map(|alternative| format!("{}{alternative}", &body[..open]));
    heads.flat_map(|head| tails.iter().map(move |tail| format!("{head}{tail}"))).collect()
}

fn plain_name(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, _) => name.is_empty(),
        (Some((b'*', rest)), None) => plain_name(rest, name),
        (Some((b'*', rest)), Some((_, tail))) => plain_name(rest, name) || plain_name(glob, tail),
        (Some((b'?', rest)), Some((_, tail))) => plain_name(rest, tail),
        (Some((byte, rest)), Some((own, tail))) => byte == own && plain_name(rest, tail),
        (Some(_), None) => false,
    }
}

fn plain_path(glob: &[&str], path: &[&str]) -> bool {
    match (glob.split_first(), path.split_first()) {
        (None, _) => path.is_empty(),
        (Some((&"**", [])), _) => !path.is_empty(),
        (Some((&"**", rest)), None) => plain_path(rest, path),
        (Some((&"**", rest)), Some((_, tail))) => plain_path(rest, path) || plain_path(glob, tail),
        (Some((name, rest)), Some((own, tail))) => {
            plain_name(name.as_bytes(), own.as_bytes()) && plain_path(rest, tail)
        }
        (Some(_), None) => false,
    }
}

/// Whether a glob, its mark aside, matches: search contract 3.1 and 3.2 with no thought of cost.
fn plain_match(glob: &str, path: &str, is_dir: bool) -> bool {
    plain_expansions(glob.strip_prefix('!').unwrap_or(glob)).iter().any(|body| {
        let mut body = body.trim_end_matches(' ').to_owned();
        while body.contains("/./") {
            body = body.replacen("/./", "/", 1);
        }
        if let Some(rest) = body.strip_prefix("./") {
            body = format!("/{rest}");
        }
        let body = match body.strip_suffix('/') {
            Some(body) if is_dir => body,
            Some(_) => return false,
            None => &body,
        };
        let path: Vec<&str> = path.split('/').collect();
        match body {
            "" => false,
            name if !name.contains('/') => plain_name(name.as_bytes(), path[path.len() - 1].as_bytes()),
            glob => plain_path(&glob.strip_prefix('/').unwrap_or(glob).split('/').collect::<Vec<_>>(), &path),
        }
    })
}

#[test]
fn lists_agree_with_a_plain_reading() {
    let place = Place::new();
    let mut files = Vec::new();
    for top in ["a", "ab", "!a", "*", "é"] {
        for middle in ["a", "b/a", "..a/b"] {
            for name in ["a", "b", "a.b", "#a", "a b", "**"] {
                files.push(format!("{top}/{middle}/d/{name}"));
            }
            files.push(format!("{top}/{middle}/x"));
        }
        files.push(format!("{top}/f"));
    }
    files.extend(["b".to_owned(), "a.b".to_owned(), "A".to_owned()]);
    for file in &files {
        place.write(file, "x");
    }
    files.sort_by(|left, right| utf16_cmp(left, right));
    let piece = prop::sample::select(vec![
        "a", "b", "d", "x", "*", "**", "***", "?", "??", "a*", "*b", "/", "/", "/", "{a,b}", "{a,}",
        "{a/b,b}", "{*,a b}", "{a ,d}", ".", "./", "..", "!", "a.b", " ", "#", "A", ",",
    ]);
    let glob = (prop_oneof![2 => Just(""), 1 => Just("!")], prop::collection::vec(piece, 1..7))
        .prop_map(|(mark, pieces)| format!("{mark}{}", pieces.concat()))
        .prop_filter("outside the grammar", |glob| Glob::parse(glob).is_ok());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(glob, 1..4), |globs| {
            let is_exclusion = |glob: &String| glob.starts_with('!');
            let last = |path: &str, is_dir| globs.iter().rev().find(|glob| plain_match(glob, path, is_dir));
            let none = globs.iter().all(is_exclusion);
            let want: Vec<&String> = files
                .iter()
                .filter(|file| {
                    let pruned = file
                        .match_indices('/')
                        .any(|(end, _)| last(&file[..end], true).is_some_and(is_exclusion));
                    !pruned && last(file, false).map_or(none, |glob| !is_exclusion(glob))
                })
                .collect();
            let query =
                GrepQuery { globs: globs.clone(), files_with_matches: true, hidden: true, ..lines("") };
            let got = place.grep(query).files;
            prop_assert_eq!(got.iter().collect::<Vec<_>>(), want, "{:?}", globs);
            Ok(())
        })
        .unwrap();
}
