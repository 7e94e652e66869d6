//! Tests that need what a machine may lack.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// Says that a test is skipped, by its name, and why. In CI (`CI=true`) nothing may be skipped.
///
/// # Panics
///
/// Under `CI=true`.
#[allow(clippy::print_stdout)] // a skipped test says so in the output of its run
pub fn skip(name: &str, why: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "skipped: {name}: {why}");
    println!("skipped: {name}: {why}");
}

/// Where a program is on `PATH`, if it is.
#[must_use]
pub fn which(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
