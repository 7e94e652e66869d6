//! Directories of a search that files and directories are opened from, and how many of them stay open
//! (search contract 9: at most 64 at once).

use crate::gitignore::Gitignore;
use crate::wild::RelPath;
use flowcell_kernel::{Dir, FsError, OpenFile};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Directories that may be open at once in one engine.
const MOST_OPEN: usize = 64;
/// Directories that one thread may hold while it opens or lists one, those of the kernel's own checks included.
const BY_ONE_THREAD: usize = 3;
/// Directories that stay open when one far below a closed one is reached again from above.
const REOPENED: usize = 16;

/// The open directories of an engine: beyond a number the one opened first is closed. It is opened again from
/// above when it is needed.
pub(crate) struct Handles {
    open: Mutex<VecDeque<Weak<Node>>>,
    most: usize,
}

impl Handles {
    /// For an engine of so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        // The roots of the calls are not counted; two of them leave room.
        let most = MOST_OPEN.saturating_sub(threads * BY_ONE_THREAD + 4).min(40);
        Self { open: Mutex::default(), most }
    }

    fn keep(&self, node: &Arc<Node>) {
        let mut closed = Vec::new();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.most {
            open.retain(|node| node.strong_count() > 0);
        }
        while open.len() >= self.most
            && let Some(first) = open.pop_front()
        {
            // What is closed goes when the lock is free again.
            closed.extend(first.upgrade().map(|first| (first.set(None), first)));
        }
        open.push_back(Arc::downgrade(node));
    }
}

/// The rules in force in a directory: those of the nearest `.gitignore`, and of those above.
#[derive(Debug)]
pub(crate) struct RuleSet {
    pub(crate) rules: Gitignore,
    /// Depth of the directory that the rules lie in; the root's is 0.
    pub(crate) depth: usize,
    pub(crate) outer: Option<Arc<RuleSet>>,
    /// Bytes of all texts in force, those above included.
    pub(crate) bytes: u64,
    /// Rules in force.
    pub(crate) count: usize,
}

impl RuleSet {
    /// The deepest `.gitignore` that says something decides.
    pub(crate) fn ignores(&self, path: &RelPath, is_dir: bool) -> bool {
        let mut set = Some(self);
        while let Some(here) = set {
            if let Some(verdict) = here.rules.decide(path, here.depth, is_dir) {
                return verdict;
            }
            set = here.outer.as_deref();
        }
        false
    }
}

/// A directory that was listed.
pub(crate) struct Node {
    parent: Option<Arc<Node>>,
    name: OsString,
    /// Closed while other directories are worked on.
    dir: Mutex<Option<Arc<Dir>>>,
    rules: Option<Arc<RuleSet>>,
    /// A rule excludes the directory or one above it; only a walk that explains enters such.
    ignored: bool,
}

impl Node {
    /// The root of a search. It stays open.
    pub(crate) fn root(dir: Arc<Dir>, rules: Option<Arc<RuleSet>>) -> Arc<Self> {
        let dir = Mutex::new(Some(dir));
        Arc::new(Self { parent: None, name: OsString::new(), dir, rules, ignored: false })
    }

    /// A directory below `parent`, which is open.
    pub(crate) fn below(
        parent: &Arc<Node>,
        name: OsString,
        dir: Arc<Dir>,
        rules: Option<Arc<RuleSet>>,
        ignored: bool,
        handles: &Handles,
    ) -> Arc<Self> {
        let dir = Mutex::new(Some(dir));
        let node = Arc::new(Self { parent: Some(Arc::clone(parent)), name, dir, rules, ignored });
        handles.keep(&node);
        node
    }

    /// The rules in force in the directory.
    pub(crate) fn rules(&self) -> Option<&Arc<RuleSet>> {
        self.rules.as_ref()
    }

    /// Whether a rule excludes the directory.
    pub(crate) fn is_ignored(&self) -> bool {
        self.ignored
    }

    /// The directory's path below the root.
    pub(crate) fn path(&self) -> RelPath {
        let mut names = Vec::new();
        let mut node = self;
        while let Some(parent) = &node.parent {
            names.push(node.name.as_os_str());
            node = parent;
        }
        let mut path = RelPath::default();
        for name in names.into_iter().rev() {
            path.push(name.as_bytes());
        }
        path
    }

    /// The path of an entry as an answer shows it, below `prefix`.
    pub(crate) fn shown(&self, prefix: &str, name: &OsStr) -> String {
        let mut names = vec![name];
        let mut node = self;
        while let Some(parent) = &node.parent {
            names.push(node.name.as_os_str());
            node = parent;
        }
        let length = names.iter().map(|name| name.len() + 1).sum::<usize>();
        let mut shown = String::with_capacity(prefix.len() + length);
        shown.push_str(prefix);
        for (index, name) in names.into_iter().rev().enumerate() {
            if index > 0 {
                shown.push('/');
            }
            shown.push_str(&name.to_string_lossy());
        }
        shown
    }

    /// The directory, opened again from above when it was closed. One that cannot be opened again is unreadable.
    pub(crate) fn dir(self: &Arc<Self>, handles: &Handles) -> Result<Arc<Dir>, FsError> {
        let mut closed = Vec::new();
        let mut node = self;
        let mut dir = loop {
            if let Some(dir) = node.opened() {
                break dir;
            }
            closed.push(node);
            node = node.parent.as_ref().ok_or(FsError::NotFound)?;
        };
        for (left, node) in closed.into_iter().enumerate().rev() {
            dir = Arc::new(dir.open_dir(&node.name)?);
            // The way back up needs the last of them; the rest only led here.
            if left < REOPENED {
                drop(node.set(Some(Arc::clone(&dir))));
                handles.keep(node);
            }
        }
        Ok(dir)
    }

    /// Opens a file of the directory.
    pub(crate) fn open_file(self: &Arc<Self>, name: &OsStr, handles: &Handles) -> Result<OpenFile, FsError> {
        self.dir(handles)?.open_file(name)
    }

    fn opened(&self) -> Option<Arc<Dir>> {
        self.dir.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, dir: Option<Arc<Dir>>) -> Option<Arc<Dir>> {
        std::mem::replace(&mut *self.dir.lock().unwrap_or_else(PoisonError::into_inner), dir)
    }
}
