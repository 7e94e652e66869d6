//! What a `grep` found so far, file by file in the order of the walk (search contract 5).

use crate::content::{Ask, Found};
use crate::frontier::Passed;
use crate::grep::Grep;
use crate::hits::{Hit, Keep, Line, Room, fit};
use crate::notice::{self, Total};
use crate::query::{COUNT_CEILING, ContextLine, GREP_LIMIT, GrepAnswer, MAX_CONTEXT_BYTES, Match};
use crate::symbols::Symbol;

/// Bytes kept of a file whose turn has not come.
const ROOM_AHEAD: u64 = 32 * 1024;

/// The count of one pattern.
pub(crate) struct Tally {
    answer: GrepAnswer,
    /// Matches, or files under `filesWithMatches`.
    total: u64,
    /// Shown lines that were cut.
    cut_lines: u64,
    /// Bytes of context that may still be shown.
    room: u64,
    context_left_out: bool,
    /// What the walk had passed over when the count came to the ceiling.
    full: Option<Passed>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            answer: GrepAnswer::default(),
            total: 0,
            cut_lines: 0,
            room: MAX_CONTEXT_BYTES,
            context_left_out: false,
            full: None,
        }
    }
}

impl Tally {
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether the ceiling was reached.
    pub(crate) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Matches that may still be shown.
    fn left(&self, grep: &Grep) -> u64 {
        if grep.files_only { 0 } else { grep.limit.saturating_sub(self.total) }
    }

    /// What to look for in a file. `in_turn`: all files before it were taken.
    pub(crate) fn ask(&self, grep: &Grep, in_turn: bool, has_symbols: bool) -> Ask {
        let keep = Keep {
            hits: usize::try_from(self.left(grep)).unwrap_or(usize::MAX),
            before: grep.before,
            after: grep.after,
            room: if in_turn { Room::InTurn(self.room) } else { Room::Ahead(ROOM_AHEAD) },
        };
        let count = match grep.files_only {
            true => 1,
            // Matches over the ceiling are not told apart.
            false => grep.max_count.min(COUNT_CEILING.saturating_sub(self.total).max(1)),
        };
        Ask { keep, count, symbols: has_symbols && grep.symbols }
    }

    /// Whether the next file has to be read again in its turn, because less was kept of it than is shown.
    pub(crate) fn needs_more(&self, grep: &Grep, found: &Found) -> bool {
        found.kept.overflowed && self.left(grep) > 0
    }

    /// Takes the next file that cannot be read.
    pub(crate) fn unreadable(&mut self) {
        self.answer.files_searched += 1;
    }

    /// Takes the next file, which is binary.
    pub(crate) fn binary(&mut self) {
        self.answer.files_searched += 1;
        self.answer.skipped_binary += 1;
    }

    /// Takes the next file and what was found in it; `passed` is what the walk had passed over before.
    pub(crate) fn text(
        &mut self,
        grep: &Grep,
        found: Found,
        in_turn: bool,
        passed: Passed,
        shown: impl FnOnce() -> String,
    ) {
        self.answer.files_searched += 1;
        let count = found.count;
        if count == 0 {
            return;
        }
        if grep.files_only {
            if self.total < grep.limit {
                self.answer.files.push(shown());
            }
        } else if self.left(grep) > 0 {
            self.matches(grep, found, in_turn, &shown());
        }
        self.total += count;
        if self.total >= COUNT_CEILING {
            self.full = Some(passed);
        }
    }

    fn matches(&mut self, grep: &Grep, found: Found, in_turn: bool, file: &str) {
        let context_cut = found.kept.context_cut;
        let (mut hits, symbols) = found.into_hits();
        hits.truncate(usize::try_from(self.left(grep)).unwrap_or(usize::MAX));
        if in_turn && context_cut {
            self.room = 0;
            self.context_left_out = true;
        } else if self.context_left_out {
            // Nothing comes after what was left out.
            self.room = 0;
            fit(&mut hits, &mut self.room);
        } else {
            self.context_left_out = fit(&mut hits, &mut self.room);
        }
        for (hit, symbol) in hits.into_iter().zip(symbols) {
            self.show(file, hit, symbol);
        }
    }

    fn show(&mut self, file: &str, hit: Hit, symbol: Option<Symbol>) {
        let mut line = |line: Line| {
            self.cut_lines += u64::from(line.shown.cut);
            ContextLine { line: line.number, text: line.shown.text }
        };
        let ContextLine { line: number, text } = line(hit.line);
        let before = hit.before.into_iter().map(&mut line).collect();
        let after = hit.after.into_iter().map(&mut line).collect();
        self.answer.matches.push(Match { file: file.to_owned(), line: number, text, before, after, symbol });
    }

    /// The answer. `passed` is what the walk passed over in all, `why` says why nothing was found.
    pub(crate) fn finish(self, grep: &Grep, literal: bool, passed: Passed, why: Vec<String>) -> GrepAnswer {
        let Self { mut answer, total, cut_lines, context_left_out, full, .. } = self;
        let passed = full.unwrap_or(passed);
        answer.truncated = total > grep.limit;
        answer.retried_as_literal = literal;
        let (shown, unit) =
            if grep.files_only { (answer.files.len(), "files") } else { (answer.matches.len(), "matches") };
        let counted = if full.is_some() { Total::AtLeast(COUNT_CEILING) } else { Total::Exactly(total) };
        let first = [
            literal.then(notice::literal),
            answer.truncated.then(|| notice::truncated(shown, counted, unit, GREP_LIMIT)),
        ];
        let last = [
            notice::long_lines(cut_lines),
            (grep.context_cut && total > 0).then(notice::context),
            notice::not_permitted(passed.not_permitted),
            notice::long_rules(passed.long_rules),
            context_left_out.then(notice::context_room),
        ];
        answer.notice = notice::join(first.into_iter().chain(why.into_iter().map(Some)).chain(last));
        answer
    }
}
