//! The turns of a session, and the figures of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use flowcell_engines::harness::transcripts::{EditedFile, Entry, Part, ToolStatus};

use super::inert;

/// Characters of a turn's title.
const TITLE: usize = 72;

/// Divides entries into turns, as they come.
///
/// A turn begins where the record names another one. Where none is named, it begins with a prompt.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    number: u64,
    id: Option<String>,
    /// Whether the current turn holds anything but the owner's words.
    answered: bool,
}

impl Turns {
    /// Whether this entry begins a turn.
    pub(crate) fn begins(&mut self, entry: &Entry) -> bool {
        let owner = matches!(entry.part, Part::Prompt { .. } | Part::Goal { .. });
        let begins = match (&entry.turn_id, &self.id) {
            (Some(id), Some(current)) => id != current,
            // What came before the first turn that has a name belongs to it when it is the owner's words.
            (Some(_), None) => self.number == 0 || self.answered,
            (None, _) => self.number == 0 || (matches!(entry.part, Part::Prompt { .. }) && self.answered),
        };
        if begins {
            self.number += 1;
            self.answered = false;
            self.id = None;
        }
        if entry.turn_id.is_some() {
            self.id.clone_from(&entry.turn_id);
        }
        self.answered |= !owner;
        begins
    }

    /// The number of the current turn, from 1; 0 before the first entry.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }
}

/// What a turn, or a session, came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) entries: u64,
    pub(crate) tools: u64,
    /// The files of edits that happened.
    pub(crate) edited: BTreeSet<String>,
    /// Commands and edits that failed, and errors.
    pub(crate) failures: u64,
    /// The first and the last time that is known, in milliseconds.
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Figures {
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        match &entry.part {
            Part::Tool { status, .. } => {
                self.tools += 1;
                self.failures += u64::from(*status == ToolStatus::Error);
            }
            Part::Edit { files, outcome, .. } => {
                if failed(*outcome) {
                    self.failures += 1;
                } else {
                    self.edited.extend(files.iter().map(|file| file.path.clone()));
                }
            }
            Part::Error { .. } => self.failures += 1,
            _ => {}
        }
        if entry.at != 0 {
            if self.first == 0 {
                self.first = entry.at;
            }
            self.last = entry.at.max(self.last);
        }
    }

    /// How long it took, when that is known.
    pub(crate) fn took(&self) -> Option<u64> {
        u64::try_from(self.last.saturating_sub(self.first)).ok().filter(|took| *took > 0)
    }
}

/// Whether an edit did not happen.
pub(crate) fn failed(outcome: flowcell_engines::harness::transcripts::EditOutcome) -> bool {
    outcome == flowcell_engines::harness::transcripts::EditOutcome::Failed
}

/// A turn's title, when this entry can give it one: the owner's words before the agent's.
pub(crate) fn title(entry: &Entry) -> Option<(bool, String)> {
    let (owner, text) = match &entry.part {
        Part::Prompt { text } => (true, text),
        Part::Goal { objective, .. } => (true, objective),
        Part::Text { text, .. } => (false, text),
        Part::Error { message } => (false, message),
        _ => return None,
    };
    let title = inert::title(text, TITLE);
    (!title.is_empty()).then_some((owner, title))
}

/// A time span: `340 ms`, `1.3 s`, `2 min 5 s`, `3 h 4 min`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=59 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Lines that a diff adds and removes.
pub(crate) fn changed(file: &EditedFile) -> (usize, usize) {
    let mut counts = (0, 0);
    for line in inert::lines(&file.diff) {
        match line.as_bytes().first() {
            Some(b'+') => counts.0 += 1,
            Some(b'-') => counts.1 += 1,
            _ => {}
        }
    }
    counts
}

/// How a tool ended, in a few words: `exit 1 · 1.3 s`.
pub(crate) fn ended(status: ToolStatus, exit_code: Option<i64>, duration_ms: u64) -> String {
    let mut words = match (status, exit_code) {
        (ToolStatus::Running, _) => "still running".to_owned(),
        (_, Some(code)) => format!("exit {code}"),
        (ToolStatus::Ok, None) => String::new(),
        (ToolStatus::Error, None) => "failed".to_owned(),
    };
    if duration_ms > 0 {
        let between = if words.is_empty() { "" } else { " · " };
        // Writing to a string does not fail.
        let _ = write!(words, "{between}{}", duration(duration_ms));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(turn: Option<&str>, part: &serde_json::Value) -> Entry {
        serde_json::from_value(serde_json::json!({
            "origin": "external", "agent_kind": "codex", "format_version": "codex-rollout/0.160", "session_id": "s",
            "source_id": "s:1", "read_only": true, "seq": 0, "at": 0, "turn_id": turn, "role": "user", "part": part,
        }))
        .unwrap()
    }

    #[test]
    fn turns_begin_where_a_record_says_so_or_with_a_prompt() {
        let prompt = || serde_json::json!({"type": "prompt", "text": "x"});
        let text = || serde_json::json!({"type": "text", "text": "x", "final": true});
        let begins = |entries: &[(Option<&str>, serde_json::Value)]| {
            let mut turns = Turns::default();
            entries.iter().map(|(turn, part)| turns.begins(&entry(*turn, part))).collect::<Vec<_>>()
        };
        assert_eq!(
            begins(&[(Some("a"), prompt()), (Some("a"), text()), (Some("a"), prompt()), (Some("b"), text())]),
            [true, false, false, true]
        );
        assert_eq!(
            begins(&[(None, prompt()), (None, prompt()), (None, text()), (None, prompt())]),
            [true, false, false, true]
        );
        assert_eq!(begins(&[(None, prompt()), (Some("a"), prompt()), (None, text())]), [true, false, false]);
        assert_eq!(begins(&[(None, text()), (Some("a"), prompt())]), [true, true]);
    }

    #[test]
    fn spans_read_well() {
        let spans = [0, 999, 1_340, 59_999, 125_000, 11_040_000].map(duration);
        assert_eq!(spans, ["0 ms", "999 ms", "1.3 s", "59.9 s", "2 min 5 s", "3 h 4 min"]);
    }
}
