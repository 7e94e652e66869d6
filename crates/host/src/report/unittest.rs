//! Reports of Python's `unittest`.

use super::{Ids, Reader, Report, number};

const HEADINGS: [&str; 3] = ["FAIL: ", "ERROR: ", "UNEXPECTED SUCCESS: "];

/// The report of `unittest` in an output; `None` when it holds nothing of one.
///
/// Failing ids are the headings of the listed tracebacks: ` m (a.b.C)` is `a.b.C.m`, ` m (a.b.C.m)` is itself. Complete
/// when there is one `Ran N tests` line with its summary after it, the summary holds known keys alone, as many ids as it
/// counts were seen, the counts add up to N, and it says `OK` exactly when nothing failed.
#[must_use]
pub fn unittest(output: &str) -> Option<Report> {
    scan(output).map(|(report, _)| report)
}

/// The report, and whether it is beyond doubt that it is one: a `Ran` line, or a heading below its rule.
pub(super) fn scan(output: &str) -> Option<(Report, bool)> {
    let mut failed = Ids::default();
    let (mut ran, mut runs) = (0, 0_u32);
    let mut end = None;
    // A heading stands below a rule, or below another heading of the same list.
    let mut below = false;
    let mut certain = false;
    for line in output.lines() {
        if let Some(id) = heading(line) {
            failed.add(id);
            certain |= below;
            continue;
        }
        below = line.len() >= 10 && line.bytes().all(|byte| byte == b'=');
        if let Some(count) = ran_line(line) {
            (ran, end) = (count, None);
            runs += 1;
        } else if runs > 0
            && let Some(summary) = summary(line)
        {
            end = Some(summary);
        }
    }
    if failed.is_empty() && runs == 0 {
        return None;
    }
    let passed = match end {
        Some(Some(end)) if runs == 1 => end.passed(ran, failed.count()),
        _ => None,
    };
    Some((Report::new(Reader::Unittest, failed, passed), certain || runs > 0))
}

/// The id of a heading: `FAIL: m (a.b.C)`, perhaps with the parameters of a subtest behind it.
fn heading(line: &str) -> Option<String> {
    let rest = HEADINGS.iter().find_map(|word| line.strip_prefix(word))?;
    let (method, rest) = rest.split_once(" (")?;
    let (class, after) = rest.split_once(')')?;
    let word = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '(');
    if !word(method) || !word(class) || !(after.is_empty() || after.starts_with(' ')) {
        return None;
    }
    let whole = class.strip_suffix(method).is_some_and(|front| front.ends_with('.'));
    Some(if whole { class.to_owned() } else { format!("{class}.{method}") })
}

/// N of `Ran N tests in 0.001s`.
fn ran_line(line: &str) -> Option<u64> {
    let (count, rest) = line.strip_prefix("Ran ")?.split_once(" test")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest).trim_end();
    if rest.is_empty() || rest.starts_with(" in ") { number(count) } else { None }
}

/// The counts of a summary.
#[derive(Default)]
struct Summary {
    ok: bool,
    failing: u64,
    skipped: u64,
    expected: u64,
}

impl Summary {
    /// Tests that passed, if everything adds up.
    fn passed(&self, ran: u64, ids: u64) -> Option<u64> {
        let others = self.failing.checked_add(self.skipped)?.checked_add(self.expected)?;
        let passed = ran.checked_sub(others)?;
        (ids == self.failing && self.ok == (self.failing == 0)).then_some(passed)
    }
}

/// A summary line; inside, `None` when it holds what is not understood.
#[allow(clippy::option_option)] // "no summary" and "a summary that cannot be read" are two answers
fn summary(line: &str) -> Option<Option<Summary>> {
    let line = line.trim_end();
    let (ok, rest) = match (line.strip_prefix("OK"), line.strip_prefix("FAILED")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return None,
    };
    if rest.is_empty() {
        return Some(Some(Summary { ok, ..Summary::default() }));
    }
    let list = rest.strip_prefix(" (")?.strip_suffix(')')?;
    Some(counts(ok, list))
}

fn counts(ok: bool, list: &str) -> Option<Summary> {
    let mut summary = Summary { ok, ..Summary::default() };
    let mut seen = Vec::new();
    for item in list.split(", ") {
        let (key, count) = item.split_once('=')?;
        let count = number(count)?;
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
        match key {
            "failures" | "errors" | "unexpected successes" => {
                summary.failing = summary.failing.checked_add(count)?;
            }
            "skipped" => summary.skipped = count,
            "expected failures" => summary.expected = count,
            _ => return None,
        }
    }
    Some(summary)
}
