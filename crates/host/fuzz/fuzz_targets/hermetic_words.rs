//! Runs `exercise_report::hermetic_words` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise_report.rs"]
mod exercise_report;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise_report::hermetic_words(data));
