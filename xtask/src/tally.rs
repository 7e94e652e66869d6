//! What a gate found.

/// Findings of one gate: errors fail it, notes do not.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) gate: &'static str,
    /// What is wrong, a sentence each.
    pub(crate) errors: Vec<String>,
    /// What is worth saying.
    pub(crate) notes: Vec<String>,
    /// What was looked at, for the line of a gate that passed.
    pub(crate) summary: String,
}

impl Findings {
    pub(crate) fn of(gate: &'static str) -> Self {
        Self { gate, ..Self::default() }
    }

    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Whether nothing is wrong.
    pub(crate) fn passed(&self) -> bool {
        self.errors.is_empty()
    }

    /// Prints them; `true` when nothing is wrong.
    pub(crate) fn print(&self) -> bool {
        for note in &self.notes {
            println!("  {note}");
        }
        for error in &self.errors {
            println!("  error: {error}");
        }
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        let summary = if self.summary.is_empty() { String::new() } else { format!(" ({})", self.summary) };
        println!("{}: {verdict}{summary}", self.gate);
        self.passed()
    }
}
