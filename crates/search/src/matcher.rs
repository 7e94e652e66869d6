//! Finding the lines that match, in blocks of whole lines.
//!
//! Plain text whose case counts is looked for as it is. Two automata serve any other pattern. The fast one
//! runs over many lines at once; the exact one reads the text of one line, its terminator removed, and can be
//! stopped inside a long line. The fast one is believed where both have to agree and its finds are checked by
//! the exact one elsewhere.

use crate::lines;
use crate::pattern::Pattern;
use crate::watch::{Cut, Watch};
use grep_matcher::{LineMatchKind, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::memmem::Finder;
use memchr::{memchr, memrchr};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use std::ops::Range;

/// Bytes searched at once, at most; the watch is asked between two slices.
const SLICE: usize = 64 * 1024;
/// Slices shrink as patterns grow, so that a slice takes about as long whatever the pattern is.
const SLICE_WORK: usize = 1024 * 1024;
const SMALLEST_SLICE: usize = 2048;
/// A longer line is matched with the automaton that can be stopped anywhere; a shorter one takes the fast automaton some
/// milliseconds.
const FAST_LINE: usize = 1024 * 1024;
/// The same for patterns of many states: bytes times states.
const LINE_WORK: usize = 16 * 1024 * 1024;
/// Patterns of more states are matched line by line with the automaton that can be stopped anywhere.
const FAST_STATES: u64 = 512;
/// Bytes between two looks at the watch inside a line, for patterns below and above that bound.
const STRIDE: usize = 1024;
const SHORT_STRIDE: usize = 64;

const NEST_LIMIT: u32 = 2048;
const NFA_BYTES: usize = 64 * 1024 * 1024;
/// What each automaton of each thread keeps of its states, at most.
const CACHE_BYTES: usize = 1024 * 1024;

/// A pattern that was accepted and still does not compile; no pattern is known to get here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern does not compile: {0}")]
pub(crate) struct CompileError(String);

/// A compiled pattern. A clone shares what was compiled and has its own memory to work in.
#[derive(Debug, Clone)]
pub(crate) enum LineMatcher {
    /// Plain text whose case counts: found in one pass whatever it is.
    Literal(Box<Finder<'static>>),
    Automata(Box<Automata>),
}

/// Both automata of one pattern.
#[derive(Debug, Clone)]
pub(crate) struct Automata {
    /// None for a pattern of more than [`FAST_STATES`] states.
    fast: Option<RegexMatcher>,
    exact: Exact,
    reads_any_scalar: bool,
    has_line_end: bool,
    /// Bytes between two looks at the watch, at most.
    slice: usize,
    /// A line of more bytes is not one slice.
    line: usize,
}

impl LineMatcher {
    /// Compiles `pattern`.
    pub(crate) fn new(pattern: &Pattern) -> Result<Self, CompileError> {
        if let Some(text) = pattern.plain_text().filter(|text| !text.is_empty()) {
            return Ok(Self::Literal(Box::new(Finder::new(text).into_owned())));
        }
        Automata::new(pattern).map(|automata| Self::Automata(Box::new(automata)))
    }

    /// A block of lines to look into.
    pub(crate) fn block<'a>(&self, bytes: &'a [u8]) -> Block<'a> {
        let sees_returns = match self {
            Self::Literal(_) => false,
            Self::Automata(automata) => automata.reads_any_scalar || automata.has_line_end,
        };
        Block { bytes, has_return: sees_returns && memchr(b'\r', bytes).is_some() }
    }

    /// Whether undecoded bytes and decoded text can give different answers.
    pub(crate) fn needs_text(&self) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Automata(automata) => automata.reads_any_scalar,
        }
    }

    /// The next matching line of `block` that starts at or after `from`, itself the start of a line;
    /// the range holds the line's terminator.
    pub(crate) fn next(
        &mut self,
        block: &Block<'_>,
        from: usize,
        watch: &Watch,
    ) -> Result<Option<Range<usize>>, Cut> {
        match self {
            Self::Literal(finder) => next_literal(finder, block.bytes, from, watch),
            Self::Automata(automata) => automata.next(block, from, watch),
        }
    }
}

/// The next line from `from` on that holds a text, which is of printable characters and so lies in one line.
fn next_literal(
    finder: &Finder<'_>,
    bytes: &[u8],
    from: usize,
    watch: &Watch,
) -> Result<Option<Range<usize>>, Cut> {
    let mut at = from;
    while at < bytes.len() {
        watch.check()?;
        let end = (at + SLICE).min(bytes.len());
        // What starts in this slice may end in the next.
        let reach = (end + finder.needle().len() - 1).min(bytes.len());
        if let Some(found) = finder.find(&bytes[at..reach]) {
            let found = at + found;
            return Ok(Some(lines::start(bytes, found)..lines::end(bytes, found)));
        }
        at = end;
    }
    Ok(None)
}

impl Automata {
    fn new(pattern: &Pattern) -> Result<Self, CompileError> {
        let expression = pattern.expression();
        let ignore_case = pattern.ignores_case();
        let is_fast = pattern.states() <= FAST_STATES;
        let states = usize::try_from(pattern.states()).unwrap_or(usize::MAX).max(1);
        let build = || {
            RegexMatcherBuilder::new()
                .case_insensitive(ignore_case)
                .multi_line(true)
                .line_terminator(Some(b'\n'))
                .nest_limit(NEST_LIMIT)
                .size_limit(NFA_BYTES)
                .dfa_size_limit(CACHE_BYTES)
                .build(&expression)
        };
        let fast = is_fast.then(build).transpose();
        Ok(Self {
            fast: fast.map_err(|error| CompileError(error.to_string()))?,
            exact: Exact::new(&expression, ignore_case, if is_fast { STRIDE } else { SHORT_STRIDE })?,
            reads_any_scalar: pattern.reads_any_scalar(),
            has_line_end: pattern.has_line_end(),
            slice: (SLICE_WORK / states).clamp(SMALLEST_SLICE, SLICE),
            line: (LINE_WORK / states).min(FAST_LINE),
        })
    }

    fn next(&mut self, block: &Block<'_>, from: usize, watch: &Watch) -> Result<Option<Range<usize>>, Cut> {
        let bytes = block.bytes;
        let check = block.has_return;
        let fast = self.fast.as_ref().filter(|_| !(block.has_return && self.has_line_end));
        let mut at = from;
        while at < bytes.len() {
            watch.check()?;
            let limit = (at + self.slice).min(bytes.len());
            let end = if limit == bytes.len() {
                limit
            } else if let Some(newline) = memrchr(b'\n', &bytes[at..limit]) {
                at + newline + 1
            } else {
                let end = lines::end(bytes, limit);
                if fast.is_some() && end - at <= self.line {
                    end
                } else if self.exact.matches(lines::text(&bytes[at..end]), watch)? {
                    return Ok(Some(at..end));
                } else {
                    at = end;
                    continue;
                }
            };
            while at < end {
                let slice = &bytes[at..end];
                // Without the fast automaton every line is a candidate. The error type has no values.
                let (inside, confirmed) = match fast.map(|fast| fast.find_candidate_line(slice)) {
                    None => (0, false),
                    Some(Ok(Some(LineMatchKind::Confirmed(inside)))) => (inside, !check),
                    Some(Ok(Some(LineMatchKind::Candidate(inside)))) => (inside, false),
                    Some(Ok(None) | Err(_)) => break,
                };
                let start = at + lines::start(slice, inside);
                if start == end {
                    // Behind the last terminator there is no line.
                    break;
                }
                let line_end = lines::end(bytes, at + inside);
                if confirmed || self.exact.matches(lines::text(&bytes[start..line_end]), watch)? {
                    return Ok(Some(start..line_end));
                }
                at = line_end;
            }
            at = end;
        }
        Ok(None)
    }
}

/// A run of whole lines for one matcher; only the last one may lack its terminator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    /// The matcher could see a carriage return that belongs to a terminator, and there is one.
    has_return: bool,
}

/// The automaton for one line's text.
#[derive(Debug, Clone)]
struct Exact {
    dfa: DFA,
    cache: Cache,
    stride: usize,
}

impl Exact {
    fn new(expression: &str, ignore_case: bool, stride: usize) -> Result<Self, CompileError> {
        let dfa = DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(MatchKind::LeftmostFirst)
                    .cache_capacity(CACHE_BYTES)
                    .skip_cache_capacity_check(true),
            )
            .syntax(syntax::Config::new().case_insensitive(ignore_case).utf8(false).nest_limit(NEST_LIMIT))
            .thompson(
                thompson::Config::new()
                    .utf8(false)
                    .which_captures(thompson::WhichCaptures::None)
                    .nfa_size_limit(Some(NFA_BYTES)),
            )
            .build(expression)
            .map_err(|error| CompileError(error.to_string()))?;
        let cache = dfa.create_cache();
        Ok(Self { dfa, cache, stride })
    }

    /// Whether `text` matches anywhere. One pass, one state at a time.
    fn matches(&mut self, text: &[u8], watch: &Watch) -> Result<bool, Cut> {
        let Self { dfa, cache, stride } = self;
        let Ok(mut state) = dfa.start_state_forward(cache, &Input::new(text)) else { return Ok(false) };
        for piece in text.chunks(*stride) {
            watch.check()?;
            for byte in piece {
                // Fails only under a limit on cache clears, which is not set.
                state = match dfa.next_state(cache, state, *byte) {
                    Ok(state) => state,
                    Err(_) => return Ok(false),
                };
                if state.is_tagged() {
                    if state.is_match() {
                        return Ok(true);
                    }
                    if state.is_dead() {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(dfa.next_eoi_state(cache, state).is_ok_and(|state| state.is_match()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_found_across_slices() {
        let pattern = Pattern::literal("needle").unwrap();
        let mut matcher = LineMatcher::new(&pattern).unwrap();
        let watch = Watch::new(|| false);
        for start in SLICE - 8..SLICE + 3 {
            let text = [vec![b'x'; start - 1], b"\n".to_vec(), b"needle needle\nneedl".to_vec()].concat();
            let block = matcher.block(&text);
            let line = start..start + 14;
            assert_eq!(matcher.next(&block, 0, &watch), Ok(Some(line.clone())));
            assert_eq!(matcher.next(&block, line.end, &watch), Ok(None));
        }
    }

    #[test]
    fn the_watch_is_asked_between_slices() {
        let mut matcher = LineMatcher::new(&Pattern::regex("b").unwrap()).unwrap();
        let text = vec![b'a'; 3 * SLICE];
        let block = matcher.block(&text);
        assert_eq!(matcher.next(&block, 0, &Watch::new(|| true)), Err(Cut));
    }
}
