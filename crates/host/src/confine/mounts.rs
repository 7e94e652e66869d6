//! Namespaces of a confined command. All of this is for a process with one thread.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use super::plan::{Rights, Spaces};
use super::sys;

/// Moves this process into the namespaces that `spaces` names. What it starts next is the first process of a PID
/// namespace.
pub(super) fn enter(spaces: Spaces) -> io::Result<()> {
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWUSER, spaces.user);
    flags.set(UnshareFlags::NEWNS, spaces.mount);
    flags.set(UnshareFlags::NEWNET, spaces.net);
    flags.set(UnshareFlags::NEWPID, spaces.pid);
    flags.set(UnshareFlags::NEWIPC, spaces.ipc);
    if flags.is_empty() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(flags)?;
    if spaces.user {
        // Its own user and group, under their own numbers.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    Ok(())
}

/// Mounts a `/proc` that shows the processes of this PID namespace and nothing else.
pub(super) fn private_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    rustix::mount::mount(c"proc", c"/proc", c"proc", flags, c"subset=pid")?;
    Ok(())
}

/// Makes what is mounted here invisible outside, and everything read-only except what the call may write.
pub(super) fn read_only(rights: &Rights) -> io::Result<()> {
    detach()?;
    let place = rustix::process::getcwd(Vec::new());
    let writes = rights.declared.writes.iter().map(String::as_str);
    let writable: Vec<&str> = writes
        .chain((!rights.private.is_empty()).then_some(rights.private.as_str()))
        .filter(|path| fs::metadata(path).is_ok())
        .collect();
    if !writable.contains(&"/") {
        // A mount of its own for each, so that it can differ from what is around it.
        for path in &writable {
            rustix::mount::mount_bind_recursive(*path, *path)?;
        }
        sys::set_read_only("/", true, true)?;
        for path in &writable {
            // A mount that the host made read-only stays so: this is no way around it.
            if sys::set_read_only(path, false, true).is_err() {
                let _ = sys::set_read_only(path, false, false);
            }
        }
    }
    if let Ok(place) = place {
        // The directory is the same; the mount it is seen through is another one now.
        rustix::process::chdir(&place)?;
    }
    Ok(())
}

/// Makes what is mounted from here on invisible outside.
pub(super) fn detach() -> io::Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags)?;
    Ok(())
}
