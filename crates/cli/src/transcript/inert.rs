//! Text of a transcript, made inert.

/// Whether a character acts on the text around it without being seen: a control character, one that changes the direction of
/// text, or one that has no width. What hides in a text is spelled out wherever the text is shown.
pub(crate) fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// One line of text: every character that acts is spelled out, a tab becomes spaces up to the next multiple of four.
///
/// A newline is spelled out too: the caller splits at them.
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0_usize;
    for character in text.chars() {
        match character {
            '\t' => {
                let wide = 4 - column % 4;
                out.extend(std::iter::repeat_n(' ', wide));
                column += wide;
            }
            other if acts(other) => {
                let spelled = other.escape_unicode();
                column += spelled.len();
                out.extend(spelled);
            }
            other => {
                out.push(other);
                column += 1;
            }
        }
    }
    out
}

/// The lines of a text, without the carriage returns that stand before their ends; a final newline begins no line.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// The first line that says something, inert and cut to a number of characters.
pub(crate) fn title(text: &str, most: usize) -> String {
    let first = lines(text).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    // A line may be a megabyte long.
    let mut shown: String =
        line(&first.chars().take(most + 1).collect::<String>()).chars().take(most).collect();
    if first.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// A text as HTML, for an element's content and for an attribute: the five characters of markup are escaped, what acts is
/// spelled out. Newlines and tabs stay, a carriage return before a newline goes.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            other if acts(other) => out.extend(other.escape_unicode()),
            // A page has no such character, whatever a parser makes of it.
            '\u{fdd0}'..='\u{fdef}' => out.push('\u{fffd}'),
            other if u32::from(other) & 0xfffe == 0xfffe => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_spelled_out() {
        assert_eq!(line("a\u{1b}[2Jb\u{9b}c\u{202e}d\u{0}\r"), "a\\u{1b}[2Jb\\u{9b}c\\u{202e}d\\u{0}\\u{d}");
        assert_eq!(line("a\tb\t\tc"), "a   b       c");
        assert_eq!(line("é ✓ 🦀 العربية"), "é ✓ 🦀 العربية");
        assert!(('\0'..=char::MAX).filter(|c| c.is_control()).all(acts));
        assert!(!line(&('\0'..=char::MAX).collect::<String>()).chars().any(acts));
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            html("<a href=\"x\" b='y'>&\u{1b}\u{2066}\r\n\t"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\\u{1b}\\u{2066}\n\t"
        );
        let all: String = ('\0'..=char::MAX).collect();
        let shown = html(&all);
        assert!(!shown.contains(['<', '>', '"', '\'', '\0', '\r']));
        assert!(!shown.chars().any(|c| acts(c) && c != '\n' && c != '\t'));
    }

    #[test]
    fn a_title_is_the_first_words() {
        assert_eq!(title("\n\n  Fix it\u{1b}[0m \nnow", 40), "Fix it\\u{1b}[0m");
        assert_eq!(title("abcdef", 3), "abc…");
        assert_eq!(title("", 3), "");
    }

    #[test]
    fn lines_lose_their_carriage_return() {
        assert_eq!(lines("a\r\nb\n").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(lines("").collect::<Vec<_>>(), [""]);
    }
}
