//! Looking for lines in a file: four passes, each looser than the one before (host contract 6).

/// Lines between two questions whether to stop.
const STEPS: usize = 1 << 14;

/// How a line of a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Lf,
    CrLf,
    None,
}

impl Ending {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Ending::Lf => "\n",
            Ending::CrLf => "\r\n",
            Ending::None => "",
        }
    }
}

/// A text by lines. A line ends at LF, and one CR before it belongs to the ending.
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// Where each line starts.
    starts: Vec<u32>,
}

impl<'a> Lines<'a> {
    /// `None` for a text of 4 GiB or more.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        let mut starts = Vec::with_capacity(text.len() / 32 + 1);
        let mut next = Some(0);
        for feed in memchr::memchr_iter(b'\n', text.as_bytes()) {
            starts.extend(next);
            next = u32::try_from(feed + 1).ok();
        }
        // What follows the last LF is a line unless it is nothing.
        starts.extend(next.filter(|start| (*start as usize) < text.len()));
        Some(Lines { text, starts })
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Where a line starts; the end of the text for the line after the last.
    fn start(&self, line: usize) -> usize {
        self.starts.get(line).map_or(self.text.len(), |start| *start as usize)
    }

    /// The lines `from..to` as they stand, endings included.
    pub(crate) fn raw(&self, from: usize, to: usize) -> &'a str {
        &self.text[self.start(from)..self.start(to)]
    }

    /// A line without its ending.
    pub(crate) fn text(&self, line: usize) -> &'a str {
        let raw = self.raw(line, line + 1);
        &raw[..raw.len() - ending(raw).as_str().len()]
    }

    pub(crate) fn ending(&self, line: usize) -> Ending {
        ending(self.raw(line, line + 1))
    }
}

fn ending(raw: &str) -> Ending {
    if raw.ends_with("\r\n") {
        Ending::CrLf
    } else if raw.ends_with('\n') {
        Ending::Lf
    } else {
        Ending::None
    }
}

/// The search was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// The first line from `start` on at which all lines of `pattern` stand one after the other; with `at_end` they have to be
/// the last lines of the text. Each pass looks everywhere before the next one looks anywhere. No pattern is at `start`, or
/// at the end.
///
/// A pass takes time linear in the lines it looks at and in the pattern, however they repeat. `stop` is asked now and then.
pub(crate) fn seek(
    lines: &Lines<'_>,
    pattern: &[&str],
    start: usize,
    at_end: bool,
    stop: &dyn Fn() -> bool,
) -> Result<Option<usize>, Stopped> {
    let Some(last) = lines.len().checked_sub(pattern.len()).filter(|last| start <= *last) else {
        return Ok(None);
    };
    let from = if at_end { last } else { start };
    if pattern.is_empty() {
        return Ok(Some(from));
    }
    let mut ticks = Ticks { left: STEPS, stop };
    if let Some(hit) = find(lines, pattern, from, |line, wanted| line == *wanted, &mut ticks)? {
        return Ok(Some(hit));
    }
    let right: Vec<&str> = pattern.iter().map(|line| line.trim_end()).collect();
    if let Some(hit) = find(lines, &right, from, |line, wanted| line.trim_end() == *wanted, &mut ticks)? {
        return Ok(Some(hit));
    }
    let both: Vec<&str> = pattern.iter().map(|line| line.trim()).collect();
    if let Some(hit) = find(lines, &both, from, |line, wanted| line.trim() == *wanted, &mut ticks)? {
        return Ok(Some(hit));
    }
    let folded: Vec<String> = both.iter().map(|line| line.chars().map(fold).collect()).collect();
    let same = |line: &str, wanted: &String| line.trim().chars().map(fold).eq(wanted.chars());
    find(lines, &folded, from, same, &mut ticks)
}

/// Asks now and then whether to stop.
struct Ticks<'a> {
    left: usize,
    stop: &'a dyn Fn() -> bool,
}

impl Ticks<'_> {
    fn tick(&mut self) -> Result<(), Stopped> {
        self.left -= 1;
        if self.left > 0 {
            return Ok(());
        }
        self.left = STEPS;
        if (self.stop)() { Err(Stopped) } else { Ok(()) }
    }
}

/// The first line from `from` on at which the pattern stands: the method of Knuth, Morris and Pratt, lines for letters.
/// `same` is an equivalence, the pattern's lines are in its normal form.
fn find<P: PartialEq>(
    lines: &Lines<'_>,
    pattern: &[P],
    from: usize,
    same: impl Fn(&str, &P) -> bool,
    ticks: &mut Ticks<'_>,
) -> Result<Option<usize>, Stopped> {
    let fallback = fallback(pattern);
    let mut matched = 0;
    let mut at = from;
    // Where fewer lines are left than are wanted nothing is found any more.
    while lines.len() - at >= pattern.len() - matched {
        ticks.tick()?;
        if same(lines.text(at), &pattern[matched]) {
            matched += 1;
            at += 1;
            if matched == pattern.len() {
                return Ok(Some(at - matched));
            }
        } else if matched > 0 {
            matched = fallback[matched - 1];
        } else {
            at += 1;
        }
    }
    Ok(None)
}

/// For each beginning of the pattern, the length of its longest shorter beginning that is also its end.
fn fallback<P: PartialEq>(pattern: &[P]) -> Vec<usize> {
    let mut table = vec![0; pattern.len()];
    let mut matched = 0;
    for at in 1..pattern.len() {
        while matched > 0 && pattern[at] != pattern[matched] {
            matched = table[matched - 1];
        }
        if pattern[at] == pattern[matched] {
            matched += 1;
        }
        table[at] = matched;
    }
    table
}

/// A character as the last pass sees it: dashes, quotes and blanks of typography are those of ASCII.
fn fold(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn at(text: &str, pattern: &[&str], start: usize, at_end: bool) -> Option<usize> {
        seek(&Lines::of(text).unwrap(), pattern, start, at_end, &|| false).unwrap()
    }

    #[test]
    fn lines_and_their_endings() {
        for (text, expected) in [
            ("", vec![]),
            ("\n", vec![("", Ending::Lf)]),
            ("a", vec![("a", Ending::None)]),
            ("a\r\n\r\nb\r", vec![("a", Ending::CrLf), ("", Ending::CrLf), ("b\r", Ending::None)]),
            ("a\r\r\nb\n", vec![("a\r", Ending::CrLf), ("b", Ending::Lf)]),
        ] {
            let lines = Lines::of(text).unwrap();
            let found: Vec<_> = (0..lines.len()).map(|line| (lines.text(line), lines.ending(line))).collect();
            assert_eq!(found, expected, "{text:?}");
            assert_eq!(lines.raw(0, lines.len()), text);
        }
    }

    #[test]
    fn a_pass_looks_everywhere_before_the_next() {
        let text = "\u{2014}k\u{a0}v\n  -k v\n-k v  \n-k v\n";
        let all = ["-k v"];
        assert_eq!(at(text, &all, 0, false), Some(3));
        assert_eq!(at("\u{2014}k\u{a0}v\n  -k v\n-k v  \n", &all, 0, false), Some(2));
        assert_eq!(at("\u{2014}k\u{a0}v\n  -k v\n", &all, 0, false), Some(1));
        assert_eq!(at("\u{2014}k\u{a0}v\n", &all, 0, false), Some(0));
        assert_eq!(at("-K v\n", &all, 0, false), None);
    }

    #[test]
    fn folding_is_the_list_of_the_contract() {
        for c in ('\u{2010}'..='\u{2015}').chain(['\u{2212}']) {
            assert_eq!(fold(c), '-', "{c:?}");
        }
        assert!(('\u{2018}'..='\u{201B}').all(|c| fold(c) == '\''));
        assert!(('\u{201C}'..='\u{201F}').all(|c| fold(c) == '"'));
        for c in ('\u{2002}'..='\u{200A}').chain(['\u{A0}', '\u{202F}', '\u{205F}', '\u{3000}']) {
            assert_eq!(fold(c), ' ', "{c:?}");
        }
        for c in ['\u{2016}', '\u{2017}', '\u{2020}', '\u{2000}', '\u{2001}', '\u{200B}', '\u{2013}'] {
            assert_eq!(fold(c) == c, c != '\u{2013}', "{c:?}");
        }
    }

    #[test]
    fn starts_and_ends() {
        let text = "a\nb\na\nb\n";
        assert_eq!(at(text, &["a", "b"], 0, false), Some(0));
        assert_eq!(at(text, &["a", "b"], 1, false), Some(2));
        assert_eq!(at(text, &["a", "b"], 3, false), None);
        assert_eq!(at(text, &["a", "b"], 0, true), Some(2));
        assert_eq!(at(text, &["a", "b"], 3, true), None, "what is before the cursor is not looked at");
        assert_eq!(at(text, &["b", "a"], 0, true), None);
        assert_eq!(at(text, &[], 1, false), Some(1));
        assert_eq!(at(text, &[], 1, true), Some(4));
        assert_eq!(at(text, &["a", "b", "a", "b", "a"], 0, false), None);
        assert_eq!(at("", &["a"], 0, false), None);
    }

    #[test]
    fn repetition_costs_nothing() {
        let text = "\n".repeat(400_000);
        let mut pattern = vec![""; 200_000];
        pattern.push("x");
        let asked = Cell::new(0usize);
        let stop = || {
            asked.set(asked.get() + 1);
            false
        };
        let lines = Lines::of(&text).unwrap();
        assert_eq!(seek(&lines, &pattern, 0, false, &stop), Ok(None));
        assert!(asked.get() * STEPS <= 4 * 2 * (400_000 + STEPS), "{} questions", asked.get());
        assert_eq!(seek(&lines, &pattern, 0, false, &|| true), Err(Stopped));
    }
}
