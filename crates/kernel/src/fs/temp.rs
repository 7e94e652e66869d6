//! Temporary files and directories outside the workspace.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::entry::remove_below;
use super::path::{child, lexical, parent};
use super::pin::{CONTENT, LIST, open_entry};
use super::replace::random_hex;
use super::{FileSystem, FsError, Kind, Stat};
use crate::flows::capability::{Action, Capability};
use crate::meta::Meta;

/// The last component of the resource that a temporary file without a directory asks for (kernel contract 6.1).
pub const SYSTEM_TEMP: &str = "<system-temp>";
/// Names tried for a temporary file.
const NAME_TRIES: usize = 16;

/// A temporary file or directory. It is removed when this value goes, with everything in it; what another put in its place
/// is left.
#[derive(Debug)]
pub struct TempEntry {
    dir: OwnedFd,
    name: String,
    path: String,
    made: Stat,
}

impl TempEntry {
    /// Takes in what was just made.
    fn of(dir: OwnedFd, name: String, path: String) -> Result<Self, FsError> {
        let made = rustix::fs::statat(&dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let made = made.map_err(|errno| FsError::host(errno, "stat"))?;
        Ok(TempEntry { dir, name, path, made: Stat::of(&made) })
    }

    fn is_own(&self, stat: Result<rustix::fs::Stat, Errno>) -> bool {
        stat.is_ok_and(|stat| Stat::of(&stat).same_file(&self.made))
    }

    /// Where it is: an absolute path without links.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for TempEntry {
    fn drop(&mut self) {
        let mut flags = AtFlags::empty();
        if self.made.kind == Kind::Dir {
            flags = AtFlags::REMOVEDIR;
            if let Ok(fd) = open_entry(self.dir.as_fd(), self.name.as_ref(), LIST, Mode::empty())
                && self.is_own(rustix::fs::fstat(&fd))
            {
                let _ = remove_below(fd, &|| Ok(()));
            }
        }
        // What another put in its place is another's.
        let named = rustix::fs::statat(&self.dir, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        if !self.is_own(named) {
            return;
        }
        let _ = rustix::fs::unlinkat(&self.dir, self.name.as_str(), flags);
    }
}

impl FileSystem {
    /// Makes a file of these bytes, mode 0600, in the host's temporary directory. Asks `fs:write` of the literal
    /// `<parent of the root>/<system-temp>`.
    pub async fn temp_file(&self, bytes: &[u8]) -> Result<TempEntry, FsError> {
        self.ask_temp("temp_file").await?;
        let (entry, fd) = self.make_temp(|dir, name| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | CONTENT;
            rustix::fs::openat(dir, name, flags, Mode::from(0o600)).map(Some)
        })?;
        let mut rest = bytes;
        while let (Some(fd), false) = (&fd, rest.is_empty()) {
            match retry_on_intr(|| rustix::io::write(fd, rest)) {
                Ok(0) => return Err(FsError::other(Errno::IO, "write")),
                Ok(count) => rest = &rest[count..],
                Err(errno) => return Err(FsError::other(errno, "write")),
            }
        }
        Ok(entry)
    }

    /// Makes a directory, mode 0700, in the host's temporary directory. Asks as [`temp_file`](Self::temp_file) does.
    pub async fn temp_dir(&self) -> Result<TempEntry, FsError> {
        self.ask_temp("temp_dir").await?;
        let (entry, _) =
            self.make_temp(|dir, name| rustix::fs::mkdirat(dir, name, Mode::from(0o700)).map(|()| None))?;
        Ok(entry)
    }

    async fn ask_temp(&self, operation: &str) -> Result<(), FsError> {
        let resource = child(parent(&self.inner.roots.logical), SYSTEM_TEMP);
        let capability = Capability::new(Action::FsWrite, resource)
            .ok_or_else(|| FsError::InvalidPath("the workspace root is too long".to_owned()))?;
        let mut meta = Meta::new();
        meta.insert("operation".to_owned(), operation.into());
        self.authority.check(capability, meta).await.map_err(FsError::from)
    }

    fn make_temp(
        &self,
        make: impl Fn(&OwnedFd, &str) -> Result<Option<OwnedFd>, Errno>,
    ) -> Result<(TempEntry, Option<OwnedFd>), FsError> {
        let given = self.inner.options.system_temp.to_str().filter(|path| path.starts_with('/'));
        let given = given.ok_or_else(|| {
            FsError::InvalidPath("the host's temporary directory is no absolute path of UTF-8".to_owned())
        })?;
        let resolved = self.inner.roots.resolve(&lexical("/", given), true);
        let canonical = resolved.map_err(|error| FsError::InvalidPath(error.to_string()))?.canonical;
        for _ in 0..NAME_TRIES {
            let name = format!("flowcell-{}", random_hex(&*self.inner.entropy));
            let dir = self.inner.pins.dir(&canonical).map_err(|errno| FsError::host(errno, "open"))?;
            match make(&dir, &name) {
                Ok(fd) => {
                    let path = child(&canonical, &name);
                    return Ok((TempEntry::of(dir, name, path)?, fd));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(FsError::host(errno, "create")),
            }
        }
        Err(FsError::Exists)
    }
}
