//! Both formats behind one face, for tests that run over both.

use std::fmt::Debug;

use flowcell_transcripts::{ClaudeState, CodexState, Decoded, Entry, Limits, State, TranscriptError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A state that tests compare and pass through JSON.
pub(crate) trait Format: State + Serialize + DeserializeOwned + PartialEq + Debug {}
impl Format for CodexState {}
impl Format for ClaudeState {}

/// The default limits.
pub(crate) fn step<S: Format>(state: &S, chunk: &[u8]) -> Result<Decoded<S>, TranscriptError> {
    state.decode_with(&Limits::default(), chunk)
}

/// The whole of it, from the start state.
pub(crate) fn whole<S: Format>(bytes: &[u8]) -> Result<Decoded<S>, TranscriptError> {
    step(&S::default(), bytes)
}

/// The state, through JSON.
pub(crate) fn through_json<S: Format>(state: &S) -> S {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

/// The chunks one after another, the state through JSON between them, and what came before a refusal.
pub(crate) fn chunks<'a, S: Format>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Entry>, Result<S, TranscriptError>) {
    let (mut entries, mut state) = (Vec::new(), S::default());
    for chunk in chunks {
        match step(&state, chunk) {
            Ok(decoded) => {
                entries.extend(decoded.entries);
                state = through_json(&decoded.state);
            }
            Err(error) => return (entries, Err(error)),
        }
    }
    (entries, Ok(state))
}

/// One line a call, as the tail reader does.
pub(crate) fn lines<S: Format>(bytes: &[u8]) -> (Vec<Entry>, Result<S, TranscriptError>) {
    chunks(bytes.split_inclusive(|byte| *byte == b'\n'))
}
