//! What holds for any bytes: the suite runs it over seeds and random inputs, the fuzz targets over what they find.

use std::collections::HashSet;
use std::fmt::Debug;

use flowcell_transcripts::{ClaudeState, CodexState, Entry, Limits, MAX_NESTING, State, TranscriptError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Codex, over arbitrary bytes.
pub(crate) fn codex(data: &[u8]) {
    exercise::<CodexState>(data);
}

/// Claude Code, over arbitrary bytes.
pub(crate) fn claude(data: &[u8]) {
    exercise::<ClaudeState>(data);
}

fn exercise<S: State + Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    let start = S::default();
    for limits in [Limits::default(), Limits { line_bytes: data.len() / 3 }] {
        let whole = start.decode_with(&limits, data);
        assert_eq!(whole, start.decode_with(&limits, data), "the same input, the same result");
        assert_eq!(start, S::default(), "the input state is what it was");
        let by_line = chunked::<S>(&limits, data.split_inclusive(|byte| *byte == b'\n'));
        in_order(&by_line.0);
        // The bytes themselves say where to cut.
        let step = |seed: usize| 1 + data.get(seed).map_or(7, |byte| usize::from(*byte));
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let end = (at + step(at)).min(data.len());
            cuts.extend([data.get(at..end).unwrap_or_default(), &[]]);
            at = end;
        }
        let by_cut = chunked::<S>(&limits, cuts);
        let middle = data.split_at(data.len() / 2);
        let by_half = chunked::<S>(&limits, [middle.0, middle.1]);
        match whole {
            Ok(decoded) => {
                for (entries, state) in [by_line, by_cut, by_half] {
                    assert_eq!(state.as_ref(), Ok(&decoded.state));
                    assert_eq!(entries, decoded.entries);
                }
            }
            Err(error) => {
                for (entries, state) in [&by_cut, &by_half] {
                    assert_eq!(state.as_ref(), Err(&error));
                    assert!(by_line.0.starts_with(entries), "accepted entries are a prefix");
                }
                assert_eq!(by_line.1, Err(error));
            }
        }
    }
    for line in data.split(|byte| *byte == b'\n') {
        agrees::<S>(line);
    }
}

type Run<S> = (Vec<Entry>, Result<S, TranscriptError>);

fn chunked<'a, S: State + Serialize + DeserializeOwned + PartialEq + Debug>(
    limits: &Limits,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Run<S> {
    let (mut entries, mut state) = (Vec::new(), S::default());
    for chunk in chunks {
        match state.decode_with(limits, chunk) {
            Ok(decoded) => {
                let text = serde_json::to_string(&decoded.state).expect("a state is plain JSON");
                state = serde_json::from_str(&text).expect("a state is read as it was written");
                assert_eq!(state, decoded.state);
                entries.extend(decoded.entries);
            }
            Err(error) => return (entries, Err(error)),
        }
    }
    (entries, Ok(state))
}

fn in_order(entries: &[Entry]) {
    let mut ids = HashSet::new();
    let mut last = 0;
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(usize::try_from(entry.seq), Ok(number), "no gap");
        assert!(ids.insert(&entry.source_id), "{} twice", entry.source_id);
        let place = entry.source_id.strip_prefix(&*entry.session_id).and_then(|rest| rest.strip_prefix(':'));
        let line = place.and_then(|place| place.split('#').next()).and_then(|line| line.parse::<u64>().ok());
        let line = line.expect("a source id names its line");
        assert!(line >= last, "lines never decrease");
        last = line;
        assert!(entry.turn_id.as_deref() != Some(""), "a turn is never empty");
    }
}

/// Whether a line is a record is what another reader of JSON says too.
fn agrees<S: State>(line: &[u8]) {
    let text: String = match std::str::from_utf8(line) {
        Ok(text) => text.replace('\0', "?"),
        Err(_) => return,
    };
    let inner = text.trim_matches([' ', '\t', '\r']);
    if inner.is_empty() {
        return;
    }
    let json = serde_json::from_str::<serde::de::IgnoredAny>(inner).is_ok();
    let record = json && inner.starts_with('{') && depth(inner) <= MAX_NESTING;
    let bytes = [line, b"\n"].concat();
    let refused = match S::default().decode_with(&Limits::default(), &bytes) {
        Ok(_) => false,
        Err(error) => error.message.ends_with("is not a JSON record."),
    };
    assert_eq!(record, !refused, "{inner}");
}

/// Levels of the lists and objects of text that is JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut most, mut string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b'{' | b'[' if !string => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}
