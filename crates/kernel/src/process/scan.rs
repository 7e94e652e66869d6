//! Reading a command line the way a shell would, as far as a policy needs it (kernel contract 6.2).
//!
//! The scanner takes a line apart into segments, the commands of it, each a list of words without their quotes. What it does
//! not take apart exactly makes the line *opaque*: an opaque line is never allowed by its segments. It goes on reading all
//! the same, because what it finds may be denied: it errs towards finding commands that are none, and where the text of
//! one may be data for certain (a quoted word, a here-document with a quoted delimiter) it is data.

use std::collections::{HashSet, VecDeque};

mod expansion;

/// Substitutions inside one another at most; deeper ones are not read, and the scan says so.
const MAX_NESTING: usize = 32;
/// Here-documents of one line at most, and of those without an end, at most in all.
const MAX_HEREDOCS: usize = 64;
/// First words that are the shell's own.
pub(crate) const RESERVED: [&str; 14] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function",
    "select",
];
/// The last of them, and what runs its words as something else.
const OPAQUE_FIRST: [&str; 5] = ["coproc", "!", "eval", "source", "."];

/// What a line is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The commands, in the order of their ends: of each its words, quotes removed, redirections left out. In an opaque
    /// line they are those that could be found, the ones inside substitutions among them.
    pub segments: Vec<Vec<String>>,
    /// Whether the segments may not be all that the line does.
    pub opaque: bool,
    /// Whether some of the line itself is a comment.
    pub comment: bool,
    /// Texts in the line that are lines themselves: what backquotes hold, and what may follow a quote that was left open.
    pub nested: Vec<String>,
    /// Whether something is too much to be read: substitutions in substitutions, here-documents of one line.
    pub too_deep: bool,
    /// Whether bash and a plain POSIX shell would read the line differently.
    pub(crate) ambiguous: bool,
}

/// Whose rules a line is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// bash's.
    Bash,
    /// Those of a shell that has nothing beyond POSIX: `&>` is an operator and a redirection, `$'` a dollar and a quote, and
    /// a single quote in `"${x:-…}"` is a character.
    Posix,
}

/// Reads a line. Any text is one; the work is linear in its length, but for nested texts, which are not read.
///
/// ```
/// use flowcell_kernel::process::scan;
/// let scan = scan("cargo test 2>&1 | tee 'a b' # both");
/// assert_eq!(scan.segments, [vec!["cargo", "test"], vec!["tee", "a b"]]);
/// assert!(!scan.opaque && scan.comment);
/// # use flowcell_kernel::process;
/// assert!(process::scan("echo $(id)").opaque);
/// ```
pub fn scan(line: &str) -> Scan {
    scan_as(line, Dialect::Bash)
}

/// As [`scan`], by the rules of either shell. Where they differ the scan is marked so.
pub(crate) fn scan_as(line: &str, dialect: Dialect) -> Scan {
    let mut scanner = Scanner::new(line, 0, 0, dialect);
    scanner.commands(false);
    let Scanner { mut scan, merged, .. } = scanner;
    scan.segments.extend(merged);
    scan.opaque |= scan.too_deep;
    scan
}

/// Whether a word is a variable's assignment before a command: `NAME=` or `NAME+=` and anything.
pub(crate) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    // An element of an array, too: `a[1]=x`.
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    is_name(name)
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(is_name_start) && bytes.all(is_name_byte)
}

fn is_name_start(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic()
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

#[derive(Default)]
struct Word {
    text: String,
    /// Whether some of it was quoted.
    quoted: bool,
    /// Whether something in it is replaced by the shell.
    expands: bool,
}

struct Heredoc {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
}

/// What a parenthesis opened.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    /// Commands.
    Commands,
    /// Something in which `<<` starts no here-document: arithmetic, an array, a pattern.
    Other,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    dialect: Dialect,
    scan: Scan,
    /// Segments of `scan` that substitutions inside brought.
    merged: Vec<Vec<String>>,
    words: Vec<Word>,
    word: Option<Word>,
    redirected: bool,
    /// Whether one of them stands before the first word: that is no reserved word then.
    redirected_first: bool,
    /// Whether an operator that joins two commands stands before this segment.
    joined: bool,
    /// Whether a word may have ended that for the shell goes on: `#` starts no comment then.
    glued: bool,
    /// The parentheses that are open, each with the `case`s open before it.
    frames: Vec<(Frame, usize)>,
    /// Whether the last frame was closed by one of two parentheses that stand together.
    sums: bool,
    cases: usize,
    heredocs: VecDeque<Heredoc>,
    missing: Missing,
}

/// What was looked for up to the end of the text, and is not there: it is looked for once only.
#[derive(Default)]
struct Missing {
    delimiters: HashSet<(String, bool)>,
    bracket: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, at: usize, depth: usize, dialect: Dialect) -> Self {
        Scanner {
            text,
            at,
            depth,
            dialect,
            scan: Scan::default(),
            merged: Vec::new(),
            words: Vec::new(),
            word: None,
            redirected: false,
            redirected_first: false,
            joined: false,
            glued: false,
            frames: Vec::new(),
            sums: false,
            cases: 0,
            heredocs: VecDeque::new(),
            missing: Missing::default(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn starts_with(&self, text: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(text))
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let there = self.starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn push(&mut self, text: &str) {
        self.word().text.push_str(text);
    }

    fn push_char(&mut self, c: char) {
        self.word().text.push(c);
    }

    fn opaque(&mut self) {
        self.scan.opaque = true;
    }

    /// Reads commands to the end of the text or, with `inside`, to the parenthesis that ends them. Whether it met that.
    fn commands(&mut self, inside: bool) -> bool {
        while let Some(c) = self.peek() {
            let glued = std::mem::take(&mut self.glued);
            match c {
                ' ' | '\t' => {
                    self.end_word();
                    self.at += 1;
                }
                '\n' => {
                    self.end_segment();
                    self.at += 1;
                    self.read_heredocs();
                }
                ';' => self.operator(";", false),
                '&' if self.starts_with("&&") => self.operator("&&", true),
                '&' if self.starts_with("&>") => {
                    self.scan.ambiguous = true;
                    match self.dialect {
                        Dialect::Bash => self.redirection(),
                        Dialect::Posix => self.operator("&", false),
                    }
                }
                '&' => self.operator("&", false),
                '|' if self.starts_with("||") => self.operator("||", true),
                '|' if self.starts_with("|&") => self.operator("|&", true),
                '|' => self.operator("|", true),
                '(' => self.open(),
                ')' => {
                    self.opaque();
                    self.end_segment();
                    self.at += 1;
                    if self.cases > 0 {
                        // It ends a pattern.
                        continue;
                    }
                    match self.frames.pop() {
                        Some((frame, cases)) => {
                            self.cases = cases;
                            self.sums |=
                                frame == Frame::Other && self.frames.is_empty() && self.byte(0) == Some(b')');
                        }
                        None if inside => return true,
                        None => {}
                    }
                }
                '{' if self.starts_with("{}") => {
                    self.at += 2;
                    self.push("{}");
                }
                '{' => {
                    self.opaque();
                    self.braces();
                    self.end_segment();
                    self.at += 1;
                    self.glued = true;
                }
                '}' => {
                    self.opaque();
                    self.end_segment();
                    self.at += 1;
                    self.glued = true;
                }
                '<' | '>' => self.redirection(),
                '\\' if self.starts_with("\\\n") => {
                    self.opaque();
                    self.at += 2;
                    self.glued = glued;
                }
                '#' if self.word.is_none() && !glued => {
                    self.scan.comment = true;
                    self.at = self
                        .text
                        .get(self.at..)
                        .and_then(|rest| rest.find('\n'))
                        .map_or(self.text.len(), |end| self.at + end);
                }
                _ => self.piece(),
            }
        }
        self.end_segment();
        if self.joined || !self.heredocs.is_empty() {
            self.opaque();
        }
        false
    }

    /// One piece of a word: a quoted run, an escaped character, an expansion, or a character.
    fn piece(&mut self) {
        let Some(c) = self.peek() else { return };
        match c {
            '\'' => {
                let from = self.at + 1;
                self.word().quoted = true;
                match self.text.get(from..).and_then(|rest| rest.find('\'')) {
                    Some(length) => {
                        let quoted = self.slice(from, from + length);
                        self.check_controls(quoted);
                        self.push(quoted);
                        self.at = from + length + 1;
                    }
                    None => self.left_open(from),
                }
            }
            '"' => self.double_quoted(),
            '\\' => {
                self.at += 1;
                match self.peek() {
                    None => self.opaque(),
                    Some('\n') => {
                        self.opaque();
                        self.at += 1;
                    }
                    Some(c) => {
                        self.check_control(c);
                        self.word().quoted = true;
                        self.push_char(c);
                        self.at += c.len_utf8();
                    }
                }
            }
            '$' => self.dollar(false),
            '`' => self.backquote(false),
            c => {
                self.check_control(c);
                self.push_char(c);
                self.at += c.len_utf8();
            }
        }
    }

    fn check_controls(&mut self, text: &str) {
        if text.chars().any(is_other_control) {
            self.opaque();
        }
    }

    fn check_control(&mut self, c: char) {
        if is_other_control(c) {
            self.opaque();
        }
    }

    /// A quote that is not closed: the rest is its text; in case it is none, what follows the quote is a line too.
    fn left_open(&mut self, from: usize) {
        self.opaque();
        let rest = self.slice(from, self.text.len());
        self.push(rest);
        self.scan.nested.push(rest.to_owned());
        self.at = self.text.len();
    }

    fn double_quoted(&mut self) {
        let from = self.at + 1;
        self.at = from;
        self.word().quoted = true;
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => {
                            self.push_char(c);
                            self.at += 1;
                        }
                        Some('\n') => {
                            self.opaque();
                            self.at += 1;
                        }
                        _ => self.push_char('\\'),
                    }
                }
                '$' => self.dollar(true),
                '`' => self.backquote(true),
                c => {
                    self.check_control(c);
                    self.push_char(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.opaque();
        let rest = self.slice(from, self.text.len());
        self.scan.nested.push(rest.to_owned());
    }

    /// `(`: what it opens depends on what stands before it.
    fn open(&mut self) {
        self.opaque();
        let attached = self.word.is_some();
        self.end_segment();
        let double = self.byte(1) == Some(b'(')
            || self.text.get(..self.at).is_some_and(|before| before.ends_with('('));
        let frame = if attached || double { Frame::Other } else { Frame::Commands };
        self.frames.push((frame, std::mem::take(&mut self.cases)));
        self.at += 1;
    }

    /// `{a,b}` in the place of a command is a command of its words.
    fn braces(&mut self) {
        if self.word.is_some() || !self.words.is_empty() {
            return;
        }
        let inner = self.text.get(self.at + 1..).unwrap_or_default();
        let Some(end) = inner.find(|c: char| c == '}' || c.is_whitespace() || ";&|<>(){".contains(c)) else {
            return;
        };
        if let Some(list) = inner.get(..end)
            && inner[end..].starts_with('}')
            && list.contains(',')
        {
            self.scan.nested.push(list.replace(',', " "));
        }
    }

    /// A redirection, from its first character; a number before it is in the word that is being read.
    fn redirection(&mut self) {
        let number = |word: &Word| {
            !word.quoted && !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if self.word.as_ref().is_some_and(number) && !self.starts_with("&") {
            self.word = None;
        } else {
            self.end_word();
        }
        let first = self.words.is_empty();
        self.redirected = true;
        self.redirected_first |= first;
        if self.byte(1) == Some(b'(') {
            self.process_substitution();
            return;
        }
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">"];
        let operator = operators.into_iter().find(|operator| self.eat(operator)).unwrap_or_default();
        let heredoc = operator == "<<" || operator == "<<-";
        if heredoc && !self.may_be_heredoc() {
            self.opaque();
            return;
        }
        while self.byte(0).is_some_and(|byte| byte == b' ' || byte == b'\t') {
            self.at += 1;
        }
        let start = self.at;
        let Some(target) = self.target() else {
            self.opaque();
            return;
        };
        let literal = !target.expands;
        let vanishes = match operator {
            ">" | ">>" | "<" | "&>" => literal && target.text == "/dev/null",
            ">&" | "<&" => {
                literal && !target.text.is_empty() && target.text.bytes().all(|b| b.is_ascii_digit())
            }
            _ => false,
        };
        if !vanishes {
            self.opaque();
        }
        let raw = self.slice(start, self.at);
        if self.heredocs.len() >= MAX_HEREDOCS {
            self.scan.too_deep = true;
        }
        // A delimiter that is no plain word: whatever its body is, it is read as commands.
        else if heredoc && !raw.contains(['$', '`', '(', '\n']) {
            let strip_tabs = operator == "<<-";
            self.heredocs.push_back(Heredoc { delimiter: target.text, quoted: target.quoted, strip_tabs });
        }
    }

    /// Whether `<<` may start a here-document here. Inside arithmetic, an array's index, and what else has a `<<` of its own
    /// it does not, and what seems to be its body would be commands.
    fn may_be_heredoc(&self) -> bool {
        let indexed = |word: &Word| word.text.rfind('[').is_some_and(|open| !word.text[open..].contains(']'));
        !self.frames.iter().any(|(frame, _)| *frame == Frame::Other) && !self.words.iter().any(indexed)
    }

    /// The word that a redirection names.
    fn target(&mut self) -> Option<Word> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => break,
                '<' | '>' if self.byte(1) == Some(b'(') => self.process_substitution(),
                '<' | '>' => break,
                '{' | '}' => {
                    self.word().expands = true;
                    self.push_char(c);
                    self.at += 1;
                }
                _ => self.piece(),
            }
        }
        self.word.take()
    }

    /// The bodies of the here-documents of the line that has just ended.
    fn read_heredocs(&mut self) {
        while let Some(heredoc) = self.heredocs.pop_front() {
            let from = self.at;
            let mut line_at = from;
            let wanted = (heredoc.delimiter, heredoc.strip_tabs);
            if self.missing.delimiters.contains(&wanted) {
                continue;
            }
            let end = loop {
                let rest = self.slice(line_at, self.text.len());
                let line = rest.split('\n').next().unwrap_or_default();
                let own = if wanted.1 { line.trim_start_matches('\t') } else { line };
                if own == wanted.0 {
                    break Some((line_at, line_at + line.len()));
                }
                if line.len() == rest.len() {
                    break None;
                }
                line_at += line.len() + 1;
            };
            // Without an end it is not certain to be one: what follows is read as commands, and expansions with them.
            let Some((end, after)) = end else {
                self.missing.delimiters.insert(wanted);
                self.scan.too_deep |= self.missing.delimiters.len() > MAX_HEREDOCS;
                continue;
            };
            if !heredoc.quoted {
                self.expansions_of(self.slice(from, end));
            }
            self.at = after;
            // The newline after the delimiter ends nothing that has not ended.
            if self.byte(0) == Some(b'\n') {
                self.at += 1;
            }
        }
    }

    /// An operator that ends a segment. With nothing before it the line is none that a shell takes.
    fn operator(&mut self, operator: &str, joins: bool) {
        let before = self.scan.segments.len();
        let redirected = self.redirected && self.dialect == Dialect::Posix;
        self.end_segment();
        if self.scan.segments.len() == before && !redirected {
            self.opaque();
        }
        self.joined = joins;
        self.at += operator.len();
    }

    fn end_word(&mut self) {
        let word = self.word.take();
        self.words.extend(word);
    }

    fn end_segment(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        let redirected = std::mem::take(&mut self.redirected);
        let redirected_first = std::mem::take(&mut self.redirected_first);
        let Some(first) = words.first() else {
            // `a &>/dev/null` leaves one to a POSIX shell, and it does nothing.
            if redirected && self.dialect == Dialect::Bash {
                self.opaque();
            }
            return;
        };
        let text = first.text.as_str();
        self.scan.opaque |= RESERVED.contains(&text)
            || OPAQUE_FIRST.contains(&text)
            || is_assignment(text)
            || text.contains(['$', '*', '?', '['])
            || text.is_empty();
        self.joined = false;
        match compound(&words) {
            Some("case") if !redirected_first => self.cases += 1,
            Some("esac") => self.cases = self.cases.saturating_sub(1),
            _ => {}
        }
        self.scan.segments.push(words.into_iter().map(|word| word.text).collect());
    }
}

/// The first word of a segment after those that a compound command may follow.
fn compound(words: &[Word]) -> Option<&str> {
    let mut words = words.iter();
    loop {
        let word = words.next().filter(|word| !word.quoted)?;
        match word.text.as_str() {
            "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "time" | "-p" => {}
            "function" => {
                words.next();
            }
            "coproc" => {
                // A name may stand before the command.
                let mut named = words.clone();
                if named.nth(1).is_some_and(|word| !word.quoted && word.text == "case") {
                    words.next();
                }
            }
            other => return Some(other),
        }
    }
}

/// Control characters beside newline and tab.
fn is_other_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}
