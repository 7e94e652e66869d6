//! The Landlock rule set of a hermetic command (host contract 5.2).

use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::plan::Rights;
use super::{DEVICES, FileLayer, LOWEST_LANDLOCK, SYSTEM_READS, sys};

/// The highest version whose rights are known here.
const HIGHEST: ABI = ABI::V10;
/// The version from which on socket files are covered.
const UNIX_SOCKETS: u32 = 9;

/// The version that a rule set is made for: the kernel's, as far as it is known here; 0 where it does not count.
pub(super) fn version() -> u32 {
    let version = sys::landlock_version().min(HIGHEST as u32);
    if version < LOWEST_LANDLOCK { 0 } else { version }
}

/// Whether socket files outside the sets are out of reach.
pub(super) fn covers_unix_sockets(layer: FileLayer) -> bool {
    matches!(layer, FileLayer::Landlock { abi } if abi >= UNIX_SOCKETS)
}

/// Restricts the calling thread and what it starts. `private_proc` says that `/proc` holds the call's own processes only.
pub(super) fn apply(rights: &Rights, private_proc: bool) -> io::Result<FileLayer> {
    let version = version();
    if version == 0 {
        return Ok(FileLayer::None);
    }
    let abi = ABI::from(i32::try_from(version).unwrap_or(0));
    let mut rules = ruleset(abi).map_err(io::Error::other)?;
    let read = AccessFs::from_read(abi);
    let device = AccessFs::from_file(abi) & !AccessFs::Execute & !AccessFs::ResolveUnix;
    let everything = AccessFs::from_all(abi);
    for path in SYSTEM_READS {
        rules = allow(rules, path, read, abi)?;
    }
    for path in DEVICES {
        rules = allow(rules, path, device, abi)?;
    }
    if private_proc {
        rules = allow(rules, "/proc", read & !AccessFs::Execute, abi)?;
    }
    for path in &rights.declared.reads {
        rules = allow(rules, path, read, abi)?;
    }
    for path in &rights.declared.writes {
        rules = allow(rules, path, everything, abi)?;
    }
    if !rights.private.is_empty() {
        rules = allow(rules, &rights.private, everything, abi)?;
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    // Each right was required, so what is not complete is a fault, and not to be told as this version.
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced if status.no_new_privs => FileLayer::Landlock { abi: version },
        _ => FileLayer::None,
    })
}

fn ruleset(abi: ABI) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    ruleset.create()
}

/// Adds a rule for what a path leads to; none for a path that leads nowhere.
fn allow(
    rules: RulesetCreated,
    path: &str,
    access: BitFlags<AccessFs>,
    abi: ABI,
) -> io::Result<RulesetCreated> {
    let Ok(fd) = PathFd::new(path) else { return Ok(rules) };
    // A rule on a file may ask for the rights of files only.
    let directory = rustix::fs::fstat(&fd).is_ok_and(|found| {
        rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Directory
    });
    let access = if directory { access } else { access & AccessFs::from_file(abi) };
    rules.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)
}
