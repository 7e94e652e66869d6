//! Confining a hermetic command: Landlock, seccomp and namespaces (host contract 5.2).
//!
//! The lexical pre-check of a command sees names in a text; what is here holds whatever the command turns out to do. A
//! [`Confinement`] says what may be read and written, [`process::run`](crate::process::run) applies as much of it as the
//! host has, and [`Enforcement`] says how much that was.
//!
//! | Layer | Gives |
//! | --- | --- |
//! | Landlock from version 3 on | reads, writes, truncation and execution by declared sets; from 4 on TCP, from 6 on signals and abstract sockets |
//! | seccomp | no sockets, no `ptrace`, `mount`, `bpf`, `io_uring`, `keyctl`; without a mount namespace no change of metadata either |
//! | mount namespace | everything but the declared writes is read-only, metadata too |
//! | network namespace | no network but a loopback that is down |
//! | PID namespace | whatever the command left ends with the call |
//!
//! The first two need nothing. Namespaces have to be set up by a process with one thread, so they need a
//! [`Supervisor`]: a program of the host's own that is started in front of the command.
//!
//! The rule set of a call is that of host contract 5.2: reading and executing in [`SYSTEM_READS`] and in what is declared
//! for reading; everything in what is declared for writing and in a private directory that `TMPDIR` names; reading and
//! writing the [`DEVICES`]; and a process's own directory of `/proc`. The last one is a right of the processes of the call
//! where they have a PID namespace, and of no process where they do not: Landlock names files, not "self".
//!
//! A declared path stands for what it leads to when the command starts; a link in it is followed.
//!
//! **Invariant:** no layer is reported that was not applied to the command: each is taken from what its system call
//! answered.
//!
//! **Invariant:** under [`HermeticEnforcement::Required`] a command is not started unless its files and its network are
//! confined.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod apply;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod mounts;
mod plan;
mod probe;
mod remove;
#[cfg(target_os = "linux")]
mod rules;
pub mod supervisor;
#[cfg(target_os = "linux")]
mod sys;

#[cfg(target_os = "linux")]
pub(crate) use apply::InProcess;
#[cfg(target_os = "linux")]
pub(crate) use plan::{Fate, Plan, Report, Rights, Spaces};
pub use probe::{Probed, Standing, probe};
pub(crate) use remove::remove;
pub use supervisor::Supervisor;

/// Directories that every hermetic command may read and execute from (host contract 5.2). One that does not exist is
/// left out.
pub const SYSTEM_READS: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];

/// Devices that every hermetic command may read and write (host contract 5.2).
pub const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The lowest version of Landlock that counts: those before it do not cover truncation (host contract 5.2).
pub const LOWEST_LANDLOCK: u32 = 3;

/// What a hermetic command may read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// Absolute, normal paths that may be read and executed, each with all beneath it. One that does not exist gives
    /// nothing.
    pub reads: Vec<String>,
    /// Absolute, normal paths with all rights, each with all beneath it. One that does not exist yet has to lie in one of
    /// the others.
    pub writes: Vec<String>,
}

impl Confinement {
    /// A confinement to these paths; patterns are expanded before.
    #[must_use]
    pub fn new(reads: Vec<String>, writes: Vec<String>) -> Self {
        Confinement { reads, writes }
    }

    /// The first declared write that does not exist and lies in no declared one that does: there is nothing that a rule
    /// for it could name (host contract 5.2, `outside_declared_writes`). Where a link leads nowhere it does not exist.
    #[must_use]
    pub fn missing_write(&self) -> Option<&str> {
        let exists = |path: &str| fs::metadata(path).is_ok();
        let covered = |path: &str| {
            let directory = |other: &&String| fs::metadata(other.as_str()).is_ok_and(|found| found.is_dir());
            let within =
                |other: &&String| path != other.as_str() && Path::new(path).starts_with(other.as_str());
            self.writes.iter().filter(within).any(|other| directory(&other))
        };
        self.writes.iter().map(String::as_str).find(|path| !exists(path) && !covered(path))
    }
}

/// What confines a command's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileLayer {
    /// Landlock, all that its version has.
    Landlock {
        /// The version that was enforced.
        abi: u32,
    },
    /// Nothing.
    None,
}

/// What confines a command's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetLayer {
    /// A network namespace of its own; sockets are refused besides.
    Namespace,
    /// Sockets are refused.
    Seccomp,
    /// Nothing.
    None,
}

/// What ends the processes that a command left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReapLayer {
    /// A PID namespace of its own: they end with its first process.
    PidNamespace,
    /// A supervisor to which they fall, and which kills them until none is left.
    Subreaper,
    /// A signal to the command's process group, which does not reach one that left it.
    Group,
}

/// What was really applied to a command (host contract 5.2). In JSON:
/// `{"fs":{"Landlock":{"abi":7}},"metadata":true,"net":"Namespace","reap":"PidNamespace"}`; what is missing is `"None"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// Files.
    pub fs: FileLayer,
    /// Whether modes, owners, times and attributes outside the declared writes cannot be changed.
    pub metadata: bool,
    /// The network.
    pub net: NetLayer,
    /// What is left behind.
    pub reap: ReapLayer,
}

impl Enforcement {
    /// Nothing but the process group.
    pub const NONE: Enforcement =
        Enforcement { fs: FileLayer::None, metadata: false, net: NetLayer::None, reap: ReapLayer::Group };

    /// What [`HermeticEnforcement::Required`] misses, if anything.
    #[must_use]
    pub fn missing(&self) -> Option<&'static str> {
        match (self.fs, self.net) {
            (FileLayer::None, NetLayer::None) => Some("its files and its network"),
            (FileLayer::None, _) => Some("its files"),
            (_, NetLayer::None) => Some("its network"),
            _ => None,
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fs {
            FileLayer::Landlock { abi } => write!(f, "files by Landlock {abi}")?,
            FileLayer::None => f.write_str("files not confined")?,
        }
        f.write_str(if self.metadata { ", metadata too" } else { ", metadata not" })?;
        f.write_str(match self.net {
            NetLayer::Namespace => "; network by a namespace",
            NetLayer::Seccomp => "; network by seccomp",
            NetLayer::None => "; network not confined",
        })?;
        f.write_str(match self.reap {
            ReapLayer::PidNamespace => "; processes by a namespace",
            ReapLayer::Subreaper => "; processes by a supervisor",
            ReapLayer::Group => "; processes by their group",
        })
    }
}

/// Whether a hermetic command runs where the host cannot confine it (policy `hermetic_enforcement`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HermeticEnforcement {
    /// It runs, and the call's record says what was missing.
    #[default]
    BestEffort,
    /// It does not: `provider_unavailable`, and nothing is started.
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforcement_is_written_as_the_contract_names_it() {
        let all = Enforcement {
            fs: FileLayer::Landlock { abi: 7 },
            metadata: true,
            net: NetLayer::Namespace,
            reap: ReapLayer::PidNamespace,
        };
        let text = r#"{"fs":{"Landlock":{"abi":7}},"metadata":true,"net":"Namespace","reap":"PidNamespace"}"#;
        assert_eq!(serde_json::to_string(&all).unwrap(), text);
        let none = r#"{"fs":"None","metadata":false,"net":"None","reap":"Group"}"#;
        assert_eq!(serde_json::to_string(&Enforcement::NONE).unwrap(), none);
        assert_eq!(serde_json::from_str::<Enforcement>(none).unwrap(), Enforcement::NONE);
        assert_eq!(Enforcement::NONE.missing(), Some("its files and its network"));
        assert_eq!(all.missing(), None);
        assert_eq!(serde_json::to_string(&HermeticEnforcement::BestEffort).unwrap(), "\"best_effort\"");
    }

    #[test]
    fn a_new_file_needs_a_declared_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let missing = |writes: &[&str]| {
            let writes = writes.iter().map(|path| format!("{root}/{path}")).collect();
            Confinement::new(Vec::new(), writes).missing_write().map(|path| path[root.len() + 1..].to_owned())
        };
        assert_eq!(missing(&["out", "file"]), None);
        assert_eq!(missing(&["out", "out/new", "out/a/b"]), None);
        assert_eq!(missing(&["out/new"]).as_deref(), Some("out/new"));
        assert_eq!(missing(&["file", "file/new"]).as_deref(), Some("file/new"));
        assert_eq!(missing(&["outer", "out"]).as_deref(), Some("outer"));
        assert_eq!(missing(&["new"]).as_deref(), Some("new"));
    }
}
