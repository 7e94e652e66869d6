//! Searching the content of one file in bounded memory (search contract 2.1 and 5).
//!
//! A file of ordinary size is read whole; a larger one passes through a window of whole lines. Nothing
//! is believed before the end of the file was seen, because a NUL byte anywhere makes it binary.

use crate::hits::{Collector, Hit, Keep};
use crate::lines;
use crate::matcher::{Block, LineMatcher};
use crate::symbols::{MAX_SYMBOL_BYTES, Outline, Symbol};
use crate::watch::{Cut, Watch};
use memchr::{memchr, memrchr};

/// A longer line is matched on its start alone, on this many bytes of it at least.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes read at once of a file that does not fit.
const PIECE: usize = 256 * 1024;

/// Where the bytes of a file come from.
pub(crate) trait Content {
    /// Appends at most `most` of the next bytes to `into`; whether the file ends with them. An error makes
    /// the file unreadable.
    fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<bool, Unreadable>;

    /// Size of the file when it was opened, in bytes.
    fn size(&self) -> u64;
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

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is text.
    Text {
        /// Matching lines, at most [`Ask::count`].
        count: u64,
        /// The first of them, with their symbols.
        hits: Vec<(Hit, Option<Symbol>)>,
    },
    /// It holds a NUL byte.
    Binary,
    /// It could not be read to its end.
    Unreadable(Unreadable),
}

/// One buffer and one matcher for all files of a search.
#[derive(Debug)]
pub(crate) struct Scanner {
    matcher: LineMatcher,
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
    pub(crate) fn new(matcher: LineMatcher) -> Self {
        Self { matcher, window: Window::default() }
    }

    /// Reads `content` to its end.
    pub(crate) fn scan(
        &mut self,
        content: &mut dyn Content,
        ask: Ask,
        watch: &Watch,
    ) -> Result<Outcome, Cut> {
        match self.read_through(content, ask, watch) {
            Ok(outcome) => Ok(outcome),
            Err(End::Binary) => Ok(Outcome::Binary),
            Err(End::Unreadable(reason)) => Ok(Outcome::Unreadable(reason)),
            Err(End::Cut(cut)) => Err(cut),
        }
    }

    fn read_through(&mut self, content: &mut dyn Content, ask: Ask, watch: &Watch) -> Result<Outcome, End> {
        let Self { matcher, window } = self;
        window.reset();
        window.fill(content, MAX_SYMBOL_BYTES + 1, watch)?;
        let mut file = InFile { matcher, collector: Collector::new(ask.keep), count: 0, most: ask.count };
        if window.at_end && window.bytes.len() <= MAX_SYMBOL_BYTES {
            let text = lines::without_bom(&window.bytes);
            file.block(text, true, watch)?;
            let (count, hits) = file.finish();
            let outline = (ask.symbols && !hits.is_empty()).then(|| Outline::new(text));
            let hits = hits
                .into_iter()
                .map(|hit| {
                    let symbol = outline.as_ref().and_then(|outline| outline.enclosing(hit.line.number));
                    (hit, symbol)
                })
                .collect();
            return Ok(Outcome::Text { count, hits });
        }
        let bom = window.bytes.len() - lines::without_bom(&window.bytes).len();
        window.drop_front(bom);
        while !window.at_end {
            if file.is_settled() {
                // What is left can only turn out to be binary.
                window.bytes.clear();
            } else if let Some(newline) = memrchr(b'\n', &window.bytes) {
                file.block(&window.bytes[..=newline], false, watch)?;
                window.drop_front(newline + 1);
            } else if window.bytes.len() >= MAX_LINE_BYTES {
                file.block(&window.bytes, false, watch)?;
                window.skip_line(content, watch)?;
                continue;
            }
            window.fill(content, PIECE, watch)?;
        }
        if !file.is_settled() {
            file.block(&window.bytes, true, watch)?;
        }
        let (count, hits) = file.finish();
        Ok(Outcome::Text { count, hits: hits.into_iter().map(|hit| (hit, None)).collect() })
    }
}

/// The part of a file that is in memory.
#[derive(Debug, Default)]
struct Window {
    bytes: Vec<u8>,
    /// Bytes read of this file.
    total: u64,
    at_end: bool,
}

impl Window {
    fn reset(&mut self) {
        self.bytes.clear();
        self.total = 0;
        self.at_end = false;
        // One huge line does not keep its memory for the rest of the search.
        if self.bytes.capacity() > 2 * MAX_SYMBOL_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Reads one piece more.
    fn fill(&mut self, content: &mut dyn Content, most: usize, watch: &Watch) -> Result<(), End> {
        watch.check()?;
        let start = self.bytes.len();
        self.at_end = content.read(&mut self.bytes, most).map_err(End::Unreadable)?;
        let read = &self.bytes[start..];
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

    fn drop_front(&mut self, length: usize) {
        self.bytes.drain(..length);
    }

    /// Drops everything up to the start of the next line, or to the end of the file.
    fn skip_line(&mut self, content: &mut dyn Content, watch: &Watch) -> Result<(), End> {
        self.bytes.clear();
        while !self.at_end {
            self.fill(content, PIECE, watch)?;
            if let Some(newline) = memchr(b'\n', &self.bytes) {
                self.drop_front(newline + 1);
                return Ok(());
            }
            self.bytes.clear();
        }
        Ok(())
    }
}

/// The search of one file.
struct InFile<'a> {
    matcher: &'a mut LineMatcher,
    collector: Collector,
    count: u64,
    most: u64,
}

impl InFile<'_> {
    /// Whether nothing that follows can change what is counted or kept.
    fn is_settled(&self) -> bool {
        self.count >= self.most && !self.collector.is_capturing()
    }

    /// Searches a run of whole lines; `last` tells that the file ends with it.
    fn block(&mut self, bytes: &[u8], last: bool, watch: &Watch) -> Result<(), Cut> {
        if self.matcher.needs_text() && std::str::from_utf8(bytes).is_err() {
            let decoded = String::from_utf8_lossy(bytes);
            return self.lines(decoded.as_bytes(), last, watch);
        }
        self.lines(bytes, last, watch)
    }

    fn lines(&mut self, bytes: &[u8], last: bool, watch: &Watch) -> Result<(), Cut> {
        let block = Block::new(bytes);
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

    fn finish(self) -> (u64, Vec<Hit>) {
        (self.count, self.collector.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use std::cell::Cell;

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
    }

    fn scan(pattern: &Pattern, bytes: &[u8], keep: Keep) -> Outcome {
        let mut scanner = Scanner::new(LineMatcher::new(pattern).unwrap());
        let ask = Ask { keep, count: u64::MAX, symbols: true };
        let mut content = Memory { bytes, at: 0, size: bytes.len() };
        scanner.scan(&mut content, ask, &Watch::new(|| false)).unwrap()
    }

    fn matching(pattern: &str, bytes: &[u8]) -> Vec<u64> {
        let keep = Keep { hits: 1000, before: 0, after: 0 };
        match scan(&Pattern::regex(pattern).unwrap(), bytes, keep) {
            Outcome::Text { count, hits } => {
                assert_eq!(count, hits.len() as u64);
                hits.iter().map(|(hit, _)| hit.line.number).collect()
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
        let keep = Keep { hits: 9, before: 0, after: 0 };
        let Outcome::Text { count, .. } = scan(&kelvin, "\u{212a}\u{17f}\n".as_bytes(), keep) else {
            panic!("text")
        };
        assert_eq!(count, 1);
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
        let keep = Keep { hits: 3, before: 2, after: 1 };
        let Outcome::Text { hits, .. } = scan(&Pattern::literal("needle").unwrap(), text.as_bytes(), keep)
        else {
            panic!("text")
        };
        let (hit, symbol) = &hits[1];
        assert_eq!(hit.before.iter().map(|line| line.number).collect::<Vec<_>>(), [7917, 7918]);
        assert_eq!(hit.after.iter().map(|line| line.number).collect::<Vec<_>>(), [7920]);
        assert_eq!(*symbol, None);
        text.push('\0');
        assert_eq!(scan(&Pattern::literal("needle").unwrap(), text.as_bytes(), keep), Outcome::Binary);
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
        let mut scanner = Scanner::new(LineMatcher::new(&Pattern::regex("a").unwrap()).unwrap());
        let ask = Ask { keep: Keep { hits: 1, before: 0, after: 0 }, count: 1, symbols: false };
        let mut content = Memory { bytes: b"a\n", at: 0, size: 3 };
        let outcome = scanner.scan(&mut content, ask, &Watch::new(|| false)).unwrap();
        assert!(matches!(outcome, Outcome::Unreadable(Unreadable { gone: true, .. })));
    }

    #[test]
    fn the_watch_is_asked_inside_long_lines() {
        thread_local!(static ASKED: Cell<u32> = const { Cell::new(0) });
        let mut scanner = Scanner::new(LineMatcher::new(&Pattern::regex("(a|b)*c").unwrap()).unwrap());
        let ask = Ask { keep: Keep { hits: 1, before: 0, after: 0 }, count: 1, symbols: false };
        let bytes = vec![b'a'; 1024 * 1024];
        let mut content = Memory { bytes: &bytes, at: 0, size: bytes.len() };
        let watch = Watch::new(|| {
            ASKED.set(ASKED.get() + 1);
            ASKED.get() > 8
        });
        assert_eq!(scanner.scan(&mut content, ask, &watch), Err(Cut));
        assert_eq!(ASKED.get(), 9);
    }
}
