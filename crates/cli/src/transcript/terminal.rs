//! A session as lines of text, for a terminal.

use std::io::{self, Write};

use flowcell_engines::harness::transcripts::{Change, EditedFile, Entry, Part, ToolStatus, TranscriptError};

use super::inert::{self, line};
use super::outline::{self, Figures, Turns, changed, duration, ended};
use crate::args::Agent;
use crate::render::{count, date_time};

/// Lines of an output, and of a diff, that are shown unless all are wanted.
const OUTPUT: usize = 24;
const DIFF: usize = 120;
/// Characters of one line that are shown unless all are wanted.
const WIDTH: usize = 2_000;

/// The colours of a terminal.
#[derive(Clone, Copy)]
enum Ink {
    Bold,
    Faint,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
    Magenta,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "1;34",
            Self::Cyan => "36",
            Self::Magenta => "35",
        }
    }
}

/// Writes entries as a person reads them.
///
/// Every text of an entry goes through [`line`] before it is written; the only control characters are this writer's own
/// newlines and, with colours, its own SGR sequences.
#[derive(Debug)]
pub(crate) struct Terminal {
    colour: bool,
    full: bool,
    turns: Turns,
    figures: Figures,
    session: Option<String>,
}

impl Terminal {
    pub(crate) fn new(colour: bool, full: bool) -> Self {
        Self { colour, full, turns: Turns::default(), figures: Figures::default(), session: None }
    }

    /// Another source follows: its turns are counted from one.
    pub(crate) fn anew(&mut self) {
        *self = Self::new(self.colour, self.full);
    }

    /// Writes one entry.
    pub(crate) fn entry(&mut self, out: &mut dyn Write, entry: &Entry) -> io::Result<()> {
        if self.session.as_deref() != Some(&*entry.session_id) {
            let agent = Agent::from(entry.agent_kind).name();
            let head = format!("{agent} session {}", line(&entry.session_id));
            writeln!(
                out,
                "{}  {}",
                self.ink(Ink::Bold, &head),
                self.ink(Ink::Faint, &line(&entry.format_version))
            )?;
            self.session = Some(entry.session_id.clone());
        }
        self.figures.add(entry);
        if self.turns.begins(entry) {
            let time = if entry.at == 0 { String::new() } else { format!(" {} ", date_time(entry.at)) };
            let rule = format!(
                "── {} ──{time}{}",
                self.turns.number(),
                "─".repeat(48_usize.saturating_sub(time.len()))
            );
            writeln!(out, "\n{}", self.ink(Ink::Faint, &rule))?;
        }
        self.part(out, &entry.part)
    }

    /// Writes what the session came to, and why it stops here when a record was refused.
    pub(crate) fn end(&self, out: &mut dyn Write, refused: Option<&TranscriptError>) -> io::Result<()> {
        if let Some(error) = refused {
            let said = format!("■ line {}: {}", error.line, line(&error.message));
            writeln!(out, "\n{}", self.ink(Ink::Red, &said))?;
            writeln!(out, "  {}", self.ink(Ink::Faint, "What follows that line is not shown."))?;
        }
        writeln!(out, "\n{}", self.ink(Ink::Faint, &summary(&self.figures, self.turns.number())))
    }

    fn part(&self, out: &mut dyn Write, part: &Part) -> io::Result<()> {
        match part {
            Part::Prompt { text } => {
                writeln!(out)?;
                self.block(out, text, usize::MAX, ("❯ ", "  "), Some(Ink::Blue))
            }
            Part::Goal { objective, status } => {
                let said = format!("◎ goal ({}): ", line(status));
                write!(out, "\n{}", self.ink(Ink::Magenta, &said))?;
                self.block(out, objective, usize::MAX, ("", "  "), Some(Ink::Bold))
            }
            Part::Text { text, is_final } => {
                writeln!(out)?;
                let mark = if *is_final { "● " } else { "  " };
                self.block(out, text, usize::MAX, (mark, "  "), None)
            }
            Part::Reasoning { text } => {
                writeln!(out)?;
                self.block(out, text, OUTPUT, ("∴ ", "  "), Some(Ink::Faint))
            }
            Part::Encrypted => {
                writeln!(out, "\n{}", self.ink(Ink::Faint, "  (a message whose body is encrypted)"))
            }
            Part::Tool { command, reads, status, exit_code, output, duration_ms, .. } => {
                writeln!(out)?;
                let how = ended(*status, *exit_code, *duration_ms);
                let ink = match status {
                    ToolStatus::Ok => Ink::Green,
                    ToolStatus::Error => Ink::Red,
                    ToolStatus::Running => Ink::Yellow,
                };
                self.block(out, command, OUTPUT, ("$ ", "  "), Some(Ink::Cyan))?;
                let reads: Vec<String> = reads.iter().map(|label| line(label)).collect();
                let mark = match status {
                    ToolStatus::Ok => "✓",
                    ToolStatus::Error => "✗",
                    ToolStatus::Running => "…",
                };
                let mut facts = vec![format!("{mark} {how}").trim_end().to_owned()];
                facts.extend(reads);
                writeln!(out, "  {}", self.ink(ink, &facts.join(" · ")))?;
                if output.trim().is_empty() {
                    Ok(())
                } else {
                    self.block(out, output, OUTPUT, ("  │ ", "  │ "), None)
                }
            }
            Part::Edit { files, outcome, .. } => {
                if files.is_empty() {
                    writeln!(out, "\n{}", self.ink(Ink::Faint, "± an edit that names no file"))?;
                }
                files.iter().try_for_each(|file| self.file(out, file, outline::failed(*outcome)))
            }
            Part::Search { query, .. } => {
                writeln!(out, "\n{} {}", self.ink(Ink::Cyan, "⌕ searched"), line(query))
            }
            Part::Helper { agent, activity, .. } => {
                writeln!(
                    out,
                    "\n{} {}",
                    self.ink(Ink::Magenta, &format!("↳ {}:", line(agent))),
                    line(activity)
                )
            }
            Part::Compaction => {
                writeln!(out, "\n{}", self.ink(Ink::Faint, "  ┄┄ the agent shortened its context here ┄┄"))
            }
            Part::Error { message } => {
                writeln!(out)?;
                self.block(out, message, usize::MAX, ("✗ ", "  "), Some(Ink::Red))
            }
        }
    }

    fn file(&self, out: &mut dyn Write, file: &EditedFile, failed: bool) -> io::Result<()> {
        let did = match (failed, file.change) {
            (true, _) => "edit failed",
            (false, Change::Added) => "added",
            (false, Change::Modified) => "edited",
            (false, Change::Deleted) => "deleted",
            (false, Change::Renamed) => "renamed",
        };
        let to = file.renamed_to.as_ref().map(|to| format!(" → {}", line(to))).unwrap_or_default();
        let (added, removed) = changed(file);
        let ink = if failed { Ink::Red } else { Ink::Yellow };
        writeln!(
            out,
            "\n{} {} {} {}",
            self.ink(ink, &format!("± {did}")),
            self.ink(Ink::Bold, &format!("{}{to}", line(&file.path))),
            self.ink(Ink::Green, &format!("+{added}")),
            self.ink(Ink::Red, &format!("−{removed}")),
        )?;
        if file.diff.is_empty() {
            return Ok(());
        }
        let most = if self.full { usize::MAX } else { DIFF };
        let mut lines = inert::lines(&file.diff);
        for text in lines.by_ref().take(most) {
            let shown = self.cut(text);
            let ink = match text.as_bytes().first() {
                Some(b'+') => Some(Ink::Green),
                Some(b'-') => Some(Ink::Red),
                Some(b'@') => Some(Ink::Cyan),
                _ => None,
            };
            let shown = ink.map_or_else(|| shown.clone(), |ink| self.ink(ink, &shown));
            writeln!(out, "  {shown}")?;
        }
        self.more(out, "  ", lines.count())
    }

    /// A text of several lines: `first` stands before its first line, `then` before the others. Of more than `most` lines the
    /// first and the last are shown.
    fn block(
        &self,
        out: &mut dyn Write,
        text: &str,
        most: usize,
        (first, then): (&str, &str),
        ink: Option<Ink>,
    ) -> io::Result<()> {
        let total = inert::lines(text).count();
        let all = self.full || total <= most;
        let (head, tail) = if all { (total, 0) } else { (most * 2 / 3, most - most * 2 / 3) };
        for (number, text) in inert::lines(text).enumerate() {
            if number == head && !all {
                self.more(out, then, total - head - tail)?;
            }
            if (head..total - tail).contains(&number) {
                continue;
            }
            let before = if number == 0 { first } else { then };
            let shown = self.cut(text);
            match ink {
                Some(ink) => writeln!(out, "{}", self.ink(ink, &format!("{before}{shown}")))?,
                None => writeln!(out, "{}{shown}", self.ink(Ink::Faint, before))?,
            }
        }
        Ok(())
    }

    fn more(&self, out: &mut dyn Write, before: &str, left_out: usize) -> io::Result<()> {
        if left_out == 0 {
            return Ok(());
        }
        let said = format!("{before}… {} more (--full shows them)", count(left_out as u64, "line"));
        writeln!(out, "{}", self.ink(Ink::Faint, &said))
    }

    fn cut(&self, text: &str) -> String {
        match text.char_indices().nth(WIDTH) {
            Some((end, _)) if !self.full => {
                let rest = text.len() - end;
                format!(
                    "{}… {}",
                    line(text.get(..end).unwrap_or_default()),
                    count(rest as u64, "byte") + " more"
                )
            }
            _ => line(text),
        }
    }

    fn ink(&self, ink: Ink, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code())
        } else {
            text.to_owned()
        }
    }
}

/// A session in one line.
pub(crate) fn summary(figures: &Figures, turns: u64) -> String {
    let mut words = vec![count(turns, "turn"), count(figures.entries, "entry").replace("entrys", "entries")];
    if figures.tools > 0 {
        words.push(count(figures.tools, "command"));
    }
    if !figures.edited.is_empty() {
        words.push(format!("{} edited", count(figures.edited.len() as u64, "file")));
    }
    if figures.failures > 0 {
        words.push(count(figures.failures, "failure"));
    }
    words.extend(figures.took().map(duration));
    words.join(" · ")
}
