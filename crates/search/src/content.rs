//! Searching the content of one file in bounded memory (search contract 2.1 and 5).
//!
//! A file passes through a window of whole lines; one of ordinary size fits into it. Nothing is believed before the
//! end of the file was seen, because a NUL byte anywhere makes it binary.

use crate::hits::{Collector, Hit, Keep, Kept};
use crate::lines;
use crate::matcher::LineMatcher;
use crate::symbols::{Encloser, MAX_SYMBOL_BYTES, Symbol};
use crate::watch::{Cut, Watch};
use memchr::{memchr, memrchr};

/// A longer line is matched on its start alone, on this many bytes of it at least.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// Where the bytes of a file come from.
pub(crate) trait Content {
    /// Appends at most `most` of the next bytes to `into`; whether the file ends with them. An error makes
    /// the file unreadable.
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<bool, Unreadable>;

    /// Size of the file when it was opened, in bytes.
    fn size(&self) -> u64;

    /// Goes back to the start, for a file that is as it was when it was opened.
    fn rewind(&mut self) -> bool;
}

/// The file could not be read to its end. A root fails the call with the reason, unless the file vanished
/// or shrank meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) gone: bool,
    pub(crate) reason: String,
}

/// What to look for in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) keep: Keep,
    /// Matching lines that count; the rest of the file is then ordinary text.
    pub(crate) count: u64,
    pub(crate) symbols: bool,
}

/// What one pattern found in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Matching lines, at most [`Ask::count`].
    pub(crate) count: u64,
    /// What was kept of them.
    pub(crate) kept: Kept,
    /// The symbols of the kept hits, when they were asked for.
    pub(crate) symbols: Vec<Option<Symbol>>,
}

impl Found {
    /// The hits with their symbols.
    pub(crate) fn into_hits(self) -> (Vec<Hit>, impl Iterator<Item = Option<Symbol>>) {
        (self.kept.hits, self.symbols.into_iter().chain(std::iter::repeat(None)))
    }
}

/// A search may look for its pattern and for the pattern's text at once (the literal retry).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Both<T> {
    pub(crate) pattern: T,
    pub(crate) literal: Option<T>,
}

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is text.
    Text(Both<Found>),
    /// It holds a NUL byte.
    Binary,
    /// It could not be read to its end.
    Unreadable(Unreadable),
}

/// One buffer and the matchers for all files of a search, or of a thread's part in one.
#[derive(Debug)]
pub(crate) struct Scanner {
    matchers: Both<LineMatcher>,
    window: Window,
}

/// Why a file is given up.
enum End {
    Binary,
    Unreadable(Unreadable),
    Cut(Cut),
}

impl From<Cut> for End {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

impl Scanner {
    pub(crate) fn new(matchers: Both<LineMatcher>) -> Self {
        Self { matchers, window: Window::default() }
    }

    /// Reads `content` to its end. The literal is looked for when it is asked for and there is one.
    pub(crate) fn scan(
        &mut self,
        content: &mut dyn Content,
        asks: Both<Ask>,
        watch: &Watch,
    ) -> Result<Outcome, Cut> {
        match self.read_through(content, asks, watch) {
            Ok(outcome) => Ok(outcome),
            Err(End::Binary) => Ok(Outcome::Binary),
            Err(End::Unreadable(reason)) => Ok(Outcome::Unreadable(reason)),
            Err(End::Cut(cut)) => Err(cut),
        }
    }

    fn read_through(
        &mut self,
        content: &mut dyn Content,
        asks: Both<Ask>,
        watch: &Watch,
    ) -> Result<Outcome, End> {
        let Self { matchers: Both { pattern, literal }, window } = self;
        let mut searches = Searches {
            pattern: InFile::new(pattern, asks.pattern),
            literal: literal.as_mut().zip(asks.literal).map(|(literal, ask)| InFile::new(literal, ask)),
        };
        window.reset();
        window.fill(content, PIECE, watch)?;
        let fits = window.at_end;
        let bom = window.bytes.len() - lines::without_bom(&window.bytes).len();
        if fits {
            let text = &window.bytes[bom..];
            searches.block(text, true, watch)?;
            return Ok(Outcome::Text(searches.finish(|founds| {
                enclose(founds, |enclosers| {
                    enclosers.iter_mut().for_each(|encloser| encloser.feed(text));
                    Ok(true)
                })
            })?));
        }
        window.drop_front(bom);
        while !window.at_end {
            if searches.are_settled() {
                // What is left can only turn out to be binary.
                window.bytes.clear();
            } else if let Some(newline) = window.last_line_end() {
                searches.block(&window.bytes[..=newline], false, watch)?;
                window.drop_front(newline + 1);
            } else if window.bytes.len() >= MAX_LINE_BYTES {
                searches.block(&window.bytes, false, watch)?;
                window.skip_line(content, watch)?;
                continue;
            }
            window.fill(content, PIECE, watch)?;
        }
        if !searches.are_settled() {
            searches.block(&window.bytes, true, watch)?;
        }
        if window.total > MAX_SYMBOL_BYTES as u64 {
            return Ok(Outcome::Text(searches.finish(|_| Ok(()))?));
        }
        Ok(Outcome::Text(
            searches
                .finish(|founds| enclose(founds, |enclosers| reread(content, window, enclosers, watch)))?,
        ))
    }
}

/// Looks the symbols of the kept hits up. `feed` gives the whole text; false when there is none to give.
fn enclose(
    founds: &mut [(&mut Found, bool)],
    feed: impl FnOnce(&mut [Encloser]) -> Result<bool, End>,
) -> Result<(), End> {
    let asked = |(found, symbols): &&mut (&mut Found, bool)| *symbols && !found.kept.hits.is_empty();
    let mut enclosers: Vec<Encloser> = founds
        .iter_mut()
        .filter(|entry| asked(entry))
        .map(|(found, _)| Encloser::new(found.kept.hits.iter().map(|hit| hit.line.number)))
        .collect();
    if enclosers.is_empty() || !feed(&mut enclosers)? {
        return Ok(());
    }
    for ((found, _), encloser) in founds.iter_mut().filter(|entry| asked(entry)).zip(enclosers) {
        found.symbols = encloser.finish();
    }
    Ok(())
}

/// Reads the file a second time, for symbols alone. A file that changed since has none.
fn reread(
    content: &mut dyn Content,
    window: &mut Window,
    enclosers: &mut [Encloser],
    watch: &Watch,
) -> Result<bool, End> {
    let length = window.total;
    window.reset();
    if !content.rewind() {
        return Ok(false);
    }
    let mut at_start = true;
    while !window.at_end && !enclosers.iter().all(Encloser::is_settled) {
        let read = match window.fill(content, PIECE, watch) {
            Ok(()) => window.total,
            Err(End::Cut(cut)) => return Err(End::Cut(cut)),
            Err(_) => return Ok(false),
        };
        if std::mem::take(&mut at_start) {
            let bom = window.bytes.len() - lines::without_bom(&window.bytes).len();
            window.drop_front(bom);
        }
        if read > length || (window.at_end && read != length) {
            return Ok(false);
        }
        let end =
            if window.at_end { window.bytes.len() } else { window.last_line_end().map_or(0, |at| at + 1) };
        enclosers.iter_mut().for_each(|encloser| encloser.feed(&window.bytes[..end]));
        window.drop_front(end);
    }
    Ok(content.rewind())
}

/// The part of a file that is in memory.
#[derive(Debug, Default)]
struct Window {
    bytes: Vec<u8>,
    /// Where the latest piece begins.
    latest: usize,
    /// Bytes read of this file.
    total: u64,
    at_end: bool,
}

impl Window {
    fn reset(&mut self) {
        self.bytes.clear();
        self.latest = 0;
        self.total = 0;
        self.at_end = false;
        // One huge line does not keep its memory for the rest of the search.
        if self.bytes.capacity() > 4 * PIECE {
            self.bytes = Vec::new();
        }
    }

    /// Reads one piece more.
    fn fill(&mut self, content: &mut dyn Content, most: usize, watch: &Watch) -> Result<(), End> {
        watch.check()?;
        self.latest = self.bytes.len();
        self.at_end = content.read(&mut self.bytes, most).map_err(End::Unreadable)?;
        let read = &self.bytes[self.latest..];
        if memchr(0, read).is_some() {
            return Err(End::Binary);
        }
        self.total += read.len() as u64;
        if self.at_end && self.total < content.size() {
            let reason = "the file shrank while it was read".to_owned();
            return Err(End::Unreadable(Unreadable { gone: true, reason }));
        }
        Ok(())
    }

    /// Where the last line that is whole ends. What was there before the latest piece has no end of a line.
    fn last_line_end(&self) -> Option<usize> {
        let latest = self.latest.min(self.bytes.len());
        memrchr(b'\n', &self.bytes[latest..]).map(|at| latest + at)
    }

    fn drop_front(&mut self, length: usize) {
        self.bytes.drain(..length);
        self.latest = self.latest.saturating_sub(length);
    }

    /// Drops everything up to the start of the next line, or to the end of the file.
    fn skip_line(&mut self, content: &mut dyn Content, watch: &Watch) -> Result<(), End> {
        self.bytes.clear();
        while !self.at_end {
            self.fill(content, PIECE, watch)?;
            if let Some(newline) = memchr(b'\n', &self.bytes) {
                self.drop_front(newline + 1);
                // More lines may have come with it.
                self.latest = 0;
                return Ok(());
            }
            self.bytes.clear();
        }
        Ok(())
    }
}

/// The searches of one file.
struct Searches<'a> {
    pattern: InFile<'a>,
    literal: Option<InFile<'a>>,
}

impl Searches<'_> {
    fn are_settled(&self) -> bool {
        self.pattern.is_settled() && self.literal.as_ref().is_none_or(InFile::is_settled)
    }

    fn block(&mut self, bytes: &[u8], last: bool, watch: &Watch) -> Result<(), Cut> {
        self.pattern.block(bytes, last, watch)?;
        match &mut self.literal {
            Some(literal) => literal.block(bytes, last, watch),
            None => Ok(()),
        }
    }

    /// What was found; `symbols` looks the symbols up, of each where they were asked for.
    fn finish(
        self,
        symbols: impl FnOnce(&mut [(&mut Found, bool)]) -> Result<(), End>,
    ) -> Result<Both<Found>, End> {
        let Self { pattern, literal } = self;
        let asked = pattern.symbols;
        let mut both = Both { pattern: pattern.finish(), literal: literal.map(InFile::finish) };
        let mut founds = vec![(&mut both.pattern, asked)];
        founds.extend(both.literal.as_mut().map(|found| (found, asked)));
        symbols(&mut founds)?;
        Ok(both)
    }
}

/// The search of one file for one pattern.
struct InFile<'a> {
    matcher: &'a mut LineMatcher,
    collector: Collector,
    count: u64,
    most: u64,
    symbols: bool,
}

impl<'a> InFile<'a> {
    fn new(matcher: &'a mut LineMatcher, ask: Ask) -> Self {
        let Ask { keep, count: most, symbols } = ask;
        Self { matcher, collector: Collector::new(keep), count: 0, most, symbols }
    }

    /// Whether nothing that follows can change what is counted or kept.
    fn is_settled(&self) -> bool {
        self.count >= self.most && !self.collector.is_capturing()
    }

    /// Searches a run of whole lines; `last` tells that the file ends with it.
    fn block(&mut self, bytes: &[u8], last: bool, watch: &Watch) -> Result<(), Cut> {
        if self.is_settled() {
            return Ok(());
        }
        if self.matcher.needs_text() && std::str::from_utf8(bytes).is_err() {
            let decoded = String::from_utf8_lossy(bytes);
            return self.lines(decoded.as_bytes(), last, watch);
        }
        self.lines(bytes, last, watch)
    }

    fn lines(&mut self, bytes: &[u8], last: bool, watch: &Watch) -> Result<(), Cut> {
        let block = self.matcher.block(bytes);
        let mut at = 0;
        while self.count < self.most {
            let Some(line) = self.matcher.next(&block, at, watch)? else { break };
            self.collector.gap(&bytes[at..line.start], false);
            self.collector.hit(&bytes[line.clone()]);
            self.count += 1;
            at = line.end;
        }
        self.collector.gap(&bytes[at..], last || self.count >= self.most);
        Ok(())
    }

    fn finish(self) -> Found {
        Found { count: self.count, kept: self.collector.finish(), symbols: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hits::Room;
    use crate::pattern::Pattern;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A file in memory that is read in small pieces.
    struct Memory<'a> {
        bytes: &'a [u8],
        at: usize,
        size: usize,
    }

    impl Content for Memory<'_> {
        fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<bool, Unreadable> {
            let end = (self.at + most).min(self.bytes.len());
            into.extend_from_slice(&self.bytes[self.at..end]);
            let at_end = end - self.at < most;
            self.at = end;
            Ok(at_end)
        }

        fn size(&self) -> u64 {
            self.size as u64
        }

        fn rewind(&mut self) -> bool {
            self.at = 0;
            true
        }
    }

    const ROOMY: Room = Room::InTurn(u64::MAX);

    fn scanner(pattern: &Pattern) -> Scanner {
        Scanner::new(Both { pattern: LineMatcher::new(pattern).unwrap(), literal: None })
    }

    fn asks(keep: Keep, count: u64, symbols: bool) -> Both<Ask> {
        Both { pattern: Ask { keep, count, symbols }, literal: None }
    }

    fn scan(pattern: &Pattern, bytes: &[u8], keep: Keep) -> Outcome {
        let mut content = Memory { bytes, at: 0, size: bytes.len() };
        let asks = asks(keep, u64::MAX, true);
        scanner(pattern).scan(&mut content, asks, &Watch::new(|| false)).unwrap()
    }

    fn matching(pattern: &str, bytes: &[u8]) -> Vec<u64> {
        let keep = Keep { hits: 1000, before: 0, after: 0, room: ROOMY };
        match scan(&Pattern::regex(pattern).unwrap(), bytes, keep) {
            Outcome::Text(Both { pattern: found, .. }) => {
                assert_eq!(found.count, found.kept.hits.len() as u64);
                found.kept.hits.iter().map(|hit| hit.line.number).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_end_as_the_contract_says() {
        assert_eq!(matching("", b""), Vec::<u64>::new());
        assert_eq!(matching("", b"\n"), [1]);
        assert_eq!(matching("", b"a\n\nb"), [1, 2, 3]);
        assert_eq!(matching("^$", b"a\r\n\r\n\n"), [2, 3]);
        assert_eq!(matching("a$", b"a\r\na\na\r"), [1, 2]);
        assert_eq!(matching("a.$", b"a\r\na\r\r\na\r"), [2, 3]);
        assert_eq!(matching("a.b", b"a\rb\na\nb\n"), [1]);
        assert_eq!(matching("a[^x]", b"a\r\na\r"), [2]);
        assert_eq!(matching("^a", b"\xef\xbb\xbfa\n"), [1]);
        assert_eq!(matching("^.$", b"\xef\xbb\xbfa\n"), [1]);
        assert_eq!(matching("a^b|a$b", b"a\nb\nab\n"), Vec::<u64>::new());
        assert_eq!(matching("$^", b"\r\nx\n"), [1]);
    }

    #[test]
    fn text_is_decoded_before_it_is_matched() {
        assert_eq!(matching("^a.b$", b"a\xffb\n"), [1]);
        assert_eq!(matching("^a..b$", b"a\xff\xfeb\n"), [1]);
        assert_eq!(matching("^a.b$", b"a\xf0\x9f\x98b\n"), [1]);
        assert_eq!(matching("^a[^x]b$", "a\u{e9}b\n".as_bytes()), [1]);
        assert_eq!(matching("ab", b"\xffab\xff\n"), [1]);
        let kelvin = Pattern::regex("k[s]").unwrap().ignoring_case(true);
        let keep = Keep { hits: 9, before: 0, after: 0, room: ROOMY };
        let Outcome::Text(found) = scan(&kelvin, "\u{212a}\u{17f}\n".as_bytes(), keep) else {
            panic!("text")
        };
        assert_eq!(found.pattern.count, 1);
    }

    #[test]
    fn a_window_sees_what_a_whole_file_would() {
        let filler = "x".repeat(99);
        let mut text = String::from("\u{feff}needle 1\r\n");
        let lines = MAX_SYMBOL_BYTES / 100 + 5000;
        for number in 2..=lines {
            if number % 7919 == 0 {
                text.push_str("needle\n");
            } else {
                text.push_str(&filler);
                text.push('\n');
            }
        }
        text.push_str("last needle");
        let want: Vec<u64> = (1..=lines as u64 + 1)
            .filter(|number| number % 7919 == 0 || *number == 1 || *number == lines as u64 + 1)
            .collect();
        assert_eq!(matching("needle", text.as_bytes()), want);
        assert_eq!(matching("^needle( 1)?$|e$", text.as_bytes()), want);
        let keep = Keep { hits: 3, before: 2, after: 1, room: ROOMY };
        let needle = Pattern::literal("needle").unwrap();
        let Outcome::Text(Both { pattern: found, .. }) = scan(&needle, text.as_bytes(), keep) else {
            panic!("text")
        };
        let hit = &found.kept.hits[1];
        assert_eq!(hit.before.iter().map(|line| line.number).collect::<Vec<_>>(), [7917, 7918]);
        assert_eq!(hit.after.iter().map(|line| line.number).collect::<Vec<_>>(), [7920]);
        // The file is too long for symbols.
        assert!(found.symbols.is_empty());
        text.push('\0');
        assert_eq!(scan(&Pattern::literal("needle").unwrap(), text.as_bytes(), keep), Outcome::Binary);
    }

    #[test]
    fn symbols_of_a_file_that_does_not_fit() {
        let mut text = String::from("\u{feff}fn outer() {\n");
        while text.len() < 3 * PIECE {
            text.push_str("    let filler = 1;\n");
        }
        text.push_str("    fn inner() {\n        needle\n    }\n    needle\n}\n");
        let lines = text.lines().count() as u64;
        let keep = Keep { hits: 3, before: 0, after: 0, room: ROOMY };
        let needle = Pattern::literal("needle").unwrap();
        let Outcome::Text(Both { pattern: found, .. }) = scan(&needle, text.as_bytes(), keep) else {
            panic!("text")
        };
        let symbols: Vec<_> =
            found.symbols.iter().flatten().map(|symbol| (symbol.name.as_str(), symbol.end_line)).collect();
        assert_eq!(symbols, [("inner", lines - 2), ("outer", lines)]);
    }

    #[test]
    fn a_pattern_and_its_text_are_looked_for_at_once() {
        let pattern = Pattern::regex("a(b)").unwrap();
        let literal = pattern.as_literal().unwrap();
        let compile = |pattern: &Pattern| LineMatcher::new(pattern).unwrap();
        let mut scanner = Scanner::new(Both { pattern: compile(&pattern), literal: Some(compile(&literal)) });
        let keep = Keep { hits: 3, before: 0, after: 1, room: ROOMY };
        let ask = Ask { keep, count: 5, symbols: false };
        for filler in [0, 2 * PIECE] {
            let text = format!("{}\na(b)\nab\n", "x".repeat(filler));
            let mut content = Memory { bytes: text.as_bytes(), at: 0, size: text.len() };
            let asks = Both { pattern: ask, literal: Some(ask) };
            let outcome = scanner.scan(&mut content, asks, &Watch::new(|| false)).unwrap();
            let Outcome::Text(Both { pattern, literal: Some(literal) }) = outcome else { panic!("text") };
            let lines = |found: &Found| found.kept.hits.iter().map(|hit| hit.line.number).collect::<Vec<_>>();
            assert_eq!((lines(&pattern), lines(&literal)), (vec![3], vec![2]));
            assert_eq!(literal.kept.hits[0].after.len(), 1);
        }
    }

    #[test]
    fn a_huge_line_is_matched_on_its_start() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + 3 * PIECE];
        text[5] = b'n';
        let end = text.len();
        text[end - 1] = b'm';
        text.extend_from_slice(b"\nn\nm\n");
        assert_eq!(matching("n", &text), [1, 2]);
        assert_eq!(matching("m", &text), [3]);
    }

    #[test]
    fn a_file_that_shrinks_is_unreadable() {
        let mut scanner = scanner(&Pattern::regex("a").unwrap());
        let ask = asks(Keep { hits: 1, before: 0, after: 0, room: ROOMY }, 1, false);
        let mut content = Memory { bytes: b"a\n", at: 0, size: 3 };
        let outcome = scanner.scan(&mut content, ask, &Watch::new(|| false)).unwrap();
        assert!(matches!(outcome, Outcome::Unreadable(Unreadable { gone: true, .. })));
    }

    #[test]
    fn the_watch_is_asked_inside_long_lines() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let mut scanner = scanner(&Pattern::regex("(a|b)*c").unwrap());
        let ask = asks(Keep { hits: 1, before: 0, after: 0, room: ROOMY }, 1, false);
        let bytes = vec![b'a'; 4 * 1024 * 1024];
        let mut content = Memory { bytes: &bytes, at: 0, size: bytes.len() };
        let watch = Watch::new(|| ASKED.fetch_add(1, Ordering::Relaxed) >= 8);
        assert_eq!(scanner.scan(&mut content, ask, &watch), Err(Cut));
        assert_eq!(ASKED.load(Ordering::Relaxed), 9);
    }
}
