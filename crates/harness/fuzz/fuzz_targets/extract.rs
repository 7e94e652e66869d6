//! Any reply is recovered or refused: no panic, and a program holds no line that the reply does not.
#![no_main]

use flowcell_harness::extract::{ExtractOptions, StopReason, extract_with};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|reply: &str| {
    for accept_js in [false, true] {
        if let Ok(found) = extract_with(reply, StopReason::End, ExtractOptions { accept_js }) {
            assert!(found.blocks > 0);
            assert!(found.program.lines().all(|line| reply.contains(line)));
        }
    }
});
