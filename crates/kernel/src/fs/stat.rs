//! What the host says of a file.

use std::ffi::OsString;

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

/// What a name stands for. Links are named as such where the operation does not follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device.
    Other,
}

impl Kind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Other,
        }
    }
}

/// Metadata of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stat {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of content, nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// Permission, set-id and sticky bits (`mode & 0o7777`).
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Names of the inode.
    pub nlink: u64,
    /// What it is.
    pub kind: Kind,
}

/// The same facts under the name that callers who do not compare them use.
pub type Metadata = Stat;

impl Stat {
    // The widths of these fields differ between hosts; each of them fits where it goes.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_lossless, clippy::useless_conversion)]
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        let seconds = stat.st_mtime as i64;
        Stat {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64),
            mode: (stat.st_mode as u32) & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            nlink: stat.st_nlink as u64,
            kind: Kind::of(FileType::from_raw_mode(stat.st_mode)),
        }
    }

    /// Whether both are of one inode.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Whether both are of one inode with the same size and time of change: the comparison of host contract 0, step 4.
    pub fn same_version(&self, other: &Self) -> bool {
        self.same_file(other) && (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name; it need not be UTF-8. Never `.` or `..`.
    pub name: OsString,
    /// What the name stands for, links not followed.
    pub kind: Kind,
}
