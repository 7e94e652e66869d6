//! The `flowcell` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    flowcell::main()
}
