//! Search contract 10 over the trees and calls of the kit, one test for each invariant; 10 is in `properties`, 11 in
//! `gitignore`.

use crate::support::{block_on, volume};
use flowcell_kernel::HandlerError;
use flowcell_kernel::flows::canonical::utf16_cmp;
use flowcell_search::conformance::{Call, Plot, Random, SearchConformance, Tree};
use flowcell_search::{
    COUNT_CEILING, ContextLine, Engine, Glob, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery, Search,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const CASES: u64 = 60;
const FULL_CASES: u64 = 2_000;

/// A planted tree and what asks it.
struct Asked {
    plot: Plot,
    tree: Tree,
    runtime: Runtime,
}

impl Asked {
    fn glob(&self, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        self.runtime.block_on(Engine::default().glob(&self.plot.cx, query))
    }

    fn grep(&self, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        self.runtime.block_on(Engine::default().grep(&self.plot.cx, query))
    }

    /// All paths, however many.
    fn paths(&self, query: GlobQuery) -> Option<BTreeSet<String>> {
        let answer = self.glob(query).ok()?;
        assert_eq!(answer.paths.len() as u64, answer.total);
        Some(answer.paths.into_iter().collect())
    }
}

/// Runs `test` on cases of one seed; it answers whether the case showed something.
fn each(seed: u64, name: &str, mut test: impl FnMut(&Asked, Call, &mut Random) -> bool) {
    let scratch = TempDir::new().unwrap();
    let (mut shown, cases) = (0, volume(CASES, FULL_CASES));
    for number in 0..cases {
        let (tree, call) = SearchConformance::case(seed, number);
        // Which entries may be read is not what these are about.
        let tree = tree.plain();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let plot = runtime.block_on(Plot::new(scratch.path(), &tree)).unwrap();
        let asked = Asked { plot, tree, runtime };
        shown += u64::from(test(&asked, call, &mut Random::new(seed ^ number)));
    }
    println!("measured: invariant {name}: {shown} of {cases} cases show it");
    assert!(shown * 4 >= cases, "{name}: {shown} of {cases}");
}

/// The calls of a kind; the other kind is turned into it.
fn glob_of(call: Call, random: &mut Random) -> GlobQuery {
    match call {
        Call::Glob(query) => GlobQuery { limit: None, ..query },
        Call::Grep(query) => GlobQuery {
            pattern: query
                .globs
                .into_iter()
                .next()
                .unwrap_or_else(|| ["*", "**", "*.ts", "b*"][random.below(4)].to_owned()),
            root: query.root,
            hidden: query.hidden,
            no_ignore: query.no_ignore,
            limit: None,
        },
    }
}

fn grep_of(call: Call, random: &mut Random) -> GrepQuery {
    match call {
        Call::Grep(query) => GrepQuery { limit: None, ..query },
        Call::Glob(query) => GrepQuery {
            pattern: ["needle", "e", "", "^.", "b$"][random.below(5)].to_owned(),
            root: query.root,
            globs: vec![query.pattern],
            hidden: query.hidden,
            no_ignore: query.no_ignore,
            context: random.chance(60).then(|| random.below(4) as u64),
            ..GrepQuery::default()
        },
    }
}

#[test]
fn invariant_1_any_number_of_threads() {
    let engines = [Engine::with_threads(1), Engine::with_threads(2), Engine::with_threads(8)];
    each(101, "1", |asked, call, _| {
        let mut texts = BTreeSet::new();
        for engine in engines.iter().chain(&engines) {
            let answer = asked.runtime.block_on(asked.plot.ask(engine, &call));
            texts.insert(format!("{answer:?}"));
        }
        assert_eq!(texts.len(), 1, "{call}\n{}{texts:?}", asked.tree);
        true
    });
}

fn ascends(paths: &[String]) -> bool {
    paths.windows(2).all(|pair| utf16_cmp(&pair[0], &pair[1]).is_lt())
}

/// Whether two files of the tree have one shown path: their names differ in bytes that are not UTF-8 alone.
fn has_twins(tree: &Tree) -> bool {
    let shown: BTreeSet<String> =
        tree.entries().keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    shown.len() < tree.entries().len()
}

#[test]
fn invariant_2_paths_ascend() {
    each(102, "2", |asked, call, random| {
        if has_twins(&asked.tree) {
            return false;
        }
        let names = GlobQuery { root: None, pattern: "**".to_owned(), hidden: true, ..GlobQuery::default() };
        let answer = asked.glob(names).unwrap();
        assert!(ascends(&answer.paths), "{:?}", answer.paths);
        let query = grep_of(call, random);
        let files = asked.grep(GrepQuery { files_with_matches: true, ..query.clone() });
        let Ok(answer) = asked.grep(GrepQuery { files_with_matches: false, ..query }) else { return false };
        assert!(ascends(&files.unwrap().files));
        let in_order = answer.matches.windows(2).all(|pair| {
            utf16_cmp(&pair[0].file, &pair[1].file).then(pair[0].line.cmp(&pair[1].line)).is_lt()
        });
        assert!(in_order, "{:?}", answer.matches);
        answer.matches.len() > 1
    });
}

#[test]
fn invariant_3_unions_and_complements() {
    each(103, "3", |asked, call, random| {
        let query = glob_of(call, random);
        let ask = |pattern: String| asked.paths(GlobQuery { pattern, ..query.clone() });
        let parts = ["a", "b", "*", "src", "", "a.ts", "**", "s/b", "?", "sub/"];
        let mut part = || parts[random.below(parts.len())];
        let (head, one, two, tail) = (part(), part(), part(), part());
        let both = ask(format!("{head}{{{one},{two}}}{tail}"));
        let (one, two) = (ask(format!("{head}{one}{tail}")), ask(format!("{head}{two}{tail}")));
        // An expansion alone may have no body; then it matches nothing.
        if let (Some(both), Some(one), Some(two)) = (&both, &one, &two) {
            assert_eq!(*both, one | two, "{head} {tail} {query:?}\n{}", asked.tree);
        }
        // A pattern that matches no directory prunes none.
        let Some(all) = ask("**".to_owned()) else { return false };
        let Ok(glob) = Glob::parse(query.pattern.trim_start_matches('!')) else { return false };
        let root = query.root.clone().unwrap_or_default();
        let directories = asked.tree.directories();
        let plain = directories.iter().filter_map(|path| std::str::from_utf8(path).ok());
        if !root.is_empty() || plain.clone().count() < directories.len() {
            return !all.is_empty();
        }
        if plain.filter(|path| !path.is_empty()).any(|path| glob.matches_file(path))
            || glob.text().contains('/')
        {
            return !all.is_empty();
        }
        let (Some(with), Some(without)) = (ask(glob.text().to_owned()), ask(format!("!{}", glob.text())))
        else {
            return false;
        };
        assert_eq!(&with | &without, all);
        assert!(with.is_disjoint(&without));
        true
    });
}

#[test]
fn invariant_4_narrower_and_wider() {
    each(104, "4", |asked, call, random| {
        let query = glob_of(call, random);
        let ask = |query: GlobQuery| asked.paths(query);
        let Some(some) = ask(query.clone()) else { return false };
        let all = ask(GlobQuery { pattern: "**".to_owned(), ..query.clone() }).unwrap();
        assert!(some.is_subset(&all));
        assert!(some.is_subset(&ask(GlobQuery { hidden: true, ..query.clone() }).unwrap()));
        assert!(some.is_subset(&ask(GlobQuery { no_ignore: true, ..query.clone() }).unwrap()));
        let exclusion = ["!a", "!*.ts", "!src", "!**/b", "!sub/**"][random.below(5)].to_owned();
        let files = |globs: Vec<String>| {
            let query = GrepQuery {
                root: query.root.clone(),
                globs,
                files_with_matches: true,
                hidden: query.hidden,
                no_ignore: query.no_ignore,
                ..GrepQuery::default()
            };
            asked.grep(query).ok().map(|answer| answer.files.into_iter().collect::<BTreeSet<_>>())
        };
        let wide = files(vec![query.pattern.clone()]);
        let narrow = files(vec![query.pattern.clone(), exclusion]);
        if let (Some(wide), Some(narrow)) = (wide, narrow) {
            assert!(narrow.is_subset(&wide));
        }
        !some.is_empty()
    });
}

#[test]
fn invariant_5_files_and_counts() {
    each(105, "5", |asked, call, random| {
        let query = GrepQuery { files_with_matches: false, ..grep_of(call, random) };
        let Ok(answer) = asked.grep(query.clone()) else { return false };
        let listed = asked.grep(GrepQuery { files_with_matches: true, ..query.clone() }).unwrap();
        if answer.truncated || has_twins(&asked.tree) {
            return false;
        }
        let mut distinct: Vec<String> = answer.matches.iter().map(|found| found.file.clone()).collect();
        distinct.dedup();
        assert_eq!(listed.files, distinct);
        assert_eq!(
            (listed.files_searched, listed.skipped_binary),
            (answer.files_searched, answer.skipped_binary)
        );
        assert_eq!(listed.retried_as_literal, answer.retried_as_literal);
        // One glob alone is what `glob` takes.
        let pattern = match query.globs.as_slice() {
            [] => "**".to_owned(),
            [one] => one.clone(),
            _ => return !distinct.is_empty(),
        };
        let names = GlobQuery {
            pattern,
            root: query.root,
            hidden: query.hidden,
            no_ignore: query.no_ignore,
            limit: None,
        };
        assert_eq!(asked.glob(names).unwrap().total, answer.files_searched);
        !distinct.is_empty()
    });
}

#[test]
fn invariant_6_literals_are_escaped_expressions() {
    each(106, "6", |asked, call, random| {
        let texts = [
            "needle",
            "a.b",
            "foo(bar)",
            "[a-z]+",
            "$x^y",
            "a|b",
            "\\needle\\",
            "//",
            "a{3}",
            "a b",
            "",
            "k",
            "S",
        ];
        let pattern = texts[random.below(texts.len())].to_owned();
        let special = |c: &char| "^$\\.*+?()[]{}|/".contains(*c);
        let escaped: String =
            pattern.chars().flat_map(|c| special(&c).then_some('\\').into_iter().chain([c])).collect();
        let query = grep_of(call, random);
        // Case is judged by the letters, which are the same in both.
        let literal = asked.grep(GrepQuery { pattern, fixed_strings: true, ..query.clone() });
        let regex = asked.grep(GrepQuery { pattern: escaped, fixed_strings: false, ..query });
        match (literal, regex) {
            (Ok(literal), Ok(regex)) => {
                assert_eq!(literal, regex);
                literal.files_searched > 0
            }
            (Err(left), Err(right)) => {
                assert_eq!(format!("{left:?}"), format!("{right:?}"));
                false
            }
            (left, right) => panic!("{left:?} {right:?}"),
        }
    });
}

#[test]
fn invariant_7_context_once_and_near() {
    each(107, "7", |asked, call, random| {
        let (before, after) = (random.below(5) as u64, random.below(5) as u64);
        let query = GrepQuery {
            context: None,
            before_context: Some(before),
            after_context: Some(after),
            files_with_matches: false,
            ..grep_of(call, random)
        };
        let Ok(answer) = asked.grep(query) else { return false };
        if has_twins(&asked.tree) {
            return false;
        }
        let mut seen = BTreeMap::new();
        let mut lines = 0;
        for found in &answer.matches {
            assert!(seen.insert((&found.file, found.line), true).is_none(), "{found:?}");
            let numbers = |lines: &[ContextLine]| lines.iter().map(|line| line.line).collect::<Vec<_>>();
            for line in numbers(&found.before) {
                assert!(line < found.line && found.line - line <= before, "{found:?}");
            }
            for line in numbers(&found.after) {
                assert!(line > found.line && line - found.line <= after, "{found:?}");
            }
        }
        for found in &answer.matches {
            let both = [&found.before, &found.after];
            assert!(both.iter().all(|lines| lines.windows(2).all(|pair| pair[0].line < pair[1].line)));
            for line in both.into_iter().flatten() {
                assert!(seen.insert((&found.file, line.line), false).is_none(), "{found:?}");
                lines += 1;
            }
        }
        lines > 0
    });
}

#[test]
fn invariant_8_limits_cut_and_change_nothing_else() {
    each(108, "8", |asked, call, random| {
        let query = GrepQuery { files_with_matches: false, ..grep_of(call, random) };
        let Ok(whole) = asked.grep(query.clone()) else { return false };
        let limit = random.below(whole.matches.len() + 2);
        for limit in [limit, limit + 1] {
            let cut = asked.grep(GrepQuery { limit: Some(limit as u64), ..query.clone() }).unwrap();
            assert_eq!(cut.matches, whole.matches[..whole.matches.len().min(limit)]);
            assert_eq!(cut.truncated, whole.truncated || limit < whole.matches.len());
            assert_eq!(
                (cut.files_searched, cut.skipped_binary),
                (whole.files_searched, whole.skipped_binary)
            );
        }
        !whole.matches.is_empty()
    });
}

#[test]
fn invariant_9_symbols_hold_their_lines() {
    let mut symbols = 0_u64;
    each(109, "9", |asked, call, random| {
        let query = GrepQuery { files_with_matches: false, no_symbols: false, ..grep_of(call, random) };
        let Ok(answer) =
            asked.grep(GrepQuery { pattern: ["", "a", "e"][random.below(3)].to_owned(), ..query })
        else {
            return false;
        };
        for found in &answer.matches {
            let Some(symbol) = &found.symbol else { continue };
            let at = asked.plot.workspace().join(&found.file);
            let bytes = std::fs::read(at).unwrap();
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
            assert!(
                symbol.start_line <= found.line && found.line <= symbol.end_line && symbol.end_line <= lines
            );
            symbols += 1;
        }
        !answer.matches.is_empty()
    });
    println!("measured: invariant 9: {symbols} symbols");
    assert!(symbols > 0);
}

/// Places that git and ripgrep read and a search does not.
fn noise(asked: &Asked) {
    let workspace = asked.plot.workspace();
    let put = |path: &std::path::Path, text: &str| {
        if std::fs::symlink_metadata(path).is_err() {
            std::fs::write(path, text).unwrap();
        }
    };
    let above = workspace.parent().unwrap();
    for name in [".gitignore", ".ignore", ".rgignore"] {
        put(&above.join(name), "*\n!b\n/ws/a\n");
    }
    std::fs::create_dir_all(above.join(".git/info")).unwrap();
    std::fs::write(above.join(".git/info/exclude"), "*\n").unwrap();
    for directory in asked.tree.directories() {
        use std::os::unix::ffi::OsStrExt;
        let at = workspace.join(std::ffi::OsStr::from_bytes(&directory));
        for name in [".ignore", ".rgignore", ".hgignore", ".fdignore"] {
            put(&at.join(name), "*\n!*.log\n!.env\n");
        }
    }
    // A repository of the tree's own may be the root of the call, which searches it.
    if asked.tree.at(b".git").is_none() {
        std::fs::create_dir_all(workspace.join(".git/info")).unwrap();
        put(&workspace.join(".git/info/exclude"), "*\n!b\n");
        put(&workspace.join(".git/config"), "[core]\n\texcludesFile = ../.ignore\n");
    }
}

/// What all cases answer, in one number.
fn answers(noisy: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    each(112, if noisy { "12 with noise" } else { "12" }, |asked, call, random| {
        if noisy {
            noise(asked);
        }
        // Hidden files would show the noise itself.
        let grep = GrepQuery { hidden: false, ..grep_of(call.clone(), random) };
        let glob = GlobQuery { hidden: false, ..glob_of(call, random) };
        // What lies below a hidden root, or is one, is not about ignore files of others.
        let shown = |root: &Option<String>| root.as_ref().is_none_or(|root| !root.contains("ignore"));
        if !shown(&grep.root) || !shown(&glob.root) {
            return false;
        }
        let ours = [Call::Grep(grep), Call::Glob(glob)].map(|call| {
            let answer = asked.runtime.block_on(asked.plot.ask(&Engine::default(), &call));
            (
                format!("{answer:?}").replace(&asked.plot.workspace().display().to_string(), "/ws"),
                answer.found(),
            )
        });
        ours.iter().for_each(|(text, _)| text.hash(&mut hasher));
        ours.iter().any(|(_, found)| *found)
    });
    hasher.finish()
}

const NOISY: &str = "FLOWCELL_NOISY";

#[test]
fn invariant_12_noise_changes_nothing() {
    if std::env::var_os(NOISY).is_some() {
        println!("answers: {}", answers(true));
        return;
    }
    let home = TempDir::new().unwrap();
    let file = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let excludes = home.path().join("excludes");
    file("excludes", "*\n");
    file(".gitconfig", &format!("[core]\n\texcludesFile = {}\n", excludes.display()));
    file(".config/git/ignore", "*\n");
    file(".config/git/config", &format!("[core]\n\texcludesFile = {}\n", excludes.display()));
    file("ripgreprc", "--glob=!*\n");
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "properties_kit::invariant_12_noise_changes_nothing", "--nocapture"])
        .env(NOISY, "1")
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path().join(".config"))
        .env("GIT_CONFIG_GLOBAL", home.path().join(".gitconfig"))
        .env("RIPGREP_CONFIG_PATH", home.path().join("ripgreprc"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let want = format!("answers: {}", answers(false));
    assert!(text.lines().any(|line| line.ends_with(&want)), "{want}\n{text}");
}

#[test]
fn counting_stops_in_the_kit_too() {
    let scratch = TempDir::new().unwrap();
    let mut tree = Tree::new();
    for name in ["c1", "c2", "c3", "c4"] {
        tree.file(name, b"needle\n".repeat(4_000));
    }
    let plot = block_on(Plot::new(scratch.path(), &tree)).unwrap();
    let query = GrepQuery { pattern: "needle".to_owned(), limit: Some(1), ..GrepQuery::default() };
    let answer = block_on(Engine::default().grep(&plot.cx, query)).unwrap();
    assert_eq!(answer.files_searched, 3);
    assert!(answer.notice.unwrap().contains(&format!("at least {COUNT_CEILING} matches")));
}
