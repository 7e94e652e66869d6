//! What the shell replaces in a word: parameters, substitutions, `$'…'`.

use super::{Dialect, Frame, MAX_NESTING, Scanner, is_name, is_name_byte, is_name_start};

impl Scanner<'_> {
    /// `$` and what belongs to it.
    pub(super) fn dollar(&mut self, in_double: bool) {
        let from = self.at;
        self.word().expands = true;
        match self.byte(1) {
            Some(byte) if is_name_start(byte) => {
                self.at += 2;
                while self.byte(0).is_some_and(is_name_byte) {
                    self.at += 1;
                }
                self.push(self.slice(from, self.at));
            }
            Some(b'{') => self.parameter(in_double),
            Some(b'(') if self.byte(2) == Some(b'(') => {
                self.opaque();
                self.at += 2;
                self.substitution(Frame::Other);
                self.push(self.slice(from, self.at));
            }
            Some(b'(') => {
                self.opaque();
                self.at += 2;
                self.substitution(Frame::Commands);
                self.push(self.slice(from, self.at));
            }
            Some(b'\'') if !in_double => {
                self.opaque();
                self.scan.ambiguous = true;
                match self.dialect {
                    Dialect::Bash => {
                        self.at += 2;
                        self.ansi_quoted();
                    }
                    Dialect::Posix => {
                        self.at += 1;
                        self.push("$");
                    }
                }
            }
            Some(b'"') if !in_double => {
                self.opaque();
                self.at += 1;
                self.double_quoted();
            }
            Some(b'[') => {
                // Arithmetic of old: nothing in it is a redirection.
                self.opaque();
                self.at += 2;
                let rest = self.text.get(self.at..).filter(|_| !self.missing.bracket);
                let end = rest.and_then(|rest| rest.find([']', '\n']));
                self.missing.bracket |= end.is_none();
                if let Some(end) = end {
                    let inner = self.slice(self.at, self.at + end);
                    self.expansions_of(inner);
                    self.at += end;
                }
                self.push(self.slice(from, self.at));
            }
            Some(byte) if b"#?*@$!-0123456789".contains(&byte) => {
                self.opaque();
                self.at += 2;
                self.push(self.slice(from, self.at));
            }
            _ => {
                self.opaque();
                self.at += 1;
                self.push("$");
            }
        }
    }

    /// `${…}`: a name alone is text; everything else is opaque.
    fn parameter(&mut self, in_double: bool) {
        let from = self.at;
        let inner = self.text.get(from + 2..).unwrap_or_default();
        if let Some((name, _)) = inner.split_once('}')
            && is_name(name)
        {
            self.at = from + 2 + name.len() + 1;
            self.push(self.slice(from, self.at));
            return;
        }
        self.opaque();
        if self.depth >= MAX_NESTING {
            self.scan.too_deep = true;
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        self.at = from + 2;
        self.push("${");
        // Inside double quotes a single quote is one only where a pattern may stand: after `#`, `%`, `/`, `^` or `,`. Not so
        // for bash, which looks for another one all the same.
        let pattern = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_!@*".contains(c));
        let posix = !in_double || pattern.starts_with(['#', '%', '/', '^', ',']);
        let single = posix || self.dialect == Dialect::Bash;
        let mut closed = false;
        while let Some(c) = self.peek() {
            match c {
                '}' => {
                    self.push("}");
                    self.at += 1;
                    closed = true;
                    break;
                }
                '\\' => {
                    self.at += 1;
                    self.at += self.peek().map_or(0, char::len_utf8);
                }
                '\'' if single => {
                    self.scan.ambiguous |= !posix;
                    self.piece();
                }
                '"' => self.double_quoted(),
                '$' => self.dollar(in_double),
                '`' => self.backquote(in_double),
                '<' | '>' if !in_double && self.byte(1) == Some(b'(') => self.process_substitution(),
                c => {
                    self.push_char(c);
                    self.at += c.len_utf8();
                }
            }
        }
        self.depth -= 1;
        if !closed {
            self.scan.nested.push(inner.to_owned());
        }
    }

    /// `<(…)` and `>(…)`.
    pub(super) fn process_substitution(&mut self) {
        self.opaque();
        let from = self.at;
        self.at += 2;
        self.substitution(Frame::Commands);
        let text = self.slice(from, self.at);
        self.push(text);
        self.word().expands = true;
    }

    /// Commands in parentheses, from after the opening one to after the closing one. They are read on their own, by the
    /// same rules: quotes outside say nothing of quotes inside.
    pub(super) fn substitution(&mut self, frame: Frame) {
        if self.depth >= MAX_NESTING {
            self.scan.too_deep = true;
            self.at = self.text.len();
            return;
        }
        let mut inner = Scanner::new(self.text, self.at, self.depth + 1, self.dialect);
        inner.missing = std::mem::take(&mut self.missing);
        if frame == Frame::Other {
            // The second of two parentheses; its like is popped by the first that closes.
            inner.frames.push((Frame::Other, 0));
            inner.at += 1;
        }
        let closed = inner.commands(true);
        self.at = inner.at;
        self.missing = std::mem::take(&mut inner.missing);
        // Two parentheses hold arithmetic when the same two close them; what is no substitution in it is no command.
        if frame == Frame::Other && closed && inner.sums {
            inner.scan.segments.clear();
        }
        self.merge(inner);
    }

    fn merge(&mut self, inner: Scanner<'_>) {
        let Scanner { scan, merged, heredocs, .. } = inner;
        self.merged.extend(scan.segments);
        self.merged.extend(merged);
        self.scan.nested.extend(scan.nested);
        self.scan.too_deep |= scan.too_deep;
        self.scan.ambiguous |= scan.ambiguous;
        self.heredocs.extend(heredocs);
    }

    /// What is expanded in a text that is no line: the inside of `$[…]`, the body of a here-document.
    pub(super) fn expansions_of(&mut self, text: &str) {
        if self.depth >= MAX_NESTING {
            self.scan.too_deep = true;
            return;
        }
        let mut inner = Scanner::new(text, 0, self.depth + 1, self.dialect);
        while let Some(c) = inner.peek() {
            match c {
                '\\' => {
                    inner.at += 1;
                    inner.at += inner.peek().map_or(0, char::len_utf8);
                }
                '$' => inner.dollar(true),
                '`' => inner.backquote(true),
                c => inner.at += c.len_utf8(),
            }
        }
        self.merge(inner);
    }

    /// Commands in backquotes: their text, with one level of escapes taken off, is a line of its own.
    pub(super) fn backquote(&mut self, in_double: bool) {
        self.opaque();
        self.word().expands = true;
        self.at += 1;
        let from = self.at;
        let mut inner = String::new();
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '`' => {
                    self.scan.nested.push(inner);
                    self.push(self.slice(from - 1, self.at));
                    return;
                }
                '\\' => match self.peek() {
                    Some(c) if matches!(c, '`' | '\\' | '$') || (in_double && c == '"') => {
                        inner.push(c);
                        self.at += c.len_utf8();
                    }
                    _ => inner.push('\\'),
                },
                c => inner.push(c),
            }
        }
        // Not closed: what follows is read as part of the line that it stands in.
        self.at = from;
    }

    /// `$'…'`, from after the opening quote.
    fn ansi_quoted(&mut self) {
        let from = self.at;
        self.word().quoted = true;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '\'' => return,
                '\\' => self.ansi_escape(),
                c => self.push_char(c),
            }
        }
        let rest = self.slice(from, self.text.len());
        self.scan.nested.push(rest.to_owned());
    }

    fn ansi_escape(&mut self) {
        let Some(c) = self.peek() else { return };
        self.at += c.len_utf8();
        let (radix, most) = match c {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => {
                self.at -= 1;
                (8, 3)
            }
            _ => {
                let plain = match c {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'e' | 'E' => '\u{1b}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    other => other,
                };
                self.push_char(plain);
                return;
            }
        };
        let mut value = 0u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            digits += 1;
            self.at += 1;
        }
        if let Some(c) = char::from_u32(value).filter(|_| digits > 0) {
            self.push_char(c);
        }
    }
}
