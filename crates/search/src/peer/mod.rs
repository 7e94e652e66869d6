//! A peer of the engine that drives the program `rg`.
//!
//! It answers as the search contract says, composed of what ripgrep 15 answers: ripgrep walks, applies globs and rules and
//! finds lines; where its answer is another one, the question is put another way.
//!
//! | Where ripgrep differs | What the peer does |
//! | --- | --- |
//! | a glob brings back what is ignored or hidden | two walks, one by rules and one by globs; a file has to be in both |
//! | a rule brings back what is hidden; the skip list | exclusions, which beat everything, name them |
//! | empty, anchored and nested alternatives; `#`; dot segments | braces are written out, each glob in its canonical form |
//! | git's reading of `.gitignore` | the rules are translated and handed in as one ignore file |
//! | rules stop at a nested repository, links are read as rules | the same |
//! | binary files | one search for NUL bytes comes first |
//! | CRLF, byte order marks, bytes that are not UTF-8 | such a file is decoded first and handed in on standard input |
//! | order, limits, ownership of context, cut lines, symbols, notices | computed here from numbered lines |
//!
//! The program reads directories and files by itself, outside the guarded file system. The peer names only files to it that
//! the call may read, and takes nothing from its lists that the call may not read; a host that needs more than that confines
//! the process.

mod content;
mod explain;
mod fold;
mod listing;
mod program;
mod rules;
mod spell;
mod symbol;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

pub use program::{ProgramCall, ProgramOutput, RunProgram};

use crate::error::SearchError;
use crate::glob::GlobList;
use crate::kernel::{CallContext, HandlerError, WalkRoot};
use crate::pattern::Pattern;
use crate::query::{GLOB_LIMIT, GREP_LIMIT, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery, MAX_CONTEXT};
use crate::search::Search;
use listing::{Admitted, Place};

/// A [`Search`] that drives `rg`, version 15 of it.
///
/// It holds whole files and lists in memory, and starts several processes for each call.
/// ```
/// use std::sync::Arc;
///
/// use flowcell_search::kernel::flows::error::{Code, StdError};
/// use flowcell_search::kernel::{CallContext, HandlerError, async_trait};
/// use flowcell_search::peer::{ProgramCall, ProgramOutput, RgPeer, RunProgram};
///
/// /// The program, where a host's configuration has it.
/// struct Program(std::path::PathBuf);
///
/// #[async_trait]
/// impl RunProgram for Program {
///     async fn run(&self, _: &CallContext, call: ProgramCall) -> Result<ProgramOutput, HandlerError> {
///         let mut command = std::process::Command::new(&self.0);
///         command.args(&call.arguments).current_dir(&call.directory);
///         // A host hands `call.input` in as well, and waits on a thread of its own.
///         let away = |error: std::io::Error| StdError::new(Code::ProviderUnavailable, error.to_string());
///         let output = command.output().map_err(away)?;
///         Ok(ProgramOutput { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
///     }
/// }
///
/// let peer = RgPeer::new(Arc::new(Program("/usr/bin/rg".into())));
/// assert_eq!(format!("{peer:?}"), "RgPeer { .. }");
/// ```
#[derive(Clone)]
pub struct RgPeer {
    program: Arc<dyn RunProgram>,
}

impl RgPeer {
    /// A peer on what runs the program.
    pub fn new(program: Arc<dyn RunProgram>) -> Self {
        Self { program }
    }
}

impl fmt::Debug for RgPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RgPeer").finish_non_exhaustive()
    }
}

#[async_trait]
impl Search for RgPeer {
    async fn glob(&self, cx: &CallContext, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        if query.pattern.is_empty() {
            return Err(SearchError::InvalidInput("pattern must not be empty".to_owned()).into());
        }
        let globs = vec![query.pattern.clone()];
        GlobList::parse(&globs).map_err(SearchError::from)?;
        let limit = usize::try_from(query.limit.unwrap_or(GLOB_LIMIT).min(GLOB_LIMIT)).unwrap_or(usize::MAX);
        let asked = listing::Asked { globs, hidden: query.hidden, no_ignore: query.no_ignore };
        let run = program::Run { program: self.program.as_ref(), cx };
        let root = listing::root_of(query.root);
        let (paths, denied, mut told) = match open(cx, &root).await? {
            Root::File(_) => (vec![listing::normal(&root)], 0, Vec::new()),
            Root::Dir(place) => {
                let admitted = listing::admitted(run, &place, &asked).await?;
                let told = match admitted.files.is_empty() {
                    true => explain::nothing(run, &place, &asked, &admitted),
                    false => Vec::new(),
                };
                (admitted.files.iter().map(|file| file.shown.clone()).collect(), admitted.denied, told)
            }
        };
        let total = paths.len();
        let paths: Vec<String> = paths.into_iter().take(limit).collect();
        let truncated = total > limit;
        if truncated {
            told.insert(0, fold::showing(paths.len(), &total.to_string(), "paths", GLOB_LIMIT));
        }
        told.extend(fold::denied(denied));
        Ok(GlobAnswer { paths, total: total as u64, truncated, notice: fold::joined(&told) })
    }

    async fn grep(&self, cx: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        let ask = Ask::new(&query)?;
        let run = program::Run { program: self.program.as_ref(), cx };
        let root = listing::root_of(query.root.clone());
        let opened = match open(cx, &root).await? {
            Root::File(bytes) if content::is_binary(run, &bytes).await? => {
                return Err(SearchError::BinaryFile { root }.into());
            }
            Root::File(bytes) => Opened::File(bytes),
            Root::Dir(place) => {
                let admitted = listing::admitted(run, &place, &ask.asked).await?;
                let classes = content::classes(run, &place, &admitted).await?;
                Opened::Dir(place, admitted, classes)
            }
        };
        let mut tally = search(run, &root, &opened, &ask, query.fixed_strings).await?;
        let special = query.pattern.bytes().any(|byte| b"\\^$.|?*+()[]{}".contains(&byte));
        if tally.total == 0 && !query.fixed_strings && special {
            let again = search(run, &root, &opened, &ask, true).await?;
            if again.total > 0 {
                tally = again;
                tally.answer.retried_as_literal = true;
            }
        }
        let (told, denied) = match &opened {
            Opened::Dir(place, admitted, _) if tally.total == 0 => {
                (explain::nothing(run, place, &ask.asked, admitted), admitted.denied)
            }
            Opened::Dir(_, admitted, _) => (Vec::new(), admitted.denied),
            Opened::File(_) => (Vec::new(), 0),
        };
        Ok(tally.answer(&ask, told, denied))
    }
}

/// A `grep` whose input was accepted.
struct Ask {
    pattern: String,
    ignore_case: bool,
    asked: listing::Asked,
    before: u64,
    after: u64,
    context_cut: bool,
    max_count: usize,
    files_only: bool,
    symbols: bool,
    limit: usize,
}

impl Ask {
    fn new(query: &GrepQuery) -> Result<Self, SearchError> {
        let conflict = |text: &str| Err(SearchError::InvalidInput(text.to_owned()));
        if query.ignore_case && query.smart_case {
            return conflict("ignoreCase and smartCase exclude each other");
        }
        if query.context.is_some() && (query.before_context.is_some() || query.after_context.is_some()) {
            return conflict("context excludes beforeContext and afterContext");
        }
        if query.max_count == Some(0) {
            return conflict("maxCount must be at least 1");
        }
        match query.fixed_strings {
            true => Pattern::literal(&query.pattern)?,
            false => Pattern::regex(&query.pattern)?,
        };
        GlobList::parse(&query.globs)?;
        let before = query.context.or(query.before_context).unwrap_or(0);
        let after = query.context.or(query.after_context).unwrap_or(0);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            pattern: query.pattern.clone(),
            // ripgrep's own smart case leaves escapes and classes out.
            ignore_case: query.ignore_case
                || query.smart_case && !query.pattern.bytes().any(|byte| byte.is_ascii_uppercase()),
            asked: listing::Asked {
                globs: query.globs.clone(),
                hidden: query.hidden,
                no_ignore: query.no_ignore,
            },
            before: before.min(MAX_CONTEXT),
            after: after.min(MAX_CONTEXT),
            context_cut: before.max(after) > MAX_CONTEXT,
            max_count: count(query.max_count.unwrap_or(u64::MAX)),
            files_only: query.files_with_matches,
            symbols: !query.no_symbols && !query.files_with_matches,
            limit: count(query.limit.unwrap_or(GREP_LIMIT).min(GREP_LIMIT)),
        })
    }
}

/// The root of a call.
enum Root {
    Dir(Place),
    /// A file, by its content.
    File(Vec<u8>),
}

async fn open(cx: &CallContext, root: &str) -> Result<Root, SearchError> {
    let of_root = |error| SearchError::of_root(error, root);
    match cx.files.walk_root(root).await.map_err(of_root)? {
        WalkRoot::Dir(dir) => {
            dir.entries().map_err(of_root)?;
            Ok(Root::Dir(Place {
                root: root.to_owned(),
                cwd: PathBuf::from(cx.files.absolute(root)),
                dir: Arc::new(dir),
            }))
        }
        WalkRoot::File(file) => Ok(Root::File(file.read_to(u64::MAX - 1).map_err(of_root)?)),
        WalkRoot::Other => {
            let reason = "it is neither a regular file nor a directory".to_owned();
            Err(SearchError::CommandFailed { root: root.to_owned(), reason })
        }
    }
}

/// What is searched.
enum Opened {
    Dir(Place, Admitted, content::Classes),
    File(Vec<u8>),
}

/// One pass over all files.
async fn search(
    run: program::Run<'_>,
    root: &str,
    opened: &Opened,
    ask: &Ask,
    fixed: bool,
) -> Result<fold::Tally, HandlerError> {
    let mut tally = fold::Tally::default();
    match opened {
        Opened::File(bytes) => {
            let found = content::Found::Lines(content::lines_of(run, bytes, ask, fixed).await?);
            tally.file(&listing::normal(root), &found, ask, Some(bytes));
        }
        Opened::Dir(place, admitted, classes) => {
            let found = content::in_files(run, place, admitted, classes, ask, fixed).await?;
            for (file, found) in admitted.files.iter().zip(&found) {
                if tally.is_full() {
                    break;
                }
                let wants = ask.symbols && found.has_matches() && tally.shows(ask);
                let bytes = if wants { content::read(run.cx, place, file).await } else { None };
                tally.file(&file.shown, found, ask, bytes.as_deref());
            }
        }
    }
    Ok(tally)
}
