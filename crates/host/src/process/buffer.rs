//! What is kept of a stream.

use std::collections::VecDeque;

use super::request::{Capture, Captured};

/// Keeps the ends of a stream within the bounds of a [`Capture`].
#[derive(Debug)]
pub(super) struct Buffer {
    head: Vec<u8>,
    head_room: usize,
    tail: VecDeque<u8>,
    tail_room: usize,
    total: u64,
}

impl Buffer {
    pub(super) fn new(capture: Capture) -> Self {
        let (head_room, tail_room) = match capture {
            Capture::HeadTail { head, tail } => (head, tail),
            Capture::Tail { bytes } => (0, bytes),
        };
        Buffer { head: Vec::new(), head_room, tail: VecDeque::new(), tail_room, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_room.saturating_sub(self.head.len())));
        self.head.extend_from_slice(first);
        let last = &rest[rest.len().saturating_sub(self.tail_room)..];
        let gone = (self.tail.len() + last.len()).saturating_sub(self.tail_room);
        self.tail.drain(..gone);
        let need = self.tail.len() + last.len();
        if need > self.tail.capacity() {
            // Doubling, but never beyond the bound.
            let wanted = (need * 2).min(self.tail_room);
            self.tail.reserve_exact(wanted.saturating_sub(self.tail.len()));
        }
        self.tail.extend(last);
    }

    pub(super) fn finish(self) -> Captured {
        Captured { head: self.head, tail: Vec::from(self.tail), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ends_are_those_of_the_whole(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            head in 0_usize..60,
            tail in 0_usize..60,
        ) {
            let whole = chunks.concat();
            for capture in [Capture::HeadTail { head, tail }, Capture::Tail { bytes: tail }] {
                let head = if matches!(capture, Capture::Tail { .. }) { 0 } else { head };
                let mut buffer = Buffer::new(capture);
                for chunk in &chunks {
                    buffer.push(chunk);
                    prop_assert!(buffer.head.len() <= head && buffer.tail.len() <= tail);
                }
                let kept = buffer.finish();
                prop_assert_eq!(kept.total, whole.len() as u64);
                let first = &whole[..whole.len().min(head)];
                let rest = &whole[first.len()..];
                prop_assert_eq!(kept.head.as_slice(), first);
                prop_assert_eq!(kept.tail.as_slice(), &rest[rest.len().saturating_sub(tail)..]);
            }
        }
    }

    #[test]
    fn a_long_stream_costs_its_bound() {
        let mut buffer = Buffer::new(Capture::Tail { bytes: 100_000 });
        for _ in 0..1_000 {
            buffer.push(&[7; 32_768]);
        }
        assert!(buffer.tail.capacity() <= 131_072, "{}", buffer.tail.capacity());
        let kept = buffer.finish();
        assert_eq!((kept.tail.len(), kept.total), (100_000, 32_768_000));
    }
}
