//! A swap at each moment between two steps.

use std::cell::Cell;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::{FsError, points};
use super::table::{Eyes, OPERATIONS};
use super::{World, exchange, full_volume, grow_inside};

/// One combination in so many, on every change.
const STRIDE: usize = 19;

/// What changes places with what. `{out}` and `{alt}` are the directories of the world; the text is that of the link that
/// comes, and the last directory of `{alt}/moved` is the one that goes.
const SWAPS: &[(&str, &str)] = &[
    // A directory on the way: by a link out of the workspace, to what is not granted in it, to the parent, to nothing.
    ("a/d", "{out}/outside/a/d"),
    ("a/d", "../b/d"),
    ("a/d", "../../outside/none"),
    ("a", "{out}/outside/a"),
    // The last component.
    ("a/d/f", "{out}/outside/a/d/f"),
    ("a/d/n", "{out}/outside/a/d/new"),
    ("a/d/sub", "{out}/outside/a/d/sub"),
    // The directory itself goes out, and a link to it comes.
    ("a/d", "{alt}/moved"),
    // The workspace root.
    ("", "{out}/outside"),
];

struct Swap {
    at: PathBuf,
    alt: PathBuf,
    text: String,
}

impl Swap {
    fn new(world: &World, root: &Path, (at, text): (&str, &str)) -> Self {
        let alt = world.out.join("alt");
        let text = text.replace("{out}", world.out.to_str().unwrap()).replace("{alt}", alt.to_str().unwrap());
        let at = if at.is_empty() { root.to_owned() } else { root.join(at) };
        Swap { at, alt: alt.join("moved"), text }
    }

    /// Puts the link where the swap will take it from.
    fn prepare(&self) {
        let _ = std::fs::remove_file(&self.alt);
        let _ = std::fs::remove_dir_all(&self.alt);
        symlink(&self.text, &self.alt).unwrap();
    }

    fn run(&self) -> bool {
        let cwd = rustix::fs::CWD;
        exchange((cwd, self.at.to_str().unwrap()), (cwd, self.alt.to_str().unwrap()))
    }
}

/// Runs an operation and swaps at the moment `at`; back at the next one, with `back`. `None` when it was over before.
fn landed(swap: &Rc<Swap>, at: usize, back: bool, run: impl FnOnce()) -> Option<usize> {
    let (moment, swaps) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    points::set({
        let (moment, swaps, swap) = (moment.clone(), swaps.clone(), swap.clone());
        move |_| {
            let now = moment.replace(moment.get() + 1);
            if (now == at || (back && now == at + 1)) && swap.run() {
                swaps.set(swaps.get() + 1);
            }
        }
    });
    run();
    points::clear();
    (moment.get() > at).then_some(swaps.get())
}

fn each_step(world: &World, root: &Path, copy: Option<&Path>, stride: usize) -> (usize, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let granted = world.ws.join("a").to_str().unwrap().to_owned();
    let eyes = Eyes { outside: &world.outside, granted: &granted };
    let (mut operations, mut swaps, mut nth) = (0, 0, 0usize);
    for files in runtime.block_on(world.files(copy)) {
        for (operation, path) in OPERATIONS {
            grow_inside(root);
            runtime.block_on(eyes.run(&files, operation, path)).unwrap();
            for swap in SWAPS.iter().map(|swap| Rc::new(Swap::new(world, root, *swap))) {
                let mut at = 0;
                loop {
                    nth += 1;
                    if !nth.is_multiple_of(stride) {
                        // Past the last moment of the longest operation.
                        at += 1;
                        if at > 400 {
                            break;
                        }
                        continue;
                    }
                    grow_inside(root);
                    swap.prepare();
                    let back = (nth / stride).is_multiple_of(3);
                    let hit = landed(&swap, at, back, || {
                        let result = runtime.block_on(eyes.run(&files, operation, path));
                        let refused = matches!(result, Err(FsError::AccessDenied { .. }));
                        assert!(!refused, "{operation}: {result:?}");
                    });
                    operations += 1;
                    if root.is_symlink() {
                        assert!(swap.run());
                    }
                    world.outside.check(|| format!("{operation}, {:?} at {at}", swap.at));
                    let Some(hit) = hit else { break };
                    swaps += hit;
                    at += 1;
                }
            }
        }
    }
    (operations, swaps)
}

#[test]
fn a_swap_between_any_two_steps_reaches_nothing_outside() {
    let stride = if full_volume() { 1 } else { STRIDE };
    let world = World::new();
    let (operations, swaps) = each_step(&world, &world.ws, None, stride);
    println!("measured: swaps between steps: {operations} operations, {swaps} swaps inside one");
    assert!(swaps >= if full_volume() { 10_000 } else { 500 }, "{swaps}");
    assert_eq!(std::fs::read_dir(world.out.join("temp")).unwrap().count(), 0);
}

/// The same over a copy: the workspace itself is outside then.
#[test]
fn a_swap_between_any_two_steps_over_a_copy_reaches_nothing_outside() {
    let stride = if full_volume() { 3 } else { STRIDE };
    let mut world = World::new();
    let live = world.ws.join("a");
    world.outside.grow(&live);
    let copy = world.out.join("copy");
    std::fs::create_dir(&copy).unwrap();
    let (operations, swaps) = each_step(&world, &copy, Some(&copy), stride);
    println!("measured: swaps between steps over a copy: {operations} operations, {swaps} swaps inside one");
    assert!(swaps >= if full_volume() { 2_000 } else { 100 }, "{swaps}");
}
