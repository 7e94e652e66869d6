//! The kept corpus of the fuzz targets, run through what the targets do.

use std::path::Path;

use crate::exercise;

fn each_file(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 5, "{files} files in the corpus of {target}");
}

#[test]
fn the_capability_corpus_holds() {
    each_file("capability", exercise::capability);
}

#[test]
fn the_patterns_corpus_holds() {
    each_file("patterns", exercise::patterns);
}

#[test]
fn the_canonical_corpus_holds() {
    each_file("canonical", exercise::canonical);
}
