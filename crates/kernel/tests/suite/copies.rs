//! A copy in the place of the workspace root (host contract 8): the same names, other bytes.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flowcell_kernel::{Dir, FileSystem, FsError, FsOptions, Kind, WalkRoot};

use crate::support::{Bench, reason, required};

#[tokio::test]
async fn a_copy_answers_to_the_names_of_the_workspace() {
    let bench = Bench::new();
    let root = bench.root.to_str().unwrap();
    bench.put("a", "live");
    bench.put("sub/b", "live b");
    let outside = bench.root.parent().unwrap().join("outside");
    std::fs::write(&outside, "outside").unwrap();
    // The copy lies in the workspace's own data folder.
    bench.put(".flowcell/copies/1/a", "old");
    bench.put(".flowcell/copies/1/sub/b", "old b");
    bench.put(".flowcell/copies/secret", "secret");
    let copy = bench.root.join(".flowcell/copies/1");
    symlink(format!("{root}/a"), copy.join("absolute")).unwrap();
    symlink("../a", copy.join("sub/up")).unwrap();
    symlink(format!("{root}/sub"), copy.join("to-sub")).unwrap();
    symlink("../outside", copy.join("out")).unwrap();
    symlink("../secret", copy.join("escape")).unwrap();
    for files in bench.both(&["allow fs:*:/**", &format!("ask fs:read:{root}/sub/**")]).await {
        let view = files.over(&copy).unwrap();
        for path in ["a", "./sub/../a", &format!("{root}/a"), "absolute", "sub/../absolute"] {
            assert_eq!(view.read(path, 100).await.unwrap().0, b"old", "{path}");
        }
        assert_eq!(files.read("a", 100).await.unwrap().0, b"live");
        // Grants name the workspace's paths, whatever stands for them.
        assert_eq!(required(view.read("sub/b", 100).await), format!("fs:read:{root}/sub/b"));
        assert_eq!(view.canonicalize("absolute").await.unwrap(), format!("{root}/a"));
        assert_eq!(view.canonicalize("sub/up").await.unwrap(), format!("{root}/a"));
        // A link of a listing is followed inside the copy, which lies below the workspace.
        for (link, kind) in [("absolute", Kind::File), ("to-sub", Kind::Dir)] {
            assert_eq!(view.stat_entry_following(".", link.as_ref()).await.unwrap(), kind, "{link}");
        }
        // Above the copy is what is above the workspace.
        assert_eq!(view.read("out", 100).await.unwrap().0, b"outside");
        assert!(view.read("escape", 100).await.is_err());
        // What the copy does not hold is not there: nothing of the live tree shows through.
        bench.put("new", "live only");
        assert!(view.read("new", 100).await.is_err());
        assert!(view.read(".flowcell/copies/secret", 100).await.is_err());
        view.replace("written", b"w", None, true).await.unwrap();
        assert!(copy.join("written").exists() && !bench.root.join("written").exists());
        std::fs::remove_file(copy.join("written")).unwrap();
        // A view of a view is over the same workspace.
        assert_eq!(view.over(&copy).unwrap().read("a", 100).await.unwrap().0, b"old");
        assert!(files.over(copy.join("a")).is_err());
    }
}

/// A workspace `ws` of some files, each way to it, and a copy elsewhere.
struct Copies {
    bench: Bench,
    copy: PathBuf,
}

impl Copies {
    fn new() -> Self {
        let bench = Bench::new();
        bench.put("a", "live");
        bench.put("d/b", "live");
        let copy = bench.outside.join("copies/1");
        std::fs::create_dir_all(copy.join("d")).unwrap();
        std::fs::write(copy.join("a"), "old").unwrap();
        std::fs::write(copy.join("d/b"), "old").unwrap();
        std::fs::write(bench.outside.join("copies/secret"), "secret").unwrap();
        Copies { bench, copy }
    }

    /// Views over the copy, whose workspace goes by the path of `logical`, in both ways of walking.
    async fn views(&self, logical: &Path, rules: &[&str]) -> [FileSystem; 2] {
        let fast = self.bench.files_at(logical, rules, FsOptions::default()).await;
        let slow = self.bench.files_at(logical, rules, FsOptions::default()).await.without_openat2();
        [fast.over(&self.copy).unwrap(), slow.over(&self.copy).unwrap()]
    }
}

fn directory(root: WalkRoot) -> Dir {
    match root {
        WalkRoot::Dir(dir) => dir,
        other => panic!("{other:?}"),
    }
}

/// Everything that holds the workspace, or leads to it, stays where it is in a view too.
#[tokio::test]
async fn a_copy_moves_and_removes_no_workspace() {
    let copies = Copies::new();
    let out = &copies.bench.outside;
    symlink("ws", out.join("link")).unwrap();
    let says = "the workspace root stays where it is";
    for logical in ["ws", "link"] {
        for view in copies.views(&out.join(logical), &["allow fs:*:/**"]).await {
            let held = [".", "..", "/", "ws", "link", "copies", "copies/1"];
            for path in held.iter().filter(|path| logical == "link" || **path != "link") {
                let path = if path.starts_with(['.', '/']) {
                    (*path).to_owned()
                } else {
                    out.join(path).display().to_string()
                };
                assert_eq!(reason(view.remove(&path).await), says, "{path}");
                assert_eq!(reason(view.remove_dir_all(&path).await), says, "{path}");
                assert_eq!(reason(view.rename(&path, "b").await), says, "{path}");
                assert_eq!(reason(view.rename("a", &path).await), says, "{path}");
            }
        }
    }
    assert_eq!(copies.bench.get("a"), "live");
    assert_eq!(std::fs::read_to_string(copies.copy.join("a")).unwrap(), "old");
}

/// A walk from above the workspace, or past the link that it goes by, comes to the copy.
#[tokio::test]
async fn a_walk_over_a_copy_meets_nothing_of_the_workspace() {
    let copies = Copies::new();
    let out = &copies.bench.outside;
    copies.bench.put("new", "live only");
    symlink("ws", out.join("link")).unwrap();
    for logical in ["ws", "link"] {
        for view in copies.views(&out.join(logical), &["allow fs:*:/**"]).await {
            let own = |path: &str| format!("{}/{logical}/{path}", out.display());
            let above = directory(view.walk_root("..").await.unwrap());
            let ws = above.open_dir(OsStr::new("ws")).unwrap();
            assert_eq!(above.resource(OsStr::new("ws")), out.join(logical).to_str().unwrap());
            let mut names: Vec<_> = ws.entries().unwrap().into_iter().map(|entry| entry.name).collect();
            names.sort();
            assert_eq!(names, ["a", "d"]);
            assert!(ws.permitted(OsStr::new("a")));
            let file = ws.open_file(OsStr::new("a")).unwrap();
            assert_eq!((file.resource(), file.read_to(9).unwrap()), (own("a").as_str(), b"old".to_vec()));
            let d = ws.open_dir(OsStr::new("d")).unwrap();
            assert_eq!(d.resource(OsStr::new("b")), own("d/b"));
            assert_eq!(d.open_file(OsStr::new("b")).unwrap().read_to(9).unwrap(), b"old");
            // By the copy's own place it goes by the workspace's names as well.
            let copy = directory(view.walk_root(out.join("copies").to_str().unwrap()).await.unwrap());
            let copy = copy.open_dir(OsStr::new("1")).unwrap();
            assert_eq!(copy.open_file(OsStr::new("a")).unwrap().resource(), own("a"));
            assert_eq!(view.stat_entry_following("..", OsStr::new("ws")).await, Ok(Kind::Dir));
        }
    }
}

#[tokio::test]
async fn links_of_a_copy_lead_to_the_copy_or_are_asked_for() {
    let copies = Copies::new();
    let (out, copy) = (&copies.bench.outside, &copies.copy);
    symlink("ws", out.join("link")).unwrap();
    std::fs::write(out.join("beside"), "beside").unwrap();
    for (text, at) in [
        (out.join("ws/a"), "by-own"),
        (out.join("link/a"), "by-link"),
        (copy.join("a"), "by-copy"),
        ("../ws/a".into(), "around"),
        ("../link/d/../a".into(), "around-link"),
        ("d/../../beside".into(), "beside"),
        ("../secret".into(), "escape"),
        (copy.join("../secret"), "escape-own"),
        (out.join("copies/secret"), "secret"),
        (format!("/proc/self/root{}", out.join("ws/a").display()).into(), "magic"),
        (out.join("ws/made"), "dangling"),
    ] {
        symlink(text, copy.join(at)).unwrap();
    }
    for logical in ["ws", "link"] {
        let rules = ["allow fs:*:{out}/ws", "allow fs:*:{out}/ws/**", "allow fs:*:{out}/link/**"];
        for view in copies.views(&out.join(logical), &rules).await {
            for path in ["by-own", "by-link", "by-copy", "around", "around-link"] {
                assert_eq!(view.read(path, 9).await.unwrap().0, b"old", "{logical} {path}");
                let own = format!("{}/{logical}/a", out.display());
                assert_eq!(view.canonicalize(path).await.unwrap(), own, "{path}");
            }
            let asks = |path: &str| format!("fs:read:{}/{path}", out.display());
            assert_eq!(required(view.read("beside", 9).await), asks("beside"));
            // Above the copy is what is above the workspace, so that its neighbours are not there.
            assert_eq!(required(view.read("escape", 9).await), asks("secret"));
            assert_eq!(required(view.read("escape-own", 9).await), asks("secret"));
            assert_eq!(required(view.read("secret", 9).await), asks("copies/secret"));
            assert_eq!(reason_or_bytes(view.read("magic", 9).await), "old");
            view.write("dangling", b"made").await.unwrap();
            assert!(copy.join("made").exists() && !copies.bench.root.join("made").exists());
            view.remove("made").await.unwrap();
            // A link is made where it is asked for, and asks for where it would lead.
            assert_eq!(
                required(view.symlink("../beside", "l").await),
                asks("beside").replace("read", "write")
            );
            view.symlink("../ws/a", "l").await.unwrap();
            assert!(copy.join("l").is_symlink() && !copies.bench.root.join("l").is_symlink());
            view.remove("l").await.unwrap();
            // What is renamed, copied or removed is the copy's; out of it, it takes a grant by the other name.
            assert_eq!(
                required(view.rename("a", out.join("z").to_str().unwrap()).await),
                asks("z").replace("read", "write")
            );
            view.copy("a", "c").await.unwrap();
            view.rename("c", out.join("ws/e").to_str().unwrap()).await.unwrap();
            assert!(copy.join("e").exists() && !copies.bench.root.join("e").exists());
            view.remove_dir_all("e").await.unwrap();
        }
    }
    assert_eq!(copies.bench.get("a"), "live");
    assert_eq!(std::fs::read_dir(&copies.bench.root).unwrap().count(), 2);
}

fn reason_or_bytes(result: Result<(Vec<u8>, flowcell_kernel::Stat), FsError>) -> String {
    match result {
        Ok((bytes, _)) => String::from_utf8(bytes).unwrap(),
        error => reason(error),
    }
}

#[tokio::test]
async fn a_copy_that_is_replaced_serves_nothing() {
    let copies = Copies::new();
    let out = &copies.bench.outside;
    for view in copies.views(&copies.bench.root, &["allow fs:*:/**"]).await {
        let open = view.open("a").await.unwrap();
        std::fs::rename(&copies.copy, out.join("parked")).unwrap();
        // The workspace itself, by a link in its copy's place, and another directory there.
        symlink("../ws", &copies.copy).unwrap();
        assert!(view.read("a", 9).await.is_err());
        assert!(view.replace("a", b"x", None, false).await.is_err());
        assert!(open.read_to(9).is_err());
        std::fs::remove_file(&copies.copy).unwrap();
        std::fs::create_dir(&copies.copy).unwrap();
        std::fs::write(copies.copy.join("a"), "other").unwrap();
        let says = "the workspace root is not the directory that was opened";
        assert_eq!(reason(view.read("a", 9).await), says);
        assert_eq!(reason(view.write("a", b"x").await), says);
        assert_eq!(reason(view.walk_root(".").await), says);
        std::fs::remove_dir_all(&copies.copy).unwrap();
        std::fs::rename(out.join("parked"), &copies.copy).unwrap();
        assert_eq!(open.read_to(9).unwrap(), b"old");
        assert_eq!(view.read("a", 9).await.unwrap().0, b"old");
    }
    assert_eq!(copies.bench.get("a"), "live");
}

#[tokio::test]
async fn what_a_copy_may_be_and_what_it_takes_over() {
    let copies = Copies::new();
    let out = &copies.bench.outside;
    let options = FsOptions { system_temp: out.join("temp"), ..FsOptions::default() };
    std::fs::create_dir(out.join("temp")).unwrap();
    let files = copies.bench.files_with(&["allow fs:*:**"], options).await;
    // What holds the workspace would lend its names to what is beside it.
    for path in [out.as_path(), out.parent().unwrap(), Path::new("/")] {
        assert!(matches!(files.over(path), Err(FsError::InvalidPath(_))), "{path:?}");
    }
    for path in [out.join("none"), PathBuf::from("copies/1"), copies.copy.join("a")] {
        assert!(files.over(&path).is_err(), "{path:?}");
    }
    // A sibling that begins alike does not hold it, nor does the workspace itself or what is in it.
    std::fs::create_dir(out.join("w")).unwrap();
    assert!(files.over(out.join("w")).is_ok());
    assert_eq!(files.over(&copies.bench.root).unwrap().read("a", 9).await.unwrap().0, b"live");
    assert!(files.over(copies.bench.root.join("d")).unwrap().exists("b").await.unwrap());
    let view = files.over(&copies.copy).unwrap();
    assert_eq!(
        (view.workspace().logical(), view.workspace().live()),
        (copies.bench.root.to_str().unwrap(), Some(copies.bench.root.as_path()))
    );
    // Temporary files are the host's, beside both.
    let temp = view.temp_file(b"t").await.unwrap();
    assert!(temp.path().starts_with(out.join("temp").to_str().unwrap()));
    let strict = copies.bench.files(&[]).await.over(&copies.copy).unwrap();
    assert_eq!(required(strict.temp_dir().await), format!("fs:write:{}/<system-temp>", out.display()));
    // Pseudo file systems and NUL are refused as ever.
    assert_eq!(reason(view.read("/proc/self/environ", 9).await), "path is in a pseudo file system");
    assert_eq!(reason(view.read("a\0", 9).await), "path has a NUL");
}
