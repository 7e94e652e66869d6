//! A decoder that holds its state.

use crate::{ClaudeState, CodexState, Decoded, Entry, Limits, TranscriptError};
use crate::{decode_claude_with, decode_codex_with};

/// The state of one of the two formats; code that serves both is written against it.
///
/// It is implemented by [`CodexState`] and [`ClaudeState`] and by nothing else.
pub trait State: Clone + Default + sealed::Sealed {
    /// The agent whose format it is.
    const AGENT: crate::AgentKind;

    /// [`decode_codex_with`] or [`decode_claude_with`].
    ///
    /// # Errors
    ///
    /// As those functions.
    fn decode_with(&self, limits: &Limits, chunk: &[u8]) -> Result<Decoded<Self>, TranscriptError>;

    /// Complete lines read so far, blank ones included.
    fn line(&self) -> u64;

    /// Entries emitted so far.
    fn seq(&self) -> u64;

    /// The agent's id of the session, once a record named it.
    fn session_id(&self) -> Option<&str>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::CodexState {}
    impl Sealed for crate::ClaudeState {}
}

impl State for CodexState {
    const AGENT: crate::AgentKind = crate::AgentKind::Codex;

    fn decode_with(&self, limits: &Limits, chunk: &[u8]) -> Result<Decoded<Self>, TranscriptError> {
        decode_codex_with(limits, self, chunk)
    }

    fn session_id(&self) -> Option<&str> {
        self.session().map(|session| &*session.id)
    }

    fn line(&self) -> u64 {
        Self::line(self)
    }

    fn seq(&self) -> u64 {
        Self::seq(self)
    }
}

impl State for ClaudeState {
    const AGENT: crate::AgentKind = crate::AgentKind::ClaudeCode;

    fn decode_with(&self, limits: &Limits, chunk: &[u8]) -> Result<Decoded<Self>, TranscriptError> {
        decode_claude_with(limits, self, chunk)
    }

    fn session_id(&self) -> Option<&str> {
        self.session()
    }

    fn line(&self) -> u64 {
        Self::line(self)
    }

    fn seq(&self) -> u64 {
        Self::seq(self)
    }
}

/// Feeds the chunks of one source to a decoder and keeps the state between them.
///
/// It is the pure function in a loop, no second decoder: [`Decoder::state`] is the plain state at any moment, and
/// [`Decoder::resume`] goes on from one.
///
/// ```
/// use flowcell_transcripts::{ClaudeState, Decoder};
///
/// let mut decoder = Decoder::<ClaudeState>::new();
/// for chunk in [&br#"{"type":"mo"#[..], &br#"de","mode":"normal"}"#[..], b"\n"] {
///     assert!(decoder.feed(chunk)?.is_empty());
/// }
/// assert_eq!(decoder.state().line(), 1);
/// # Ok::<(), flowcell_transcripts::TranscriptError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Decoder<S> {
    limits: Limits,
    state: S,
}

impl<S: State> Decoder<S> {
    /// A decoder before the first byte, with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::resume(S::default(), Limits::default())
    }

    /// A decoder that goes on from `state`.
    #[must_use]
    pub const fn resume(state: S, limits: Limits) -> Self {
        Self { limits, state }
    }

    /// Decodes the next chunk; the entries it completed come back.
    ///
    /// # Errors
    ///
    /// The first refused record of the chunk. Nothing of the chunk counts then: the state is the one before it.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Entry>, TranscriptError> {
        let decoded = self.state.decode_with(&self.limits, chunk)?;
        self.state = decoded.state;
        Ok(decoded.entries)
    }

    /// The state after the last chunk that was decoded.
    pub const fn state(&self) -> &S {
        &self.state
    }

    /// The state, without the decoder.
    #[must_use]
    pub fn into_state(self) -> S {
        self.state
    }
}
