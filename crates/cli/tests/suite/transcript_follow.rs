//! `transcript follow`: a file that another process writes, and the sessions that run.
//!
//! The writing process is this test binary again, told by the environment what to be.
#![allow(clippy::disallowed_methods)]

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::bench::{Answer, BINARY, Bench};
use crate::transcript::{full, hostile, prompt};

/// The file of the writing process.
const TASK: &str = "FLOWCELL_FOLLOW_WRITES";
/// For how long it writes, in milliseconds.
const LENGTH: &str = "FLOWCELL_FOLLOW_MS";

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A process of the binary whose lines are handed on with the time at which they came. A last line without its newline, which
/// a kill may leave, is none.
struct Follower {
    child: Child,
    lines: Receiver<(u64, String)>,
}

impl Follower {
    fn start(bench: &Bench, words: &[&str]) -> Self {
        let all: Vec<&str> = ["transcript", "follow", "--json"].iter().chain(words).copied().collect();
        let mut child = bench.command(BINARY, &all).stderr(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(1 << 20, out);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
                let at = now();
                // Read later: what this process does with a line is not the latency of its coming.
                if sender.send((at, std::mem::take(&mut line))).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// The next entry.
    fn next(&self) -> Value {
        self.stamped().1
    }

    /// The next entry, and when it came.
    fn stamped(&self) -> (u64, Value) {
        let (at, line) = self.lines.recv_timeout(Duration::from_secs(20)).expect("an entry");
        (at, serde_json::from_str(&line).unwrap())
    }

    fn text(&self) -> String {
        let entry = self.next();
        let part = &entry["part"];
        part["text"].as_str().or_else(|| part["message"].as_str()).unwrap().to_owned()
    }

    /// Nothing more comes for a while.
    fn quiet(&self) {
        assert!(self.lines.recv_timeout(Duration::from_millis(600)).is_err());
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Its end: the status and what it said on standard error.
    fn end(mut self) -> (i32, String) {
        let mut said = String::new();
        let status = self.child.wait().unwrap();
        std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut said).unwrap();
        (status.code().unwrap_or(-1), said)
    }

    /// Killed as it stands; what had come by then.
    fn kill(mut self) -> Vec<(u64, Value)> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().map(|(at, line)| (at, serde_json::from_str(&line).unwrap())).collect()
    }
}

/// Appends records: by single bytes, in pieces, and up to a megabyte at a time. When a record is whole its number and the time
/// go to a second file.
fn write(path: &Path) {
    let length = Duration::from_millis(std::env::var(LENGTH).unwrap().parse().unwrap());
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    let mut times = File::create(path.with_extension("times")).unwrap();
    let (begin, mut number) = (Instant::now(), 0_u64);
    while begin.elapsed() < length {
        let filler = if number % 50 == 49 { 1_000_000 } else { usize::try_from(number * 37 % 400).unwrap() };
        let record = prompt(&format!("{number} {}", "x".repeat(filler)));
        let step = match number % 3 {
            0 if filler < 400 => 1,
            1 => 4_099,
            _ => usize::MAX,
        };
        for piece in record.as_bytes().chunks(step) {
            file.write_all(piece).unwrap();
        }
        times.write_all(format!("{}\n", now()).as_bytes()).unwrap();
        number += 1;
        sleep(Duration::from_millis(5));
    }
    fs::write(path.with_extension("written"), number.to_string()).unwrap();
}

/// Ends a process that this test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn writer(test: &str, path: &Path, length: u64) -> Ended {
    File::create(path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("transcript_follow::{test}"), "--nocapture", "--test-threads=1"])
        .env(TASK, path)
        .env(LENGTH, length.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Ended(child)
}

/// Whether this process is the writer; it is done then.
fn is_writer() -> bool {
    let Some(path) = std::env::var_os(TASK) else { return false };
    write(&PathBuf::from(path));
    true
}

/// How many records were written, and when each was whole.
fn written(path: &Path) -> (usize, Vec<u64>) {
    let count = fs::read_to_string(path.with_extension("written")).unwrap().parse().unwrap();
    let times = fs::read_to_string(path.with_extension("times")).unwrap();
    (count, times.lines().map(|line| line.parse().unwrap()).collect())
}

/// The number that the writer gave an entry.
fn number(entry: &Value) -> usize {
    entry["part"]["text"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The middle, the one in a hundred, and the most.
fn figures(mut late: Vec<u64>) -> (u64, u64, u64) {
    late.sort_unstable();
    let at = |part: usize| {
        late.get((late.len() * part / 100).min(late.len().saturating_sub(1))).copied().unwrap_or(0)
    };
    (at(50), at(99), at(100))
}

#[test]
fn every_record_comes_once_and_soon() {
    if is_writer() {
        return;
    }
    let bench = Bench::new();
    let path = bench.ws().join("live.jsonl");
    let mut writer = writer("every_record_comes_once_and_soon", &path, if full() { 60_000 } else { 3_000 });
    let follower = Follower::start(&bench, &["live.jsonl", "--agent", "claude"]);
    let begun = now() + 1_000;
    assert!(writer.0.wait().unwrap().success());
    let (count, times) = written(&path);
    let mut late = Vec::new();
    assert_eq!(times.len(), count);
    for (expected, whole) in times.into_iter().enumerate() {
        let (at, entry) = follower.stamped();
        assert_eq!((number(&entry), &entry["source_id"]), (expected, &json!(format!("s:{}", expected + 1))));
        // What was there before the follower had started waited for it.
        if whole > begun {
            late.push(at.saturating_sub(whole));
        }
    }
    follower.quiet();
    follower.signal("-INT");
    assert_eq!(follower.end().0, 130);
    let (middle, hundredth, most) = figures(late);
    println!(
        "measured: transcript follow: {count} records of one byte to one megabyte a write, each once and in order; \
         latency {middle} ms in the middle, {hundredth} ms for 99 of 100, {most} ms at most"
    );
    // In the small volume it is a debug build beside other tests: the latency is shown, not judged.
    assert!(!full() || hundredth < 250, "{hundredth} ms");
}

#[test]
fn nothing_is_lost_or_doubled_by_kills() {
    if is_writer() {
        return;
    }
    let bench = Bench::new();
    let path = bench.ws().join("live.jsonl");
    let (kills, life) = if full() { (50, 1_100) } else { (5, 500) };
    let mut writer = writer("nothing_is_lost_or_doubled_by_kills", &path, kills * (life + 60));
    let words = ["live.jsonl", "--agent", "claude", "--checkpoint", "kept.json"];
    let mut came = Vec::new();
    for kill in 0..kills {
        let follower = Follower::start(&bench, &words);
        sleep(Duration::from_millis(life + kill % 7 * 20));
        came.extend(follower.kill());
        // A checkpoint is whole whenever one looks.
        if let Ok(kept) = fs::read(bench.ws().join("kept.json")) {
            let kept: Value = serde_json::from_slice(&kept).unwrap();
            assert_eq!(crate::bench::keys(&kept), ["generation", "offset", "source", "state"]);
        }
    }
    assert!(writer.0.wait().unwrap().success());
    let follower = Follower::start(&bench, &words);
    let (count, _) = written(&path);
    while came.last().is_none_or(|(_, entry)| number(entry) + 1 < count) {
        came.push(follower.stamped());
    }
    follower.quiet();
    drop(follower.kill());
    // An entry that was out before its checkpoint was kept comes again, under the same id and with the same words: whoever
    // receives them tells by that.
    let (mut seen, mut again, mut next) = (HashSet::new(), 0, 0);
    let mut before: Option<&Value> = None;
    for (_, entry) in &came {
        if !seen.insert(entry["source_id"].as_str().unwrap()) {
            assert_eq!(Some(entry), before, "only the last entry comes again");
            again += 1;
            continue;
        }
        assert_eq!(number(entry), next, "every record, in order");
        next += 1;
        before = Some(entry);
    }
    assert_eq!(next, count, "no record is lost");
    assert!(again <= kills, "{again} entries came again after {kills} kills");
    println!(
        "measured: transcript follow killed: {count} records, {kills} kills, none lost, none doubled by its source_id ({again} said again before their checkpoint)"
    );
}

#[test]
fn a_file_that_shrinks_or_is_replaced_begins_anew() {
    let bench = Bench::new();
    let path = bench.write("a.jsonl", &(prompt("one") + &prompt("two")));
    let follower = Follower::start(&bench, &["a.jsonl", "--checkpoint", "kept.json"]);
    assert_eq!((follower.text(), follower.text()), ("one".into(), "two".into()));
    fs::write(&path, prompt("three")).unwrap();
    let entry = follower.next();
    assert_eq!((&entry["seq"], &entry["part"]["text"]), (&json!(0), &json!("three")));
    // Another file gets the name; what the former one still got is read first.
    append(&path, &prompt("late"));
    fs::rename(&path, bench.ws().join("old.jsonl")).unwrap();
    append(&path, &prompt("four"));
    assert_eq!((follower.text(), follower.text()), ("late".into(), "four".into()));
    // A line is read once its newline is there.
    let half = prompt("five");
    append(&path, &half[..30]);
    follower.quiet();
    append(&path, &half[30..]);
    assert_eq!(follower.text(), "five");
    follower.signal("-TERM");
    let (status, said) = follower.end();
    assert_eq!((status, said.matches("begins anew").count()), (130, 2), "{said}");
    let kept: Value = serde_json::from_slice(&fs::read(bench.ws().join("kept.json")).unwrap()).unwrap();
    assert_eq!((&kept["generation"], &kept["state"]["line"]), (&json!(2), &json!(2)));
    // From there nothing comes that was out already.
    append(&path, &prompt("six"));
    let follower = Follower::start(&bench, &["a.jsonl", "--checkpoint", "kept.json"]);
    let entry = follower.next();
    assert_eq!((&entry["source_id"], &entry["part"]["text"]), (&json!("s:3"), &json!("six")));
    follower.quiet();
    follower.kill();
}

#[test]
fn no_link_is_followed() {
    let bench = Bench::new();
    let path = bench.write("a.jsonl", &prompt("one"));
    symlink(&path, bench.ws().join("l.jsonl")).unwrap();
    for words in [&["l.jsonl"][..], &["l.jsonl", "--agent", "claude"], &["."], &["..", "--agent", "codex"]] {
        let all: Vec<&str> = ["transcript", "follow", "--json"].iter().chain(words).copied().collect();
        assert_eq!(bench.run(&all).is(2).code(), "unreadable_file", "{words:?}");
    }
    // A link that takes the name of a file that is followed ends it, and nothing of where it leads is shown.
    let secret = bench.outside("secret.jsonl");
    fs::write(&secret, prompt("secret")).unwrap();
    let follower = Follower::start(&bench, &["a.jsonl"]);
    assert_eq!(follower.text(), "one");
    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    let (status, said) = follower.end();
    assert_eq!(status, 2);
    assert!(said.contains("link") && !said.contains("secret"), "{said}");
}

#[test]
fn a_refused_record_or_a_long_line_ends_the_source_with_one_error() {
    let bench = Bench::new();
    for (line, code, message) in [
        (
            "{\"type\":\"new\"}\n".to_owned(),
            "unsupported_record",
            "Claude Code wrote a record this release does not read: new",
        ),
        (
            "x".repeat(1_048_577),
            "malformed_record",
            "Claude Code transcript line 2 is longer than 1048576 bytes.",
        ),
    ] {
        let path = bench.write("a.jsonl", &prompt("one"));
        append(&path, &line);
        append(&path, &format!("\n{}", prompt("never")));
        let answer = bench.run(&["transcript", "follow", "a.jsonl", "--json"]);
        let lines: Vec<&str> = answer.is(1).out.lines().collect();
        let last: Value = serde_json::from_str(lines[1]).unwrap();
        assert_eq!(last["part"], json!({"type": "error", "message": message}));
        let document: Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!((lines.len(), &document["error"]["code"]), (3, &json!(code)), "{}", answer.out);
    }
}

#[test]
fn lines_for_people_are_inert() {
    let bench = Bench::new();
    bench.write("h.jsonl", &(hostile("") + "[]\n"));
    let answer = bench.run(&["transcript", "follow", "h.jsonl"]);
    assert!(answer.is(1).out.contains("\\u{1b}[2J"), "{}", answer.out);
    assert!(!answer.out.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'));
}

#[test]
fn what_goes_wrong_has_its_status() {
    let bench = Bench::new();
    // No session runs beneath this home.
    assert_eq!(bench.run(&["transcript", "follow", "--json"]).is(1).code(), "not_found");
    bench.write("p.jsonl", &prompt("x"));
    for kept in [
        "{}",
        "no",
        "{\"source\":{\"path\":\"/x\",\"device\":1,\"inode\":1},\"generation\":0,\"offset\":0,\"state\":1}",
    ] {
        bench.write("kept.json", kept);
        let answer = bench.run(&["transcript", "follow", "p.jsonl", "--checkpoint", "kept.json", "--json"]);
        assert_eq!(answer.is(2).code(), "invalid_input", "{kept}");
        assert_eq!(bench.read("kept.json"), kept, "nothing was done");
    }
}

/// A process that stands in for an agent: a program of its name that sleeps.
struct Stand(Child);

impl Stand {
    fn start(bench: &Bench, name: &str, script: &str, environment: &[(&str, &Path)]) -> Self {
        let program = bench.outside(name);
        if !program.exists() {
            fs::copy("/bin/sleep", &program).unwrap();
        }
        let mut command = bench.command("sh", &["-c", script]);
        command.env("AGENT", program).stdout(Stdio::null()).stderr(Stdio::null());
        environment.iter().for_each(|(name, value)| {
            command.env(name, value);
        });
        let stand = Self(command.spawn().unwrap());
        // The shell becomes the agent.
        let until = Instant::now() + Duration::from_secs(9);
        while fs::read_link(format!("/proc/{}/exe", stand.0.id())).is_ok_and(|exe| !exe.ends_with(name)) {
            assert!(Instant::now() < until);
            sleep(Duration::from_millis(5));
        }
        stand
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_newest_session_is_found_and_a_cleared_one_is_gone_on_with() {
    let bench = Bench::new();
    let home = bench.outside("home").canonicalize().unwrap();
    // An older session of Codex, in a home that its own environment names.
    let rollouts = home.join("codex-home/sessions/2026/11/02");
    fs::create_dir_all(&rollouts).unwrap();
    let rollout = rollouts.join("rollout-1.jsonl");
    let head = json!({"type": "session_meta", "payload": {"id": "c", "cli_version": "0.160.0"}});
    let item = json!({"type": "UserMessage", "content": [{"type": "text", "text": "of codex"}]});
    let said = json!({"type": "event_msg", "payload": {"type": "item_completed", "item": item}});
    fs::write(&rollout, format!("{head}\n{said}\n")).unwrap();
    let script = format!("exec 3>>{}; exec \"$AGENT\" 60", rollout.display());
    let codex = Stand::start(&bench, "codex", &script, &[("CODEX_HOME", &home.join("codex-home"))]);
    sleep(Duration::from_millis(30));
    // A newer one of Claude Code; its program has another name, and its own home names it.
    let claude = Stand::start(&bench, "node", "exec \"$AGENT\" 60", &[]);
    let pid = claude.0.id();
    let (sessions, project) = (home.join(".claude/sessions"), home.join(".claude/projects/-ws"));
    fs::create_dir_all(&sessions).unwrap();
    fs::create_dir_all(&project).unwrap();
    let names = |session: &str| {
        let beside = sessions.join("new");
        fs::write(&beside, json!({"pid": pid, "sessionId": session}).to_string()).unwrap();
        fs::rename(beside, sessions.join(format!("{pid}.json"))).unwrap();
    };
    let session = |id: &str| project.join(format!("{id}.jsonl"));
    let of = |id: &str, text: &str| {
        prompt(text).replace("\"sessionId\":\"s\"", &format!("\"sessionId\":\"{id}\""))
    };
    append(&session("one"), &of("one", "first"));
    names("one");
    let follower = Follower::start(&bench, &["--checkpoint", "kept.json"]);
    assert_eq!(follower.next()["source_id"], "one:1");
    append(&session("one"), &of("one", "second"));
    assert_eq!(follower.text(), "second");
    // `/clear`: another session of the same process. What the former one got last is not lost.
    append(&session("two"), &of("two", "third"));
    append(&session("one"), &of("one", "last of the first"));
    names("two");
    assert_eq!((follower.text(), follower.text()), ("last of the first".into(), "third".into()));
    append(&session("two"), &of("two", "fourth"));
    assert_eq!(follower.next()["source_id"], "two:2");
    // The checkpoint of an entry is kept after it is out.
    let until = Instant::now() + Duration::from_secs(9);
    let kept = || serde_json::from_slice::<Value>(&fs::read(bench.ws().join("kept.json")).unwrap()).unwrap();
    while kept()["state"]["line"] != 2 || kept()["state"]["session"] != "two" {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(10));
    }
    follower.kill();
    // Meanwhile it goes on, is cleared once more, and the checkpoint leads from the one to the other.
    append(&session("two"), &of("two", "fifth"));
    append(&session("three"), &of("three", "sixth"));
    names("three");
    let follower = Follower::start(&bench, &["--checkpoint", "kept.json"]);
    assert_eq!((follower.next()["source_id"].clone(), follower.text()), (json!("two:3"), "sixth".into()));
    // The process ends, and with it the command, once all is out.
    append(&session("three"), &of("three", "seventh"));
    drop(claude);
    assert_eq!(follower.text(), "seventh");
    let (status, said) = follower.end();
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("▸ Claude Code") && said.contains("Codex") && said.contains("has ended"), "{said}");
    // The other agent alone is left.
    let follower = Follower::start(&bench, &["--agent", "codex"]);
    assert_eq!(follower.text(), "of codex");
    append(&rollout, &format!("{said}\n", said = said_again()));
    assert_eq!(follower.text(), "and more");
    drop(codex);
    assert_eq!(follower.end().0, 0);
}

fn said_again() -> Value {
    let item = json!({"type": "UserMessage", "content": [{"type": "text", "text": "and more"}]});
    json!({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let bench = Bench::new();
    bench.write("p.jsonl", &prompt(&"x".repeat(5_000)).repeat(200));
    let folder = Path::new(BINARY).parent().unwrap().to_str().unwrap().to_owned();
    let line = format!("{folder}/flowcell transcript follow p.jsonl --json | head -n 1 | wc -l");
    let answer: Answer = bench.shell(&line);
    assert_eq!(answer.is(0).out.trim(), "1");
}
