//! Text for people: nothing that a cell, a model or a file said reaches a terminal with its control characters live.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// A text with every control character but newline and tab spelled out: C0, DEL and C1 become `\u{1b}` and the like.
///
/// ```
/// assert_eq!(flowcell::render::plain("a\u{1b}[2Jb\u{9b}c\n"), "a\\u{1b}[2Jb\\u{9b}c\n");
/// ```
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' && character != '\t' {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// The same on one line: newlines and tabs are spelled out too, and so are characters that reorder what stands around
/// them, so that a capability or a path reads as what it is.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other if other.is_control() || is_invisible(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// The same, cut to a number of characters.
pub fn short(text: &str, most: usize) -> String {
    let text = line(text);
    if text.chars().count() <= most {
        return text;
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A number of things: `1 run`, `2 runs`.
///
/// ```
/// assert_eq!(flowcell::render::count(1, "run"), "1 run");
/// assert_eq!(flowcell::render::count(0, "run"), "0 runs");
/// ```
pub fn count(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// A word as a POSIX shell reads it back.
pub fn shell_word(word: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(bare) {
        return word.to_owned();
    }
    if word.chars().any(|character| character.is_control() || is_invisible(character)) {
        return ansi_word(word);
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A word with characters that no terminal shows, in the quotes that spell them: `$'...'`.
fn ansi_word(word: &str) -> String {
    let mut out = String::from("$'");
    for character in word.chars() {
        match character {
            '\'' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other if other.is_control() || is_invisible(other) => {
                let mut bytes = [0; 4];
                out.extend(other.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")));
            }
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// Whether a character orders or splits the text around it without being seen: a name that holds one reads as another.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

/// One JSON document as text. DEL and C1, which JSON leaves as they are, are escaped.
///
/// # Errors
/// As [`serde_json::to_string`].
pub fn json(document: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(document).map(|text| escape(&text))
}

/// As [`json`], with line breaks and indentation.
///
/// # Errors
/// As [`serde_json::to_string_pretty`].
pub fn json_pretty(document: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(document).map(|text| escape(&text))
}

/// Outside of strings JSON text has no such character, so an escape is right wherever one stands.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\u{7f}'..='\u{9f}') {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
}

/// Where results and messages go: standard output and standard error, or what a test hands in.
pub struct Surface<'a> {
    /// Results.
    pub out: &'a mut (dyn Write + Send),
    /// Whether results are JSON.
    pub json: bool,
    /// Messages.
    pub messages: Messages,
}

impl Surface<'_> {
    /// Prints a result as one JSON document.
    ///
    /// # Errors
    /// When standard output does not take it, a reader that went away excepted.
    pub fn document(&mut self, document: &impl Serialize) -> io::Result<()> {
        let text = json(document)?;
        self.write(&text)
    }

    /// Prints a result as indented JSON.
    ///
    /// # Errors
    /// As [`Surface::document`].
    pub fn indented(&mut self, document: &impl Serialize) -> io::Result<()> {
        let text = json_pretty(document)?;
        self.write(&text)
    }

    /// Prints a result as text, its control characters spelled out, with a newline at its end.
    ///
    /// # Errors
    /// As [`Surface::document`].
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        let text = plain(text);
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { self.out.write_all(b"\n") });
        match written.and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Messages to a person, on standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages {
    /// Whether `error:` and `warning:` have colours.
    pub colour: bool,
    /// Whether warnings, notes and progress are left out.
    pub quiet: bool,
    /// Whether progress is shown.
    pub progress: bool,
}

impl Messages {
    /// A line that is always shown.
    pub fn say(self, text: &str) {
        self.put("", "", text);
    }

    /// A line that `-q` leaves out.
    pub fn warn(self, text: &str) {
        if !self.quiet {
            self.put("warning: ", "\u{1b}[33m", text);
        }
    }

    /// A line that belongs to a result; `-q` leaves it out.
    pub fn note(self, text: &str) {
        if !self.quiet {
            self.put("", "", text);
        }
    }

    /// A line of progress, shown with a terminal or `-v`.
    pub fn progress(self, text: &str) {
        if self.progress && !self.quiet {
            self.put("", "", text);
        }
    }

    /// What failed.
    pub fn error(self, text: &str) {
        self.put("error: ", "\u{1b}[31m", text);
    }

    fn put(self, label: &str, colour: &str, text: &str) {
        let text = plain(text);
        let text = text.trim_end_matches('\n');
        let mut err = io::stderr().lock();
        // There is nobody to tell when standard error is gone.
        let _ = if self.colour && !label.is_empty() {
            writeln!(err, "{colour}{label}\u{1b}[0m{text}")
        } else {
            writeln!(err, "{label}{text}")
        };
    }
}

/// A time in milliseconds since 1970 as `2026-01-31 08:09:10Z`.
///
/// ```
/// assert_eq!(flowcell::render::date_time(951_782_400_000), "2000-02-29 00:00:00Z");
/// assert_eq!(flowcell::render::date_time(-1_000), "1969-12-31 23:59:59Z");
/// ```
pub fn date_time(ms: i64) -> String {
    let seconds = ms.div_euclid(1_000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days are counted from 1 March of year 0, so that the leap day is the last of its year, in cycles of 400 years.
    let since = days.saturating_add(719_468);
    let (cycle, of_cycle) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let of_years = of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096;
    let year = of_years / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year + cycle * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// A value as a person reads it: a string as itself, anything else as JSON.
pub fn value(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        other => escape(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(plain("x\u{7}\u{7f}\u{85}\r\ty\n"), "x\\u{7}\\u{7f}\\u{85}\\u{d}\ty\n");
        assert_eq!(line("a\nb\tc\u{1b}"), "a\\nb\\tc\\u{1b}");
        assert_eq!(line("fs:write:/a/\u{202e}gnp.exe"), "fs:write:/a/\\u{202e}gnp.exe");
        assert_eq!(plain("é ✓ 🦀"), "é ✓ 🦀");
    }

    #[test]
    fn json_text_holds_no_live_control_character() {
        let text = json(&"a\u{1b}\u{7f}\u{9b}b").unwrap();
        assert!(text.chars().all(|character| !character.is_control()), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "a\u{1b}\u{7f}\u{9b}b");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word("a/b-c"), "a/b-c");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(
            shell_word("a\nb\u{1b}'\\\u{9b}\u{202e}"),
            "$'a\\nb\\x1b\\'\\\\\\xc2\\x9b\\xe2\\x80\\xae'"
        );
    }

    #[test]
    fn a_cut_says_so() {
        assert_eq!(short("abcdef", 4), "abc…");
        assert_eq!(short("abcd", 4), "abcd");
    }
}
