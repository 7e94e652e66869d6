//! A workspace, a home, and the binary in them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The built binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_flowcell");

/// A workspace and a home of its own.
pub(crate) struct Bench {
    folder: TempDir,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    fn of(output: std::process::Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            status: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap()),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one document on standard output.
    pub(crate) fn json(&self) -> Value {
        assert!(
            self.out.ends_with('\n') && self.out.trim_end().lines().count() == 1,
            "not one line: {self:?}"
        );
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn is(&self, status: i32) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    pub(crate) fn last_line(&self) -> &str {
        self.err.trim_end().lines().last().unwrap_or_default()
    }

    /// The code of the error document.
    pub(crate) fn code(&self) -> String {
        let document = self.json();
        assert_eq!(keys(&document), ["error"], "{self:?}");
        for key in keys(&document["error"]) {
            assert!(["code", "message", "path", "flow_code", "hint"].contains(&key.as_str()), "{self:?}");
        }
        assert!(document["error"]["message"].is_string(), "{self:?}");
        document["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// The members of an object, sorted.
pub(crate) fn keys(value: &Value) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ws", "home", "config"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// The workspace, its links resolved.
    pub(crate) fn ws(&self) -> PathBuf {
        self.folder.path().join("ws").canonicalize().unwrap()
    }

    /// The workspace as text.
    pub(crate) fn root(&self) -> String {
        self.ws().to_str().unwrap().to_owned()
    }

    /// A place outside the workspace.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The user's configuration folder of flowcell.
    pub(crate) fn config(&self) -> PathBuf {
        self.outside("config").join("flowcell")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.ws().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn user_policy(&self, text: &str) {
        std::fs::create_dir_all(self.config()).unwrap();
        std::fs::write(self.config().join("policy.toml"), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.ws().join(name)).unwrap()
    }

    pub(crate) fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.ws())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.outside("home"))
            .env("XDG_CONFIG_HOME", self.outside("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The answer of the binary to these words.
    pub(crate) fn run(&self, words: &[&str]) -> Answer {
        Answer::of(self.command(BINARY, words).output().unwrap())
    }

    /// The same with standard input.
    pub(crate) fn run_with(&self, words: &[&str], input: &str) -> Answer {
        let mut child = self.command(BINARY, words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Answer::of(child.wait_with_output().unwrap())
    }

    /// The same with one more variable in the environment.
    pub(crate) fn run_env(&self, name: &str, value: &str, words: &[&str]) -> Answer {
        Answer::of(self.command(BINARY, words).env(name, value).output().unwrap())
    }

    /// A command line as a person would type it, `flowcell` being the binary.
    pub(crate) fn shell(&self, line: &str) -> Answer {
        let folder = Path::new(BINARY).parent().unwrap().to_str().unwrap().to_owned();
        let path = format!("{folder}:/usr/local/bin:/usr/bin:/bin");
        Answer::of(self.command("sh", &["-c", line]).env("PATH", path).output().unwrap())
    }

    /// A process of the binary.
    pub(crate) fn spawn(&self, words: &[&str]) -> Child {
        self.command(BINARY, words).spawn().unwrap()
    }

    pub(crate) fn wait(child: Child) -> Answer {
        Answer::of(child.wait_with_output().unwrap())
    }

    /// The answer without the capabilities that let root pass over mode bits; `None` where that cannot be had.
    pub(crate) fn run_unprivileged(&self, words: &[&str]) -> Option<Answer> {
        let mut line = vec!["--bounding-set=-dac_override,-dac_read_search", BINARY];
        line.extend(words);
        let output = self.command("setpriv", &line).output().ok()?;
        let answer = Answer::of(output);
        (!answer.err.starts_with("setpriv:")).then_some(answer)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.ws().join(".flowcell/flowcell.db")
    }
}
