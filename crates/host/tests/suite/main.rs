//! The public behaviour of the file flows: the cases of host contract 10 and every rule of its sections 0 to 4 and 7.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod edit;
mod ls;
mod permission;
mod plan;
mod properties;
mod read;
mod support;
mod unprivileged;
mod write;
