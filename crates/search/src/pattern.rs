//! The pattern language of `grep`: what is accepted, and why the rest is refused (search contract 2).
//!
//! A regular expression is what Rust's `regex` and JavaScript's `u`-mode `RegExp` both accept and read
//! alike. The check is one left-to-right pass with an explicit stack; it compiles nothing.

use std::fmt;

/// Longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 4096;
/// Highest bound of a counted repetition.
pub const MAX_REPETITION: u64 = 1000;
/// Deepest nesting of groups.
pub const MAX_NESTING: usize = 128;
/// Most states after repetitions are expanded, counted as search contract 2 counts them.
pub const MAX_STATES: u64 = 8192;

/// What stands for more than itself in an expression.
const METACHARACTERS: [char; 14] = ['\\', '^', '$', '.', '|', '?', '*', '+', '(', ')', '[', ']', '{', '}'];

const LITERAL: &str = "pass fixedStrings: true to search for the pattern as plain text";

/// Why a pattern or a glob is refused: the construct, where it is, and what to write instead.
///
/// Rule: search contract 2 and 3.1 (`invalid_pattern`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was met, in words.
    pub construct: String,
    /// Offset of the construct, in bytes from the start of the text as the caller gave it.
    pub offset: usize,
    /// What to do instead.
    pub way_out: String,
}

impl Refusal {
    pub(crate) fn new(construct: impl Into<String>, offset: usize, way_out: impl Into<String>) -> Self {
        Self { construct: construct.into(), offset, way_out: way_out.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}; {}", self.construct, self.offset, self.way_out)
    }
}

impl std::error::Error for Refusal {}

/// An accepted pattern.
///
/// Made only by [`Pattern::regex`] and [`Pattern::literal`], so a value of this type compiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    literal: bool,
    ignore_case: bool,
    reads_any_scalar: bool,
    has_line_end: bool,
    states: u64,
}

impl Pattern {
    /// Accepts a regular expression.
    ///
    /// # Errors
    ///
    /// The first construct outside the grammar of search contract 2, with its byte offset.
    pub fn regex(text: &str) -> Result<Self, Refusal> {
        check_bytes(text)?;
        let facts = Parser::new(text.as_bytes()).run()?;
        Ok(Self {
            text: text.to_owned(),
            literal: false,
            ignore_case: false,
            reads_any_scalar: facts.reads_any_scalar,
            has_line_end: facts.has_line_end,
            states: facts.states,
        })
    }

    /// Accepts literal text (`fixedStrings`): any printable ASCII, at most [`MAX_PATTERN_BYTES`].
    ///
    /// # Errors
    ///
    /// A byte that is not printable ASCII, or a text that is too long.
    pub fn literal(text: &str) -> Result<Self, Refusal> {
        check_bytes(text)?;
        Ok(Self {
            text: text.to_owned(),
            literal: true,
            ignore_case: false,
            reads_any_scalar: false,
            has_line_end: false,
            states: text.len() as u64,
        })
    }

    /// Sets whether letters match both cases (Unicode simple folding).
    #[must_use]
    pub fn ignoring_case(mut self, yes: bool) -> Self {
        self.ignore_case = yes;
        self
    }

    /// Ignores case when the pattern holds no byte in `A-Z` (`smartCase`); escapes and class members count.
    #[must_use]
    pub fn smart_case(self) -> Self {
        let insensitive = !self.text.bytes().any(|byte| byte.is_ascii_uppercase());
        self.ignoring_case(insensitive)
    }

    /// The pattern as the caller gave it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is plain text.
    pub fn is_literal(&self) -> bool {
        self.literal
    }

    /// Whether case is ignored.
    pub fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    /// States after repetitions are expanded, as search contract 2 counts them; at most [`MAX_STATES`]
    /// for a regular expression.
    pub fn states(&self) -> u64 {
        self.states
    }

    /// Whether the pattern can match a character outside ASCII or a carriage return: it holds `.` or a
    /// negated class. Every other pattern cannot tell undecoded bytes from decoded text.
    pub(crate) fn reads_any_scalar(&self) -> bool {
        self.reads_any_scalar
    }

    /// Whether the pattern holds `$`.
    pub(crate) fn has_line_end(&self) -> bool {
        self.has_line_end
    }

    /// The same text as a literal, when it could mean something else: the literal retry of search contract 5.
    pub(crate) fn as_literal(&self) -> Option<Self> {
        let means_more = !self.literal && self.text.bytes().any(|byte| b"\\^$.|?*+()[]{}".contains(&byte));
        let literal = Self::literal(&self.text).ok().filter(|_| means_more)?;
        Some(literal.ignoring_case(self.ignore_case))
    }

    /// The text that a line has to hold, byte for byte, where that is all the pattern says.
    pub(crate) fn plain_text(&self) -> Option<&str> {
        let is_plain = !self.ignore_case && (self.literal || !self.text.contains(METACHARACTERS));
        is_plain.then_some(self.text.as_str())
    }

    /// The expression in the syntax of Rust's `regex`.
    pub(crate) fn expression(&self) -> String {
        if !self.literal {
            return self.text.clone();
        }
        let mut expression = String::with_capacity(self.text.len() + 16);
        for character in self.text.chars() {
            if METACHARACTERS.contains(&character) {
                expression.push('\\');
            }
            expression.push(character);
        }
        expression
    }
}

fn check_bytes(text: &str) -> Result<(), Refusal> {
    if let Some((offset, character)) = text.char_indices().find(|(_, c)| !(' '..='~').contains(c)) {
        let escaped: String = character.escape_debug().collect();
        return Err(Refusal::new(
            format!("the character \"{escaped}\" is not printable ASCII"),
            offset,
            "write . in its place (any one character) and leave out fixedStrings",
        ));
    }
    if text.len() > MAX_PATTERN_BYTES {
        return Err(Refusal::new(
            format!("the pattern is {} bytes long, the limit {MAX_PATTERN_BYTES} is reached", text.len()),
            MAX_PATTERN_BYTES,
            "search for a shorter part of the line",
        ));
    }
    Ok(())
}

struct Facts {
    reads_any_scalar: bool,
    has_line_end: bool,
    states: u64,
}

/// What stands directly before the cursor.
#[derive(Clone, Copy)]
enum Last {
    /// Nothing that can be repeated.
    Nothing,
    /// An atom of so many states, not yet repeated.
    Atom(u64),
}

/// One open group, or the whole pattern.
struct Frame {
    opened_at: usize,
    states: u64,
    last: Last,
}

impl Frame {
    fn new(opened_at: usize) -> Self {
        Self { opened_at, states: 0, last: Last::Nothing }
    }

    /// Counts what stands before the cursor and puts `next` there.
    fn push(&mut self, next: Last) {
        if let Last::Atom(states) = self.last {
            self.states = self.states.saturating_add(states);
        }
        self.last = next;
    }

    fn add(&mut self, states: u64) {
        self.push(Last::Nothing);
        self.states = self.states.saturating_add(states);
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Frame>,
    reads_any_scalar: bool,
    has_line_end: bool,
    /// Where the count of states first went over the limit.
    over: Option<usize>,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            stack: vec![Frame::new(0)],
            reads_any_scalar: false,
            has_line_end: false,
            over: None,
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn top(&mut self) -> &mut Frame {
        if self.stack.is_empty() {
            self.stack.push(Frame::new(0));
        }
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn run(mut self) -> Result<Facts, Refusal> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'(' => self.open()?,
                b')' => self.close()?,
                b'[' => {
                    self.class()?;
                    self.top().push(Last::Atom(1));
                }
                b'|' => {
                    self.top().add(1);
                    self.at += 1;
                }
                b'^' | b'$' => {
                    self.has_line_end |= byte == b'$';
                    self.top().add(1);
                    self.at += 1;
                }
                b'*' | b'+' | b'?' => self.repeat(None, 1)?,
                b'{' => self.counted()?,
                b'}' | b']' => {
                    return Err(Refusal::new(
                        format!("a lone \"{}\"", char::from(byte)),
                        self.at,
                        format!("write \\{} for the character itself, or {LITERAL}", char::from(byte)),
                    ));
                }
                b'\\' => {
                    self.escape(false)?;
                    self.top().push(Last::Atom(1));
                }
                _ => {
                    self.reads_any_scalar |= byte == b'.';
                    self.top().push(Last::Atom(1));
                    self.at += 1;
                }
            }
        }
        if self.stack.len() > 1 {
            let offset = self.top().opened_at;
            return Err(Refusal::new(
                "\"(\" without its \")\"",
                offset,
                format!("write \\( for the character itself, or {LITERAL}"),
            ));
        }
        self.top().push(Last::Nothing);
        let states = self.top().states;
        if states > MAX_STATES {
            return Err(Refusal::new(
                format!(
                    "the pattern has more than {MAX_STATES} states after its repetitions are expanded, the limit is passed"
                ),
                self.over.unwrap_or(0),
                "repeat less, or search for a shorter part of the line",
            ));
        }
        Ok(Facts { reads_any_scalar: self.reads_any_scalar, has_line_end: self.has_line_end, states })
    }

    fn open(&mut self) -> Result<(), Refusal> {
        if self.peek(1) == Some(b'?') {
            return Err(Refusal::new(
                format!("the special group \"(?{}\"", self.peek(2).map(char::from).unwrap_or_default()),
                self.at,
                "use a plain group ( ), the options ignoreCase and smartCase, or fixedStrings: true for plain text",
            ));
        }
        if self.stack.len() > MAX_NESTING {
            return Err(Refusal::new(
                format!("groups are nested deeper than {MAX_NESTING}"),
                self.at,
                format!("nest less, or {LITERAL}"),
            ));
        }
        self.stack.push(Frame::new(self.at));
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Refusal> {
        if self.stack.len() < 2 {
            return Err(Refusal::new(
                "\")\" without its \"(\"",
                self.at,
                format!("write \\) for the character itself, or {LITERAL}"),
            ));
        }
        self.top().push(Last::Nothing);
        let states = self.stack.pop().map_or(0, |frame| frame.states);
        self.top().push(Last::Atom(states.saturating_add(1)));
        self.at += 1;
        Ok(())
    }

    /// Applies a quantifier of `length` bytes at the cursor, and its lazy mark; `count` is the factor of
    /// a counted repetition.
    fn repeat(&mut self, count: Option<u64>, length: usize) -> Result<(), Refusal> {
        let (at, top) = (self.at, self.top());
        let Last::Atom(states) = top.last else {
            let quantifier = String::from_utf8_lossy(&self.bytes[at..at + length]).into_owned();
            return Err(Refusal::new(
                format!("the quantifier \"{quantifier}\" has nothing to repeat"),
                at,
                format!("write a backslash before it for the character itself, or {LITERAL}"),
            ));
        };
        let states = match count {
            Some(count) => states.saturating_mul(count),
            None => states.saturating_add(1),
        };
        top.last = Last::Nothing;
        top.states = top.states.saturating_add(states);
        if states > MAX_STATES || top.states > MAX_STATES {
            self.over.get_or_insert(at);
        }
        self.at += length;
        if self.peek(0) == Some(b'?') {
            self.at += 1;
        }
        Ok(())
    }

    fn counted(&mut self) -> Result<(), Refusal> {
        let lone = || {
            Refusal::new(
                "a lone \"{\"",
                self.at,
                format!("write \\{{ for the character itself, or {LITERAL}"),
            )
        };
        let rest = &self.bytes[self.at + 1..];
        let (minimum, digits) = number(rest).ok_or_else(lone)?;
        let mut length = 1 + digits;
        let mut maximum = Some(minimum);
        if self.peek(length) == Some(b',') {
            length += 1;
            maximum = match number(&self.bytes[self.at + length..]) {
                Some((bound, digits)) => {
                    length += digits;
                    Some(bound)
                }
                None => None,
            };
        }
        if self.peek(length) != Some(b'}') {
            return Err(lone());
        }
        length += 1;
        let text = String::from_utf8_lossy(&self.bytes[self.at..self.at + length]).into_owned();
        let highest = maximum.unwrap_or(minimum).max(minimum);
        if highest > MAX_REPETITION {
            return Err(Refusal::new(
                format!("the repetition \"{text}\" has a bound above {MAX_REPETITION}"),
                self.at,
                "use * or + for any number",
            ));
        }
        if maximum.is_some_and(|bound| minimum > bound) {
            return Err(Refusal::new(
                format!("the repetition \"{text}\" has its bounds out of order"),
                self.at,
                "write the smaller bound first",
            ));
        }
        self.repeat(Some(maximum.unwrap_or(minimum + 1)), length)
    }

    /// Reads an escape at the cursor; returns the escaped byte.
    fn escape(&mut self, in_class: bool) -> Result<u8, Refusal> {
        let Some(byte) = self.peek(1) else {
            return Err(Refusal::new(
                "a backslash at the end",
                self.at,
                format!("write \\\\ for a backslash, or {LITERAL}"),
            ));
        };
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() {
            return Err(Refusal::new(format!("the escape \"\\{character}\""), self.at, letter_way_out(byte)));
        }
        if !(b"^$\\.*+?()[]{}|/".contains(&byte) || in_class && byte == b'-') {
            return Err(Refusal::new(
                format!("the escape \"\\{character}\""),
                self.at,
                format!("write \"{character}\" without the backslash, or {LITERAL}"),
            ));
        }
        self.at += 2;
        Ok(byte)
    }

    fn class(&mut self) -> Result<(), Refusal> {
        let start = self.at;
        self.at += 1;
        if self.peek(0) == Some(b'^') {
            self.reads_any_scalar = true;
            self.at += 1;
        }
        if self.peek(0) == Some(b']') {
            return Err(Refusal::new(
                "an empty class",
                start,
                format!("write \\] for a bracket in a class, or {LITERAL}"),
            ));
        }
        loop {
            if self.peek(0) == Some(b']') {
                self.at += 1;
                return Ok(());
            }
            let from = self.at;
            let low = self.member(start)?;
            if self.peek(0) != Some(b'-') || self.peek(1).is_none_or(|next| next == b']') {
                continue;
            }
            self.doubled()?;
            self.at += 1;
            let high = self.member(start)?;
            if low > high {
                let text = String::from_utf8_lossy(&self.bytes[from..self.at]).into_owned();
                return Err(Refusal::new(
                    format!("the range \"{text}\" is out of order"),
                    from,
                    format!("write its lower end first, \\- for a dash, or {LITERAL}"),
                ));
            }
        }
    }

    /// Reads one member of the class opened at `start`.
    fn member(&mut self, start: usize) -> Result<u8, Refusal> {
        match self.peek(0) {
            None => Err(Refusal::new(
                "a class without its \"]\"",
                start,
                format!("write \\[ for the character itself, or {LITERAL}"),
            )),
            Some(b'\\') => self.escape(true),
            Some(b'[') => Err(Refusal::new(
                "an unescaped \"[\" inside a class",
                self.at,
                "write \\[ for the character itself, and ranges such as [A-Za-z] for named classes",
            )),
            Some(byte) => {
                self.doubled()?;
                self.at += 1;
                Ok(byte)
            }
        }
    }

    /// Refuses `&&`, `--` and `~~` at the cursor.
    fn doubled(&self) -> Result<(), Refusal> {
        match (self.peek(0), self.peek(1)) {
            (Some(first @ (b'&' | b'-' | b'~')), Some(second)) if first == second => {
                let character = char::from(first);
                let way_out = if first == b'-' {
                    "write \\- for a dash".to_owned()
                } else {
                    format!("write \"{character}\" once: a class is a set")
                };
                Err(Refusal::new(format!("\"{character}{character}\" inside a class"), self.at, way_out))
            }
            _ => Ok(()),
        }
    }
}

/// The decimal number at the start of `bytes` and how many digits it has; huge ones saturate.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let value = bytes[..digits]
        .iter()
        .fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some((value, digits))
}

fn letter_way_out(byte: u8) -> String {
    let instead = match byte {
        b'd' => "use [0-9]",
        b'D' => "use [^0-9]",
        b'w' => "use [A-Za-z0-9_]",
        b'W' => "use [^A-Za-z0-9_]",
        b's' => "use a space, or [^!-~] for a tab too",
        b'S' => "use [!-~]",
        b'b' => "leave it out, or use ([^A-Za-z0-9_]|^) before a word and ([^A-Za-z0-9_]|$) after it",
        b'B' => "leave it out",
        b'n' | b'r' => "leave it out: a search is line by line, and ^ and $ are the ends of a line",
        b't' => "use [^ -~]",
        b'A' | b'z' | b'Z' => "use ^ or $ for the ends of a line",
        b'p' | b'P' => "use ranges such as [A-Za-z]",
        b'x' | b'u' | b'c' => "write the character itself, or . for one that is not printable ASCII",
        b'0'..=b'9' => "write the repeated text out: there are no back-references",
        _ => "write the letter without the backslash",
    };
    format!("{instead}, or {LITERAL}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(text: &str) -> u64 {
        Pattern::regex(text).unwrap().states()
    }

    #[test]
    fn counts_states_as_the_contract_does() {
        assert_eq!(states(""), 0);
        assert_eq!(states("abc"), 3);
        assert_eq!(states("a|b"), 3);
        assert_eq!(states("(a)"), 2);
        assert_eq!(states("a*"), 2);
        assert_eq!(states("a{3}"), 3);
        assert_eq!(states("a{3,}"), 4);
        assert_eq!(states("a{2,5}"), 5);
        assert_eq!(states("(ab){2}?"), 6);
        assert_eq!(states("^[a-z]$"), 3);
        assert_eq!(states("a{0}"), 0);
        assert_eq!(states("(a{1000}){8}"), 8008);
        assert!(Pattern::regex("(a{1000}){9}").is_err());
        assert_eq!(states("((a{1000}){9}){0}"), 0);
    }

    #[test]
    fn knows_what_can_tell_bytes_from_text() {
        assert!(Pattern::regex("a.b").unwrap().reads_any_scalar());
        assert!(Pattern::regex("[^a]").unwrap().reads_any_scalar());
        assert!(!Pattern::regex("[.^]").unwrap().reads_any_scalar());
        assert!(!Pattern::regex("a\\.b").unwrap().reads_any_scalar());
        assert!(Pattern::regex("a$").unwrap().has_line_end());
        assert!(!Pattern::regex("a\\$[$]").unwrap().has_line_end());
    }

    #[test]
    fn smart_case_looks_at_every_byte() {
        assert!(Pattern::regex("abc").unwrap().smart_case().ignores_case());
        assert!(!Pattern::regex("[A-Z]bc").unwrap().smart_case().ignores_case());
        assert!(!Pattern::literal("Abc").unwrap().smart_case().ignores_case());
    }
}
