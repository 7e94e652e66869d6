//! The turns of the page, one entry at a time.

use std::io::{self, Write};

use flowcell_engines::harness::transcripts::{
    Change, EditOutcome, EditedFile, Entry, Part, ToolStatus, TranscriptError,
};

use super::words::prose;
use crate::render::{count, date_time};
use crate::transcript::inert::{self, html, lines};
use crate::transcript::outline::{Turns, changed, ended, failed};

/// An output of at most this many lines is shown at once.
const SHORT: usize = 8;
/// A text of more lines than this has a scroll bar of its own, and so a place in the order of the keyboard.
const TALL: usize = 16;
/// Characters of a command in its summary.
const COMMAND: usize = 160;

#[derive(Debug)]
pub(super) struct Body {
    turns: Turns,
    /// How many turns there are.
    last: u64,
}

impl Body {
    pub(super) fn new(last: u64) -> Self {
        Self { turns: Turns::default(), last }
    }

    pub(super) fn entry(&mut self, out: &mut dyn Write, entry: &Entry) -> io::Result<()> {
        let before = self.turns.number();
        if self.turns.begins(entry) {
            if before > 0 {
                out.write_all(b"</section>\n")?;
            }
            self.heading(out, entry.at)?;
        }
        let id = entry.seq;
        match &entry.part {
            Part::Prompt { text } => said(out, id, "prompt", "Prompt", text),
            Part::Goal { objective, status } => {
                said(out, id, "goal", &format!("Goal · {}", html(status)), objective)
            }
            Part::Text { text, is_final: true } => said(out, id, "text final", "Answer", text),
            Part::Text { text, .. } => said(out, id, "text", "Agent", text),
            Part::Error { message } => said(out, id, "error", "Error", message),
            Part::Reasoning { text } => writeln!(
                out,
                "<details class=\"entry thought\" id=\"e{id}\"><summary>Reasoning</summary>{}</details>",
                prose(text)
            ),
            Part::Encrypted => line(out, id, "Encrypted", "a message whose body cannot be read"),
            Part::Search { query, .. } => line(out, id, "Searched", query),
            Part::Helper { agent, activity, .. } => {
                line(out, id, &format!("Helper {}", html(agent)), activity)
            }
            Part::Compaction => writeln!(
                out,
                "<p class=\"entry compaction\" id=\"e{id}\">The agent shortened its context here</p>"
            ),
            Part::Tool { command, reads, status, exit_code, output, duration_ms, .. } => {
                let how = ended(*status, *exit_code, *duration_ms);
                tool(out, id, command, reads, (*status, &how), output)
            }
            Part::Edit { files, outcome, .. } => edit(out, id, files, *outcome),
        }
    }

    /// Ends the page; says where and why it stops when a record was refused.
    pub(super) fn end(&self, out: &mut dyn Write, refused: Option<&TranscriptError>) -> io::Result<()> {
        if self.turns.number() > 0 {
            out.write_all(b"</section>\n")?;
        } else if refused.is_none() {
            out.write_all(b"<p>This transcript holds nothing to show.</p>\n")?;
        }
        if let Some(error) = refused {
            writeln!(
                out,
                "<div class=\"stop\" role=\"note\"><p class=\"who\">Not shown from line {} on</p>\
                 <div class=\"words\" dir=\"auto\">{}</div></div>",
                error.line,
                html(&error.message)
            )?;
        }
        out.write_all(b"</main>\n</div>\n</body>\n</html>\n")
    }

    fn heading(&self, out: &mut dyn Write, at: i64) -> io::Result<()> {
        let number = self.turns.number();
        write!(
            out,
            "<section class=\"turn\" id=\"t{number}\" aria-labelledby=\"h{number}\">\n\
             <h2 id=\"h{number}\"><span class=\"n\">Turn {number}</span>"
        )?;
        if at != 0 {
            let time = date_time(at);
            write!(out, "<time datetime=\"{}\">{time}</time>", time.replace(' ', "T"))?;
        }
        out.write_all(b"<span class=\"go\">")?;
        if number > 1 {
            write!(out, "<a href=\"#t{}\" aria-label=\"Turn before\">↑</a>", number - 1)?;
        }
        if number < self.last {
            write!(out, "<a href=\"#t{}\" aria-label=\"Next turn\">↓</a>", number + 1)?;
        }
        out.write_all(b"</span></h2>\n")
    }
}

/// Words of the owner or the agent. `label` is HTML.
fn said(out: &mut dyn Write, id: u64, class: &str, label: &str, text: &str) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"entry {class}\" id=\"e{id}\"><p class=\"who\">{label}</p>{}</div>",
        prose(text)
    )
}

/// Something that fits a line. `label` is HTML.
fn line(out: &mut dyn Write, id: u64, label: &str, text: &str) -> io::Result<()> {
    writeln!(
        out,
        "<p class=\"entry line\" id=\"e{id}\"><b><bdi>{label}</bdi></b> <bdi>{}</bdi></p>",
        html(text)
    )
}

fn tool(
    out: &mut dyn Write,
    id: u64,
    command: &str,
    reads: &[String],
    (status, how): (ToolStatus, &str),
    output: &str,
) -> io::Result<()> {
    let (class, mark, word) = match status {
        ToolStatus::Ok => ("ok", "✓", "succeeded"),
        ToolStatus::Error => ("failed", "✗", "failed"),
        ToolStatus::Running => ("running", "…", "runs"),
    };
    let output = output.trim_end_matches('\n');
    let tall = if output.trim().is_empty() { 0 } else { lines(output).count() };
    let open = if status == ToolStatus::Error || (1..=SHORT).contains(&tall) { " open" } else { "" };
    // What a tool of the agent's own read says more than its name and its input.
    let label = reads.first().filter(|_| reads.len() == 1 && command.ends_with('}'));
    let title = inert::title(label.map_or(command, |label| label), COMMAND);
    write!(
        out,
        "<details class=\"entry box {class}\" id=\"e{id}\"{open}><summary>\
         <span class=\"state\"><span aria-hidden=\"true\">{mark}</span><span class=\"hidden\">{word}</span></span> \
         <code class=\"what\">{}</code> <span class=\"meta\">",
        html(if title.is_empty() { "(no command)" } else { &title })
    )?;
    let mut facts = Vec::new();
    if !how.is_empty() {
        facts.push(how.to_owned());
    }
    if tall > 0 {
        facts.push(count(tall as u64, "line"));
    }
    write!(out, "{}</span></summary><div class=\"inside\">", facts.join(" · "))?;
    // What the summary does not say whole.
    if title != inert::line(command) {
        text(out, "command", "Command", lines(command).count(), command)?;
    }
    if !reads.is_empty() && label.is_none() {
        out.write_all(b"<ul class=\"reads\" aria-label=\"What it read\">")?;
        for label in reads {
            write!(out, "<li><bdi>{}</bdi></li>", html(label))?;
        }
        out.write_all(b"</ul>")?;
    }
    if tall > 0 {
        text(out, "out", "Output", tall, output)?;
    } else {
        out.write_all(b"<p class=\"note\">No output</p>")?;
    }
    out.write_all(b"</div></details>\n")
}

/// A text in its own lines. A tall one scrolls, so that the keyboard reaches it.
fn text(out: &mut dyn Write, class: &str, label: &str, tall: usize, text: &str) -> io::Result<()> {
    let reach = if tall > TALL || text.len() > 4_096 { " tabindex=\"0\"" } else { "" };
    // A parser drops one newline at the start of `pre`.
    let first = if text.starts_with('\n') { "\n" } else { "" };
    write!(
        out,
        "<pre class=\"{class}\" role=\"group\" aria-label=\"{label}\"{reach}>{first}{}</pre>",
        html(text)
    )
}

fn edit(out: &mut dyn Write, id: u64, files: &[EditedFile], outcome: EditOutcome) -> io::Result<()> {
    write!(out, "<div class=\"entry\" id=\"e{id}\" role=\"group\" aria-label=\"Edit\">")?;
    if files.is_empty() {
        out.write_all(b"<p class=\"line\"><b>Edited</b> no file is named</p>")?;
    }
    for file in files {
        one(out, file, failed(outcome))?;
    }
    out.write_all(b"</div>\n")
}

fn one(out: &mut dyn Write, file: &EditedFile, failed: bool) -> io::Result<()> {
    let (did, class) = match (failed, file.change) {
        (true, _) => ("Edit failed", "failed"),
        (false, Change::Added) => ("Added", "ok"),
        (false, Change::Modified) => ("Edited", "ok"),
        (false, Change::Deleted) => ("Deleted", "ok"),
        (false, Change::Renamed) => ("Renamed", "ok"),
    };
    let (added, removed) = changed(file);
    let to = file.renamed_to.as_ref().map(|to| format!(" → <bdi>{}</bdi>", html(to))).unwrap_or_default();
    let tall = if file.diff.is_empty() { 0 } else { lines(&file.diff).count() };
    let open = if tall <= 60 { " open" } else { "" };
    write!(
        out,
        "<details class=\"entry box {class}\"{open}><summary><span class=\"state\">{did}</span> \
         <code class=\"what\"><bdi>{}</bdi>{to}</code> <span class=\"meta\"><span class=\"plus\">+{added}</span> \
         <span class=\"minus\">−{removed}</span></span></summary>",
        html(&file.path)
    )?;
    if tall == 0 {
        return out.write_all(b"<div class=\"inside\"><p class=\"note\">The agent reports no change to show</p></div></details>");
    }
    let reach = if tall > TALL { " tabindex=\"0\"" } else { "" };
    write!(out, "<pre class=\"diff\" role=\"group\" aria-label=\"Changes\"{reach}>")?;
    for line in lines(&file.diff) {
        let class = match line.as_bytes().first() {
            Some(b'+') => " class=\"a\"",
            Some(b'-') => " class=\"d\"",
            Some(b'@') => " class=\"k\"",
            _ => "",
        };
        write!(out, "<span{class}>{}</span>", html(line))?;
    }
    out.write_all(b"</pre></details>")
}
