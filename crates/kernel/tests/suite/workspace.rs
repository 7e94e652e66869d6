use std::os::unix::fs::symlink;
use std::sync::Arc;

use flowcell_kernel::{Authority, FileSystem, FsError, FsOptions, SeededEntropy, Workspace};

use crate::support::Bench;

#[test]
fn a_root_is_an_absolute_directory() {
    let bench = Bench::new();
    bench.put("file", "f");
    let text = bench.root.to_str().unwrap();
    let workspace = Workspace::open(format!("{text}//./sub/../")).unwrap();
    assert_eq!((workspace.logical(), workspace.canonical()), (text, bench.root.as_path()));
    for bad in ["", "relative", "./x", "/a\0b"] {
        assert!(matches!(Workspace::open(bad), Err(FsError::InvalidPath(_))), "{bad:?}");
    }
    assert_eq!(Workspace::open(format!("{text}/none")), Err(FsError::NotFound));
    assert_eq!(Workspace::open(format!("{text}/file")), Err(FsError::NotADirectory));
    symlink("loop", bench.root.join("loop")).unwrap();
    assert_eq!(Workspace::open(format!("{text}/loop")), Err(FsError::TooManyLinks));
    symlink(&bench.root, bench.outside.join("logical")).unwrap();
    let workspace = Workspace::open(bench.outside.join("logical")).unwrap();
    assert_eq!(workspace.logical(), bench.outside.join("logical").to_str().unwrap());
    assert_eq!(workspace.canonical(), bench.root);
    assert_eq!(Workspace::open("/").unwrap().canonical().to_str(), Some("/"));
}

#[tokio::test]
async fn a_root_that_became_a_link_is_not_pinned() {
    let bench = Bench::new();
    let workspace = Workspace::open(&bench.root).unwrap();
    let store = bench.store(&[]).await;
    std::fs::rename(&bench.root, bench.outside.join("moved")).unwrap();
    let open = || {
        let entropy = Arc::new(SeededEntropy::new(1));
        FileSystem::new(Authority::root(store.clone()), workspace.clone(), FsOptions::default(), entropy)
    };
    assert_eq!(open().unwrap_err(), FsError::NotFound);
    symlink("moved", &bench.root).unwrap();
    assert_eq!(open().unwrap_err(), FsError::TooManyLinks);
}

#[tokio::test]
async fn the_whole_tree_can_be_a_workspace() {
    let bench = Bench::new();
    bench.put("a", "a");
    let files = bench.files_at("/".as_ref(), &["allow fs:*:{ws}/**"], FsOptions::default()).await;
    let path = bench.text("a");
    for path in [path.as_str(), path.trim_start_matches('/')] {
        assert_eq!(files.read(path, 9).await.unwrap().0, b"a");
        files.replace(path, b"a", None, false).await.unwrap();
    }
    assert_eq!(files.absolute("etc"), "/etc");
}
