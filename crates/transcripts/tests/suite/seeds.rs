//! The seeds of the fuzz targets.

use std::fs;
use std::path::Path;

use crate::exercise;

fn each(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds = 0;
    for seed in fs::read_dir(folder).unwrap() {
        run(&fs::read(seed.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds >= 10, "{seeds} seeds of {target}");
}

#[test]
fn codex() {
    each("codex", exercise::codex);
}

#[test]
fn claude() {
    each("claude", exercise::claude);
}
