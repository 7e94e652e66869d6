//! Random trees of directories, files and links, against the host's own resolution.

use std::os::unix::fs::symlink;

use flowcell_kernel::FsError;
use flowcell_kernel::fs::is_inside;
use proptest::prelude::*;

use crate::support::{ALL, Bench};

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File,
    Link(String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4).prop_map(|parts| parts.join("/"))
}

fn node() -> impl Strategy<Value = Node> {
    let target = prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "..", "."]), 1..5);
    prop_oneof![
        2 => Just(Node::Dir),
        1 => Just(Node::File),
        3 => (target, any::<bool>()).prop_map(|(parts, absolute)| {
            let text = parts.join("/");
            Node::Link(if absolute { format!("{{ws}}/{text}") } else { text })
        }),
    ]
}

fn grow(bench: &Bench, nodes: &[(String, Node)]) {
    for (path, node) in nodes {
        let at = bench.root.join(path);
        // What does not fit, or would be made elsewhere by a link on the way, is left out; the tree is random anyway.
        if !bench.holds(&at) {
            continue;
        }
        let _ = match node {
            Node::Dir => std::fs::create_dir(&at),
            Node::File => std::fs::write(&at, "x"),
            Node::Link(text) => symlink(text.replace("{ws}", bench.root.to_str().unwrap()), &at),
        };
    }
}

async fn compare(nodes: Vec<(String, Node)>, paths: Vec<String>) {
    let bench = Bench::new();
    grow(&bench, &nodes);
    for files in bench.both(ALL).await {
        for path in &paths {
            let host =
                std::fs::canonicalize(bench.root.join(path)).map(|path| path.to_str().unwrap().to_owned());
            let ours = files.canonicalize(path).await;
            match (host, ours) {
                (Ok(host), Ok(ours)) => assert_eq!(host, ours, "{path}"),
                // Outside nothing is granted; inside everything is.
                (Ok(host), Err(FsError::Permission(_))) => {
                    assert!(!is_inside(bench.root.to_str().unwrap(), &host), "{path}: {host}");
                }
                (Ok(host), Err(error)) => panic!("{path} is {host}: {error}"),
                (Err(error), Ok(ours)) => panic!("{path} is not {ours}: {error}"),
                (Err(_), Err(_)) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn paths_lead_where_the_host_says(
        nodes in prop::collection::vec((path(), node()), 1..16),
        paths in prop::collection::vec(path(), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(nodes, paths));
    }
}
