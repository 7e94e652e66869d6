//! Smaller trees and calls, the boldest steps first.

use super::call::Call;
use super::tree::{Entry, Tree};
use crate::query::{GlobQuery, GrepQuery};

/// Every case that is one step smaller.
pub(crate) fn smaller(tree: &Tree, call: &Call) -> Vec<(Tree, Call)> {
    let mut cases = Vec::new();
    for tree in smaller_trees(tree) {
        cases.push((tree, call.clone()));
    }
    for call in smaller_calls(call) {
        cases.push((tree.clone(), call));
    }
    cases
}

fn smaller_trees(tree: &Tree) -> Vec<Tree> {
    let mut trees = Vec::new();
    let paths: Vec<Vec<u8>> = tree.entries().keys().cloned().collect();
    // Halves, quarters, and so on.
    let mut size = paths.len() / 2;
    while size > 1 {
        for part in paths.chunks(size) {
            let mut less = tree.clone();
            part.iter().for_each(|path| less.remove(path));
            trees.push(less);
        }
        size /= 2;
    }
    for path in &paths {
        let mut less = tree.clone();
        less.remove(path);
        trees.push(less);
    }
    if tree.noise_above {
        let mut less = tree.clone();
        less.noise_above = false;
        trees.push(less);
    }
    for path in tree.denied().iter().chain(tree.locked()) {
        let mut less = tree.clone();
        less.free(path);
        trees.push(less);
    }
    for (path, entry) in tree.entries() {
        let Entry::File(content) = entry else { continue };
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        let mut with = |content: Vec<u8>| {
            let mut less = tree.clone();
            less.file(path.clone(), content);
            trees.push(less);
        };
        if lines.len() > 3 {
            let (head, tail) = lines.split_at(lines.len() / 2);
            with(head.concat());
            with(tail.concat());
        }
        if lines.len() <= 16 {
            for skip in 0..lines.len() {
                let rest = lines.iter().enumerate().filter(|(at, _)| *at != skip).map(|(_, line)| *line);
                with(rest.collect::<Vec<_>>().concat());
            }
        }
        if let [line] = lines.as_slice()
            && line.len() > 1
        {
            with(line[..line.len() / 2].to_vec());
            with(line[line.len() / 2..].to_vec());
        }
    }
    trees
}

fn smaller_calls(call: &Call) -> Vec<Call> {
    match call {
        Call::Glob(query) => {
            let mut calls = Vec::new();
            let base = || query.clone();
            if query.root.is_some() {
                calls.push(GlobQuery { root: None, ..base() });
            }
            if query.limit.is_some() {
                calls.push(GlobQuery { limit: None, ..base() });
            }
            if query.hidden {
                calls.push(GlobQuery { hidden: false, ..base() });
            }
            if query.no_ignore {
                calls.push(GlobQuery { no_ignore: false, ..base() });
            }
            for glob in ["**", "*"] {
                if query.pattern.len() > glob.len() {
                    calls.push(GlobQuery { pattern: glob.to_owned(), ..base() });
                }
            }
            for pattern in shorter(&query.pattern) {
                calls.push(GlobQuery { pattern, ..base() });
            }
            calls.into_iter().map(Call::Glob).collect()
        }
        Call::Grep(query) => smaller_greps(query).into_iter().map(Call::Grep).collect(),
    }
}

fn smaller_greps(query: &GrepQuery) -> Vec<GrepQuery> {
    let mut calls = Vec::new();
    let base = || query.clone();
    if query.root.is_some() {
        calls.push(GrepQuery { root: None, ..base() });
    }
    for skip in 0..query.globs.len() {
        let mut less = base();
        less.globs.remove(skip);
        calls.push(less);
    }
    let options: [(bool, GrepQuery); 13] = [
        (query.limit.is_some(), GrepQuery { limit: None, ..base() }),
        (query.max_count.is_some(), GrepQuery { max_count: None, ..base() }),
        (query.context.is_some(), GrepQuery { context: None, ..base() }),
        (query.before_context.is_some(), GrepQuery { before_context: None, ..base() }),
        (query.after_context.is_some(), GrepQuery { after_context: None, ..base() }),
        (query.files_with_matches, GrepQuery { files_with_matches: false, ..base() }),
        (query.ignore_case, GrepQuery { ignore_case: false, ..base() }),
        (query.smart_case, GrepQuery { smart_case: false, ..base() }),
        (query.hidden, GrepQuery { hidden: false, ..base() }),
        (query.no_ignore, GrepQuery { no_ignore: false, ..base() }),
        (!query.no_symbols, GrepQuery { no_symbols: true, ..base() }),
        (query.fixed_strings, GrepQuery { fixed_strings: false, ..base() }),
        (!query.pattern.is_empty(), GrepQuery { pattern: String::new(), ..base() }),
    ];
    calls.extend(options.into_iter().filter(|(asked, _)| *asked).map(|(_, query)| query));
    for pattern in shorter(&query.pattern) {
        calls.push(GrepQuery { pattern, ..base() });
    }
    for (at, glob) in query.globs.iter().enumerate() {
        for text in shorter(glob) {
            let mut less = base();
            less.globs[at] = text;
            calls.push(less);
        }
    }
    calls
}

/// The text without one of its characters.
fn shorter(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let without =
        |skip: usize| characters.iter().enumerate().filter(|(at, _)| *at != skip).map(|(_, c)| *c).collect();
    if characters.len() < 2 { Vec::new() } else { (0..characters.len()).map(without).collect() }
}
