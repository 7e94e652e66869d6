//! The limits of a frame and of its realm (harness contract 3.5).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SandboxError;

/// The largest value of any limit: 2^53 - 1.
pub const MAX_LIMIT: u64 = (1 << 53) - 1;

/// The limits of a frame, with the contract's defaults. `memory_bytes` and `stack_bytes` are fixed when the realm opens
/// and no frame changes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Calls and checkpoints of one frame. Default 64.
    pub calls: u64,
    /// Interrupt polls of one frame, one for about 10,000 interpreter operations. Default 50,000, at least 1.
    pub steps: u64,
    /// Milliseconds that a frame's own JavaScript may run; time inside a pending call is not counted. Default 30,000, at
    /// least 1.
    pub time_ms: u64,
    /// Milliseconds of wall clock that a frame may take, calls included. Default 900,000.
    pub total_ms: u64,
    /// Milliseconds that one call may take, before the flow's own timeout is considered. Default 120,000.
    pub call_ms: u64,
    /// Bytes of the realm's heap, for the whole run. Default 134,217,728, at least 1,048,576.
    pub memory_bytes: u64,
    /// Bytes of the realm's JavaScript stack, for the whole run. Default 1,048,576, at least 65,536.
    pub stack_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 64,
            steps: 50_000,
            time_ms: 30_000,
            total_ms: 900_000,
            call_ms: 120_000,
            memory_bytes: 134_217_728,
            stack_bytes: 1_048_576,
        }
    }
}

/// The smallest value of each limit.
const LEAST: [(&str, u64); 7] = [
    ("calls", 0),
    ("steps", 1),
    ("timeMs", 1),
    ("totalMs", 0),
    ("callMs", 0),
    ("memoryBytes", 1_048_576),
    ("stackBytes", 65_536),
];

impl Limits {
    /// The names of the limits, as the contract spells them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LEAST.iter().map(|(name, _)| *name)
    }

    /// Sets one limit by its name.
    ///
    /// # Errors
    /// [`SandboxError::Unsupported`] for an unknown name and for a value that is not a whole number between the limit's
    /// least and 2^53 - 1, or 16 MiB for `stackBytes`.
    ///
    /// ```
    /// use flowcell_harness::realm::Limits;
    /// let mut limits = Limits::default();
    /// limits.set("timeMs", &1500.into()).unwrap();
    /// assert_eq!(limits.time_ms, 1500);
    /// assert!(limits.set("steps", &0.into()).is_err());
    /// ```
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), SandboxError> {
        let least = LEAST
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, least)| *least)
            .ok_or_else(|| SandboxError::Unsupported(format!("There is no {name} limit")))?;
        let number = whole(value).filter(|number| *number >= least && *number <= most(name));
        let number = number.ok_or_else(|| refused(name, least))?;
        match name {
            "calls" => self.calls = number,
            "steps" => self.steps = number,
            "timeMs" => self.time_ms = number,
            "totalMs" => self.total_ms = number,
            "callMs" => self.call_ms = number,
            "memoryBytes" => self.memory_bytes = number,
            _ => self.stack_bytes = number,
        }
        Ok(())
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// [`SandboxError::Unsupported`] naming the first that is out of range.
    pub fn validate(&self) -> Result<(), SandboxError> {
        let values = [
            self.calls,
            self.steps,
            self.time_ms,
            self.total_ms,
            self.call_ms,
            self.memory_bytes,
            self.stack_bytes,
        ];
        for ((name, least), value) in LEAST.into_iter().zip(values) {
            if value < least || value > most(name) {
                return Err(refused(name, least));
            }
        }
        Ok(())
    }
}

/// The largest `stackBytes`: beyond it the engine would not check its stack at all.
const MAX_STACK: u64 = 16 << 20;

fn most(name: &str) -> u64 {
    if name == "stackBytes" { MAX_STACK } else { MAX_LIMIT }
}

fn refused(name: &str, least: u64) -> SandboxError {
    SandboxError::Unsupported(format!(
        "The {name} limit must be a whole number between {least} and {}",
        most(name)
    ))
}

/// A JSON number that is a whole one, `5.0` included.
fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    #[allow(clippy::cast_precision_loss, reason = "2^53 - 1 is exact")]
    let most = MAX_LIMIT as f64;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and in range"
    )]
    (number >= 0.0 && number <= most && number.fract() == 0.0).then_some(number as u64)
}
