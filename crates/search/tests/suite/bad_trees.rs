//! Trees that are hostile or change under the search: only the root fails a call, nothing hangs, nothing panics.

use crate::support::{Place, block_on, lines, names};
use flowcell_search::{Engine, GlobQuery, GrepQuery, Search};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

fn full() -> bool {
    std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full")
}

fn everything(place: &Place) -> GlobQuery {
    let _ = place;
    GlobQuery { hidden: true, no_ignore: true, ..names("**") }
}

#[test]
fn links_pipes_sockets_and_names() {
    let place = Place::new();
    place.write("d/e/f", "needle").write("g", "needle");
    for (target, link) in
        [("..", "d/up"), ("../../d", "d/e/d"), (".", "here"), ("a", "b"), ("b", "a"), ("gone", "x")]
    {
        symlink(target, place.at(link)).unwrap();
    }
    symlink("/", place.at("d/root")).unwrap();
    for pipe in ["pipe", "d/pipe", ".gitignore"] {
        mknodat(CWD, place.at(pipe), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    }
    let socket = std::os::unix::net::UnixListener::bind(place.at("d/socket")).unwrap();
    fs::write(place.path().join(OsStr::from_bytes(b"\xff\xfe")), "needle").unwrap();
    fs::create_dir(place.path().join(OsStr::from_bytes(b"dir-\xc3"))).unwrap();
    fs::write(place.path().join(OsStr::from_bytes(b"dir-\xc3/f")), "needle").unwrap();
    for threads in [1, 4] {
        assert_eq!(place.glob_on(threads, everything(&place)).paths, ["d/e/f", "g", "\u{fffd}\u{fffd}"]);
        let answer = place.grep_on(threads, lines("needle"));
        assert_eq!((answer.matches.len(), answer.files_searched), (2, 3));
    }
    drop(socket);
}

#[test]
fn a_sparse_file_of_two_gibibytes() {
    let place = Place::new();
    place.write("a", "needle");
    let mut sparse = File::create(place.at("sparse")).unwrap();
    sparse.write_all(b"needle\n").unwrap();
    sparse.set_len(2 << 30).unwrap();
    // Text as far as it goes, and zeros at the end.
    let mut late = File::create(place.at("zeros-late")).unwrap();
    late.write_all("needle\n".repeat(100_000).as_bytes()).unwrap();
    late.set_len(2 << 30).unwrap();
    let answer = place.grep_on(2, lines("needle"));
    assert_eq!((answer.matches.len(), answer.files_searched, answer.skipped_binary), (1, 3, 2));
}

/// Runs searches while `change` is called again and again with the number of the round.
fn while_changing(place: &Place, change: impl Fn(usize) + Sync, check: impl Fn(&Engine)) {
    let over = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                change(rounds.fetch_add(1, Ordering::Relaxed));
            }
        });
        let engine = Engine::with_threads(4);
        let _ = place;
        for _ in 0..if full() { 400 } else { 20 } {
            check(&engine);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 5);
}

#[test]
fn files_that_are_cut_while_they_are_read() {
    let place = Place::new();
    let text = "needle and more of it\n".repeat(60_000);
    for name in ["a", "b", "c"] {
        place.write(name, &text);
    }
    place.write("steady", "needle\n");
    let paths = ["a", "b", "c"].map(|name| place.at(name));
    while_changing(
        &place,
        |round| {
            let file = File::options().write(true).open(&paths[round % 3]).unwrap();
            file.set_len(if round % 2 == 0 { 1_000 } else { 0 }).unwrap();
            drop(file);
            fs::write(&paths[round % 3], &text).unwrap();
        },
        |engine| {
            let query = GrepQuery { max_count: Some(3), ..lines("needle") };
            let answer = block_on(engine.grep(&place.cx, query)).unwrap();
            assert_eq!((answer.files_searched, answer.skipped_binary), (4, 0));
            assert!(answer.matches.iter().any(|found| found.file == "steady"));
            // Whole lines, or at most one that was cut.
            assert!(answer.matches.iter().all(|found| "needle and more of it".starts_with(&found.text)));
        },
    );
}

#[test]
fn directories_that_go_and_come() {
    let place = Place::new();
    let keep: BTreeSet<String> = (0..60).map(|number| format!("keep/{number:02}/f")).collect();
    for path in &keep {
        place.write(path, "needle");
    }
    let plant = |at: &std::path::Path| {
        for number in 0..20 {
            let dir = at.join(format!("{number}/deep/er"));
            let _ = fs::create_dir_all(&dir);
            let _ = fs::write(dir.join("f"), "needle");
        }
    };
    plant(&place.at("come"));
    while_changing(
        &place,
        |round| {
            let _ = fs::rename(place.at("come"), place.at("gone"));
            if round % 2 == 0 {
                let _ = fs::remove_dir_all(place.at("gone"));
                plant(&place.at("come"));
            } else {
                let _ = fs::rename(place.at("gone"), place.at("come"));
            }
        },
        |engine| {
            let answer = block_on(engine.glob(&place.cx, names("f"))).unwrap();
            let kept: BTreeSet<String> =
                answer.paths.iter().filter(|path| path.starts_with("keep/")).cloned().collect();
            assert_eq!(kept, keep);
            let answer = block_on(engine.grep(&place.cx, lines("needle"))).unwrap();
            assert_eq!(answer.matches.iter().filter(|found| found.file.starts_with("keep/")).count(), 60);
        },
    );
}

#[test]
fn one_directory_of_many_files() {
    let count = if full() { 50_000 } else { 2_000 };
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    for number in 0..count {
        fs::write(place.at(&format!("d/{number}")), if number % 100 == 0 { "needle" } else { "" }).unwrap();
    }
    let answer = place.glob_on(2, everything(&place));
    assert_eq!((answer.total, answer.paths.len()), (count, 1_000));
    assert!(answer.paths.is_sorted());
    let answer = place.grep_on(2, GrepQuery { files_with_matches: true, limit: Some(1), ..lines("needle") });
    assert_eq!(answer.files_searched, count);
    assert!(answer.notice.unwrap().contains(&format!("Showing 1 of {} files", count / 100)));
}

const CHILD: &str = "no-test-has-this-name";
/// Directories at once (search contract 9), one file for each of twelve threads, and what the process itself holds: its
/// own streams, the runtime's, the kernel's pins.
const DESCRIPTORS: usize = 64 + 12 + 16;

/// Runs `test` again in a process that may have no more than [`DESCRIPTORS`] open; true in that run.
fn is_limited(test: &str) -> bool {
    if std::env::args().any(|argument| argument == CHILD) {
        return true;
    }
    // The file may have been replaced since; the process still has it.
    let run = Command::new("prlimit")
        .arg(format!("--nofile={DESCRIPTORS}"))
        .arg(format!("/proc/{}/exe", std::process::id()))
        .args(["--exact", test, "--nocapture", "--skip", CHILD])
        .output();
    match run {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
            assert!(text.contains("1 passed"), "{text}");
            println!("measured: a tree of 500 levels needs at most {DESCRIPTORS} descriptors in all");
        }
        Err(error) => {
            println!("skipped: {test}: prlimit: {error}");
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "prlimit is missing");
        }
    }
    false
}

#[test]
fn five_hundred_levels() {
    if !is_limited("bad_trees::five_hundred_levels") {
        return;
    }
    let place = Place::new();
    let mut deep = place.path().to_owned();
    for _ in 0..500 {
        fs::write(deep.join("a"), "needle").unwrap();
        fs::write(deep.join("z"), "needle").unwrap();
        fs::create_dir(deep.join("side")).unwrap();
        fs::write(deep.join("side/s"), "needle").unwrap();
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    let rounds = if full() { 20 } else { 1 };
    for threads in [1, 2, 12] {
        for _ in 0..rounds {
            let answer = place.glob_on(threads, names("**"));
            assert_eq!(answer.total, 1_500);
            // A file for which there was no descriptor would not match.
            let answer = place.grep_on(threads, GrepQuery { limit: Some(1), ..lines("needle") });
            assert_eq!(answer.files_searched, 1_500);
            assert!(answer.notice.unwrap().starts_with("Showing 1 of 1500 matches;"));
        }
    }
}
