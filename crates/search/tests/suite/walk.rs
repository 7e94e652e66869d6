//! The walk: what is met, what is passed over, how paths are named and ordered (search contract 4).

use crate::support::{Place, assert_code, lines, names, tree_t};
use flowcell_kernel::flows::error::Code;
use flowcell_search::{GlobQuery, GrepQuery, SKIPPED_DIRECTORIES};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn all(root: &str) -> GlobQuery {
    GlobQuery { root: Some(root.to_owned()), hidden: true, no_ignore: true, ..names("**") }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
}

#[test]
fn order_is_that_of_whole_strings() {
    let place = Place::new();
    for path in ["a/x", "a.txt", "a-b/x", "a/y/z", "a", "b", "B", "\u{e000}", "\u{1f600}", "é"] {
        if path != "a" {
            place.write(path, "");
        }
    }
    let want = ["B", "a-b/x", "a.txt", "a/x", "a/y/z", "b", "é", "\u{1f600}", "\u{e000}"];
    assert_eq!(place.paths("**"), want);
}

#[test]
fn skipped_directories() {
    let place = Place::new();
    for name in SKIPPED_DIRECTORIES {
        place.write(&format!("{name}/f"), "needle").write(&format!("x/{name}"), "needle");
    }
    let found = place.glob(all(".")).paths;
    let mut want: Vec<String> = SKIPPED_DIRECTORIES.iter().map(|name| format!("x/{name}")).collect();
    want.sort();
    assert_eq!(found, want);
    for name in SKIPPED_DIRECTORIES {
        assert_eq!(place.glob(all(name)).paths, [format!("{name}/f")]);
    }
    assert_eq!(SKIPPED_DIRECTORIES.len(), 25);
}

#[test]
fn hidden_names() {
    let place = Place::new();
    place.write(".a", "").write(".d/b", "").write("c", "");
    assert_eq!(place.paths("**"), ["c"]);
    let answer = place.glob(GlobQuery { hidden: true, ..names("**") });
    assert_eq!(answer.paths, [".a", ".d/b", "c"]);
    assert_eq!(place.glob(GlobQuery { root: Some(".d".to_owned()), ..names("**") }).paths, [".d/b"]);
}

#[test]
fn links_and_special_files_are_passed_over() {
    let place = Place::new();
    place.write("d/f", "needle");
    symlink("f", place.at("d/link")).unwrap();
    symlink("..", place.at("d/up")).unwrap();
    symlink("nothing", place.at("dangling")).unwrap();
    symlink("self", place.at("self")).unwrap();
    symlink("/etc", place.at("outside")).unwrap();
    fifo(&place.at("pipe"));
    let socket = std::os::unix::net::UnixListener::bind(place.at("socket")).unwrap();
    assert_eq!(place.glob(all(".")).paths, ["d/f"]);
    let answer = place.grep(lines("needle"));
    assert_eq!((answer.matches.len(), answer.files_searched), (1, 1));
    drop(socket);
    for root in ["pipe", "socket"] {
        let error = assert_code(place.try_glob(all(root)), Code::CommandFailed);
        assert!(error.message.contains("neither a regular file nor a directory"), "{}", error.message);
        let query = GrepQuery { root: Some(root.to_owned()), ..lines("x") };
        assert_code(place.try_grep(query), Code::CommandFailed);
    }
    let error = assert_code(place.try_glob(all("dangling")), Code::NotFound);
    assert_eq!(error.path.as_deref(), Some("dangling"));
    let error = assert_code(place.try_glob(all("self")), Code::CommandFailed);
    assert!(error.message.contains("too many levels of symbolic links"), "{}", error.message);
    assert_code(place.try_glob(all("d/f/x")), Code::NotFound);
}

#[test]
fn a_link_as_root_keeps_its_name() {
    let place = Place::new();
    place.write("d/f", "needle");
    symlink("d", place.at("to-dir")).unwrap();
    symlink("d/f", place.at("to-file")).unwrap();
    assert_eq!(place.glob(all("to-dir")).paths, ["to-dir/f"]);
    assert_eq!(place.glob(all("./to-file")).paths, ["to-file"]);
    let query = GrepQuery { root: Some("to-file".to_owned()), ..lines("needle") };
    assert_eq!(place.found(query), ["to-file:1"]);
}

#[test]
fn paths_are_joined_as_text() {
    let place = Place::new();
    place.write("src/a.ts", "").write("lib/b", "");
    for (root, want) in [
        (".", vec!["lib/b", "src/a.ts"]),
        ("", vec!["lib/b", "src/a.ts"]),
        ("./", vec!["lib/b", "src/a.ts"]),
        ("src", vec!["src/a.ts"]),
        ("./src/", vec!["src/a.ts"]),
        ("lib/../src//.", vec!["src/a.ts"]),
    ] {
        assert_eq!(place.glob(all(root)).paths, want, "{root}");
    }
    let absolute = place.at("src").to_str().unwrap().to_owned();
    assert_eq!(place.glob(all(&format!("{absolute}/"))).paths, [format!("{absolute}/a.ts")]);
    let base = place.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(place.glob(all(&format!("../{base}/lib"))).paths, [format!("../{base}/lib/b")]);
}

#[test]
fn names_keep_their_bytes() {
    let place = Place::new();
    place.write("new\nline\ttab", "needle").write("q\"uote", "needle");
    std::fs::write(place.path().join(OsStr::from_bytes(b"bad\xff")), "needle").unwrap();
    std::fs::create_dir(place.path().join(OsStr::from_bytes(b"dir\xff"))).unwrap();
    assert_eq!(place.paths("**"), ["bad\u{fffd}", "new\nline\ttab", "q\"uote"]);
    // The kernel opens no such name: the file counts as unreadable.
    let answer = place.grep(lines("needle"));
    assert_eq!((answer.matches.len(), answer.files_searched), (2, 3));
}

#[test]
fn deep_trees_hold_few_descriptors() {
    let place = Place::new();
    let deep = "d/".repeat(150);
    place.write(&format!("{deep}f"), "needle");
    for depth in [10, 60, 100, 149] {
        place.write(&format!("{}e", "d/".repeat(depth)), "needle");
        place.write(&format!("{}z/g", "d/".repeat(depth)), "needle");
    }
    let paths = place.paths("**");
    assert_eq!(paths.len(), 9);
    assert!(paths.is_sorted());
    assert_eq!(place.grep(lines("needle")).matches.len(), 9);
}

#[test]
fn a_deep_tree_is_walked_down_and_up() {
    let place = Place::new();
    for depth in 0..400 {
        place.write(&format!("{}e", "d/".repeat(depth)), "needle");
    }
    let want: Vec<String> = (0..400).rev().map(|depth| format!("{}e", "d/".repeat(depth))).collect();
    assert_eq!(place.paths("**"), want);
    let answer = place.grep(GrepQuery { limit: Some(0), ..lines("needle") });
    assert_eq!((answer.files_searched, answer.truncated), (400, true));
}

#[test]
fn an_empty_root_is_a_success() {
    let place = Place::new();
    assert_eq!(place.glob(names("**")), flowcell_search::GlobAnswer::default());
    assert_eq!(place.grep(lines("x")), flowcell_search::GrepAnswer::default());
}

const CHILD: &str = "no-test-has-this-name";

/// Runs `test` again without the powers that let root read everything; true in the run that has none.
fn is_confined(test: &str, probe: &Path) -> bool {
    if std::fs::read(probe).is_err() {
        return true;
    }
    if std::env::args().any(|argument| argument == CHILD) {
        println!("skipped: {test}: mode bits stop nobody here");
        return false;
    }
    let run = Command::new("setpriv")
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg("--inh-caps=-dac_override,-dac_read_search")
        // The file may have been replaced since; the process still has it.
        .arg(format!("/proc/{}/exe", std::process::id()))
        .args(["--exact", test, "--nocapture", "--skip", CHILD])
        .output();
    match run {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
            assert!(text.contains("1 passed"), "{text}");
        }
        Err(error) => {
            println!("skipped: {test}: setpriv: {error}");
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "setpriv is missing");
        }
    }
    false
}

#[test]
fn unreadable_entries_are_passed_over() {
    let place = tree_t();
    let close = |path: &str, mode: u32| {
        std::fs::set_permissions(place.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    place.write("shut/f", "needle").write("shutfile", "needle").write("nolist/f", "needle");
    place.write("rules/.gitignore", "*").write("rules/f", "needle");
    close("shutfile", 0o000);
    close("shut", 0o000);
    close("nolist", 0o311);
    close("rules/.gitignore", 0o000);
    if is_confined("walk::unreadable_entries_are_passed_over", &place.at("shutfile")) {
        let answer = place.grep(lines("needle"));
        // The file counts, what the directories hold does not; unreadable rules are none.
        assert_eq!(answer.files_searched, 11);
        assert!(answer.matches.iter().any(|found| found.file == "rules/f"));
        assert_eq!(answer.notice, None);
        let paths = place.paths("**");
        assert!(paths.contains(&"shutfile".to_owned()) && !paths.iter().any(|path| path.contains("t/f")));
        for root in ["shut", "nolist", "shutfile"] {
            let query = GrepQuery { root: Some(root.to_owned()), ..lines("x") };
            let error = assert_code(place.try_grep(query), Code::CommandFailed);
            assert!(error.message.contains("Permission denied (os error 13)"), "{}", error.message);
        }
    }
    close("shut", 0o755);
    close("nolist", 0o755);
}
