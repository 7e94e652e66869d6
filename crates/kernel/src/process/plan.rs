//! What a command has to meet (kernel contract 6.2).

use std::path::Path;

use super::candidates::{Candidates, Collector};
use super::command::{Command, render_argv};
use super::environment::changes_meaning;
use super::scan::{Dialect, scan, scan_as};
use crate::flows::capability::{Capability, MAX_RESOURCE_UNITS, units};
use crate::flows::rules::Effect;

/// One look at the rules: `proc:spawn` on a text of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The whole command. With `narrow`, allow rules count only when their resource is literal, `*` or `**`: a prefix must
    /// not carry the rest of a line.
    Whole {
        /// The command's resource.
        text: &'a str,
        /// Whether allow rules of other shapes are skipped.
        narrow: bool,
    },
    /// A command that the whole one runs.
    Text(&'a str),
}

/// What was decided, and by which text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub effect: Effect,
    /// What decided.
    pub by: By,
}

/// What decided about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The rules on the whole command.
    Whole,
    /// A deny of a command that the whole one runs.
    Candidate(String),
    /// Every segment of the line is allowed by itself.
    Segments(Vec<String>),
    /// There is more in the command than can be looked at: deny.
    Undecidable,
    /// Nothing: ask.
    Nothing,
}

/// The texts of a command that rules are asked about. Made once a command; rules come and go.
///
/// ```
/// use std::path::PathBuf;
/// use flowcell_kernel::flows::rules::Effect;
/// use flowcell_kernel::process::{By, Command, Part, Plan};
/// let command = Command::Line { line: "cargo test && ls -l".to_owned(), shell: None };
/// let plan = Plan::of(&command, None);
/// let verdict = plan.judge(&mut |part| match part {
///     Part::Text(text) if text.starts_with("cargo ") || text.starts_with("ls ") => Effect::Allow,
///     _ => Effect::Ask,
/// });
/// assert_eq!(verdict.effect, Effect::Allow);
/// assert_eq!(verdict.by, By::Segments(vec!["cargo test".to_owned(), "ls -l".to_owned()]));
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    whole: Capability,
    narrow: bool,
    segments: Option<Vec<String>>,
    candidates: Candidates,
}

impl Plan {
    /// The plan of a command. The deny candidates of `logical`, which a container transport stands for, count as well.
    pub fn of(command: &Command, logical: Option<&Command>) -> Self {
        let mut collector = Collector::default();
        let (mut narrow, mut segments) = (false, None);
        match command {
            Command::Line { line, shell } => {
                let mut readings = vec![scan(line)];
                // Which shell runs the line is not known here, so it has to be good for either.
                if readings.iter().any(|reading| reading.ambiguous) {
                    readings.push(scan_as(line, Dialect::Posix));
                }
                // Of another language than that of these shells the scanner knows nothing.
                let known = shell.as_deref().is_none_or(is_known_shell);
                let opaque = !known || readings.iter().any(|reading| reading.opaque);
                // A comment is part of the text, and of no command: `x # --safe` is not `x --safe`.
                narrow =
                    opaque || readings.iter().any(|reading| reading.comment || reading.segments.len() != 1);
                if !opaque && readings.iter().all(|reading| !reading.segments.is_empty()) {
                    let words = readings.iter().flat_map(|reading| &reading.segments);
                    let mut quoted: Vec<String> = words.map(|words| render_argv(words)).collect();
                    quoted.dedup();
                    segments = quoted.iter().all(|text| units(text) <= MAX_RESOURCE_UNITS).then_some(quoted);
                }
            }
            Command::Argv(_) | Command::Script { .. } => {}
        }
        collect(&mut collector, command);
        if let Some(logical) = logical {
            collect(&mut collector, logical);
        }
        let whole = command.capability();
        // A command that is named by its digest is not to be met by a prefix of that name, as `s*` is.
        narrow |= units(&command.render()) > MAX_RESOURCE_UNITS;
        Plan { whole, narrow, segments, candidates: collector.found }
    }

    /// The plan of the command under declared variables of these names. Where one of them changes what the command's words
    /// stand for, its text is not all that it is: it is judged as an opaque line is, so that no prefix grant carries it.
    #[must_use]
    pub fn under<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        if names.into_iter().any(changes_meaning) {
            self.narrow = true;
            self.segments = None;
        }
        self
    }

    /// What is asked for: the whole command.
    pub fn capability(&self) -> &Capability {
        &self.whole
    }

    /// Whether allow rules on the whole command count only when they are literal, `*` or `**`.
    pub fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// The commands of a line that may be allowed one by one; `None` where the line cannot be allowed that way.
    pub fn segments(&self) -> Option<&[String]> {
        self.segments.as_deref()
    }

    /// The deny candidates.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// Decides, asking `rules` about one text after the other: the whole, every deny candidate, then the segments.
    pub fn judge(&self, rules: &mut dyn FnMut(Part<'_>) -> Effect) -> Verdict {
        let verdict = |effect, by| Verdict { effect, by };
        let whole = rules(Part::Whole { text: self.whole.resource(), narrow: self.narrow });
        if whole == Effect::Deny {
            return verdict(Effect::Deny, By::Whole);
        }
        for candidate in &self.candidates.texts {
            if rules(Part::Text(candidate)) == Effect::Deny {
                return verdict(Effect::Deny, By::Candidate(candidate.clone()));
            }
        }
        if self.candidates.undecidable {
            return verdict(Effect::Deny, By::Undecidable);
        }
        if whole == Effect::Allow {
            return verdict(Effect::Allow, By::Whole);
        }
        match &self.segments {
            Some(segments) if segments.iter().all(|text| rules(Part::Text(text)) == Effect::Allow) => {
                verdict(Effect::Allow, By::Segments(segments.clone()))
            }
            _ => verdict(Effect::Ask, By::Nothing),
        }
    }
}

fn collect(collector: &mut Collector, command: &Command) {
    match command {
        Command::Argv(argv) => collector.argv(argv, 0),
        Command::Line { line, shell: None } => collector.line(line, 0),
        Command::Line { line, shell: Some(shell) } => {
            collector.argv(&[shell.to_string_lossy().into_owned(), "-c".to_owned(), line.clone()], 0);
            collector.line(line, 0);
        }
        Command::Script { argv, text } => {
            collector.argv(argv, 0);
            // A script for a shell is a line as well; another language is not read.
            if argv.first().is_some_and(|program| is_shell_name(program)) {
                collector.line(text, 0);
            }
        }
    }
}

fn is_shell_name(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "dash" | "zsh" | "ksh"))
}

/// Whether a named shell is one of these by its name and by where it is: a program of such a name that lies in a
/// workspace reads a line as it likes.
fn is_known_shell(shell: &Path) -> bool {
    const FOLDERS: [&str; 5] =
        ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];
    shell
        .to_str()
        .and_then(|shell| shell.rsplit_once('/'))
        .is_some_and(|(folder, name)| FOLDERS.contains(&folder) && is_shell_name(name))
}
