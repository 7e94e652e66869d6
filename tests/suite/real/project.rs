//! The three projects: where they come from, how their suites run, and two ways to break each.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flowcell_tests::{Package, copy, skip, target_folder, volume, which};
use serde_json::json;
use tempfile::TempDir;

/// One way to break a function, and the one test that then fails.
pub(super) struct Break {
    pub(super) file: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) fails: &'static str,
}

/// A project as a workspace: a git repository with one commit of its sources as they are published.
pub(super) struct Project {
    pub(super) name: &'static str,
    /// The source that is read, and its like by a glob.
    pub(super) source: &'static str,
    pub(super) glob: &'static str,
    /// A literal that several lines of the project hold.
    pub(super) word: &'static str,
    /// The breaks: one made by `edit`, one by `apply_patch`.
    pub(super) edited: Break,
    pub(super) patched: Break,
    /// The line that runs the suite, and what its environment needs.
    pub(super) command: String,
    pub(super) environment: BTreeMap<String, String>,
    /// The text before the number of passed tests in the suite's own output, and the text behind it.
    pub(super) tally: (&'static str, &'static str),
    /// Whether the second break is compared with the base too, as the first one always is.
    pub(super) twice: bool,
    folder: TempDir,
    aside: TempDir,
}

/// The texts of a project that are the same on every machine.
struct Texts {
    name: &'static str,
    source: &'static str,
    glob: &'static str,
    word: &'static str,
    edited: Break,
    patched: Break,
    tally: (&'static str, &'static str),
    ignored: &'static str,
}

const STRSIM: Texts = Texts {
    name: "real/rust",
    source: "src/lib.rs",
    glob: "*.rs",
    word: "generic_levenshtein",
    edited: Break {
        file: "src/lib.rs",
        from: "pub fn normalized_levenshtein(a: &str, b: &str) -> f64 {\n    if a.is_empty() && b.is_empty() {\n        return 1.0;\n",
        to: "pub fn normalized_levenshtein(a: &str, b: &str) -> f64 {\n    if a.is_empty() && b.is_empty() {\n        return 0.0;\n",
        fails: "tests::normalized_levenshtein_for_empty_strings",
    },
    patched: Break {
        file: "src/lib.rs",
        from: "pub fn normalized_damerau_levenshtein(a: &str, b: &str) -> f64 {\n    if a.is_empty() && b.is_empty() {\n        return 1.0;\n",
        to: "pub fn normalized_damerau_levenshtein(a: &str, b: &str) -> f64 {\n    if a.is_empty() && b.is_empty() {\n        return 0.0;\n",
        fails: "tests::normalized_damerau_levenshtein_for_empty_strings",
    },
    tally: ("test result: ", " passed;"),
    ignored: "/target\n/Cargo.lock\n",
};

const TOOLZ: Texts = Texts {
    name: "real/python",
    source: "toolz/itertoolz.py",
    glob: "*.py",
    word: "itertools.groupby",
    edited: Break {
        file: "toolz/recipes.py",
        from: "    return map(tuple, pluck(1, itertools.groupby(seq, key=func)))\n",
        to: "    return map(list, pluck(1, itertools.groupby(seq, key=func)))\n",
        fails: "toolz/tests/test_recipes.py::test_partitionby",
    },
    patched: Break {
        file: "toolz/itertoolz.py",
        from: "    except StopIteration:\n        return iter([])\n    return inposed\n",
        to: "    except StopIteration:\n        return iter([el])\n    return inposed\n",
        fails: "toolz/tests/test_itertoolz.py::test_interpose_empty",
    },
    tally: ("", " passed"),
    ignored: "__pycache__/\n",
};

const PROXY_ADDR: Texts = Texts {
    name: "real/javascript",
    source: "index.js",
    glob: "*.js",
    word: "isIPv4MappedAddress()",
    edited: Break {
        file: "index.js",
        from: "    i += val.length - 1\n",
        to: "    i += val.length\n",
        fails: "when given predefined names should accept multiple pre-defined names",
    },
    patched: Break {
        file: "index.js",
        from: "        // A native IPv6 candidate cannot match an IPv4-mapped subnet\n        continue\n",
        to: "        // A native IPv6 candidate cannot match an IPv4-mapped subnet\n        return true\n",
        fails: "when IPv4-mapped IPv6 trust subnet in a list is used a native IPv6 address should not match",
    },
    tally: ("# pass ", ""),
    ignored: "/node_modules\n",
};

impl Project {
    /// The crate strsim, as cargo unpacked it.
    pub(super) fn strsim() -> Option<Self> {
        let package = Package::named("strsim").unwrap();
        let folder = tempfile::tempdir().unwrap();
        copy(&package.folder, folder.path()).unwrap();
        // The tools of the toolchain that runs this, by no proxy of the user's home.
        let mut tools: Vec<PathBuf> = Vec::new();
        tools.extend(env::var_os("CARGO").and_then(|cargo| Some(Path::new(&cargo).parent()?.to_owned())));
        tools.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
        let tools = env::join_paths(tools).unwrap().into_string().unwrap();
        let mut environment = BTreeMap::from([
            ("TOOLS".to_owned(), tools),
            // Two trees are built from nothing: without what only a debugger and a third build would need.
            ("CARGO_INCREMENTAL".to_owned(), "0".to_owned()),
            ("CARGO_PROFILE_DEV_DEBUG".to_owned(), "0".to_owned()),
            ("CARGO_NET_OFFLINE".to_owned(), "true".to_owned()),
        ]);
        let home = env::var("HOME").unwrap_or_default();
        for (name, below) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let place = env::var(name).unwrap_or_else(|_| format!("{home}/{below}"));
            environment.insert(name.to_owned(), place);
        }
        let command = "PATH=\"$TOOLS\" cargo test --offline --tests --no-fail-fast".to_owned();
        // A base is built from nothing, which CI pays for once.
        Some(Self { twice: volume(false, true), ..Self::of(STRSIM, folder, command, environment) })
    }

    /// The source distribution of toolz.
    pub(super) fn toolz() -> Option<Self> {
        let target = target_folder().unwrap();
        let archive = target.join("real-projects/toolz-1.2.0.tar.gz");
        if !archive.is_file() {
            return lacks(TOOLZ.name, &format!("{} is not there; {FETCH}", archive.display()));
        }
        let python = target.join("pytest-venv/bin/python");
        let runs = |python: &Path| {
            let output = Command::new(python).args(["-c", "import pytest"]).output();
            output.is_ok_and(|output| output.status.success())
        };
        let Some(python) = [Some(python), which("python3")].into_iter().flatten().find(|python| runs(python))
        else {
            return lacks(TOOLZ.name, &format!("no Python with pytest on this machine; {FETCH}"));
        };
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .args(["--no-same-owner", "--strip-components=1", "-C"])
            .arg(folder.path())
            .status();
        assert!(unpacked.is_ok_and(|status| status.success()), "{} does not unpack", archive.display());
        let environment =
            BTreeMap::from([("PYTHON".to_owned(), python.into_os_string().into_string().unwrap())]);
        let command = "\"$PYTHON\" -m pytest -p no:cacheprovider".to_owned();
        Some(Self { twice: volume(false, true), ..Self::of(TOOLZ, folder, command, environment) })
    }

    /// The package @fastify/proxy-addr, with the two that it needs.
    pub(super) fn proxy_addr() -> Option<Self> {
        let modules = target_folder().unwrap().join("real-projects/javascript/node_modules");
        let package = modules.join("@fastify/proxy-addr");
        if !package.join("test").is_dir() {
            return lacks(PROXY_ADDR.name, &format!("{} is not there; {FETCH}", package.display()));
        }
        let Some(node) = which("node") else { return lacks(PROXY_ADDR.name, "no node on this machine") };
        let folder = tempfile::tempdir().unwrap();
        copy(&package, folder.path()).unwrap();
        for needed in ["@fastify/forwarded", "ipaddr.js"] {
            copy(&modules.join(needed), &folder.path().join("node_modules").join(needed)).unwrap();
        }
        let environment = BTreeMap::from([("NODE".to_owned(), node.into_os_string().into_string().unwrap())]);
        let command = "\"$NODE\" --test --test-reporter=tap".to_owned();
        Some(Self::of(PROXY_ADDR, folder, command, environment))
    }

    fn of(texts: Texts, folder: TempDir, command: String, environment: BTreeMap<String, String>) -> Self {
        let Texts { name, source, glob, word, edited, patched, tally, ignored } = texts;
        let aside = tempfile::tempdir().unwrap();
        let project = Self {
            name,
            source,
            glob,
            word,
            edited,
            patched,
            command,
            environment,
            tally,
            twice: true,
            folder,
            aside,
        };
        fs::write(project.path(".gitignore"), ignored).unwrap();
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["add", "--all"]);
        project.git(&["commit", "--quiet", "--message=as published"]);
        fs::write(project.policy(), project.policy_text()).unwrap();
        project
    }

    /// The workspace.
    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub(super) fn text(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    /// The policy file, outside the workspace.
    pub(super) fn policy(&self) -> PathBuf {
        self.aside.path().join("policy.toml")
    }

    /// A cell in a file, outside the workspace.
    pub(super) fn cell(&self, code: &str) -> PathBuf {
        let file = self.aside.path().join("cell.js");
        fs::write(&file, code).unwrap();
        file
    }

    /// What git itself says, without its last line end.
    pub(super) fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(words)
            .current_dir(self.root())
            .env("HOME", self.aside.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
    }

    /// The passed tests by the suite's own count: the sum over its closing lines.
    pub(super) fn tallied(&self, output: &str) -> u64 {
        let (before, behind) = self.tally;
        let counted = output.lines().filter_map(|line| {
            let at = if before.is_empty() { 0 } else { line.find(before)? + before.len() };
            let rest = &line[at..];
            let rest = if behind.is_empty() { rest } else { &rest[..rest.find(behind)?] };
            rest.rsplit([' ', ',']).next()?.parse::<u64>().ok()
        });
        counted.sum()
    }

    /// Everything below the workspace, any command, and the suite as the declared runner.
    fn policy_text(&self) -> String {
        let mut text = String::new();
        for pattern in ["fs:*:${workspace}", "fs:*:${workspace}/**", "proc:spawn:**"] {
            text.push_str(&format!("[[rule]]\neffect = \"allow\"\npattern = \"{pattern}\"\n"));
        }
        // A JSON string is a TOML string.
        let command = json!(self.command);
        text.push_str(&format!("[test]\nroot = \".\"\ncommand = {command}\n[test.env]\n"));
        for (name, value) in &self.environment {
            text.push_str(&format!("{name} = {}\n", json!(value)));
        }
        text
    }
}

/// What brings the projects.
const FETCH: &str = "`fixtures/projects/fetch.sh` brings it";

fn lacks(name: &str, why: &str) -> Option<Project> {
    skip(name, why);
    None
}
