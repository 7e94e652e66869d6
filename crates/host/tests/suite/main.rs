//! The public behaviour of the file flows: the cases of host contract 10 and every rule of its sections 0 to 4 and 7.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
// Tests may read the environment: the volume, CI, and where the peer's material is.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod apply_patch;
mod apply_patch_cases;
mod apply_patch_faults;
mod apply_patch_grammar;
mod apply_patch_properties;
mod bash;
mod checkpoints;
mod confine;
mod container;
mod edit;
mod exercise_patch;
mod exercise_report;
mod files;
mod ls;
mod permission;
mod plan;
mod process;
mod process_world;
mod properties;
mod read;
mod report;
mod shell;
mod shell_command;
mod support;
mod test_base;
mod test_flow;
mod test_real;
mod tree;
mod unprivileged;
mod write;
