//! The seccomp filter of a hermetic command (host contract 5.2).
//!
//! The contract's families of sockets are those that reach a network; every family but one is refused here, since others
//! reach it too (SMC falls back to TCP). The one is `AF_UNIX`, and it is allowed only where Landlock confines which socket
//! files are reached (version 9): before that, a socket file outside the sets could be connected to. Pairs of connected
//! sockets, which reach nobody, are always there.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// System calls whose numbers are the same everywhere; the crate's table of numbers has none for them yet.
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FCHMODAT2: i64 = 452;
const MOUNT_SETATTR: i64 = 442;

/// Refused always: each of the contract's, and what does the same.
const REFUSED: &[i64] = &[
    // ptrace
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // mount
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    MOUNT_SETATTR,
    OPEN_TREE_ATTR,
    // bpf
    libc::SYS_bpf,
    // io_uring_setup
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // keyctl
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];

/// Refused where no mount namespace keeps metadata as it is.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Requests to `ioctl` that set a file's flags.
const SET_FLAGS: &[u64] = &[0x4008_6602, 0x4004_6602, 0x4020_5820];

/// The errno of what is refused: what a program without the permission gets.
const REFUSAL: SeccompAction = SeccompAction::Errno(libc::EACCES.unsigned_abs());

/// Refuses, for the calling thread and what it starts.
pub(super) fn apply(metadata: bool, unix_sockets: bool) -> io::Result<()> {
    let program = program(metadata, unix_sockets).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn program(metadata: bool, unix_sockets: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let sockets = if unix_sockets {
        let unix = u64::from(libc::AF_UNIX.unsigned_abs());
        vec![SeccompRule::new(vec![SeccompCondition::new(
            0,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Ne,
            unix,
        )?])?]
    } else {
        Vec::new()
    };
    rules.insert(libc::SYS_socket, sockets);
    if metadata {
        rules.extend(METADATA.iter().map(|call| (*call, Vec::new())));
        let rule = |request: &u64| {
            let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *request)?;
            SeccompRule::new(vec![condition])
        };
        rules.insert(libc::SYS_ioctl, SET_FLAGS.iter().map(rule).collect::<Result<_, _>>()?);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, REFUSAL, arch)?;
    let mut program = BpfProgram::try_from(filter)?;
    // On x86-64 the same calls exist under a second set of numbers (x32), which the rules above do not name.
    #[cfg(target_arch = "x86_64")]
    program.splice(0..0, refuse_x32());
    let _ = &mut program;
    Ok(program)
}

/// `ENOSYS` for every number with the x32 bit.
#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> [seccompiler::sock_filter; 3] {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const ERRNO: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    [
        // The number is the first word of what the filter sees.
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applied to a thread of its own, so that the test's process is left alone.
    fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn each_filter_compiles_and_is_taken() {
        for (metadata, unix_sockets) in [(false, false), (false, true), (true, false), (true, true)] {
            on_thread(move || {
                apply(metadata, unix_sockets).unwrap();
                let refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
                assert!(refused(std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err()));
                assert!(refused(std::net::TcpListener::bind("[::1]:0").unwrap_err()));
                assert_eq!(std::os::unix::net::UnixDatagram::unbound().is_ok(), unix_sockets);
                assert!(std::os::unix::net::UnixStream::pair().is_ok());
                let file = tempfile::NamedTempFile::new().unwrap();
                let mode = std::fs::metadata(file.path()).unwrap().permissions();
                assert_eq!(std::fs::set_permissions(file.path(), mode).is_err(), metadata);
                assert_eq!(file.as_file().set_modified(std::time::SystemTime::now()).is_err(), metadata);
                assert!(
                    rustix::mount::mount_change("/", rustix::mount::MountPropagationFlags::PRIVATE).is_err()
                );
            });
        }
    }
}
