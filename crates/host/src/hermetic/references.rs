//! The paths that a command text names, and what is done with each (host contract 5.1, rules 4 to 6).

use super::words::{Redirect, Token, tokens};

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// A path as a text names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What is done with it.
    pub access: Access,
    /// The path as written, without quotes.
    pub text: String,
}

/// Commands that run another one, named behind them.
const WRAPPERS: &[&str] = &["env", "nice", "time", "sudo", "nohup", "xargs", "command", "exec"];
/// Commands whose every path is written.
const WRITERS: &[&str] =
    &["chmod", "chown", "mkdir", "rm", "rmdir", "tee", "touch", "truncate", "unlink", "ln"];
/// Commands whose last path is written.
const COPIERS: &[&str] = &["cp", "install", "mv"];
/// Commands that write where an option says so.
const OTHERS: &[&str] = &["dd", "sed", "tar"];
/// Words of the shell's grammar that stand before a command.
const RESERVED: &[&str] = &["if", "then", "elif", "else", "while", "until", "do", "!", "{"];

/// The paths that a text names, in its order.
#[must_use]
pub fn references(text: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    // One command a level of nesting; the outer ones go on when the inner ones end.
    let mut open = vec![Segment::default()];
    let mut target = None;
    let mut place = 0;
    for token in tokens(text) {
        if let Token::Redirect(kind) = token {
            // The scanner has taken the delimiter of a here-document already.
            target = (kind != Redirect::Here).then_some(kind);
            continue;
        }
        let kind = target.take();
        match token {
            Token::Word { .. } if kind == Some(Redirect::Descriptor) => {}
            Token::Word { text, substitution } => {
                if let Some(segment) = open.last_mut() {
                    segment.words.push(Word { place, text, redirect: kind, substitution });
                    place += 1;
                }
            }
            Token::End => {
                if let Some(segment) = open.last_mut() {
                    std::mem::take(segment).classify(&mut found);
                }
            }
            Token::Open => open.push(Segment::default()),
            Token::Close => {
                if let Some(segment) = open.pop() {
                    segment.classify(&mut found);
                }
                if open.is_empty() {
                    open.push(Segment::default());
                }
            }
            Token::Redirect(_) => {}
        }
    }
    for segment in open {
        segment.classify(&mut found);
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, reference)| reference).collect()
}

struct Word {
    place: usize,
    text: String,
    redirect: Option<Redirect>,
    substitution: bool,
}

/// The words of one command.
#[derive(Default)]
struct Segment {
    words: Vec<Word>,
}

impl Segment {
    fn classify(self, found: &mut Vec<(usize, Reference)>) {
        let command = self.command();
        let name = command.and_then(|at| self.words.get(at)).map_or("", |word| base(&word.text));
        let arguments = || self.words.iter().filter(|word| word.redirect.is_none());
        let in_place = name == "sed" && arguments().any(|word| edits_in_place(&word.text));
        let candidate = |(at, word): (usize, &Word)| {
            // The first word of a substitution is a word of the command around it too.
            let exempt = Some(at) == command && !word.substitution;
            if exempt { None } else { candidate(&word.text).map(|text| (at, text)) }
        };
        let candidates: Vec<(usize, String)> = self.words.iter().enumerate().filter_map(candidate).collect();
        let plain = |(at, _): &&(usize, String)| {
            self.words.get(*at).is_some_and(|word| word.redirect.is_none()) && Some(*at) > command
        };
        let last = candidates.iter().rfind(plain).map(|(at, _)| *at);
        for (at, text) in candidates {
            let Some(word) = self.words.get(at) else { continue };
            let argument = word.redirect.is_none();
            let written = match name {
                _ if !argument => word.redirect == Some(Redirect::Output),
                _ if Some(at) <= command => false,
                "dd" => word.text.starts_with("of="),
                "sed" => in_place,
                "tar" => self.changes_to(at),
                name if WRITERS.contains(&name) => true,
                name if COPIERS.contains(&name) => Some(at) == last,
                _ => false,
            };
            let access = if written { Access::Write } else { Access::Read };
            found.push((word.place, Reference { access, text }));
        }
    }

    /// Where the command word is: the first that is no assignment, option, redirection or wrapper; behind a wrapper the
    /// first known mutating command, if there is one.
    fn command(&self) -> Option<usize> {
        let mut wrapped = false;
        let mut first = None;
        for (at, word) in self.words.iter().enumerate() {
            if word.redirect.is_some() {
                continue;
            }
            // The value of a variable or of an option is no command, whatever it ends in.
            if is_assignment(&word.text) || word.text.starts_with('-') {
                continue;
            }
            let name = base(&word.text);
            if wrapped && [WRITERS, COPIERS, OTHERS].iter().any(|list| list.contains(&name)) {
                return Some(at);
            }
            if first.is_some() {
                continue;
            }
            if WRAPPERS.contains(&name) {
                wrapped = true;
            } else if !RESERVED.contains(&word.text.as_str()) {
                first = Some(at);
                if !wrapped {
                    break;
                }
            }
        }
        first
    }

    /// Whether the argument at `at` is the directory of tar's `-C`.
    fn changes_to(&self, at: usize) -> bool {
        let Some(word) = self.words.get(at) else { return false };
        if word.text.starts_with("-C") || word.text.starts_with("--directory=") {
            return true;
        }
        let before = self.words.get(..at).unwrap_or_default();
        let before = before.iter().rfind(|word| word.redirect.is_none());
        before.is_some_and(|option| {
            option.text == "--directory"
                || (option.text.starts_with('-')
                    && !option.text.starts_with("--")
                    && option.text.ends_with('C'))
        })
    }
}

/// The program of a command word.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether an argument of sed asks for editing in place: `-i`, `-i.bak`, `-ni`, `--in-place`.
fn edits_in_place(word: &str) -> bool {
    if word.starts_with("--") {
        return word.starts_with("--in-place");
    }
    let Some(flags) = word.strip_prefix('-') else { return false };
    let plain = flags.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(flags.len());
    let before = flags[..plain].split(['e', 'f', 'l']).next().unwrap_or_default();
    before.contains('i')
}

/// The name of `name=value`.
fn assigned(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let ident = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    ident.then_some((name, value))
}

fn is_assignment(word: &str) -> bool {
    assigned(word).is_some()
}

/// The path that an option has attached, whose first slash is at `slash`: of `-I/inc` and `-Wl,-rpath,/lib` what starts
/// there, of `-Iinc/sub` and `-Dfile=inc/sub` the names before it too.
fn attached(word: &str, slash: usize) -> &str {
    let before = &word[..slash];
    let start = match before.rfind(['=', ',', ':']) {
        Some(mark) => mark + 1,
        // The dash and the option's letter.
        None => before.char_indices().nth(2).map_or(slash, |(at, _)| at),
    };
    &word[start..]
}

/// The path that a word is, if it is one.
fn candidate(word: &str) -> Option<String> {
    let text = if let Some((_, value)) = assigned(word) {
        value
    } else if let Some(option) = word.strip_prefix("--")
        && let Some((_, value)) = option.split_once('=').filter(|(name, _)| !name.contains('/'))
    {
        value
    } else if word.starts_with('-')
        && let Some(at) = word.find('/')
    {
        attached(word, at)
    } else {
        word
    };
    let mut text = text;
    while let Some(rest) = text.strip_prefix("$(") {
        text = rest;
    }
    let text = text.trim_end_matches([')', ',']);
    (text == "." || text == ".." || text.contains('/')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let show = |reference: Reference| match reference.access {
            Access::Read => format!("r:{}", reference.text),
            Access::Write => format!("w:{}", reference.text),
        };
        references(text).into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_read_and_what_is_written() {
        for (text, expected) in [
            ("echo hi", ""),
            ("cat secret", ""),
            ("cat a/b", "r:a/b"),
            ("ls . ..", "r:. r:.."),
            ("cat 'a b/c'", "r:a b/c"),
            ("/usr/bin/cat a/b", "r:a/b"),
            ("echo x > o/f", "w:o/f"),
            ("echo x >| o/f", "w:o/f"),
            ("echo x &> o/f", "w:o/f"),
            ("cat < i/f > o/f", "r:i/f w:o/f"),
            ("cat <> o/f", "w:o/f"),
            ("cat <<< a/b", "r:a/b"),
            ("make 2>&1 >/dev/null", "w:/dev/null"),
            ("rm -rf a/b c/d", "w:a/b w:c/d"),
            ("/bin/rm a/b", "w:a/b"),
            ("\\rm a/b", "w:a/b"),
            ("cp a/b c/d e/f", "r:a/b r:c/d w:e/f"),
            ("cp a/b c/d > e/f", "r:a/b w:c/d w:e/f"),
            ("mv a/b c/d && cat e/f", "r:a/b w:c/d r:e/f"),
            ("dd if=a/b of=c/d", "r:a/b w:c/d"),
            ("sed -n 1p a/b", "r:a/b"),
            ("sed -i 1d a/b", "w:a/b"),
            ("sed -Ei.bak 1d a/b", "w:a/b"),
            ("sed -e i a/b", "r:a/b"),
            ("tar -xf a/b.tar -C c/d", "r:a/b.tar w:c/d"),
            ("tar -xzC c/d", "w:c/d"),
            ("tar -C/d -x", "w:/d"),
            ("A=/x B='y/z' cmd", "r:/x r:y/z"),
            ("cmd --file=a/b -I/inc -Iinc", "r:a/b r:/inc"),
            ("cc -Ia/b -Lc/d/e -of/g", "r:a/b r:c/d/e r:f/g"),
            (
                "cc -Wl,-rpath,/a/b -Wl,-rpath,c/d -Dx=/e/f -Dx=g/h -/i -é/j",
                "r:/a/b r:c/d r:/e/f r:g/h r:/i r:/j",
            ),
            ("env A=b rm a/b", "w:a/b"),
            ("env A=/x/rm cat a/b", "r:/x/rm r:a/b"),
            ("sudo --prompt=/x/cp cat a/b", "r:/x/cp r:a/b"),
            ("sudo -u root rm a/b", "w:a/b"),
            ("find d/e | xargs -n 1 rm a/b", "r:d/e w:a/b"),
            ("nice -n 5 cat a/b", "r:a/b"),
            ("A='b c' rm a/b", "w:a/b"),
            ("echo rm a/b", "r:a/b"),
            ("echo hi\nrm a/b", "w:a/b"),
            ("if rm a/b; then touch c/d; fi", "w:a/b w:c/d"),
            ("{ rm a/b; }", "w:a/b"),
            ("(rm a/b)", "w:a/b"),
            ("echo $(cat a/b), c/d,", "r:a/b r:c/d"),
            ("x=$(cat a/b) rm c/d", "r:a/b w:c/d"),
            ("echo $(/opt/tool)", "r:/opt/tool"),
            ("echo \"$(/opt/tool)\"", "r:/opt/tool"),
            ("cat a/b # c/d", "r:a/b"),
            ("cat <<E\na/b\nE\n", ""),
            ("tee <<E a/b\nc/d\nE\n", "w:a/b"),
            ("case x in a) rm b/c;; esac", "w:b/c"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
