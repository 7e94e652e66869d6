//! Ways around a path rule that were reported of agents and their tools, each with its safe outcome.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, symlink};

use flowcell_kernel::{FileSystem, FsError, FsOptions, WalkRoot};

use crate::support::{ALL, Bench, leftovers, reason, required};

const PSEUDO: &str = "path is in a pseudo file system";

/// Each operation that writes a path, as what it asks for.
async fn written(files: &FileSystem, path: &str) -> [String; 8] {
    [
        required(files.write(path, b"x").await),
        required(files.create_new(path, b"x", 0o600).await),
        required(files.truncate(path, 0).await),
        required(files.set_mode(path, 0o777).await),
        required(files.make_dir(path).await),
        required(files.make_dirs(path).await),
        required(files.replace(path, b"x", None, false).await),
        required(files.replace(path, b"x", None, true).await),
    ]
}

/// A link to nothing: what is written through it would be made where it points.
#[tokio::test]
async fn a_dangling_link_is_where_it_lands() {
    let bench = Bench::new();
    let outside = bench.outside.join("rc");
    symlink(&outside, bench.root.join("notes")).unwrap();
    symlink("notes", bench.root.join("again")).unwrap();
    symlink("../deep/rc", bench.root.join("deep")).unwrap();
    symlink("fresh", bench.root.join("inside")).unwrap();
    for files in bench.both(ALL).await {
        for (path, lands) in [("notes", "rc"), ("again", "rc"), ("deep", "deep/rc"), ("deep/x", "deep/rc/x")]
        {
            let asks = format!("fs:write:{}/{lands}", bench.outside.display());
            for asked in written(&files, path).await {
                assert_eq!(asked, asks, "{path}");
            }
            assert_eq!(
                required(files.copy("again", path).await),
                asks.replace("write", "read").replace(lands, "rc")
            );
        }
        assert!(!outside.exists() && !bench.outside.join("deep").exists());
        // Inside it lands inside; the link stays.
        assert!(files.write("inside", b"x").await.unwrap().created);
        assert_eq!((bench.get("fresh").as_str(), bench.root.join("inside").is_symlink()), ("x", true));
        files.remove("fresh").await.unwrap();
        assert!(files.replace("inside", b"y", None, true).await.unwrap().created);
        assert_eq!(bench.get("fresh"), "y");
        files.remove("fresh").await.unwrap();
        // Removing acts on the link; what it names was never there.
        files.symlink("none", "gone").await.unwrap();
        files.remove("gone").await.unwrap();
    }
    // A grant for the landing place is what it takes.
    let files = bench.files(&["allow fs:write:{out}/rc"]).await;
    files.write("again", b"granted").await.unwrap();
    assert_eq!(std::fs::read(&outside).unwrap(), b"granted");
}

#[tokio::test]
async fn a_sibling_that_begins_alike_is_no_part_of_the_workspace() {
    let bench = Bench::new();
    for name in ["ws2", "ws-backup", "ws.old", "WS"] {
        std::fs::create_dir(bench.outside.join(name)).unwrap();
        std::fs::write(bench.outside.join(name).join("a"), "outside").unwrap();
        symlink(format!("../{name}"), bench.root.join(format!("to-{name}"))).unwrap();
    }
    for files in bench.both(ALL).await {
        for name in ["ws2", "ws-backup", "ws.old", "WS"] {
            let out = bench.outside.join(name).join("a");
            for path in [
                out.to_str().unwrap(),
                &format!("../{name}/a"),
                &format!("to-{name}/a"),
                &format!("x/../../{name}/a"),
            ] {
                assert_eq!(
                    required(files.read(path, 9).await),
                    format!("fs:read:{}", out.display()),
                    "{path}"
                );
                for asked in written(&files, path).await {
                    assert_eq!(asked, format!("fs:write:{}", out.display()), "{path}");
                }
                assert!(!files.permitted(path));
            }
        }
    }
}

/// `..` after a link: what the host would do and what the text says differ. The text is what counts, in what is asked for
/// and in what is done alike.
#[tokio::test]
async fn dots_after_a_link() {
    let bench = Bench::new();
    bench.put("d/deep/x", "x");
    bench.put("secret", "inside");
    std::fs::create_dir_all(bench.outside.join("far/away")).unwrap();
    std::fs::write(bench.outside.join("far/secret"), "outside").unwrap();
    symlink("../far/away", bench.root.join("link")).unwrap();
    symlink("link/../secret", bench.root.join("through")).unwrap();
    symlink("..", bench.root.join("up")).unwrap();
    symlink(bench.root.join("d/.."), bench.root.join("home")).unwrap();
    for files in bench.both(ALL).await {
        for path in ["link/../secret", "link/./../secret", "link//..//secret", "d/deep/../../secret"] {
            assert_eq!(files.read(path, 9).await.unwrap().0, b"inside", "{path}");
        }
        files.replace("link/../secret", b"inside", None, true).await.unwrap();
        // In the text of a link `..` is the host's.
        let far = format!("{}/far/secret", bench.outside.display());
        assert_eq!(required(files.read("through", 9).await), format!("fs:read:{far}"));
        assert_eq!(required(files.replace("through", b"", None, true).await), format!("fs:write:{far}"));
        // Out by the parent, and back in.
        assert_eq!(required(files.read("up/far/secret", 9).await), format!("fs:read:{far}"));
        assert_eq!(files.read("up/ws/up/ws/secret", 9).await.unwrap().0, b"inside");
        assert_eq!(files.canonicalize("home/home/secret").await.unwrap(), bench.text("secret"));
        assert_eq!(required(files.read_dir("up").await), format!("fs:read:{}", bench.outside.display()));
        assert_eq!(reason(files.remove_dir_all("up/ws").await), "the workspace root stays where it is");
        // Above everything there is nothing more.
        assert_eq!(
            required(files.read(&format!("{}etc/passwd", "../".repeat(99)), 9).await),
            "fs:read:/etc/passwd"
        );
    }
}

#[tokio::test]
async fn absolute_links_out_of_the_workspace_and_into_it() {
    let bench = Bench::new();
    bench.put("a", "inside");
    bench.put("secret/a", "secret");
    symlink("/etc/passwd", bench.root.join("passwd")).unwrap();
    symlink("/", bench.root.join("top")).unwrap();
    symlink(bench.root.join("secret"), bench.root.join("plain")).unwrap();
    symlink(&bench.root, bench.outside.join("in")).unwrap();
    let rules = [ALL[0], ALL[1], "deny fs:*:{ws}/secret/**"];
    for files in bench.both(&rules).await {
        assert_eq!(required(files.read("passwd", 9).await), "fs:read:/etc/passwd");
        assert_eq!(required(files.replace("passwd", b"", None, false).await), "fs:write:/etc/passwd");
        assert_eq!(required(files.read("top/etc/passwd", 9).await), "fs:read:/etc/passwd");
        let around = format!("top{}/secret/a", bench.root.display());
        let by_way = bench.outside.join("in/secret/a");
        for path in ["plain/a", "./plain//a", around.as_str(), by_way.to_str().unwrap()] {
            assert_eq!(reason(files.read(path, 9).await), "denied by policy", "{path}");
            assert_eq!(reason(files.write(path, b"").await), "denied by policy", "{path}");
            assert_eq!(reason(files.remove(path).await), "denied by policy", "{path}");
        }
        // From outside by a link, it is in the workspace.
        assert_eq!(files.read(bench.outside.join("in/a").to_str().unwrap(), 9).await.unwrap().0, b"inside");
    }
}

/// Names that the host gives to what processes hold open, or see as their root.
#[tokio::test]
async fn magic_links_are_no_way_around() {
    let bench = Bench::new();
    bench.put("a", "inside");
    std::fs::write(bench.outside.join("secret"), "outside").unwrap();
    let held = std::fs::File::open(bench.outside.join("secret")).unwrap();
    let dir = std::fs::File::open(&bench.outside).unwrap();
    let (fd, dir) = (held.as_raw_fd(), dir.as_raw_fd());
    let pid = std::process::id();
    let tid = rustix::thread::gettid().as_raw_nonzero();
    let secret = bench.outside.join("secret").display().to_string();
    // What each leads to, when the host serves pseudo file systems.
    let rows = [
        (format!("/proc/self/root{secret}"), secret.clone()),
        (format!("/proc/{pid}/root{secret}"), secret.clone()),
        (format!("/proc/self/task/{tid}/root{secret}"), secret.clone()),
        (format!("/proc/thread-self/root{secret}"), secret.clone()),
        (format!("/proc/self/fd/{fd}"), secret.clone()),
        (format!("/dev/fd/{fd}"), secret.clone()),
        (format!("/proc/self/fd/{dir}/secret"), secret.clone()),
        (format!("/proc/self/cwd/../../../../../..{secret}"), secret.clone()),
        ("/proc/self/root/etc/passwd".to_owned(), "/etc/passwd".to_owned()),
    ];
    for (n, (path, _)) in rows.iter().enumerate() {
        symlink(path, bench.root.join(format!("m{n}"))).unwrap();
    }
    let rules = [ALL[0], ALL[1], "allow fs:*:/proc/**", "allow fs:*:/dev/**"];
    for files in bench.both(&rules).await {
        for (n, (path, leads)) in rows.iter().enumerate() {
            // As text `..` takes `/proc` away, and the rest is a path like any other.
            let link = format!("m{n}");
            for path in [path, &link] {
                let plain = !path.starts_with('m') && path.contains("/..");
                match files.read(path, 9).await {
                    Err(FsError::NotFound) if plain => {}
                    result
                        if leads.starts_with(bench.outside.to_str().unwrap()) || leads == "/etc/passwd" =>
                    {
                        // Resolved, it is outside; unresolved, a pseudo file system. It is read by neither name.
                        match result {
                            Err(FsError::Permission(flowcell_kernel::PermissionError::Required(asked))) => {
                                assert_eq!(
                                    asked.capability.to_string(),
                                    format!("fs:read:{leads}"),
                                    "{path}"
                                );
                            }
                            other => assert_eq!(reason(other), PSEUDO, "{path}"),
                        }
                    }
                    other => panic!("{path}: {other:?}"),
                }
                assert!(files.write(path, b"x").await.is_err(), "{path}");
                assert!(!files.permitted(path), "{path}");
            }
        }
        for path in [
            "/proc/self/environ",
            "/proc/self/mem",
            "/dev/fd",
            "/dev/stdin",
            "/sys/kernel",
            "/proc",
            "/dev/shm/x",
        ] {
            for result in [files.read(path, 9).await.map(drop), files.metadata(path).await.map(drop)] {
                match result {
                    // `/dev/stdin` may lead to a file with a path of its own.
                    Err(FsError::Permission(flowcell_kernel::PermissionError::Required(_)))
                        if path == "/dev/stdin" => {}
                    other => assert_eq!(reason(other), PSEUDO, "{path}"),
                }
            }
        }
    }
    let options = FsOptions { allow_pseudo_fs: true, ..FsOptions::default() };
    let fast = bench.files_with(&rules, options.clone()).await;
    for files in [fast, bench.files_with(&rules, options).await.without_openat2()] {
        for (path, leads) in &rows {
            if !path.contains("/..") {
                assert_eq!(required(files.read(path, 9).await), format!("fs:read:{leads}"), "{path}");
                assert_eq!(required(files.write(path, b"").await), format!("fs:write:{leads}"), "{path}");
            }
        }
        let own = format!("/proc/self/root{}", bench.text("a"));
        assert_eq!(files.read(&own, 9).await.unwrap().0, b"inside");
        // A file that has no name any more cannot be had by its descriptor's.
        let nameless = tempfile::tempfile().unwrap();
        let path = format!("/proc/self/fd/{}", nameless.as_raw_fd());
        assert!(files.read(&path, 9).await.is_err());
        assert!(files.write(&path, b"x").await.is_err());
        assert_eq!(nameless.metadata().unwrap().len(), 0);
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "outside");
}

#[tokio::test]
async fn slashes_dots_and_odd_bytes_name_what_they_say() {
    let bench = Bench::new();
    bench.put("secret/a", "secret");
    bench.put("f", "f");
    // Names of their own, that some tools trim or decode.
    for name in [
        " secret",
        "secret ",
        "secret.",
        "...",
        "secret\n",
        "%2e%2e",
        "~",
        "se\u{200d}cret",
        "\u{ff0e}\u{ff0e}",
        "a\\b",
    ] {
        std::fs::write(bench.root.join(name), "other").unwrap();
    }
    let raw = OsString::from_vec(b"raw\xff".to_vec());
    std::fs::create_dir(bench.root.join(&raw)).unwrap();
    std::fs::write(bench.root.join(&raw).join("a"), "raw").unwrap();
    symlink(&raw, bench.root.join("to-raw")).unwrap();
    symlink("secret//", bench.root.join("slashes")).unwrap();
    symlink("./secret/.", bench.root.join("dots")).unwrap();
    let rules = [ALL[0], ALL[1], "deny fs:*:{ws}/secret", "deny fs:*:{ws}/secret/**"];
    for files in bench.both(&rules).await {
        for path in [
            "secret/a",
            "secret//a",
            "./secret/./a",
            "secret/a/",
            "secret/a/.",
            "secret/a//",
            "/{ws}/secret/a",
            "//{ws}//secret/a",
            "f/../secret/a",
            "none/../secret/a",
            "slashes/a",
            "dots/a",
            "dots//a/",
            "secret/none/../a",
        ] {
            let path = path.replace("{ws}", bench.root.to_str().unwrap().trim_start_matches('/'));
            assert_eq!(reason(files.read(&path, 9).await), "denied by policy", "{path}");
            assert_eq!(reason(files.replace(&path, b"", None, true).await), "denied by policy", "{path}");
            assert_eq!(reason(files.remove(&path).await), "denied by policy", "{path}");
        }
        for path in ["secret/", "secret/.", "slashes", "dots", "./secret//"] {
            assert_eq!(reason(files.read_dir(path).await), "denied by policy", "{path}");
            assert_eq!(reason(files.walk_root(path).await), "denied by policy", "{path}");
        }
        // The last component without following is the link, whatever slashes follow it: as text they are nothing.
        assert_eq!(
            required_or_done(files.read_link("slashes/").await).as_deref(),
            Some(std::path::Path::new("secret//"))
        );
        for name in [
            " secret",
            "secret ",
            "secret.",
            "...",
            "secret\n",
            "%2e%2e",
            "~",
            "se\u{200d}cret",
            "\u{ff0e}\u{ff0e}",
            "a\\b",
        ] {
            assert_eq!(files.read(name, 9).await.unwrap().0, b"other", "{name:?}");
            assert_eq!(files.canonicalize(name).await.unwrap(), bench.text(name), "{name:?}");
        }
        for path in ["f\0", "f\0/../secret/a", "\0", "secret\0x"] {
            assert_eq!(reason(files.read(path, 9).await), "path has a NUL");
            assert_eq!(reason(files.write(path, b"").await), "path has a NUL");
            assert_eq!(reason(files.remove(path).await), "path has a NUL");
            assert_eq!(reason(files.rename("f", path).await), "path has a NUL");
            assert!(!files.permitted(path));
        }
        for path in ["to-raw", "to-raw/a", "to-raw/../f/.."] {
            let inside = path.ends_with("..");
            let result = files.read(path, 9).await;
            if inside {
                assert!(result.is_err());
            } else {
                assert_eq!(reason(result), "path is not UTF-8", "{path}");
            }
        }
        assert_eq!(reason(files.replace("to-raw/a", b"", None, true).await), "path is not UTF-8");
        let WalkRoot::Dir(root) = files.walk_root(".").await.unwrap() else { panic!() };
        assert!(!root.permitted(&raw));
        assert_eq!(reason(root.open_dir(&raw)), "path is not UTF-8");
        assert!(!root.permitted(OsStr::new("secret")));
    }
}

fn required_or_done<T: std::fmt::Debug>(result: Result<T, FsError>) -> Option<T> {
    result.ok()
}

#[tokio::test]
async fn too_many_links_and_links_that_never_end() {
    let bench = Bench::new();
    bench.put("end", "end");
    symlink("end", bench.root.join("c1")).unwrap();
    for n in 2..=41 {
        symlink(format!("c{}", n - 1), bench.root.join(format!("c{n}"))).unwrap();
    }
    symlink("right", bench.root.join("left")).unwrap();
    symlink("left", bench.root.join("right")).unwrap();
    symlink("grow/x", bench.root.join("grow")).unwrap();
    symlink(".", bench.root.join("dot")).unwrap();
    for files in bench.both(ALL).await {
        assert_eq!(files.read("c40", 9).await.unwrap().0, b"end");
        let forty = format!("{}end", "dot/".repeat(40));
        assert_eq!(files.read(&forty, 9).await.unwrap().0, b"end");
        for path in ["c41", "left", "right/x", "grow", "grow/y", &format!("dot/{forty}"), "dot/c40"] {
            assert_eq!(files.read(path, 9).await, Err(FsError::TooManyLinks), "{path}");
            assert_eq!(files.exists(path).await, Err(FsError::TooManyLinks), "{path}");
            assert_eq!(files.write(path, b"").await.unwrap_err(), FsError::TooManyLinks, "{path}");
            assert_eq!(
                files.replace(path, b"", None, true).await.unwrap_err(),
                FsError::TooManyLinks,
                "{path}"
            );
            assert_eq!(files.make_dirs(path).await, Err(FsError::TooManyLinks), "{path}");
            assert!(!files.permitted(path));
        }
        // The links themselves are entries like any other.
        assert_eq!(files.read_link("left").await.unwrap(), std::path::Path::new("right"));
        files.rename("left", "other").await.unwrap();
        files.rename("other", "left").await.unwrap();
    }
}

/// Another name of a file outside is no link that a path could tell: what is written in place is refused, what is replaced
/// leaves the other name alone.
#[tokio::test]
async fn hard_links_to_what_is_outside() {
    let bench = Bench::new();
    let secret = bench.outside.join("secret");
    for files in bench.both(ALL).await {
        std::fs::write(&secret, "outside").unwrap();
        std::fs::hard_link(&secret, bench.root.join("h")).unwrap();
        symlink("h", bench.root.join("to-h")).unwrap();
        bench.put("from", "inside");
        let before = std::fs::metadata(&secret).unwrap();
        let says = "file has more than one link";
        for path in ["h", "to-h"] {
            assert_eq!(reason(files.write(path, b"x").await), says);
            assert_eq!(reason(files.truncate(path, 0).await), says);
            assert_eq!(reason(files.set_mode(path, 0o777).await), says);
            assert_eq!(reason(files.copy("from", path).await), says);
            assert_eq!(files.create_new(path, b"x", 0o600).await, Err(FsError::Exists));
        }
        files.replace("to-h", b"mine", None, false).await.unwrap();
        assert_eq!(bench.get("h"), "mine");
        let after = std::fs::metadata(&secret).unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "outside");
        assert_eq!(
            (before.ino(), before.mode(), before.mtime_nsec()),
            (after.ino(), after.mode(), after.mtime_nsec())
        );
        files.remove("h").await.unwrap();
        files.remove("to-h").await.unwrap();
        // What replaces equal bytes writes nothing, and still nothing of the other name.
        std::fs::hard_link(&secret, bench.root.join("h")).unwrap();
        files.replace("h", b"outside", None, false).await.unwrap();
        files.remove("h").await.unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().nlink(), 1);
        assert!(leftovers(&bench.root).is_empty());
    }
}

#[tokio::test]
async fn strict_hosts_read_no_file_of_two_names() {
    let bench = Bench::new();
    bench.put("d/a", "a");
    std::fs::hard_link(bench.root.join("d/a"), bench.outside.join("other")).unwrap();
    let strict = FsOptions { refuse_hard_linked_reads: true, ..FsOptions::default() };
    let fast = bench.files_with(ALL, strict.clone()).await;
    for files in [fast, bench.files_with(ALL, strict).await.without_openat2()] {
        let says = "file has more than one link";
        assert_eq!(reason(files.read("d/a", 9).await), says);
        assert_eq!(reason(files.read_range("d/a", 0, 1).await), says);
        assert_eq!(reason(files.open("d/a").await), says);
        assert_eq!(reason(files.copy("d/a", "b").await), says);
        assert_eq!(reason(files.walk_root("d/a").await), says);
        let WalkRoot::Dir(dir) = files.walk_root("d").await.unwrap() else { panic!() };
        assert_eq!(reason(dir.open_file(OsStr::new("a"))), says);
        assert!(!bench.root.join("b").exists());
        // The option holds over a copy too.
        std::fs::create_dir_all(bench.outside.join("copy/d")).unwrap();
        let _ = std::fs::hard_link(bench.root.join("d/a"), bench.outside.join("copy/d/a"));
        assert_eq!(reason(files.over(bench.outside.join("copy")).unwrap().read("d/a", 9).await), says);
    }
}

/// Nothing waits for another end, in any operation.
#[tokio::test]
async fn pipes_and_sockets_neither_block_nor_answer() {
    let bench = Bench::new();
    crate::reading::fifo(&bench.root.join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(bench.root.join("socket")).unwrap();
    bench.put("f", "f");
    symlink("pipe", bench.root.join("link")).unwrap();
    for files in bench.both(ALL).await {
        for path in ["pipe", "socket", "link"] {
            assert_eq!(files.read(path, 9).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.read_range(path, 0, 9).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.open(path).await.unwrap_err(), FsError::NotRegular, "{path}");
            assert_eq!(files.write(path, b"x").await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.truncate(path, 0).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.set_mode(path, 0o600).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.replace(path, b"x", None, true).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.copy(path, "c").await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.copy("f", path).await, Err(FsError::NotRegular), "{path}");
            assert_eq!(files.read_dir(path).await, Err(FsError::NotADirectory), "{path}");
            assert_eq!(files.create_new(path, b"x", 0o600).await, Err(FsError::Exists), "{path}");
            assert_eq!(files.make_dir(path).await, Err(FsError::Exists), "{path}");
            assert!(files.exists(path).await.unwrap());
            assert!(files.canonicalize(path).await.is_ok());
        }
        assert!(!bench.root.join("c").exists());
    }
}
