//! Operations that write in place, and copies.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::pin::{CONTENT, Place};
use super::{FileSystem, FsError, Kind, OpenFile, Replaced, Stat, Target, reason};
use crate::flows::capability::Action;

/// A file that must not exist yet.
const CREATE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(CONTENT);
/// Bytes of one step of a copy.
const COPY_CHUNK: usize = 1 << 20;
/// Tries to open or create a file that others create and remove at the same time.
const OPEN_TRIES: usize = 8;

impl FileSystem {
    /// Writes a file in place, creating it with mode `0666 & !umask` when it is missing. Asks `fs:write` of the path. The
    /// inode stays, so a file of more than one link is refused. Not atomic; see [`replace`](Self::replace). A file that was
    /// made and whose bytes cannot all be written is removed again.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<Replaced, FsError> {
        let target = self.ask(Action::FsWrite, "write", path, true).await?;
        let (place, file, written) = self.open_or_create(&target, 0o666)?;
        file.overwrite(bytes).inspect_err(|_| take_back(&place, &file, written))?;
        Ok(written)
    }

    /// Creates a file of these bytes and this mode (umask applied). `Exists` when there is something. A file whose bytes
    /// cannot all be written is removed again.
    pub async fn create_new(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), FsError> {
        let target = self.ask(Action::FsWrite, "create_new", path, true).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "create"))?;
        let fd = place.open(CREATE, file_mode(mode)).map_err(|errno| target.entry_error(errno, "create"))?;
        let file = self.adopt_new(&place, fd, &target)?;
        file.write_chunk(bytes, 0).inspect_err(|_| unlink_if(&place, &file.opened()))
    }

    /// Cuts or extends an existing file to a length, in place. Asks `fs:write` of the path.
    pub async fn truncate(&self, path: &str, len: u64) -> Result<(), FsError> {
        let target = self.ask(Action::FsWrite, "truncate", path, true).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "truncate"))?;
        let opened = OpenFile::write(&self.inner, &place, &target);
        opened.map_err(|errno| target.entry_error(errno, "truncate"))??.set_len(len)
    }

    /// Sets the permission bits (`mode & 0o7777`) of a regular file or a directory, and gives the previous ones. Asks
    /// `fs:write` of the path. A file of more than one link is refused.
    pub async fn set_mode(&self, path: &str, mode: u32) -> Result<u32, FsError> {
        let target = self.ask(Action::FsWrite, "set_mode", path, true).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "set_mode"))?;
        let named = place.stat().map_err(|errno| target.entry_error(errno, "set_mode"))?;
        match named.kind {
            Kind::File if named.nlink > 1 => return Err(target.denied(reason::MORE_THAN_ONE_LINK)),
            Kind::File | Kind::Dir => {}
            Kind::Symlink => return Err(target.denied(reason::PATH_CHANGED)),
            Kind::Other => return Err(FsError::NotRegular),
        }
        let fd = match place.open(OFlags::RDONLY | CONTENT, Mode::empty()) {
            Err(Errno::ACCESS) => place.open(OFlags::WRONLY | CONTENT, Mode::empty()),
            opened => opened,
        };
        let mode = file_mode(mode);
        match self.inner.pins.names(target.canonical(), &named) {
            Ok(true) => {}
            Ok(false) => return Err(target.denied(reason::PATH_CHANGED)),
            Err(errno) => return Err(FsError::host(errno, "set_mode")),
        }
        match fd {
            Ok(fd) => {
                let opened = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
                let opened = Stat::of(&opened);
                if !opened.same_file(&named) {
                    return Err(target.denied(reason::PATH_CHANGED));
                }
                if opened.kind == Kind::File && opened.nlink > 1 {
                    return Err(target.denied(reason::MORE_THAN_ONE_LINK));
                }
                rustix::fs::fchmod(&fd, mode).map_err(|errno| FsError::host(errno, "set_mode"))?;
            }
            Err(Errno::ACCESS) => chmod_closed(&place, &target, &named, mode)?,
            Err(errno) => return Err(target.entry_error(errno, "set_mode")),
        }
        Ok(named.mode)
    }

    /// Makes one directory, of mode `0777 & !umask`. Asks `fs:write` of the path. `Exists` when there is something.
    pub async fn make_dir(&self, path: &str) -> Result<(), FsError> {
        let target = self.ask(Action::FsWrite, "make_dir", path, true).await?;
        let place =
            self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "make_dir"))?;
        if place.name == "." {
            return Err(FsError::Exists);
        }
        rustix::fs::mkdirat(&place.dir, place.name.as_str(), Mode::from(0o777))
            .map_err(|errno| target.entry_error(errno, "make_dir"))?;
        #[cfg(test)]
        self.inner.hooks.after_create();
        self.inner
            .pins
            .expect_made(target.canonical(), &place)
            .map_err(|errno| target.entry_error(errno, "make_dir"))
    }

    /// Makes a directory and its missing parents, one component at a time. Asks `fs:write` of the path, once. True when it
    /// made any; `NotADirectory` when a component is something else.
    pub async fn make_dirs(&self, path: &str) -> Result<bool, FsError> {
        let target = self.ask(Action::FsWrite, "make_dirs", path, true).await?;
        let made = self.inner.pins.make_dirs(target.canonical());
        made.map_err(|errno| target.entry_error(errno, "make_dirs"))
    }

    /// Copies a regular file's bytes over another, in place as [`write`](Self::write) does; a file that is made takes the
    /// permission bits of the first (umask applied), and is removed again when not all bytes can be copied. Asks `fs:read` of `from`, then `fs:write` of `to`, before anything
    /// happens. Gives the number of bytes.
    pub async fn copy(&self, from: &str, to: &str) -> Result<u64, FsError> {
        let source = self.target(Action::FsRead, from, true)?;
        let target = self.target(Action::FsWrite, to, true)?;
        self.check(&source, "copy", from).await?;
        self.check(&target, "copy", to).await?;
        self.confirm(&source)?;
        self.confirm(&target)?;
        let input = OpenFile::read(&self.inner, &source)?;
        let (place, output, written) = self.open_or_create(&target, input.opened().mode & 0o777)?;
        if output.opened().same_file(&input.opened()) {
            return Err(FsError::InvalidPath("the copy would overwrite its own source".to_owned()));
        }
        #[cfg(test)]
        self.inner.hooks.midway();
        copy_bytes(&input, &output).inspect_err(|_| take_back(&place, &output, written))
    }

    /// Opens a file for writing in place, or creates it; says which, and the previous mode.
    fn open_or_create(&self, target: &Target, mode: u32) -> Result<(Place, OpenFile, Replaced), FsError> {
        let place = self.inner.pins.place(target.canonical()).map_err(|e| target.parent_error(e, "write"))?;
        for _ in 0..OPEN_TRIES {
            match OpenFile::write(&self.inner, &place, target) {
                Ok(file) => {
                    let file = file?;
                    let mode = Some(file.opened().mode);
                    return Ok((place, file, Replaced { created: false, mode }));
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(target.entry_error(errno, "write")),
            }
            match place.open(CREATE, file_mode(mode)) {
                Ok(fd) => {
                    let file = self.adopt_new(&place, fd, target)?;
                    return Ok((place, file, Replaced { created: true, mode: None }));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(target.entry_error(errno, "write")),
            }
        }
        Err(FsError::Exists)
    }

    /// Takes in a file that was just made, and takes it back when the path does not name it: its parent went elsewhere.
    fn adopt_new(&self, place: &Place, fd: OwnedFd, target: &Target) -> Result<OpenFile, FsError> {
        let file =
            OpenFile::adopt(&self.inner, fd, target.canonical().to_owned(), target.capability.clone(), true)?;
        #[cfg(test)]
        self.inner.hooks.after_create();
        match file.stat() {
            Ok(_) => Ok(file),
            Err(error) => {
                unlink_if(place, &file.opened());
                Err(error)
            }
        }
    }
}

/// Removes the entry if it still is this file.
pub(super) fn unlink_if(place: &Place, file: &Stat) {
    if place.stat().is_ok_and(|now| now.same_file(file)) {
        let _ = rustix::fs::unlinkat(&place.dir, place.name.as_str(), AtFlags::empty());
    }
}

/// Removes a file that was made by an operation that then failed.
fn take_back(place: &Place, file: &OpenFile, written: Replaced) {
    if written.created {
        unlink_if(place, &file.opened());
    }
}

fn copy_bytes(input: &OpenFile, output: &OpenFile) -> Result<u64, FsError> {
    output.set_len(0)?;
    let mut buffer = vec![0; COPY_CHUNK];
    let mut offset = 0u64;
    loop {
        let count = input.read_chunk(&mut buffer, offset)?;
        if count == 0 {
            return Ok(offset);
        }
        output.write_chunk(&buffer[..count], offset)?;
        offset += count as u64;
    }
}

/// The permission bits of a number.
#[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)] // The bits kept fit the narrowest `mode_t`.
pub(super) fn file_mode(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & 0o7777) as rustix::fs::RawMode)
}

/// Sets the mode of a file that its owner may neither read nor write: through its own descriptor's name, so that no link
/// can take its place.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn chmod_closed(place: &Place, target: &Target, named: &Stat, mode: Mode) -> Result<(), FsError> {
    use std::os::fd::AsRawFd;

    let fd = place
        .open(OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| target.entry_error(errno, "set_mode"))?;
    let opened = rustix::fs::fstat(&fd).map_err(|errno| FsError::host(errno, "stat"))?;
    if !Stat::of(&opened).same_file(named) {
        return Err(target.denied(reason::PATH_CHANGED));
    }
    let name = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::chmodat(rustix::fs::CWD, name, mode, AtFlags::empty())
        .map_err(|errno| FsError::host(errno, "set_mode"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn chmod_closed(place: &Place, _target: &Target, _named: &Stat, mode: Mode) -> Result<(), FsError> {
    rustix::fs::chmodat(&place.dir, place.name.as_str(), mode, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| FsError::host(errno, "set_mode"))
}
