//! An open regular file.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::pin::{CONTENT, Place};
use super::{FsError, Inner, Kind, Stat, Target, reason};
use crate::flows::capability::Capability;
use crate::permission::PermissionDenied;

/// Bytes moved by one host call at most; the path is verified before each.
const CHUNK: usize = 1 << 20;

/// A regular file, open. It keeps the file's device and inode, and before every read, write, truncation or stat it makes
/// sure that the authorised path still names that file; else the call is refused with `open file no longer matches its
/// path` (kernel contract 6.1). One that cannot be made sure of, because no descriptor is left for one, fails with the
/// host's own error.
pub struct OpenFile {
    fd: OwnedFd,
    opened: Stat,
    inner: Arc<Inner>,
    canonical: String,
    capability: Capability,
}

impl OpenFile {
    /// Opens what the path names for reading.
    pub(super) fn read(inner: &Arc<Inner>, target: &Target) -> Result<Self, FsError> {
        let place = inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "open"))?;
        let fd = place
            .open(OFlags::RDONLY | CONTENT, Mode::empty())
            .map_err(|errno| target.entry_error(errno, "open"))?;
        Self::adopt(inner, fd, target.canonical().to_owned(), target.capability.clone(), false)
    }

    /// Opens an existing file for writing; the host's own error, so that the caller can tell a missing one.
    pub(super) fn write(
        inner: &Arc<Inner>,
        place: &Place,
        target: &Target,
    ) -> Result<Result<Self, FsError>, Errno> {
        let fd = place.open(OFlags::WRONLY | CONTENT, Mode::empty())?;
        Ok(Self::adopt(inner, fd, target.canonical().to_owned(), target.capability.clone(), true))
    }

    /// Takes a descriptor in: a regular file, of one link when it is written in place.
    pub(super) fn adopt(
        inner: &Arc<Inner>,
        fd: OwnedFd,
        canonical: String,
        capability: Capability,
        writing: bool,
    ) -> Result<Self, FsError> {
        let file = Self::adopt_linked(inner, fd, canonical, capability)?;
        if file.opened.nlink > 1 && (writing || inner.options.refuse_hard_linked_reads) {
            return Err(file.denied(reason::MORE_THAN_ONE_LINK));
        }
        Ok(file)
    }

    /// As [`adopt`](Self::adopt), of any number of links: for a name that is about to be replaced.
    pub(super) fn adopt_linked(
        inner: &Arc<Inner>,
        fd: OwnedFd,
        canonical: String,
        capability: Capability,
    ) -> Result<Self, FsError> {
        let opened = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
        let opened = Stat::of(&opened);
        match opened.kind {
            Kind::File => {}
            Kind::Dir => return Err(FsError::IsADirectory),
            Kind::Symlink | Kind::Other => return Err(FsError::NotRegular),
        }
        #[cfg(test)]
        super::points::reach("opened");
        Ok(OpenFile { fd, opened, inner: Arc::clone(inner), canonical, capability })
    }

    /// The file's metadata when it was opened.
    pub fn opened(&self) -> Stat {
        self.opened
    }

    /// The file's metadata now.
    pub fn stat(&self) -> Result<Stat, FsError> {
        self.verify()?;
        let stat = rustix::fs::fstat(&self.fd).map_err(|errno| FsError::host(errno, "stat"))?;
        Ok(Stat::of(&stat))
    }

    /// The resource that the file was authorised as.
    pub fn resource(&self) -> &str {
        self.capability.resource()
    }

    /// The content from its beginning, of at most `max + 1` bytes: more than `max` means that the file is longer.
    pub fn read_to(&self, max: u64) -> Result<Vec<u8>, FsError> {
        self.read_at(0, max.saturating_add(1))
    }

    /// At most `len` bytes from `offset`; fewer at the end of the file.
    pub fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, FsError> {
        let mut out = Vec::new();
        // What the size at opening promises; one byte beyond it shows the end.
        let promised = self.opened.size.saturating_sub(offset);
        loop {
            let got = out.len() as u64;
            let left = len.saturating_sub(got);
            if left == 0 {
                break;
            }
            let expected = promised.saturating_sub(got).saturating_add(1);
            let want = usize::try_from(left.min(expected.max(4_096))).unwrap_or(CHUNK).min(CHUNK);
            let start = out.len();
            out.resize(start + want, 0);
            let count = self.read_chunk(&mut out[start..], offset.saturating_add(got));
            out.truncate(start + *count.as_ref().unwrap_or(&0));
            let count = count?;
            // A regular file reads short at its end only; one that claims no size is asked until it says so.
            let at_end = promised > 0 && out.len() as u64 >= promised;
            if count == 0 || (count < want && at_end) {
                break;
            }
        }
        Ok(out)
    }

    /// One read, of what the host gives.
    pub(super) fn read_chunk(&self, into: &mut [u8], offset: u64) -> Result<usize, FsError> {
        self.verify()?;
        retry_on_intr(|| rustix::io::pread(&self.fd, &mut *into, offset))
            .map_err(|errno| FsError::host(errno, "read"))
    }

    /// Cuts the file, then writes all bytes from its beginning.
    pub(super) fn overwrite(&self, bytes: &[u8]) -> Result<(), FsError> {
        self.set_len(0)?;
        let mut offset = 0u64;
        for chunk in bytes.chunks(CHUNK) {
            self.write_chunk(chunk, offset)?;
            offset += chunk.len() as u64;
        }
        Ok(())
    }

    /// Writes a whole chunk.
    pub(super) fn write_chunk(&self, mut chunk: &[u8], mut offset: u64) -> Result<(), FsError> {
        while !chunk.is_empty() {
            self.verify()?;
            let count = retry_on_intr(|| rustix::io::pwrite(&self.fd, chunk, offset))
                .map_err(|errno| FsError::host(errno, "write"))?;
            if count == 0 {
                return Err(FsError::other(Errno::IO, "write"));
            }
            chunk = &chunk[count..];
            offset += count as u64;
        }
        Ok(())
    }

    pub(super) fn set_len(&self, len: u64) -> Result<(), FsError> {
        self.verify()?;
        retry_on_intr(|| rustix::fs::ftruncate(&self.fd, len))
            .map_err(|errno| FsError::host(errno, "truncate"))
    }

    /// Whether the content is exactly these bytes.
    pub(super) fn holds(&self, bytes: &[u8]) -> Result<bool, FsError> {
        let mut buffer = vec![0; CHUNK.min(bytes.len() + 1)];
        let mut at = 0usize;
        loop {
            let count = self.read_chunk(&mut buffer, at as u64)?;
            if count == 0 {
                return Ok(at == bytes.len());
            }
            if bytes.get(at..at + count) != Some(&buffer[..count]) {
                return Ok(false);
            }
            at += count;
        }
    }

    pub(super) fn denied(&self, reason: &str) -> FsError {
        PermissionDenied::new(self.capability.clone(), reason).into()
    }

    fn verify(&self) -> Result<(), FsError> {
        match self.inner.pins.names(&self.canonical, &self.opened) {
            Ok(true) => {
                #[cfg(test)]
                super::points::reach("verified");
                Ok(())
            }
            Ok(false) => Err(self.denied(reason::NO_LONGER_MATCHES)),
            Err(errno) => Err(FsError::host(errno, "stat")),
        }
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("resource", &self.resource())
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}
