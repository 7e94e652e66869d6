//! The ordered walk (search contract 4): every admitted file below a root, one after the other, in the order
//! of the answer, while directories further on are listed already.
//!
//! Nothing here reads: who works on a search asks [`Frontier::next_listing`] for a directory, lists it without the lock
//! of the search, and hands the result to [`Frontier::complete`].

use crate::listing::{ItemKind, Listed};
use crate::node::Node;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// Directories that are listed, or being listed, before the walk has come to them.
const MOST_AHEAD: usize = 24;
/// Entries of such directories in memory, beyond which no further one is listed.
const MOST_ENTRIES_AHEAD: usize = 16 * 1024;

/// A walk in progress.
#[derive(Default)]
pub(crate) struct Frontier {
    frames: Vec<Option<Frame>>,
    free: Vec<usize>,
    /// The way from the root to the current directory.
    stack: Vec<usize>,
    ahead: usize,
    entries_ahead: usize,
    passed: Passed,
}

/// What the walk left behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Entries passed over because reading them is not permitted.
    pub(crate) not_permitted: u64,
    /// Directories whose `.gitignore` is too long.
    pub(crate) long_rules: u64,
    /// Directories in which `.gitignore` alone left something out.
    pub(crate) ignoring: u64,
}

/// One directory, on the way or ahead.
struct Frame {
    listed: Listed,
    /// The entry that the walk has come to.
    next: usize,
    /// The entry from which no directory was handed out yet.
    unlisted: usize,
    /// Directories in it from `next` on that were handed out, by entry.
    children: VecDeque<(usize, Child)>,
}

enum Child {
    Listing,
    Ready(usize),
    /// It cannot be read.
    Gone,
}

/// A directory that has to be listed.
pub(crate) struct ListingJob {
    frame: usize,
    entry: usize,
    pub(crate) node: Arc<Node>,
    pub(crate) name: OsString,
}

/// Where the walk stands.
pub(crate) enum Stand<'a> {
    /// At a file.
    File(&'a Arc<Node>, &'a OsStr),
    /// Before a directory that is not listed yet.
    Blocked,
    /// At its end.
    End,
}

impl Frontier {
    /// Starts in a listed root.
    pub(crate) fn new(root: Listed) -> Self {
        let mut frontier = Self::default();
        frontier.passed.long_rules += u64::from(root.long_rules);
        frontier.passed.ignoring += u64::from(root.ignores);
        let id = frontier.insert(root);
        frontier.stack.push(id);
        frontier
    }

    /// What was passed over so far.
    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }

    /// Goes on to the next file, and stays there until [`Frontier::take`].
    pub(crate) fn stand(&mut self) -> Stand<'_> {
        loop {
            let Some(id) = self.stack.last().copied() else { return Stand::End };
            let Some(frame) = self.frames.get_mut(id).and_then(Option::as_mut) else { return Stand::End };
            match frame.listed.entries.kind(frame.next) {
                None => {
                    self.stack.pop();
                    self.frames[id] = None;
                    self.free.push(id);
                }
                Some(ItemKind::File) => break,
                Some(ItemKind::NotPermitted) => {
                    self.passed.not_permitted += 1;
                    frame.next += 1;
                }
                Some(ItemKind::Dir) => match frame.children.front() {
                    Some((entry, Child::Ready(_) | Child::Gone)) if *entry == frame.next => {
                        frame.next += 1;
                        if let Some((_, Child::Ready(below))) = frame.children.pop_front() {
                            self.enter(below);
                        }
                    }
                    _ => return Stand::Blocked,
                },
                // None of these is in a walk that searches.
                Some(ItemKind::IgnoredFile | ItemKind::IgnoredDir | ItemKind::Out) => frame.next += 1,
            }
        }
        let frame = self.stack.last().and_then(|id| self.frames.get(*id)).and_then(Option::as_ref);
        match frame {
            Some(frame) => Stand::File(&frame.listed.node, frame.listed.entries.name(frame.next)),
            None => Stand::End,
        }
    }

    /// Leaves the file that the walk stands at.
    pub(crate) fn take(&mut self) {
        if let Some(frame) =
            self.stack.last().and_then(|id| self.frames.get_mut(*id)).and_then(Option::as_mut)
        {
            frame.next += 1;
        }
    }

    /// The next directory to list, in the order of the walk. The one that blocks it is always given.
    pub(crate) fn next_listing(&mut self) -> Option<ListingJob> {
        let top = *self.stack.last()?;
        let frame = self.frames.get(top)?.as_ref()?;
        let blocked =
            frame.listed.entries.kind(frame.next) == Some(ItemKind::Dir) && frame.children.is_empty();
        let may = self.ahead < MOST_AHEAD && self.entries_ahead < MOST_ENTRIES_AHEAD;
        if !blocked && !may {
            return None;
        }
        let (id, entry) = (0..self.stack.len()).rev().find_map(|level| self.find(self.stack[level]))?;
        let frame = self.frames.get_mut(id)?.as_mut()?;
        frame.children.push_back((entry, Child::Listing));
        self.ahead += 1;
        let node = Arc::clone(&frame.listed.node);
        let name = frame.listed.entries.name(entry).to_owned();
        Some(ListingJob { frame: id, entry, node, name })
    }

    /// Takes the result of a listing; none for a directory that cannot be read.
    pub(crate) fn complete(&mut self, job: &ListingJob, listed: Option<Listed>) {
        let child = match listed {
            Some(listed) => {
                self.entries_ahead += listed.entries.len();
                Child::Ready(self.insert(listed))
            }
            None => {
                self.ahead -= 1;
                Child::Gone
            }
        };
        let frame = self.frames.get_mut(job.frame).and_then(Option::as_mut);
        let place = frame.and_then(|frame| frame.children.iter_mut().find(|(entry, _)| *entry == job.entry));
        if let Some((_, place)) = place {
            *place = child;
        }
    }

    fn insert(&mut self, listed: Listed) -> usize {
        let frame = Frame { listed, next: 0, unlisted: 0, children: VecDeque::new() };
        match self.free.pop() {
            Some(id) => {
                self.frames[id] = Some(frame);
                id
            }
            None => {
                self.frames.push(Some(frame));
                self.frames.len() - 1
            }
        }
    }

    fn enter(&mut self, id: usize) {
        self.ahead -= 1;
        if let Some(frame) = self.frames.get(id).and_then(Option::as_ref) {
            self.entries_ahead -= frame.listed.entries.len();
            let Listed { long_rules, ignores, .. } = frame.listed;
            self.passed.long_rules += u64::from(long_rules);
            self.passed.ignoring += u64::from(ignores);
        }
        self.stack.push(id);
    }

    /// The first directory of `id` and below that nobody was given.
    fn find(&mut self, id: usize) -> Option<(usize, usize)> {
        let frame = self.frames.get(id)?.as_ref()?;
        let ready = frame.children.iter().filter_map(|(_, child)| match child {
            Child::Ready(below) => Some(*below),
            Child::Listing | Child::Gone => None,
        });
        for below in ready.collect::<Vec<_>>() {
            if let Some(found) = self.find(below) {
                return Some(found);
            }
        }
        let frame = self.frames.get_mut(id)?.as_mut()?;
        let mut entry = frame.unlisted.max(frame.next);
        loop {
            match frame.listed.entries.kind(entry) {
                Some(ItemKind::Dir) => {
                    frame.unlisted = entry + 1;
                    return Some((id, entry));
                }
                Some(_) => entry += 1,
                None => {
                    frame.unlisted = entry;
                    return None;
                }
            }
        }
    }
}
