//! The binary on a terminal: a pseudo terminal for its output and its errors.

use std::fs::OpenOptions;
use std::io::Read;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::bench::{BINARY, Bench};

/// What the binary writes to a terminal, and its exit status.
fn on_a_terminal(bench: &Bench, words: &[&str]) -> (String, i32) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut child = bench
        .command(BINARY, words)
        .env("TERM", "xterm")
        .stdout(slave.try_clone().unwrap())
        .stderr(slave)
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let mut master = std::fs::File::from(master);
        let (mut said, mut chunk) = (Vec::new(), [0; 4096]);
        // A terminal whose other side is gone answers EIO.
        while let Ok(read) = master.read(&mut chunk) {
            if read == 0 {
                break;
            }
            said.extend_from_slice(&chunk[..read]);
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
