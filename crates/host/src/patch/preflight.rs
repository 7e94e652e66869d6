//! Everything that is found out before a patch writes: what stands where, what the new texts are, and that all of it is
//! permitted (host contract 6).

use std::collections::HashSet;

use super::derive::{DeriveError, derive};
use super::grammar::{Action, Chunk, Patch, Section, invalid, twice};
use crate::failure::{Access, answer, failure};
use crate::kernel::flows::capability::{Action as Ask, Capability};
use crate::kernel::flows::error::Code;
use crate::kernel::flows::read::MAX_READ_FILE_BYTES;
use crate::kernel::fs::{FileSystem, FsError, Kind, Stat};
use crate::kernel::{CallContext, HandlerError, Meta, PermissionError};
use crate::lines::Text;

/// A patch that a tree can take: what is written and removed, and what stands there now.
pub(crate) struct Plan<'a> {
    /// The file system under which everything in the plan is permitted, without anybody being asked again.
    pub(crate) files: FileSystem,
    pub(crate) steps: Vec<Step<'a>>,
}

/// One section.
pub(crate) enum Step<'a> {
    /// A file gets a content. `update` tells a change of one that is there from an addition.
    Write { update: bool, write: Write<'a> },
    /// An entry goes.
    Remove(Entry<'a>),
    /// A file gets a content and the mode of another one, which goes.
    Move { write: Write<'a>, mode: u32, source: Entry<'a> },
}

/// A file that gets a content.
pub(crate) struct Write<'a> {
    /// The path as written.
    pub(crate) path: &'a str,
    /// Where it leads.
    pub(crate) place: String,
    pub(crate) bytes: Vec<u8>,
    /// What stands there.
    pub(crate) old: Option<Old>,
}

/// A file's content at the moment of reading.
pub(crate) struct Old {
    pub(crate) bytes: Vec<u8>,
    pub(crate) seen: Stat,
}

/// An entry that goes: a file, or a link itself.
pub(crate) struct Entry<'a> {
    /// The path as written.
    pub(crate) path: &'a str,
    /// The entry, links on the way to it resolved.
    pub(crate) place: String,
    pub(crate) seen: Stat,
    /// What brings it back; nothing when no step comes after its removal.
    pub(crate) kept: Option<Kept>,
    /// What a file that moves has to be still.
    pub(crate) read: Option<Stat>,
}

/// What an entry was.
pub(crate) enum Kept {
    File(Vec<u8>),
    Link(String),
}

/// Looks at everything that the patch names, derives the new texts, and asks for every permission. Writes nothing.
pub(crate) async fn preflight<'a>(cx: &CallContext, patch: &'a Patch<'a>) -> Result<Plan<'a>, HandlerError> {
    patch.check(|path| cx.files.absolute(path))?;
    let mut scout = Scout { cx, files: cx.files.clone(), allowed: Vec::new() };
    let mut steps = Vec::with_capacity(patch.sections.len());
    for (index, section) in patch.sections.iter().enumerate() {
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        let last = index + 1 == patch.sections.len();
        steps.push(scout.section(section, last).await?);
    }
    expect_distinct(&steps)?;
    for step in &steps {
        if cx.cancel.is_cancelled() {
            return Err(HandlerError::Cancelled);
        }
        let (entry, write) = match step {
            Step::Write { write, .. } => (None, Some(write)),
            Step::Remove(entry) => (Some(entry), None),
            Step::Move { write, source, .. } => (Some(source), Some(write)),
        };
        if let Some(entry) = entry {
            scout.allow(Ask::FsWrite, "remove", entry.path, false).await.map_err(writing(entry.path))?;
        }
        if let Some(write) = write {
            scout.allow(Ask::FsWrite, "replace", write.path, true).await.map_err(writing(write.path))?;
        }
    }
    if cx.cancel.is_cancelled() {
        return Err(HandlerError::Cancelled);
    }
    Ok(Plan { files: scout.files, steps })
}

/// Two names may lead to one file by links.
fn expect_distinct(steps: &[Step<'_>]) -> Result<(), HandlerError> {
    let mut places = HashSet::new();
    let mut add = |path: &str, place: &str| {
        if places.insert(place.to_owned()) { Ok(()) } else { Err(HandlerError::from(twice(path))) }
    };
    for step in steps {
        match step {
            Step::Write { write, .. } => add(write.path, &write.place)?,
            Step::Remove(entry) => add(entry.path, &entry.place)?,
            Step::Move { write, source, .. } => {
                add(source.path, &source.place)?;
                add(write.path, &write.place)?;
            }
        }
    }
    Ok(())
}

fn reading(path: &str) -> impl FnOnce(FsError) -> HandlerError {
    move |error| failure(Access::Reading, path, error)
}

fn writing(path: &str) -> impl FnOnce(FsError) -> HandlerError {
    move |error| failure(Access::Writing, path, error)
}

fn is_directory(path: &str) -> HandlerError {
    invalid(path, "is a directory").into()
}

fn too_large(path: &str) -> HandlerError {
    let message = format!("{path} is over {MAX_READ_FILE_BYTES} bytes, the most that is patched.");
    answer(Code::ResponseTooLarge, path, message)
}

/// Reads for a patch, asking for each capability once.
struct Scout<'c> {
    cx: &'c CallContext,
    /// The call's file system, with what was allowed so far.
    files: FileSystem,
    allowed: Vec<Capability>,
}

impl Scout<'_> {
    /// Asks for what an operation on a path needs, once in the call: whoever grants it once has granted it for all of the
    /// call.
    async fn allow(
        &mut self,
        action: Ask,
        operation: &str,
        path: &str,
        follow: bool,
    ) -> Result<Capability, FsError> {
        let capability = self.cx.files.capability(action, path, follow)?;
        if self.allowed.contains(&capability) {
            return Ok(capability);
        }
        let mut meta = Meta::new();
        meta.insert("operation".to_owned(), operation.into());
        meta.insert("path".to_owned(), path.into());
        let checked: Result<(), PermissionError> = self.cx.authority.check(capability.clone(), meta).await;
        checked?;
        self.allowed.push(capability.clone());
        let authority = self.cx.authority.admitting(self.allowed.clone());
        self.files = self.cx.files.with_authority(authority);
        Ok(capability)
    }

    async fn section<'a>(&mut self, section: &'a Section<'a>, last: bool) -> Result<Step<'a>, HandlerError> {
        let path = section.path;
        match &section.action {
            Action::Add { content } => {
                let write = self.target(path, content.clone().into_bytes()).await?;
                Ok(Step::Write { update: false, write })
            }
            Action::Delete => self.entry(path, last).await.map(Step::Remove),
            Action::Update { to, chunks } => {
                let to = to.filter(|to| self.cx.files.absolute(to) != self.cx.files.absolute(path));
                let (bytes, old) = self.update(path, chunks).await?;
                match to {
                    None => {
                        let write = Write { path, place: self.place(path, true)?, bytes, old: Some(old) };
                        Ok(Step::Write { update: true, write })
                    }
                    Some(to) => self.moved(path, to, bytes, old, last).await,
                }
            }
        }
    }

    /// The new bytes of a file, and what it holds.
    async fn update(&mut self, path: &str, chunks: &[Chunk<'_>]) -> Result<(Vec<u8>, Old), HandlerError> {
        let old = self.read(path).await.map_err(|error| match error {
            FsError::IsADirectory => is_directory(path),
            error => failure(Access::Reading, path, error),
        })?;
        let old = old.ok_or_else(|| too_large(path))?;
        let text = Text::decode(old.bytes.clone())
            .map_err(|error| answer(Code::BinaryFile, path, format!("{path} is no text file: {error}.")))?;
        let cancel = &self.cx.cancel;
        let new = derive(text.as_str(), chunks, &|| cancel.is_cancelled()).map_err(|error| match error {
            DeriveError::Stopped => HandlerError::Cancelled,
            DeriveError::TooLong => too_large(path),
            error => answer(Code::NoMatch, path, error.message(path)),
        })?;
        Ok((text.encode(&new), old))
    }

    async fn moved<'a>(
        &mut self,
        path: &'a str,
        to: &'a str,
        bytes: Vec<u8>,
        old: Old,
        last: bool,
    ) -> Result<Step<'a>, HandlerError> {
        let mode = old.seen.mode;
        let read = Some(old.seen);
        let (place, leads_to) = (self.place(path, false)?, self.place(path, true)?);
        let mut source = if place == leads_to {
            // No link: what was read is what goes.
            let kept = (!last).then_some(Kept::File(old.bytes));
            Entry { path, place, seen: old.seen, kept, read }
        } else {
            Entry { read, ..self.entry(path, last).await? }
        };
        let write = self.target(to, bytes).await?;
        if write.place == leads_to {
            // A link to what is written before the link goes.
            source.read = None;
        }
        if write.place == source.place {
            return Err(invalid(to, "is the file that moves").into());
        }
        Ok(Step::Move { write, mode, source })
    }

    /// A file that is added, or moved to: it may be there.
    async fn target<'a>(&mut self, path: &'a str, bytes: Vec<u8>) -> Result<Write<'a>, HandlerError> {
        let old = match self.read(path).await {
            Ok(old) => Some(old.ok_or_else(|| too_large(path))?),
            Err(FsError::NotFound | FsError::NotADirectory) => None,
            Err(FsError::IsADirectory) => return Err(is_directory(path)),
            Err(error) => return Err(failure(Access::Writing, path, error)),
        };
        Ok(Write { path, place: self.place(path, true)?, bytes, old })
    }

    /// An entry that goes; with `last` nothing can fail after that, and it need not be brought back.
    async fn entry<'a>(&mut self, path: &'a str, last: bool) -> Result<Entry<'a>, HandlerError> {
        self.allow(Ask::FsRead, "symlink_metadata", path, false).await.map_err(reading(path))?;
        let seen = self.files.symlink_metadata(path).await.map_err(reading(path))?;
        let kept = match seen.kind {
            Kind::Dir => return Err(is_directory(path)),
            Kind::Other => {
                return Err(answer(Code::NotFound, path, format!("{path} is neither a file nor a link.")));
            }
            _ if last => None,
            Kind::Symlink => {
                let text = self.files.read_link(path).await.map_err(reading(path))?;
                let text = text.into_os_string().into_string();
                let text = text.map_err(|_| {
                    answer(Code::CommandFailed, path, format!("{path} is a link whose text is not UTF-8."))
                })?;
                Some(Kept::Link(text))
            }
            Kind::File => {
                let (bytes, read) =
                    self.files.read(path, MAX_READ_FILE_BYTES).await.map_err(reading(path))?;
                if !read.same_file(&seen) {
                    let error = FsError::Changed("the file changed during the call".to_owned());
                    return Err(failure(Access::Reading, path, error));
                }
                if bytes.len() as u64 > MAX_READ_FILE_BYTES {
                    return Err(too_large(path));
                }
                Some(Kept::File(bytes))
            }
        };
        Ok(Entry { path, place: self.place(path, false)?, seen, kept, read: None })
    }

    /// A file's content; `None` for one that is over the limit.
    async fn read(&mut self, path: &str) -> Result<Option<Old>, FsError> {
        self.allow(Ask::FsRead, "read", path, true).await?;
        let file = match self.files.open(path).await {
            // What may not be opened may still be seen to be no file.
            Err(refused @ FsError::AccessDenied { .. }) => {
                return Err(match self.files.metadata(path).await.map(|stat| stat.kind) {
                    Ok(Kind::Dir) => FsError::IsADirectory,
                    Ok(Kind::Symlink | Kind::Other) => FsError::NotRegular,
                    Ok(Kind::File) | Err(_) => refused,
                });
            }
            opened => opened?,
        };
        if file.opened().size > MAX_READ_FILE_BYTES {
            return Ok(None);
        }
        let (bytes, seen) = self.files.read(path, MAX_READ_FILE_BYTES).await?;
        Ok((bytes.len() as u64 <= MAX_READ_FILE_BYTES).then_some(Old { bytes, seen }))
    }

    /// Where a path leads; without `follow` its last component is taken as it is.
    fn place(&self, path: &str, follow: bool) -> Result<String, HandlerError> {
        let capability = self.cx.files.capability(Ask::FsWrite, path, follow).map_err(writing(path))?;
        Ok(capability.resource().to_owned())
    }
}
