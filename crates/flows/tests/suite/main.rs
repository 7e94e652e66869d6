//! The public behaviour of `flowcell-flows`, one file a subject.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod canonical;
mod capability;
mod corpus;
mod decode;
mod descriptor;
mod effects;
mod error;
mod exercise;
mod flows;
mod rules;
mod schema;

use proptest::prelude::ProptestConfig;

/// Cases of one property test.
const CASES: u32 = 256;

/// The configuration of every property test: failures are printed with their seed and leave no file behind.
fn properties() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}
