//! Finding a program the way the child would.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use rustix::fs::{Access, AtFlags, FileType};
use rustix::io::Errno;

use super::error::SpawnError;

/// Where programs are looked for when the environment has no `PATH`, as `execvp` does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The path that executes `program` from `cwd`: itself when it has a slash, else the first executable file of that name on
/// the child's own `PATH`. An empty entry of `PATH` is the working directory.
pub(crate) fn find(
    program: &str,
    env: &BTreeMap<String, String>,
    cwd: BorrowedFd<'_>,
) -> Result<String, SpawnError> {
    if program.contains('/') {
        return match executable(cwd, program) {
            Ok(()) => Ok(program.to_owned()),
            Err(errno) => Err(failure(program, errno)),
        };
    }
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let mut first = Errno::NOENT;
    for dir in path.split(':') {
        let candidate = if dir.is_empty() { format!("./{program}") } else { format!("{dir}/{program}") };
        match executable(cwd, &candidate) {
            Ok(()) => return Ok(candidate),
            Err(errno) if first == Errno::NOENT && errno != Errno::NOTDIR => first = errno,
            Err(_) => {}
        }
    }
    Err(failure(program, first))
}

fn executable(cwd: BorrowedFd<'_>, path: &str) -> Result<(), Errno> {
    let stat = rustix::fs::statat(cwd, path, AtFlags::empty())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    match rustix::fs::accessat(cwd, path, Access::EXEC_OK, AtFlags::EACCESS) {
        // Where the host does not go by effective ids here, execution itself tells.
        Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL) => Ok(()),
        answer => answer,
    }
}

fn failure(program: &str, errno: Errno) -> SpawnError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => SpawnError::NotFound { program: program.to_owned() },
        errno => SpawnError::io("execute", errno),
    }
}
