//! Reports of Python's `pytest`.

use super::{Ids, Reader, Report, number};

/// The report of `pytest` in an output; `None` when it holds nothing of one.
///
/// Failing ids are the short summary's `FAILED id - why` and `ERROR id - why` and the verbose `id FAILED`. Complete when
/// one tally was printed (`1 failed, 2 passed in 0.1s`) and as many ids were seen as it counts failures and errors.
#[must_use]
pub fn pytest(output: &str) -> Option<Report> {
    let mut failed = Ids::default();
    let mut tallies = 0_u32;
    let mut tally = Tally::default();
    let mut listed = false;
    for line in output.lines() {
        let line = line.trim_end();
        if let Some(counts) = tally_line(line) {
            tally = counts;
            tallies += 1;
        } else if line.starts_with('=') && line.contains(" short test summary info ") {
            listed = true;
        } else if let Some(id) = summary_id(line, listed).or_else(|| verbose_id(line)) {
            failed.add(id);
        }
    }
    if failed.is_empty() && tallies == 0 && !listed {
        return None;
    }
    // Two tallies are two sessions, one of them perhaps a test's own: which is meant cannot be known.
    let agrees = tallies == 1 && tally.failed.checked_add(tally.errors) == Some(failed.count());
    Some(Report::new(Reader::Pytest, failed, agrees.then_some(tally.passed)))
}

#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    errors: u64,
}

/// The counts of `1 failed, 2 passed in 0.12s`, between `=` signs or bare.
fn tally_line(line: &str) -> Option<Tally> {
    let framed = line.starts_with('=') && line.ends_with('=');
    let text = if framed { line.trim_matches('=').trim() } else { line };
    let (list, timed) = match text.rsplit_once(" in ") {
        Some((list, time)) if time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s') => {
            (list, true)
        }
        _ => (text, false),
    };
    let mut tally = Tally::default();
    let mut outcomes = false;
    for item in list.split(", ") {
        let (count, word) = item.split_once(' ')?;
        let count = number(count)?;
        let into = match word {
            "passed" => Some(&mut tally.passed),
            "failed" => Some(&mut tally.failed),
            "error" | "errors" => Some(&mut tally.errors),
            "skipped" | "xfailed" | "xpassed" => None,
            "deselected" | "warning" | "warnings" | "rerun" | "reruns" => continue,
            // A plugin's own count, in a line that is a tally beyond doubt.
            word if (framed || timed) && word.bytes().all(|b| b.is_ascii_lowercase() || b == b' ') => {
                continue;
            }
            _ => return None,
        };
        outcomes = true;
        if let Some(into) = into {
            *into = into.checked_add(count)?;
        }
    }
    outcomes.then_some(tally)
}

/// The id of `FAILED id - why` or `ERROR id - why`.
fn summary_id(line: &str, listed: bool) -> Option<&str> {
    let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
    let id = without_reason(rest);
    let path = id.split_once('[').map_or(id, |(path, _)| path);
    let plain = !path.is_empty() && !path.starts_with('(') && !path.contains(char::is_whitespace);
    let likely = listed || path.contains("::") || path.contains('/') || path.ends_with(".py");
    (plain && likely).then_some(id)
}

/// What stands before ` - why`. The parameters of an id, in brackets, may hold that too: its brackets are matched where
/// that is possible, and closed where it is not.
fn without_reason(text: &str) -> &str {
    const DASH: &str = " - ";
    let (mut opened, mut shut, mut from) = (0_usize, 0_usize, 0);
    let (mut first, mut closed) = (None, None);
    for at in text.match_indices(DASH).map(|(at, _)| at).chain([text.len()]) {
        let (id, piece) = (&text[..at], &text[from..at]);
        from = at;
        opened += piece.matches('[').count();
        shut += piece.matches(']').count();
        if opened == 0 || id.ends_with(']') {
            if opened == shut {
                return id;
            }
            closed = closed.or(Some(id));
        }
        first = first.or(Some(id));
    }
    closed.or(first).unwrap_or(text)
}

/// The id of a verbose line: `id FAILED`, perhaps with the progress behind it.
fn verbose_id(line: &str) -> Option<&str> {
    let line = match line.strip_suffix("%]").and_then(|front| front.rsplit_once('[')) {
        Some((front, percent)) if number(percent.trim_start()).is_some() => front.trim_end(),
        _ => line,
    };
    let id = line.strip_suffix(" FAILED").or_else(|| line.strip_suffix(" ERROR"))?.trim_end();
    let (path, _) = id.split_once("::")?;
    (!path.is_empty() && !path.contains(char::is_whitespace)).then_some(id)
}
