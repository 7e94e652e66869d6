//! Opening a file without following a link.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path};

/// Opens the regular file `path`, which is beneath `root`. `root` itself may be reached through links; nothing beneath it may.
///
/// # Errors
///
/// `PermissionDenied` when `path` leaves `root` or a link is on the way, `InvalidInput` when it is no regular file, and what
/// the system says.
pub(super) fn open(root: &Path, path: &Path) -> Result<File> {
    let refused = |what: &str| Error::new(ErrorKind::PermissionDenied, format!("{}: {what}", path.display()));
    let inside = path.strip_prefix(root).map_err(|_| refused("not beneath the folder"))?;
    if !inside.components().all(|piece| matches!(piece, Component::Normal(_))) {
        return Err(refused("not beneath the folder"));
    }
    let mut place = fs::canonicalize(root)?;
    for piece in inside.components() {
        place.push(piece);
        if fs::symlink_metadata(&place)?.is_symlink() {
            return Err(refused("a link is not followed"));
        }
    }
    // A device or a pipe is not even opened.
    if !fs::symlink_metadata(&place)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, format!("{}: not a regular file", path.display())));
    }
    let file = File::open(&place)?;
    if !file.metadata()?.is_file() || !is_at(&file, &place) {
        return Err(refused("a link is not followed"));
    }
    Ok(file)
}

/// Whether the open file is where its path says: a link put there after the look above leads elsewhere.
#[cfg(target_os = "linux")]
fn is_at(file: &File, place: &Path) -> bool {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok_and(|real| real == place)
}

#[cfg(not(target_os = "linux"))]
fn is_at(_: &File, place: &Path) -> bool {
    fs::canonicalize(place).is_ok_and(|real| real == place)
}
