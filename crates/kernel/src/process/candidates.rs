//! What a command runs, as far as its text tells: each is looked up among the denials (kernel contract 6.2, decision 2).

use std::collections::HashSet;

use super::command::render_argv;
use super::scan::{Dialect, RESERVED, Scan, is_assignment, scan, scan_as};

/// Commands inside commands that are followed; what is deeper is not known, and so not allowed.
pub const MAX_DEPTH: usize = 8;
/// Bytes read at most, nested texts counted each time they are read.
const MAX_READ: usize = 1 << 24;
/// Bytes of all candidates at most.
const MAX_TEXT: usize = 1 << 24;

/// The deny candidates of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Each a text to be looked up, without repeats, of any length.
    pub texts: Vec<String>,
    /// Whether there are commands that could not be looked at: nested more than [`MAX_DEPTH`] deep, or too many.
    pub undecidable: bool,
}

/// The candidates of a line.
///
/// ```
/// use flowcell_kernel::process::candidates_of_line;
/// let candidates = candidates_of_line("true | sudo -u x /bin/dd if=a");
/// assert!(candidates.texts.contains(&"dd if=a".to_owned()));
/// ```
pub fn candidates_of_line(line: &str) -> Candidates {
    let mut collector = Collector::default();
    collector.line(line, 0);
    collector.found
}

/// The candidates of a program with its arguments.
pub fn candidates_of_argv<S: AsRef<str>>(argv: &[S]) -> Candidates {
    let words: Vec<String> = argv.iter().map(|word| word.as_ref().to_owned()).collect();
    let mut collector = Collector::default();
    collector.argv(&words, 0);
    collector.found
}

#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) found: Candidates,
    texts: HashSet<String>,
    lines: HashSet<String>,
    read: usize,
    bytes: usize,
}

impl Collector {
    /// A text for a shell.
    pub(crate) fn line(&mut self, line: &str, depth: usize) {
        if self.over(depth) || line.is_empty() || !self.lines.insert(line.to_owned()) {
            return;
        }
        self.read = self.read.saturating_add(line.len());
        if self.read > MAX_READ {
            self.found.undecidable = true;
            return;
        }
        let scan = scan(line);
        self.scanned(&scan, depth);
        if scan.ambiguous {
            self.scanned(&scan_as(line, Dialect::Posix), depth);
        }
    }

    fn scanned(&mut self, scan: &Scan, depth: usize) {
        self.found.undecidable |= scan.too_deep;
        for segment in &scan.segments {
            self.argv(segment, depth);
        }
        for nested in &scan.nested {
            self.line(nested, depth + 1);
        }
    }

    fn over(&mut self, depth: usize) -> bool {
        self.found.undecidable |= depth > MAX_DEPTH;
        self.found.undecidable
    }

    /// The words of one command.
    pub(crate) fn argv(&mut self, words: &[String], depth: usize) {
        if self.over(depth) || words.is_empty() {
            return;
        }
        self.candidate(words);
        let leading = leading(words);
        let words = words.get(leading..).unwrap_or_default();
        let Some((program, arguments)) = words.split_first() else { return };
        if leading > 0 {
            self.candidate(words);
        }
        match base_name(program) {
            "eval" => self.line(&arguments.join(" "), depth + 1),
            "sh" | "bash" | "dash" | "zsh" | "ksh" => {
                for line in shell_lines(arguments) {
                    self.line(line, depth + 1);
                }
            }
            "find" => {
                for command in find_commands(arguments) {
                    self.argv(command, depth + 1);
                }
            }
            wrapper => {
                let Some(options) = wrapper_options(wrapper) else { return };
                let wrapped = unwrap(wrapper, options, arguments);
                for start in wrapped.starts {
                    self.argv(arguments.get(start..).unwrap_or_default(), depth + 1);
                }
                for text in wrapped.lines {
                    self.line(&text, depth + 1);
                }
            }
        }
    }

    /// The words joined by a blank and re-quoted, and the same with the base name of the program.
    fn candidate(&mut self, words: &[String]) {
        self.add(words.join(" "));
        self.add(render_argv(words));
        if let Some((program, _)) = words.split_first()
            && base_name(program) != program
        {
            let mut words = words.to_vec();
            words[0] = base_name(program).to_owned();
            self.add(words.join(" "));
            self.add(render_argv(&words));
        }
    }

    fn add(&mut self, text: String) {
        if text.is_empty() || self.texts.contains(&text) {
            return;
        }
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_TEXT {
            self.found.undecidable = true;
            return;
        }
        self.texts.insert(text.clone());
        self.found.texts.push(text);
    }
}

/// How many words stand before the program: assignments, and words of the shell's own with what they name. All of them
/// when there is no program, as in `for x in a b`.
fn leading(words: &[String]) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            // Of these three a name follows, and of the first two perhaps a `do`.
            "for" | "select" => match words.get(at + 2).map(String::as_str) {
                Some("do") => at += 3,
                _ => return words.len(),
            },
            "case" => return words.len(),
            "function" => at += 2,
            "coproc" | "!" => at += 1,
            word if RESERVED.contains(&word) || is_assignment(word) => at += 1,
            _ => return at,
        }
    }
    at
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The lines that `sh -c` and its like are given: the first word that is no option, and the one right after the option in
/// case a shell takes that.
fn shell_lines(arguments: &[String]) -> Vec<&str> {
    let mut line = None;
    let mut given = false;
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let (cluster, long) = match word.strip_prefix("--") {
            Some(long) => ("", long),
            None => (word.strip_prefix(['-', '+']).unwrap_or_default(), ""),
        };
        if matches!(long, "rcfile" | "init-file" | "emulate") {
            at += 1;
        } else if word == "--" || word == "-" {
            break;
        } else if cluster.is_empty() && !word.starts_with("--") {
            at -= 1;
            break;
        } else {
            // Each `o` and `O` of a cluster takes a word.
            at += cluster.bytes().filter(|byte| matches!(byte, b'o' | b'O')).count();
            if cluster.contains('c') && !given {
                given = true;
                line = arguments.get(at);
            }
        }
    }
    if !given {
        return Vec::new();
    }
    let first = arguments.get(at);
    let both = [first, line].into_iter().flatten().map(String::as_str);
    let mut lines: Vec<&str> = both.collect();
    lines.dedup();
    lines
}

/// The commands that `find` runs.
fn find_commands(arguments: &[String]) -> Vec<&[String]> {
    let mut commands = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        if matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            let rest = arguments.get(index + 1..).unwrap_or_default();
            let plus = |at: usize| rest.get(at).is_some_and(|w| w == "+") && at > 0 && rest[at - 1] == "{}";
            let end = (0..rest.len()).find(|at| rest[*at] == ";" || plus(*at)).unwrap_or(rest.len());
            commands.push(&rest[..end]);
        }
    }
    commands
}

/// What a wrapper's options are.
struct Options {
    /// Letters of options that take an argument: the rest of the word, or the next word.
    short: &'static str,
    /// Letters of options that may have an argument in the same word only.
    attached: &'static str,
    /// Letters of options without an argument.
    plain: &'static str,
    /// Names of long options that take an argument, in the same word after `=` or as the next one.
    long: &'static [&'static str],
}

fn wrapper_options(program: &str) -> Option<&'static Options> {
    const fn options(
        short: &'static str,
        attached: &'static str,
        plain: &'static str,
        long: &'static [&'static str],
    ) -> Options {
        Options { short, attached, plain, long }
    }
    static NONE: Options = options("", "", "", &[]);
    static COMMAND: Options = options("", "", "pvV", &[]);
    static EXEC: Options = options("a", "", "cl", &[]);
    static TIME: Options = options("fo", "", "apvqV", &["format", "output"]);
    static ENV: Options = options("uCSaP", "", "i0v", &["unset", "chdir", "split-string", "argv0"]);
    static SUDO: Options = options(
        "ughpCDRrtTUca",
        "",
        "AbBEeHiKklNnPSsVv",
        &[
            "user",
            "group",
            "host",
            "prompt",
            "close-from",
            "chdir",
            "chroot",
            "role",
            "type",
            "command-timeout",
            "other-user",
            "login-class",
            "auth-type",
        ],
    );
    static DOAS: Options = options("aCu", "", "Lns", &[]);
    static NICE: Options = options("n", "", "0123456789", &["adjustment"]);
    static TIMEOUT: Options = options("ks", "", "fpv", &["kill-after", "signal"]);
    static STDBUF: Options = options("ioe", "", "", &["input", "output", "error"]);
    static SETSID: Options = options("", "", "cfwVh", &[]);
    static XARGS: Options = options(
        "adEILnPsJRS",
        "eil",
        "0oprtx",
        &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"],
    );
    match program {
        "command" => Some(&COMMAND),
        "builtin" | "nohup" => Some(&NONE),
        "exec" => Some(&EXEC),
        "time" => Some(&TIME),
        "env" => Some(&ENV),
        "sudo" => Some(&SUDO),
        "doas" => Some(&DOAS),
        "nice" => Some(&NICE),
        "timeout" => Some(&TIMEOUT),
        "stdbuf" => Some(&STDBUF),
        "setsid" => Some(&SETSID),
        "xargs" => Some(&XARGS),
        _ => None,
    }
}

#[derive(Default)]
struct Wrapped {
    /// Where the wrapped command may start. More than one where an option's argument cannot be told from it.
    starts: Vec<usize>,
    /// Texts that the wrapper itself takes for commands.
    lines: Vec<String>,
}

/// Looks through a wrapper's own words.
fn unwrap(wrapper: &str, options: &Options, arguments: &[String]) -> Wrapped {
    let mut wrapped = Wrapped::default();
    let mut at = 0;
    let mut looks_up = false;
    let mut runs_shell = false;
    let mut split: Vec<String> = Vec::new();
    while let Some(word) = arguments.get(at) {
        if word == "--" {
            at += 1;
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            // Long options may be abbreviated.
            let known = options.long.iter().find(|long| **long == name || long.starts_with(name));
            at += 1;
            match (known, value) {
                (Some(&"split-string"), Some(value)) => split.push(value.to_owned()),
                (Some(&"split-string"), None) => {
                    split.extend(arguments.get(at).cloned());
                    at += 1;
                }
                (Some(known), None) => {
                    if *known != name {
                        wrapped.starts.push(at);
                    }
                    at += 1;
                }
                _ => {}
            }
            runs_shell |= wrapper == "sudo" && matches!(name, "shell" | "login");
            continue;
        }
        let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) else {
            // `env` and `sudo` take every word with a `=` for a variable, whatever its name; a program may have one too.
            let variable = word.contains('=') && matches!(wrapper, "env" | "sudo" | "doas");
            let skipped = variable || (word == "-" && wrapper == "env");
            if !skipped {
                break;
            }
            if variable && !is_assignment(word) {
                wrapped.starts.push(at);
            }
            at += 1;
            continue;
        };
        at += 1;
        for (index, letter) in cluster.char_indices() {
            let rest = &cluster[index + letter.len_utf8()..];
            looks_up |= wrapper == "command" && matches!(letter, 'v' | 'V');
            runs_shell |= wrapper == "sudo" && matches!(letter, 's' | 'i');
            if options.attached.contains(letter) {
                break;
            }
            if options.short.contains(letter) {
                let value = if rest.is_empty() { arguments.get(at).cloned() } else { Some(rest.to_owned()) };
                at += usize::from(rest.is_empty());
                if wrapper == "env" && letter == 'S' {
                    split.extend(value);
                }
                break;
            }
            if !options.plain.contains(letter) {
                // An option that is not known: what follows may be its argument, or the command.
                wrapped.starts.push(at);
                wrapped.starts.push(at + 1);
            }
        }
    }
    if looks_up {
        // `command -v` says where a command is, and runs none.
        return Wrapped::default();
    }
    if wrapper == "timeout" {
        // The first word is the duration, when it is one.
        if arguments.get(at).is_none_or(|word| !word.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
            wrapped.starts.push(at);
        }
        at += 1;
    }
    let command = arguments.get(at..).unwrap_or_default();
    if runs_shell {
        wrapped.lines.push(command.join(" "));
    }
    if split.is_empty() {
        wrapped.starts.push(at);
    }
    for text in split {
        // Its words stand for the option, further options of `env` among them.
        wrapped.lines.push(format!("env {text} {}", render_argv(command)));
    }
    wrapped.starts.retain(|start| *start < arguments.len());
    wrapped.starts.dedup();
    wrapped
}
