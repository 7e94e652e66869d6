//! The step between `fork` and `execve`, and what else needs `unsafe`: nothing outside this file does.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::io::FdFlags;

/// Descriptors looked at when the host cannot mark all of them at once.
const MAX_WALKED: RawFd = 1 << 20;

/// Starts a command whose child leads a session of its own, stands in `cwd`, and keeps no descriptor beyond 0 to 2 and those
/// of `inherit`. Which descriptors other threads of the host hold, and how they opened them, plays no part.
pub(crate) fn start(mut command: Command, cwd: OwnedFd, inherit: Vec<RawFd>) -> io::Result<Child> {
    let walk_to = open_limit();
    let prepare = move || {
        rustix::process::setsid()?;
        rustix::process::fchdir(&cwd)?;
        close_on_exec(walk_to);
        for fd in &inherit {
            // SAFETY: the descriptor is open in the parent for as long as the start takes (the request holds it), so the
            // child has it open under the same number; nothing closed it since `fork`.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure runs in the child of a process with threads, so it may do only what is safe in a signal handler:
    // it makes system calls on values that it owns, and neither allocates nor takes a lock. An error leaves through
    // `io::Error`'s code form, which does not allocate.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// A descriptor of which the runtime tells when it becomes readable.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn watch(fd: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    use tokio::io::{Interest, unix::AsyncFd};
    // SAFETY: an OwnedFd gives the same open descriptor for as long as it lives, and the AsyncFd owns it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

/// Marks every descriptor from 3 on to be closed by `execve`. They stay open until then: the standard library tells a
/// failure of `execve` through one of them.
fn close_on_exec(walk_to: RawFd) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        const CLOSE_RANGE_CLOEXEC: libc::c_uint = 1 << 2;
        // SAFETY: the call reads no memory; it changes flags of descriptors of this process alone, which is about to become
        // another program.
        let done = unsafe {
            libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC)
        };
        if done == 0 {
            return;
        }
    }
    walk(walk_to);
}

/// As [`close_on_exec`], one at a time: for hosts without `close_range` (Linux before 5.11), and filters that refuse it.
fn walk(walk_to: RawFd) {
    for fd in 3..walk_to {
        // SAFETY: the number may stand for no open descriptor; the call then fails with EBADF and does nothing else.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        if let Ok(flags) = rustix::io::fcntl_getfd(fd) {
            let _ = rustix::io::fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
}

/// The number above every descriptor that this process can have opened under its present limit.
fn open_limit() -> RawFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit
        .maximum
        .or(limit.current)
        .and_then(|limit| RawFd::try_from(limit).ok())
        .unwrap_or(MAX_WALKED)
        .min(MAX_WALKED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn the_walk_marks_what_is_open() {
        // A child's step, run in this process: marking is all it does, and these are marked already.
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(file.as_fd(), FdFlags::empty()).unwrap();
        walk(open_limit());
        assert_eq!(rustix::io::fcntl_getfd(file.as_fd()).unwrap(), FdFlags::CLOEXEC);
    }
}
