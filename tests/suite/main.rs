//! The suite `main`: the built binary on fixtures and on real sources.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cells;
mod crash;
mod readme;
mod real;
