//! Random trees of directories, files and links: an operation that was granted exactly what it asked for changes nothing
//! but that, and shows nothing but that (invariant 8 of kernel contract 12).

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use flowcell_kernel::fs::is_inside;
use flowcell_kernel::{FileSystem, FsError, FsOptions, PermissionError};
use proptest::prelude::*;

use crate::support::Bench;

const NAMES: [&str; 3] = ["a", "b", "c"];
const OPERATIONS: [&str; 19] = [
    "read",
    "read_range",
    "metadata",
    "symlink_metadata",
    "canonicalize",
    "read_link",
    "write",
    "create_new",
    "truncate",
    "set_mode",
    "make_dir",
    "make_dirs",
    "replace",
    "replace_parents",
    "remove",
    "remove_dir_all",
    "rename",
    "copy",
    "symlink",
];

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File,
    Link(String),
}

/// A path below the workspace, or beside it.
fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "c", "a", "b", "c", "..", "."]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn place() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4);
    (prop::sample::select(vec!["ws", "ws", "ws", "beside"]), parts)
        .prop_map(|(top, parts)| format!("{top}/{}", parts.join("/")))
}

fn node() -> impl Strategy<Value = Node> {
    let target = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "..", "."]), 1..5);
    let start = prop::sample::select(vec!["", "", "{out}/ws/", "{out}/beside/", "{out}/"]);
    prop_oneof![
        2 => Just(Node::Dir),
        2 => Just(Node::File),
        3 => (target, start).prop_map(|(parts, start)| Node::Link(format!("{start}{}", parts.join("/")))),
    ]
}

/// What a path holds: its inode, kind, mode, and content, text or nothing.
type Facts = (u64, u32, Vec<u8>);

fn look(out: &Path) -> BTreeMap<String, Facts> {
    let mut found = BTreeMap::new();
    let mut todo = vec![out.to_owned()];
    while let Some(at) = todo.pop() {
        let meta = std::fs::symlink_metadata(&at).unwrap();
        let content = if meta.is_dir() {
            todo.extend(std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if meta.is_symlink() {
            std::os::unix::ffi::OsStringExt::into_vec(std::fs::read_link(&at).unwrap().into_os_string())
        } else {
            std::fs::read(&at).unwrap()
        };
        found.insert(at.to_str().unwrap().to_owned(), (meta.ino(), meta.mode(), content));
    }
    found
}

/// Runs an operation, and gives the inode that it showed, if any, and the path.
async fn run(files: &FileSystem, operation: &str, path: &str, other: &str) -> Result<Option<u64>, FsError> {
    Ok(match operation {
        "read" => Some(files.read(path, 99).await?.1.ino),
        "read_range" => Some(files.read_range(path, 1, 2).await?.1.ino),
        "metadata" => Some(files.metadata(path).await?.ino),
        "symlink_metadata" => Some(files.symlink_metadata(path).await?.ino),
        "canonicalize" => Some(std::fs::symlink_metadata(files.canonicalize(path).await?).unwrap().ino()),
        "read_link" => {
            files.read_link(path).await?;
            None
        }
        "write" => files.write(path, b"written").await.map(|_| None)?,
        "create_new" => files.create_new(path, b"created", 0o640).await.map(|()| None)?,
        "truncate" => files.truncate(path, 1).await.map(|()| None)?,
        "set_mode" => files.set_mode(path, 0o711).await.map(|_| None)?,
        "make_dir" => files.make_dir(path).await.map(|()| None)?,
        "make_dirs" => files.make_dirs(path).await.map(|_| None)?,
        "replace" => files.replace(path, b"replaced", None, false).await.map(|_| None)?,
        "replace_parents" => files.replace(path, b"replaced", None, true).await.map(|_| None)?,
        "remove" => files.remove(path).await.map(|()| None)?,
        "remove_dir_all" => files.remove_dir_all(path).await.map(|()| None)?,
        "rename" => files.rename(path, other).await.map(|()| None)?,
        "copy" => files.copy(path, other).await.map(|_| None)?,
        "symlink" => files.symlink(other, path).await.map(|()| None)?,
        other => panic!("{other}"),
    })
}

async fn lands(
    nodes: &[(String, Node)],
    operation: &str,
    path: &str,
    other: &str,
    by_hand: bool,
) -> (bool, bool) {
    let bench = Bench::new();
    std::fs::create_dir(bench.outside.join("beside")).unwrap();
    for (n, (place, node)) in nodes.iter().enumerate() {
        let at = bench.outside.join(place);
        // What does not fit, or would be made elsewhere by a link on the way, is left out; the tree is random anyway.
        if !bench.holds(&at) {
            continue;
        }
        let _ = match node {
            Node::Dir => std::fs::create_dir(&at),
            Node::File => std::fs::write(&at, format!("file {n}")),
            Node::Link(text) => symlink(text.replace("{out}", bench.outside.to_str().unwrap()), &at),
        };
    }
    let before = look(&bench.outside);
    // Granted is what was asked for, to the letter; asking changes nothing.
    let mut rules: Vec<String> = Vec::new();
    let result = loop {
        let texts: Vec<_> = rules.iter().map(String::as_str).collect();
        let files = bench.files_at(&bench.root, &texts, FsOptions::default()).await;
        let files = if by_hand { files.without_openat2() } else { files };
        match run(&files, operation, path, other).await {
            // Beyond the test's own directory nothing is granted.
            Err(FsError::Permission(PermissionError::Required(asked)))
                if rules.len() < 2
                    && is_inside(bench.outside.to_str().unwrap(), asked.capability.resource()) =>
            {
                assert_eq!(look(&bench.outside), before, "{operation} {path} {other}");
                rules.push(format!("allow {}", asked.capability));
            }
            result => break result,
        }
    };
    let resources: Vec<&str> = rules.iter().map(|rule| rule.splitn(3, ':').nth(2).unwrap()).collect();
    let after = look(&bench.outside);
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed: Vec<_> = paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
    let what =
        || format!("{operation} {path} {other}: granted {resources:?}, changed {changed:?}, {result:?}");
    for path in &changed {
        let own = resources.iter().enumerate().any(|(n, granted)| {
            let reads = rules[n].starts_with("allow fs:read:");
            match operation {
                _ if reads => false,
                // The second resource of a link is where it leads, and nothing is done there.
                "symlink" => n == 0 && path == granted,
                // What is in a directory goes with it.
                "remove_dir_all" | "rename" => is_inside(granted, path),
                // Missing parents are part of it.
                "make_dirs" | "replace_parents" => {
                    is_inside(path, granted) && (path == granted || !before.contains_key(*path))
                }
                _ => path == granted,
            }
        });
        assert!(own, "{}", what());
    }
    if let Ok(Some(ino)) = result {
        assert_eq!(Some(ino), before.get(resources[0]).map(|facts| facts.0), "{}", what());
    }
    // A failure leaves everything as it was, but for parents that were made.
    if result.is_err() && !["make_dirs", "replace_parents"].contains(&operation) {
        assert!(changed.is_empty(), "{}", what());
    }
    (result.is_ok(), !changed.is_empty())
}

/// Cases on every change.
const CASES: u32 = 160;

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read how much they are to do")]
fn an_operation_that_is_granted_a_resource_lands_there() {
    let full = std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full");
    let cases = if full { CASES * 20 } else { CASES };
    let strategy = (
        prop::collection::vec((place(), node()), 1..16),
        prop::sample::select(&OPERATIONS[..]),
        path(),
        path(),
        any::<bool>(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (done, changed) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest::test_runner::TestRunner::new(config)
        .run(&strategy, |(nodes, operation, path, other, by_hand)| {
            let landed = runtime.block_on(lands(&nodes, operation, &path, &other, by_hand));
            done.set(done.get() + u32::from(landed.0));
            changed.set(changed.get() + u32::from(landed.1));
            Ok(())
        })
        .unwrap();
    println!(
        "measured: landing: {cases} operations, {} of them done, {} with a change",
        done.get(),
        changed.get()
    );
    assert!(
        done.get() > cases / 10 && changed.get() > cases / 20,
        "the trees are not what operations work on"
    );
}
