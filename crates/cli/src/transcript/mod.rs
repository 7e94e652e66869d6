//! `flowcell transcript`: what Codex or Claude Code did, read from the file it wrote (transcript contract).
//!
//! The decoders are the library's; here are the file that is read ([`source`]), the two ways of showing it ([`terminal`] and
//! [`page`]), the following of live sessions ([`follow`]) and the endpoint ([`serve`]).
//!
//! **Invariant:** a transcript is text to show. Nothing of it reaches a terminal or a page live: control characters and
//! characters that reorder text are spelled out, and a page runs nothing and asks for nothing.

pub(crate) mod agent;
pub(crate) mod decode;
pub(crate) mod follow;
pub(crate) mod inert;
pub(crate) mod live;
pub(crate) mod normalize;
pub(crate) mod outline;
pub(crate) mod page;
pub(crate) mod serve;
pub(crate) mod source;
pub(crate) mod terminal;
