//! The binary on a terminal: a pseudo terminal for its output and its errors.

use std::fs::OpenOptions;
use std::io::{Read, Write};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::bench::{BINARY, Bench};

/// What the binary writes to a terminal, and its exit status.
fn on_a_terminal(bench: &Bench, words: &[&str]) -> (String, i32) {
    talked(bench, words, None)
}

/// What a person types who interrupts the first question.
const CTRL_C: &str = "\u{3}";

/// The same, with a person at the terminal who types.
fn talked(bench: &Bench, words: &[&str], typed: Option<&str>) -> (String, i32) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = bench.command(BINARY, words);
    if typed.is_some() {
        command.stdin(slave.try_clone().unwrap());
    }
    let mut child =
        command.env("TERM", "xterm").stdout(slave.try_clone().unwrap()).stderr(slave).spawn().unwrap();
    drop(command);
    if let Some(typed) = typed.filter(|typed| *typed != CTRL_C) {
        std::fs::File::from(master.try_clone().unwrap()).write_all(typed.as_bytes()).unwrap();
    }
    // The terminal controls no process here, so that the signal is sent by hand.
    let mut interrupt = (typed == Some(CTRL_C)).then(|| child.id().to_string());
    let reader = std::thread::spawn(move || {
        let mut master = std::fs::File::from(master);
        let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
        // A terminal whose other side is gone answers EIO.
        while let Ok(read) = master.read(&mut chunk) {
            if read == 0 {
                break;
            }
            said.extend_from_slice(&chunk[..read]);
            if String::from_utf8_lossy(&said).contains("s suspend:")
                && let Some(pid) = interrupt.take()
            {
                assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
            }
        }
        String::from_utf8(said).unwrap()
    });
    let status = child.wait().unwrap();
    // The command held the last slave of this process.
    drop(child);
    (reader.join().unwrap(), status.code().unwrap_or(-1))
}

#[test]
fn every_verb_works_on_a_terminal() {
    let bench = Bench::new();
    bench.write("a.txt", "a\n");
    for words in [
        &["exec", "--run-id", "r", "-e", "await ctx.call('read', {path: 'a.txt'}); ctx.done('it is done')"][..],
        &["runs"],
        &["show", "r"],
        &["replay", "r"],
        &["resume", "r"],
        &["flows"],
        &["flows", "read"],
        &["grants", "check", "fs:read:/ws"],
        &["call", "read", "{\"path\": \"a.txt\"}"],
        &["doctor"],
        &["--help"],
    ] {
        let (said, status) = on_a_terminal(&bench, words);
        assert_eq!(status, 0, "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
    let (said, status) = on_a_terminal(&bench, &["exec", "-e", "throw new Error('told')"]);
    assert_eq!(status, 1);
    assert!(said.contains("told"), "{said}");
}

#[test]
fn a_cell_does_not_write_to_the_terminal_itself() {
    let bench = Bench::new();
    let cell = r#"console.log("\u001b[2J\u009b31mred\u0007"); ctx.done("\u001b]0;title\u0007")"#;
    let (said, status) = on_a_terminal(&bench, &["exec", "--color", "never", "-e", cell]);
    assert_eq!(status, 0, "{said}");
    assert!(!said.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{said:?}");
}

#[test]
fn a_person_at_the_terminal_is_asked() {
    let bench = Bench::new();
    bench.write(
        "m.json",
        r#"{"gate": {"permission": "net:get:example.com"}, "other": {"permission": "net:get:b"}}"#,
    );
    let cell = "console.log('once'); ctx.done([await ctx.call('gate'), await ctx.call('gate'), await ctx.call('other')]\
                .map(r => r.granted ?? r.error.code))";
    let exec = ["exec", "--mock", "m.json", "--run-id", "r", "-e", cell];
    let (said, status) = talked(&bench, &exec, Some("what\nr\nd\n"));
    assert_eq!(status, 0, "{said}");
    for part in [
        "may it have net:get:example.com (tier sealed)?",
        "none of the answers",
        "net:get:b",
        "capability_refused",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert_eq!(said.matches("may it have").count(), 2, "the run's grant answers the second call: {said}");
    assert_eq!(said.matches("| once").count(), 1, "what was printed is not printed again: {said}");
    // Not now: the run stays suspended, and is asked again when it is taken up.
    let exec = ["exec", "--mock", "m.json", "--run-id", "s", "-e", "ctx.done(await ctx.call('gate'))"];
    let (said, status) = talked(&bench, &exec, Some("s\n"));
    assert_eq!(status, 3, "{said}");
    assert!(said.trim_end().lines().last().unwrap().contains("flowcell resume s"), "{said}");
    let resume = ["resume", "s", "--mock", "m.json"];
    assert_eq!(talked(&bench, &resume, Some("always net:get:*\n")).1, 0);
    assert_eq!(
        bench.run(&["grants", "list", "--json"]).is(0).json()[0]["pattern"],
        serde_json::json!("net:get:*")
    );
    // Policy can say that nobody is there.
    bench.write("p.toml", "attended = false\n");
    let exec = [
        "exec",
        "--mock",
        "m.json",
        "--policy",
        "p.toml",
        "-e",
        "ctx.done(await ctx.call('write', {path: 'x', content: ''}))",
    ];
    assert_eq!(talked(&bench, &exec, Some("o\n")).1, 3);
    // One call without a run: nothing of the answer is kept.
    let call = ["call", "write", r#"{"path": "y", "content": "z"}"#];
    let (said, status) = talked(&bench, &call, Some("a\no\n"));
    assert_eq!((status, bench.read("y").as_str()), (0, "z"), "{said}");
    assert!(said.contains("nothing is kept here"), "{said}");
    let (said, status) = talked(&bench, &["call", "write", r#"{"path": "z", "content": ""}"#], Some("d\n"));
    assert_eq!(status, 1, "{said}");
    let (said, status) = talked(&bench, &["call", "write", r#"{"path": "z", "content": ""}"#], Some("s\n"));
    assert_eq!(status, 3, "{said}");
    assert!(!bench.ws().join("z").exists());
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open() {
    let bench = Bench::new();
    bench.write("m.json", r#"{"gate": {"permission": "net:get:example.com"}}"#);
    let exec = ["exec", "--mock", "m.json", "--run-id", "r", "-e", "ctx.done(await ctx.call('gate'))"];
    let (said, status) = talked(&bench, &exec, Some(CTRL_C));
    assert_eq!(status, 130, "{said}");
    assert!(said.trim_end().lines().last().unwrap().contains("flowcell resume r"), "{said}");
    let (said, status) = talked(&bench, &["resume", "r", "--mock", "m.json"], Some("o\n"));
    assert_eq!(status, 0, "{said}");
    let call = ["call", "write", r#"{"path": "x", "content": ""}"#];
    let (said, status) = talked(&bench, &call, Some(CTRL_C));
    assert_eq!(status, 130, "{said}");
}
