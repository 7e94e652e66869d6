use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use flowcell_kernel::{Dir, FsError, FsOptions, Kind, WalkRoot};

use crate::support::{ALL, Bench, reason};

fn dir(root: WalkRoot) -> Dir {
    match root {
        WalkRoot::Dir(dir) => dir,
        other => panic!("{other:?}"),
    }
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[tokio::test]
async fn a_walk_descends_by_descriptors() {
    let bench = Bench::new();
    bench.put("src/deep/a", "deep");
    bench.put("src/b", "b");
    symlink("../..", bench.root.join("src/up")).unwrap();
    symlink("b", bench.root.join("src/to-b")).unwrap();
    symlink("src", bench.root.join("link")).unwrap();
    for files in bench.both(ALL).await {
        // A link as root is resolved; a link below is listed, permitted by its own name, and never opened.
        let root = dir(files.walk_root("link").await.unwrap());
        let names = std::thread::scope(|scope| {
            let root = &root;
            let walker = scope.spawn(move || {
                let mut names: Vec<_> = root
                    .entries()
                    .unwrap()
                    .into_iter()
                    .map(|e| (e.name.into_string().unwrap(), e.kind))
                    .collect();
                names.sort();
                names
            });
            walker.join().unwrap()
        });
        let expected =
            [("b", Kind::File), ("deep", Kind::Dir), ("to-b", Kind::Symlink), ("up", Kind::Symlink)];
        assert_eq!(names, expected.map(|(name, kind)| (name.to_owned(), kind)));
        assert_eq!(root.resource(name("b")), bench.text("src/b"));
        assert!(root.permitted(name("up")) && root.permitted(name("b")));
        assert_eq!(root.open_dir(name("up")).unwrap_err(), FsError::NotADirectory);
        assert_eq!(root.open_dir(name("b")).unwrap_err(), FsError::NotADirectory);
        assert_eq!(root.open_dir(name("none")).unwrap_err(), FsError::NotFound);
        assert_eq!(root.open_file(name("to-b")).unwrap_err(), FsError::NotRegular);
        assert_eq!(root.open_file(name("deep")).unwrap_err(), FsError::IsADirectory);
        let deep = root.open_dir(name("deep")).unwrap();
        assert_eq!(deep.resource(name("a")), bench.text("src/deep/a"));
        assert_eq!(deep.open_file(name("a")).unwrap().read_to(9).unwrap(), b"deep");
        for bad in ["", ".", "..", "a/b", "/"] {
            assert!(matches!(root.open_dir(name(bad)), Err(FsError::InvalidPath(_))), "{bad}");
            assert!(!root.permitted(name(bad)));
        }
        let WalkRoot::File(file) = files.walk_root("src/to-b").await.unwrap() else { panic!() };
        assert_eq!(file.read_to(9).unwrap(), b"b");
        assert_eq!(files.walk_root("none").await.unwrap_err(), FsError::NotFound);
    }
}

#[tokio::test]
async fn a_walk_sees_what_is_permitted() {
    let bench = Bench::new();
    bench.put("k/secret", "k");
    bench.put("a", "a");
    let raw = OsString::from_vec(b"\xfe".to_vec());
    std::fs::write(bench.root.join(&raw), "").unwrap();
    let rules = ["allow fs:read:{ws}", "allow fs:read:{ws}/a", "deny fs:read:{ws}/k"];
    let files = bench.files(&rules).await;
    let root = dir(files.walk_root(".").await.unwrap());
    assert!(root.permitted(name("a")));
    // Denied, not granted, and not nameable: none is permitted, and nobody was asked.
    assert!(!root.permitted(name("k")) && !root.permitted(name("other")) && !root.permitted(&raw));
    assert_eq!(reason(root.open_file(&raw)), "path is not UTF-8");
    assert!(files.authority().store().list().is_empty());
}

#[tokio::test]
async fn a_walk_from_outside_expresses_the_workspace_logically() {
    let bench = Bench::new();
    bench.put("a", "a");
    let logical = bench.outside.join("logical");
    symlink(&bench.root, &logical).unwrap();
    let rules = ["allow fs:read:{out}", "allow fs:read:{out}/logical/**"];
    let files = bench.files_at(&logical, &rules, FsOptions::default()).await;
    let outside = dir(files.walk_root("..").await.unwrap());
    assert_eq!(outside.resource(name("ws")), logical.to_str().unwrap());
    let root = outside.open_dir(name("ws")).unwrap();
    assert!(root.permitted(name("a")));
    assert_eq!(root.open_file(name("a")).unwrap().resource(), logical.join("a").to_str().unwrap());
}

#[tokio::test]
async fn pseudo_file_systems_are_no_part_of_a_walk() {
    let bench = Bench::new();
    let files = bench.files(&["allow fs:read:**"]).await;
    let root = dir(files.walk_root("/").await.unwrap());
    for pseudo in ["proc", "sys", "dev"] {
        assert!(!root.permitted(name(pseudo)));
        assert_eq!(reason(root.open_dir(name(pseudo))), "path is in a pseudo file system");
    }
    assert!(root.permitted(name("etc")));
}

#[tokio::test]
async fn a_directory_that_moved_is_not_listed() {
    let bench = Bench::new();
    bench.put("d/a", "a");
    for files in bench.both(ALL).await {
        let root = dir(files.walk_root(".").await.unwrap());
        let d = root.open_dir(name("d")).unwrap();
        let file = d.open_file(name("a")).unwrap();
        std::fs::rename(bench.root.join("d"), bench.outside.join("d")).unwrap();
        assert_eq!(reason(d.entries()), "open file no longer matches its path");
        assert_eq!(reason(file.read_to(9)), "open file no longer matches its path");
        std::fs::rename(bench.outside.join("d"), bench.root.join("d")).unwrap();
    }
}

#[tokio::test]
async fn a_device_or_fifo_is_another_root() {
    let bench = Bench::new();
    crate::reading::fifo(&bench.root.join("pipe"));
    let files = bench.files(ALL).await;
    assert!(matches!(files.walk_root("pipe").await, Ok(WalkRoot::Other)));
    let root = dir(files.walk_root(".").await.unwrap());
    assert_eq!(root.open_file(name("pipe")).unwrap_err(), FsError::NotRegular);
}
