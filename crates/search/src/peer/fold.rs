//! From numbered lines to the answer of `grep`.

use super::Ask;
use super::content::{Found, Line};
use super::symbol::Lines;
use crate::query::{COUNT_CEILING, ContextLine, GREP_LIMIT, GrepAnswer, MAX_CONTEXT, Match};
use crate::symbols::{MAX_SYMBOL_BYTES, has_symbols};

/// Bytes of a line that are shown.
const SHOWN: usize = 500;

/// The answer so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) answer: GrepAnswer,
    /// Matches, or files when only they are asked for.
    pub(super) total: u64,
    cut: u64,
}

impl Tally {
    /// Whether counting stops.
    pub(super) fn is_full(&self) -> bool {
        self.total >= COUNT_CEILING
    }

    /// Whether another match would be shown.
    pub(super) fn shows(&self, ask: &Ask) -> bool {
        self.answer.matches.len() < ask.limit
    }

    /// Takes the next file.
    pub(super) fn file(&mut self, shown: &str, found: &Found, ask: &Ask, bytes: Option<&[u8]>) {
        self.answer.files_searched += 1;
        let lines = match found {
            Found::Lines(lines) => lines,
            Found::Binary => {
                self.answer.skipped_binary += 1;
                return;
            }
            Found::Unreadable => return,
        };
        let hits: Vec<&Line> = lines.iter().filter(|line| line.matches).take(ask.max_count).collect();
        if ask.files_only {
            if !hits.is_empty() {
                self.total += 1;
                if self.answer.files.len() < ask.limit {
                    self.answer.files.push(shown.to_owned());
                }
            }
            return;
        }
        self.total += hits.len() as u64;
        let outline = bytes
            .filter(|bytes| ask.symbols && has_symbols(shown) && bytes.len() <= MAX_SYMBOL_BYTES)
            .map(Lines::new);
        for (index, hit) in hits.iter().enumerate() {
            if !self.shows(ask) {
                break;
            }
            let mut owned = |above: bool| -> Vec<ContextLine> {
                let mine = lines.iter().filter(|line| {
                    (line.number < hit.number) == above
                        && hits.iter().all(|hit| hit.number != line.number)
                        && owner(line.number, &hits, ask) == Some(index)
                });
                mine.map(|line| ContextLine { line: line.number, text: clipped(&line.text, &mut self.cut) })
                    .collect()
            };
            let (before, after) = (owned(true), owned(false));
            let text = clipped(&hit.text, &mut self.cut);
            let symbol = outline.as_ref().and_then(|outline| outline.symbol(hit.number));
            let file = shown.to_owned();
            self.answer.matches.push(Match { file, line: hit.number, text, before, after, symbol });
        }
    }

    /// The answer, with its notice.
    pub(super) fn answer(mut self, ask: &Ask, nothing: Vec<String>, denied_entries: u64) -> GrepAnswer {
        let mut told = Vec::new();
        if self.answer.retried_as_literal {
            told.push(
                "Nothing matched as a regular expression; these results match the pattern as literal text \
                 (fixedStrings: true)."
                    .to_owned(),
            );
        }
        self.answer.truncated = self.total > ask.limit as u64;
        if self.answer.truncated {
            let (shown, unit) = match ask.files_only {
                true => (self.answer.files.len(), "files"),
                false => (self.answer.matches.len(), "matches"),
            };
            let total =
                if self.is_full() { format!("at least {COUNT_CEILING}") } else { self.total.to_string() };
            told.push(showing(shown, &total, unit, GREP_LIMIT));
        }
        told.extend(nothing);
        if self.cut > 0 {
            told.push(format!("{} long lines were cut to {SHOWN} bytes.", self.cut));
        }
        if ask.context_cut && self.total > 0 {
            told.push(format!("Context is at most {MAX_CONTEXT} lines on each side."));
        }
        told.extend(denied(denied_entries));
        self.answer.notice = joined(&told);
        self.answer
    }
}

/// The match that a line of context belongs to: the nearest within reach, the earlier on a tie.
fn owner(line: u64, hits: &[&Line], ask: &Ask) -> Option<usize> {
    let reach = |hit: u64| if line < hit { ask.before } else { ask.after };
    let near = hits.iter().enumerate().filter(|(_, hit)| hit.number.abs_diff(line) <= reach(hit.number));
    near.min_by_key(|(index, hit)| (hit.number.abs_diff(line), *index)).map(|(index, _)| index)
}

/// The text of a line, cut at a scalar boundary.
fn clipped(text: &[u8], cut: &mut u64) -> String {
    let mut text = String::from_utf8_lossy(text).into_owned();
    if text.len() > SHOWN {
        *cut += 1;
        let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// N1.
pub(super) fn showing(shown: usize, total: &str, unit: &str, cap: u64) -> String {
    format!("Showing {shown} of {total} {unit}; narrow the search or raise limit (at most {cap}).")
}

/// N8.
pub(super) fn denied(count: u64) -> Option<String> {
    (count > 0).then(|| format!("{count} entries were skipped: reading them is not permitted."))
}

/// The sentences as one text; none when there are none.
pub(super) fn joined(told: &[String]) -> Option<String> {
    (!told.is_empty()).then(|| told.join(" "))
}
