//! `rename-symbol` on real sources: the crate still passes `cargo check`, and only that name changed.

use std::fs;
use std::path::Path;

use flowcell_tests::{Exec, Package, cargo, files, repository, target_folder, volume};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::json;
use tempfile::TempDir;

use super::{CALLS, cell, parameters, unpacked};

/// Renames in a package and compares its names before and after: nothing but that name changed, everywhere.
fn renamed(package: &str, from: &str, to: &str) -> TempDir {
    let workspace = unpacked(package, &["src"]);
    let before = files(workspace.path(), "rs").unwrap();
    parameters(workspace.path(), &json!({"from": from, "to": to}));
    let exec =
        Exec::new(workspace.path()).unwrap().limit("calls", CALLS).allow_writing(workspace.path()).unwrap();
    let outcome = exec.cell(&cell("rename-symbol.js")).unwrap();
    let output = outcome.output().unwrap();

    let after = files(workspace.path(), "rs").unwrap();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let mut changed = Vec::new();
    let mut occurrences = 0;
    for (path, text) in &before {
        if !text.contains(from) {
            assert_eq!(&after[path], text, "{path}");
            continue;
        }
        let was = names(text);
        let expected: Vec<String> =
            was.iter().map(|name| if name == from { to.to_owned() } else { name.clone() }).collect();
        assert!(names(&after[path]) == expected, "the names of {path} differ by more than {from}");
        let found = was.iter().filter(|name| *name == from).count();
        occurrences += found;
        if found > 0 {
            changed.push((path.as_str(), found));
        }
        assert_eq!(&after[path] == text, found == 0, "{path}");
    }
    assert!(occurrences > 20, "{from} is used {occurrences} times");
    assert_eq!(output["occurrences"], json!(occurrences));
    let reported: Vec<(&str, usize)> = output["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (file["file"].as_str().unwrap(), usize::try_from(file["occurrences"].as_u64().unwrap()).unwrap())
        })
        .collect();
    assert_eq!(reported, changed);
    workspace
}

/// Every identifier of a source text, in order, inside macros too.
fn names(text: &str) -> Vec<String> {
    fn collect(stream: TokenStream, names: &mut Vec<String>) {
        for token in stream {
            match token {
                TokenTree::Ident(name) => names.push(name.to_string()),
                TokenTree::Group(group) => collect(group.stream(), names),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    // Documentation comments lex as attributes that hold a literal, so they add no name but `doc` on both sides.
    collect(text.parse().unwrap(), &mut found);
    found
}

/// `cargo check` of a crate's folder, as a dependency of an empty crate: so nothing but what its features need is
/// looked for, and this workspace's `Cargo.lock` holds all of it.
fn check(package: &str, source: &Path, features: &[String]) {
    let outer = tempfile::tempdir().unwrap();
    let manifest = format!(
        "[package]\nname = \"renamed\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         {package} = {{ path = {:?}, default-features = false, features = {features:?} }}\n",
        source.canonicalize().unwrap()
    );
    fs::write(outer.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(outer.path().join("src")).unwrap();
    fs::write(outer.path().join("src/lib.rs"), "").unwrap();
    fs::copy(repository().join("Cargo.lock"), outer.path().join("Cargo.lock")).unwrap();
    // What the crate stands on is built once and kept.
    let target = target_folder().unwrap().join("tmp/renamed");
    let output = cargo(outer.path())
        .args(["check", "--offline", "--quiet", "--package", package])
        .env("CARGO_TARGET_DIR", target)
        // A crate of somebody else's: its warnings are not ours.
        .env("RUSTFLAGS", "--cap-lints warn")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Renames, and in a full run checks with the features that this workspace switches on.
fn rename(package: &str, from: &str, to: &str) {
    let workspace = renamed(package, from, to);
    if volume(false, true) {
        check(package, workspace.path(), &Package::named(package).unwrap().features);
    }
}

#[test]
fn renamed_tokio_still_checks() {
    let workspace = renamed("tokio", "Notified", "WokenUp");
    // In CI the features that need next to no other crate; the sources and what is renamed are the same.
    let few = ["rt", "sync", "time"].map(str::to_owned).to_vec();
    check("tokio", workspace.path(), &volume(few, Package::named("tokio").unwrap().features));
}

/// Carriage returns, a byte order mark, a missing last line feed and two names in one line come out as they were.
#[test]
fn everything_around_the_name_stays_byte_for_byte() {
    let workspace = tempfile::tempdir().unwrap();
    let text = "\u{feff}struct Old;\r\n\r\nfn f(o: Old, ö: Vec<Old>) -> Older { /* Old */ \"Old\" }\r\ntype T = Old;";
    fs::write(workspace.path().join("a.rs"), text).unwrap();
    fs::write(workspace.path().join("b.rs"), "macro_rules! m { ($x:ident) => { Old::$x } }\n\n").unwrap();
    fs::write(workspace.path().join("c.txt"), "Old").unwrap();
    parameters(workspace.path(), &json!({"from": "Old", "to": "Renewed"}));
    let exec = Exec::new(workspace.path()).unwrap().allow_writing(workspace.path()).unwrap();
    let outcome = exec.cell(&cell("rename-symbol.js")).unwrap();
    assert_eq!(outcome.output().unwrap()["occurrences"], json!(5));
    let read = |name: &str| fs::read_to_string(workspace.path().join(name)).unwrap();
    assert_eq!(
        read("a.rs"),
        "\u{feff}struct Renewed;\r\n\r\nfn f(o: Renewed, ö: Vec<Renewed>) -> Older { /* Old */ \"Old\" }\r\ntype T = Renewed;"
    );
    assert_eq!(read("b.rs"), "macro_rules! m { ($x:ident) => { Renewed::$x } }\n\n");
    assert_eq!(read("c.txt"), "Old");
}

// The check of these two builds a C library first.

#[test]
fn rename_in_rusqlite_touches_nothing_else() {
    rename("rusqlite", "Statement", "PreparedText");
}

#[test]
fn rename_in_rquickjs_core_touches_nothing_else() {
    rename("rquickjs-core", "FromJs", "TakenFromJs");
}
