//! One directory of the walk (search contract 4): its entries judged, and those that stay in order.

use crate::gitignore::{Gitignore, MAX_GITIGNORE_BYTES};
use crate::glob::GlobList;
use crate::node::{Handles, Node, RuleSet};
use crate::order::compare;
use crate::watch::{Cut, Watch};
use crate::wild::RelPath;
use flowcell_kernel::{Dir, DirEntry, FsError, Kind};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// Directories that are never entered from above.
pub const SKIPPED_DIRECTORIES: [&str; 25] = [
    ".git",
    ".hg",
    ".jj",
    ".svn",
    ".flows",
    ".flows-checkpoints",
    ".flows-test-base",
    ".artifacts",
    ".backend-go-modcache",
    ".pnpm-store",
    ".worktrees",
    "worktrees",
    "node_modules",
    "__pycache__",
    ".venv",
    ".tox",
    ".nox",
    ".eggs",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".turbo",
    ".next",
    ".flowcell",
];

/// Entries between two looks at the watch, where few rules judge them.
const BATCH: usize = 16;
/// Rules that are tried between two looks at the watch, at most by as many as judge one entry.
const RULES: usize = 16 * 1024;

/// Which files a walk admits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admission {
    pub(crate) hidden: bool,
    pub(crate) no_ignore: bool,
    pub(crate) globs: GlobList,
}

/// Lists the directories of one walk.
pub(crate) struct Lister {
    pub(crate) admission: Admission,
    pub(crate) handles: Arc<Handles>,
    /// Keep every entry, and mark what `.gitignore` excludes instead of leaving it out (notice N5).
    pub(crate) explains: bool,
}

/// What an entry is to the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemKind {
    File,
    Dir,
    /// The kernel does not allow it.
    NotPermitted,
    /// It would be a file of the search but for `.gitignore`. Only a walk that explains has such.
    IgnoredFile,
    /// The same of a directory that would be entered.
    IgnoredDir,
    /// It is left out. Only a walk that explains has such.
    Out,
}

/// The entries of a directory that stay, in order; their names in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    names: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    start: usize,
    length: u32,
    kind: ItemKind,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn kind(&self, at: usize) -> Option<ItemKind> {
        self.items.get(at).map(|item| item.kind)
    }

    pub(crate) fn name(&self, at: usize) -> &OsStr {
        OsStr::from_bytes(self.items.get(at).map_or(&[], |item| self.bytes(item)))
    }

    fn bytes(&self, item: &Item) -> &[u8] {
        self.names.get(item.start..item.start + item.length as usize).unwrap_or_default()
    }

    fn push(&mut self, name: &[u8], kind: ItemKind) {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.items.push(Item { start: self.names.len(), length, kind });
        self.names.extend_from_slice(name);
    }

    fn sort(&mut self) {
        let Self { names, items } = self;
        let name = |item: &Item| names.get(item.start..item.start + item.length as usize).unwrap_or_default();
        let is_dir = |item: &Item| matches!(item.kind, ItemKind::Dir | ItemKind::IgnoredDir);
        if std::str::from_utf8(names).is_ok() {
            items.sort_unstable_by(|left, right| {
                compare((name(left), is_dir(left)), (name(right), is_dir(right)))
            });
        } else {
            // By what is shown; names that are shown alike by their bytes.
            let shown = |item: &Item| -> Cow<'_, str> { String::from_utf8_lossy(name(item)) };
            items.sort_by(|left, right| -> Ordering {
                let order =
                    compare((shown(left).as_bytes(), is_dir(left)), (shown(right).as_bytes(), is_dir(right)));
                order.then_with(|| name(left).cmp(name(right)))
            });
        }
        // Only what is worth it.
        if self.names.capacity() > 2 * self.names.len() + 4096 {
            self.names.shrink_to_fit();
            self.items.shrink_to_fit();
        }
    }
}

/// A directory that was listed.
pub(crate) struct Listed {
    pub(crate) node: Arc<Node>,
    pub(crate) entries: Entries,
    /// Its `.gitignore` is too long.
    pub(crate) long_rules: bool,
    /// `.gitignore` alone left something out.
    pub(crate) ignores: bool,
}

impl Lister {
    /// Lists the root. An error is its own.
    pub(crate) fn root(&self, dir: &Arc<Dir>, watch: &Watch) -> Result<Result<Listed, Cut>, FsError> {
        let listed = dir.entries()?;
        let (rules, long_rules) = self.rules(dir, &listed, None, 0);
        let node = Node::root(Arc::clone(dir), rules);
        let judged = self.judge(node, dir, listed, RelPath::default(), watch);
        Ok(judged.map(|(node, entries, ignores)| Listed { node, entries, long_rules, ignores }))
    }

    /// Lists the directory `name` of `parent`; none when it is unreadable.
    pub(crate) fn list(
        &self,
        parent: &Arc<Node>,
        name: OsString,
        ignored: bool,
        watch: &Watch,
    ) -> Result<Option<Listed>, Cut> {
        watch.check()?;
        let opened = parent.dir(&self.handles).and_then(|above| above.open_dir(&name));
        let Ok(dir) = opened else { return Ok(None) };
        let Ok(listed) = dir.entries() else { return Ok(None) };
        watch.check()?;
        let mut path = parent.path();
        path.push(name.as_bytes());
        let (rules, long_rules) = self.rules(&dir, &listed, parent.rules(), path.len());
        let dir = Arc::new(dir);
        let ignored = ignored || parent.is_ignored();
        let node = Node::below(parent, name, Arc::clone(&dir), rules, ignored, &self.handles);
        let (node, entries, ignores) = self.judge(node, &dir, listed, path, watch)?;
        Ok(Some(Listed { node, entries, long_rules, ignores }))
    }

    fn judge(
        &self,
        node: Arc<Node>,
        dir: &Dir,
        listed: Vec<DirEntry>,
        mut path: RelPath,
        watch: &Watch,
    ) -> Result<(Arc<Node>, Entries, bool), Cut> {
        let rules = node.rules().map_or(1, |rules| rules.count.max(1));
        let batch = (RULES / rules).clamp(1, BATCH);
        let mut entries =
            Entries { names: Vec::with_capacity(16 * listed.len()), items: Vec::with_capacity(listed.len()) };
        let mut ignores = false;
        for (index, entry) in listed.into_iter().enumerate() {
            if index % batch == batch - 1 {
                watch.check()?;
            }
            let name = entry.name.into_vec();
            let kind = match entry.kind {
                Kind::Symlink | Kind::Other => ItemKind::Out,
                kind => {
                    path.push(&name);
                    let kind = self.verdict(&node, dir, &path, kind == Kind::Dir);
                    path.pop();
                    kind
                }
            };
            match kind {
                ItemKind::IgnoredFile | ItemKind::IgnoredDir if !self.explains => ignores = true,
                ItemKind::Out if !self.explains => {}
                kind => entries.push(&name, kind),
            }
        }
        entries.sort();
        Ok((node, entries, ignores))
    }

    /// What skip list, hidden, ignore and glob rules make of the entry at `path`, and then the kernel.
    fn verdict(&self, node: &Node, dir: &Dir, path: &RelPath, is_dir: bool) -> ItemKind {
        let name = path.name();
        if is_dir && SKIPPED_DIRECTORIES.iter().any(|skipped| skipped.as_bytes() == name) {
            return ItemKind::Out;
        }
        if !self.admission.hidden && name.first() == Some(&b'.') {
            return ItemKind::Out;
        }
        let mut ignored = node.is_ignored();
        ignored = ignored || node.rules().is_some_and(|rules| rules.ignores(path, is_dir));
        let globs = &self.admission.globs;
        let stays = if is_dir { !globs.prunes(path) } else { globs.includes(path) };
        if !stays {
            return ItemKind::Out;
        }
        // The kernel opens no name that is not UTF-8; whether it may be listed goes by its spelling.
        let spelled = String::from_utf8_lossy(name);
        if !dir.permitted(OsStr::new(spelled.as_ref())) {
            return ItemKind::NotPermitted;
        }
        match (is_dir, ignored) {
            (false, false) => ItemKind::File,
            (false, true) => ItemKind::IgnoredFile,
            (true, false) => ItemKind::Dir,
            (true, true) => ItemKind::IgnoredDir,
        }
    }

    /// The rules in force in `dir`: with those of the `.gitignore` among `listed`, a regular file that may be and
    /// can be read. Whether it was too long to be read.
    fn rules(
        &self,
        dir: &Dir,
        listed: &[DirEntry],
        outer: Option<&Arc<RuleSet>>,
        depth: usize,
    ) -> (Option<Arc<RuleSet>>, bool) {
        let name = OsStr::new(".gitignore");
        let is_there = listed.iter().any(|entry| entry.kind == Kind::File && entry.name == name);
        if self.admission.no_ignore || !is_there || !dir.permitted(name) {
            return (outer.cloned(), false);
        }
        let Ok(file) = dir.open_file(name) else { return (outer.cloned(), false) };
        let above = outer.map_or(0, |outer| outer.bytes);
        let most = MAX_GITIGNORE_BYTES.saturating_sub(above);
        if file.opened().size > most {
            return (outer.cloned(), true);
        }
        let Ok(bytes) = file.read_to(most) else { return (outer.cloned(), false) };
        let length = bytes.len() as u64;
        if length > most {
            return (outer.cloned(), true);
        }
        let rules = Gitignore::parse(&bytes);
        if rules.is_empty() {
            return (outer.cloned(), false);
        }
        let count = rules.len() + outer.map_or(0, |outer| outer.count);
        let bytes = above + length;
        (Some(Arc::new(RuleSet { rules, depth, outer: outer.cloned(), bytes, count })), false)
    }
}
