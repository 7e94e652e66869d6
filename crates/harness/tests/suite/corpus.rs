//! Runs the fuzz targets' bodies over their corpus.

use std::path::Path;

use flowcell_harness::extract::{ExtractOptions, StopReason, extract_with};
use flowcell_harness::program::{Source, validate};

fn texts(target: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let texts: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| String::from_utf8(std::fs::read(entry.unwrap().path()).unwrap()).ok())
        .collect();
    assert!(texts.len() >= 4, "the corpus of {target} is gone");
    texts
}

#[test]
fn extract_takes_its_corpus() {
    let mut programs = 0;
    for text in texts("extract") {
        for accept_js in [false, true] {
            if let Ok(found) = extract_with(&text, StopReason::End, ExtractOptions { accept_js }) {
                programs += 1;
                assert!(found.program.lines().all(|line| text.contains(line)), "{text}");
            }
        }
    }
    assert!(programs > 0);
}

#[test]
fn validate_takes_its_corpus() {
    let mut programs = 0;
    for text in texts("validate") {
        if let Ok(program) = validate(&Source::new(text.as_str())) {
            programs += 1;
            assert_eq!(program.text().matches('\n').count(), text.matches('\n').count(), "{text}");
            assert_eq!(validate(&Source::new(program.text())).unwrap().text(), program.text(), "{text}");
        }
    }
    assert!(programs > 0);
}
