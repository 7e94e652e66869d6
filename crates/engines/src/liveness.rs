//! Whether the owner of a run still lives (harness contract 13, E6).

use std::io;

use flowcell_harness::engine::Owner;

/// What can be said of a process that owns a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Life {
    /// It lives.
    Alive,
    /// It is proven dead on this host: its run can be taken at once.
    Dead,
    /// It is on another host that is known to be unreachable: its run can be taken once its lease is 30 s old.
    Unreachable,
    /// Nothing is known: its run cannot be taken.
    Unknown,
}

/// Tells whether an owner lives. Asked inside a transaction: it has to answer at once.
pub trait Liveness: Send + Sync {
    /// What is known of an owner.
    fn life(&self, owner: &Owner) -> Life;
}

impl<F: Fn(&Owner) -> Life + Send + Sync> Liveness for F {
    fn life(&self, owner: &Owner) -> Life {
        self(owner)
    }
}

/// Looks at the processes of this host.
///
/// A process is named by the host, its id and when it started, so that an id that was given away again is not
/// mistaken for its former bearer. On Linux the host is told apart by machine, boot and process namespace: what ran
/// in an earlier boot of this machine is dead, and of what runs in another namespace nothing is known. Elsewhere a
/// process is known to be dead when no process has its id, and otherwise nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcLiveness {
    host: String,
}

impl ProcLiveness {
    /// Liveness as seen from the host of this process.
    ///
    /// # Errors
    /// When the host does not say who it is.
    pub fn of_this_host() -> io::Result<Self> {
        Ok(Self { host: host()? })
    }
}

/// This process, as the owner of the runs that it opens.
///
/// # Errors
/// When the host does not say who it is, or when the process started.
pub fn process_owner() -> io::Result<Owner> {
    let pid = std::process::id();
    Ok(Owner {
        host: host()?,
        pid,
        started: started(pid)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?,
    })
}

#[cfg(target_os = "linux")]
mod platform {
    use std::{fs, io};

    use flowcell_harness::flows::canonical::sha256_hex;

    use super::Life;

    /// `<machine>-<boot>-<process namespace>`, the first two as digests: the machine's id is not for every reader. It is
    /// empty where the machine has none.
    pub(super) fn host() -> io::Result<String> {
        let digest = |id: &str| match id.trim() {
            "" => String::new(),
            id => sha256_hex(format!("flowcell/host/1:{id}").as_bytes()).chars().take(16).collect(),
        };
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let namespace = fs::read_link("/proc/self/ns/pid")?;
        let namespace: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        Ok(format!("{}-{}-{namespace}", digest(&machine), digest(&boot)))
    }

    /// When a process started, in clock ticks since the boot; `None` when there is no such process.
    pub(super) fn started(pid: u32) -> io::Result<Option<u64>> {
        let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The process went away between opening and reading.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        parse_started(&stat).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has no start time"))
        })
    }

    /// Field 22 of the line; the second field is in parentheses and may hold anything. A zombie has ended.
    pub(super) fn parse_started(stat: &str) -> Option<u64> {
        let rest = stat.get(stat.rfind(')')? + 1..)?;
        rest.split_ascii_whitespace().nth(19)?.parse().ok()
    }

    pub(super) fn life(here: &str, host: &str, pid: u32, began: u64) -> Life {
        if host == here {
            return match started(pid) {
                Ok(None) => Life::Dead,
                Ok(Some(now)) if now != began => Life::Dead,
                Ok(Some(_)) if ended(pid) => Life::Dead,
                Ok(Some(_)) => Life::Alive,
                Err(_) => Life::Unknown,
            };
        }
        match (split(here), split(host)) {
            (Some((machine, boot)), Some((its_machine, its_boot)))
                if !machine.is_empty() && machine == its_machine && boot != its_boot =>
            {
                Life::Dead
            }
            _ => Life::Unknown,
        }
    }

    /// Whether a process has ended and only waits to be reaped.
    fn ended(pid: u32) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let state = stat
            .rfind(')')
            .and_then(|end| stat.get(end + 1..))
            .and_then(|rest| rest.split_ascii_whitespace().next());
        matches!(state, Some("Z" | "X"))
    }

    fn split(host: &str) -> Option<(&str, &str)> {
        let mut parts = host.splitn(3, '-');
        Some((parts.next()?, parts.next()?))
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::Life;

    pub(super) fn host() -> io::Result<String> {
        Ok(rustix::system::uname().nodename().to_string_lossy().into_owned())
    }

    /// Not known here.
    pub(super) fn started(_pid: u32) -> io::Result<Option<u64>> {
        Ok(Some(0))
    }

    pub(super) fn life(here: &str, host: &str, pid: u32, _began: u64) -> Life {
        if host != here {
            return Life::Unknown;
        }
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Life::Unknown };
        match test_kill_process(pid) {
            Err(Errno::SRCH) => Life::Dead,
            _ => Life::Unknown,
        }
    }
}

fn host() -> io::Result<String> {
    platform::host()
}

fn started(pid: u32) -> io::Result<Option<u64>> {
    platform::started(pid)
}

impl Liveness for ProcLiveness {
    fn life(&self, owner: &Owner) -> Life {
        platform::life(&self.host, &owner.host, owner.pid, owner.started)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let stat = "7 (a) b) R) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(platform::parse_started(stat), Some(4711));
        assert_eq!(platform::parse_started("7 (a"), None);
    }

    #[test]
    fn this_process_lives_and_one_with_its_id_before_it_does_not() {
        let me = process_owner().unwrap();
        assert_eq!(process_owner().unwrap(), me);
        assert_eq!(me.host.split('-').count(), 3, "{me:?}");
        let liveness = ProcLiveness::of_this_host().unwrap();
        assert_eq!(liveness.life(&me), Life::Alive);
        assert_eq!(liveness.life(&Owner { started: me.started + 1, ..me.clone() }), Life::Dead);
        assert_eq!(liveness.life(&Owner { pid: 0, ..me.clone() }), Life::Dead);
        assert_eq!(
            liveness.life(&Owner { host: "another".into(), pid: me.pid, started: me.started }),
            Life::Unknown
        );
        assert_eq!(liveness.life(&Owner { host: "-another-1".into(), ..me }), Life::Unknown);
    }

    #[test]
    fn an_earlier_boot_of_this_machine_is_over() {
        let liveness = ProcLiveness { host: "m-b-n".into() };
        let owner = |host: &str| Owner { host: host.into(), pid: 1, started: 1 };
        assert_eq!(liveness.life(&owner("m-a-n")), Life::Dead);
        assert_eq!(liveness.life(&owner("m-b-o")), Life::Unknown);
        assert_eq!(liveness.life(&owner("x-a-n")), Life::Unknown);
        let nameless = ProcLiveness { host: "-b-n".into() };
        assert_eq!(nameless.life(&owner("-a-n")), Life::Unknown);
    }
}
