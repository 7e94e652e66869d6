//! Runs the rules about command lines over arbitrary text.

#![no_main]

#[path = "../../tests/suite/process_oracle.rs"]
mod process_oracle;

libfuzzer_sys::fuzz_target!(|data: &[u8]| process_oracle::check(&String::from_utf8_lossy(data)));
