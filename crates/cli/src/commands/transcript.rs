//! `transcript`: decoding, showing, following, serving.

use std::path::Path;

use flowcell_engines::harness::transcripts::{ClaudeState, CodexState, Limits};

use super::Session;
use crate::args::{Agent, ShowTranscriptArgs, TranscriptArgs, TranscriptVerb, When};
use crate::errors::{Exit, Failure};
use crate::render::count;
use crate::transcript::agent::Format;
use crate::transcript::source::{Read1, Source};
use crate::transcript::terminal::Terminal;
use crate::transcript::{decode, follow, page, serve};

pub(super) async fn run(session: &mut Session<'_, '_>, args: &TranscriptArgs) -> Result<Exit, Failure> {
    match &args.verb {
        TranscriptVerb::Decode(args) => {
            decode::run(session.surface.out, args).or_else(|failure| told(session, failure))
        }
        TranscriptVerb::Show(args) => show(session, args),
        TranscriptVerb::Follow(args) => {
            let colour = colour(session);
            Box::pin(follow::run(session.surface, session.environment, colour, args)).await
        }
        TranscriptVerb::Serve(args) => Box::pin(serve::run(session.surface, args)).await,
    }
}

/// `decode` answers with its document whether or not `--json` is said; with it, the failure is the document.
fn told(session: &mut Session<'_, '_>, failure: Failure) -> Result<Exit, Failure> {
    if !session.surface.json && failure.document.is_some() {
        session.surface.document(&failure.to_json()).map_err(|error| super::unprinted(&error))?;
    }
    Err(failure)
}

/// Whether what is shown has colours: it goes to standard output.
fn colour(session: &Session<'_, '_>) -> bool {
    match session.common.color.unwrap_or_default() {
        When::Always => true,
        When::Never => false,
        When::Auto => session.environment.output_terminal && !session.environment.no_colour,
    }
}

fn show(session: &mut Session<'_, '_>, args: &ShowTranscriptArgs) -> Result<Exit, Failure> {
    let mut source = Source::open(&args.file)?;
    let agent = source.agent(args.agent)?;
    if let Some(file) = &args.html {
        return match agent {
            Agent::Codex => write_page::<CodexState>(session, &mut source, file),
            Agent::Claude => write_page::<ClaudeState>(session, &mut source, file),
        };
    }
    if session.surface.json {
        return decode::whole(session.surface.out, &mut source, agent);
    }
    match agent {
        Agent::Codex => in_terminal::<CodexState>(session, &mut source, args.full),
        Agent::Claude => in_terminal::<ClaudeState>(session, &mut source, args.full),
    }
}

fn in_terminal<S: Format>(
    session: &mut Session<'_, '_>,
    source: &mut Source,
    full: bool,
) -> Result<Exit, Failure> {
    let mut terminal = Terminal::new(colour(session), full);
    let mut out = std::io::BufWriter::new(&mut *session.surface.out);
    let read = source.read(S::default(), Limits::default(), |entries| {
        entries.iter().try_for_each(|entry| terminal.entry(&mut out, entry))
    })?;
    let (written, refused) = match read {
        Err(error) => (Err(error), None),
        Ok(Read1::Whole(_)) => (terminal.end(&mut out, None), None),
        Ok(Read1::Refused(error)) => (terminal.end(&mut out, Some(&error)), Some(error)),
    };
    let exit = decode::printed(written.and_then(|()| std::io::Write::flush(&mut out)))?;
    refused.map_or(Ok(exit), |error| Err(decode::refusal::<S>(&error)))
}

fn write_page<S: Format>(
    session: &mut Session<'_, '_>,
    source: &mut Source,
    file: &Path,
) -> Result<Exit, Failure> {
    let written = page::write::<S>(source, file)?;
    if let Some(error) = &written.refused {
        return Err(
            decode::refusal::<S>(error).hint(format!("{} shows what comes before it.", file.display()))
        );
    }
    let document = serde_json::json!({
        "html": file.display().to_string(),
        "turns": written.turns,
        "entries": written.figures.entries,
    });
    let text = format!("{}: {}\n", file.display(), count(written.turns, "turn"));
    session.print(&document, &text)?;
    Ok(Exit::Done)
}
