//! Why a search found nothing (search contract 6, notices N4 and N5).

use crate::glob::Glob;
use crate::listing::{Admission, ItemKind, Listed, Lister, SKIPPED_DIRECTORIES};
use crate::node::{Handles, Node};
use crate::notice;
use crate::paths::normalize;
use crate::text::shortened;
use crate::watch::{Cut, Watch};
use flowcell_kernel::FsError;
use std::ffi::OsStr;
use std::sync::Arc;

/// Entries that are looked at for what `.gitignore` left out.
const MOST_LOOKED_AT: usize = 10_000;

/// A search of a directory that found nothing.
pub(crate) struct Nothing<'a> {
    /// The root as given.
    pub(crate) root: &'a str,
    /// The root as an absolute path.
    pub(crate) absolute: &'a str,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) admission: &'a Admission,
    pub(crate) handles: &'a Arc<Handles>,
    /// `.gitignore` left something out somewhere.
    pub(crate) ignores: bool,
}

impl Nothing<'_> {
    /// N4 of each glob that can match nothing, in order, then N5.
    pub(crate) fn sentences(&self, watch: &Watch) -> Result<Vec<String>, Cut> {
        let mut sentences = Vec::new();
        for glob in self.admission.globs.globs().iter().filter(|glob| !glob.is_exclusion()) {
            watch.check()?;
            if let Some(reason) = self.reason(glob) {
                sentences.push(notice::cannot_match(&shortened(glob.text()), self.root, &reason));
            }
        }
        if !self.admission.no_ignore && self.ignores && self.left_out(watch)? {
            sentences.push(notice::ignored());
        }
        Ok(sentences)
    }

    /// Why no file matches a glob; none when one could.
    fn reason(&self, glob: &Glob) -> Option<String> {
        let mut first = None;
        for canonical in glob.canonicals() {
            let reason = self.reason_of(&canonical)?;
            first.get_or_insert(reason);
        }
        first
    }

    /// The same for one expansion in its canonical form.
    fn reason_of(&self, canonical: &str) -> Option<String> {
        let is_anchored = canonical.contains('/');
        let canonical = canonical.strip_prefix('/').unwrap_or(canonical);
        let segments: Vec<&str> = canonical.split('/').collect();
        let (last, before) = segments.split_last()?;
        // Only what has a slash names directories.
        let literal: Vec<&str> = match is_anchored {
            true => before.iter().copied().take_while(|segment| !segment.contains(['*', '?'])).collect(),
            false => Vec::new(),
        };
        if let Some(rest) = self.below_root(canonical)
            && !self.is_directory(&literal)
        {
            return Some(format!("globs are relative to the root; use \"{}\"", shortened(rest)));
        }
        if segments.contains(&"..") {
            return Some("a glob cannot leave the root".to_owned());
        }
        if let Some(skipped) = before.iter().find(|segment| SKIPPED_DIRECTORIES.contains(segment)) {
            return Some(format!("{skipped} is never entered from above; name it as root"));
        }
        if !self.admission.hidden
            && (last.starts_with('.') || before.iter().any(|part| part.starts_with('.')))
        {
            return Some("it names a hidden path; pass hidden: true".to_owned());
        }
        if literal.is_empty() || self.is_directory(&literal) {
            return None;
        }
        let tilde = if segments[0].starts_with('~') { "; ~ is not expanded" } else { "" };
        Some(format!("there is no directory {}{tilde}", shortened(&literal.join("/"))))
    }

    /// What is left of a glob that begins with the path of the root.
    fn below_root<'g>(&self, glob: &'g str) -> Option<&'g str> {
        let given = normalize(self.root);
        [given.as_str(), self.absolute].into_iter().find_map(|root| {
            let root = root.trim_matches('/');
            let rest = glob.strip_prefix(root)?.strip_prefix('/')?;
            (!root.is_empty()).then_some(rest)
        })
    }

    /// Whether these names lead to a directory below the root, without links; also when that cannot be told.
    fn is_directory(&self, names: &[&str]) -> bool {
        let Ok(mut dir) = self.node.dir(self.handles) else { return true };
        for name in names {
            let name = OsStr::new(name);
            if name.is_empty() {
                return false;
            }
            if !dir.permitted(name) {
                return true;
            }
            dir = match dir.open_dir(name) {
                Ok(below) => Arc::new(below),
                Err(FsError::NotFound | FsError::NotADirectory | FsError::InvalidPath(_)) => return false,
                Err(_) => return true,
            };
        }
        true
    }

    /// Whether `.gitignore` left out a file that the other rules admit, as far as is looked.
    fn left_out(&self, watch: &Watch) -> Result<bool, Cut> {
        let lister =
            Lister { admission: self.admission.clone(), handles: Arc::clone(self.handles), explains: true };
        let Ok(root) = self.node.dir(self.handles) else { return Ok(false) };
        let Ok(root) = lister.root(&root, watch) else { return Ok(false) };
        let mut stack: Vec<(Listed, usize)> = vec![(root?, 0)];
        let mut left = MOST_LOOKED_AT;
        while let Some((listed, next)) = stack.last_mut() {
            let Some(kind) = listed.entries.kind(*next) else {
                stack.pop();
                continue;
            };
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            let at = *next;
            *next += 1;
            match kind {
                ItemKind::IgnoredFile => return Ok(true),
                ItemKind::File | ItemKind::NotPermitted | ItemKind::Out => {}
                ItemKind::Dir | ItemKind::IgnoredDir => {
                    let name = listed.entries.name(at).to_owned();
                    let below = lister.list(&listed.node, name, kind == ItemKind::IgnoredDir, watch)?;
                    stack.extend(below.map(|below| (below, 0)));
                }
            }
        }
        Ok(false)
    }
}
