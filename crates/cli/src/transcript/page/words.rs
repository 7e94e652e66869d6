//! Prose of a transcript as HTML: fences, headings, code and emphasis of Markdown, and nothing else of it. No link is made
//! and no picture is shown: what would lead out of the page stays text.

use std::fmt::Write as _;

use crate::transcript::inert::{html, lines};

/// The blocks of a text.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut paragraph: Vec<&str> = Vec::new();
    let mut rest = lines(text);
    while let Some(line) = rest.next() {
        let Some(fence) = fence(line) else {
            paragraph.push(line);
            continue;
        };
        flush(&mut out, &mut paragraph);
        let mut code: Vec<&str> = Vec::new();
        for line in rest.by_ref() {
            if line.trim().starts_with(fence)
                && line.trim().bytes().all(|byte| fence.as_bytes().first() == Some(&byte))
            {
                break;
            }
            code.push(line);
        }
        // Writing to a string does not fail.
        let _ = write!(out, "<pre class=\"code\"><code>{}</code></pre>", html(&code.join("\n")));
    }
    flush(&mut out, &mut paragraph);
    out
}

/// The marks that begin a block of code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let length = line.len() - line.trim_start_matches(mark).len();
    // Text behind the marks names the language; a mark in it makes it something else.
    (length >= 3 && !line.get(length..).unwrap_or_default().contains(mark))
        .then(|| line.get(..length))
        .flatten()
}

fn flush(out: &mut String, paragraph: &mut Vec<&str>) {
    let blank = |line: &&str| line.trim().is_empty();
    let begin = paragraph.iter().position(|line| !blank(line));
    let end = paragraph.iter().rposition(|line| !blank(line));
    if let (Some(begin), Some(end)) = (begin, end) {
        out.push_str("<div class=\"words\" dir=\"auto\">");
        for (number, line) in paragraph.get(begin..=end).unwrap_or_default().iter().enumerate() {
            if number > 0 {
                out.push('\n');
            }
            line_of(out, line);
        }
        out.push_str("</div>");
    }
    paragraph.clear();
}

fn line_of(out: &mut String, line: &str) {
    let marks = line.len() - line.trim_start_matches('#').len();
    match line.get(marks..).and_then(|rest| rest.strip_prefix(' ')) {
        Some(heading) if (1..=6).contains(&marks) => {
            out.push_str("<strong class=\"h\">");
            spans(out, heading);
            out.push_str("</strong>");
        }
        _ => spans(out, line),
    }
}

/// Code between backticks, and between them emphasis with two stars.
fn spans(out: &mut String, line: &str) {
    let pieces: Vec<&str> = line.split('`').collect();
    // A backtick without its partner is one.
    let paired = pieces.len() % 2 == 1;
    for (number, piece) in pieces.iter().enumerate() {
        if number % 2 == 1 && (paired || number + 1 < pieces.len()) && !piece.is_empty() {
            let _ = write!(out, "<code>{}</code>", html(piece));
        } else if number % 2 == 1 {
            out.push('`');
            strong(out, piece);
            if paired || number + 1 < pieces.len() {
                out.push('`');
            }
        } else {
            strong(out, piece);
        }
    }
}

fn strong(out: &mut String, text: &str) {
    let pieces: Vec<&str> = text.split("**").collect();
    let closed = pieces.len() - usize::from(pieces.len().is_multiple_of(2));
    for (number, piece) in pieces.iter().enumerate() {
        if number % 2 == 1 && number < closed && !piece.is_empty() {
            let _ = write!(out, "<strong>{}</strong>", html(piece));
        } else {
            if number % 2 == 1 {
                out.push_str("**");
            }
            out.push_str(&html(piece));
            if number % 2 == 1 && number < closed {
                out.push_str("**");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prose;

    fn inner(text: &str) -> String {
        prose(text).replace("<div class=\"words\" dir=\"auto\">", "").replace("</div>", "")
    }

    #[test]
    fn markdown_is_read_a_little() {
        assert_eq!(inner("a `b<` **c** d"), "a <code>b&lt;</code> <strong>c</strong> d");
        assert_eq!(inner("# A **b**"), "<strong class=\"h\">A <strong>b</strong></strong>");
        assert_eq!(inner("[x](http://y) ![z](http://w)"), "[x](http://y) ![z](http://w)");
        assert_eq!(
            inner("a\n```rust\nlet `x` = 1;\n```\nb"),
            "a<pre class=\"code\"><code>let `x` = 1;</code></pre>b"
        );
        assert_eq!(inner("~~~\n<b>"), "<pre class=\"code\"><code>&lt;b&gt;</code></pre>");
    }

    #[test]
    fn no_character_is_lost() {
        for text in ["a ` b", "a ** b", "`` x", "a **b", "**a** **b", "#!x", "`a` `b", "x `` y `z`", "``````"]
        {
            let shown = inner(text);
            let plain: String = shown
                .replace("<code>", "`")
                .replace("</code>", "`")
                .replace("<strong>", "**")
                .replace("</strong>", "**");
            assert!(plain == text || text == "``````", "{text}: {shown}");
        }
    }
}
