//! Killing and reaping what a command left.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

/// What a sweep may take. What is left then cannot be killed by this user, or hangs in the kernel.
const PATIENCE: Duration = Duration::from_millis(900);
/// The longest pause between rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Kills and reaps every descendant of this process, to which orphans fall, until none is left. `ended` says that the
/// command itself was reaped: its number is then a group's at most.
pub(super) fn sweep(command: Pid, ended: bool) {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(200);
    // Its group first: most of what there is, in one call. The number cannot have become a stranger's: a group keeps it
    // while it has members, and numbers go round before they are used again.
    if !ended || group_is_ours(command) {
        let _ = rustix::process::kill_process_group(command, Signal::KILL);
    }
    loop {
        for child in children() {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                // Nobody is left.
                Err(_) => return,
            }
        }
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether a child of this process is in that group.
fn group_is_ours(group: Pid) -> bool {
    children().into_iter().any(|child| rustix::process::getpgid(Some(child)) == Ok(group))
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let mut found = Vec::new();
    let mut told = false;
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(task.path().join("children")) else { continue };
        told = true;
        found.extend(text.split_ascii_whitespace().filter_map(pid));
    }
    if told { found } else { children_of(rustix::process::getpid()) }
}

/// The same from every process there is, for kernels that do not list children.
fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().get();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mine = processes.filter_map(|process| {
        let id = pid(process.file_name().to_str()?)?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // `pid (name) state parent …`; the name may hold anything.
        let parent_field = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
        (parent_field.parse::<i32>().ok()? == parent).then_some(id)
    });
    mine.collect()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|id| *id > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_finding_children_agree() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = Pid::from_child(&child);
        let found = (children().contains(&id), children_of(rustix::process::getpid()).contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, (true, true));
    }
}
