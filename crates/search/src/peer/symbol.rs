//! The declaration around a line, found as search contract 5 words it: from the line upwards, one candidate after the other.

use crate::symbols::Symbol;

const MODIFIERS: [&str; 15] = [
    "async",
    "export",
    "default",
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "final",
    "abstract",
    "open",
    "pub",
    "unsafe",
    "const",
    "declare",
];
const KEYWORDS: [&str; 15] = [
    "def",
    "class",
    "function",
    "fn",
    "func",
    "struct",
    "impl",
    "interface",
    "trait",
    "enum",
    "module",
    "namespace",
    "type",
    "sub",
    "method",
];

/// The lines of a text.
pub(super) struct Lines(Vec<String>);

impl Lines {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let line = |line: &str| match line.strip_suffix('\n') {
            Some(line) => line.strip_suffix('\r').unwrap_or(line).to_owned(),
            None => line.to_owned(),
        };
        Self(text.split_inclusive('\n').map(line).collect())
    }

    /// The symbol of line `number`, from 1.
    pub(super) fn symbol(&self, number: u64) -> Option<Symbol> {
        let hit = usize::try_from(number).ok()?.checked_sub(1)?;
        self.0.get(hit)?;
        if let Some((kind, name)) = declaration(&self.0[hit]) {
            return Some(symbol(kind, name, hit, self.end(hit)));
        }
        let own = (0..=hit)
            .rev()
            .map(|at| &self.0[at])
            .find(|line| !is_blank(line))
            .map(|line| indentation(line))?;
        (0..hit).rev().find_map(|start| {
            let (kind, name) = declaration(&self.0[start])?;
            let end = self.end(start);
            (indentation(&self.0[start]) < own && hit <= end).then(|| symbol(kind, name, start, end))
        })
    }

    /// The last line of the block that starts at `start`.
    fn end(&self, start: usize) -> usize {
        let own = indentation(&self.0[start]);
        let closes = |line: &str| line.trim_start_matches([' ', '\t']).starts_with([')', '}', ']']);
        let reopens = |line: &str| closes(line) && trimmed(line).ends_with(['{', '(', '[', ':']);
        let ends = |line: &String| !is_blank(line) && indentation(line) <= own && !reopens(line);
        let mut end = match (start + 1..self.0.len()).find(|at| ends(&self.0[*at])) {
            Some(at) if closes(&self.0[at]) => at,
            Some(at) => at - 1,
            None => self.0.len() - 1,
        };
        while end > start && is_blank(&self.0[end]) {
            end -= 1;
        }
        end
    }
}

fn symbol(kind: &str, name: &str, start: usize, end: usize) -> Symbol {
    let number = |index: usize| index as u64 + 1;
    Symbol { kind: kind.to_owned(), name: name.to_owned(), start_line: number(start), end_line: number(end) }
}

fn trimmed(line: &str) -> &str {
    line.trim_end_matches(|character: char| character.is_ascii_whitespace())
}

fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| byte.is_ascii_whitespace())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Keyword and name of a declaration line.
fn declaration(line: &str) -> Option<(&'static str, &str)> {
    let mut rest = line.trim_start_matches([' ', '\t']);
    loop {
        let word = rest.split([' ', '\t']).next().unwrap_or_default();
        let length = if MODIFIERS.contains(&word) {
            word.len()
        } else if rest.starts_with("pub(") {
            rest.find(')')? + 1
        } else {
            break;
        };
        let after = rest[length..].trim_start_matches([' ', '\t']);
        if after.len() == rest[length..].len() {
            return None;
        }
        rest = after;
    }
    let word = rest.split([' ', '\t']).next().unwrap_or_default();
    let kind = KEYWORDS.iter().find(|keyword| **keyword == word)?;
    let rest = &rest[word.len()..];
    let name = rest.trim_start_matches([' ', '\t']);
    let starts = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$');
    let goes_on = |byte: &u8| starts(*byte) || byte.is_ascii_digit();
    let length = name.bytes().take_while(goes_on).count();
    (name.len() < rest.len() && name.bytes().next().is_some_and(starts)).then(|| (*kind, &name[..length]))
}
