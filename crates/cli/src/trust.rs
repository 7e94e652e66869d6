//! Trust in a workspace's policy file: its SHA-256, pinned in the user's configuration folder (CLI contract 3).
//!
//! One small file a pin, named by the digest of the policy file's path, so that two processes never write the same one
//! for different workspaces. A file that changed has another digest and is untrusted again.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flowcell_engines::harness::flows::canonical::sha256_hex;

/// How a policy file stands to its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Nobody trusted a file of this path.
    None,
    /// A file of this path was trusted, with another content.
    Other,
    /// It is trusted with this content.
    Same,
}

/// The pins of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustStore {
    folder: PathBuf,
}

impl TrustStore {
    /// The pins in a configuration folder of flowcell.
    pub fn new(config: &Path) -> Self {
        Self { folder: config.join("trusted") }
    }

    fn pin(&self, file: &Path) -> PathBuf {
        self.folder.join(sha256_hex(file.as_os_str().as_encoded_bytes()))
    }

    /// The pin of a policy file of this path, against this content.
    ///
    /// # Errors
    /// When a pin is there and cannot be read.
    pub fn pin_of(&self, file: &Path, content: &[u8]) -> io::Result<Pin> {
        match fs::read_to_string(self.pin(file)) {
            Ok(pinned) if pinned.split_whitespace().next() == Some(&sha256_hex(content)) => Ok(Pin::Same),
            Ok(_) => Ok(Pin::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Pin::None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Pin::Other),
            Err(error) => Err(error),
        }
    }

    /// Trusts a policy file with this content, and answers its digest.
    ///
    /// # Errors
    /// When the pin cannot be written.
    pub fn trust(&self, file: &Path, content: &[u8]) -> io::Result<String> {
        let digest = sha256_hex(content);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let pin = self.pin(file);
        let beside = pin.with_extension(std::process::id().to_string());
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut out| {
                writeln!(out, "{digest}  {}", file.display())?;
                out.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &pin));
        if let Err(error) = written {
            // The pin is not there; what is left of it is of no use.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        Ok(digest)
    }

    /// Takes trust back; whether there was a pin.
    ///
    /// # Errors
    /// When the pin cannot be removed.
    pub fn revoke(&self, file: &Path) -> io::Result<bool> {
        match fs::remove_file(self.pin(file)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_for_one_path_and_one_content() {
        let folder = tempfile::tempdir().unwrap();
        let pins = TrustStore::new(&folder.path().join("flowcell"));
        let file = Path::new("/ws/.flowcell.toml");
        let pin = |content: &[u8]| pins.pin_of(file, content).unwrap();
        assert_eq!(pin(b"a"), Pin::None);
        assert_eq!(pins.trust(file, b"a").unwrap(), sha256_hex(b"a"));
        assert_eq!((pin(b"a"), pin(b"b")), (Pin::Same, Pin::Other));
        assert_eq!(pins.pin_of(Path::new("/other/.flowcell.toml"), b"a").unwrap(), Pin::None);
        pins.trust(file, b"b").unwrap();
        assert_eq!((pin(b"a"), pin(b"b")), (Pin::Other, Pin::Same));
        assert!(pins.revoke(file).unwrap());
        assert!(!pins.revoke(file).unwrap());
        assert_eq!(pin(b"b"), Pin::None);
    }
}
