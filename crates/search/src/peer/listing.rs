//! Which files a call admits, from lists of `rg --files`.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::program::{ProgramCall, Run};
use super::{rules, spell};
use crate::SKIPPED_DIRECTORIES;
use crate::gitignore::MAX_GITIGNORE_BYTES;
use crate::kernel::flows::canonical::utf16_cmp;
use crate::kernel::{Dir, HandlerError};

/// A directory as root.
pub(super) struct Place {
    /// The root as given.
    pub(super) root: String,
    /// Where it is.
    pub(super) cwd: PathBuf,
    pub(super) dir: Arc<Dir>,
}

/// What decides about names.
pub(super) struct Asked {
    pub(super) globs: Vec<String>,
    pub(super) hidden: bool,
    pub(super) no_ignore: bool,
}

/// One admitted file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    /// Its path below the root.
    pub(super) below: Vec<u8>,
    /// Its path in an answer.
    pub(super) shown: String,
}

/// The admitted files, in the order of an answer.
pub(super) struct Admitted {
    pub(super) files: Vec<File>,
    /// Entries that may not be read.
    pub(super) denied: u64,
    /// Whether rules removed a file that is admitted without them.
    pub(super) ruled: bool,
}

/// The root as given; the workspace when none is given, or an empty one.
pub(super) fn root_of(root: Option<String>) -> String {
    root.filter(|root| !root.is_empty()).unwrap_or_else(|| ".".to_owned())
}

/// A path as an answer shows it.
pub(super) fn normal(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        match (segment, kept.last()) {
            ("..", Some(last)) if *last != ".." => {
                kept.pop();
            }
            ("..", None) if path.starts_with('/') => {}
            _ => kept.push(segment),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, kept.join("/"))
}

/// The files that skip list, hidden names, rules and globs leave in and that may be read.
pub(super) async fn admitted(run: Run<'_>, place: &Place, asked: &Asked) -> Result<Admitted, HandlerError> {
    let ignore = if asked.no_ignore { Vec::new() } else { ignore_file(run, place).await? };
    let globs: Vec<String> = asked.globs.iter().flat_map(|glob| spell::spelled(glob)).collect();
    let has_rules = !ignore.is_empty();
    let by_rules = async {
        let asks = has_rules || globs.is_empty();
        if asks { listed(run, place, &[], asked.hidden, ignore).await.map(Some) } else { Ok(None) }
    };
    let unruled = async {
        let asks = has_rules || !globs.is_empty();
        if asks { listed(run, place, &globs, asked.hidden, Vec::new()).await.map(Some) } else { Ok(None) }
    };
    let (by_rules, unruled) = tokio::try_join!(by_rules, unruled)?;
    let (found, gone): (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) = match (by_rules, unruled) {
        (Some(by_rules), Some(unruled)) => unruled.into_iter().partition(|file| by_rules.contains(file)),
        (Some(all), None) | (None, Some(all)) => (all, BTreeSet::new()),
        (None, None) => Default::default(),
    };
    let readable = |file: &Vec<u8>| is_reached(file) && entry_denied(run, place, file).is_none();
    let ruled = gone.iter().any(readable);
    let start = normal(&place.root);
    let start = if start.is_empty() || start.ends_with('/') { start } else { format!("{start}/") };
    let mut denied = BTreeSet::new();
    let mut files = Vec::new();
    for below in found {
        if let Some(entry) = entry_denied(run, place, &below) {
            denied.insert(entry);
            continue;
        }
        if is_reached(&below) {
            let shown = format!("{start}{}", String::from_utf8_lossy(&below));
            files.push(File { below, shown });
        }
    }
    files.sort_by(order);
    Ok(Admitted { files, denied: denied.len() as u64, ruled })
}

/// Whether the directories above a file can be entered: the kernel opens none whose name is not UTF-8.
fn is_reached(below: &[u8]) -> bool {
    let directory = below.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |slash| &below[..slash]);
    std::str::from_utf8(directory).is_ok()
}

fn order(left: &File, right: &File) -> Ordering {
    utf16_cmp(&left.shown, &right.shown).then_with(|| left.below.cmp(&right.below))
}

/// The first entry on the way to a file that policy keeps from being read.
fn entry_denied(run: Run<'_>, place: &Place, below: &[u8]) -> Option<Vec<u8>> {
    let ends = below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.chain([below.len()])
        .map(|end| &below[..end])
        .find(|part| !run.cx.files.permitted(&path_of(place, part)))
        .map(<[u8]>::to_vec)
}

/// The path of an entry as the file system takes it.
pub(super) fn path_of(place: &Place, below: &[u8]) -> String {
    format!("{}/{}", place.cwd.display(), String::from_utf8_lossy(below))
}

/// The files below a root for these globs. Exclusions at the end beat all others, a rule's inclusion too.
async fn listed(
    run: Run<'_>,
    place: &Place,
    globs: &[String],
    hidden: bool,
    ignore: Vec<u8>,
) -> Result<BTreeSet<Vec<u8>>, HandlerError> {
    let mut arguments: Vec<OsString> =
        ["--no-config", "--files", "--null", "--no-messages", "--no-ignore", "--hidden"]
            .iter()
            .map(OsString::from)
            .collect();
    if !ignore.is_empty() {
        arguments.push("--ignore-file=/dev/stdin".into());
    }
    let skipped = SKIPPED_DIRECTORIES.iter().map(|name| format!("!{name}/"));
    let dotted = (!hidden).then(|| "!.*".to_owned());
    arguments.extend(
        globs.iter().cloned().chain(skipped).chain(dotted).map(|glob| format!("--glob={glob}").into()),
    );
    arguments.push("./".into());
    let call = ProgramCall { arguments, directory: place.cwd.clone(), input: ignore };
    let output = run.output(call).await?;
    let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| path.strip_prefix(b"./").unwrap_or(path).to_vec()).collect())
}

/// All rules below a root as one ignore file, deeper ones after shallower ones.
async fn ignore_file(run: Run<'_>, place: &Place) -> Result<Vec<u8>, HandlerError> {
    let found = listed(run, place, &[".gitignore".to_owned()], true, Vec::new()).await?;
    let mut found: Vec<Vec<u8>> = found.into_iter().collect();
    found.sort_by_key(|path| path.iter().filter(|byte| **byte == b'/').count());
    let mut lines = Vec::new();
    for path in found {
        let Ok(text) = std::str::from_utf8(&path) else { continue };
        if entry_denied(run, place, &path).is_some() {
            continue;
        }
        // What cannot be read holds no rules.
        let Ok(file) = run.cx.files.open(&path_of(place, &path)).await else { continue };
        let Ok(bytes) = file.read_to(MAX_GITIGNORE_BYTES) else { continue };
        if bytes.len() as u64 > MAX_GITIGNORE_BYTES {
            continue;
        }
        let directory = text.strip_suffix(".gitignore").unwrap_or_default();
        lines.extend(rules::translated(directory, &bytes));
    }
    Ok(lines.join("\n").into_bytes())
}
