//! `transcript decode`: the entries and the state as one JSON document, written as they come.

use std::io::{self, BufWriter, Read, Write};

use flowcell_engines::harness::transcripts::{ClaudeState, CodexState, Limits, TranscriptError};
use serde_json::json;

use super::agent::{self, Format};
use super::source::{Read1, Source};
use crate::args::{Agent, DecodeArgs};
use crate::environment::read_bounded;
use crate::errors::{Exit, Failure};
use crate::render;

/// A document of at most this many bytes of entries is written after one reading. For a longer one the file is read twice:
/// whether a record is refused has to be known before the first byte is written.
const HELD: usize = 8_388_608;
/// The longest state that is read. It holds the requests without a result, each of at most a line.
const STATE: u64 = 268_435_456;

pub(crate) fn run(out: &mut (dyn Write + Send), args: &DecodeArgs) -> Result<Exit, Failure> {
    let limits = match args.line_bytes {
        Some(0) => return Err(Failure::usage("invalid_input", "--line-bytes is at least 1")),
        Some(line_bytes) => Limits { line_bytes },
        None => Limits::default(),
    };
    let state = args.from_state.as_deref().map(read_state).transpose()?;
    let mut source = Source::open(&args.file)?;
    let told = match (&state, args.agent) {
        (Some(state), None) => agent::of_state(&parsed(state)?),
        (_, named) => named,
    };
    match source.agent(told)? {
        Agent::Codex => document::<CodexState>(out, &mut source, state.as_deref(), limits),
        Agent::Claude => document::<ClaudeState>(out, &mut source, state.as_deref(), limits),
    }
}

/// The document of a whole file, from the start state.
pub(crate) fn whole(
    out: &mut (dyn Write + Send),
    source: &mut Source,
    agent: Agent,
) -> Result<Exit, Failure> {
    match agent {
        Agent::Codex => document::<CodexState>(out, source, None, Limits::default()),
        Agent::Claude => document::<ClaudeState>(out, source, None, Limits::default()),
    }
}

/// The agent's word for the document.
fn word<S: Format>() -> &'static str {
    Agent::from(S::AGENT).word()
}

fn document<S: Format>(
    out: &mut (dyn Write + Send),
    source: &mut Source,
    state: Option<&[u8]>,
    limits: Limits,
) -> Result<Exit, Failure> {
    let state: S = match state {
        None => S::default(),
        // From the text: held requests keep the order of their members.
        Some(state) => parsed(state).map_err(|failure| {
            failure.hint(format!("A state of {} is what `decode` printed as `state`.", word::<S>()))
        })?,
    };
    let mut held = Some(Vec::new());
    let read = source.read(state.clone(), limits, |entries| {
        if let Some(text) = &mut held {
            for entry in &entries {
                separate(text)?;
                text.write_all(render::json(entry)?.as_bytes())?;
            }
            if text.len() > HELD {
                held = None;
            }
        }
        Ok(())
    })?;
    let end = match read.map_err(|error| unencoded(&error))? {
        Read1::Refused(error) => return Err(refusal::<S>(&error)),
        Read1::Whole(end) => end,
    };
    let mut out = BufWriter::with_capacity(65_536, out);
    let begun = write!(out, "{{\"agent\":\"{}\",\"entries\":[", word::<S>());
    let mut written = begun.and_then(|()| held.as_ref().map_or(Ok(()), |text| out.write_all(text)));
    if held.is_none() && written.is_ok() {
        let mut first = true;
        let again = source.read(state, limits, |entries| {
            for entry in &entries {
                if !std::mem::take(&mut first) {
                    out.write_all(b",")?;
                }
                out.write_all(render::json(entry)?.as_bytes())?;
            }
            Ok(())
        })?;
        written = match again {
            Err(error) => Err(error),
            Ok(Read1::Whole(_)) => Ok(()),
            // The document cannot be taken back.
            Ok(Read1::Refused(error)) => {
                return Err(Failure::new(
                    Exit::Failed,
                    "unreadable_file",
                    format!("the file changed while it was read, and what was printed is not whole: {error}"),
                ));
            }
        };
    }
    let ended = written
        .and_then(|()| Ok(render::json(&end)?))
        .and_then(|state| writeln!(out, "],\"state\":{state}}}"))
        .and_then(|()| out.flush());
    printed(ended)
}

/// What a refused record is answered with.
pub(crate) fn refusal<S: Format>(error: &TranscriptError) -> Failure {
    Failure::new(
        Exit::Failed,
        error.code.as_str(),
        format!("the transcript is refused at line {}: {}", error.line, error.message),
    )
    .with_document(json!({"agent": word::<S>(), "error": error}))
}

/// A reader that went away is no failure.
pub(crate) fn printed(written: io::Result<()>) -> Result<Exit, Failure> {
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(crate::commands::unprinted(&error)),
    }
}

fn unencoded(error: &io::Error) -> Failure {
    Failure::engine(format!("an entry cannot be encoded: {error}"))
}

fn separate(text: &mut Vec<u8>) -> io::Result<()> {
    if text.is_empty() { Ok(()) } else { text.write_all(b",") }
}

fn read_state(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    let bytes = if path.as_os_str() == "-" { read_input() } else { read_bounded(path, STATE) };
    bytes.map_err(|error| Failure::unreadable("the state", path, error))
}

fn read_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(STATE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STATE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is larger than {STATE} bytes")));
    }
    Ok(bytes)
}

fn parsed<T: serde::de::DeserializeOwned>(state: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(state).map_err(|error| {
        Failure::usage("invalid_input", format!("the state is not one of a decoder: {error}"))
            .at("--from-state")
    })
}
