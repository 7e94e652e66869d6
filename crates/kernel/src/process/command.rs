//! What is to be started, and the text it is asked for by.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::flows::capability::{Action, Capability, MAX_RESOURCE_UNITS, units};

/// What a child runs (kernel contract 6.2). Building one asks nothing; starting it does.
///
/// ```
/// use flowcell_kernel::process::Command;
/// let argv = Command::Argv(vec!["git".into(), "commit".into(), "-m".into(), "a b".into()]);
/// assert_eq!(argv.render(), "git commit -m 'a b'");
/// let line = Command::Line { line: "cargo test; id".into(), shell: None };
/// assert_eq!(line.render(), "cargo test; id");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// A program and its arguments, as they are.
    Argv(Vec<String>),
    /// A line for a shell.
    Line {
        /// The line.
        line: String,
        /// The shell that runs it as `<shell> -c <line>`. `None` is `bash` where the child's `PATH` has one, else
        /// `/bin/sh` (host contract 5), and the line is asked for verbatim.
        shell: Option<PathBuf>,
    },
    /// A program that is given a text on standard input.
    Script {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The text.
        text: String,
    },
}

impl Command {
    /// The command as one text: the durable name of what is asked, of any length.
    ///
    /// An argv is its tokens joined by one blank, each bare when it has only `A-Za-z0-9_@%+=:,./-` and else single-quoted;
    /// a line is itself, or `<shell> -c <line>` with a named shell; a script is its argv and `<<sha256:` with the digest of
    /// its text, so that a grant for it is bound to the text.
    pub fn render(&self) -> String {
        match self {
            Command::Argv(argv) => render_argv(argv),
            Command::Line { line, shell: None } => line.clone(),
            Command::Line { line, shell: Some(shell) } => {
                render_argv(&[shell_text(shell).as_str(), "-c", line])
            }
            Command::Script { argv, text } => {
                format!("{} <<sha256:{}", render_argv(argv), hex_digest(text.as_bytes()))
            }
        }
    }

    /// The resource of `proc:spawn` that is asked for: the rendering, or `sha256:` and its digest when it has over 4,096
    /// UTF-16 units.
    pub fn resource(&self) -> String {
        let rendered = self.render();
        if units(&rendered) > MAX_RESOURCE_UNITS { digest_name(&rendered) } else { rendered }
    }

    /// What starting the command asks for: `proc:spawn` on [`resource`](Self::resource).
    #[allow(clippy::missing_panics_doc, reason = "a digest name fits a resource")]
    pub fn capability(&self) -> Capability {
        let rendered = self.render();
        // The one text that does not fit is the one that is named by its digest instead.
        Capability::new(Action::ProcSpawn, rendered.as_str()).unwrap_or_else(|| named(&rendered))
    }

    /// The program's name, for records of started processes, which hold no arguments. Of a line it is the shell's.
    pub fn program(&self) -> String {
        match self {
            Command::Argv(argv) | Command::Script { argv, .. } => argv.first().cloned().unwrap_or_default(),
            Command::Line { shell: Some(shell), .. } => shell_text(shell),
            Command::Line { shell: None, .. } => "bash".to_owned(),
        }
    }
}

fn named(rendered: &str) -> Capability {
    match Capability::new(Action::ProcSpawn, digest_name(rendered)) {
        Some(capability) => capability,
        None => unreachable!("a digest name has 71 units"),
    }
}

fn shell_text(shell: &Path) -> String {
    shell.to_string_lossy().into_owned()
}

fn digest_name(rendered: &str) -> String {
    format!("sha256:{}", hex_digest(rendered.as_bytes()))
}

fn hex_digest(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Tokens as a shell would take them: joined by one blank, each bare or single-quoted (kernel contract 6.2).
pub fn render_argv<S: AsRef<str>>(argv: &[S]) -> String {
    let mut out = String::new();
    for (index, token) in argv.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        push_quoted(&mut out, token.as_ref());
    }
    out
}

/// The rendering of a pipeline: those of its commands, joined by ` | `.
pub fn render_pipeline(commands: &[Command]) -> String {
    commands.iter().map(Command::render).collect::<Vec<_>>().join(" | ")
}

fn push_quoted(out: &mut String, token: &str) {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !token.is_empty() && token.bytes().all(bare) {
        out.push_str(token);
        return;
    }
    out.push('\'');
    for part in token.split_inclusive('\'') {
        match part.strip_suffix('\'') {
            Some(before) => {
                out.push_str(before);
                out.push_str("'\\''");
            }
            None => out.push_str(part),
        }
    }
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(tokens: &[&str]) -> Command {
        Command::Argv(tokens.iter().map(|token| (*token).to_owned()).collect())
    }

    #[test]
    fn tokens_are_bare_or_single_quoted() {
        for (tokens, rendered) in [
            (&["git", "commit", "-m", "a b"][..], "git commit -m 'a b'"),
            (&["sh", "-c", "echo 'x'"], r"sh -c 'echo '\''x'\'''"),
            (&["a", ""], "a ''"),
            (&["A-Za-z0-9_@%+=:,./-"], "A-Za-z0-9_@%+=:,./-"),
            (&["é", "a\nb", "$x", "~"], "'é' 'a\nb' '$x' '~'"),
            (&["'"], r"''\'''"),
            (&[], ""),
        ] {
            assert_eq!(argv(tokens).render(), rendered);
        }
    }

    #[test]
    fn lines_scripts_and_pipelines() {
        let line =
            |shell: Option<&str>| Command::Line { line: "a 'b'".into(), shell: shell.map(PathBuf::from) };
        assert_eq!(line(None).render(), "a 'b'");
        assert_eq!(line(Some("/bin/my sh")).render(), r"'/bin/my sh' -c 'a '\''b'\'''");
        let script = Command::Script { argv: vec!["python3".into(), "-".into()], text: "abc".into() };
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(script.render(), format!("python3 - <<sha256:{digest}"));
        assert_eq!(render_pipeline(&[argv(&["a", "b c"]), line(None)]), "a 'b c' | a 'b'");
    }

    #[test]
    fn what_is_too_long_is_named_by_its_digest() {
        let line = |length: usize| Command::Line { line: "a".repeat(length), shell: None };
        assert_eq!(line(4_096).resource().len(), 4_096);
        assert_eq!(line(4_096).capability().resource(), line(4_096).resource());
        let long = line(4_097).resource();
        assert!(long.starts_with("sha256:") && long.len() == 71, "{long}");
        assert_eq!(line(4_097).capability().resource(), long);
        let astral = Command::Line { line: "😀".repeat(2_049), shell: None };
        assert!(astral.resource().starts_with("sha256:"));
    }
}
