//! The built `xtask`, run on small workspaces.

#![allow(clippy::unwrap_used)]

mod gate;
mod layers;
