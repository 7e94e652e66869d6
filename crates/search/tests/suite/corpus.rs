//! The corpus of the fuzz targets, run through the same functions.

use std::path::Path;

#[allow(unreachable_pub)]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

fn each(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{target} has {count} files");
}

#[test]
fn pattern() {
    each("pattern", targets::pattern);
}

#[test]
fn glob() {
    each("glob", targets::glob);
}

#[test]
fn gitignore() {
    each("gitignore", targets::gitignore);
}
