//! Volumes that fold names, played over a directory of this host.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::path::{child, is_inside, lexical, parent};
use super::super::{FileSystem, FsError, FsOptions, Stat};
use super::{Mounted, Volume, folded, on_disk, other_case};
use crate::flows::capability::CapabilityPattern;
use crate::flows::rules::{Effect, Rule};
use crate::fs::resolve::{ResolveError, Roots};
use crate::{
    Authority, GrantStore, GrantStoreOptions, MemoryPersist, PermissionError, SeededEntropy, Workspace,
};

/// A directory tree whose names answer to each spelling that folds to the same, as on the volumes of Windows and Apple.
#[derive(Debug)]
pub(crate) struct Folding {
    /// Below this everything folds.
    root: String,
    /// How: two names are one when this is equal.
    fold: fn(&str) -> String,
    /// Directories that do not list.
    closed: Vec<String>,
    /// Whether the listing has the inodes that files have.
    inodes: bool,
}

impl Folding {
    fn new(root: &Path, fold: fn(&str) -> String) -> Self {
        Folding { root: root.to_str().unwrap().to_owned(), fold, closed: Vec::new(), inodes: true }
    }

    /// The path as the disk under this volume spells it.
    fn real(&self, path: &str) -> String {
        if !is_inside(&self.root, path) {
            return path.to_owned();
        }
        let rest = path[self.root.len()..].split('/').filter(|part| !part.is_empty());
        rest.fold(self.root.clone(), |dir, part| {
            let wanted = (self.fold)(part);
            let listed = std::fs::read_dir(&dir).into_iter().flatten();
            let names = listed.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
            let mut alike: Vec<_> = names.filter(|name| (self.fold)(name) == wanted).collect();
            // A test may lay two names that such a volume would not; the exact one is meant then.
            alike.sort_by_key(|name| name != part);
            child(&dir, alike.first().map_or(part, |name| name))
        })
    }
}

impl Volume for Folding {
    fn stat(&self, path: &str) -> Result<Stat, Errno> {
        Mounted.stat(&self.real(path))
    }

    fn read_link(&self, path: &str) -> Result<Vec<u8>, Errno> {
        Mounted.read_link(&self.real(path))
    }

    fn list(&self, dir: &str) -> Result<Vec<(OsString, u64)>, Errno> {
        if self.closed.iter().any(|closed| closed == dir) {
            return Err(Errno::ACCESS);
        }
        let mut listing = Mounted.list(&self.real(dir))?;
        if !self.inodes {
            listing.iter_mut().for_each(|(_, ino)| *ino = ino.wrapping_add(1 << 40));
        }
        Ok(listing)
    }
}

/// Windows' short rules: no case, no blanks or dots at the end.
fn windows(name: &str) -> String {
    folded(name.trim_end_matches(['.', ' ']))
}

/// The file system of `ws` on a volume.
async fn files(ws: &Path, rules: &[&str], volume: impl Volume + 'static) -> FileSystem {
    let text = ws.to_str().unwrap();
    let mut options = GrantStoreOptions::new(ws, Arc::new(MemoryPersist::new())).unattended();
    options.configured = rules
        .iter()
        .map(|rule| {
            let rule = rule.replace("{ws}", text);
            let (effect, pattern) = rule.split_once(' ').unwrap();
            let effect = if effect == "deny" { Effect::Deny } else { Effect::Allow };
            Rule::new(effect, CapabilityPattern::parse(pattern).unwrap())
        })
        .collect();
    let store = GrantStore::open(options).await.unwrap();
    let workspace = Workspace::open(ws).unwrap();
    let entropy = Arc::new(SeededEntropy::new(7));
    let files = FileSystem::new(Authority::root(store), workspace, FsOptions::default(), entropy).unwrap();
    files.on(Arc::new(volume))
}

fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().canonicalize().unwrap().join("ws");
    std::fs::create_dir(&ws).unwrap();
    (dir, ws)
}

fn put(ws: &Path, path: &str, text: &str) {
    std::fs::create_dir_all(ws.join(path).parent().unwrap()).unwrap();
    std::fs::write(ws.join(path), text).unwrap();
}

fn denied<T: std::fmt::Debug>(result: Result<T, FsError>) -> String {
    match result {
        Err(FsError::Permission(PermissionError::Denied(denied))) => {
            assert_eq!(denied.reason, "denied by policy");
            denied.capability.to_string()
        }
        other => panic!("not denied: {other:?}"),
    }
}

fn required<T: std::fmt::Debug>(result: Result<T, FsError>) -> String {
    match result {
        Err(FsError::Permission(PermissionError::Required(required))) => required.capability.to_string(),
        other => panic!("not a requirement: {other:?}"),
    }
}

/// What is on disk, and spellings of it that a volume may answer to.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("Secret", &["SECRET", "secret", "sECRET", "\u{17f}ecret", "\u{17f}ECRET"]),
    ("Key", &["KEY", "\u{212a}ey", "\u{212a}EY"]),
    // The one on disk is the odd one.
    ("\u{17f}ealed", &["sealed", "SEALED", "Sealed"]),
    ("stra\u{df}e", &["STRASSE", "strasse", "Stra\u{1e9e}e"]),
    ("\u{c9}tude", &["\u{e9}tude", "\u{e9}TUDE"]),
    ("\u{e9}", &["\u{c9}"]),
    ("\u{3c3}\u{3c2}", &["\u{3a3}\u{3a3}", "\u{3c3}\u{3c3}"]),
    ("\u{130}zmir", &["i\u{307}zmir", "I\u{307}ZMIR"]),
    (".git", &[".GIT", ".Git", ".gIT"]),
];

#[tokio::test]
async fn a_rule_is_not_got_around_by_another_spelling() {
    for mode in 0..2 {
        let (_dir, ws) = workspace();
        for (name, _) in SPELLINGS {
            put(&ws, &format!("{name}/x"), "secret");
        }
        let mut rules = vec!["allow fs:*:{ws}/**".to_owned()];
        rules.extend(SPELLINGS.iter().map(|(name, _)| format!("deny fs:*:{{ws}}/{name}/**")));
        let rules: Vec<_> = rules.iter().map(String::as_str).collect();
        let mut guarded = files(&ws, &rules, Folding::new(&ws, folded)).await;
        let mut open = files(&ws, &[], Folding::new(&ws, folded)).await;
        if mode == 1 {
            (guarded, open) = (guarded.without_openat2(), open.without_openat2());
        }
        for (name, spellings) in SPELLINGS {
            for other in std::iter::once(name).chain(*spellings) {
                let asked = |action: &str, rest: &str| format!("fs:{action}:{}/{name}/{rest}", ws.display());
                for path in [format!("{other}/x"), format!("{other}/X"), format!("./{other}//x")] {
                    assert_eq!(denied(guarded.read(&path, 9).await), asked("read", "x"), "{path}");
                    assert_eq!(denied(guarded.write(&path, b"").await), asked("write", "x"), "{path}");
                    assert_eq!(denied(guarded.replace(&path, b"", None, true).await), asked("write", "x"));
                    assert_eq!(denied(guarded.remove(&path).await), asked("write", "x"), "{path}");
                    assert_eq!(denied(guarded.symlink_metadata(&path).await), asked("read", "x"), "{path}");
                    assert_eq!(denied(guarded.copy("none", &path).await), asked("write", "x"), "{path}");
                    assert!(!guarded.permitted(&path), "{path}");
                    // And an allow is asked for in the disk's own words.
                    assert_eq!(required(open.read(&path, 9).await), asked("read", "x"), "{path}");
                    assert_eq!(required(open.rename(&path, "z").await), asked("write", "x"), "{path}");
                }
                // What is not there yet is asked for as given, below what is.
                let new = format!("{other}/New");
                assert_eq!(
                    denied(guarded.create_new(&new, b"", 0o600).await),
                    asked("write", "New"),
                    "{new}"
                );
                assert_eq!(required(open.make_dirs(&format!("{new}/Er")).await), asked("write", "New/Er"));
            }
        }
    }
}

#[tokio::test]
async fn what_is_granted_is_reached_by_each_spelling() {
    let (_dir, ws) = workspace();
    for (name, _) in SPELLINGS {
        put(&ws, &format!("{name}/File"), name);
    }
    symlink("SECRET/file", ws.join("Link")).unwrap();
    symlink("Secret", ws.join("\u{130}link")).unwrap();
    for files in [
        files(&ws, &["allow fs:*:{ws}/**"], Folding::new(&ws, folded)).await,
        files(&ws, &["allow fs:*:{ws}/**"], Folding::new(&ws, folded)).await.without_openat2(),
    ] {
        for (name, spellings) in SPELLINGS {
            for other in *spellings {
                let path = format!("{other}/FILE");
                assert_eq!(files.read(&path, 99).await.unwrap().0, name.as_bytes(), "{path}");
                let own = format!("{}/{name}/File", ws.display());
                assert_eq!(files.canonicalize(&path).await.unwrap(), own);
                // Resolving what was resolved changes nothing.
                assert_eq!(files.canonicalize(&own).await.unwrap(), own);
                files.replace(&path, name.as_bytes(), None, false).await.unwrap();
                assert_eq!(files.create_new(&path, b"", 0o600).await, Err(FsError::Exists));
            }
            assert_eq!(std::fs::read_dir(ws.join(name)).unwrap().count(), 1);
        }
        // Links are read by any spelling, and so is what their text says.
        for path in ["link", "LINK"] {
            assert_eq!(files.read(path, 99).await.unwrap().0, b"Secret");
        }
        assert_eq!(files.read("i\u{307}LINK/file", 99).await.unwrap().0, b"Secret");
        assert_eq!(files.read_link("LINK").await.unwrap(), Path::new("SECRET/file"));
        // A change of case alone is no change: both are the same name.
        files.rename("SECRET", "secret").await.unwrap();
        assert!(ws.join("Secret/File").exists());
    }
}

/// Before anything of a name is on disk nothing says how it is spelled; from then on its first spelling is it.
#[tokio::test]
async fn a_name_that_comes_to_be_is_asked_for_as_it_came() {
    let (_dir, ws) = workspace();
    let files = files(&ws, &["allow fs:*:{ws}/**"], Folding::new(&ws, folded)).await;
    let own = |path: &str| format!("{}/{path}", ws.display());
    assert_eq!(
        files.capability(crate::flows::capability::Action::FsWrite, "NEW/x", true).unwrap().resource(),
        own("NEW/x")
    );
    files.replace("New/x", b"x", None, true).await.unwrap();
    assert_eq!(files.canonicalize("NEW/X").await.unwrap(), own("New/x"));
    // One that comes while permission is pending, in another spelling, is another answer.
    let target = files.target(crate::flows::capability::Action::FsWrite, "LATE/x", true).unwrap();
    put(&ws, "Late/x", "theirs");
    assert!(files.confirm(&target).is_err());
    assert_eq!(files.make_dirs("LATE").await, Ok(false));
}

#[tokio::test]
async fn dots_and_blanks_that_a_volume_drops_are_no_way_around() {
    let (_dir, ws) = workspace();
    put(&ws, "Secret/x", "secret");
    put(&ws, "12/x", "secret");
    let rules = ["allow fs:*:{ws}/**", "deny fs:*:{ws}/Secret/**", "deny fs:*:{ws}/12/**"];
    let files = files(&ws, &rules, Folding::new(&ws, windows)).await;
    for name in ["Secret", "Secret.", "secret...", "SECRET ", "Secret. ."] {
        assert_eq!(
            denied(files.read(&format!("{name}/x"), 9).await),
            format!("fs:read:{}/Secret/x", ws.display())
        );
    }
    for name in ["12", "12.", "12 ", "12. "] {
        assert_eq!(
            denied(files.read(&format!("{name}/x."), 9).await),
            format!("fs:read:{}/12/x", ws.display())
        );
    }
}

/// The second, short names of Windows: a letter or none in them.
#[tokio::test]
async fn short_names_are_no_way_around() {
    fn short(name: &str) -> String {
        match name {
            "SECRET~1" | "secret~1" => "secrets of many".to_owned(),
            "1234~1" => "1234 5678".to_owned(),
            name => folded(name),
        }
    }
    let (_dir, ws) = workspace();
    put(&ws, "Secrets of many/x", "secret");
    put(&ws, "1234 5678/x", "secret");
    let rules = ["allow fs:*:{ws}/**", "deny fs:*:{ws}/Secrets*", "deny fs:*:{ws}/1234 *"];
    let files = files(&ws, &rules, Folding::new(&ws, short)).await;
    for name in ["SECRET~1", "secret~1", "1234~1"] {
        denied(files.read(&format!("{name}/x"), 9).await);
    }
}

/// A volume that folds Unicode forms and minds case, as those of some hosts do.
#[tokio::test]
async fn unicode_forms_are_no_way_around() {
    fn composed(name: &str) -> String {
        name.replace("e\u{301}", "\u{e9}")
            .replace("\u{1112}\u{1161}\u{11ab}", "\u{d55c}")
            .replace('\u{200d}', "")
    }
    let (_dir, ws) = workspace();
    for name in ["caf\u{e9}", "\u{d55c}", "e\u{301}t\u{e9}", "\u{65e5}\u{672c}"] {
        put(&ws, &format!("{name}/x"), "secret");
    }
    let rules = ["allow fs:*:{ws}/plain/**", "deny fs:*:{ws}/**"];
    let files = files(&ws, &rules, Folding::new(&ws, composed)).await;
    for (given, name) in [
        ("cafe\u{301}", "caf\u{e9}"),
        ("caf\u{e9}", "caf\u{e9}"),
        ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
        ("\u{e9}t\u{e9}", "e\u{301}t\u{e9}"),
        ("\u{65e5}\u{200d}\u{672c}", "\u{65e5}\u{672c}"),
    ] {
        let own = format!("fs:read:{}/{name}/x", ws.display());
        assert_eq!(denied(files.read(&format!("{given}/x"), 9).await), own);
    }
}

#[test]
fn what_the_listing_does_not_say_is_refused() {
    let (_dir, ws) = workspace();
    let root = ws.to_str().unwrap();
    put(&ws, "Secret/x", "secret");
    put(&ws, "One", "1");
    std::fs::hard_link(ws.join("One"), ws.join("Two")).unwrap();
    let roots = |volume: Folding| Roots::new(root, root, None).on(Arc::new(volume));
    let at = |roots: &Roots, path: &str| roots.resolve(&child(root, path), true);
    // A directory that does not list, on a volume that shows that it folds.
    let mut closed = Folding::new(&ws, folded);
    closed.closed.push(root.to_owned());
    let closed = roots(closed);
    assert_eq!(at(&closed, "SECRET/x"), Err(ResolveError::Host(Errno::ACCESS)));
    assert_eq!(at(&closed, "Secret/x"), Err(ResolveError::Host(Errno::ACCESS)));
    assert_eq!(at(&closed, "12").unwrap().resource, child(root, "12"));
    // Inodes that are not those of the files: the name decides.
    let mut strange = Folding::new(&ws, folded);
    strange.inodes = false;
    let strange = roots(strange);
    assert_eq!(at(&strange, "SECRET/X").unwrap().resource, child(root, "Secret/x"));
    // Two names of one file, and a spelling that is like neither.
    fn numbered(name: &str) -> String {
        if name == "NR.1" || name == "nr.1" { "one".to_owned() } else { folded(name) }
    }
    let numbered = roots(Folding::new(&ws, numbered));
    assert_eq!(at(&numbered, "NR.1"), Err(ResolveError::Spelling));
    assert_eq!(at(&numbered, "ONE").unwrap().resource, child(root, "One"));
    assert_eq!(at(&numbered, "TWO").unwrap().resource, child(root, "Two"));
}

/// Rules that name another spelling than the disk's get their resolved twin by the same resolution.
#[test]
fn a_rule_s_own_text_resolves_to_the_disk_s_spelling() {
    let (_dir, ws) = workspace();
    put(&ws, "Secret/x", "secret");
    let root = ws.to_str().unwrap();
    let roots = Roots::new(root, root, None).on(Arc::new(Folding::new(&ws, folded)));
    assert_eq!(roots.resolve(&child(root, "SECRET"), true).unwrap().resource, child(root, "Secret"));
    assert_eq!(
        roots.resolve(&child(root, "\u{17f}ecret/NEW"), true).unwrap().resource,
        child(root, "Secret/NEW")
    );
    assert_eq!(parent(&lexical("/", root)), parent(root));
}

/// Another spelling of the workspace's own path is no way around a copy.
#[tokio::test]
async fn a_copy_stands_for_each_spelling_of_the_workspace() {
    let (dir, ws) = workspace();
    put(&ws, "a", "live");
    let out = dir.path().canonicalize().unwrap();
    put(&out, "copy/a", "old");
    let files = files(&ws, &["allow fs:*:/**"], Mounted).await;
    let view = files.over(out.join("copy")).unwrap().on(Arc::new(Folding::new(&out, folded)));
    for path in ["a".to_owned(), format!("{}/WS/a", out.display()), format!("{}/Ws/A", out.display())] {
        assert_eq!(view.read(&path, 9).await.unwrap().0, b"old", "{path}");
        assert_eq!(view.canonicalize(&path).await.unwrap(), format!("{}/a", ws.display()));
    }
}

#[test]
fn spelling_is_taken_from_the_listing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("Cargo"), "x").unwrap();
    let stat = Mounted.stat(&child(root, "Cargo")).unwrap();
    assert_eq!(on_disk(&Mounted, root, "Cargo", &stat).unwrap(), "Cargo");
    // Two names of one inode that differ in case are two names on a volume that does not fold.
    std::fs::hard_link(dir.path().join("Cargo"), dir.path().join("cARGO")).unwrap();
    assert_eq!(on_disk(&Mounted, root, "cARGO", &stat).unwrap(), "cARGO");
    for (name, other, fold) in [
        ("Cargo", "cARGO", "cargo"),
        ("\u{e9}", "\u{e9}", "\u{e9}"),
        ("a\u{c9}", "A\u{c9}", "a\u{e9}"),
        ("1.2", "1.2", "1.2"),
        ("\u{17f}\u{212a}", "\u{17f}\u{212a}", "sk"),
        ("\u{df}", "\u{df}", "ss"),
    ] {
        assert_eq!((other_case(name).as_str(), folded(name).as_str()), (other, fold), "{name}");
    }
}
