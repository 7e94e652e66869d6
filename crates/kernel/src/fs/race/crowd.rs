//! Operations against a renamer and link swappers that never stop.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};

use super::super::pin::{LIST, open_entry};
use super::super::{FileSystem, FsError};
use super::table::{Eyes, OPERATIONS};
use super::{World, exchange, full_volume, grow_inside};
use crate::{Entropy, SeededEntropy};

/// What is swapped with what: a name in the root or in `a`, with a name in `alt`, or with another name in `a`; and the
/// text of the link that is kept in `alt`.
const LINKS: &[(&str, &str, &str)] = &[
    ("d", "d-out", "{out}/outside/a/d"),
    ("d", "d-in", "../b/d"),
    ("d", "d-moved", "{out}/alt/d-moved"),
    ("e", "e-up", ".."),
    ("f", "f-out", "{out}/outside/a/f"),
    ("n", "n-none", "{out}/outside/a/new"),
    ("r", "r-out", "../../outside/a"),
];
const RENAMES: &[(&str, &str)] = &[("d", "e"), ("e", "r"), ("f", "n")];
/// Between two pairs of swaps.
const PACE: Duration = Duration::from_micros(20);
/// Where operations go.
const PATHS: &[&str] = &[
    "a/d/f",
    "a/d/g",
    "a/d/n",
    "a/d/sub/g",
    "a/d/sub",
    "a/d",
    "a/e",
    "a/e/f",
    "a/f",
    "a/n",
    "a/r",
    "a/r/f",
    "a/r/n/m",
    "a/d/l",
    "a/e/d/f",
];

/// Swaps that one thread ended, and whether one is under way. What an operation counts as inside it began after the
/// operation did and ended before it did.
#[derive(Default)]
struct Swaps {
    ended: AtomicUsize,
    under_way: AtomicBool,
}

impl Swaps {
    fn count(&self, swap: impl FnOnce() -> bool) {
        self.under_way.store(true, Ordering::SeqCst);
        if swap() {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        self.under_way.store(false, Ordering::SeqCst);
    }

    /// How many there were before anything that begins now, one that is under way included.
    fn before(&self) -> usize {
        let under_way = self.under_way.load(Ordering::SeqCst);
        self.ended.load(Ordering::SeqCst) + usize::from(under_way)
    }
}

/// The real directories, held open: whatever their names lead to, what is done through these is inside.
struct Held {
    root: OwnedFd,
    a: OwnedFd,
    alt: OwnedFd,
}

impl Held {
    fn open(world: &World, root: &Path) -> Self {
        let open = |path: &Path| rustix::fs::openat(CWD, path, LIST, Mode::empty()).unwrap();
        Held { root: open(root), a: open(&root.join("a")), alt: open(&world.out.join("alt")) }
    }

    /// Makes again what operations took away: directories, files, and the links that are kept aside.
    fn mend(&self, out: &str) {
        for name in ["d", "e", "r"] {
            let _ = rustix::fs::mkdirat(&self.a, name, Mode::from(0o755));
            let Ok(dir) = open_entry(std::os::fd::AsFd::as_fd(&self.a), name.as_ref(), LIST, Mode::empty())
            else {
                continue;
            };
            let _ = rustix::fs::mkdirat(&dir, "sub", Mode::from(0o755));
            let _ = rustix::fs::symlinkat("g", &dir, "l");
            ["f", "g"].iter().for_each(|name| put(&dir, name));
            if let Ok(sub) = open_entry(std::os::fd::AsFd::as_fd(&dir), "sub".as_ref(), LIST, Mode::empty()) {
                put(&sub, "g");
            }
        }
        put(&self.a, "f");
        let _ = rustix::fs::symlinkat(format!("{out}/outside/a"), &self.alt, "a-out");
        for (_, kept, text) in LINKS {
            let _ = rustix::fs::symlinkat(text.replace("{out}", out), &self.alt, *kept);
        }
    }
}

fn put(dir: &OwnedFd, name: &str) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(dir, name, flags, Mode::from(0o644)) {
        let _ = rustix::io::write(file, b"inside");
    }
}

fn draw(entropy: &SeededEntropy) -> usize {
    let mut bytes = [0u8; 2];
    entropy.fill(&mut bytes);
    usize::from(u16::from_le_bytes(bytes))
}

/// What became of the operations.
#[derive(Default)]
struct Tally {
    operations: AtomicUsize,
    inside: AtomicUsize,
    hit: Vec<AtomicUsize>,
    done: Vec<AtomicUsize>,
}

struct Volume {
    operations: usize,
    inside: usize,
}

fn crowd(world: &World, root: &Path, copy: Option<&Path>, volume: &Volume) -> Tally {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let files = runtime().block_on(world.files(copy));
    let counts = || OPERATIONS.iter().map(|_| AtomicUsize::new(0)).collect::<Vec<_>>();
    let tally = Tally { hit: counts(), done: counts(), ..Tally::default() };
    let granted = world.ws.join("a").to_str().unwrap().to_owned();
    let held = Held::open(world, root);
    held.mend(world.out.to_str().unwrap());
    let (links, renames) = (Swaps::default(), Swaps::default());
    let stop = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(if full_volume() { 500 } else { 45 });
    let enough = || {
        let counted = [&tally.operations, &tally.inside].map(|count| count.load(Ordering::Relaxed));
        stop.load(Ordering::Relaxed)
            || Instant::now() > until
            || (counted[0] >= volume.operations && counted[1] >= volume.inside)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let entropy = SeededEntropy::new(11);
            while !enough() {
                let (name, kept, _) = LINKS[draw(&entropy) % LINKS.len()];
                // There and back, so that most operations have something to work on; or the way to all of them.
                let way = draw(&entropy).is_multiple_of(5);
                for _ in 0..2 {
                    links.count(|| match way {
                        true => exchange((&held.root, "a"), (&held.alt, "a-out")),
                        false => exchange((&held.a, name), (&held.alt, kept)),
                    });
                    std::thread::yield_now();
                }
                std::thread::sleep(PACE);
            }
        });
        scope.spawn(|| {
            let entropy = SeededEntropy::new(12);
            while !enough() {
                let (left, right) = RENAMES[draw(&entropy) % RENAMES.len()];
                for _ in 0..2 {
                    renames.count(|| exchange((&held.a, left), (&held.a, right)));
                    std::thread::yield_now();
                }
                held.mend(world.out.to_str().unwrap());
                std::thread::sleep(PACE);
            }
        });
        let workers: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(seed, files)| {
                let (enough, tally, granted, swaps) = (&enough, &tally, &granted, [&links, &renames]);
                let stop = &stop;
                scope.spawn(move || {
                    let _stop = StopOnPanic(stop);
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let eyes = Eyes { outside: &world.outside, granted };
                    let entropy = SeededEntropy::new(seed as u64);
                    while !enough() {
                        one(&runtime, &eyes, files, &entropy, tally, swaps);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().is_ok()).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(ended, [true, true], "an operation showed what is outside");
    });
    world.outside.check(|| "with everybody".to_owned());
    tally
}

/// Ends the others when this thread fails.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn one(
    runtime: &tokio::runtime::Runtime,
    eyes: &Eyes<'_>,
    files: &FileSystem,
    entropy: &SeededEntropy,
    tally: &Tally,
    swaps: [&Swaps; 2],
) {
    let nth = draw(entropy) % OPERATIONS.len();
    let (operation, usual) = OPERATIONS[nth];
    let path = if draw(entropy).is_multiple_of(3) { usual } else { PATHS[draw(entropy) % PATHS.len()] };
    let before = swaps.map(Swaps::before);
    let result = runtime.block_on(eyes.run(files, operation, path));
    let ended = swaps.map(|swaps| swaps.ended.load(Ordering::SeqCst));
    let inside: usize = ended.iter().zip(before).map(|(ended, before)| ended.saturating_sub(before)).sum();
    match result {
        Ok(()) => drop(tally.done[nth].fetch_add(1, Ordering::Relaxed)),
        Err(error) => assert!(!matches!(error, FsError::AccessDenied { .. }), "{operation} {path}: {error}"),
    }
    if inside > 0 {
        tally.hit[nth].fetch_add(1, Ordering::Relaxed);
    }
    tally.inside.fetch_add(inside, Ordering::Relaxed);
    tally.operations.fetch_add(1, Ordering::Relaxed);
}

fn report(name: &str, tally: &Tally) {
    let [operations, inside] = [&tally.operations, &tally.inside].map(|count| count.load(Ordering::Relaxed));
    let hit: usize = tally.hit.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    let done: usize = tally.done.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    println!(
        "measured: {name}: {operations} operations, {done} of them done and the others refused, {inside} swaps inside an \
         operation, in {hit} operations"
    );
}

#[test]
fn nothing_outside_is_touched_with_a_renamer_and_a_link_swapper() {
    let volume = match full_volume() {
        true => Volume { operations: 100_000, inside: 1_000 },
        false => Volume { operations: 1_500, inside: 30 },
    };
    let world = World::new();
    grow_inside(&world.ws);
    let tally = crowd(&world, &world.ws, None, &volume);
    report("a renamer and a link swapper", &tally);
    assert!(tally.operations.load(Ordering::Relaxed) >= volume.operations);
    assert!(tally.inside.load(Ordering::Relaxed) >= volume.inside);
    if full_volume() {
        for (nth, (operation, _)) in OPERATIONS.iter().enumerate() {
            assert!(tally.hit[nth].load(Ordering::Relaxed) > 0, "no swap inside {operation}");
            assert!(tally.done[nth].load(Ordering::Relaxed) > 0, "{operation} was never done");
        }
    }
    assert_eq!(std::fs::read_dir(world.out.join("temp")).unwrap().count(), 0);
    let mut todo = vec![world.out.join("ws"), world.out.join("alt")];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            assert!(!entry.file_name().to_string_lossy().ends_with(".tmp"), "{entry:?}");
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            }
        }
    }
}

#[test]
fn nothing_outside_a_copy_is_touched_with_a_renamer_and_a_link_swapper() {
    let volume = match full_volume() {
        true => Volume { operations: 20_000, inside: 200 },
        false => Volume { operations: 500, inside: 10 },
    };
    let mut world = World::new();
    let live = world.ws.join("a");
    world.outside.grow(&live);
    let copy = world.out.join("copy");
    std::fs::create_dir(&copy).unwrap();
    grow_inside(&copy);
    let tally = crowd(&world, &copy, Some(&copy), &volume);
    report("a renamer and a link swapper over a copy", &tally);
    assert!(tally.operations.load(Ordering::Relaxed) >= volume.operations);
    assert!(tally.inside.load(Ordering::Relaxed) >= volume.inside);
}
