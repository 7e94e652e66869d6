//! Runs `exercise::claude` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise::claude(data));
