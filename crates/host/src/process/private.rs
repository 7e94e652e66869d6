//! The private directory of a hermetic call.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::confine;
use crate::kernel::Entropy;

/// Names that are tried.
const TRIES: u32 = 1_000;

/// A directory that only its owner can enter, removed with all it holds when this is dropped.
#[derive(Debug)]
pub(super) struct Private {
    path: PathBuf,
}

impl Private {
    /// Makes one in `parent`, whose links are resolved.
    pub(super) fn new(parent: &Path, entropy: &dyn Entropy) -> io::Result<Self> {
        let parent = fs::canonicalize(parent)?;
        if parent.to_str().is_none() {
            let message = "the directory for temporary files has no UTF-8 path";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut tries = 0;
        loop {
            let mut bytes = [0_u8; 16];
            entropy.fill(&mut bytes);
            let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let path = parent.join(format!("flowcell-{name}"));
            // Fails when something is there already, which a source of few bits may come to.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Private { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &str {
        // It was UTF-8 when it was made.
        self.path.to_str().unwrap_or_default()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // A supervisor may have done it already: it also does where the host is killed.
        confine::remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::kernel::SeededEntropy;

    #[test]
    fn it_goes_with_all_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let entropy = SeededEntropy::new(1);
        let private = Private::new(dir.path(), &entropy).unwrap();
        let path = PathBuf::from(private.path());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "x").unwrap();
        fs::set_permissions(path.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(path.join("a"), fs::Permissions::from_mode(0o100)).unwrap();
        drop(private);
        assert!(!path.exists());
        assert!(Private::new(&dir.path().join("none"), &entropy).is_err());
    }
}
