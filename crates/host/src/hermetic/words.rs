//! A command text as words, redirections and command ends: the lexical half of the hermetic pre-check (host contract 5.1,
//! rule 3). Nothing is expanded and nothing is looked up.

/// What a redirection does with the word that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// `<` and `<<<`: the word is read, or is data.
    Input,
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `<>`, `>&` with a name: the word is written.
    Output,
    /// `>&` and `<&` with a descriptor or `-`: the word names no file.
    Descriptor,
    /// `<<` and `<<-`: the word ends a body, which is data.
    Here,
}

/// One piece of a command text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word with its quotes taken off.
    Word {
        /// The text without quotes.
        text: String,
        /// Whether it is the first word of a command substitution, `$(word`.
        substitution: bool,
    },
    /// A redirection; the next word, if one follows directly, is its target.
    Redirect(Redirect),
    /// The end of a command.
    End,
    /// The start of a command inside another, `$(`, `` ` ``, `<(`, `>(` or `(`.
    Open,
    /// The end of one.
    Close,
}

/// The tokens of a text, in its order. Quotes that stay open end with the text.
#[must_use]
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut scanner = Scanner {
        chars: &chars,
        at: 0,
        out: Vec::new(),
        word: None,
        numeric: false,
        fresh: false,
        backquote: false,
        here: None,
        bodies: Vec::new(),
    };
    scanner.run();
    scanner.out
}

struct Scanner<'a> {
    chars: &'a [char],
    at: usize,
    out: Vec<Token>,
    word: Option<String>,
    /// The word so far is digits alone and unquoted: perhaps the descriptor of a redirection.
    numeric: bool,
    /// The next word is the first of a substitution.
    fresh: bool,
    backquote: bool,
    /// The next word is the delimiter of a here-document; tabs are stripped from its body.
    here: Option<bool>,
    /// Bodies that start at the next line.
    bodies: Vec<(String, bool)>,
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' => {
                    self.finish();
                    self.at += 1;
                }
                '\n' => {
                    self.finish();
                    self.here = None;
                    self.at += 1;
                    self.push(Token::End);
                    self.skip_bodies();
                }
                '#' if self.word.is_none() => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => self.escape(),
                '`' => {
                    self.finish();
                    self.at += 1;
                    self.backquote = !self.backquote;
                    self.fresh = self.backquote;
                    self.push(if self.backquote { Token::Open } else { Token::Close });
                }
                '$' if self.peek(1) == Some('(') => self.open(2, true),
                // `$'…'` and `$"…"` are quotes with a mark in front.
                '$' if matches!(self.peek(1), Some('\'' | '"')) => self.at += 1,
                '(' => self.open(1, false),
                ')' => {
                    self.finish();
                    self.at += 1;
                    self.push(Token::Close);
                }
                '&' if self.peek(1) == Some('>') => {
                    self.finish();
                    self.at += if self.peek(2) == Some('>') { 3 } else { 2 };
                    self.push(Token::Redirect(Redirect::Output));
                }
                '&' | '|' | ';' => {
                    self.finish();
                    self.at += 1;
                    if self.out.last() != Some(&Token::End) {
                        self.push(Token::End);
                    }
                }
                '<' | '>' => self.redirect(c),
                c => {
                    self.numeric = c.is_ascii_digit() && (self.word.is_none() || self.numeric);
                    self.word.get_or_insert_default().push(c);
                    self.at += 1;
                }
            }
        }
        self.finish();
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, token: Token) {
        self.out.push(token);
    }

    /// Ends the word under way.
    fn finish(&mut self) {
        self.numeric = false;
        let Some(text) = self.word.take() else { return };
        if let Some(tabs) = self.here.take() {
            self.bodies.push((text, tabs));
            return;
        }
        let substitution = std::mem::take(&mut self.fresh);
        self.push(Token::Word { text, substitution });
    }

    /// The word under way, which holds something quoted from now on.
    fn quoted(&mut self) -> &mut String {
        self.numeric = false;
        self.word.get_or_insert_default()
    }

    fn single(&mut self) {
        self.at += 1;
        self.quoted();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                break;
            }
            self.quoted().push(c);
        }
    }

    fn double(&mut self) {
        self.at += 1;
        self.quoted();
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '"' => break,
                '\\' => match self.peek(0) {
                    Some('\n') => self.at += 1,
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                        self.at += 1;
                        self.quoted().push(escaped);
                    }
                    _ => self.quoted().push('\\'),
                },
                c => self.quoted().push(c),
            }
        }
    }

    /// A backslash outside quotes: the next character is itself, a line break after it is nothing.
    fn escape(&mut self) {
        match self.peek(1) {
            Some('\n') => {}
            Some(c) => self.quoted().push(c),
            None => self.quoted().push('\\'),
        }
        self.at += 2;
    }

    fn open(&mut self, length: usize, substitution: bool) {
        self.finish();
        self.at += length;
        self.push(Token::Open);
        self.fresh = substitution;
    }

    fn redirect(&mut self, c: char) {
        if self.peek(1) == Some('(') {
            self.open(2, true);
            return;
        }
        if self.numeric {
            self.word = None;
        }
        self.finish();
        let next = (self.peek(1), self.peek(2));
        let (length, kind) = match (c, next) {
            ('<', (Some('<'), Some('<'))) => (3, Redirect::Input),
            ('<', (Some('<'), Some('-'))) => (3, Redirect::Here),
            ('<', (Some('<'), _)) => (2, Redirect::Here),
            ('<', (Some('>'), _)) => (2, Redirect::Output),
            ('<', (Some('&'), _)) => (2, Redirect::Descriptor),
            ('<', _) => (1, Redirect::Input),
            (_, (Some('&'), _)) => (2, self.duplicate()),
            (_, (Some('>' | '|'), _)) => (2, Redirect::Output),
            _ => (1, Redirect::Output),
        };
        if kind == Redirect::Here {
            self.here = Some(length == 3);
        }
        self.at += length;
        self.push(Token::Redirect(kind));
    }

    /// What `>&` does: with a descriptor or `-` behind it nothing is written, with a name that is a file.
    fn duplicate(&self) -> Redirect {
        let rest = self.chars.get(self.at + 2..).unwrap_or_default();
        let start = rest.iter().position(|c| !matches!(c, ' ' | '\t')).unwrap_or(rest.len());
        let word = &rest[start..];
        let end = word.iter().position(|c| !(c.is_ascii_digit() || *c == '-')).unwrap_or(word.len());
        let ends = word.get(end).is_none_or(|c| c.is_whitespace() || "&|;()<>`".contains(*c));
        if end > 0 && ends { Redirect::Descriptor } else { Redirect::Output }
    }

    /// The bodies of the here-documents of the line that just ended.
    fn skip_bodies(&mut self) {
        for (delimiter, tabs) in std::mem::take(&mut self.bodies) {
            let delimiter: Vec<char> = delimiter.chars().collect();
            while self.at < self.chars.len() {
                let rest = &self.chars[self.at..];
                let end = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
                let mut line = &rest[..end];
                self.at = (self.at + end + 1).min(self.chars.len());
                while tabs && line.first() == Some(&'\t') {
                    line = &line[1..];
                }
                if line == delimiter {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let show = |token: Token| match token {
            Token::Word { text, substitution: false } => format!("[{text}]"),
            Token::Word { text, substitution: true } => format!("[${text}]"),
            Token::Redirect(kind) => format!("{kind:?}"),
            Token::End => ";".to_owned(),
            Token::Open => "(".to_owned(),
            Token::Close => ")".to_owned(),
        };
        tokens(text).into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_quotes_and_ends() {
        for (text, expected) in [
            ("cat a b", "[cat] [a] [b]"),
            ("cat 'a b'\"c d\"e", "[cat] [a bc de]"),
            ("a&&b||c;d|e&f\ng", "[a] ; [b] ; [c] ; [d] ; [e] ; [f] ; [g]"),
            ("a # b/c\nd", "[a] ; [d]"),
            ("a#b '#c' \\#d", "[a#b] [#c] [#d]"),
            ("a\\ b \\/c d\\\ne", "[a b] [/c] [de]"),
            ("\"a\\\"b\\c\\$d\"", "[a\"b\\c$d]"),
            ("$'a/b' $\"c\"", "[a/b] [c]"),
            ("echo ''", "[echo] []"),
            ("x='open", "[x=open]"),
            ("a\\", "[a\\]"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn redirections() {
        for (text, expected) in [
            ("a >b", "[a] Output [b]"),
            ("a>b", "[a] Output [b]"),
            ("a 2>b 12>>c", "[a] Output [b] Output [c]"),
            ("a2>b", "[a2] Output [b]"),
            ("a '2'>b", "[a] [2] Output [b]"),
            ("a >|b &>c &>>d <>e", "[a] Output [b] Output [c] Output [d] Output [e]"),
            ("a <b <<<c", "[a] Input [b] Input [c]"),
            ("a 2>&1 >&2 <&3 >&-", "[a] Descriptor [1] Descriptor [2] Descriptor [3] Descriptor [-]"),
            ("a >&out/b >& 3c", "[a] Output [out/b] Output [3c]"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bodies_of_here_documents_are_data() {
        assert_eq!(shown("cat <<E >o/f\nrm /x\nE\nls /y"), "[cat] Here Output [o/f] ; [ls] [/y]");
        assert_eq!(shown("cat <<-'E' <<F\n/a\n\tE\n/b\nF\nls"), "[cat] Here Here ; [ls]");
        assert_eq!(shown("cat <<E\n/a"), "[cat] Here ;");
    }

    #[test]
    fn commands_inside_commands() {
        for (text, expected) in [
            ("x=$(cat /a)", "[x=] ( [$cat] [/a] )"),
            ("echo `cat /a`", "[echo] ( [$cat] [/a] )"),
            ("(rm /a)", "( [rm] [/a] )"),
            ("diff <(sort /a) >(cat)", "[diff] ( [$sort] [/a] ) ( [$cat] )"),
            ("\"$(cat /a)\"", "[$(cat /a)]"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
