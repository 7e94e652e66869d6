//! The system calls that no safe function has: nothing outside this file needs `unsafe`.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use rustix::io::FdFlags;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Takes over a descriptor that this process was started with, and keeps it from what it starts.
pub(super) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 || rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new()).is_err() {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: the descriptor is open, and nothing in this process owns it: it was inherited under a number that the
    // arguments name, and this is called once, before anything else opens or takes one.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// The two sides of a fork.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks a process that has one thread.
pub(super) fn fork() -> io::Result<Fork> {
    if !single_threaded() {
        return Err(io::Error::other("the process has more than one thread"));
    }
    // SAFETY: the process has one thread, so no lock is held and no state is half changed by another one in the child.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        child => {
            Pid::from_raw(child).filter(|_| child > 0).map(Fork::Parent).ok_or_else(io::Error::last_os_error)
        }
    }
}

/// The signals that a thread does not get.
#[derive(Clone, Copy)]
pub(super) struct Mask(libc::sigset_t);

/// Keeps every signal that can be kept from this thread, and gives back what was kept before.
pub(super) fn shield() -> Mask {
    let mut all = empty();
    // SAFETY: the set is this function's own and outlives the call.
    unsafe { libc::sigfillset(&raw mut all) };
    swap(&all)
}

fn swap(set: &libc::sigset_t) -> Mask {
    let mut before = empty();
    // SAFETY: both sets are whole and outlive the call, which reads one, writes the other and changes this thread's mask
    // alone. It fails for an unknown way of changing only.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, &raw mut before) };
    Mask(before)
}

fn empty() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: the call makes the set whole.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Whether this process has one thread. Where that cannot be told it counts as having more.
pub(super) fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Moves this process, which has one thread, into namespaces of its own.
pub(super) fn unshare(spaces: UnshareFlags) -> io::Result<()> {
    if spaces.contains(UnshareFlags::FILES) || !single_threaded() {
        return Err(rustix::io::Errno::INVAL.into());
    }
    // SAFETY: the table of descriptors stays shared, which is all that the function's contract is about.
    unsafe { rustix::thread::unshare_unsafe(spaces) }.map_err(Into::into)
}

/// Makes a mount, and with `deep` the mounts beneath it, read-only or writable.
pub(super) fn set_read_only(path: &str, read_only: bool, deep: bool) -> io::Result<()> {
    let path = CString::new(path)?;
    let flag = libc::MOUNT_ATTR_RDONLY;
    let attributes = libc::mount_attr {
        attr_set: if read_only { flag } else { 0 },
        attr_clr: if read_only { 0 } else { flag },
        propagation: 0,
        userns_fd: 0,
    };
    let flags = if deep { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `path` is a string with a NUL at its end and `attributes` a structure of the size given; both outlive the
    // call, which writes to neither.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The version of Landlock that the kernel enforces; 0 without one.
pub(super) fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes a null pointer and a size of 0, and reads no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Has a command start with these signals kept from it, and no others.
pub(super) fn restore_in_child(command: &mut std::process::Command, mask: Mask) {
    use std::os::unix::process::CommandExt as _;
    let restore = move || {
        swap(&mask.0);
        Ok(())
    };
    // SAFETY: between fork and exec it makes one call that is allowed there, and allocates nothing.
    unsafe { command.pre_exec(restore) };
}
