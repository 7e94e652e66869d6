//! Any text is accepted or refused: no panic, no line moves, and what was normalised stays as it is.
#![no_main]

use flowcell_harness::program::{Source, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(program) = validate(&Source::new(text)) {
        assert_eq!(program.text().matches('\n').count(), text.matches('\n').count());
        let again = validate(&Source::new(program.text())).expect("a normalised program is a program");
        assert_eq!(again.text(), program.text());
    }
});
