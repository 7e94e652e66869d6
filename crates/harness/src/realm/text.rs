//! Cutting text in the middle, with the cut stated.

/// At most `budget` bytes of a text (when `budget` is at least 64): the text itself, or its head and tail around a note
/// of how many bytes went.
pub(crate) fn cut_middle(text: &str, budget: usize) -> String {
    if text.len() <= budget {
        return text.to_owned();
    }
    join_cut(text, text, 0, budget)
}

/// Puts a head and a tail around the note that says how many bytes between them are gone. `head` and `tail` may be one
/// and the same text; `beyond` counts what was dropped before.
pub(crate) fn join_cut(head: &str, tail: &str, beyond: usize, budget: usize) -> String {
    let same = std::ptr::eq(head, tail);
    let whole = if same { head.len() } else { head.len() + beyond + tail.len() };
    let keep = budget.saturating_sub(note(whole).len());
    let mut left = (keep / 2).min(head.len());
    while !head.is_char_boundary(left) {
        left -= 1;
    }
    let mut right = tail.len().saturating_sub(keep - keep / 2);
    while !tail.is_char_boundary(right) {
        right += 1;
    }
    let dropped = whole - left - (tail.len() - right);
    format!("{}{}{}", &head[..left], note(dropped), &tail[right..])
}

fn note(dropped: usize) -> String {
    format!("…[{dropped} bytes cut]…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_in_the_middle_and_counts() {
        assert_eq!(cut_middle("abc", 64), "abc");
        let text = "é".repeat(500);
        let cut = cut_middle(&text, 100);
        assert!(cut.len() <= 100 && cut.starts_with('é') && cut.ends_with('é'));
        let kept = cut.chars().filter(|c| *c == 'é').count() * 2;
        assert!(cut.contains(&format!("[{} bytes cut]", 1000 - kept)), "{cut}");
    }
}
