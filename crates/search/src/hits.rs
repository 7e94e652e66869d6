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

impl Line {
    /// What the line takes of a [`Room`], in bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.shown.text.len() as u64 + LINE_COST
    }
}

/// What a line takes beside its text.
const LINE_COST: u64 = 32;

/// What to keep of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep {
    /// Hits kept with their text and context; later ones are only counted.
    pub(crate) hits: usize,
    /// Lines of context above a match.
    pub(crate) before: u64,
    /// Lines of context below a match.
    pub(crate) after: u64,
    pub(crate) room: Room,
}

/// How much may be kept of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Everything in so many bytes, or else nothing: the file is read again when its turn has come.
    Ahead(u64),
    /// All hits, and the context that comes first in so many bytes.
    InTurn(u64),
}

/// What was kept of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) hits: Vec<Hit>,
    /// [`Room::Ahead`] did not suffice; there are no hits.
    pub(crate) overflowed: bool,
    /// [`Room::InTurn`] did not suffice.
    pub(crate) context_cut: bool,
}

/// Collects hits while a file is read from its start to its end, block by block.
#[derive(Debug)]
pub(crate) struct Collector {
    keep: Keep,
    capturing: bool,
    kept: Kept,
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
            kept: Kept::default(),
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
        if let Some(hit) = self.kept.hits.last() {
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
        // The first hit that is not shown still takes its context with it.
        let shows = self.kept.hits.len() < self.keep.hits;
        let mut before = Vec::new();
        let below = mem::take(&mut self.below);
        if let Some(own) = self.kept.hits.last().map(|previous| previous.line.number) {
            for line in below {
                // The nearer match owns the line, the earlier one on a tie.
                let down = line.number - own;
                let up = number - line.number;
                if up > self.keep.before || up >= down {
                    if self.has_room(&line, true)
                        && let Some(previous) = self.kept.hits.last_mut()
                    {
                        previous.after.push(line);
                    }
                } else if shows && self.has_room(&line, true) {
                    before.push(line);
                }
            }
        }
        let above = mem::take(&mut self.above);
        if shows {
            before.extend(above.into_iter().filter(|line| self.has_room(line, true)));
            let line = Line { number, shown: Shown::new(lines::text(line)) };
            if self.has_room(&line, false) {
                self.kept.hits.push(Hit { line, before, after: Vec::new() });
            }
        } else {
            self.capturing = false;
        }
        if self.kept.overflowed {
            self.capturing = false;
            self.kept.hits = Vec::new();
        }
    }

    /// Whether there is room for a line more. Room that is used up stays so.
    fn has_room(&mut self, line: &Line, is_context: bool) -> bool {
        match &mut self.keep.room {
            Room::Ahead(room) => {
                self.kept.overflowed |= *room < line.cost();
                *room = room.saturating_sub(line.cost());
                !self.kept.overflowed
            }
            Room::InTurn(_) if !is_context => true,
            Room::InTurn(room) => match room.checked_sub(line.cost()) {
                Some(left) if !self.kept.context_cut => {
                    *room = left;
                    true
                }
                _ => {
                    self.kept.context_cut = true;
                    false
                }
            },
        }
    }

    /// What was kept, with the context of the last hit.
    pub(crate) fn finish(mut self) -> Kept {
        for line in mem::take(&mut self.below) {
            if !self.kept.hits.is_empty()
                && self.has_room(&line, true)
                && let Some(last) = self.kept.hits.last_mut()
            {
                last.after.push(line);
            }
        }
        if self.kept.overflowed {
            self.kept.hits = Vec::new();
        }
        self.kept
    }
}

/// Leaves out the context that does not fit into `room`, as [`Room::InTurn`] does; whether there was such.
pub(crate) fn fit(hits: &mut [Hit], room: &mut u64) -> bool {
    let mut cut = false;
    for hit in hits {
        for line in [&mut hit.before, &mut hit.after] {
            line.retain(|line| match room.checked_sub(line.cost()) {
                Some(left) if !cut => {
                    *room = left;
                    true
                }
                _ => {
                    cut = true;
                    false
                }
            });
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room::InTurn(u64::MAX);

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
            .hits
            .iter()
            .map(|hit| (hit.line.number, numbers(&hit.before), numbers(&hit.after)))
            .collect()
    }

    #[test]
    fn each_line_belongs_to_the_nearest_match() {
        let text = "a\n*\nb\nc\nd\n*\ne\n*\nf\ng\n";
        for size in 1..11 {
            let keep = Keep { hits: 9, before: 2, after: 2, room: ROOMY };
            let want = vec![(2, vec![1], vec![3, 4]), (6, vec![5], vec![7]), (8, vec![], vec![9, 10])];
            assert_eq!(collect(text, keep, size), want);
            // Cut after the first: its context does not grow into what the second owns.
            let keep = Keep { hits: 1, before: 2, after: 3, room: ROOMY };
            assert_eq!(collect(text, keep, size), vec![(2, vec![1], vec![3, 4])]);
            let keep = Keep { hits: 2, before: 0, after: 9, room: ROOMY };
            assert_eq!(collect(text, keep, size), vec![(2, vec![], vec![3, 4, 5]), (6, vec![], vec![7])]);
            let keep = Keep { hits: 3, before: 9, after: 0, room: ROOMY };
            let want = vec![(2, vec![1], vec![]), (6, vec![3, 4, 5], vec![]), (8, vec![7], vec![])];
            assert_eq!(collect(text, keep, size), want);
        }
    }

    #[test]
    fn room_is_for_the_first_lines() {
        let text = "a\n*\nb\nc\nd\n*\ne\n*\nf\ng\n";
        let line = LINE_COST + 1;
        for lines in 0..9 {
            let room = lines * line;
            let keep = Keep { hits: 9, before: 2, after: 2, room: Room::InTurn(room) };
            let feed = |keep| {
                let mut collector = Collector::new(keep);
                for line in text.split_inclusive('\n') {
                    if line.starts_with('*') {
                        collector.hit(line.as_bytes());
                    } else {
                        collector.gap(line.as_bytes(), false);
                    }
                }
                collector.finish()
            };
            let kept = feed(keep);
            let mut all = feed(Keep { room: ROOMY, ..keep });
            assert_eq!(kept.context_cut, lines < 7);
            let mut left = room;
            assert_eq!(fit(&mut all.hits, &mut left), kept.context_cut);
            assert_eq!(all.hits, kept.hits);
            let context: usize = kept.hits.iter().map(|hit| hit.before.len() + hit.after.len()).sum();
            assert_eq!(context as u64, lines.min(7));
            // Three hits and seven lines fit, or nothing is kept.
            let ahead = feed(Keep { room: Room::Ahead(room + 3 * line), ..keep });
            assert_eq!((ahead.overflowed, ahead.hits.len()), (lines < 7, if lines < 7 { 0 } else { 3 }));
        }
    }
}
