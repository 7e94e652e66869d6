//! `transcript follow`: the entries of a session while it is written (transcript contract 10).

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flowcell_engines::harness::transcripts::follow::{Checkpoint, Participant, Step, Tail};
use flowcell_engines::harness::transcripts::{ClaudeState, CodexState, Entry, TranscriptError};
use tokio_util::sync::CancellationToken;

use super::agent::{self, Format};
use super::terminal::Terminal;
use super::{decode, live};
use crate::args::{Agent, FollowArgs};
use crate::environment::{Environment, read_bounded};
use crate::errors::{Exit, Failure};
use crate::render::{self, Messages, Surface, line};

/// How often a file is looked at. The contract asks for four times a second; at this pace a record is out well under a quarter
/// of a second after its newline.
const LOOK: Duration = Duration::from_millis(100);
/// How often the processes are looked at.
const SESSIONS: Duration = Duration::from_millis(250);
/// How much of a file is read to recognise its agent.
const RECOGNISE: u64 = 1_048_576;

pub(crate) async fn run(
    surface: &mut Surface<'_>,
    environment: &Environment,
    colour: bool,
    args: &FollowArgs,
) -> Result<Exit, Failure> {
    let mut signals = crate::commands::listen()?;
    let cancel = CancellationToken::new();
    let mut follower = Follower {
        out: &mut *surface.out,
        json: surface.json,
        messages: surface.messages,
        terminal: Terminal::new(colour, false),
        checkpoint: args.checkpoint.clone(),
        cancel: cancel.clone(),
    };
    let done = signals.or(follower.follow(environment, args), &cancel).await;
    match done.unwrap_or(Ok(Exit::Interrupted)) {
        // A reader that went away wants no more.
        Err(Halt::Unwritten(error)) => decode::printed(Err(error)),
        Err(Halt::Failed(failure)) => Err(failure),
        Ok(exit) => Ok(exit),
    }
}

/// Why following ends before its end.
enum Halt {
    /// Standard output took no more.
    Unwritten(io::Error),
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

/// How the following of one source ended.
enum End {
    /// Ctrl-C or SIGTERM.
    Cancelled,
    /// All of it is read, and its process writes another one.
    Moved(Box<Participant>),
    /// All of it is read, and its process has ended, or nothing more is expected of it.
    Over(Option<TranscriptError>),
}

/// Until when a source is followed.
enum Until<'a> {
    /// For good.
    Cancelled,
    /// Until its process writes another one, or ends.
    Process(&'a Participant, &'a Path),
    /// Until its end as it is now.
    Read,
}

struct Follower<'a> {
    out: &'a mut (dyn Write + Send),
    json: bool,
    messages: Messages,
    terminal: Terminal,
    checkpoint: Option<PathBuf>,
    cancel: CancellationToken,
}

impl Follower<'_> {
    async fn follow(&mut self, environment: &Environment, args: &FollowArgs) -> Result<Exit, Halt> {
        match &args.file {
            Some(file) => {
                let folder = environment.folder.as_deref().unwrap_or_else(|| Path::new("/"));
                self.named(&folder.join(file), args.agent).await
            }
            None => self.newest(environment, args.agent).await,
        }
    }

    /// Follows the file that was named.
    async fn named(&mut self, file: &Path, agent: Option<Agent>) -> Result<Exit, Halt> {
        let (Some(root), Some(_)) = (file.parent(), file.file_name()) else {
            return Err(unopened(file, "it is not the name of a file").into());
        };
        let Some(agent) = self.recognise(file, agent).await? else { return Ok(Exit::Interrupted) };
        match self.source(agent, root, file, Until::Cancelled).await? {
            End::Over(Some(error)) => Err(refused(file, &error).into()),
            _ => Ok(Exit::Interrupted),
        }
    }

    /// The agent of a file, which may have no record yet; `None` when that was not awaited.
    async fn recognise(&self, file: &Path, named: Option<Agent>) -> Result<Option<Agent>, Failure> {
        if named.is_some() {
            return Ok(named);
        }
        let mut waits = false;
        loop {
            let metadata = std::fs::symlink_metadata(file).map_err(|error| unopened(file, error))?;
            if !metadata.is_file() {
                let why =
                    if metadata.is_symlink() { "a link is not followed" } else { "it is not a regular file" };
                return Err(unopened(file, why));
            }
            let first = first_bytes(file).map_err(|error| unopened(file, error))?;
            if let Some(agent) = agent::of_records(&first).or_else(|| agent::of_name(file)) {
                return Ok(Some(agent));
            }
            if first.len() as u64 >= RECOGNISE || first.contains(&b'\n') && !first.trim_ascii().is_empty() {
                return Err(unopened(file, "no record at its start tells which agent wrote it")
                    .hint("Say --agent codex or --agent claude."));
            }
            if !std::mem::replace(&mut waits, true) {
                self.messages.warn(&format!(
                    "{} holds no record yet; waiting for one",
                    line(&file.display().to_string())
                ));
            }
            if self.pause().await {
                return Ok(None);
            }
        }
    }

    /// Lists the sessions and follows the newest, and the sessions its process begins after that one.
    async fn newest(&mut self, environment: &Environment, agent: Option<Agent>) -> Result<Exit, Halt> {
        let Some(home) = environment.home.as_deref() else {
            return Err(Failure::usage(
                "usage",
                "HOME is not set, so there is no place to look for sessions",
            )
            .hint("Name the transcript: `flowcell transcript follow FILE`.")
            .into());
        };
        let sessions = live::sessions(home, agent);
        let kept = self.kept()?;
        // The session that was followed is gone on with while it runs.
        let same =
            kept.as_ref().and_then(|kept| sessions.iter().rfind(|session| session.transcript == kept.path));
        let Some(chosen) = same.or(sessions.last()).cloned() else { return Err(live::nothing(agent).into()) };
        for session in &sessions {
            let mark = if *session == chosen { "▸" } else { " " };
            self.messages.note(&format!("{mark} {}", live::described(session)));
        }
        if let Some(kept) = kept.filter(|kept| kept.path != chosen.transcript) {
            self.rest(&kept, &chosen).await?;
        }
        let mut source = chosen;
        loop {
            let agent = Agent::from(source.agent);
            let until = Until::Process(&source, home);
            match self.source(agent, &source.home, &source.transcript, until).await? {
                End::Cancelled => return Ok(Exit::Interrupted),
                End::Moved(next) => {
                    self.messages.note(&format!("▸ {}", live::described(&next)));
                    self.terminal.anew();
                    source = *next;
                }
                End::Over(refusal) => {
                    self.messages.note(&format!("process {} has ended", source.pid));
                    return match refusal {
                        Some(error) => Err(refused(&source.transcript, &error).into()),
                        None => Ok(Exit::Done),
                    };
                }
            }
        }
    }

    /// What the checkpoint's own source got since, when its process has gone on to another one meanwhile.
    async fn rest(&mut self, kept: &Kept, chosen: &Participant) -> Result<(), Halt> {
        if !kept.path.starts_with(&chosen.home) {
            self.messages.warn(&format!(
                "the checkpoint is of {}, whose session has ended; it is not gone on with",
                line(&kept.path.display().to_string())
            ));
            return Ok(());
        }
        match self.source(kept.agent, &chosen.home, &kept.path, Until::Read).await {
            Ok(_) => {}
            Err(Halt::Failed(failure)) => self.messages.warn(&failure.message),
            Err(other) => return Err(other),
        }
        self.terminal.anew();
        Ok(())
    }

    /// The source that the checkpoint is of.
    fn kept(&self) -> Result<Option<Kept>, Failure> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        let bytes = match read_bounded(path, u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::unreadable("the checkpoint", path, error)),
        };
        let kept: Checkpoint<serde_json::Value> =
            serde_json::from_slice(&bytes).map_err(|error| no_checkpoint(path, &error))?;
        let agent = agent::of_state(&kept.state).ok_or_else(|| no_checkpoint(path, &"it has no state"))?;
        Ok(Some(Kept { agent, path: kept.source.path }))
    }

    async fn source(
        &mut self,
        agent: Agent,
        root: &Path,
        file: &Path,
        until: Until<'_>,
    ) -> Result<End, Halt> {
        match agent {
            Agent::Codex => self.tail::<CodexState>(root, file, until).await,
            Agent::Claude => self.tail::<ClaudeState>(root, file, until).await,
        }
    }

    /// Follows one source.
    async fn tail<S: Format>(&mut self, root: &Path, file: &Path, until: Until<'_>) -> Result<End, Halt> {
        let from = self.from::<S>(file)?;
        let mut tail = Tail::<S>::open(root, file, from).map_err(|error| unopened(file, error))?;
        // Whether lines were read that the checkpoint does not know of.
        let mut unkept = true;
        let mut refusal = None;
        let mut looked = Instant::now();
        // What the processes said at the look before: the file is read to its end once more before that counts.
        let mut then: Option<End> = None;
        loop {
            if self.cancel.is_cancelled() {
                return Ok(End::Cancelled);
            }
            let waits = match tail.step().map_err(|error| unopened(file, error))? {
                Step::Record(entries) => {
                    unkept = true;
                    if !entries.is_empty() {
                        self.print(&entries)?;
                        self.keep(&tail)?;
                        unkept = false;
                    }
                    // A file that is long already does not hold a signal up.
                    tokio::task::yield_now().await;
                    false
                }
                Step::Anew => {
                    self.messages.warn(&format!(
                        "{} begins anew (generation {})",
                        line(&file.display().to_string()),
                        tail.generation()
                    ));
                    self.terminal.anew();
                    self.keep(&tail)?;
                    unkept = false;
                    false
                }
                Step::Stopped(entry, error) => {
                    self.print(std::slice::from_ref(&*entry))?;
                    refusal = Some(error);
                    true
                }
                Step::Waiting | Step::Ended => true,
            };
            if !waits {
                continue;
            }
            if std::mem::take(&mut unkept) && refusal.is_none() {
                self.keep(&tail)?;
            }
            match (&until, then.take()) {
                (Until::Read, _) => return Ok(End::Over(refusal)),
                (Until::Cancelled, _) if refusal.is_some() => return Ok(End::Over(refusal)),
                (_, Some(End::Over(_))) => return Ok(End::Over(refusal)),
                (_, Some(end)) => return Ok(end),
                (Until::Process(own, home), None) if looked.elapsed() >= SESSIONS => {
                    looked = Instant::now();
                    then = changed(own, home);
                    if then.is_some() {
                        continue;
                    }
                }
                _ => {}
            }
            if self.pause().await {
                return Ok(End::Cancelled);
            }
        }
    }

    /// Where this source is gone on from.
    fn from<S: Format>(&self, file: &Path) -> Result<Option<Checkpoint<S>>, Failure> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        let Some(kept) = self.kept()? else { return Ok(None) };
        if kept.path != file {
            self.messages.warn(&format!(
                "the checkpoint is of {}; {} is read from its start",
                line(&kept.path.display().to_string()),
                line(&file.display().to_string())
            ));
            return Ok(None);
        }
        Checkpoint::read(path).map_err(|error| no_checkpoint(path, &error))
    }

    /// The entries of one record are out when this returns.
    fn print(&mut self, entries: &[Entry]) -> Result<(), io::Error> {
        let mut text = Vec::new();
        for entry in entries {
            if self.json {
                text.extend(render::json(entry)?.into_bytes());
                text.push(b'\n');
            } else {
                self.terminal.entry(&mut text, entry)?;
            }
        }
        self.out.write_all(&text)?;
        self.out.flush()
    }

    fn keep<S: Format>(&self, tail: &Tail<S>) -> Result<(), Failure> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        tail.checkpoint().write(path).map_err(|error| {
            Failure::engine(format!("the checkpoint {} cannot be written: {error}", path.display()))
                .at(path.display().to_string())
        })
    }

    /// Waits until it is time to look again; `true` when that is not to be.
    async fn pause(&self) -> bool {
        tokio::select! {
            () = self.cancel.cancelled() => true,
            () = tokio::time::sleep(LOOK) => false,
        }
    }
}

/// The source of a checkpoint.
struct Kept {
    agent: Agent,
    path: PathBuf,
}

/// What has become of the process that writes a source: the next source of the same participant, or its end.
fn changed(own: &Participant, home: &Path) -> Option<End> {
    if !live::runs(own) {
        return Some(End::Over(None));
    }
    let now = live::sessions(home, Some(Agent::from(own.agent)));
    let same = now.into_iter().find(|session| (session.pid, session.started) == (own.pid, own.started))?;
    (same.transcript != own.transcript).then(|| End::Moved(Box::new(same)))
}

fn first_bytes(file: &Path) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(file)?, RECOGNISE), &mut first)?;
    Ok(first)
}

fn unopened(file: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage("unreadable_file", format!("{} cannot be followed: {why}", file.display()))
        .at(file.display().to_string())
}

fn refused(file: &Path, error: &TranscriptError) -> Failure {
    Failure::new(
        Exit::Failed,
        error.code.as_str(),
        format!("{} is not followed any more, at line {}: {}", file.display(), error.line, error.message),
    )
    .at(file.display().to_string())
}

fn no_checkpoint(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage("invalid_input", format!("{} is no checkpoint of this transcript: {why}", path.display()))
        .at(path.display().to_string())
        .hint("Name another file, or remove it to read the transcript from its start.")
}
