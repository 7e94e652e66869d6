//! What a test runner's output says: who passed, who failed, and whether that is the whole story (host contract 5.3).
//!
//! Each reader knows one format. [`read`] asks them in the contract's order and takes the first that recognises anything;
//! a JUnit file is read by [`junit`] on its own, because it is a file and not output.
//!
//! ```
//! let report = flowcell_host::report::read("FAILED a.py::test_x - boom\n1 failed, 2 passed in 0.1s\n");
//! let report = report.ok_or("nothing was recognised")?;
//! assert_eq!((report.passed, report.failed.as_slice()), (2, &["a.py::test_x".to_owned()][..]));
//! assert!(report.parsed);
//! # Ok::<(), &str>(())
//! ```
//!
//! **Invariant:** `parsed` is true only when an authoritative end was printed and agrees with what was seen; `passed` is 0
//! otherwise (flow reference, `test`).

use std::borrow::Cow;
use std::collections::HashSet;

mod junit;
mod libtest;
mod pytest;
mod tap;
mod unittest;

pub use junit::junit;
pub use libtest::libtest;
pub use pytest::pytest;
pub use tap::tap;
pub use unittest::unittest;

/// The format that a report was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// Python's `unittest`.
    Unittest,
    /// Python's `pytest`.
    Pytest,
    /// Rust's own test harness.
    Libtest,
    /// The Test Anything Protocol.
    Tap,
    /// A JUnit XML file.
    Junit,
}

/// A runner's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The format that was recognised.
    pub reader: Reader,
    /// Tests that passed; 0 when the report is not complete.
    pub passed: u64,
    /// Ids of tests that failed or ended in an error, each once, in the order first seen.
    pub failed: Vec<String>,
    /// Whether the report is complete and agrees with itself.
    pub parsed: bool,
}

impl Report {
    /// A report; `passed` is `None` when it is not complete.
    fn new(reader: Reader, failed: Ids, passed: Option<u64>) -> Self {
        Report { reader, passed: passed.unwrap_or(0), failed: failed.list, parsed: passed.is_some() }
    }
}

/// The report of the first reader that recognises anything in a runner's output, in the contract's order: unittest,
/// pytest, libtest, TAP. Terminal colours are looked through.
///
/// A line that only looks like a heading of unittest (`ERROR: name (words)`), with neither its rule above nor a `Ran` line
/// anywhere, is taken for one only when no other reader recognises anything: log lines look like that.
#[must_use]
pub fn read(output: &str) -> Option<Report> {
    let output = &*plain(output);
    let doubtful = match unittest::scan(output) {
        Some((report, true)) => return Some(report),
        Some((report, false)) => Some(report),
        None => None,
    };
    pytest(output).or_else(|| libtest(output)).or_else(|| tap(output)).or(doubtful)
}

/// Ids, each once, in the order first seen.
#[derive(Debug, Default)]
struct Ids {
    seen: HashSet<String>,
    list: Vec<String>,
}

impl Ids {
    fn add(&mut self, id: impl Into<String>) {
        let id = id.into();
        if self.seen.insert(id.clone()) {
            self.list.push(id);
        }
    }

    fn count(&self) -> u64 {
        self.list.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The text without terminal colours (`ESC [ … m`).
fn plain(text: &str) -> Cow<'_, str> {
    const START: &str = "\u{1b}[";
    if !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        out.push_str(&rest[..at]);
        let code = &rest[at + START.len()..];
        let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(code.len());
        match code[end..].strip_prefix('m') {
            Some(after) => rest = after,
            None => {
                out.push_str(START);
                rest = code;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A count as it is printed: digits alone.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_looked_through() {
        assert_eq!(plain("a\u{1b}[31mb\u{1b}[0;1m\u{1b}[mc"), "abc");
        assert_eq!(plain("\u{1b}[2Kx\u{1b}["), "\u{1b}[2Kx\u{1b}[");
        assert_eq!(plain("plain"), "plain");
        assert_eq!(number("07"), Some(7));
        assert_eq!((number(""), number("+1"), number("99999999999999999999")), (None, None, None));
    }
}
