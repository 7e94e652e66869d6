//! The grant store: what is allowed, what is refused, and what a person still has to decide (kernel contract 5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{oneshot, watch};

use crate::flows::capability::{Action, Capability, CapabilityPattern, MAX_RESOURCE_UNITS, units};
use crate::flows::effects::tier_of;
use crate::flows::rules::{CapabilitySet, Effect, Rule};
use crate::fs::Roots;
use crate::meta::{Meta, check_meta};
use crate::permission::{GrantStoreError, PermissionDenied, PermissionError, PermissionRequired};
use crate::persist::Persist;

mod answer;
mod envelope;
mod event;
#[cfg(test)]
mod explorer;
mod judge;
mod options;
mod pattern;
mod replay;
mod reply;
mod request;
mod ruleset;
mod sabotage;
mod twin;

use answer::Outcome;
pub use answer::PERSIST_MILLIS;
pub use envelope::{Envelope, EnvelopeScope, MAX_ENVELOPE_PATTERNS, MAX_ENVELOPE_SIGNATURES};
pub use event::{GrantEvent, GrantRecord, MAX_EVENT_BYTES, POLICY_RUN, RunGrantRecord};
pub(crate) use judge::{Judge, View};
pub use options::GrantStoreOptions;
pub use replay::PAGE_EVENTS;
pub use reply::{ReplyContext, Resolution, plan_reply};
use request::{End, Parked, Pending, Requests};
pub use request::{PendingRequest, RequestWatch};
use ruleset::Rulesets;
pub use ruleset::{Explanation, MAX_RULES, RunRule, Source};
use sabotage::Sabotage;

/// Requests that wait for an answer at most.
pub const MAX_PENDING: usize = 1_024;

/// The grant store.
///
/// Attended, a request that no rule decides waits until it is answered, until a rule covers it, or until its future is
/// dropped; a host learns of it through [`watch`](Self::watch). Unattended, it ends in [`PermissionRequired`] and is kept,
/// so that an answer can be recorded for it: the newest [`MAX_PENDING`] of them.
///
/// **Invariant:** persist before activate. An answer counts when its event is in the journal, and not before; a write that
/// fails or takes more than [`PERSIST_MILLIS`] leaves the request as it was. (A late record may still land, and counts when
/// the journal is replayed.)
///
/// **Invariant:** no lock is held over a write: a slow journal stalls the reply that issued the write, and nobody else.
///
/// **Invariant:** a configured deny is a veto over every other ruleset.
pub struct GrantStore {
    attended: bool,
    warnings: Vec<String>,
    run_id: Option<String>,
    plan_digest: Option<String>,
    root: String,
    persist: Arc<dyn Persist>,
    closed: AtomicBool,
    /// What changes. Locked before the rules.
    state: Mutex<State>,
    /// The live rules; written under the lock of the state, so that nobody goes to wait while one is added.
    rules: RwLock<Rulesets>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    requests: Requests,
    /// Rules of grants that are being written.
    reserved: usize,
    /// Signatures of the envelopes in force.
    signatures: BTreeSet<String>,
    /// Signatures that the host vouches for.
    vouched: BTreeSet<String>,
    /// Envelopes that are being written.
    in_flight: BTreeMap<String, watch::Receiver<Option<Outcome>>>,
    /// Grants whose revocation is being written.
    revoking: BTreeSet<u64>,
}

impl GrantStore {
    /// Builds a store: resolves twins of configured and narrowing rules, replays the run and the policy run, and grants the
    /// envelope of the options unless the journal holds it. Any refusal of kernel contract 5.1, and any bound, is
    /// `invalid_resolution`; a journal that cannot be read or written is `journal_failed`.
    ///
    /// Two stores that are built on one journal with one envelope leave exactly one record, where the journal's
    /// [`append_after`](Persist::append_after) is atomic. Needs a Tokio runtime with time when an envelope is written.
    pub async fn open(options: GrantStoreOptions) -> Result<Arc<Self>, GrantStoreError> {
        let root = options.check()?;
        let mut base = Rulesets::default();
        let mut warnings = Vec::new();
        let roots = Roots::of_root(&root);
        for rule in &options.configured {
            let twin = twin::twin(rule, &roots, &mut warnings)?;
            base.configured.push(rule.clone(), twin);
        }
        base.configured.seal();
        for rule in options.narrowing.iter().filter(|rule| rule.effect != Effect::Allow) {
            let twin = twin::twin(rule, &roots, &mut warnings)?;
            base.narrowing.push(rule.clone(), twin);
        }
        base.narrowing.seal();
        for rule in &options.run_rules {
            base.push_run(rule.clone(), None);
        }
        for rule in &options.remembered {
            base.push_remembered(rule.clone());
        }
        base.check_bound()?;
        let (rules, state) = answer::construct(&options, &root, &base).await?;
        Ok(Arc::new(GrantStore {
            attended: options.attended,
            warnings,
            run_id: options.run_id,
            plan_digest: options.plan_digest,
            root,
            persist: options.persist,
            closed: AtomicBool::new(false),
            state: Mutex::new(state),
            rules: RwLock::new(rules),
            changed: watch::Sender::new(()),
        }))
    }

    /// Asks for a capability under a ceiling, in the order of kernel contract 5. See
    /// [`Authority::check`](crate::Authority::check), which is how handlers ask.
    ///
    /// A waiting request that is answered no ends in [`PermissionDenied`] with the reason `denied on request`; one whose
    /// store closes, with `store closed`. More than [`MAX_PENDING`] waiting is `invalid_resolution`.
    pub async fn check(
        &self,
        ceiling: &CapabilitySet,
        cap: Capability,
        meta: Meta,
    ) -> Result<(), PermissionError> {
        self.check_by(ceiling, &[], cap, meta, None).await
    }

    /// As [`Self::check`], with capabilities that were answered once, and judged by more than the request's own text.
    pub(crate) async fn check_by(
        &self,
        ceiling: &CapabilitySet,
        admitted: &[Capability],
        cap: Capability,
        meta: Meta,
        judge: Option<Judge>,
    ) -> Result<(), PermissionError> {
        check_meta(&meta)?;
        if self.is_closed() {
            return Err(GrantStoreError::closed().into());
        }
        if !ceiling.allows(&cap) {
            return Err(PermissionDenied::new(cap, PermissionDenied::OUTSIDE_CEILING).into());
        }
        let decided = |effect| match effect {
            Effect::Allow => Some(Ok(())),
            Effect::Deny => Some(Err(PermissionDenied::new(cap.clone(), PermissionDenied::BY_POLICY).into())),
            Effect::Ask if admitted.contains(&cap) => Some(Ok(())),
            Effect::Ask => None,
        };
        if let Some(result) = decided(judged(&self.ruleset(), &cap, judge.as_ref())) {
            return result;
        }
        let parked = {
            let mut state = self.state();
            if self.is_closed() {
                return Err(GrantStoreError::closed().into());
            }
            // Once more, now that no rule can be added before the request is in the table.
            if let Some(result) = decided(judged(&self.ruleset(), &cap, judge.as_ref())) {
                return result;
            }
            if !self.attended {
                let refused = self.keep(&mut state.requests, ceiling, cap, meta, judge);
                self.changed.send_replace(());
                return Err(refused);
            }
            self.park(&mut state.requests, ceiling, cap, meta, judge)?
        };
        self.changed.send_replace(());
        parked.wait().await
    }

    /// What a check under this ceiling would meet: pure, never waits, writes nothing. A closed store and a request outside
    /// the ceiling answer deny.
    pub fn decide(&self, ceiling: &CapabilitySet, cap: &Capability) -> Effect {
        self.decide_by(ceiling, cap, None)
    }

    /// As [`Self::decide`], judged by more than the request's own text.
    pub(crate) fn decide_by(
        &self,
        ceiling: &CapabilitySet,
        cap: &Capability,
        judge: Option<&Judge>,
    ) -> Effect {
        if self.is_closed() || !ceiling.allows(cap) {
            Effect::Deny
        } else {
            judged(&self.ruleset(), cap, judge)
        }
    }

    /// The requests that wait for an answer, oldest first; those whose answer is being written are among them.
    pub fn list(&self) -> Vec<PendingRequest> {
        self.state().requests.pending.values().map(|pending| pending.request.clone()).collect()
    }

    /// Tells of requests as they come, those that wait already first.
    pub fn watch(self: &Arc<Self>) -> RequestWatch {
        RequestWatch::new(self, self.changed.subscribe())
    }

    /// All rules in the order of their evaluation, with where each comes from; the narrowing rules last.
    pub fn rules(&self) -> Vec<(Rule, Source)> {
        self.ruleset().listed()
    }

    /// What the rules alone say of a request, and which rule said it; ceilings of askers and a closed store play no part.
    pub fn explain(&self, cap: &Capability) -> Explanation {
        self.ruleset().explain(cap)
    }

    /// Looks at the rules at one moment.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        look(&View(&self.ruleset()))
    }

    /// What construction has to tell the host: a line for each configured or narrowing rule that names a link or does not
    /// resolve.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether some rule might deny something below a resource. Conservative: false is a proof.
    pub(crate) fn may_deny_below(&self, action: Action, resource: &str) -> bool {
        match CapabilityPattern::new(action, format!("{}/**", resource.trim_end_matches('/'))) {
            Some(below) => self.ruleset().may_deny(&below),
            None => true,
        }
    }

    /// The store's run.
    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// The plan that run grants are bound to.
    pub fn plan_digest(&self) -> Option<&str> {
        self.plan_digest.as_deref()
    }

    /// The logical workspace root, without `.` or `..`: what patterns of grants are measured against.
    pub fn workspace_root(&self) -> &str {
        &self.root
    }

    /// Whether somebody is there to answer.
    pub fn is_attended(&self) -> bool {
        self.attended
    }

    /// Closes the store: every waiting request fails with the reason `store closed`, kept ones are forgotten, every later
    /// call fails with `store_closed`, later peeks answer deny. Closing twice is fine, and dropping the store closes it.
    pub fn close(&self) {
        {
            let mut state = self.state();
            self.closed.store(true, Ordering::SeqCst);
            if Sabotage::CloseForgets.is_on() {
                return;
            }
            for (_, pending) in std::mem::take(&mut state.requests.pending) {
                pending.end(End::Closed);
            }
        }
        self.changed.send_replace(());
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Takes a request whose asker went away out of the table.
    fn forget(&self, number: u64) {
        let gone = self.state().requests.pending.remove(&number);
        if gone.is_some() {
            self.changed.send_replace(());
        }
    }

    /// The first request with a greater number.
    fn first_after(&self, seen: u64) -> Result<Option<(u64, PendingRequest)>, GrantStoreError> {
        let state = self.state();
        if self.is_closed() {
            return Err(GrantStoreError::closed());
        }
        let after = seen.saturating_add(1);
        let found = state.requests.pending.range(after..).next();
        Ok(found.map(|(number, pending)| (*number, pending.request.clone())))
    }

    fn waits(&self, request_id: &str) -> bool {
        self.state().requests.find(request_id).is_some()
    }

    fn park(
        &self,
        requests: &mut Requests,
        ceiling: &CapabilitySet,
        capability: Capability,
        meta: Meta,
        judge: Option<Judge>,
    ) -> Result<Parked<'_>, GrantStoreError> {
        if requests.pending.len() >= MAX_PENDING {
            return Err(GrantStoreError::invalid(format!("more than {MAX_PENDING} requests wait")));
        }
        let tier = tier_of(&capability, &self.root);
        let (number, request_id) = requests.next();
        let (waiter, answer) = oneshot::channel();
        let request = PendingRequest { request_id, capability: capability.clone(), tier, meta };
        let ceiling = ceiling.clone();
        let waiter = Some(waiter);
        requests.pending.insert(number, Pending { request, ceiling, judge, writing: false, waiter });
        Ok(Parked { store: self, number, capability, answer })
    }

    fn keep(
        &self,
        requests: &mut Requests,
        ceiling: &CapabilitySet,
        capability: Capability,
        meta: Meta,
        judge: Option<Judge>,
    ) -> PermissionError {
        if requests.pending.len() >= MAX_PENDING {
            // Nobody waits in an unattended store, so the oldest makes room: a long-lived store must not fill up.
            let oldest =
                requests.pending.iter().find(|(_, pending)| !pending.writing).map(|(number, _)| *number);
            let Some(oldest) = oldest else {
                return GrantStoreError::invalid(format!("{MAX_PENDING} answers are being recorded")).into();
            };
            requests.pending.remove(&oldest);
        }
        let tier = tier_of(&capability, &self.root);
        let (number, request_id) = requests.next();
        let request = PendingRequest { request_id, capability, tier, meta };
        let ceiling = ceiling.clone();
        let pending = Pending { request: request.clone(), ceiling, judge, writing: false, waiter: None };
        requests.pending.insert(number, pending);
        PermissionRequired {
            request_id: request.request_id,
            run_id: self.run_id.clone(),
            capability: request.capability,
            tier,
            meta: request.meta,
        }
        .into()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ruleset(&self) -> RwLockReadGuard<'_, Rulesets> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ruleset_mut(&self) -> RwLockWriteGuard<'_, Rulesets> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GrantStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for GrantStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantStore")
            .field("attended", &self.attended)
            .field("run_id", &self.run_id)
            .field("root", &self.root)
            .field("rules", &self.ruleset())
            .finish_non_exhaustive()
    }
}

fn judged(rules: &Rulesets, cap: &Capability, judge: Option<&Judge>) -> Effect {
    match judge {
        None => rules.evaluate(cap),
        Some(judge) => judge(&View(rules)),
    }
}

/// An identity has 1 to 4,096 units and no NUL.
fn check_identity(what: &str, text: &str) -> Result<(), GrantStoreError> {
    if text.is_empty() || text.contains('\0') || units(text) > MAX_RESOURCE_UNITS {
        return Err(GrantStoreError::invalid(format!("{what} has to be of 1 to 4096 units without NUL")));
    }
    Ok(())
}
