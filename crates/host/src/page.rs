//! One page of a text: whole lines, two bounds, and a notice of what was left out (host contract 1).

use std::fmt::Write as _;

use crate::kernel::flows::read::{MAX_LINE_SCALARS, MAX_OUTPUT_BYTES};
use crate::lines;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The lines, joined with LF; no LF after the last.
    pub content: String,
    /// The first line, from 1.
    pub start_line: u64,
    /// The last line that is in `content`; `start_line - 1` for an empty text.
    pub end_line: u64,
    /// Lines of the whole text.
    pub total_lines: u64,
    /// Whether a line was cut, the byte bound left lines out, or lines follow.
    pub truncated: bool,
    /// Says what was left out; there exactly when `truncated`.
    pub notice: Option<String>,
}

/// A page that starts after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset} is past the end: {what} has {total} {unit}")]
pub struct PastEnd {
    /// The line or entry that was asked for, from 1.
    pub offset: u64,
    /// Lines or entries of the whole.
    pub total: u64,
    /// What was paged, in words.
    pub what: &'static str,
    /// What is counted, in the plural.
    pub unit: &'static str,
}

/// The page of `text` that starts at line `offset` and has at most `limit` lines. Zero counts as 1 for both.
///
/// # Errors
///
/// [`PastEnd`] when `offset` is over the number of lines, or over 1 for an empty text.
///
/// ```
/// use flowcell_host::page;
/// let page = page::page("a\nb\n", 1, 1)?;
/// assert_eq!(page.content, "a");
/// assert_eq!(page.notice.as_deref(), Some("Lines 1-1 of 2 shown; continue at offset 2."));
/// # Ok::<(), page::PastEnd>(())
/// ```
pub fn page(text: &str, offset: u64, limit: u64) -> Result<Page, PastEnd> {
    let (offset, limit) = (offset.max(1), limit.max(1));
    let total = lines::count(text);
    if offset > total.max(1) {
        return Err(PastEnd { offset, total, what: "the file", unit: "lines" });
    }
    let rest = lines::start_of(text, offset).and_then(|start| text.get(start..)).unwrap_or_default();
    let mut content = String::new();
    let mut shown: u64 = 0;
    let mut cut = false;
    for line in lines::each(rest) {
        if shown == limit {
            break;
        }
        let displayed = head(line);
        let joint = usize::from(shown > 0);
        if content.len() + joint + displayed.len() > MAX_OUTPUT_BYTES {
            break;
        }
        if shown > 0 {
            content.push('\n');
        }
        content.push_str(displayed);
        cut |= displayed.len() < line.len();
        shown += 1;
    }
    let end = offset - 1 + shown;
    let more = end < total;
    let notice = (more || cut).then(|| notice(offset, end, total, cut));
    Ok(Page {
        content,
        start_line: offset,
        end_line: end,
        total_lines: total,
        truncated: more || cut,
        notice,
    })
}

fn notice(start: u64, end: u64, total: u64, cut: bool) -> String {
    let mut notice = format!("Lines {start}-{end} of {total} shown");
    if end < total {
        // A String takes every write.
        let _ = write!(notice, "; continue at offset {}", end + 1);
    }
    notice.push('.');
    if cut {
        let _ =
            write!(notice, " Lines over {MAX_LINE_SCALARS} characters are cut and cannot anchor an edit.");
    }
    notice
}

/// A line's first [`MAX_LINE_SCALARS`] scalar values; a trailing CR counts as one.
fn head(line: &str) -> &str {
    if line.len() <= MAX_LINE_SCALARS {
        return line;
    }
    match line.char_indices().nth(MAX_LINE_SCALARS) {
        Some((end, _)) => line.get(..end).unwrap_or(line),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_has_one_empty_page() {
        let page = page("", 1, 2_000).unwrap();
        assert_eq!((page.content.as_str(), page.start_line, page.end_line, page.total_lines), ("", 1, 0, 0));
        assert_eq!((page.truncated, page.notice), (false, None));
        let past = |text| super::page(text, 2, 1).unwrap_err().to_string();
        assert_eq!(past(""), "offset 2 is past the end: the file has 0 lines");
        assert_eq!(past("a\n"), "offset 2 is past the end: the file has 1 lines");
    }

    #[test]
    fn a_long_line_is_cut_by_scalar_values() {
        let line = "é".repeat(2_001);
        let cut = page(&line, 1, 1).unwrap();
        assert_eq!(cut.content, "é".repeat(2_000));
        assert_eq!(
            cut.notice.as_deref(),
            Some("Lines 1-1 of 1 shown. Lines over 2000 characters are cut and cannot anchor an edit.")
        );
        assert!(cut.truncated);
        assert!(!page(&"é".repeat(2_000), 1, 1).unwrap().truncated);
        let crlf = format!("{}\r\nb\n", "x".repeat(2_000));
        let page = page(&crlf, 1, 1).unwrap();
        assert_eq!(page.content, "x".repeat(2_000));
        assert_eq!(
            page.notice.as_deref(),
            Some(
                "Lines 1-1 of 2 shown; continue at offset 2. Lines over 2000 characters are cut and cannot anchor an edit."
            )
        );
    }

    #[test]
    fn lines_before_the_page_do_not_count() {
        let text = format!("{}\nb\n", "x".repeat(3_000));
        let page = page(&text, 2, 5).unwrap();
        assert_eq!((page.content.as_str(), page.truncated, page.notice), ("b", false, None));
    }

    #[test]
    fn the_byte_bound_keeps_whole_lines() {
        let line = "😀".repeat(2_000);
        let text = format!("{line}\n").repeat(9);
        let seven = page(&text, 1, 2_000).unwrap();
        assert_eq!((seven.end_line, seven.content.len()), (7, 7 * 8_000 + 6));
        assert_eq!(seven.notice.as_deref(), Some("Lines 1-7 of 9 shown; continue at offset 8."));
        // 30 lines of 1,999 bytes and their 29 LFs are 59,999 bytes; one more byte still fits, two do not.
        let exact = format!("{}\n", "x".repeat(1_999)).repeat(29) + &"y".repeat(2_000);
        let page_of = page(&exact, 1, 2_000).unwrap();
        assert_eq!((page_of.content.len(), page_of.truncated), (60_000, false));
        let over = format!("{}\n", "x".repeat(1_999)).repeat(28)
            + &format!("{}\n{}", "x".repeat(2_000), "y".repeat(2_000));
        let page_of = page(&over, 1, 2_000).unwrap();
        assert_eq!((page_of.end_line, page_of.total_lines, page_of.truncated), (29, 30, true));
    }

    #[test]
    fn a_limit_has_no_upper_bound() {
        let page = page("a\nb", 2, u64::MAX).unwrap();
        assert_eq!((page.content.as_str(), page.end_line, page.truncated), ("b", 2, false));
    }
}
