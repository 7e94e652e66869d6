//! Removing a call's private directory.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Removes a directory with all it holds, as far as its owner can; none is fine. Links are not followed.
pub(crate) fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => {
            // A directory without its owner's rights keeps what it holds.
            open_up(path);
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Gives the owner all rights in a directory and those beneath it.
fn open_up(path: &Path) {
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
}
