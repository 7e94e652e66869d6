use std::os::unix::fs::symlink;

use flowcell_kernel::{FsError, Kind};

use crate::support::{ALL, Bench, REFUSED, minds_mode_bits, reason, required};

#[tokio::test]
async fn entries_are_asked_for_as_they_are() {
    let bench = Bench::new();
    bench.put("real/a", "a");
    symlink("real", bench.root.join("link")).unwrap();
    symlink("../out", bench.root.join("out")).unwrap();
    for files in bench.both(&[]).await {
        for (path, resource) in [("link", "link"), ("link/a", "real/a"), ("out", "out"), ("none", "none")] {
            let resource = format!("fs:write:{}", bench.text(resource));
            assert_eq!(required(files.remove(path).await), resource);
            assert_eq!(required(files.remove_dir_all(path).await), resource);
            assert_eq!(required(files.rename(path, "z").await), resource);
        }
        assert_eq!(required(files.symlink("x", "l").await), format!("fs:write:{}", bench.text("l")));
    }
    // The second is asked for before the first is acted on.
    let files = bench.files(&["allow fs:write:{ws}/link"]).await;
    assert_eq!(required(files.rename("link", "z").await), format!("fs:write:{}", bench.text("z")));
    assert!(bench.root.join("link").exists());
}

#[tokio::test]
async fn removing_acts_on_links_themselves() {
    let bench = Bench::new();
    let keep = bench.outside.join("keep");
    for files in bench.both(ALL).await {
        std::fs::create_dir_all(&keep).unwrap();
        std::fs::write(keep.join("precious"), "p").unwrap();
        bench.put("d/sub/deep/a", "a");
        bench.put("d/b", "b");
        symlink(&keep, bench.root.join("d/out")).unwrap();
        symlink(&keep, bench.root.join("d/sub/out")).unwrap();
        symlink(&keep, bench.root.join("link")).unwrap();
        assert!(matches!(files.remove("d").await, Err(FsError::Io { .. })));
        files.remove("link").await.unwrap();
        symlink(&keep, bench.root.join("link")).unwrap();
        files.remove_dir_all("link").await.unwrap();
        files.remove_dir_all("d").await.unwrap();
        assert!(!bench.root.join("d").exists() && !bench.root.join("link").exists());
        assert_eq!(std::fs::read_to_string(keep.join("precious")).unwrap(), "p");
        bench.put("f", "f");
        std::fs::create_dir(bench.root.join("empty")).unwrap();
        files.remove("f").await.unwrap();
        files.remove("empty").await.unwrap();
        bench.put("f", "f");
        files.remove_dir_all("f").await.unwrap();
        for path in ["f", "empty", "f/x"] {
            assert_eq!(files.remove(path).await, Err(FsError::NotFound), "{path}");
            assert_eq!(files.remove_dir_all(path).await, Err(FsError::NotFound), "{path}");
        }
    }
}

#[tokio::test]
async fn the_root_is_not_removed() {
    let bench = Bench::new();
    bench.put("a", "a");
    symlink(".", bench.root.join("self")).unwrap();
    for files in bench.both(&["allow fs:*:**"]).await {
        for path in [".", "..", "/", "self/."] {
            let says = "the workspace root stays where it is";
            if path != "self/." {
                assert_eq!(reason(files.remove(path).await), says, "{path}");
                assert_eq!(reason(files.remove_dir_all(path).await), says, "{path}");
                assert_eq!(reason(files.rename(path, "b").await), says, "{path}");
                assert_eq!(reason(files.rename("a", path).await), says, "{path}");
            }
        }
        assert_eq!(bench.get("a"), "a");
    }
}

#[tokio::test]
async fn a_deep_tree_is_removed() {
    let bench = Bench::new();
    let files = bench.files(ALL).await;
    let mut dir = rustix::fs::open(&bench.root, rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    // Deeper than a path can name, and than descriptors would last.
    for _ in 0..900 {
        rustix::fs::mkdirat(&dir, "deep", 0o700.into()).unwrap();
        rustix::fs::mkdirat(&dir, "side", 0o700.into()).unwrap();
        dir = rustix::fs::openat(&dir, "deep", rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    }
    files.remove_dir_all("deep").await.unwrap();
    files.remove("side").await.unwrap();
    assert_eq!(std::fs::read_dir(&bench.root).unwrap().count(), 0);
}

#[tokio::test]
async fn renaming_never_follows() {
    let bench = Bench::new();
    std::fs::write(bench.outside.join("out"), "o").unwrap();
    for files in bench.both(ALL).await {
        bench.put("a", "a");
        symlink("../out", bench.root.join("l")).unwrap();
        files.rename("a", "l").await.unwrap();
        assert_eq!(bench.get("l"), "a");
        assert!(!bench.root.join("l").is_symlink());
        assert_eq!(std::fs::read_to_string(bench.outside.join("out")).unwrap(), "o");
        symlink("../out", bench.root.join("m")).unwrap();
        files.rename("m", "n").await.unwrap();
        assert!(bench.root.join("n").is_symlink());
        assert_eq!(files.rename("none", "x").await, Err(FsError::NotFound));
        assert_eq!(files.rename("l", "none/x").await, Err(FsError::NotFound));
        files.remove("l").await.unwrap();
        files.remove("n").await.unwrap();
    }
}

#[tokio::test]
async fn a_link_needs_its_target_granted() {
    let bench = Bench::new();
    bench.put("d/a", "a");
    symlink("/etc", bench.root.join("etc")).unwrap();
    for files in bench.both(ALL).await {
        for (text, target) in [
            ("../../out", format!("{}/out", bench.outside.display())),
            ("/etc/hosts", "/etc/hosts".to_owned()),
            ("../etc/hosts", "/etc/hosts".to_owned()),
        ] {
            assert_eq!(required(files.symlink(text, "d/l").await), format!("fs:write:{target}"), "{text}");
            assert!(!bench.root.join("d/l").is_symlink());
        }
        assert_eq!(reason(files.symlink("/proc/self/mem", "d/l").await), "path is in a pseudo file system");
        assert!(matches!(files.symlink("", "d/l").await, Err(FsError::InvalidPath(_))));
        assert_eq!(reason(files.symlink("a\0", "d/l").await), "path has a NUL");
        files.symlink("a", "d/l").await.unwrap();
        assert_eq!(bench.get("d/l"), "a");
        assert_eq!(files.symlink("a", "d/l").await, Err(FsError::Exists));
        files.remove("d/l").await.unwrap();
        files.symlink("../d/new", "d/l").await.unwrap();
        assert_eq!(std::fs::read_link(bench.root.join("d/l")).unwrap().to_str(), Some("../d/new"));
        files.remove("d/l").await.unwrap();
    }
    // A relative text is read from where the link is, even in the root of the tree.
    let files = bench.files(&["allow fs:write:/flowcell-no-such-link"]).await;
    assert_eq!(required(files.symlink("etc/x", "/flowcell-no-such-link").await), "fs:write:/etc/x");
}

#[tokio::test]
async fn what_a_rule_denies_does_not_go_with_its_directory() {
    let bench = Bench::new();
    let rules = [
        ALL[0],
        ALL[1],
        "deny fs:write:{ws}/d/keep/**",
        "deny fs:read:**/secret",
        "deny fs:write:{ws}/locked/**",
        "deny fs:write:{ws}/open/**",
        "allow fs:write:{ws}/open/**",
    ];
    for files in bench.both(&rules).await {
        bench.put("d/keep/a", "kept");
        bench.put("d/b", "b");
        bench.put("e/f/secret", "secret");
        bench.put("secret", "secret");
        bench.put("open/a", "a");
        let by_policy = "denied by policy";
        assert_eq!(reason(files.remove_dir_all("d").await), by_policy);
        assert_eq!(reason(files.rename("d", "moved").await), by_policy);
        assert_eq!((bench.get("d/keep/a").as_str(), bench.get("d/b").as_str()), ("kept", "b"));
        // Another name would get around what is not to be read; removing it is another matter.
        assert_eq!(reason(files.rename("secret", "plain").await), by_policy);
        assert_eq!(reason(files.rename("e", "moved").await), by_policy);
        files.remove_dir_all("e").await.unwrap();
        files.remove("secret").await.unwrap();
        // Nor does anything come to be where it could not be written.
        bench.put("new/g/h", "h");
        assert_eq!(reason(files.rename("new", "locked").await), by_policy);
        files.rename("new", "elsewhere").await.unwrap();
        assert_eq!(bench.get("elsewhere/g/h"), "h");
        files.remove_dir_all("elsewhere").await.unwrap();
        // A deny that a later rule takes back denies nothing.
        files.rename("open", "o").await.unwrap();
        files.remove_dir_all("o").await.unwrap();
    }
}

#[tokio::test]
async fn directories_that_may_not_be_read_or_passed() {
    if !minds_mode_bits("entries::directories_that_may_not_be_read_or_passed") {
        return;
    }
    let bench = Bench::new();
    let chmod = |path: &str, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(bench.root.join(path), mode).unwrap();
    };
    for files in bench.both(ALL).await {
        bench.put("pass/d/a", "a");
        bench.put("closed/d/a", "a");
        symlink("closed/d/a", bench.root.join("into")).unwrap();
        // To be passed through is enough, and that is not to be listed.
        chmod("pass", 0o311);
        assert_eq!(files.read("pass/d/a", 9).await.unwrap().0, b"a");
        assert_eq!(files.canonicalize("PASS/d/a").await, Err(FsError::NotFound));
        files.replace("pass/d/a", b"b", None, false).await.unwrap();
        files.replace("pass/new", b"b", None, false).await.unwrap();
        assert_eq!(files.read_dir("pass").await, Err(REFUSED));
        assert!(matches!(files.walk_root("pass").await, Err(REFUSED)));
        assert_eq!(files.remove_dir_all("pass").await, Err(REFUSED));
        chmod("pass", 0o755);
        // Not to be passed through: that nothing is there is not known.
        chmod("closed", 0o600);
        for path in ["closed/d/a", "into", "closed/none"] {
            assert_eq!(files.read(path, 9).await, Err(REFUSED), "{path}");
            assert_eq!(files.exists(path).await, Err(REFUSED), "{path}");
            assert_eq!(files.replace(path, b"", None, true).await, Err(REFUSED), "{path}");
            assert_eq!(files.make_dirs(path).await, Err(REFUSED), "{path}");
            assert!(!files.permitted(path), "{path}");
        }
        assert_eq!(files.symlink_metadata("into").await.unwrap().kind, Kind::Symlink);
        files.remove("into").await.unwrap();
        chmod("closed", 0o755);
        files.remove_dir_all("closed").await.unwrap();
        files.remove_dir_all("pass").await.unwrap();
    }
}
