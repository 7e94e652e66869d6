//! A session as one self-contained page.
//!
//! The page runs nothing and asks for nothing: a Content-Security-Policy in its head forbids everything but its own style
//! sheet, which it names by digest. It works without scripts because it has none.

mod body;
mod words;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flowcell_engines::harness::transcripts::{Entry, Limits, TranscriptError};
use sha2::{Digest, Sha256};

use self::body::Body;
use super::agent::Format;
use super::inert::html;
use super::outline::{self, Figures, Turns, duration};
use super::source::{Read1, Source};
use crate::args::Agent;
use crate::errors::Failure;
use crate::render::{count, date_time};

const STYLE: &str = include_str!("style.css");
/// Turns that the index lists.
const INDEX: usize = 5_000;

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) turns: u64,
    pub(crate) figures: Figures,
    /// The record that the page stops at.
    pub(crate) refused: Option<TranscriptError>,
}

/// One turn in the index.
#[derive(Debug, Default)]
struct Mark {
    /// Whether the title is the owner's.
    owner: bool,
    title: String,
    failures: u64,
}

/// What is known of a session after one reading.
#[derive(Debug, Default)]
struct Outline {
    session: String,
    profile: String,
    turns: Turns,
    marks: Vec<Mark>,
    figures: Figures,
    first_failure: Option<u64>,
}

impl Outline {
    fn add(&mut self, entry: &Entry) {
        if self.figures.entries == 0 {
            self.session.clone_from(&entry.session_id);
            self.profile.clone_from(&entry.format_version);
        }
        let before = self.figures.failures;
        self.figures.add(entry);
        let failed = self.figures.failures > before;
        if failed {
            self.first_failure.get_or_insert(entry.seq);
        }
        if self.turns.begins(entry) && self.marks.len() < INDEX {
            self.marks.push(Mark::default());
        }
        if u64::try_from(self.marks.len()) != Ok(self.turns.number()) {
            return;
        }
        let Some(mark) = self.marks.last_mut() else { return };
        mark.failures += u64::from(failed);
        if let Some((owner, title)) = outline::title(entry)
            && (mark.title.is_empty() || (owner && !mark.owner))
        {
            (mark.owner, mark.title) = (owner, title);
        }
    }
}

/// Writes the page. The file is read twice: its index comes before what it lists.
pub(crate) fn write<S: Format>(source: &mut Source, file: &Path) -> Result<Written, Failure> {
    let mut outline = Outline::default();
    let first = source.read(S::default(), Limits::default(), |entries| {
        entries.iter().for_each(|entry| outline.add(entry));
        Ok(())
    })?;
    let refused = match first {
        Ok(Read1::Refused(error)) => Some(error),
        _ => None,
    };
    let agent = Agent::from(S::AGENT);
    let unwritten = |error: io::Error| {
        Failure::engine(format!("the page {} cannot be written: {error}", file.display()))
            .at(file.display().to_string())
    };
    // What has the name is replaced by a whole page or not at all.
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = file.with_file_name(name);
    let made = File::create(&beside).map_err(unwritten)?;
    let done = fill::<S>(source, BufWriter::new(made), &outline, agent, refused.as_ref());
    let replaced = match done {
        Ok(written) => written.and_then(|()| std::fs::rename(&beside, file)).map_err(unwritten),
        Err(failure) => Err(failure),
    };
    if replaced.is_err() {
        // The failure says what went wrong; what is left of the attempt is of no use.
        let _ = std::fs::remove_file(&beside);
    }
    replaced?;
    Ok(Written { turns: outline.turns.number(), figures: outline.figures, refused })
}

fn fill<S: Format>(
    source: &mut Source,
    mut out: BufWriter<File>,
    outline: &Outline,
    agent: Agent,
    refused: Option<&TranscriptError>,
) -> Result<io::Result<()>, Failure> {
    if let Err(error) = head(&mut out, outline, agent) {
        return Ok(Err(error));
    }
    let mut body = Body::new(outline.turns.number());
    let read = source.read(S::default(), Limits::default(), |entries| {
        entries.iter().try_for_each(|entry| body.entry(&mut out, entry))
    })?;
    Ok(read.and_then(|_| body.end(&mut out, refused)).and_then(|()| out.flush()))
}

fn head(out: &mut dyn Write, outline: &Outline, agent: Agent) -> io::Result<()> {
    let name = agent.name();
    // The owner's first words, else the agent's.
    let titled = || outline.marks.iter().filter(|mark| !mark.title.is_empty());
    let subject = titled().find(|mark| mark.owner).or_else(|| titled().next()).map_or("", |mark| &mark.title);
    let title = if subject.is_empty() { format!("{name} session") } else { format!("{subject} · {name}") };
    let digest = base64(&Sha256::digest(STYLE.as_bytes()));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#session\">Skip to the session</a>\n<div class=\"layout\">\n",
        html(&title)
    )?;
    index(out, outline)?;
    let heading = if subject.is_empty() { name } else { subject };
    write!(
        out,
        "<main id=\"session\" tabindex=\"-1\">\n<header>\n<h1><bdi>{}</bdi></h1>\n<dl class=\"facts\">",
        html(heading)
    )?;
    let figures = &outline.figures;
    let mut fact = |label: &str, value: &str| write!(out, "<div><dt>{label}</dt><dd>{value}</dd></div>");
    fact("Agent", &format!("{name} <bdi>({})</bdi>", html(&outline.profile)))?;
    if figures.first != 0 {
        fact("Began", &date_time(figures.first))?;
    }
    if let Some(took) = figures.took() {
        fact("Span", &duration(took))?;
    }
    fact("Turns", &outline.turns.number().to_string())?;
    fact("Commands", &figures.tools.to_string())?;
    fact("Files edited", &figures.edited.len().to_string())?;
    match outline.first_failure {
        Some(seq) => {
            let failures = figures.failures;
            fact(
                "Failures",
                &format!("<a href=\"#e{seq}\" aria-label=\"{failures}, go to the first\">{failures}</a>"),
            )?;
        }
        None => fact("Failures", "0")?,
    }
    fact("Session", &format!("<bdi><code>{}</code></bdi>", html(&outline.session)))?;
    write!(
        out,
        "</dl>\n<p class=\"note\">Read from the file that the agent wrote. Names, roles and claims in it are the file’s own; \
         nothing on this page runs.</p>\n</header>\n"
    )
}

fn index(out: &mut dyn Write, outline: &Outline) -> io::Result<()> {
    write!(out, "<nav class=\"index\" aria-labelledby=\"index\">\n<h2 id=\"index\">Turns</h2>\n<ol>\n")?;
    for (number, mark) in outline.marks.iter().enumerate().map(|(place, mark)| (place + 1, mark)) {
        let class = if mark.owner { "t" } else { "t agent" };
        let title = if mark.title.is_empty() { "(no words)" } else { &mark.title };
        write!(
            out,
            "<li><a href=\"#t{number}\"><span class=\"n\">{number}</span><bdi class=\"{class}\">{}</bdi>",
            html(title)
        )?;
        if mark.failures > 0 {
            let said = count(mark.failures, "failure");
            write!(
                out,
                "<span class=\"fail\"><span aria-hidden=\"true\">✗ {}</span><span class=\"hidden\">{said}</span></span>",
                mark.failures
            )?;
        }
        out.write_all(b"</a></li>\n")?;
    }
    let more = outline.turns.number().saturating_sub(outline.marks.len() as u64);
    if more > 0 {
        writeln!(out, "<li class=\"note\">… {} more</li>", count(more, "turn"))?;
    }
    out.write_all(b"</ol>\n</nav>\n")
}

/// Base64 with padding, as a Content-Security-Policy names a digest.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits =
            (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(group.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            out.push(if digit > group.len() {
                '='
            } else {
                char::from(DIGITS.get(value).copied().unwrap_or(b'='))
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_has_the_vectors_of_its_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfb]), "//77");
    }
}
