//! Runs `exercise_report::tap` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise_report.rs"]
mod exercise_report;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise_report::tap(data));
