//! Runs `exercise_patch::patch_parse` over arbitrary bytes.

#![no_main]
#![allow(dead_code)]

#[path = "../../tests/suite/exercise_patch.rs"]
mod exercise_patch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| exercise_patch::patch_parse(data));
