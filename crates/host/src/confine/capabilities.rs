//! What a confined command that runs as root keeps of root.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// What an owner of every file can do to files, and nothing to the machine: the command's rights are those of its sets
/// either way, and files of other owners within them stay as usable as they are for the host.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Highest number of a capability there can be.
const HIGHEST: u32 = 63;

/// Drops what the calling thread can do beyond its user's rights, for good; with `files`, it keeps what concerns files.
/// `no_new_privs` has to be set: with it no program gives back what is dropped here.
pub(super) fn drop_privileges(files: bool) -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let have = rustix::thread::capabilities(None)?;
    let keep = if files { have.permitted & FILES } else { CapabilitySet::empty() };
    if have.permitted.is_empty() && have.inheritable.is_empty() {
        return Ok(());
    }
    for number in 0..=HIGHEST {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if keep.contains(capability)
            || !rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Without the right to narrow the bounding set, `no_new_privs` and the sets below hold alone.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    match rustix::thread::clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
    }
    let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}
