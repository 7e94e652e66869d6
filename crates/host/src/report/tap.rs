//! Reports in the Test Anything Protocol.

use super::{Ids, Reader, Report, number};

/// The TAP report in an output; `None` when it holds nothing of one.
///
/// The outcomes are those of the top level: an indented line belongs to a subtest, whose own outcome stands above it. A
/// failure is a `not ok` without `# SKIP` or `# TODO`; passed are the `ok` but for the skipped. Complete when one plan
/// `1..N` was printed, N outcomes were, each failure has a name, and nothing bailed out.
#[must_use]
pub fn tap(output: &str) -> Option<Report> {
    let mut ids = Ids::default();
    let (mut outcomes, mut passed) = (0_u64, 0_u64);
    let (mut plans, mut planned) = (0_u32, 0_u64);
    let (mut unnamed, mut bailed, mut version) = (false, false, false);
    for line in output.lines() {
        let line = line.trim_end();
        if let Some(count) = plan(line) {
            plans += 1;
            planned = count;
        } else if let Some(outcome) = outcome(line) {
            outcomes += 1;
            match outcome.directive {
                Some(Directive::Skip) => {}
                _ if outcome.ok => passed += 1,
                Some(Directive::Todo) => {}
                None if outcome.name.is_empty() => unnamed = true,
                None => ids.add(outcome.name),
            }
        } else if line.starts_with("Bail out!") {
            bailed = true;
        } else if line.strip_prefix("TAP version ").and_then(number).is_some() {
            version = true;
        }
    }
    if outcomes == 0 && plans == 0 && !version {
        return None;
    }
    let agrees = plans == 1 && planned == outcomes && !unnamed && !bailed;
    Some(Report::new(Reader::Tap, ids, agrees.then_some(passed)))
}

/// N of a plan `1..N`, perhaps with a comment.
fn plan(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("1..")?;
    number(rest.split_once('#').map_or(rest, |(count, _)| count).trim_end())
}

enum Directive {
    Skip,
    Todo,
}

struct Outcome {
    ok: bool,
    name: String,
    directive: Option<Directive>,
}

/// `ok` or `not ok`, then perhaps a number, a dash, a text and a directive.
fn outcome(line: &str) -> Option<Outcome> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    let mut rest = rest.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if digits > 0 && (digits == rest.len() || rest[digits..].starts_with([' ', '\t'])) {
        rest = rest[digits..].trim_start();
    }
    if let Some(after) = rest.strip_prefix('-')
        && (after.is_empty() || after.starts_with([' ', '\t']))
    {
        rest = after.trim_start();
    }
    let (name, directive) = described(rest);
    Some(Outcome { ok, name, directive })
}

/// The text of an outcome without its escapes, and the directive behind it.
fn described(text: &str) -> (String, Option<Directive>) {
    let mut name = String::with_capacity(text.len());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match text[at + 1..].chars().next() {
                Some(escaped @ ('#' | '\\')) => {
                    name.push(escaped);
                    chars.next();
                }
                _ => name.push(c),
            },
            '#' => match directive(&text[at + 1..]) {
                Some(directive) => return (name.trim_end().to_owned(), Some(directive)),
                None => name.push(c),
            },
            c => name.push(c),
        }
    }
    (name.trim_end().to_owned(), None)
}

fn directive(text: &str) -> Option<Directive> {
    let word = text.trim_start().get(..4)?;
    if word.eq_ignore_ascii_case("skip") {
        Some(Directive::Skip)
    } else if word.eq_ignore_ascii_case("todo") {
        Some(Directive::Todo)
    } else {
        None
    }
}
