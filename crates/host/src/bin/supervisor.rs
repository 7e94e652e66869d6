//! The supervisor as a program of its own: see `flowcell_host::supervisor`.

use std::process::ExitCode;

fn main() -> ExitCode {
    flowcell_host::supervisor::intercept(std::env::args_os()).unwrap_or(ExitCode::from(2))
}
