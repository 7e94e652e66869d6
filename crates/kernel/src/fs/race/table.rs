//! Every operation of the table of kernel contract 6.1, with what it may show.

use std::ffi::OsStr;

use super::super::path::is_inside;
use super::super::{Dir, FileSystem, FsError, Stat, WalkRoot};
use super::Outside;

/// The operations, each with a path that it works on, in the tree of [`grow_inside`](super::grow_inside).
pub(super) const OPERATIONS: &[(&str, &str)] = &[
    ("read", "a/d/f"),
    ("read_range", "a/d/f"),
    ("metadata", "a/d/f"),
    ("exists", "a/d/f"),
    ("read_dir", "a/d"),
    ("canonicalize", "a/d/f"),
    ("read_link", "a/d/l"),
    ("symlink_metadata", "a/d/l"),
    ("write", "a/d/f"),
    ("write_new", "a/d/n"),
    ("create_new", "a/d/n"),
    ("truncate", "a/d/f"),
    ("set_mode", "a/d/f"),
    ("make_dir", "a/d/n"),
    ("make_dirs", "a/d/n/m"),
    ("replace", "a/d/f"),
    ("replace_new", "a/d/n"),
    ("replace_parents", "a/d/n/m"),
    ("remove", "a/d/f"),
    ("remove_dir_all", "a/d"),
    ("rename", "a/d/f"),
    ("rename_to", "a/d/n"),
    ("copy", "a/d/f"),
    ("copy_to", "a/d/f"),
    ("symlink", "a/d/n"),
    ("handle", "a/d/f"),
    ("temp_file", "a/d"),
    ("temp_dir", "a/d"),
    ("walk", "a/d"),
    ("list", "a/d"),
];

/// Looks at what an operation showed.
pub(super) struct Eyes<'a> {
    pub(super) outside: &'a Outside,
    /// The granted tree, by its resource.
    pub(super) granted: &'a str,
}

impl Eyes<'_> {
    fn stat(&self, stat: &Stat) {
        assert!(!self.outside.holds(stat), "{stat:?} is outside");
    }

    /// What operations write, and what there was, has no `o`; one that was cut may be empty, or extended.
    fn bytes(bytes: &[u8]) {
        assert!(!bytes.contains(&b'o'), "{}", String::from_utf8_lossy(bytes));
    }

    fn name(name: &OsStr) {
        assert_ne!(name, "outsider");
    }

    fn walk(&self, dir: &Dir, depth: usize) {
        self.stat(&dir.opened());
        for entry in dir.entries().unwrap_or_default() {
            Self::name(&entry.name);
            let _ = dir.stat_entry_following(&entry.name);
            if !dir.permitted(&entry.name) {
                continue;
            }
            if let (true, Ok(below)) = (depth > 0, dir.open_dir(&entry.name)) {
                self.walk(&below, depth - 1);
            } else if let Ok(file) = dir.open_file(&entry.name) {
                self.stat(&file.opened());
                let _ = file.read_to(100).map(|bytes| Self::bytes(&bytes));
            }
        }
    }

    /// Runs an operation; its failure is the caller's to judge, what it shows is judged here.
    pub(super) async fn run(&self, files: &FileSystem, operation: &str, path: &str) -> Result<(), FsError> {
        match operation {
            "read" | "read_range" => {
                let read = match operation {
                    "read" => files.read(path, 100).await,
                    _ => files.read_range(path, 0, 3).await,
                };
                let (bytes, stat) = read?;
                Self::bytes(&bytes);
                self.stat(&stat);
            }
            "metadata" => self.stat(&files.metadata(path).await?),
            "exists" => {
                files.exists(path).await?;
                // Of what there is outside only, nothing is known.
                let beside = format!("{}/outsider", path.rsplit_once('/').map_or("a", |(dir, _)| dir));
                assert_ne!(files.exists(&beside).await, Ok(true), "{beside}");
            }
            "read_dir" => files.read_dir(path).await?.iter().for_each(|entry| Self::name(&entry.name)),
            "canonicalize" => {
                let path = files.canonicalize(path).await?;
                assert!(is_inside(self.granted, &path), "{path}");
            }
            "read_link" => drop(files.read_link(path).await?),
            "symlink_metadata" => self.stat(&files.symlink_metadata(path).await?),
            "write" | "write_new" => drop(files.write(path, b"inside written").await?),
            "create_new" => files.create_new(path, b"inside created", 0o640).await?,
            "truncate" => files.truncate(path, 3).await?,
            "set_mode" => drop(files.set_mode(path, 0o640).await?),
            "make_dir" => files.make_dir(path).await?,
            "make_dirs" => drop(files.make_dirs(path).await?),
            "replace" | "replace_new" => drop(files.replace(path, b"inside replaced", None, false).await?),
            "replace_parents" => drop(files.replace(path, b"inside replaced", None, true).await?),
            "remove" => files.remove(path).await?,
            "remove_dir_all" => files.remove_dir_all(path).await?,
            "rename" => files.rename(path, "a/e/moved").await?,
            "rename_to" => files.rename("a/e/f", path).await?,
            "copy" => drop(files.copy(path, "a/e/copied").await?),
            "copy_to" => drop(files.copy("a/e/f", path).await?),
            "symlink" => files.symlink("f", path).await?,
            "handle" => {
                let file = files.open(path).await?;
                self.stat(&file.opened());
                Self::bytes(&file.read_at(0, 100)?);
                self.stat(&file.stat()?);
                Self::bytes(&file.read_to(5)?);
            }
            "temp_file" => drop(files.temp_file(b"inside").await?),
            "temp_dir" => drop(files.temp_dir().await?),
            "walk" => match files.walk_root(path).await? {
                WalkRoot::Dir(dir) => self.walk(&dir, 3),
                WalkRoot::File(file) => self.stat(&file.opened()),
                WalkRoot::Other => {}
            },
            "list" => {
                let dir = files.open_dir(path).await?;
                self.stat(&dir.opened());
                for entry in dir.entries()? {
                    Self::name(&entry.name);
                    let _ = dir.stat_entry_following(&entry.name);
                    let _ = files.stat_entry_following(path, &entry.name).await;
                }
            }
            other => panic!("{other}"),
        }
        Ok(())
    }
}
