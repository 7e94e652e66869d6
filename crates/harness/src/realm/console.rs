//! What a frame printed, brought within its budget (harness contract 3.4).

use serde::{Deserialize, Serialize};

use super::text::join_cut;

/// The longest text of a frame's prints, in UTF-8 bytes.
pub const MAX_PRINT_BYTES: usize = 16_384;

/// What the realm keeps of a frame's statements, in UTF-8 bytes, one for each line end included.
pub(super) const MAX_RETAINED_BYTES: usize = 262_144;

/// A statement that is cut keeps at least so many bytes.
const FLOOR: usize = 512;

/// One call of `console.log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    /// The whole text, or the beginning of one that was cut already.
    pub(super) head: String,
    /// The bytes that were cut between head and tail.
    pub(super) dropped: usize,
    /// The end of a text that was cut already.
    pub(super) tail: String,
}

impl Statement {
    fn len(&self) -> usize {
        if self.dropped == 0 { self.head.len() } else { self.fit(usize::MAX).len() }
    }

    /// The statement in at most `budget` bytes, which is at least [`FLOOR`] or the statement's length.
    fn fit(&self, budget: usize) -> String {
        if self.dropped == 0 {
            return if self.head.len() <= budget {
                self.head.clone()
            } else {
                join_cut(&self.head, &self.head, 0, budget)
            };
        }
        join_cut(&self.head, &self.tail, self.dropped, budget)
    }
}

/// Keeps statements until the room is full.
#[derive(Default)]
pub(super) struct Retention {
    used: usize,
}

/// What became of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is kept, and there is room for more.
    Whole(Statement),
    /// It is kept as far as the room went.
    Last(Statement),
    /// There is no room.
    No,
}

impl Retention {
    /// Takes a statement in.
    pub(super) fn keep(&mut self, text: String) -> Kept {
        let room = MAX_RETAINED_BYTES - self.used;
        if text.len() < room {
            self.used += text.len() + 1;
            return Kept::Whole(Statement { head: text, dropped: 0, tail: String::new() });
        }
        self.used = MAX_RETAINED_BYTES;
        if room <= FLOOR {
            return Kept::No;
        }
        let half = (room - 1) / 2;
        let (mut head, mut tail) = (half, text.len() - half);
        while !text.is_char_boundary(head) {
            head -= 1;
        }
        while !text.is_char_boundary(tail) {
            tail += 1;
        }
        Kept::Last(Statement { head: text[..head].into(), dropped: tail - head, tail: text[tail..].into() })
    }
}

/// The text of a frame's prints: at most [`MAX_PRINT_BYTES`].
///
/// Statements at or under their equal share are whole and the rest split what is left; when not even [`FLOOR`] bytes of
/// each fit, whole statements are dropped from the middle and counted. `unread` statements are counted in the last line.
pub(super) fn assemble(statements: &[Statement], unread: u64) -> String {
    let last = (unread > 0).then(|| format!("[{unread} more statements were printed and not read]"));
    let room = MAX_PRINT_BYTES - last.as_ref().map_or(0, |line| line.len() + 1);
    let lengths: Vec<usize> = statements.iter().map(Statement::len).collect();
    let (front, back) = kept(&lengths, room);
    let dropped = lengths.len() - front - back;
    let note = (dropped > 0).then(|| drop_note(dropped));
    let kept_lengths: Vec<usize> =
        lengths[..front].iter().chain(&lengths[lengths.len() - back..]).copied().collect();
    let lines = kept_lengths.len() + usize::from(note.is_some());
    let text_room = room - note.as_ref().map_or(0, String::len) - lines.saturating_sub(1);
    let share = level(&kept_lengths, text_room);
    let mut out: Vec<String> = statements[..front].iter().map(|statement| statement.fit(share)).collect();
    out.extend(note);
    out.extend(statements[lengths.len() - back..].iter().map(|statement| statement.fit(share)));
    out.extend(last);
    out.join("\n")
}

fn drop_note(dropped: usize) -> String {
    format!("[{dropped} statements dropped here]")
}

/// How many statements of the front and of the back are kept.
fn kept(lengths: &[usize], room: usize) -> (usize, usize) {
    let floor = |length: &usize| (*length).min(FLOOR) + 1;
    // The last line has no line end of its own.
    if lengths.iter().map(floor).sum::<usize>() <= room + 1 {
        return (lengths.len(), 0);
    }
    let mut left = room - drop_note(lengths.len()).len();
    let (mut front, mut back) = (0, 0);
    while front + back < lengths.len() {
        let at = if front <= back { front } else { lengths.len() - 1 - back };
        let cost = floor(&lengths[at]);
        if cost > left {
            break;
        }
        left -= cost;
        if front <= back { front += 1 } else { back += 1 }
    }
    (front, back)
}

/// The largest share such that all lengths, cut to it, fit.
fn level(lengths: &[usize], room: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (index, length) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if *length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: impl Into<String>) -> Statement {
        Statement { head: text.into(), dropped: 0, tail: String::new() }
    }

    #[test]
    fn short_statements_are_whole_and_long_ones_share_the_rest() {
        let statements = [whole("a"), whole("x".repeat(20_000)), whole("b"), whole("y".repeat(20_000))];
        let text = assemble(&statements, 0);
        assert!(text.len() <= MAX_PRINT_BYTES && text.len() > MAX_PRINT_BYTES - 8, "{}", text.len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[2]), ("a", "b"));
        let kept = lines[1].matches('x').count();
        assert!(lines[1].contains(&format!("[{} bytes cut]", 20_000 - kept)));
    }

    #[test]
    fn statements_drop_from_the_middle_when_floors_do_not_fit() {
        let statements: Vec<Statement> =
            (0..100).map(|i| whole(format!("{i:03}{}", "z".repeat(700)))).collect();
        let text = assemble(&statements, 3);
        assert!(text.len() <= MAX_PRINT_BYTES);
        assert!(text.starts_with("000") && text.ends_with("[3 more statements were printed and not read]"));
        let note = text.lines().find(|line| line.ends_with("statements dropped here]")).unwrap();
        let dropped: usize = note[1..].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(text.lines().count() - 2 + dropped, 100);
        assert!(text.contains("099"));
    }

    #[test]
    fn the_room_is_filled_once() {
        let mut room = Retention::default();
        assert!(matches!(room.keep("x".repeat(200_000)), Kept::Whole(_)));
        let Kept::Last(last) = room.keep("é".repeat(100_000)) else { panic!("kept") };
        assert_eq!(last.head.len() + last.dropped + last.tail.len(), 200_000);
        assert_eq!(room.keep(String::new()), Kept::No);
        assert!(assemble(&[last], 0).len() <= MAX_PRINT_BYTES);
    }

    #[test]
    fn nothing_printed_is_an_empty_text() {
        assert_eq!(assemble(&[], 0), "");
        assert_eq!(assemble(&[whole(""), whole("")], 0), "\n");
    }
}
