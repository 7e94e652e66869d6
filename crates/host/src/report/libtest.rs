//! Reports of Rust's own test harness.

use super::{Ids, Reader, Report, number};

/// The report of libtest in an output, of one binary or of several one after another; `None` when it holds nothing of one.
///
/// Failing ids are the names of `test NAME ... FAILED`. Complete when there are as many `test result:` lines as
/// `running N tests` lines and as many ids as those results count failures.
#[must_use]
pub fn libtest(output: &str) -> Option<Report> {
    let mut ids = Ids::default();
    let (mut started, mut ended, mut seen) = (0_u64, 0_u64, false);
    let mut counts = Some((0_u64, 0_u64));
    for line in output.lines() {
        let line = line.trim_end();
        if running(line) {
            started += 1;
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            ended += 1;
            counts = match (counts, result(rest)) {
                (Some((passed, failed)), Some((p, f))) => passed.checked_add(p).zip(failed.checked_add(f)),
                _ => None,
            };
        } else if let Some((name, failed)) = outcome(line) {
            seen = true;
            if failed {
                ids.add(name);
            }
        }
    }
    if started == 0 && ended == 0 && !seen {
        return None;
    }
    let passed = match counts {
        Some((passed, failed)) if ended > 0 && started == ended && failed == ids.count() => Some(passed),
        _ => None,
    };
    Some(Report::new(Reader::Libtest, ids, passed))
}

/// Whether a line is `running N tests`.
fn running(line: &str) -> bool {
    let count = line
        .strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test")));
    count.and_then(number).is_some()
}

/// The passed and failed of `ok. 3 passed; 0 failed; 0 ignored; …`.
fn result(text: &str) -> Option<(u64, u64)> {
    let (_, counts) = text.split_once(". ").filter(|(word, _)| matches!(*word, "ok" | "FAILED"))?;
    let mut parts = counts.split("; ");
    let mut next = |word: &str| parts.next()?.strip_suffix(word).and_then(number);
    Some((next(" passed")?, next(" failed")?))
}

/// The test of `test NAME ... ok`, and whether it failed.
fn outcome(line: &str) -> Option<(&str, bool)> {
    let (name, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let word = end.split([' ', ',']).next().unwrap_or(end);
    let failed = match word {
        "ok" | "ignored" | "bench:" => false,
        "FAILED" => true,
        _ => return None,
    };
    // What is expected of a test is printed behind its name and is no part of it.
    let modes = [" - should panic", " - compile fail", " - compile"];
    let name = modes.iter().find_map(|mode| name.strip_suffix(mode)).unwrap_or(name);
    (!name.is_empty()).then_some((name, failed))
}
