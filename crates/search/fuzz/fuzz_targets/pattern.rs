#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flowcell_search_fuzz::pattern(data));
