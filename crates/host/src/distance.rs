//! Levenshtein distance from one text to many, 64 of its characters a step.

use std::collections::HashMap;

/// Characters in one word of bits.
const WORD: usize = 64;

/// A text that others are measured against: where each of its characters stands, as bits.
///
/// The table of distances is kept as the differences between neighbours, a column at a time and a bit a row (Myers 1999,
/// in blocks as of Hyyrö 2003), so that a character of the other text costs one step a word instead of one a character.
#[derive(Debug)]
pub(crate) struct Pattern {
    len: usize,
    places: HashMap<char, Vec<u64>>,
}

/// The differences down one column, 64 rows of it.
#[derive(Clone, Copy)]
struct Block {
    more: u64,
    less: u64,
}

impl Pattern {
    pub(crate) fn new(text: impl IntoIterator<Item = char>) -> Self {
        let mut len = 0;
        let mut places: HashMap<char, Vec<u64>> = HashMap::new();
        for (at, c) in text.into_iter().enumerate() {
            let words = places.entry(c).or_default();
            words.resize((at / WORD) + 1, 0);
            if let Some(word) = words.last_mut() {
                *word |= 1 << (at % WORD);
            }
            len = at + 1;
        }
        Self { len, places }
    }

    /// The fewest insertions, removals and replacements of a character that turn one text into the other.
    pub(crate) fn distance(&self, other: impl IntoIterator<Item = char>) -> usize {
        let blocks = self.len.div_ceil(WORD);
        if blocks == 0 {
            return other.into_iter().count();
        }
        // Down the first column each row is one more than the row above.
        let mut column = vec![Block { more: u64::MAX, less: 0 }; blocks];
        let mut distance = self.len;
        let last = (self.len - 1) % WORD;
        for c in other {
            let places = self.places.get(&c).map_or(&[][..], Vec::as_slice);
            // Along the first row each column is one more than the one before.
            let (mut more, mut less) = (true, false);
            for (at, block) in column.iter_mut().enumerate() {
                let equal = places.get(at).copied().unwrap_or(0);
                let bottom = if at + 1 == blocks { last } else { WORD - 1 };
                (more, less) = block.advance(equal, more, less, bottom);
            }
            distance = distance.saturating_add(usize::from(more)).saturating_sub(usize::from(less));
        }
        distance
    }
}

impl Block {
    /// Moves one column on. `more` and `less` say how the row above the block changes with it; the answer says so of the
    /// row `bottom`.
    fn advance(&mut self, equal: u64, more: bool, less: bool, bottom: usize) -> (bool, bool) {
        let from_above = equal | u64::from(less);
        let diagonal = ((from_above & self.more).wrapping_add(self.more) ^ self.more) | from_above;
        let row_more = self.less | !(diagonal | self.more);
        let row_less = self.more & diagonal;
        let out = (row_more >> bottom & 1 == 1, row_less >> bottom & 1 == 1);
        let row_more = row_more << 1 | u64::from(more);
        let row_less = row_less << 1 | u64::from(less);
        let vertical = equal | self.less;
        self.more = row_less | !(vertical | row_more);
        self.less = row_more & vertical;
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distance(a: &str, b: &str) -> usize {
        Pattern::new(a.chars()).distance(b.chars())
    }

    #[test]
    fn small_cases() {
        for (a, b, steps) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("mian.rs", "main.rs", 2),
            ("äöü", "aou", 3),
            ("a", "b", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (steps, steps), "{a} {b}");
        }
    }

    /// Texts of few letters, so that they have much in common, about the ends of words of bits.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[ab]{0,9}", "[abcé]{55,75}", "[ab]{120,136}", "[a-d😀]{0,260}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_the_distance_of_the_plain_table(a in text(), b in text()) {
            prop_assert_eq!(distance(&a, &b), strsim::levenshtein(&a, &b));
        }
    }
}
