//! The hits of one file: which matching lines are kept, and which line of context belongs to which
//! match (search contract 5).

use crate::lines::{self, Shown};
use memchr::memchr;
use std::collections::VecDeque;
use std::mem;

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) shown: Shown,
}

/// A match with the context it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) line: Line,
    pub(crate) before: Vec<Line>,
    pub(crate) after: Vec<Line>,
}

/// What to keep of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    /// Hits kept with their text and context; later ones are only counted.
    pub(crate) hits: usize,
    /// Lines of context above a match.
    pub(crate) before: u64,
    /// Lines of context below a match.
    pub(crate) after: u64,
}

/// Collects hits while a file is read from its start to its end, block by block.
#[derive(Debug)]
pub(crate) struct Collector {
    keep: Keep,
    capturing: bool,
    hits: Vec<Hit>,
    /// Number of the next line that was not looked at.
    next_line: u64,
    /// Lines below the last hit, within its reach.
    below: Vec<Line>,
    /// The latest lines beyond that reach, at most `keep.before`.
    above: VecDeque<Line>,
}

impl Collector {
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            capturing: keep.hits > 0,
            keep,
            hits: Vec::new(),
            next_line: 1,
            below: Vec::new(),
            above: VecDeque::new(),
        }
    }

    /// Whether later lines can still change what is kept.
    pub(crate) fn is_capturing(&self) -> bool {
        self.capturing
    }

    /// Takes a region of whole lines that do not match. `last` tells that no match follows it in the file.
    pub(crate) fn gap(&mut self, region: &[u8], last: bool) {
        if !self.capturing || region.is_empty() {
            return;
        }
        let mut at = 0;
        let mut number = self.next_line;
        let mut reach = 0;
        if let Some(hit) = self.hits.last() {
            reach = hit.line.number.saturating_add(self.keep.after);
            while number <= reach && at < region.len() {
                let end = lines::end(region, at);
                self.below.push(Line { number, shown: Shown::new(lines::text(&region[at..end])) });
                at = end;
                number += 1;
            }
        }
        let rest = &region[at..];
        if last {
            self.next_line = number;
            self.capturing = number <= reach;
            return;
        }
        self.next_line = number + lines::count(rest);
        if self.keep.before == 0 || rest.is_empty() {
            return;
        }
        // Walk back over the latest lines, then take them in order.
        let mut start = rest.len();
        let mut taken = 0;
        while start > 0 && taken < self.keep.before {
            start = lines::start(rest, start - 1);
            taken += 1;
        }
        if taken == self.keep.before {
            self.above.clear();
        }
        let mut number = self.next_line - taken;
        while start < rest.len() {
            let end = memchr(b'\n', &rest[start..]).map_or(rest.len(), |newline| start + newline + 1);
            self.above.push_back(Line { number, shown: Shown::new(lines::text(&rest[start..end])) });
            start = end;
            number += 1;
        }
        let excess = self.above.len().saturating_sub(usize::try_from(self.keep.before).unwrap_or(usize::MAX));
        self.above.drain(..excess);
    }

    /// Takes a matching line, given with its terminator.
    pub(crate) fn hit(&mut self, line: &[u8]) {
        if !self.capturing {
            return;
        }
        let number = self.next_line;
        self.next_line += 1;
        let mut before = Vec::new();
        let below = mem::take(&mut self.below);
        if let Some(previous) = self.hits.last_mut() {
            let own = previous.line.number;
            for line in below {
                // The nearer match owns the line, the earlier one on a tie.
                let down = line.number - own;
                let up = number - line.number;
                if up <= self.keep.before && up < down {
                    before.push(line);
                } else {
                    previous.after.push(line);
                }
            }
        }
        before.extend(self.above.drain(..));
        if self.hits.len() == self.keep.hits {
            // The first hit that is not shown still takes its context with it.
            self.capturing = false;
            return;
        }
        let shown = Shown::new(lines::text(line));
        self.hits.push(Hit { line: Line { number, shown }, before, after: Vec::new() });
    }

    /// The hits, with the context of the last one.
    pub(crate) fn finish(mut self) -> Vec<Hit> {
        if let Some(last) = self.hits.last_mut() {
            last.after.append(&mut self.below);
        }
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds lines, `*` marks a match, in blocks of `size` lines.
    fn collect(text: &str, keep: Keep, size: usize) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
        let mut collector = Collector::new(keep);
        let all: Vec<&str> = text.split_inclusive('\n').collect();
        for block in all.chunks(size) {
            let mut gap = String::new();
            for line in block {
                if line.starts_with('*') {
                    collector.gap(gap.as_bytes(), false);
                    gap.clear();
                    collector.hit(line.as_bytes());
                } else {
                    gap.push_str(line);
                }
            }
            collector.gap(gap.as_bytes(), false);
        }
        let numbers = |lines: &[Line]| lines.iter().map(|line| line.number).collect();
        collector
            .finish()
            .iter()
            .map(|hit| (hit.line.number, numbers(&hit.before), numbers(&hit.after)))
            .collect()
    }

    #[test]
    fn each_line_belongs_to_the_nearest_match() {
        let text = "a\n*\nb\nc\nd\n*\ne\n*\nf\ng\n";
        for size in 1..11 {
            let keep = Keep { hits: 9, before: 2, after: 2 };
            let want = vec![(2, vec![1], vec![3, 4]), (6, vec![5], vec![7]), (8, vec![], vec![9, 10])];
            assert_eq!(collect(text, keep, size), want);
            // Cut after the first: its context does not grow into what the second owns.
            let keep = Keep { hits: 1, before: 2, after: 3 };
            assert_eq!(collect(text, keep, size), vec![(2, vec![1], vec![3, 4])]);
            let keep = Keep { hits: 2, before: 0, after: 9 };
            assert_eq!(collect(text, keep, size), vec![(2, vec![], vec![3, 4, 5]), (6, vec![], vec![7])]);
            let keep = Keep { hits: 3, before: 9, after: 0 };
            let want = vec![(2, vec![1], vec![]), (6, vec![3, 4, 5], vec![]), (8, vec![7], vec![])];
            assert_eq!(collect(text, keep, size), want);
        }
    }
}
