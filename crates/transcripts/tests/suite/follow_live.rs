//! A file that a second process appends to, and a follower that is killed (transcript contract 10).
//!
//! The writer and the follower are this test binary again, told by the environment what to be.
#![allow(clippy::disallowed_methods)]

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flowcell_transcripts::follow::{Checkpoint, Step, Tail};
use flowcell_transcripts::{ClaudeState, Part};

use crate::volume::full;

/// The folder of the two files, set in the processes that this test starts.
const FOLDER: &str = "FLOWCELL_TRANSCRIPTS_FOLDER";
/// What such a process is.
const TASK: &str = "FLOWCELL_TRANSCRIPTS_TASK";
/// How often a follower looks.
const PASS: Duration = Duration::from_millis(50);
/// The latency that is promised.
const LATENCY: u64 = 250;

fn start(task: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "follow_live::every_record_once", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(TASK, task)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Appends records for a while, one byte to one megabyte at a time. The text of each is its number and the time at which its
/// last byte was written, as near as it can be known before.
fn write(folder: &Path) {
    let length = Duration::from_secs(if full() { 60 } else { 3 });
    let mut file = OpenOptions::new().append(true).open(folder.join("session.jsonl")).unwrap();
    let (begin, mut number) = (Instant::now(), 0_u64);
    while begin.elapsed() < length {
        // Sizes that repeat: small records, and every fiftieth of about a megabyte.
        let filler = if number % 50 == 49 { 1_000_000 } else { (number * 37 % 400) as usize };
        let record = |at: u64| {
            let text = format!("{number} {at} {}", "x".repeat(filler));
            format!(
                "{{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":\"{text}\"}}}}\n"
            )
        };
        match number % 3 {
            // One byte at a time, the time that of the first.
            0 if filler < 300 => {
                for byte in record(now()).as_bytes() {
                    file.write_all(std::slice::from_ref(byte)).unwrap();
                }
            }
            1 => {
                let record = record(now());
                for piece in record.as_bytes().chunks(4_099) {
                    file.write_all(piece).unwrap();
                }
            }
            _ => file.write_all(record(now()).as_bytes()).unwrap(),
        }
        number += 1;
        sleep(Duration::from_millis(5));
    }
    fs::write(folder.join("written"), number.to_string()).unwrap();
}

/// Follows until it is killed: entries to a file, then the checkpoint.
fn follow(folder: &Path) {
    let path = folder.join("session.jsonl");
    let kept = folder.join("checkpoint");
    let mut out = OpenOptions::new().append(true).create(true).open(folder.join("out")).unwrap();
    let mut tail = Tail::<ClaudeState>::open(folder, &path, Checkpoint::read(&kept).unwrap()).unwrap();
    loop {
        match tail.step().unwrap() {
            Step::Record(entries) => {
                for entry in entries {
                    let Part::Prompt { text } = &entry.part else { panic!("{entry:?}") };
                    let words: Vec<&str> = text.splitn(3, ' ').collect();
                    let line = format!("{} {} {} {}\n", entry.source_id, words[0], words[1], now());
                    out.write_all(line.as_bytes()).unwrap();
                }
                tail.checkpoint().write(&kept).unwrap();
            }
            Step::Waiting => sleep(PASS),
            other => panic!("{other:?}"),
        }
    }
}

/// Ends a process that this test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_record_once() {
    match (std::env::var(TASK).as_deref(), std::env::var_os(FOLDER).map(PathBuf::from)) {
        (Ok("write"), Some(folder)) => return write(&folder),
        (Ok("follow"), Some(folder)) => return follow(&folder),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("session.jsonl")).unwrap();
    let mut writer = Ended(start("write", folder.path()));
    let (kills, life) = if full() { (50, 1_100) } else { (6, 400) };
    for life in (0..kills).map(|kill| life + kill % 7 * 20) {
        let follower = Ended(start("follow", folder.path()));
        sleep(Duration::from_millis(life));
        drop(follower);
    }
    let follower = Ended(start("follow", folder.path()));
    assert!(writer.0.wait().unwrap().success());
    let written: u64 = fs::read_to_string(folder.path().join("written")).unwrap().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let lines = loop {
        let out = fs::read_to_string(folder.path().join("out")).unwrap_or_default();
        let done = out
            .lines()
            .last()
            .is_some_and(|line| line.starts_with(&format!("s:{written} ")) && out.ends_with('\n'));
        if done {
            break out;
        }
        assert!(Instant::now() < deadline, "record {written} never came");
        sleep(PASS);
    };
    drop(follower);
    // A follower that was killed between an entry and its checkpoint says that entry again, under the same id.
    let (mut seen, mut next, mut again, mut late) = (HashSet::new(), 0_u64, 0, Vec::new());
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if !seen.insert(words[0]) {
            assert_eq!(words[0], format!("s:{next}"), "only the last entry is said again");
            again += 1;
            continue;
        }
        assert_eq!(
            (words[0], words[1]),
            (&*format!("s:{}", next + 1), &*next.to_string()),
            "every record, in order"
        );
        let (sent, came) = (words[2].parse::<u64>().unwrap(), words[3].parse::<u64>().unwrap());
        late.push(came.saturating_sub(sent));
        next += 1;
    }
    assert_eq!(next, written, "no record is lost");
    assert!(again <= kills, "{again} entries said again by {kills} kills");
    late.sort_unstable();
    let (middle, most) = (late[late.len() / 2], late[late.len() - 1]);
    println!(
        "measured: following: {written} records, {kills} kills, {again} said again, latency {middle} ms in the middle, {most} ms at most (restarts included)"
    );
    // In the small volume most of the time is restarts beside other tests: the latency is shown, not judged.
    assert!(!full() || middle < LATENCY, "{middle} ms");
}
