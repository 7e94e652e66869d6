//! What stands in a folder: names, modes, bytes and the text of links.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Dir(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
    Other,
}

/// Everything below a folder, by its path there.
pub(crate) type Tree = BTreeMap<PathBuf, Node>;

pub(crate) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    add(root, Path::new(""), &mut found);
    found
}

/// The files alone, without their modes.
pub(crate) fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let bytes = |(path, node)| match node {
        Node::File(_, bytes) => Some((path, bytes)),
        _ => None,
    };
    tree(root).into_iter().filter_map(bytes).collect()
}

/// Copies what a folder holds into another one.
pub(crate) fn copy(from: &Path, to: &Path) {
    for (path, node) in tree(from) {
        match node {
            Node::Dir(_) => fs::create_dir_all(to.join(path)).unwrap(),
            Node::File(_, bytes) => fs::write(to.join(path), bytes).unwrap(),
            other => panic!("{other:?} in {from:?}"),
        }
    }
}

/// The paths at which two trees differ.
pub(crate) fn differing(left: &Tree, right: &Tree) -> Vec<PathBuf> {
    let paths = left.keys().chain(right.keys());
    let mut paths: Vec<_> = paths.filter(|path| left.get(*path) != right.get(*path)).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}

fn add(root: &Path, at: &Path, found: &mut Tree) {
    if !root.join(at).is_dir() {
        return;
    }
    for entry in fs::read_dir(root.join(at)).unwrap() {
        let entry = entry.unwrap();
        let path = at.join(entry.file_name());
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        let mode = meta.permissions().mode() & 0o7777;
        let node = if meta.is_symlink() {
            Node::Link(fs::read_link(entry.path()).unwrap())
        } else if meta.is_dir() {
            add(root, &path, found);
            Node::Dir(mode)
        } else if meta.is_file() {
            // What may not be read is its refusal.
            let bytes = fs::read(entry.path()).unwrap_or_else(|error| error.to_string().into_bytes());
            Node::File(mode, bytes)
        } else {
            Node::Other
        };
        found.insert(path, node);
    }
}
