//! What the fuzz targets run. The crate's own tests run the same over the corpus.

use flowcell_search::{Gitignore, Glob, GlobList, MAX_PATTERN_BYTES, MAX_STATES, Pattern};

/// The pattern grammar: any text is accepted or refused, and a refusal lies inside the text.
pub fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Pattern::regex(text) {
        Ok(pattern) => {
            assert!(text.len() <= MAX_PATTERN_BYTES && pattern.states() <= MAX_STATES);
            assert!(Pattern::literal(text).is_ok());
        }
        Err(refusal) => assert!(refusal.offset <= text.len(), "{refusal}"),
    }
}

/// The glob grammar: the first line is a glob, every other one a path.
pub fn glob(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    match Glob::parse(first) {
        Ok(glob) => {
            let list = GlobList::new(vec![glob.clone()]);
            for path in lines {
                assert_eq!(list.includes_file(path), glob.matches_file(path) != glob.is_exclusion());
            }
        }
        Err(refusal) => assert!(refusal.offset <= first.len(), "{refusal}"),
    }
}

/// Rules of a `.gitignore`: any bytes are read, and a directory is judged like a file by what is no
/// directory rule.
pub fn gitignore(data: &[u8]) {
    let rules = Gitignore::parse(data);
    for path in ["a", "a/b", "x/y/z.log", "[", " "] {
        let verdicts = (rules.verdict(path, false), rules.verdict(path, true));
        if rules.is_empty() {
            assert_eq!(verdicts, (None, None));
        }
    }
}
