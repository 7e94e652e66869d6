//! The sessions that run now (transcript contract 10).

use std::path::Path;

use flowcell_engines::harness::transcripts::follow::Participant;

use crate::args::Agent;
use crate::errors::Failure;
use crate::render::line;

/// The sessions of the caller's own agents, the newest process last.
#[cfg(target_os = "linux")]
pub(crate) fn sessions(home: &Path, agent: Option<Agent>) -> Vec<Participant> {
    use flowcell_engines::harness::transcripts::follow::{Places, participants};

    let uid = rustix::process::getuid().as_raw();
    let mut found = participants(&Places { processes: "/proc".into(), home: home.to_owned(), uid });
    found.retain(|participant| agent.is_none_or(|agent| Agent::from(participant.agent) == agent));
    found.sort_by_key(|participant| (participant.started, participant.pid));
    found
}

/// Whether the process of a participant still runs. What cannot be told counts as running.
#[cfg(target_os = "linux")]
pub(crate) fn runs(participant: &Participant) -> bool {
    let stat = match std::fs::read(format!("/proc/{}/stat", participant.pid)) {
        Ok(stat) => String::from_utf8_lossy(&stat).into_owned(),
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
    };
    // Behind the name, which is in parentheses and may hold any text: the state first, the start time as the twentieth.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let state = fields.next();
    let started = fields.nth(18).and_then(|field| field.parse::<u64>().ok());
    started.is_none_or(|started| started == participant.started) && !matches!(state, Some("Z" | "X"))
}

/// Elsewhere the file is named.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sessions(_: &Path, _: Option<Agent>) -> Vec<Participant> {
    Vec::new()
}

/// Elsewhere there is no participant.
#[cfg(not(target_os = "linux"))]
pub(crate) fn runs(_: &Participant) -> bool {
    false
}

/// A session in one line, its transcript last.
pub(crate) fn described(participant: &Participant) -> String {
    let agent = Agent::from(participant.agent).name();
    format!(
        "{agent:<11}  process {:<8} {}",
        participant.pid,
        line(&participant.transcript.display().to_string())
    )
}

/// When there is nothing to follow.
pub(crate) fn nothing(agent: Option<Agent>) -> Failure {
    let what = agent.map_or("Codex or Claude Code", Agent::name);
    Failure::new(
        crate::errors::Exit::Failed,
        "not_found",
        format!("no session of {what} runs as your user on this machine"),
    )
    .hint("Name the transcript: `flowcell transcript follow FILE`.")
}
