//! A day's work on three real projects of three languages, with their own test suites: the flows `read`, `grep`, `bash`,
//! `shell_command`, `edit`, `apply_patch` and `test`, through the built binary, and each answer held to what the file
//! system and the tools themselves say.
//!
//! The projects: strsim (Rust, libtest), a package of this workspace's own graph; toolz (Python, pytest), the source
//! distribution; @fastify/proxy-addr (JavaScript, Node's runner in TAP). `fixtures/projects/fetch.sh` brings the latter
//! two, and what runs them, into the target folder; without them their tests are skipped by name, which is an error in CI.
//! git is needed throughout.
//!
//! The binary has no judge of exit codes: a failing run whose report says itself what failed needs none (host contract
//! 5.3). The same suite is run by the handler itself under a judge.

#![allow(clippy::disallowed_methods)] // where the tools are is in the process environment

mod judged;
mod project;
mod script;

use flowcell_tests::{skip, which};
use project::Project;

fn with(name: &str, project: fn() -> Option<Project>) {
    if which("git").is_none() {
        skip(name, "no git on this machine");
    } else if let Some(project) = project() {
        script::play(&project);
    }
}

#[test]
fn a_rust_crate() {
    with("real/rust", Project::strsim);
}

#[test]
fn a_python_source_distribution() {
    with("real/python", Project::toolz);
}

#[test]
fn a_javascript_package() {
    with("real/javascript", Project::proxy_addr);
}
