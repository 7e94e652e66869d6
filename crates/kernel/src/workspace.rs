//! The root that relative paths are read against.

use std::path::{Path, PathBuf};

use crate::fs::{FsError, lexical, resolve_workspace};

/// A workspace root under its two names: the logical one, as configured, and the canonical one, its links resolved
/// (kernel contract 6.1). Resources of files inside are expressed under the logical one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    logical: String,
    canonical: PathBuf,
    /// The directory that `canonical` is a copy of.
    live: Option<PathBuf>,
}

impl Workspace {
    /// Resolves a root. The path has to be absolute, of UTF-8, and name a directory; `.`, `..` and repeated slashes are
    /// collapsed as text.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FsError> {
        let path = path.as_ref();
        let text = path
            .to_str()
            .ok_or_else(|| FsError::InvalidPath("the workspace root is not UTF-8".to_owned()))?;
        if !text.starts_with('/') {
            return Err(FsError::InvalidPath("the workspace root is not absolute".to_owned()));
        }
        if text.contains('\0') {
            return Err(FsError::InvalidPath("the workspace root has a NUL".to_owned()));
        }
        let logical = lexical("/", text);
        let canonical = resolve_workspace(&logical)?;
        Ok(Workspace { logical, canonical: PathBuf::from(canonical), live: None })
    }

    /// The same workspace with a copy of its tree in the place of its root: paths and resources are those of the workspace,
    /// what they lead to is in the copy (host contract 8). The copy has to be a directory.
    pub fn over(&self, copy: impl AsRef<Path>) -> Result<Self, FsError> {
        let Workspace { canonical, .. } = Self::open(copy)?;
        let live = self.live.clone().unwrap_or_else(|| self.canonical.clone());
        Ok(Workspace { logical: self.logical.clone(), canonical, live: Some(live) })
    }

    /// The directory that [`canonical`](Self::canonical) is a copy of, for a workspace made by [`over`](Self::over).
    pub fn live(&self) -> Option<&Path> {
        self.live.as_deref()
    }

    /// The root as configured: absolute, without `.`, `..`, repeated or trailing slashes.
    pub fn logical(&self) -> &str {
        &self.logical
    }

    /// The root with its links resolved.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }
}
