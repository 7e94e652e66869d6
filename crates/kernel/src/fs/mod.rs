//! The guarded file system (kernel contract 6.1).
//!
//! Every operation resolves its path, asks for the resolved one, resolves again and refuses when the answer differs, then
//! acts by descriptors that follow no link. The host calls run on the calling thread: an operation does not yield between
//! its first effect and its last, so a dropped future leaves nothing half done.
//!
//! **Invariant:** the object that is authorised is the object that is acted on. A workspace whose root was replaced, by
//! another directory, a link or a mount, is refused (`the workspace root is not the directory that was opened`).
//!
//! **Invariant:** a directory is not moved or removed over a deny of something in it.
//!
//! **Invariant:** on a volume that folds names a path is asked for by the spelling that its directory lists; one that the
//! listing does not tell is refused. Over a copy ([`FileSystem::over`]) nothing leads to the workspace itself.
//!
//! **Invariant:** nothing under `/proc`, `/sys` or `/dev` is reached without the host's option, and no regular file of
//! more than one link is written in place.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde_json::Value;

use crate::authority::Authority;
use crate::flows::capability::{Action, Capability, MAX_RESOURCE_UNITS, units};
use crate::flows::rules::Effect;
use crate::meta::Meta;
use crate::permission::PermissionDenied;
use crate::ports::Entropy;
use crate::workspace::Workspace;

mod cwd;
mod dir;
mod entry;
mod error;
mod open;
mod path;
mod pin;
mod read;
mod replace;
mod resolve;
mod stat;
mod temp;
mod volume;
mod write;

pub(crate) use cwd::ProcessDir;
pub use dir::{Dir, WalkRoot};
pub use error::FsError;
pub use open::OpenFile;
pub use path::{is_inside, lexical};
pub use replace::Replaced;
pub use resolve::MAX_LINK_HOPS;
pub(crate) use resolve::{Roots, resolve_workspace};
pub use stat::{DirEntry, Kind, Metadata, Stat};
pub use temp::{SYSTEM_TEMP, TempEntry};

use pin::Pins;
use resolve::{ResolveError, Resolved};

/// Why the kernel refuses whatever is granted (kernel contract 6.1).
pub mod reason {
    /// The path leads elsewhere than when it was approved.
    pub const PATH_CHANGED: &str = "path changed while permission was pending";
    /// An open file whose path names another one by now.
    pub const NO_LONGER_MATCHES: &str = "open file no longer matches its path";
    /// A regular file of more than one link, written in place.
    pub const MORE_THAN_ONE_LINK: &str = "file has more than one link";
    /// A path under `/proc`, `/sys` or `/dev`.
    pub const PSEUDO_FS: &str = "path is in a pseudo file system";
    /// A path with a NUL.
    pub const NUL: &str = "path has a NUL";
    /// A path that is not UTF-8.
    pub const NOT_UTF8: &str = "path is not UTF-8";
    /// Removing or renaming the workspace root, or what it lies in.
    pub const ROOT: &str = "the workspace root stays where it is";
    /// Something in a workspace whose root was replaced since it was opened.
    pub const ROOT_REPLACED: &str = "the workspace root is not the directory that was opened";
}

/// What a host chooses about a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsOptions {
    /// Refuse to read regular files of more than one link. Default false: package stores and local clones are full of
    /// them.
    pub refuse_hard_linked_reads: bool,
    /// Serve paths under `/proc`, `/sys` and `/dev` as any other. Default false.
    pub allow_pseudo_fs: bool,
    /// Where temporary files and directories without a directory are made. Default `/tmp`.
    pub system_temp: PathBuf,
}

impl Default for FsOptions {
    fn default() -> Self {
        FsOptions {
            refuse_hard_linked_reads: false,
            allow_pseudo_fs: false,
            system_temp: PathBuf::from("/tmp"),
        }
    }
}

/// The file system as one authority may use it. Clones share the pinned workspace root.
///
/// Paths are taken as the caller gave them: relative ones are read against the workspace root, `.`, `..` and repeated
/// slashes are collapsed as text, and at most 4,096 UTF-16 units are accepted.
#[derive(Clone)]
pub struct FileSystem {
    authority: Authority,
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pins: Pins,
    roots: Roots,
    workspace: Workspace,
    options: FsOptions,
    entropy: Arc<dyn Entropy>,
    #[cfg(test)]
    hooks: tests::Hooks,
}

/// A path that is asked for: where it leads, and what that is called.
pub(crate) struct Target {
    dir: String,
    path: String,
    follow: bool,
    pub(crate) resolved: Resolved,
    pub(crate) capability: Capability,
}

impl Target {
    fn canonical(&self) -> &str {
        &self.resolved.canonical
    }

    fn denied(&self, reason: &str) -> FsError {
        PermissionDenied::new(self.capability.clone(), reason).into()
    }

    /// A failure on the way to the path's directory: a link there was not there when the path was approved.
    fn parent_error(&self, errno: Errno, operation: &'static str) -> FsError {
        match errno {
            Errno::LOOP => self.denied(reason::PATH_CHANGED),
            Errno::NOTDIR => FsError::NotFound,
            errno => FsError::host(errno, operation),
        }
    }

    /// A failure on the path's last component.
    fn entry_error(&self, errno: Errno, operation: &'static str) -> FsError {
        match errno {
            Errno::LOOP => self.denied(reason::PATH_CHANGED),
            Errno::NXIO => FsError::NotRegular,
            errno => FsError::host(errno, operation),
        }
    }
}

impl FileSystem {
    /// A file system over a workspace. Pins its root and `/`; fails when the root is no directory any more, or has become
    /// a link.
    pub fn new(
        authority: Authority,
        workspace: Workspace,
        options: FsOptions,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, FsError> {
        let canonical = workspace
            .canonical()
            .to_str()
            .ok_or_else(|| FsError::InvalidPath("the workspace root is not UTF-8".to_owned()))?
            .to_owned();
        let pins = Pins::open(&canonical).map_err(|errno| FsError::host(errno, "open the workspace root"))?;
        let live = workspace.live().and_then(Path::to_str);
        let roots = Roots::new(workspace.logical(), &canonical, live);
        let inner = Inner {
            pins,
            roots,
            workspace,
            options,
            entropy,
            #[cfg(test)]
            hooks: tests::Hooks::default(),
        };
        Ok(FileSystem { authority, inner: Arc::new(inner) })
    }

    /// The same file system under another authority.
    pub fn with_authority(&self, authority: Authority) -> Self {
        FileSystem { authority, inner: Arc::clone(&self.inner) }
    }

    /// The file system of a copy of the workspace's tree, under the same authority and options: paths and resources are
    /// those of the workspace, so that grants name the same things, and what they lead to is in the copy (host contract 8).
    /// Nothing leads to the workspace's own files, a walk from above it included, and what holds them is not moved or
    /// removed. `InvalidPath` for a directory that holds the workspace.
    pub fn over(&self, copy: impl AsRef<Path>) -> Result<Self, FsError> {
        let workspace = self.inner.workspace.over(copy)?;
        let inner = &self.inner;
        // In a directory that holds the workspace, what is beside it would go by names of the workspace.
        let (copy, names) = (workspace.canonical(), [Some(Path::new(workspace.logical())), workspace.live()]);
        if workspace.live() != Some(copy) && names.into_iter().flatten().any(|name| name.starts_with(copy)) {
            return Err(FsError::InvalidPath("the copy of the workspace holds the workspace".to_owned()));
        }
        let (options, entropy) = (inner.options.clone(), Arc::clone(&inner.entropy));
        let files = Self::new(self.authority.clone(), workspace, options, entropy)?;
        Ok(if inner.pins.has_openat2() { files } else { files.without_openat2() })
    }

    /// The same file system on a volume of a test's own, by which paths are resolved.
    #[cfg(test)]
    fn on(self, volume: Arc<dyn volume::Volume>) -> Self {
        let FileSystem { authority, inner } = self;
        let inner = Arc::into_inner(inner).expect("the only one");
        let roots = inner.roots.clone().on(volume);
        FileSystem { authority, inner: Arc::new(Inner { roots, ..inner }) }
    }

    /// Makes this file system and its clones walk paths component by component even where the host has `openat2`. For
    /// hosts that know their filters refuse it; which object is reached does not differ.
    pub fn without_openat2(self) -> Self {
        self.inner.pins.refuse_openat2();
        self
    }

    /// The authority that operations ask.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.inner.workspace
    }

    /// The path joined to the workspace root and collapsed as text. It reads nothing and needs no capability.
    pub fn absolute(&self, path: &str) -> String {
        lexical(&self.inner.roots.logical, path)
    }

    /// What an operation on this path would ask for, without asking. With `follow` links are followed to where the
    /// operation would land; without it, as for removals and renames, the last component is taken as it is. Fails where the
    /// kernel would refuse whatever is granted.
    pub fn capability(&self, action: Action, path: &str, follow: bool) -> Result<Capability, FsError> {
        self.target(action, path, follow).map(|target| target.capability)
    }

    /// Whether reading this path would be allowed now: no prompt, no error. A path that cannot be resolved is not.
    pub fn permitted(&self, path: &str) -> bool {
        self.target(Action::FsRead, path, true).is_ok_and(|target| self.decides(&target.capability))
    }

    fn decides(&self, cap: &Capability) -> bool {
        self.authority.decide(cap) == Effect::Allow
    }

    /// Resolve, ask, resolve again.
    async fn ask(
        &self,
        action: Action,
        operation: &'static str,
        path: &str,
        follow: bool,
    ) -> Result<Target, FsError> {
        let target = self.target(action, path, follow)?;
        self.check(&target, operation, path).await?;
        self.confirm(&target)?;
        Ok(target)
    }

    /// Resolves a path as the caller gave it. Without `follow` its last component is taken as it is.
    fn target(&self, action: Action, path: &str, follow: bool) -> Result<Target, FsError> {
        if path.is_empty() {
            return Err(FsError::InvalidPath("the path is empty".to_owned()));
        }
        self.target_from(None, action, path, follow)
    }

    /// As [`target`](Self::target); with a canonical `dir` the path is what a link of this text in it would name.
    fn target_from(
        &self,
        dir: Option<&str>,
        action: Action,
        path: &str,
        follow: bool,
    ) -> Result<Target, FsError> {
        if units(path) > MAX_RESOURCE_UNITS {
            return Err(FsError::InvalidPath(format!("the path is longer than {MAX_RESOURCE_UNITS} units")));
        }
        let (dir, text) = match dir {
            Some(dir) => (dir.to_owned(), path.to_owned()),
            None => ("/".to_owned(), self.absolute(path)),
        };
        let capability = |resource: &str| Capability::new(action, resource).ok_or_else(too_long);
        if path.contains('\0') {
            return Err(PermissionDenied::new(capability(&text)?, reason::NUL).into());
        }
        let resolved = self.inner.roots.resolve_from(&dir, &text, follow);
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(ResolveError::NotUtf8) => {
                return Err(PermissionDenied::new(capability(&text)?, reason::NOT_UTF8).into());
            }
            Err(ResolveError::RootReplaced) => {
                return Err(PermissionDenied::new(capability(&text)?, reason::ROOT_REPLACED).into());
            }
            Err(ResolveError::TooManyLinks) => return Err(FsError::TooManyLinks),
            Err(error @ (ResolveError::TooLong | ResolveError::Spelling)) => {
                return Err(FsError::InvalidPath(error.to_string()));
            }
            Err(ResolveError::Host(errno)) => return Err(FsError::host(errno, "resolve")),
        };
        #[cfg(test)]
        points::reach("resolved");
        let capability = capability(&resolved.resource)?;
        if self.inner.is_pseudo(&resolved.canonical) {
            return Err(PermissionDenied::new(capability, reason::PSEUDO_FS).into());
        }
        Ok(Target { dir, path: text, follow, resolved, capability })
    }

    async fn check(&self, target: &Target, operation: &str, path: &str) -> Result<(), FsError> {
        let mut meta = Meta::new();
        meta.insert("operation".to_owned(), Value::from(operation));
        meta.insert("path".to_owned(), Value::from(path));
        self.authority.check(target.capability.clone(), meta).await?;
        #[cfg(test)]
        {
            self.inner.hooks.after_check();
            points::reach("checked");
        }
        Ok(())
    }

    /// What is inside the workspace is reached through the pinned root, which has to be the root still.
    fn expect_root(&self, target: &Target) -> Result<(), FsError> {
        let inside = is_inside(&self.inner.roots.canonical, target.canonical());
        if inside && !self.inner.pins.root_in_place() {
            return Err(target.denied(reason::ROOT_REPLACED));
        }
        Ok(())
    }

    fn confirm(&self, target: &Target) -> Result<(), FsError> {
        self.expect_root(target)?;
        match self.inner.roots.resolve_from(&target.dir, &target.path, target.follow) {
            Ok(resolved) if resolved == target.resolved => {
                #[cfg(test)]
                points::reach("confirmed");
                Ok(())
            }
            _ => Err(target.denied(reason::PATH_CHANGED)),
        }
    }
}

fn too_long() -> FsError {
    FsError::InvalidPath(ResolveError::TooLong.to_string())
}

impl Inner {
    fn is_pseudo(&self, canonical: &str) -> bool {
        !self.options.allow_pseudo_fs
            && ["/proc", "/sys", "/dev"].iter().any(|root| is_inside(root, canonical))
    }

    /// The resource of a canonical path, with the capability to read it.
    fn read_capability(&self, canonical: &str) -> Result<Capability, FsError> {
        let resource = match self.roots.resource(canonical) {
            Ok(resource) => Capability::new(Action::FsRead, resource),
            Err(_) => {
                return Err(match Capability::new(Action::FsRead, canonical) {
                    Some(capability) => PermissionDenied::new(capability, reason::ROOT_REPLACED).into(),
                    None => too_long(),
                });
            }
        };
        resource.ok_or_else(too_long)
    }
}

impl fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSystem")
            .field("authority", &self.authority)
            .field("workspace", &self.inner.workspace)
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod points;
#[cfg(test)]
mod race;
#[cfg(test)]
mod tests;
