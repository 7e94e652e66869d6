//! The workspace that is looked at, and the commands run in it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};

use crate::metadata::Metadata;

/// A workspace by its root folder.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace at `root`, or the one this program was built from.
    pub(crate) fn at(root: Option<PathBuf>) -> Result<Self> {
        let root = match root {
            Some(root) => root,
            None => Path::new(env!("CARGO_MANIFEST_DIR"))
                .parent()
                .context("the manifest folder has no parent")?
                .to_path_buf(),
        };
        let root = root.canonicalize().with_context(|| format!("{}", root.display()))?;
        if !root.join("Cargo.toml").is_file() {
            bail!("{} holds no Cargo.toml", root.display());
        }
        Ok(Self { root })
    }

    /// The root folder, canonical.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A `cargo` command in the root folder.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command.current_dir(&self.root);
        // Set by the `cargo run` that started this program; they are of xtask, not of what it starts.
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|name| {
                name.starts_with("CARGO_PKG_")
                    || name == "CARGO_MANIFEST_DIR"
                    || name == "CARGO_MANIFEST_PATH"
            }) {
                command.env_remove(name);
            }
        }
        command
    }

    /// What `cargo metadata` says of the members alone: no resolution, no registry.
    pub(crate) fn members(&self) -> Result<Metadata> {
        self.metadata(&["--no-deps"])
    }

    /// What `cargo metadata` says of the members and all that `Cargo.lock` holds.
    pub(crate) fn resolved(&self) -> Result<Metadata> {
        self.metadata(&["--locked", "--all-features"])
    }

    fn metadata(&self, extra: &[&str]) -> Result<Metadata> {
        let mut command = self.cargo();
        command.args(["metadata", "--format-version", "1"]).args(extra);
        Metadata::parse(&stdout_of(&mut command)?)
    }
}

/// Whether this runs in CI, where a skip is an error.
pub(crate) fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Standard output of a command that succeeded, as text.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let output = output_of(command)?;
    if !output.status.success() {
        bail!(
            "{} failed ({}):\n{}",
            describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed what is not UTF-8", describe(command)))
}

/// What a command left behind, whatever its status.
pub(crate) fn output_of(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("{} did not start", describe(command)))
}

/// The command's words.
pub(crate) fn describe(command: &Command) -> String {
    let mut text = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}
