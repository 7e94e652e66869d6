//! The grant store: what is allowed, what is refused, and what a person still has to decide (kernel contract 5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::flows::capability::{Action, Capability, CapabilityPattern, MAX_RESOURCE_UNITS, units};
use crate::flows::effects::{Tier, tier_of};
use crate::flows::rules::{CapabilitySet, Effect, Rule};
use crate::fs::{Roots, lexical};
use crate::meta::{Meta, check_meta};
use crate::permission::{
    GrantStoreCode, GrantStoreError, PermissionDenied, PermissionError, PermissionRequired,
};
use crate::persist::Persist;

mod event;
mod pattern;
mod replay;
mod ruleset;
mod twin;

pub use event::MAX_EVENT_BYTES;
pub use replay::{MAX_ENVELOPE_PATTERNS, MAX_ENVELOPE_SIGNATURES, PAGE_EVENTS};
use ruleset::Rulesets;
pub use ruleset::{Explanation, MAX_RULES, RunRule, Source};

/// Milliseconds that one write to the journal may take.
pub const PERSIST_MILLIS: u64 = 30_000;
/// Requests that wait for an answer at most.
pub const MAX_PENDING: usize = 1_024;
/// The run that holds remembered grants. No run of a host may have this id.
pub const POLICY_RUN: &str = "flowcell.policy";

/// What a store is made of. All of it is fixed at construction.
#[derive(Clone)]
pub struct GrantStoreOptions {
    /// The host's policy, ruleset 0: a deny here is a veto.
    pub configured: Vec<Rule>,
    /// Rules kept from earlier processes by the host itself, beside those that the journal replays.
    pub remembered: Vec<Rule>,
    /// Rules of this run, each with the ceiling it is bound to.
    pub run_rules: Vec<RunRule>,
    /// The run whose events the store writes and replays; 1 to 4,096 units, no NUL, not [`POLICY_RUN`]. Without one there
    /// is nothing to record an answer in, and [`GrantStore::reply`] is `invalid_resolution`.
    pub run_id: Option<String>,
    /// The plan that run grants are bound to; bounds as of `run_id`.
    pub plan_digest: Option<String>,
    /// The logical workspace root: absolute, of UTF-8. It need not exist.
    pub workspace_root: PathBuf,
    /// The journal.
    pub persist: Arc<dyn Persist>,
}

impl GrantStoreOptions {
    /// Options without rules, run or plan.
    pub fn new(workspace_root: impl Into<PathBuf>, persist: Arc<dyn Persist>) -> Self {
        GrantStoreOptions {
            configured: Vec::new(),
            remembered: Vec::new(),
            run_rules: Vec::new(),
            run_id: None,
            plan_digest: None,
            workspace_root: workspace_root.into(),
            persist,
        }
    }
}

impl fmt::Debug for GrantStoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantStoreOptions")
            .field("configured", &self.configured)
            .field("remembered", &self.remembered)
            .field("run_rules", &self.run_rules)
            .field("run_id", &self.run_id)
            .field("plan_digest", &self.plan_digest)
            .field("workspace_root", &self.workspace_root)
            .finish_non_exhaustive()
    }
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// Yes, for this request only: recorded, and never authority by itself. The host hands it to the one call it is for
    /// through [`Authority::admitting`](crate::Authority::admitting).
    Once,
    /// No: recorded; the next request asks again.
    Deny,
}

/// A request that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    /// `permission-<n>`, n from 1 in each store.
    pub request_id: String,
    /// What is asked.
    pub capability: Capability,
    /// How grave it is (kernel contract 4).
    pub tier: Tier,
    /// What the asker added.
    pub meta: Meta,
}

/// The unattended grant store. A request that no rule decides ends in [`PermissionRequired`] and is kept, so that an answer
/// can be recorded for it: the newest [`MAX_PENDING`] of them.
///
/// **Invariant:** persist before activate. An answer counts when its event is in the journal, and not before; a write that
/// fails or takes more than [`PERSIST_MILLIS`] leaves the request as it was.
///
/// **Invariant:** a configured deny is a veto over every other ruleset.
pub struct GrantStore {
    rules: Rulesets,
    warnings: Vec<String>,
    run_id: Option<String>,
    plan_digest: Option<String>,
    root: String,
    persist: Arc<dyn Persist>,
    closed: AtomicBool,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    last: u64,
    pending: BTreeMap<u64, Pending>,
}

struct Pending {
    request: PendingRequest,
    writing: bool,
}

impl GrantStore {
    /// Builds a store: resolves twins of configured rules, replays the run and the policy run. Any refusal of kernel
    /// contract 5.1, and any bound, is `invalid_resolution`; a journal that cannot be read is `journal_failed`.
    pub async fn open(options: GrantStoreOptions) -> Result<Arc<Self>, GrantStoreError> {
        let root = root_text(&options)?;
        if let Some(run) = &options.run_id {
            check_identity("the run id", run)?;
            if run == POLICY_RUN {
                return Err(GrantStoreError::invalid("the run id is that of the policy run"));
            }
        }
        if let Some(digest) = &options.plan_digest {
            check_identity("the plan digest", digest)?;
        }
        let mut rules = Rulesets::default();
        let mut warnings = Vec::new();
        if options.configured.len() > MAX_RULES {
            return Err(GrantStoreError::invalid(format!("more than {MAX_RULES} rules")));
        }
        let roots = Roots::of_root(&root);
        for rule in options.configured {
            let twin = twin::twin(&rule, &roots, &mut warnings)?;
            rules.push_configured(rule, twin);
        }
        rules.seal_configured();
        for rule in options.run_rules {
            rules.push_run(rule, None);
        }
        for rule in options.remembered {
            rules.remembered.push(rule, None);
        }
        rules.check_bound()?;

        let reader = replay::Reader {
            root: &root,
            plan_digest: options.plan_digest.as_deref(),
            policy_run: POLICY_RUN,
        };
        let mut signatures = BTreeSet::new();
        if let Some(run) = &options.run_id {
            let events = replay::read_all(&*options.persist, run).await?;
            reader.replay_run(run, &events, &mut rules, &mut signatures)?;
        }
        let events = replay::read_all(&*options.persist, POLICY_RUN).await?;
        reader.replay_policy(&events, &mut rules, &mut signatures)?;

        Ok(Arc::new(GrantStore {
            rules,
            warnings,
            run_id: options.run_id,
            plan_digest: options.plan_digest,
            root,
            persist: options.persist,
            closed: AtomicBool::new(false),
            requests: Mutex::default(),
        }))
    }

    /// Asks for a capability under a ceiling, in the order of kernel contract 5. See
    /// [`Authority::check`](crate::Authority::check), which is how handlers ask.
    pub async fn check(
        &self,
        ceiling: &CapabilitySet,
        cap: Capability,
        meta: Meta,
    ) -> Result<(), PermissionError> {
        self.check_admitting(ceiling, &[], cap, meta).await
    }

    pub(crate) async fn check_admitting(
        &self,
        ceiling: &CapabilitySet,
        admitted: &[Capability],
        cap: Capability,
        meta: Meta,
    ) -> Result<(), PermissionError> {
        check_meta(&meta)?;
        if self.is_closed() {
            return Err(GrantStoreError::closed().into());
        }
        if !ceiling.allows(&cap) {
            return Err(PermissionDenied::new(cap, PermissionDenied::OUTSIDE_CEILING).into());
        }
        match self.rules.evaluate(&cap) {
            Effect::Allow => Ok(()),
            Effect::Deny => Err(PermissionDenied::new(cap, PermissionDenied::BY_POLICY).into()),
            Effect::Ask if admitted.contains(&cap) => Ok(()),
            Effect::Ask => Err(self.keep(cap, meta)),
        }
    }

    /// What a check under this ceiling would meet: pure, writes nothing. A closed store and a request outside the ceiling
    /// answer deny.
    pub fn decide(&self, ceiling: &CapabilitySet, cap: &Capability) -> Effect {
        if self.is_closed() || !ceiling.allows(cap) { Effect::Deny } else { self.rules.evaluate(cap) }
    }

    /// Answers a kept request: records the event, then forgets the request and gives it back.
    ///
    /// A pattern goes with grants that add a rule, so any is `invalid_resolution` here. An unknown id, and one whose answer
    /// is being written, is `request_not_found`; a write that fails or is late is `journal_failed` and the request can be
    /// answered again. Needs a Tokio runtime with time.
    pub async fn reply(
        &self,
        request_id: &str,
        resolution: Resolution,
        pattern: Option<CapabilityPattern>,
    ) -> Result<PendingRequest, GrantStoreError> {
        let (number, request) = {
            let mut requests = self.requests();
            if self.is_closed() {
                return Err(GrantStoreError::closed());
            }
            let number = requests.find(request_id).ok_or_else(|| not_found(request_id))?;
            let pending = requests.pending.get_mut(&number).ok_or_else(|| not_found(request_id))?;
            if pending.writing {
                return Err(not_found(request_id));
            }
            if pattern.is_some() {
                return Err(GrantStoreError::invalid("a pattern goes with a grant that adds a rule"));
            }
            pending.writing = true;
            (number, pending.request.clone())
        };
        // From here on the mark is taken off again however this ends, a dropped future included.
        let _mark = Writing { store: self, number };
        let run = self.run_id.as_deref().ok_or_else(|| {
            GrantStoreError::invalid("an answer is recorded in a run, and the store has none")
        })?;
        let event_type = match resolution {
            Resolution::Once => event::ONCE,
            Resolution::Deny => event::DENIED,
        };
        let payload = event::encode(&self.event(event_type, run, &request)?)?;
        let write = self.persist.append(run, event_type, &payload);
        match tokio::time::timeout(Duration::from_millis(PERSIST_MILLIS), write).await {
            Ok(Ok(_seq)) => {}
            Ok(Err(error)) => {
                return Err(GrantStoreError::new(GrantStoreCode::JournalFailed, error.to_string()));
            }
            Err(_late) => {
                let message = format!("the write took more than {PERSIST_MILLIS} ms");
                return Err(GrantStoreError::new(GrantStoreCode::JournalFailed, message));
            }
        }
        let mut requests = self.requests();
        if self.is_closed() {
            return Err(GrantStoreError::closed());
        }
        requests.pending.remove(&number).ok_or_else(|| not_found(request_id))?;
        Ok(request)
    }

    /// The requests that wait for an answer, oldest first; those whose answer is being written are among them.
    pub fn list(&self) -> Vec<PendingRequest> {
        self.requests().pending.values().map(|pending| pending.request.clone()).collect()
    }

    /// All rules in the order of their evaluation, with where each comes from.
    pub fn rules(&self) -> Vec<(Rule, Source)> {
        self.rules.listed()
    }

    /// What the rules alone say of a request, and which rule said it; ceilings of askers and a closed store play no part.
    pub fn explain(&self, cap: &Capability) -> Explanation {
        self.rules.explain(cap)
    }

    /// What construction has to tell the host: a line for each configured rule that names a link or does not
    /// resolve.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether some rule might deny something below a resource. Conservative: false is a proof.
    pub(crate) fn may_deny_below(&self, action: Action, resource: &str) -> bool {
        match CapabilityPattern::new(action, format!("{}/**", resource.trim_end_matches('/'))) {
            Some(below) => self.rules.may_deny(&below),
            None => true,
        }
    }

    /// The store's run.
    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// Closes the store: kept requests are forgotten, later checks and replies fail with `store_closed`, later peeks
    /// answer deny. Closing twice is fine.
    pub fn close(&self) {
        let mut requests = self.requests();
        self.closed.store(true, Ordering::SeqCst);
        requests.pending.clear();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn keep(&self, capability: Capability, meta: Meta) -> PermissionError {
        let tier = tier_of(&capability, &self.root);
        let mut requests = self.requests();
        if self.is_closed() {
            return GrantStoreError::closed().into();
        }
        if requests.pending.len() >= MAX_PENDING {
            // Nobody waits in an unattended store, so the oldest makes room: a long-lived store must not fill up.
            let oldest =
                requests.pending.iter().find(|(_, pending)| !pending.writing).map(|(number, _)| *number);
            let Some(oldest) = oldest else {
                return GrantStoreError::invalid(format!("{MAX_PENDING} answers are being recorded")).into();
            };
            requests.pending.remove(&oldest);
        }
        requests.last = requests.last.saturating_add(1);
        let number = requests.last;
        let request = PendingRequest { request_id: request_id(number), capability, tier, meta };
        requests.pending.insert(number, Pending { request: request.clone(), writing: false });
        PermissionRequired {
            request_id: request.request_id,
            run_id: self.run_id.clone(),
            capability: request.capability,
            tier,
            meta: request.meta,
        }
        .into()
    }

    fn event(
        &self,
        event_type: &str,
        run: &str,
        request: &PendingRequest,
    ) -> Result<event::GrantEvent, GrantStoreError> {
        let capability = request.capability.clone();
        let pattern = CapabilityPattern::new(capability.action(), capability.resource())
            .ok_or_else(|| GrantStoreError::invalid("the resource is too long"))?;
        Ok(event::GrantEvent {
            event_type: event_type.to_owned(),
            request_id: request.request_id.clone(),
            run_id: run.to_owned(),
            plan_digest: self.plan_digest.clone(),
            capability,
            pattern,
            scope: event::Scope::Once,
            tier: request.tier,
        })
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GrantStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantStore")
            .field("run_id", &self.run_id)
            .field("root", &self.root)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Requests {
    fn find(&self, id: &str) -> Option<u64> {
        let number: u64 = id.strip_prefix("permission-")?.parse().ok()?;
        (request_id(number) == id && self.pending.contains_key(&number)).then_some(number)
    }
}

/// The mark of a request whose answer is being written.
struct Writing<'a> {
    store: &'a GrantStore,
    number: u64,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.store.requests().pending.get_mut(&self.number) {
            pending.writing = false;
        }
    }
}

fn request_id(number: u64) -> String {
    format!("permission-{number}")
}

fn not_found(id: &str) -> GrantStoreError {
    GrantStoreError::new(GrantStoreCode::RequestNotFound, format!("no request {id} waits for an answer"))
}

fn root_text(options: &GrantStoreOptions) -> Result<String, GrantStoreError> {
    let text = options
        .workspace_root
        .to_str()
        .ok_or_else(|| GrantStoreError::invalid("the workspace root is not UTF-8"))?;
    if !text.starts_with('/') || text.contains('\0') {
        return Err(GrantStoreError::invalid("the workspace root is not an absolute path"));
    }
    Ok(lexical("/", text))
}

/// An identity has 1 to 4,096 units and no NUL.
fn check_identity(what: &str, text: &str) -> Result<(), GrantStoreError> {
    if text.is_empty() || text.contains('\0') || units(text) > MAX_RESOURCE_UNITS {
        return Err(GrantStoreError::invalid(format!("{what} has to be of 1 to 4096 units without NUL")));
    }
    Ok(())
}
