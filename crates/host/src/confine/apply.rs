//! The layers of a thread: what is applied on the fresh thread that starts a command.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::plan::{Rights, Spaces};
use super::{Enforcement, NetLayer, capabilities, filter, rules};
use crate::kernel::Confine;

/// Confines the calling thread and what it starts. `spaces` says which namespaces the thread is in already.
pub(super) fn confine(rights: &Rights, spaces: Spaces) -> io::Result<Enforcement> {
    capabilities::drop_privileges(!spaces.user)?;
    let fs = rules::apply(rights, spaces.pid && spaces.proc)?;
    // Last: what is before may need what this refuses.
    let filtered = filter::apply(!spaces.mount, rules::covers_unix_sockets(fs)).is_ok();
    Ok(Enforcement {
        fs,
        metadata: spaces.mount || filtered,
        net: match (spaces.net, filtered) {
            (true, _) => NetLayer::Namespace,
            (false, true) => NetLayer::Seccomp,
            (false, false) => NetLayer::None,
        },
        reap: Enforcement::NONE.reap,
    })
}

/// The hook of a host without a supervisor.
pub(crate) struct InProcess {
    rights: Rights,
    applied: Mutex<Option<Enforcement>>,
}

impl InProcess {
    pub(crate) fn new(rights: Rights) -> Arc<Self> {
        Arc::new(InProcess { rights, applied: Mutex::new(None) })
    }

    /// What was applied, once the command has started.
    pub(crate) fn applied(&self) -> Option<Enforcement> {
        *self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confine for InProcess {
    fn confine(&self) -> io::Result<()> {
        let enforcement = confine(&self.rights, Spaces::default())?;
        *self.applied.lock().unwrap_or_else(PoisonError::into_inner) = Some(enforcement);
        match enforcement.missing() {
            Some(missing) if self.rights.required => {
                Err(io::Error::new(io::ErrorKind::Unsupported, format!("this host cannot confine {missing}")))
            }
            _ => Ok(()),
        }
    }
}
