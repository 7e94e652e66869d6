//! `.gitignore`: search contract 4.1 and invariants 11 and 12.

use crate::support::{Place, lines, names, volume};
use flowcell_kernel::flows::canonical::utf16_cmp;
use flowcell_search::{GlobQuery, GrepQuery};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Trees that are compared with git.
const GIT_CASES: u32 = 100;
const FULL_GIT_CASES: u32 = 2_000;

#[test]
fn deeper_files_beat_shallower_ones() {
    let place = Place::new();
    place
        .write(".gitignore", "*.log\nout/\n!/keep.log\n")
        .write("sub/.gitignore", "!a.log\n/b\n")
        .write("sub/deep/.gitignore", "a.log\n")
        .write("out/.gitignore", "!*\n");
    for path in
        ["keep.log", "x.log", "sub/a.log", "sub/b", "sub/c.log", "sub/deep/a.log", "sub/deep/b", "out/f"]
    {
        place.write(path, "");
    }
    // Nothing below an excluded directory comes back, and a nested `.git` is no boundary.
    place.write("sub/deep/.git/HEAD", "");
    assert_eq!(place.paths("**"), ["keep.log", "sub/a.log", "sub/deep/b"]);
    let root = GlobQuery { root: Some("out".to_owned()), ..names("**") };
    assert_eq!(place.glob(root).paths, ["out/f"]);
    let query = GlobQuery { no_ignore: true, ..names("**") };
    assert_eq!(place.glob(query).total, 8);
}

#[test]
fn only_regular_files_are_rules() {
    let place = Place::new();
    place.write("real", "*.x\n").write("a/f.x", "").write("b/.gitignore/f", "").write("b/g.x", "");
    symlink("../real", place.at("a/.gitignore")).unwrap();
    assert_eq!(place.paths("*.x"), ["a/f.x", "b/g.x"]);
}

#[test]
fn a_file_that_is_no_list_of_rules_for_its_size_is_not_read() {
    let place = Place::new();
    let mut rules = b"*.log\n".to_vec();
    rules.resize(1024 * 1024, b'\n');
    place.write("a/x.log", "").write("a/.gitignore", &rules);
    rules.push(b'\n');
    place.write("b/x.log", "").write("b/.gitignore", &rules);
    assert_eq!(place.paths("**"), ["b/x.log"]);
}

#[test]
fn noise_changes_nothing() {
    let place = Place::new();
    place.write("p/w/a.txt", "needle").write("p/w/b.log", "needle").write("p/w/.gitignore", "*.log\n");
    let ask = || {
        let query = GlobQuery { root: Some("p/w".to_owned()), ..names("**") };
        let grep = GrepQuery { root: Some("p/w".to_owned()), ..lines("needle") };
        (place.glob(query), place.grep(grep))
    };
    let clean = ask();
    assert_eq!(clean.0.paths, ["p/w/a.txt"]);
    for noise in ["p/.gitignore", ".gitignore", "p/.ignore", "p/w/.ignore", "p/w/.rgignore", "p/w/.hgignore"]
    {
        place.write(noise, "*\n!b.log\n");
    }
    place
        .write("p/w/.git/info/exclude", "*\n")
        .write("p/w/.git/config", "[core]\nexcludesFile = ../.gitignore\n");
    assert_eq!(ask(), clean);
}

fn git(root: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", root)
        .env("XDG_CONFIG_HOME", root)
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// What git lists; `None` without git.
fn oracle(root: &Path) -> Option<Vec<String>> {
    let listed = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut paths: Vec<String> = listed
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| String::from_utf8(path.to_vec()).unwrap())
        .collect();
    paths.sort_by(|left, right| utf16_cmp(left, right));
    Some(paths)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{1,2}",
        2 => "[ab]\\.[co]",
        1 => Just("a b".to_owned()),
        1 => Just("a ".to_owned()),
        1 => Just("{a,b}".to_owned()),
        1 => Just("#a".to_owned()),
        1 => Just("!a".to_owned()),
        1 => Just("[a]".to_owned()),
        1 => Just("é".to_owned()),
        1 => Just(".a".to_owned()),
        1 => Just("a\\b".to_owned()),
    ]
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => name(),
        2 => Just("*".to_owned()),
        2 => Just("**".to_owned()),
        2 => Just("*.o".to_owned()),
        1 => Just("a*".to_owned()),
        1 => Just("?".to_owned()),
        1 => Just("??".to_owned()),
        1 => Just("[ab]".to_owned()),
        1 => Just("[!a]*".to_owned()),
        1 => Just("[^b]".to_owned()),
        1 => Just("[a-b]?".to_owned()),
        1 => Just("[[:alpha:]]".to_owned()),
        1 => Just("[[:punct:]]*".to_owned()),
        1 => Just("[a".to_owned()),
        1 => Just("[]a]".to_owned()),
        1 => Just("\\*".to_owned()),
        1 => Just("\\a".to_owned()),
        1 => Just("a\\".to_owned()),
        1 => Just("a\\ ".to_owned()),
        1 => Just("*b*".to_owned()),
    ]
}

fn rule() -> impl Strategy<Value = String> {
    let path = prop::collection::vec(segment(), 1..4);
    let (mark, anchor, end) = (
        prop_oneof![3 => Just(""), 1 => Just("!"), 1 => Just("\\!"), 1 => Just("\\#")],
        prop_oneof![3 => Just(""), 1 => Just("/")],
        prop_oneof![5 => Just(""), 2 => Just("/"), 1 => Just("  "), 1 => Just("\r"), 1 => Just("\t"), 1 => Just("/ ")],
    );
    let line = (mark, anchor, path, end)
        .prop_map(|(mark, anchor, path, end)| format!("{mark}{anchor}{}{end}", path.join("/")));
    prop_oneof![12 => line, 1 => Just(String::new()), 1 => Just("# x".to_owned()), 1 => Just("/".to_owned()), 1 => Just("!".to_owned())]
}

fn rules() -> impl Strategy<Value = String> {
    (prop::collection::vec(rule(), 1..6), any::<bool>(), any::<bool>()).prop_map(|(lines, end, mark)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{}{}", lines.join("\n"), if end { "\n" } else { "" })
    })
}

#[test]
fn the_walk_agrees_with_git() {
    if Command::new("git").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "git is missing");
        println!("skipped: gitignore::the_walk_agrees_with_git: git is missing");
        return;
    }
    let files = prop::collection::vec(prop::collection::vec(name(), 1..4), 4..20);
    let ignores = prop::collection::vec((prop::collection::vec(name(), 0..2), rules()), 0..3);
    let cases = volume(GIT_CASES, FULL_GIT_CASES);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (files_seen, left_out) = (Cell::new(0), Cell::new(0));
    runner
        .run(&(files, rules(), ignores), |(files, top, ignores)| {
            let place = Place::new();
            git(place.path(), &["init", "-q"]).unwrap();
            for file in files {
                put(place.path(), &file.join("/"), "");
            }
            for (mut dir, rules) in ignores {
                dir.push(".gitignore".to_owned());
                put(place.path(), &dir.join("/"), &rules);
            }
            put(place.path(), ".gitignore", &top);
            let ours = place.glob(GlobQuery { hidden: true, ..names("**") }).paths;
            let all = place.glob(GlobQuery { hidden: true, no_ignore: true, ..names("**") }).total;
            files_seen.set(files_seen.get() + all);
            left_out.set(left_out.get() + all - ours.len() as u64);
            prop_assert_eq!(Some(ours), oracle(place.path()), "{:?}", top);
            Ok(())
        })
        .unwrap();
    let (files, ignored) = (files_seen.get(), left_out.get());
    println!(
        "measured: .gitignore against git: {cases} trees, {files} files, {ignored} ignored, 0 differences"
    );
    assert!(ignored * 10 > files && ignored < files);
}

/// Writes a file unless a directory or a file is in the way.
fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
        std::fs::write(path, content).unwrap();
    }
}
