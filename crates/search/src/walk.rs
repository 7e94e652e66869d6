//! The ordered walk (search contract 4): every admitted file below a root, one after the other, in the
//! order of the answer.

use crate::gitignore::{Gitignore, MAX_GITIGNORE_BYTES};
use crate::glob::GlobList;
use crate::order::SortKey;
use crate::watch::{Cut, Watch};
use crate::wild::RelPath;
use flowcell_kernel::{Dir, DirEntry, FsError, Kind, OpenFile};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::vec;

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

/// Directory handles that are open at once, at most.
const MAX_OPEN_DIRECTORIES: usize = 48;
/// Directories that stay open when one far below a closed one is reached again from above.
const REOPENED_DIRECTORIES: usize = 16;
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

/// A walk in progress.
pub(crate) struct Walk {
    admission: Admission,
    frames: Vec<Frame>,
    /// Segments of the directory that is being listed or of the entry that is being judged.
    path: RelPath,
    /// Path of the current file as an answer shows it.
    shown: String,
    /// Entries passed over because reading them is not permitted.
    not_permitted: u64,
}

/// One directory on the way down.
struct Frame {
    /// Closed while the walk is far below it.
    dir: Option<Dir>,
    name: OsString,
    /// Length of the path of this directory in [`Walk::shown`], its slash included.
    shown: usize,
    rules: Gitignore,
    entries: vec::IntoIter<Entry>,
}

struct Entry {
    key: SortKey,
    name: OsString,
    is_dir: bool,
}

impl Walk {
    /// Starts at `root`, whose path in the answer is `prefix`.
    ///
    /// # Errors
    ///
    /// The outer error is the root that cannot be listed, the inner one the watch.
    pub(crate) fn new(
        root: Dir,
        prefix: String,
        admission: Admission,
        watch: &Watch,
    ) -> Result<Result<Self, Cut>, FsError> {
        let entries = root.entries()?;
        let mut walk =
            Self { admission, frames: Vec::new(), path: RelPath::default(), shown: prefix, not_permitted: 0 };
        Ok(walk.enter(root, OsString::new(), entries, watch).map(|()| walk))
    }

    /// How many entries were passed over so far because reading them is not permitted.
    pub(crate) fn not_permitted(&self) -> u64 {
        self.not_permitted
    }

    /// Path of the file that [`Walk::next`] stopped at.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Goes on to the next admitted file; its name within the current directory. `None` at the end.
    pub(crate) fn next(&mut self, watch: &Watch) -> Result<Option<OsString>, Cut> {
        while let Some(level) = self.frames.len().checked_sub(1) {
            let Some(entry) = self.frames[level].entries.next() else {
                self.frames.pop();
                if level > 0 {
                    self.path.pop();
                }
                continue;
            };
            // A directory that cannot be opened again is unreadable from here on.
            let Some(dir) = self.dir(level) else { continue };
            // The kernel opens no name that is not UTF-8; whether it may be listed goes by its spelling.
            if !dir.permitted(OsStr::new(entry.name.to_string_lossy().as_ref())) {
                self.not_permitted += 1;
                continue;
            }
            if entry.is_dir {
                let Ok(below) = dir.open_dir(&entry.name) else { continue };
                let Ok(entries) = below.entries() else { continue };
                self.shown.truncate(self.frames[level].shown);
                self.shown.push_str(&entry.name.to_string_lossy());
                self.shown.push('/');
                self.path.push(entry.name.as_bytes());
                self.enter(below, entry.name, entries, watch)?;
            } else {
                self.shown.truncate(self.frames[level].shown);
                self.shown.push_str(&entry.name.to_string_lossy());
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }

    /// Opens a file of the current directory.
    pub(crate) fn open(&mut self, name: &OsStr) -> Result<OpenFile, FsError> {
        let level = self.frames.len().saturating_sub(1);
        self.dir(level).ok_or(FsError::NotFound)?.open_file(name)
    }

    /// Puts a listed directory on top: reads its rules, judges its entries, sorts what is left.
    fn enter(&mut self, dir: Dir, name: OsString, listed: Vec<DirEntry>, watch: &Watch) -> Result<(), Cut> {
        watch.check()?;
        let rules = if self.admission.no_ignore { Gitignore::default() } else { rules_of(&dir, &listed) };
        self.frames.push(Frame {
            dir: Some(dir),
            name,
            shown: self.shown.len(),
            rules,
            entries: Vec::new().into_iter(),
        });
        let rules: usize = self.frames.iter().map(|frame| frame.rules.len()).sum();
        let batch = (RULES / rules.max(1)).clamp(1, BATCH);
        let mut admitted = Vec::new();
        for (index, entry) in listed.into_iter().enumerate() {
            if index % batch == batch - 1 {
                watch.check()?;
            }
            let is_dir = match entry.kind {
                Kind::Dir => true,
                Kind::File => false,
                Kind::Symlink | Kind::Other => continue,
            };
            self.path.push(entry.name.as_bytes());
            if self.admits(is_dir) {
                let key = SortKey::new(&entry.name.to_string_lossy(), is_dir);
                admitted.push(Entry { key, name: entry.name, is_dir });
            }
            self.path.pop();
        }
        admitted.sort_unstable_by(|left, right| (&left.key, &left.name).cmp(&(&right.key, &right.name)));
        if let Some(top) = self.frames.last_mut() {
            top.entries = admitted.into_iter();
        }
        self.close_far();
        Ok(())
    }

    /// Whether skip list, hidden, ignore and glob rules leave the entry at [`Walk::path`] in.
    fn admits(&self, is_dir: bool) -> bool {
        let name = self.path.name();
        if is_dir && SKIPPED_DIRECTORIES.iter().any(|skipped| skipped.as_bytes() == name) {
            return false;
        }
        if !self.admission.hidden && name.first() == Some(&b'.') {
            return false;
        }
        if self.is_ignored(is_dir) {
            return false;
        }
        if is_dir {
            !self.admission.globs.prunes(&self.path)
        } else {
            self.admission.globs.includes(&self.path)
        }
    }

    /// The deepest `.gitignore` that says something decides.
    fn is_ignored(&self, is_dir: bool) -> bool {
        self.frames
            .iter()
            .enumerate()
            .rev()
            .find_map(|(depth, frame)| frame.rules.decide(&self.path, depth, is_dir))
            .unwrap_or(false)
    }

    /// The directory at `level`, opened again from above when it was closed.
    fn dir(&mut self, level: usize) -> Option<&Dir> {
        if self.frames.get(level)?.dir.is_none() {
            let nearest = (0..level).rev().find(|index| self.frames[*index].dir.is_some())?;
            for index in nearest + 1..=level {
                let above = self.frames[index - 1].dir.as_ref()?;
                let dir = above.open_dir(&self.frames[index].name).ok()?;
                self.frames[index].dir = Some(dir);
                // The way back up needs the last of them; the rest only led here.
                if let Some(far) = index.checked_sub(REOPENED_DIRECTORIES).filter(|far| *far > nearest) {
                    self.frames[far].dir = None;
                }
            }
        }
        self.frames[level].dir.as_ref()
    }

    /// Closes the directory that is furthest above when too many are open. The root stays.
    fn close_far(&mut self) {
        let open = self.frames.iter().filter(|frame| frame.dir.is_some()).count();
        if open > MAX_OPEN_DIRECTORIES
            && let Some(far) = self.frames.iter_mut().skip(1).find(|frame| frame.dir.is_some())
        {
            far.dir = None;
        }
    }
}

/// The rules of the `.gitignore` among `listed`: a regular file that may be and can be read.
fn rules_of(dir: &Dir, listed: &[DirEntry]) -> Gitignore {
    let name = OsStr::new(".gitignore");
    let is_there = listed.iter().any(|entry| entry.kind == Kind::File && entry.name == name);
    if !is_there || !dir.permitted(name) {
        return Gitignore::default();
    }
    match dir.open_file(name).and_then(|file| file.read_to(MAX_GITIGNORE_BYTES)) {
        Ok(bytes) if bytes.len() as u64 <= MAX_GITIGNORE_BYTES => Gitignore::parse(&bytes),
        _ => Gitignore::default(),
    }
}
