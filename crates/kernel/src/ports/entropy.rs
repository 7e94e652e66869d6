//! Random bytes as a host gives them.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// A source of random bytes (kernel contract 6.4). It cannot fail: a host whose source can fail seeds one that cannot
/// before it starts a run. [`SystemEntropy`] is the machine's; [`SeededEntropy`] is for tests.
pub trait Entropy: Send + Sync {
    /// Fills the whole slice.
    fn fill(&self, bytes: &mut [u8]);
}

/// Bytes of a block of [`SystemEntropy`], and of its seed.
const BLOCK: usize = 32;

/// The machine's randomness, for a host to pass in. Nothing in the workspace's libraries makes one by itself.
///
/// It asks the operating system once, for a secret seed, and then is a stream that cannot fail: SHA-256 of the seed and a
/// counter. No two sources share a stream, and neither do two threads that share a source. `Debug` does not show the seed.
///
/// ```
/// use flowcell_kernel::{Entropy, SystemEntropy};
///
/// let entropy = SystemEntropy::new()?;
/// let (mut one, mut two) = ([0; 16], [0; 16]);
/// entropy.fill(&mut one);
/// entropy.fill(&mut two);
/// assert_ne!(one, two);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SystemEntropy {
    seed: [u8; BLOCK],
    next: AtomicU64,
}

impl SystemEntropy {
    /// A source with a seed of the operating system.
    ///
    /// # Errors
    /// When the operating system gives none: no system call for it, and no `/dev/urandom` that can be read.
    pub fn new() -> io::Result<Self> {
        Ok(SystemEntropy { seed: system_seed()?, next: AtomicU64::new(0) })
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(BLOCK) {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            let digest = Sha256::new().chain_update(self.seed).chain_update(block.to_le_bytes()).finalize();
            for (to, from) in chunk.iter_mut().zip(digest) {
                *to = from;
            }
        }
    }
}

impl fmt::Debug for SystemEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemEntropy").finish_non_exhaustive()
    }
}

fn system_seed() -> io::Result<[u8; BLOCK]> {
    let mut seed = [0; BLOCK];
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::rand::{GetRandomFlags, getrandom};
        // Up to 256 bytes come whole, once the kernel has gathered any at all.
        let got = rustix::io::retry_on_intr(|| getrandom(&mut seed[..], GetRandomFlags::empty()));
        match got {
            Ok(BLOCK) => return Ok(seed),
            Ok(_) | Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut seed)?;
    Ok(seed)
}

/// A deterministic stream from a 64-bit seed (SplitMix64), for tests and for hosts that replay a run.
///
/// It is not secret: do not make tokens of it. A host that serves calls passes [`SystemEntropy`].
#[derive(Debug)]
pub struct SeededEntropy {
    state: Mutex<u64>,
}

impl SeededEntropy {
    /// The stream that this seed names.
    pub fn new(seed: u64) -> Self {
        SeededEntropy { state: Mutex::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = *state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            for (to, from) in chunk.iter_mut().zip(word.to_le_bytes()) {
                *to = from;
            }
        }
    }
}
