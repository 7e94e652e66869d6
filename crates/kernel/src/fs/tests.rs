//! What needs something to happen in the middle of an operation.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FileSystem, FsError, FsOptions, OpenFile, reason};
use crate::flows::capability::{Action, CapabilityPattern};
use crate::flows::rules::Rule;
use crate::{
    Authority, GrantStore, GrantStoreOptions, MemoryPersist, PermissionError, SeededEntropy, Workspace,
};

type Hook = Box<dyn FnOnce() + Send>;

/// Called once, between two steps.
#[derive(Default)]
pub(crate) struct Hooks {
    check: Mutex<Option<Hook>>,
    create: Mutex<Option<Hook>>,
    midway: Mutex<Option<Hook>>,
}

impl Hooks {
    pub(crate) fn after_check(&self) {
        Self::call(&self.check);
    }

    pub(crate) fn after_create(&self) {
        Self::call(&self.create);
    }

    pub(crate) fn midway(&self) {
        Self::call(&self.midway);
    }

    fn call(hook: &Mutex<Option<Hook>>) {
        let hook = hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook();
        }
    }

    fn set(hook: &Mutex<Option<Hook>>, run: impl FnOnce() + Send + 'static) {
        *hook.lock().unwrap() = Some(Box::new(run));
    }
}

async fn files(root: &Path) -> FileSystem {
    let mut options = GrantStoreOptions::new(root, Arc::new(MemoryPersist::new()));
    options.configured = vec![Rule::allow(CapabilityPattern::parse("fs:*:**").unwrap())];
    let store = GrantStore::open(options).await.unwrap();
    let workspace = Workspace::open(root).unwrap();
    let entropy = Arc::new(SeededEntropy::new(7));
    FileSystem::new(Authority::root(store), workspace, FsOptions::default(), entropy).unwrap()
}

fn workspace() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("ws");
    std::fs::create_dir(&root).unwrap();
    (dir, root)
}

fn refusal(error: FsError) -> String {
    match error {
        FsError::Permission(PermissionError::Denied(denied)) => denied.reason,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn leftovers(root: &Path) -> Vec<String> {
    let names = std::fs::read_dir(root).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".flowcell-"))
        .collect()
}

#[tokio::test]
async fn a_path_that_changes_while_permission_is_pending_is_refused() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::write(root.join("a"), "a").unwrap();
    std::fs::write(root.join("b"), "b").unwrap();
    let swap = |root: PathBuf| {
        move || {
            std::fs::remove_file(root.join("a")).unwrap();
            symlink("b", root.join("a")).unwrap();
        }
    };
    Hooks::set(&files.inner.hooks.check, swap(root.clone()));
    let error = files.read("a", 10).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    // Now it is a link, and a link is fine as long as it stays one.
    assert_eq!(files.read("a", 10).await.unwrap().0, b"b");

    // The second of two checks is guarded as the first is: between them, the target of the first moves.
    std::fs::write(root.join("c"), "c").unwrap();
    let from = root.clone();
    Hooks::set(&files.inner.hooks.check, move || {
        std::fs::create_dir(from.join("d")).unwrap();
        std::fs::rename(from.join("c"), from.join("d/c")).unwrap();
        symlink("d/c", from.join("c")).unwrap();
    });
    let error = files.copy("c", "e").await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert!(!root.join("e").exists());
}

#[tokio::test]
async fn a_write_whose_parent_becomes_a_link_is_refused() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(root.join("d")).unwrap();
    let (at, to) = (root.clone(), outside.clone());
    Hooks::set(&files.inner.hooks.check, move || {
        std::fs::rename(at.join("d"), at.join("old")).unwrap();
        symlink(to, at.join("d")).unwrap();
    });
    let error = files.replace("d/x", b"x", None, true).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_changes_during_a_replacement_is_kept() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::write(root.join("a"), "old").unwrap();
    let (_, seen) = files.read("a", 10).await.unwrap();
    let at = root.clone();
    Hooks::set(&files.inner.hooks.midway, move || std::fs::write(at.join("a"), "theirs").unwrap());
    let error = files.replace("a", b"ours", Some(seen), false).await.unwrap_err();
    assert_eq!(error, FsError::Changed("the file changed during the call".to_owned()));
    assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "theirs");
    assert!(leftovers(&root).is_empty());
}

#[tokio::test]
async fn a_directory_that_moves_during_a_replacement_gets_nothing() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::create_dir(root.join("d")).unwrap();
    std::fs::write(root.join("d/a"), "old").unwrap();
    let at = root.clone();
    Hooks::set(&files.inner.hooks.midway, move || {
        std::fs::rename(at.join("d"), at.join("moved")).unwrap();
    });
    let error = files.replace("d/a", b"new", None, false).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert_eq!(std::fs::read_to_string(root.join("moved/a")).unwrap(), "old");
    assert!(leftovers(&root.join("moved")).is_empty());
}

#[tokio::test]
async fn a_panic_during_a_replacement_leaves_no_temporary() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::write(root.join("a"), "old").unwrap();
    Hooks::set(&files.inner.hooks.midway, || panic!("in the middle"));
    let task = {
        let files = files.clone();
        tokio::spawn(async move { files.replace("a", b"new", None, false).await })
    };
    assert!(task.await.unwrap_err().is_panic());
    assert!(leftovers(&root).is_empty());
    assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "old");
    let before = std::fs::metadata(root.join("a")).unwrap().ino();
    files.replace("a", b"new", None, false).await.unwrap();
    assert_ne!(std::fs::metadata(root.join("a")).unwrap().ino(), before);
}

/// A link that is put in a parent's place after the last resolution is met by the walk itself, by either way of walking.
#[tokio::test]
async fn a_walk_that_meets_a_link_is_refused() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    std::fs::write(root.join("d/e/a"), "a").unwrap();
    for _ in 0..2 {
        for name in ["d", "d/e"] {
            let target = files.target(Action::FsRead, "d/e/a", true).unwrap();
            files.confirm(&target).unwrap();
            std::fs::rename(root.join(name), root.join("aside")).unwrap();
            symlink(root.join("aside"), root.join(name)).unwrap();
            let error = OpenFile::read(&files.inner, &target).unwrap_err();
            assert_eq!(refusal(error), reason::PATH_CHANGED, "{name}");
            std::fs::remove_file(root.join(name)).unwrap();
            std::fs::rename(root.join("aside"), root.join(name)).unwrap();
        }
        files.inner.pins.refuse_openat2();
    }
}

#[tokio::test]
async fn a_file_made_in_a_directory_that_moves_is_taken_back() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    for new in [true, false] {
        std::fs::create_dir(root.join("d")).unwrap();
        let (from, to) = (root.join("d"), outside.clone());
        Hooks::set(&files.inner.hooks.create, move || std::fs::rename(from, to).unwrap());
        let result = if new {
            files.create_new("d/a", b"a", 0o600).await
        } else {
            files.write("d/a", b"a").await.map(|_| ())
        };
        assert_eq!(refusal(result.unwrap_err()), reason::NO_LONGER_MATCHES);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        std::fs::remove_dir(&outside).unwrap();
    }
}

#[tokio::test]
async fn what_is_made_in_a_directory_that_moves_is_taken_back() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    for link in [true, false] {
        std::fs::create_dir(root.join("d")).unwrap();
        let (from, to) = (root.join("d"), outside.clone());
        Hooks::set(&files.inner.hooks.create, move || std::fs::rename(from, to).unwrap());
        let result = if link { files.symlink("../a", "d/l").await } else { files.make_dir("d/e").await };
        assert_eq!(refusal(result.unwrap_err()), reason::PATH_CHANGED);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        std::fs::remove_dir(&outside).unwrap();
    }
}

#[tokio::test]
async fn a_name_that_is_added_while_permission_is_pending_counts() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let at = root.clone();
    let link = move || {
        let at = at.clone();
        move || std::fs::hard_link(at.join("a"), at.join("b")).unwrap()
    };
    for operation in 0..4 {
        let _ = std::fs::remove_file(root.join("b"));
        std::fs::write(root.join("a"), "old").unwrap();
        Hooks::set(&files.inner.hooks.check, link());
        let result = match operation {
            0 => files.write("a", b"new").await.map(|_| ()),
            1 => files.truncate("a", 0).await,
            2 => files.set_mode("a", 0o600).await.map(|_| ()),
            _ => {
                std::fs::write(root.join("c"), "c").unwrap();
                files.copy("c", "a").await.map(|_| ())
            }
        };
        assert_eq!(refusal(result.unwrap_err()), reason::MORE_THAN_ONE_LINK);
        assert_eq!(std::fs::read_to_string(root.join("b")).unwrap(), "old");
    }
    // A replacement splits the names.
    std::fs::remove_file(root.join("b")).unwrap();
    Hooks::set(&files.inner.hooks.check, link());
    files.replace("a", b"new", None, false).await.unwrap();
    assert_eq!(std::fs::read_to_string(root.join("b")).unwrap(), "old");
}

/// Somebody takes the name of a new file between the look at it and the rename.
#[tokio::test]
async fn a_new_file_does_not_take_the_place_of_one_that_was_made_meanwhile() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    std::fs::write(&outside, "outside").unwrap();
    // A file: it is an existing one, whose mode is kept.
    let at = root.join("a");
    Hooks::set(&files.inner.hooks.midway, move || {
        std::fs::write(&at, "theirs").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4751);
        std::fs::set_permissions(&at, mode).unwrap();
    });
    let done = files.replace("a", b"ours", None, false).await.unwrap();
    assert_eq!((done.created, done.mode), (false, Some(0o4751)));
    assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "ours");
    assert_eq!(std::fs::metadata(root.join("a")).unwrap().mode() & 0o7777, 0o4751);
    // A directory.
    let at = root.join("b");
    Hooks::set(&files.inner.hooks.midway, move || std::fs::create_dir(&at).unwrap());
    assert_eq!(files.replace("b", b"ours", None, false).await, Err(FsError::IsADirectory));
    // A link: the path leads elsewhere than was approved.
    let (at, to) = (root.join("c"), outside.clone());
    Hooks::set(&files.inner.hooks.midway, move || symlink(to, at).unwrap());
    let error = files.replace("c", b"ours", None, false).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert!(root.join("c").is_symlink());
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "outside");
    assert!(leftovers(&root).is_empty());
}

#[tokio::test]
async fn a_directory_that_moves_while_a_file_is_made_gets_nothing() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::create_dir(root.join("d")).unwrap();
    let at = root.clone();
    Hooks::set(&files.inner.hooks.midway, move || {
        std::fs::rename(at.join("d"), at.join("moved")).unwrap();
        symlink("moved", at.join("d")).unwrap();
    });
    let error = files.replace("d/a", b"new", None, false).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert_eq!(std::fs::read_dir(root.join("moved")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_root_that_is_replaced_during_a_replacement_gets_nothing() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::write(root.join("a"), "old").unwrap();
    for (name, parked) in [("a", "parked-1"), ("new", "parked-2")] {
        let (at, parked) = (root.clone(), root.parent().unwrap().join(parked));
        let to = parked.clone();
        Hooks::set(&files.inner.hooks.midway, move || {
            std::fs::rename(&at, to).unwrap();
            std::fs::create_dir(at).unwrap();
        });
        let error = files.replace(name, b"new", None, false).await.unwrap_err();
        assert_eq!(refusal(error), reason::PATH_CHANGED);
        assert_eq!(std::fs::read_dir(&parked).unwrap().count(), 1);
        assert_eq!(std::fs::read_to_string(parked.join("a")).unwrap(), "old");
        std::fs::remove_dir(&root).unwrap();
        std::fs::rename(&parked, &root).unwrap();
    }
}

#[tokio::test]
async fn a_copy_that_fails_leaves_no_part_of_itself() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    std::fs::write(root.join("a"), "a").unwrap();
    let at = root.clone();
    Hooks::set(&files.inner.hooks.midway, move || std::fs::rename(at.join("a"), at.join("b")).unwrap());
    let error = files.copy("a", "c").await.unwrap_err();
    assert_eq!(refusal(error), reason::NO_LONGER_MATCHES);
    assert!(!root.join("c").exists());
}

#[tokio::test]
async fn a_panic_while_a_file_is_made_leaves_no_temporary() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    Hooks::set(&files.inner.hooks.midway, || panic!("in the middle"));
    let task = {
        let files = files.clone();
        tokio::spawn(async move { files.replace("a", b"new", None, false).await })
    };
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
}

/// Between the last look and the rename itself a directory may go; what was put into it is taken out again.
#[tokio::test]
async fn what_is_renamed_into_a_directory_that_moves_is_put_back() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    for directory in [true, false] {
        std::fs::create_dir(root.join("d")).unwrap();
        if directory {
            std::fs::create_dir(root.join("a")).unwrap();
        } else {
            std::fs::write(root.join("a"), "a").unwrap();
        }
        let (from, to) = (root.join("d"), outside.clone());
        Hooks::set(&files.inner.hooks.create, move || std::fs::rename(from, to).unwrap());
        let error = files.rename("a", "d/b").await.unwrap_err();
        assert_eq!(refusal(error), reason::PATH_CHANGED);
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(root.join("a").is_dir(), directory);
        // Its old name is another's by now: it stays where it is, and nothing is lost.
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::remove_dir(&outside).unwrap();
        let (from, to, at) = (root.join("d"), outside.clone(), root.join("a"));
        Hooks::set(&files.inner.hooks.create, move || {
            std::fs::write(at, "theirs").unwrap();
            std::fs::rename(from, to).unwrap();
        });
        files.rename("a", "d/b").await.unwrap_err();
        assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "theirs");
        assert!(outside.join("b").exists());
        std::fs::remove_dir_all(&outside).unwrap();
        std::fs::remove_file(root.join("a")).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_replaces_nothing_in_a_directory_that_moves_is_taken_back() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    std::fs::create_dir(root.join("d")).unwrap();
    let (from, to) = (root.join("d"), outside.clone());
    Hooks::set(&files.inner.hooks.create, move || std::fs::rename(from, to).unwrap());
    let error = files.replace("d/a", b"a", None, false).await.unwrap_err();
    assert_eq!(refusal(error), reason::PATH_CHANGED);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

/// The directory that is emptied is left as it is once it is elsewhere, and what comes in its place too.
#[tokio::test]
async fn a_tree_that_moves_while_it_is_removed_is_left() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let outside = root.parent().unwrap().join("outside");
    for mode in 0..2 {
        let files = if mode == 0 { files.clone() } else { files.clone().without_openat2() };
        // The tree itself, and a directory of it, at each level that is come to.
        for (moved, at) in [("d", 0), ("d", 1), ("d", 2), ("d/e", 1), ("d/e", 2)] {
            for path in ["d/a", "d/e/a", "d/e/f/a"] {
                std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                std::fs::write(root.join(path), "a").unwrap();
            }
            let mut level = 0;
            let (from, to) = (root.join(moved), outside.clone());
            super::points::set(move |point| {
                if point == "level" {
                    if level == at {
                        std::fs::rename(&from, &to).unwrap();
                        std::fs::write(to.join("late"), "theirs").unwrap();
                    }
                    level += 1;
                }
            });
            let result = files.remove_dir_all("d").await;
            super::points::clear();
            assert!(result.is_err(), "{moved} at {at}");
            assert_eq!(std::fs::read_to_string(outside.join("late")).unwrap(), "theirs", "{moved} at {at}");
            // What was not come to yet is there still.
            let left = if moved == "d" { "e/f/a" } else { "f/a" };
            assert!(outside.join(left).exists(), "{moved} at {at}");
            std::fs::remove_dir_all(&outside).unwrap();
            let _ = std::fs::remove_dir_all(root.join("d"));
        }
    }
}

#[tokio::test]
async fn what_took_the_place_of_a_temporary_entry_is_left() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let precious = root.parent().unwrap().join("precious");
    for link in [true, false] {
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("p"), "p").unwrap();
        for made in [files.temp_file(b"t").await.unwrap(), files.temp_dir().await.unwrap()] {
            let path = PathBuf::from(made.path());
            let aside = root.join("aside");
            std::fs::rename(&path, &aside).unwrap();
            if link {
                symlink(&precious, &path).unwrap();
            } else {
                std::fs::rename(&precious, &path).unwrap();
            }
            drop(made);
            assert_eq!(std::fs::read_to_string(path.join("p")).unwrap(), "p");
            if link {
                std::fs::remove_file(&path).unwrap();
            } else {
                std::fs::rename(&path, &precious).unwrap();
            }
            let _ = std::fs::remove_file(&aside);
            let _ = std::fs::remove_dir(&aside);
        }
        std::fs::remove_dir_all(&precious).unwrap();
    }
}

/// Before each step that reads, writes, cuts or looks, the path has to name the file that was opened: at whichever of them
/// another file takes its name, that one is left alone, and nothing more is done to the first.
#[tokio::test]
async fn an_open_file_that_loses_its_name_is_let_go_at_the_next_step() {
    let (_dir, root) = workspace();
    let old = vec![b'o'; (2 << 20) + 10];
    let new = vec![b'n'; (3 << 20) + 10];
    for (mode, operation) in (0..2).flat_map(|mode| (0..6).map(move |operation| (mode, operation))) {
        let files = files(&root).await;
        let files = if mode == 0 { files } else { files.without_openat2() };
        let mut at = 0;
        loop {
            std::fs::write(root.join("a"), &old).unwrap();
            std::fs::write(root.join("new"), &new).unwrap();
            let (mut seen, from) = (0, root.clone());
            let done = std::rc::Rc::new(std::cell::Cell::new(false));
            let swapped = done.clone();
            super::points::set(move |point| {
                if point == "verified" {
                    if seen == at {
                        std::fs::rename(from.join("a"), from.join("first")).unwrap();
                        std::fs::write(from.join("a"), "theirs").unwrap();
                        swapped.set(true);
                    }
                    seen += 1;
                }
            });
            let result = match operation {
                0 => files.open("a").await.and_then(|file| file.read_to(1 << 23)).map(drop),
                1 => files.open("a").await.and_then(|file| file.stat().and_then(|_| file.stat())).map(drop),
                2 => files.write("a", &new).await.map(drop),
                3 => files.truncate("a", 5).await,
                4 => files.copy("new", "a").await.map(drop),
                _ => files.copy("a", "b").await.map(drop),
            };
            super::points::clear();
            if !done.get() {
                result.unwrap();
                break;
            }
            assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "theirs", "{operation} at {at}");
            match result {
                // It was the last look; what it allowed was done to the file that was looked at.
                Ok(()) => {}
                Err(error) => assert_eq!(refusal(error), reason::NO_LONGER_MATCHES, "{operation} at {at}"),
            }
            at += 1;
        }
        assert!(at > 0, "{operation}");
    }
}

#[tokio::test]
async fn a_copy_walks_as_its_workspace_does() {
    let (_dir, root) = workspace();
    let files = files(&root).await;
    let copy = root.parent().unwrap().join("copy");
    std::fs::create_dir(&copy).unwrap();
    assert_eq!(files.over(&copy).unwrap().inner.pins.has_openat2(), files.inner.pins.has_openat2());
    let files = files.without_openat2();
    assert!(!files.over(&copy).unwrap().over(&copy).unwrap().inner.pins.has_openat2());
}
