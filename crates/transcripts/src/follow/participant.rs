//! Which processes are agents, and what they write (transcript contract 10).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::AgentKind;

/// Where to look: libraries read neither the environment nor the user's home, so both are handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The folder of processes, `/proc`.
    pub processes: PathBuf,
    /// The caller's home folder.
    pub home: PathBuf,
    /// The caller's own user id: processes of others are not looked at.
    pub uid: u32,
}

/// One agent that runs, and the one transcript it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Which agent.
    pub agent: AgentKind,
    /// Number of the process.
    pub pid: u32,
    /// When the process started, in clock ticks since the system did: with the number, one process and no other.
    pub started: u64,
    /// The agent's home; the transcript is beneath it.
    pub home: PathBuf,
    /// The transcript.
    pub transcript: PathBuf,
}

/// The agents of the caller, in the order of their process numbers. A process that vanishes, that may not be read, or that is
/// not linked to exactly one transcript is passed over.
#[must_use]
pub fn participants(places: &Places) -> Vec<Participant> {
    let Ok(folder) = fs::read_dir(&places.processes) else { return Vec::new() };
    let numbered = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut pids: Vec<u32> = numbered.collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| participant(places, pid)).collect()
}

fn participant(places: &Places, pid: u32) -> Option<Participant> {
    let process = places.processes.join(pid.to_string());
    if fs::metadata(&process).ok()?.uid() != places.uid {
        return None;
    }
    let started = started(&process)?;
    let environment = fs::read(process.join("environ")).ok()?;
    let executable = fs::read_link(process.join("exe")).ok()?;
    let home = |variable: &str, folder: &str| agent_home(&environment, variable, folder, &places.home);
    if is_named(&executable, "codex") {
        let home = home("CODEX_HOME", ".codex")?;
        let transcript = rollout(&process, &home)?;
        return Some(Participant { agent: AgentKind::Codex, pid, started, home, transcript });
    }
    // Any other executable counts when Claude Code's own home names its process.
    let home = home("CLAUDE_CONFIG_DIR", ".claude")?;
    let transcript = session(&home, pid)?;
    Some(Participant { agent: AgentKind::ClaudeCode, pid, started, home, transcript })
}

/// Whether the executable has this name; the system marks one that was replaced meanwhile.
fn is_named(executable: &Path, name: &str) -> bool {
    let own = executable.file_name().map(OsStr::as_bytes).unwrap_or_default();
    own.strip_suffix(b" (deleted)").unwrap_or(own) == name.as_bytes()
}

/// The start time: field 22, behind the name of the program, which is in parentheses and may hold any text.
fn started(process: &Path) -> Option<u64> {
    let stat = fs::read(process.join("stat")).ok()?;
    let text = String::from_utf8_lossy(&stat).into_owned();
    text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// What the process's environment says when that lies beneath the user's home, else the agent's folder in it. Links are
/// resolved before that is judged.
fn agent_home(environment: &[u8], variable: &str, folder: &str, home: &Path) -> Option<PathBuf> {
    let home = fs::canonicalize(home).ok()?;
    let prefix = format!("{variable}=");
    let named = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()));
    let named = named.and_then(|path| fs::canonicalize(OsStr::from_bytes(path)).ok());
    let beneath = named.filter(|path| path.starts_with(&home) && *path != home);
    Some(beneath.unwrap_or_else(|| home.join(folder)))
}

/// The one rollout that the process holds open.
fn rollout(process: &Path, home: &Path) -> Option<PathBuf> {
    let open = fs::read_dir(process.join("fd")).ok()?;
    let files = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let rollouts = files.filter(|path| {
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        path.starts_with(home) && name.starts_with(b"rollout-") && name.ends_with(b".jsonl")
    });
    only(rollouts)
}

/// The transcript of the session that the agent's home names for this process.
fn session(home: &Path, pid: u32) -> Option<PathBuf> {
    let named = fs::read(home.join("sessions").join(format!("{pid}.json"))).ok()?;
    let named: serde_json::Value = serde_json::from_slice(&named).ok()?;
    // A file that an earlier process of this number left names another one.
    if named.get("pid").and_then(serde_json::Value::as_u64).is_some_and(|own| own != u64::from(pid)) {
        return None;
    }
    let id = named.get("sessionId")?.as_str().filter(|id| !id.is_empty() && !id.contains(['/', '\0']))?;
    let projects = fs::read_dir(home.join("projects")).ok()?;
    let files = projects.filter_map(|project| Some(project.ok()?.path().join(format!("{id}.jsonl"))));
    only(files.filter(|path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())))
}

/// The one path there is; none when there are two.
fn only(paths: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut found: Option<PathBuf> = None;
    for path in paths {
        match &found {
            Some(first) if *first != path => return None,
            _ => found = Some(path),
        }
    }
    found
}
