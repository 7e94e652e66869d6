use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use flowcell_kernel::{FsError, Replaced};

use crate::support::{ALL, Bench, REFUSED, minds_mode_bits, reason, required};

fn mode(bench: &Bench, path: &str) -> u32 {
    std::fs::metadata(bench.root.join(path)).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn each_operation_asks_for_what_it_writes() {
    let bench = Bench::new();
    bench.put("real/a", "a");
    symlink("real", bench.root.join("link")).unwrap();
    symlink("../out", bench.root.join("dangling")).unwrap();
    for files in bench.both(&[]).await {
        let outside = bench.outside.join("out").to_str().unwrap().to_owned();
        for (path, resource) in [
            ("link/a", bench.text("real/a")),
            ("link/new/er", bench.text("real/new/er")),
            ("dangling", outside),
        ] {
            let resource = format!("fs:write:{resource}");
            assert_eq!(required(files.write(path, b"").await), resource);
            assert_eq!(required(files.create_new(path, b"", 0o644).await), resource);
            assert_eq!(required(files.truncate(path, 0).await), resource);
            assert_eq!(required(files.set_mode(path, 0).await), resource);
            assert_eq!(required(files.make_dir(path).await), resource);
            assert_eq!(required(files.make_dirs(path).await), resource);
            assert_eq!(required(files.replace(path, b"", None, true).await), resource);
        }
        // Both sides of a copy are asked before anything happens, the read first.
        assert_eq!(required(files.copy("link/a", "b").await), format!("fs:read:{}", bench.text("real/a")));
    }
    let files = bench.files(&["allow fs:read:{ws}/**"]).await;
    assert_eq!(required(files.copy("link/a", "b").await), format!("fs:write:{}", bench.text("b")));
    // A grant to read is none to write, and the other way round.
    let files = bench.files(&["allow fs:write:{ws}/**"]).await;
    assert!(files.write("b", b"b").await.is_ok());
    assert!(files.read("b", 1).await.is_err());
}

#[tokio::test]
async fn writing_in_place_keeps_the_inode() {
    let bench = Bench::new();
    for files in bench.both(ALL).await {
        bench.put("a", "old and long");
        std::fs::set_permissions(bench.root.join("a"), PermissionsExt::from_mode(0o640)).unwrap();
        let ino = std::fs::metadata(bench.root.join("a")).unwrap().ino();
        let written = files.write("a", b"new").await.unwrap();
        assert_eq!(written, Replaced { created: false, mode: Some(0o640) });
        assert_eq!((bench.get("a").as_str(), mode(&bench, "a")), ("new", 0o640));
        assert_eq!(std::fs::metadata(bench.root.join("a")).unwrap().ino(), ino);
        let written = files.write("fresh", b"x").await.unwrap();
        assert_eq!(written, Replaced { created: true, mode: None });
        assert_eq!(mode(&bench, "fresh") & 0o111, 0);
        std::fs::remove_file(bench.root.join("fresh")).unwrap();
        assert_eq!(files.write("none/a", b"x").await, Err(FsError::NotFound));
        assert_eq!(files.write("a/b", b"x").await, Err(FsError::NotFound));
        assert_eq!(files.write(".", b"x").await, Err(FsError::IsADirectory));
        // Through a dangling link, to where it leads.
        symlink("target", bench.root.join("dangling")).unwrap();
        assert!(files.write("dangling", b"t").await.unwrap().created);
        assert_eq!(bench.get("target"), "t");
        std::fs::remove_file(bench.root.join("target")).unwrap();
        std::fs::remove_file(bench.root.join("dangling")).unwrap();
    }
}

#[tokio::test]
async fn a_file_of_more_than_one_link_is_not_written_in_place() {
    let bench = Bench::new();
    bench.put("a", "shared");
    std::fs::hard_link(bench.root.join("a"), bench.root.join("b")).unwrap();
    bench.put("c", "c");
    for files in bench.both(ALL).await {
        assert_eq!(reason(files.write("a", b"x").await), "file has more than one link");
        assert_eq!(reason(files.truncate("a", 0).await), "file has more than one link");
        assert_eq!(reason(files.set_mode("a", 0o600).await), "file has more than one link");
        assert_eq!(reason(files.copy("c", "a").await), "file has more than one link");
        assert_eq!(bench.get("b"), "shared");
    }
}

#[tokio::test]
async fn creating_never_overwrites() {
    let bench = Bench::new();
    bench.put("a", "a");
    for files in bench.both(ALL).await {
        files.create_new("n", b"n", 0o600).await.unwrap();
        assert_eq!((bench.get("n").as_str(), mode(&bench, "n")), ("n", 0o600));
        assert_eq!(files.create_new("n", b"x", 0o600).await, Err(FsError::Exists));
        assert_eq!(files.create_new(".", b"x", 0o600).await, Err(FsError::Exists));
        assert_eq!(bench.get("n"), "n");
        std::fs::remove_file(bench.root.join("n")).unwrap();
    }
}

#[tokio::test]
async fn lengths_and_modes() {
    let bench = Bench::new();
    bench.put("a", "12345");
    for files in bench.both(ALL).await {
        files.truncate("a", 2).await.unwrap();
        assert_eq!(bench.get("a"), "12");
        files.truncate("a", 4).await.unwrap();
        assert_eq!(bench.get("a"), "12\0\0");
        assert_eq!(files.truncate("none", 0).await, Err(FsError::NotFound));
        assert_eq!(files.truncate(".", 0).await, Err(FsError::IsADirectory));
        let before = mode(&bench, "a");
        assert_eq!(files.set_mode("a", 0o4711).await.unwrap(), before);
        assert_eq!(mode(&bench, "a"), 0o4711);
        files.set_mode("a", 0o644).await.unwrap();
        files.set_mode(".", 0o700).await.unwrap();
        assert_eq!(mode(&bench, "."), 0o700);
    }
}

#[tokio::test]
async fn the_mode_of_a_closed_file_can_be_set() {
    if !minds_mode_bits("writing::the_mode_of_a_closed_file_can_be_set") {
        return;
    }
    let bench = Bench::new();
    bench.put("a", "a");
    for files in bench.both(ALL).await {
        files.set_mode("a", 0).await.unwrap();
        assert_eq!(files.read("a", 1).await, Err(REFUSED));
        assert_eq!(files.write("a", b"").await, Err(REFUSED));
        assert_eq!(files.set_mode("a", 0o200).await.unwrap(), 0);
        assert_eq!(files.set_mode("a", 0o600).await.unwrap(), 0o200);
        assert_eq!(files.read("a", 1).await.unwrap().0, b"a");
    }
}

#[tokio::test]
async fn directories_are_made() {
    let bench = Bench::new();
    bench.put("file", "f");
    symlink("real", bench.root.join("link")).unwrap();
    std::fs::create_dir(bench.root.join("real")).unwrap();
    for (n, files) in bench.both(ALL).await.into_iter().enumerate() {
        files.make_dir(&format!("d{n}")).await.unwrap();
        assert_eq!(files.make_dir(&format!("d{n}")).await, Err(FsError::Exists));
        assert_eq!(files.make_dir("file").await, Err(FsError::Exists));
        assert_eq!(files.make_dir(".").await, Err(FsError::Exists));
        assert_eq!(files.make_dir("none/d").await, Err(FsError::NotFound));
        let path = format!("link/a{n}/b/c");
        assert_eq!(files.make_dirs(&path).await, Ok(true));
        assert_eq!(files.make_dirs(&path).await, Ok(false));
        assert!(bench.root.join(format!("real/a{n}/b/c")).is_dir());
        assert_eq!(files.make_dirs("file").await, Err(FsError::NotADirectory));
        assert_eq!(files.make_dirs("file/d").await, Err(FsError::NotADirectory));
        assert_eq!(files.make_dirs(".").await, Ok(false));
    }
    // One grant is enough for a directory with its parents.
    let files = bench.files(&["allow fs:write:{ws}/x/y/z"]).await;
    assert_eq!(files.make_dirs("x/y/z").await, Ok(true));
}

#[tokio::test]
async fn copies() {
    let bench = Bench::new();
    let text = "0123456789".repeat(300_000);
    bench.put("a", &text);
    std::fs::set_permissions(bench.root.join("a"), PermissionsExt::from_mode(0o4750)).unwrap();
    symlink("a", bench.root.join("link")).unwrap();
    for files in bench.both(ALL).await {
        bench.put("b", "something longer than nothing");
        assert_eq!(files.copy("a", "b").await, Ok(3_000_000));
        assert!(bench.get("b") == text);
        assert_eq!(files.copy("link", "c").await, Ok(3_000_000));
        assert_eq!(mode(&bench, "c"), 0o750);
        std::fs::remove_file(bench.root.join("c")).unwrap();
        assert!(matches!(files.copy("a", "link").await, Err(FsError::InvalidPath(_))));
        assert!(bench.get("a") == text);
        assert_eq!(files.copy(".", "c").await, Err(FsError::IsADirectory));
        assert_eq!(files.copy("none", "c").await, Err(FsError::NotFound));
    }
}

#[tokio::test]
async fn temporary_entries_ask_for_the_sentinel_and_go_away() {
    let bench = Bench::new();
    let sentinel = format!("fs:write:{}/<system-temp>", bench.outside.display());
    assert_eq!(required(bench.files(&ALL[..1]).await.temp_file(b"").await), sentinel);
    assert_eq!(required(bench.files(ALL).await.temp_dir().await), sentinel);
    let options = flowcell_kernel::FsOptions { system_temp: bench.outside.clone(), ..Default::default() };
    let files = bench.files_with(&["allow fs:write:{out}/<system-temp>"], options).await;
    let file = files.temp_file(b"content").await.unwrap();
    let dir = files.temp_dir().await.unwrap();
    let (file_path, dir_path) = (file.path().to_owned(), dir.path().to_owned());
    assert_eq!(std::fs::read(&file_path).unwrap(), b"content");
    assert_eq!(std::fs::metadata(&file_path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&dir_path).unwrap().mode() & 0o777, 0o700);
    std::fs::create_dir_all(format!("{dir_path}/a/b")).unwrap();
    std::fs::write(format!("{dir_path}/a/b/c"), "c").unwrap();
    drop((file, dir));
    assert!(!std::path::Path::new(&file_path).exists() && !std::path::Path::new(&dir_path).exists());
}
