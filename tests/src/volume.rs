//! How much a run does.

use std::env;

/// `ci` in a plain test run, `full` where `cargo xtask integration` or `soak` asks for it (`FLOWCELL_VOLUME=full`).
#[must_use]
pub fn volume<T>(ci: T, full: T) -> T {
    if env::var_os("FLOWCELL_VOLUME").is_some_and(|asked| asked == "full") { full } else { ci }
}
