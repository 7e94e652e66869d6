//! Two peers, one case: planting, asking, comparing, shrinking.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::call::{Call, WORKSPACE};
use super::census;
use super::random::Random;
use super::report::{Answer, Difference, Known, Report};
use super::shrink;
use super::tree::Tree;
use crate::kernel::flows::capability::CapabilityPattern;
use crate::kernel::flows::rules::{Effect, Rule};
use crate::kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist,
    SeededEntropy, SystemClock, Workspace,
};
use crate::search::Search;

/// Differences after which a run stops.
pub const MOST_DIFFERENCES: usize = 10;
/// Comparisons that shrinking one difference may take.
const MOST_SHRINKS: usize = 600;

/// The differential kit: the same calls on the same trees to a reference and to a peer.
///
/// ```
/// use std::sync::Arc;
///
/// use flowcell_search::Engine;
/// use flowcell_search::conformance::SearchConformance;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let scratch = tempfile::tempdir()?;
/// let kit = SearchConformance::new(Arc::new(Engine::default()), Arc::new(Engine::default()), scratch.path());
/// let report = kit.run(7, 20).await?;
/// assert_eq!((report.cases, report.differences.len()), (20, 0));
/// # Ok(())
/// # }
/// ```
pub struct SearchConformance {
    reference: Arc<dyn Search>,
    peer: Arc<dyn Search>,
    scratch: PathBuf,
    known: Vec<Known>,
    locks: bool,
}

/// A tree on disk, with the context of calls in it. Dropped, it is taken away.
#[derive(Debug)]
pub struct Plot {
    home: PathBuf,
    tree: Tree,
    /// The context: everything in the workspace may be read but what the tree denies.
    pub cx: CallContext,
}

impl SearchConformance {
    /// Compares `peer` with `reference` on trees that are planted in the directory `scratch`, one after the other.
    pub fn new(reference: Arc<dyn Search>, peer: Arc<dyn Search>, scratch: impl Into<PathBuf>) -> Self {
        let scratch = scratch.into();
        let locks = locks_hold(&scratch);
        Self { reference, peer, scratch, known: Vec::new(), locks }
    }

    /// Names the differences that the contract decides against the peer.
    #[must_use]
    pub fn knowing(mut self, known: impl IntoIterator<Item = Known>) -> Self {
        self.known.extend(known);
        self
    }

    /// Whether mode bits keep this process out of a file; unreadable entries are shown only then.
    pub fn locks_hold(&self) -> bool {
        self.locks
    }

    /// The case of a number: one seed and number give the same tree and call everywhere.
    pub fn case(seed: u64, number: u64) -> (Tree, Call) {
        let mut random = Random::new(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let theme = usize::try_from(number % super::grow::THEMES as u64).unwrap_or(0);
        let tree = Tree::of_theme(&mut random, theme);
        let call = Call::random(&mut random, &tree);
        (tree, call)
    }

    /// Asks both peers. `None` when they agree, else what each answered, as it is.
    ///
    /// # Errors
    ///
    /// The tree could not be planted or taken away.
    pub async fn compare(&self, tree: &Tree, call: &Call) -> io::Result<Option<Difference>> {
        let plot = Plot::new(&self.scratch, tree).await?;
        let (reference, peer) = self.ask(&plot, call).await;
        Ok(self.judge(tree, call, &reference, &peer))
    }

    /// Compares on `cases` random trees and calls of `seed`.
    ///
    /// # Errors
    ///
    /// As [`compare`](Self::compare).
    pub async fn run(&self, seed: u64, cases: u64) -> io::Result<Report> {
        let mut report = Report::default();
        for number in 0..cases {
            let (tree, call) = Self::case(seed, number);
            let plot = Plot::new(&self.scratch, &tree).await?;
            let (reference, peer) = self.ask(&plot, &call).await;
            drop(plot);
            report.cases += 1;
            report.matched += u64::from(reference.found());
            report.failed += u64::from(matches!(reference, Answer::Glob(Err(_)) | Answer::Grep(Err(_))));
            report.coverage.add(census::hits(&tree, &call, self.locks));
            if reference.text() == peer.text() {
                continue;
            }
            if let Some(known) =
                self.known.iter().find(|known| (known.applies)(&tree, &call, &reference, &peer))
            {
                *report.known.entry(known.name).or_default() += 1;
                continue;
            }
            let mut small = self.shrink(tree, call).await?;
            small.case = number;
            report.differences.push(small);
            if report.differences.len() >= MOST_DIFFERENCES {
                break;
            }
        }
        Ok(report)
    }

    /// The smallest tree and call found on which the answers still differ.
    ///
    /// # Errors
    ///
    /// As [`compare`](Self::compare); [`io::ErrorKind::InvalidInput`] when they do not differ.
    pub async fn shrink(&self, tree: Tree, call: Call) -> io::Result<Difference> {
        let agree = || io::Error::new(io::ErrorKind::InvalidInput, "the answers do not differ a second time");
        let mut least = self.compare(&tree, &call).await?.ok_or_else(agree)?;
        let mut left = MOST_SHRINKS;
        'again: loop {
            for (tree, call) in shrink::smaller(&least.tree, &least.call) {
                let Some(next) = left.checked_sub(1) else { break 'again };
                left = next;
                if let Some(smaller) = self.compare(&tree, &call).await? {
                    least = smaller;
                    continue 'again;
                }
            }
            break;
        }
        Ok(least)
    }

    async fn ask(&self, plot: &Plot, call: &Call) -> (Answer, Answer) {
        (plot.ask(self.reference.as_ref(), call).await, plot.ask(self.peer.as_ref(), call).await)
    }

    fn judge(&self, tree: &Tree, call: &Call, reference: &Answer, peer: &Answer) -> Option<Difference> {
        let (left, right) = (reference.text(), peer.text());
        if left == right || self.known.iter().any(|known| (known.applies)(tree, call, reference, peer)) {
            return None;
        }
        Some(Difference { case: 0, tree: tree.clone(), call: call.clone(), reference: left, peer: right })
    }
}

impl fmt::Debug for SearchConformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchConformance").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

impl Plot {
    /// Plants `tree` in the directory `scratch`.
    ///
    /// # Errors
    ///
    /// What the host answers.
    pub async fn new(scratch: &Path, tree: &Tree) -> io::Result<Self> {
        let home = scratch.join("case");
        let workspace = home.join("ws");
        fs::create_dir_all(&workspace)?;
        let cx = match tree.plant(&workspace) {
            Ok(()) => context(&workspace, tree).await,
            Err(error) => Err(error),
        };
        match cx {
            Ok(cx) => Ok(Self { home, tree: tree.clone(), cx }),
            Err(error) => {
                tree.unlock(&workspace);
                fs::remove_dir_all(&home)?;
                Err(error)
            }
        }
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.home.join("ws")
    }

    /// The answer of `search` to `call`.
    pub async fn ask(&self, search: &dyn Search, call: &Call) -> Answer {
        let workspace = self.workspace();
        let root = |root: Option<String>| {
            root.map(|root| match root.strip_prefix(WORKSPACE) {
                Some(rest) => format!("{}{rest}", workspace.display()),
                None => root,
            })
        };
        match call.clone() {
            Call::Glob(mut query) => {
                query.root = root(query.root);
                Answer::Glob(search.glob(&self.cx, query).await)
            }
            Call::Grep(mut query) => {
                query.root = root(query.root);
                Answer::Grep(search.grep(&self.cx, query).await)
            }
        }
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        self.tree.unlock(&self.workspace());
        // What stays is met by the next case, which fails then.
        let _ = fs::remove_dir_all(&self.home);
    }
}

async fn context(workspace: &Path, tree: &Tree) -> io::Result<CallContext> {
    let root = workspace.to_str().ok_or_else(|| io::Error::other("the scratch directory is not UTF-8"))?;
    let mut configured = Vec::new();
    let mut rule = |effect, text: &str| {
        let pattern = CapabilityPattern::parse(text)
            .ok_or_else(|| io::Error::other(format!("{text} is no capability pattern")))?;
        configured.push(Rule { effect, pattern });
        Ok::<_, io::Error>(())
    };
    rule(Effect::Allow, "fs:read:**")?;
    for path in tree.denied() {
        rule(Effect::Deny, &format!("fs:read:{root}/{}", String::from_utf8_lossy(path)))?;
    }
    let mut options = GrantStoreOptions::new(workspace, Arc::new(MemoryPersist::new())).unattended();
    options.configured = configured;
    let store = GrantStore::open(options).await.map_err(io::Error::other)?;
    let entropy = Arc::new(SeededEntropy::new(7));
    let place = Workspace::open(workspace).map_err(io::Error::other)?;
    let files = FileSystem::new(Authority::root(store), place, FsOptions::default(), entropy.clone())
        .map_err(io::Error::other)?;
    Ok(CallContext::new(files, Arc::new(SystemClock::new()), entropy))
}

/// Whether a file without mode bits is shut to this process.
fn locks_hold(scratch: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let probe = scratch.join("probe");
    let shut = fs::write(&probe, "x")
        .and_then(|()| fs::set_permissions(&probe, fs::Permissions::from_mode(0o000)))
        .is_ok_and(|()| fs::read(&probe).is_err());
    // Nothing is planted over it.
    let _ = fs::remove_file(&probe);
    shut
}
