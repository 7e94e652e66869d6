//! Running a command inside a container (host contract 5.1).
//!
//! A [`Container`] turns what is to run inside into what is started outside. [`CommandTransport`] does so with the command
//! line of `docker` or `podman`.
//!
//! ```
//! use flowcell_host::container::{CommandTransport, Container, Request};
//! let request = Request::new("box", "bash", ["-lc", "make"]);
//! let plan = CommandTransport::docker().exec(&request)?;
//! assert_eq!((plan.file.as_str(), plan.args.join(" ")), ("docker", "exec -- box bash -lc make".to_owned()));
//! # Ok::<(), flowcell_host::kernel::flows::error::StdError>(())
//! ```
//!
//! **Invariant:** a variable's value is never part of an argv.

use std::collections::BTreeMap;

use crate::kernel::flows::error::{Code, StdError};

/// The variable by which a transport finds the processes of a call again: its value is the request's mark.
pub const MARK: &str = "FLOWCELL_CALL";

/// What is to run inside a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The container.
    pub container: String,
    /// The program.
    pub file: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The working directory inside; the container's own when it is not given.
    pub cwd: Option<String>,
    /// Variables to set inside.
    pub env: BTreeMap<String, String>,
    /// Whether the program is given something on standard input.
    pub stdin: bool,
    /// What tells this call's processes from others inside, for [`Container::kill`]. It is no secret.
    pub mark: Option<String>,
}

impl Request {
    /// A program with arguments, and nothing else.
    pub fn new<S: Into<String>>(
        container: impl Into<String>,
        file: impl Into<String>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        Request {
            container: container.into(),
            file: file.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..Request::default()
        }
    }
}

/// What is started on the host for a [`Request`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The program.
    pub file: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of the process.
    pub env: BTreeMap<String, String>,
}

/// A way into containers.
pub trait Container: Send + Sync {
    /// What to start so that the request runs inside.
    ///
    /// # Errors
    /// `invalid_input` for a request that the transport cannot carry.
    fn exec(&self, request: &Request) -> Result<Plan, StdError>;

    /// What to start so that what [`exec`](Self::exec) started inside is killed: the end of the process outside does not
    /// end it. It is called when a call runs out of time or is interrupted. `None` where nothing is to be done.
    fn kill(&self, request: &Request) -> Option<Plan>;
}

/// Inside: kills what carries the mark until a look finds nothing more, as a process may fork between two looks.
const KILL: &str = "n=0; while [ $n -lt 20 ]; do n=$((n+1)); found=; for p in /proc/[0-9]*; do \
if { tr '\\0' '\\n' <$p/environ; } 2>/dev/null | grep -qxF \"$1\"; then kill -9 ${p#/proc/} 2>/dev/null && found=1; fi; \
done; [ -n \"$found\" ] || exit 0; done";

/// Names that a client of containers reads itself: with them a call could lead it to another daemon, other
/// credentials or another program.
const STEERING: &[&str] = &["PATH", "HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "KUBECONFIG"];
const STEERING_PREFIXES: &[&str] = &["DOCKER_", "PODMAN_", "CONTAINER_", "CONTAINERS_", "BUILDKIT_", "LD_"];

/// The command line of `docker`, or of a program that takes the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTransport {
    program: String,
}

impl CommandTransport {
    /// `docker`.
    #[must_use]
    pub fn docker() -> Self {
        Self::new("docker")
    }

    /// `podman`.
    #[must_use]
    pub fn podman() -> Self {
        Self::new("podman")
    }

    /// Another program with the same command line, looked up on `PATH` when it has no slash.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        CommandTransport { program: program.into() }
    }
}

impl Default for CommandTransport {
    fn default() -> Self {
        Self::docker()
    }
}

impl Container for CommandTransport {
    /// `<program> exec [-i] [-w cwd] [-e KEY]… -- <name> <file> <args…>`. Values travel in the environment of that process;
    /// a [mark](Request::mark) is one more of them, behind the others.
    ///
    /// # Errors
    /// `invalid_input` for a name that is empty or starts with `-`, and for a variable that the client reads itself.
    fn exec(&self, request: &Request) -> Result<Plan, StdError> {
        let name = &request.container;
        if name.is_empty() || name.starts_with('-') {
            return Err(StdError::new(Code::InvalidInput, format!("{name:?} names no container.")));
        }
        let mut env = request.env.clone();
        if let Some(key) = env.keys().find(|key| is_steering(key)) {
            let message = format!(
                "{key} would reach {} itself; set it inside the command, as in `{key}=value command`.",
                self.program
            );
            return Err(StdError::new(Code::InvalidInput, message));
        }
        let mut args = vec!["exec".to_owned()];
        if request.stdin {
            args.push("-i".to_owned());
        }
        if let Some(cwd) = &request.cwd {
            args.extend(["-w".to_owned(), cwd.clone()]);
        }
        for key in request.env.keys().filter(|key| *key != MARK) {
            args.extend(["-e".to_owned(), key.clone()]);
        }
        if let Some(mark) = &request.mark {
            args.extend(["-e".to_owned(), MARK.to_owned()]);
            env.insert(MARK.to_owned(), mark.clone());
        }
        args.extend(["--".to_owned(), name.clone(), request.file.clone()]);
        args.extend(request.args.iter().cloned());
        Ok(Plan { file: self.program.clone(), args, env })
    }

    fn kill(&self, request: &Request) -> Option<Plan> {
        let mark = request.mark.as_ref()?;
        let inside = ["exec", "--", &request.container, "sh", "-c", KILL, "sh"];
        let mut args: Vec<String> = inside.into_iter().map(str::to_owned).collect();
        args.push(format!("{MARK}={mark}"));
        Some(Plan { file: self.program.clone(), args, env: BTreeMap::new() })
    }
}

fn is_steering(key: &str) -> bool {
    STEERING.contains(&key) || STEERING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &Request) -> String {
        let plan = CommandTransport::podman().exec(request).unwrap();
        [vec![plan.file], plan.args].concat().join(" ")
    }

    #[test]
    fn the_command_line_of_the_transport() {
        let mut request = Request::new("box", "bash", ["-lc", "make"]);
        assert_eq!(line(&request), "podman exec -- box bash -lc make");
        request.stdin = true;
        request.cwd = Some("/srv".to_owned());
        request.env = [("A".to_owned(), "secret".to_owned()), ("B".to_owned(), "2".to_owned())].into();
        assert_eq!(line(&request), "podman exec -i -w /srv -e A -e B -- box bash -lc make");
        request.mark = Some("m1".to_owned());
        assert_eq!(line(&request), "podman exec -i -w /srv -e A -e B -e FLOWCELL_CALL -- box bash -lc make");
        let plan = CommandTransport::default().exec(&request).unwrap();
        assert_eq!(plan.file, "docker");
        assert_eq!(plan.env["A"], "secret");
        assert_eq!(plan.env[MARK], "m1");
        assert!(!plan.args.iter().any(|word| word.contains("secret")));
        let kill = CommandTransport::docker().kill(&request).unwrap();
        assert_eq!(&kill.args[..5], ["exec", "--", "box", "sh", "-c"]);
        assert_eq!(kill.args.last().unwrap(), "FLOWCELL_CALL=m1");
        request.mark = None;
        assert_eq!(CommandTransport::docker().kill(&request), None);
    }

    #[test]
    fn names_and_variables_that_are_refused() {
        for name in ["", "-x", "--privileged"] {
            let error = CommandTransport::docker().exec(&Request::new(name, "a", ["b"])).unwrap_err();
            assert_eq!(error.code, Code::InvalidInput, "{name:?}");
        }
        for key in ["DOCKER_HOST", "PATH", "HOME", "LD_PRELOAD", "CONTAINER_HOST"] {
            let mut request = Request::new("box", "a", ["b"]);
            request.env.insert(key.to_owned(), "x".to_owned());
            let error = CommandTransport::docker().exec(&request).unwrap_err();
            assert!(error.code == Code::InvalidInput && error.message.contains(key), "{key}");
        }
    }
}
