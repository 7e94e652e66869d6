//! Finding and tailing (transcript contract 10).

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use flowcell_transcripts::follow::{Checkpoint, Participant, Places, Step, Tail, participants};
use flowcell_transcripts::{AgentKind, ClaudeState, CodexState, Entry, Part, State};

use crate::decode::{lines, whole};
use crate::fixtures::{all, by_agent};

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn prompt(text: &str) -> Vec<u8> {
    format!("{{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":\"{text}\"}}}}\n")
        .into_bytes()
}

fn tail(path: &Path, from: Option<Checkpoint<ClaudeState>>) -> Tail<ClaudeState> {
    Tail::open(path.parent().unwrap(), path, from).unwrap()
}

/// What was said until the tail waits.
fn said<S: State>(tail: &mut Tail<S>) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        match tail.step().unwrap() {
            Step::Record(more) => entries.extend(more),
            Step::Anew => {}
            Step::Waiting => return entries,
            other => panic!("{other:?}"),
        }
    }
}

fn text(part: &Part) -> &str {
    match part {
        Part::Prompt { text } => text,
        other => panic!("{other:?}"),
    }
}

fn words(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| text(&entry.part)).collect()
}

#[test]
fn a_tail_gives_what_the_file_decodes_to() {
    fn same<S: crate::decode::Format>(bytes: &[u8]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        fs::write(&path, b"").unwrap();
        let mut tail = Tail::<S>::open(folder.path(), &path, None).unwrap();
        let mut entries = Vec::new();
        for (number, piece) in bytes.chunks(1_777).enumerate() {
            append(&path, piece);
            entries.extend(said(&mut tail));
            // Killed and started again, from a checkpoint that went through its file.
            if number % 5 == 0 {
                let kept = folder.path().join("checkpoint");
                tail.checkpoint().write(&kept).unwrap();
                tail = Tail::open(folder.path(), &path, Checkpoint::read(&kept).unwrap()).unwrap();
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
            }
        }
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        assert_eq!(entries, whole::<S>(bytes).unwrap().entries);
        assert_eq!(tail.checkpoint().state, lines::<S>(&bytes[..complete]).1.unwrap());
        assert_eq!((tail.offset(), tail.generation()), (complete as u64, 0));
    }
    for pair in all() {
        by_agent!(&*pair.agent, same(&pair.bytes));
    }
}

#[test]
fn a_line_waits_for_its_newline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let line = prompt("one");
    append(&path, &line[..20]);
    let mut tail = tail(&path, None);
    assert_eq!(tail.step().unwrap(), Step::Waiting);
    append(&path, &line[20..line.len() - 1]);
    assert_eq!(tail.step().unwrap(), Step::Waiting);
    assert_eq!(tail.offset(), 0);
    append(&path, b"\n");
    assert_eq!(words(&said(&mut tail)), ["one"]);
}

#[test]
fn truncation_and_rotation_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, &[prompt("one"), prompt("two")].concat());
    let mut tail = tail(&path, None);
    assert_eq!(words(&said(&mut tail)), ["one", "two"]);
    // It shrinks.
    fs::write(&path, prompt("three")).unwrap();
    assert_eq!(tail.step().unwrap(), Step::Anew);
    let entries = said(&mut tail);
    assert_eq!((words(&entries), entries[0].seq, &*entries[0].source_id), (vec!["three"], 0, "s:1"));
    assert_eq!(tail.generation(), 1);
    // Another file has the name; what the former one still got is read first.
    append(&path, &prompt("late"));
    fs::rename(&path, folder.path().join("old.jsonl")).unwrap();
    append(&path, &prompt("four"));
    assert_eq!(words(&said(&mut tail)), ["late", "four"]);
    assert_eq!(tail.generation(), 2);
    // While nothing has the name, it waits.
    fs::remove_file(&path).unwrap();
    assert_eq!(tail.step().unwrap(), Step::Waiting);
    append(&path, &prompt("five"));
    assert_eq!(words(&said(&mut tail)), ["five"]);
}

#[test]
fn a_checkpoint_of_another_file_is_not_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, &[prompt("one"), prompt("two")].concat());
    let mut first = tail(&path, None);
    assert!(matches!(first.step().unwrap(), Step::Record(_)));
    let kept = first.checkpoint();
    assert_eq!(words(&said(&mut tail(&path, Some(kept.clone())))), ["two"]);
    // The file shrank while no one looked.
    fs::write(&path, b"\n").unwrap();
    let mut shorter = tail(&path, Some(kept.clone()));
    assert_eq!((shorter.generation(), said(&mut shorter).len()), (1, 0));
    // Another file has its name.
    fs::rename(&path, folder.path().join("old")).unwrap();
    append(&path, &[prompt("three"), prompt("four")].concat());
    let mut other = tail(&path, Some(kept.clone()));
    assert_eq!((other.generation(), words(&said(&mut other))), (1, vec!["three", "four"]));
    // Another path is another source.
    let elsewhere = folder.path().join("b.jsonl");
    append(&elsewhere, &prompt("five"));
    assert_eq!(tail(&elsewhere, Some(kept)).generation(), 0);
    assert!(Checkpoint::<ClaudeState>::read(&folder.path().join("none")).unwrap().is_none());
    assert!(Checkpoint::<ClaudeState>::read(&path).is_err());
}

#[test]
fn a_refusal_ends_the_source_and_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, &[prompt("one"), b"[]\n".to_vec(), prompt("two")].concat());
    let mut tail = tail(&path, None);
    assert!(matches!(tail.step().unwrap(), Step::Record(_)));
    let Step::Stopped(entry, error) = tail.step().unwrap() else { panic!("not refused") };
    assert_eq!(
        entry.part,
        Part::Error { message: "Claude Code transcript line 2 is not a JSON record.".into() }
    );
    assert_eq!((&*entry.source_id, &*entry.format_version, entry.seq), ("s:2", "claude-code/2.1", 1));
    assert_eq!(error.line, 2);
    append(&path, &prompt("three"));
    assert_eq!(tail.step().unwrap(), Step::Ended);
}

#[test]
fn a_line_over_the_limit_ends_the_source() {
    let folder = tempfile::tempdir().unwrap();
    for newline in ["", "\n"] {
        let path = folder.path().join(format!("a{}.jsonl", newline.len()));
        append(&path, &[prompt("one"), vec![b' '; 1_048_577], newline.into()].concat());
        let mut tail = tail(&path, None);
        assert!(matches!(tail.step().unwrap(), Step::Record(_)));
        let Step::Stopped(_, error) = tail.step().unwrap() else { panic!("not refused") };
        assert_eq!(error.message, "Claude Code transcript line 2 is longer than 1048576 bytes.");
    }
    let path = folder.path().join("good.jsonl");
    append(&path, &[vec![b' '; 1_048_576], b"\n".to_vec()].concat());
    assert!(matches!(tail(&path, None).step().unwrap(), Step::Record(entries) if entries.is_empty()));
}

#[test]
fn no_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (home, outside) = (folder.path().join("home"), folder.path().join("outside"));
    for folder in [home.join("projects/p"), outside.clone()] {
        fs::create_dir_all(folder).unwrap();
    }
    append(&outside.join("a.jsonl"), &prompt("one"));
    append(&home.join("projects/p/a.jsonl"), &prompt("one"));
    symlink(outside.join("a.jsonl"), home.join("link.jsonl")).unwrap();
    symlink(&outside, home.join("folder")).unwrap();
    let open = |path: PathBuf| Tail::<ClaudeState>::open(&home, &path, None).map(|_| ());
    assert!(open(home.join("projects/p/a.jsonl")).is_ok());
    for refused in [
        home.join("link.jsonl"),
        home.join("folder/a.jsonl"),
        outside.join("a.jsonl"),
        home.join("../outside/a.jsonl"),
        home.join("projects"),
        home.join("none"),
        PathBuf::from("/dev/null"),
    ] {
        assert!(open(refused.clone()).is_err(), "{}", refused.display());
    }
    // A home that is itself a link is the user's own choice.
    symlink(&home, folder.path().join("alias")).unwrap();
    let alias = folder.path().join("alias");
    assert!(Tail::<ClaudeState>::open(&alias, &alias.join("projects/p/a.jsonl"), None).is_ok());
    // A link that takes the place of a file is not followed either.
    let path = home.join("projects/p/a.jsonl");
    let mut tail = Tail::<ClaudeState>::open(&home, &path, None).unwrap();
    assert_eq!(said(&mut tail).len(), 1);
    fs::remove_file(&path).unwrap();
    symlink(outside.join("a.jsonl"), &path).unwrap();
    assert!(tail.step().is_err());
}

/// A folder of processes.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("home/.codex/sessions")).unwrap();
        fs::create_dir_all(folder.path().join("home/.claude/sessions")).unwrap();
        Self { folder }
    }

    fn home(&self) -> PathBuf {
        fs::canonicalize(self.folder.path().join("home")).unwrap()
    }

    fn process(&self, pid: u32, executable: &str, environment: &str, open: &[PathBuf]) {
        let process = self.folder.path().join("proc").join(pid.to_string());
        fs::create_dir_all(process.join("fd")).unwrap();
        symlink(executable, process.join("exe")).unwrap();
        fs::write(process.join("environ"), environment).unwrap();
        fs::write(process.join("stat"), format!("{pid} (a ) b) S {}77 0\n", "1 ".repeat(18))).unwrap();
        for (number, path) in open.iter().enumerate() {
            symlink(path, process.join("fd").join(number.to_string())).unwrap();
        }
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn found(&self) -> Vec<Participant> {
        let uid = fs::metadata(self.folder.path()).unwrap().uid();
        participants(&Places { processes: self.folder.path().join("proc"), home: self.home(), uid })
    }
}

#[test]
fn a_codex_process_and_the_rollout_it_holds_open() {
    let machine = Machine::new();
    let rollout = machine.file(".codex/sessions/2026/rollout-1.jsonl", "");
    let other = machine.file("work/codex/sessions/rollout-2.jsonl", "");
    let environment = format!("A=b\0CODEX_HOME={}\0", machine.home().join("work/codex").display());
    machine.process(7, "/usr/bin/codex", "", &[rollout.clone(), PathBuf::from("/dev/null"), rollout.clone()]);
    machine.process(8, "/opt/codex (deleted)", &environment, &[other.clone(), rollout.clone()]);
    // Two rollouts, none, another program, another home that is not beneath the user's.
    machine.process(9, "/usr/bin/codex", "", &[rollout.clone(), machine.file(".codex/rollout-3.jsonl", "")]);
    machine.process(10, "/usr/bin/codex", "", &[]);
    machine.process(11, "/usr/bin/node", "", std::slice::from_ref(&rollout));
    machine.process(12, "/usr/bin/codex", "CODEX_HOME=/\0", std::slice::from_ref(&rollout));
    let found = machine.found();
    let of = |pid: u32, home: &str, transcript: &Path| Participant {
        agent: AgentKind::Codex,
        pid,
        started: 77,
        home: machine.home().join(home),
        transcript: transcript.to_owned(),
    };
    assert_eq!(found, [of(7, ".codex", &rollout), of(8, "work/codex", &other), of(12, ".codex", &rollout)]);
    assert!(Tail::<CodexState>::open(&found[0].home, &found[0].transcript, None).is_ok());
}

#[test]
fn a_claude_code_process_and_the_session_its_home_names() {
    let machine = Machine::new();
    let transcript = machine.file(".claude/projects/p/abc.jsonl", "");
    for pid in [20, 21, 22, 23, 24] {
        machine.process(pid, "/home/dev/.local/share/claude/versions/2.1.332", "", &[]);
    }
    machine.process(25, "/usr/bin/node", "", &[]);
    machine.file(".claude/sessions/20.json", "{\"pid\":20,\"sessionId\":\"abc\"}");
    machine.file(".claude/sessions/25.json", "{\"sessionId\":\"abc\"}");
    // Another process's file, a path, no transcript, no JSON.
    machine.file(".claude/sessions/21.json", "{\"pid\":99,\"sessionId\":\"abc\"}");
    machine.file(".claude/sessions/22.json", "{\"pid\":22,\"sessionId\":\"../p/abc\"}");
    machine.file(".claude/sessions/23.json", "{\"pid\":23,\"sessionId\":\"none\"}");
    machine.file(".claude/sessions/24.json", "{");
    let found = machine.found();
    assert_eq!(found.iter().map(|found| found.pid).collect::<Vec<_>>(), [20, 25]);
    assert!(found.iter().all(|found| found.transcript == transcript && found.agent == AgentKind::ClaudeCode));
    // `/clear`: the same process, another source.
    let next = machine.file(".claude/projects/p/def.jsonl", "");
    machine.file(".claude/sessions/20.json", "{\"pid\":20,\"sessionId\":\"def\"}");
    assert_eq!(machine.found()[0].transcript, next);
    // The same session under two projects is not one transcript.
    machine.file(".claude/projects/q/def.jsonl", "");
    assert_eq!(machine.found().len(), 1);
    // Processes of others are not looked at.
    let stranger =
        Places { processes: machine.folder.path().join("proc"), home: machine.home(), uid: u32::MAX };
    assert!(participants(&stranger).is_empty());
}
