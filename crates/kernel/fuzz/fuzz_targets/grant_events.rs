//! Runs `exercise::grant_events` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::grant_events(data));
