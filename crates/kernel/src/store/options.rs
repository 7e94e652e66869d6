//! What a store is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::check_identity;
use super::envelope::{Envelope, MAX_ENVELOPE_SIGNATURES};
use super::event::POLICY_RUN;
use super::ruleset::{MAX_RULES, RunRule};
use crate::flows::rules::{CapabilitySet, Rule};
use crate::fs::lexical;
use crate::permission::GrantStoreError;
use crate::persist::Persist;

/// What a store is made of. All of it is fixed at construction (kernel contract 5).
#[derive(Clone)]
pub struct GrantStoreOptions {
    /// Whether somebody is there to answer. Then a request that no rule decides waits in place; else it is refused with
    /// [`PermissionRequired`](crate::PermissionRequired).
    pub attended: bool,
    /// The host's policy, ruleset 0: a deny here is a veto.
    pub configured: Vec<Rule>,
    /// Rules kept from earlier processes by the host itself, beside those that the journal replays.
    pub remembered: Vec<Rule>,
    /// Rules of this run, each with the ceiling it is bound to.
    pub run_rules: Vec<RunRule>,
    /// Rules of a workspace that nobody trusts: they only narrow. After the four rulesets have answered, the last of these
    /// rules that selects the request may lower the answer, allow to ask, and allow or ask to deny; none lifts anything.
    /// An allow among them counts for nothing, and one that is undecidable is a deny.
    ///
    /// What they make an ask is answered by a person who has seen it in this run: `Once` frees the call that it is for, and
    /// a run grant of this run's journal counts for what it selects under its ceiling. Remembered grants, envelopes and
    /// the rules of these options do not lift it.
    pub narrowing: Vec<Rule>,
    /// An envelope to grant at construction: recorded in the journal unless the journal holds it.
    pub envelope: Option<Envelope>,
    /// Signatures of envelopes that are recorded elsewhere: granting one of these makes no second record.
    pub envelope_signatures: Vec<String>,
    /// The run whose events the store writes and replays; 1 to 4,096 units, no NUL, not [`POLICY_RUN`]. Without one there
    /// is nothing to record an answer in but a remembered one.
    pub run_id: Option<String>,
    /// The plan that run grants are bound to; bounds as of `run_id`. Without one there are no run grants.
    pub plan_digest: Option<String>,
    /// The logical workspace root: absolute, of UTF-8. It need not exist.
    pub workspace_root: PathBuf,
    /// The ceiling of the process: replayed run grants reach no further.
    pub ceiling: CapabilitySet,
    /// The journal.
    pub persist: Arc<dyn Persist>,
}

impl GrantStoreOptions {
    /// Options of an attended store without rules, run or plan.
    pub fn new(workspace_root: impl Into<PathBuf>, persist: Arc<dyn Persist>) -> Self {
        GrantStoreOptions {
            attended: true,
            configured: Vec::new(),
            remembered: Vec::new(),
            run_rules: Vec::new(),
            narrowing: Vec::new(),
            envelope: None,
            envelope_signatures: Vec::new(),
            run_id: None,
            plan_digest: None,
            workspace_root: workspace_root.into(),
            ceiling: CapabilitySet::unrestricted(),
            persist,
        }
    }

    /// These options for a store that nobody attends.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.attended = false;
        self
    }

    /// The bounds of everything but the rules, and the root as text.
    pub(super) fn check(&self) -> Result<String, GrantStoreError> {
        let root = self.root_text()?;
        if let Some(run) = &self.run_id {
            check_identity("the run id", run)?;
            if run == POLICY_RUN {
                return Err(GrantStoreError::invalid("the run id is that of the policy run"));
            }
        }
        if let Some(digest) = &self.plan_digest {
            check_identity("the plan digest", digest)?;
        }
        if self.envelope_signatures.len() > MAX_ENVELOPE_SIGNATURES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_ENVELOPE_SIGNATURES} envelopes")));
        }
        for signature in &self.envelope_signatures {
            check_identity("an envelope's signature", signature)?;
        }
        if [&self.configured, &self.narrowing].into_iter().any(|rules| rules.len() > MAX_RULES) {
            return Err(GrantStoreError::invalid(format!("more than {MAX_RULES} rules")));
        }
        Ok(root)
    }

    fn root_text(&self) -> Result<String, GrantStoreError> {
        let text = self
            .workspace_root
            .to_str()
            .ok_or_else(|| GrantStoreError::invalid("the workspace root is not UTF-8"))?;
        if !text.starts_with('/') || text.contains('\0') {
            return Err(GrantStoreError::invalid("the workspace root is not an absolute path"));
        }
        Ok(lexical("/", text))
    }
}

impl fmt::Debug for GrantStoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantStoreOptions")
            .field("attended", &self.attended)
            .field("configured", &self.configured)
            .field("remembered", &self.remembered)
            .field("run_rules", &self.run_rules)
            .field("narrowing", &self.narrowing)
            .field("envelope", &self.envelope)
            .field("envelope_signatures", &self.envelope_signatures)
            .field("run_id", &self.run_id)
            .field("plan_digest", &self.plan_digest)
            .field("workspace_root", &self.workspace_root)
            .field("ceiling", &self.ceiling)
            .finish_non_exhaustive()
    }
}
