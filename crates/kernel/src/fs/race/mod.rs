//! Invariant 8 of kernel contract 12: whoever swaps directories, files and links meanwhile, an operation touches no inode
//! outside what it was authorised for. `steps` swaps at each moment between two steps of each operation, one after
//! another; `crowd` runs them all against others that swap all the time.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "tests read how much they are to do")]

mod crowd;
mod steps;
mod table;

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps};

use super::{FileSystem, FsOptions, Stat};
use crate::flows::capability::CapabilityPattern;
use crate::flows::rules::Rule;
use crate::{Authority, GrantStore, GrantStoreOptions, MemoryPersist, SeededEntropy, Workspace};

fn full_volume() -> bool {
    std::env::var_os("FLOWCELL_VOLUME").is_some_and(|volume| volume == "full")
}

/// A workspace `ws` in which `a` is granted and `b` is not, a tree `outside`, and `alt`, where swaps keep what is not in
/// place.
struct World {
    _dir: tempfile::TempDir,
    out: PathBuf,
    ws: PathBuf,
    outside: Outside,
}

impl World {
    fn new() -> Self {
        // In memory where that can be: on disk, what is removed soon after it was written waits for the disk.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let out = dir.path().canonicalize().unwrap();
        let ws = out.join("ws");
        for path in ["ws", "alt", "temp"] {
            std::fs::create_dir(out.join(path)).unwrap();
        }
        let mut outside = Outside::default();
        for tree in ["outside/a", "ws/b"] {
            outside.grow(&out.join(tree));
        }
        World { _dir: dir, out, ws, outside }
    }

    /// The file system of `ws`, or of a copy in its place: once as the host has it and once walking by components.
    async fn files(&self, copy: Option<&Path>) -> [FileSystem; 2] {
        let mut options = GrantStoreOptions::new(&self.ws, Arc::new(MemoryPersist::new())).unattended();
        let (ws, out) = (self.ws.display(), self.out.display());
        options.configured =
            [format!("fs:*:{ws}/a"), format!("fs:*:{ws}/a/**"), format!("fs:write:{out}/<system-temp>")]
                .iter()
                .map(|text| Rule::allow(CapabilityPattern::parse(text).unwrap()))
                .collect();
        let store = GrantStore::open(options).await.unwrap();
        let make = || {
            let system_temp = self.out.join("temp");
            let options = FsOptions { system_temp, allow_pseudo_fs: true, ..FsOptions::default() };
            let workspace = Workspace::open(&self.ws).unwrap();
            let entropy = Arc::new(SeededEntropy::new(7));
            let files = FileSystem::new(Authority::root(store.clone()), workspace, options, entropy).unwrap();
            copy.map_or_else(|| files.clone(), |copy| files.over(copy).unwrap())
        };
        [make(), make().without_openat2()]
    }
}

/// What has to stay as it is.
#[derive(Default)]
struct Outside {
    paths: Vec<PathBuf>,
    before: Vec<Facts>,
}

/// A file as nobody touched it: contents and modes change the time of change, reads the time of access.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    dev: u64,
    ino: u64,
    mode: u32,
    nlink: u64,
    size: u64,
    times: [(i64, i64); 3],
}

impl Outside {
    /// Grows a tree of the shape that the granted one has, and remembers it.
    fn grow(&mut self, root: &Path) {
        for dir in ["", "d", "d/sub", "e"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in ["f", "outsider", "d/f", "d/g", "d/outsider", "d/sub/g", "e/f"] {
            std::fs::write(root.join(file), "outside").unwrap();
        }
        // An access that is older than the change before it is noted at the next one.
        let at = |seconds| Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: at(1_000), last_modification: at(2_000) };
        let all = ["f", "outsider", "d/f", "d/g", "d/outsider", "d/sub/g", "e/f", "d/sub", "d", "e", ""];
        for path in all.map(|path| root.join(path)) {
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            self.before.push(Facts::of(&path));
            self.paths.push(path);
        }
    }

    /// The first file that is not as it was.
    fn touched(&self) -> Option<String> {
        let mut all = self.paths.iter().zip(&self.before);
        all.find_map(|(path, before)| {
            let now = std::fs::symlink_metadata(path).map(|_| Facts::of(path)).ok();
            (now.as_ref() != Some(before)).then(|| format!("{}: {before:?}, now {now:?}", path.display()))
        })
    }

    fn check(&self, what: impl Fn() -> String) {
        let touched = self.touched();
        assert!(touched.is_none(), "{}: {}", what(), touched.unwrap_or_default());
    }

    fn holds(&self, stat: &Stat) -> bool {
        self.before.iter().any(|facts| (facts.dev, facts.ino) == (stat.dev, stat.ino))
    }
}

impl Facts {
    fn of(path: &Path) -> Self {
        let meta = std::fs::symlink_metadata(path).unwrap();
        Facts {
            dev: meta.dev(),
            ino: meta.ino(),
            mode: meta.mode(),
            nlink: meta.nlink(),
            size: meta.size(),
            times: [
                (meta.atime(), meta.atime_nsec()),
                (meta.mtime(), meta.mtime_nsec()),
                (meta.ctime(), meta.ctime_nsec()),
            ],
        }
    }
}

/// Makes the granted tree below `root`, as if nothing had happened.
fn grow_inside(root: &Path) {
    let _ = std::fs::remove_dir_all(root.join("a"));
    for dir in ["a/d/sub", "a/e", "a/r"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in ["a/f", "a/d/f", "a/d/g", "a/d/sub/g", "a/e/f"] {
        std::fs::write(root.join(file), "inside").unwrap();
    }
    symlink("g", root.join("a/d/l")).unwrap();
}

/// Lets two names change places in one step; when one is missing, the other takes its place.
#[allow(clippy::needless_pass_by_value)] // Two descriptors, or borrows of them.
fn exchange(left: (impl std::os::fd::AsFd, &str), right: (impl std::os::fd::AsFd, &str)) -> bool {
    let flags = RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(&left.0, left.1, &right.0, right.1, flags).is_ok()
        || rustix::fs::renameat_with(&right.0, right.1, &left.0, left.1, RenameFlags::NOREPLACE).is_ok()
}

/// That a read outside would show: the host notes accesses, and a rename in one step exists.
#[test]
fn the_measure_measures() {
    let world = World::new();
    world.outside.check(|| "untouched".to_owned());
    for touch in [
        (|path: &Path| drop(std::fs::read(path.join("f")).unwrap())) as fn(&Path),
        |path| assert!(std::fs::read_dir(path.join("d")).unwrap().count() > 0),
        |path| std::fs::write(path.join("d/f"), "outside").unwrap(),
        |path| std::fs::write(path.join("d/new"), "").unwrap(),
        |path| std::fs::remove_file(path.join("d/g")).unwrap(),
        |path| std::fs::hard_link(path.join("f"), path.join("../../alt/f")).unwrap(),
    ] {
        let world = World::new();
        touch(&world.out.join("outside/a"));
        assert!(world.outside.touched().is_some());
    }
}
