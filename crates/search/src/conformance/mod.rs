//! A differential kit: proof that a [`Search`](crate::Search) of a host's own answers as the search contract says.
//!
//! [`SearchConformance`] grows trees and calls from a seed, asks a reference (the engine of this crate, as a rule) and a peer
//! the same call on the same tree, and compares every field of their answers. What differs is shrunk to the smallest tree and
//! call that still differ. [`Coverage`] tells how often each rule of search contract 3 and 4 had something to decide, so that
//! a run that proves little shows it.
//!
//! A peer that cannot answer as the contract says in some respect names it: a [`Known`] difference with the rule that decides
//! it.
//!
//! **Invariant:** equal seeds give equal cases on every host.
//!
//! **Invariant:** nothing but the answers is compared: failures by code and path, because their wording is a peer's own.

mod call;
mod census;
mod grow;
mod kit;
mod random;
mod report;
mod rule;
mod shrink;
mod tree;

pub use call::Call;
pub use kit::{MOST_DIFFERENCES, Plot, SearchConformance};
pub use random::Random;
pub use report::{Answer, Coverage, Difference, Known, Report};
pub use rule::Rule;
pub use tree::{Entry, Tree};
