//! Runs `exercise::codex` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::codex(data));
