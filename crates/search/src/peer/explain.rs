//! Why nothing was found: N4 and N5 of search contract 6.

use super::listing::{self, Admitted, Asked, Place};
use super::program::Run;
use super::spell;
use crate::SKIPPED_DIRECTORIES;
use crate::kernel::{Dir, Kind};

/// The sentences of a call that found nothing below a directory.
pub(super) fn nothing(run: Run<'_>, place: &Place, asked: &Asked, admitted: &Admitted) -> Vec<String> {
    let mut told = Vec::new();
    let absolute = run.cx.files.absolute(&place.root);
    for glob in asked.globs.iter().filter(|glob| !glob.starts_with('!')) {
        let reasons: Option<Vec<String>> = spell::expansions(glob)
            .iter()
            .map(|text| reason(run, place, &absolute, asked, &spell::canonical(text)))
            .collect();
        if let Some(reason) = reasons.and_then(|reasons| reasons.into_iter().next()) {
            told.push(format!("The glob \"{glob}\" cannot match under {}: {reason}.", place.root));
        }
    }
    if admitted.ruled {
        let text = ".gitignore rules excluded files that this search would cover; pass noIgnore: true to include them.";
        told.push(text.to_owned());
    }
    told
}

/// Why a glob without braces can match no file.
fn reason(run: Run<'_>, place: &Place, absolute: &str, asked: &Asked, canonical: &str) -> Option<String> {
    let glob = canonical.strip_prefix('/').unwrap_or(canonical);
    let segments: Vec<&str> = glob.split('/').collect();
    let (_, directories) = segments.split_last()?;
    let fixed: Vec<&str> =
        directories.iter().copied().take_while(|name| !name.contains(['*', '?'])).collect();
    let missing = is_missing(run, place, &fixed);
    for root in [place.root.as_str(), &listing::normal(&place.root), absolute] {
        let root = root.trim_matches('/');
        let rest =
            glob.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).filter(|_| !root.is_empty());
        // A directory below the root that is named like it can be meant.
        if let Some(rest) = rest.filter(|_| missing) {
            return Some(format!("globs are relative to the root; use \"{rest}\""));
        }
    }
    if segments.contains(&"..") {
        return Some("a glob cannot leave the root".to_owned());
    }
    if let Some(name) = directories.iter().find(|name| SKIPPED_DIRECTORIES.contains(name)) {
        return Some(format!("{name} is never entered from above; name it as root"));
    }
    if !asked.hidden && segments.iter().any(|segment| segment.starts_with('.')) {
        return Some("it names a hidden path; pass hidden: true".to_owned());
    }
    let tilde = if glob.starts_with('~') { "; ~ is not expanded" } else { "" };
    missing.then(|| format!("there is no directory {}{tilde}", fixed.join("/")))
}

/// Whether these names lead to no directory below the root. What may not be read or cannot be entered is not told.
fn is_missing(run: Run<'_>, place: &Place, names: &[&str]) -> bool {
    let mut path = String::new();
    let mut inner: Option<Dir> = None;
    for name in names {
        path.push_str(name);
        if !run.cx.files.permitted(&listing::path_of(place, path.as_bytes())) {
            return false;
        }
        path.push('/');
        let at = inner.as_ref().unwrap_or(&place.dir);
        let Ok(listed) = at.entries() else { return false };
        if !listed.iter().any(|entry| entry.kind == Kind::Dir && entry.name == **name) {
            return true;
        }
        let Ok(next) = at.open_dir(name.as_ref()) else { return false };
        inner = Some(next);
    }
    false
}
