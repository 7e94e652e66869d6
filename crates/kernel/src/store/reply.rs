//! From an answer to its event: the one place where answers are validated.

use super::event::{GrantEvent, GrantRecord, POLICY_RUN, RunGrantRecord};
use super::pattern::valid_for;
use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::effects::{Tier, tier_of};
use crate::flows::rules::CapabilitySet;
use crate::permission::GrantStoreError;

/// An answer to a request (kernel contract 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// Yes, for this request only: recorded, and never authority by itself. A waiting call goes on; one that was refused
    /// gets it from the host through [`Authority::admitting`](crate::Authority::admitting).
    Once,
    /// Yes, and for what the pattern selects until the run ends: an allow rule bound to the run, to its plan and to the
    /// ceiling of the authority that asked.
    Run,
    /// Yes, and for what the pattern selects from now on: an allow rule that later processes keep.
    Remembered,
    /// No: recorded; the next request asks again.
    Deny,
}

/// A request as whoever answers it knows it: by itself, a store's own pending request; from another process, what was
/// recorded when the request was refused.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The request's id in its store.
    pub request_id: &'a str,
    /// What is asked.
    pub capability: &'a Capability,
    /// How grave it is: [`tier_of`] the capability and the root.
    pub tier: Tier,
    /// The ceiling of the authority that asked.
    pub ceiling: &'a CapabilitySet,
    /// The run that asks.
    pub run_id: Option<&'a str>,
    /// The run's plan.
    pub plan_digest: Option<&'a str>,
    /// The logical workspace root: absolute, without `.` or `..`.
    pub workspace_root: &'a str,
}

/// The event of an answer. [`GrantStore::reply`](crate::GrantStore::reply) records exactly this one; a host that answers
/// for another process appends its [`encode`](GrantEvent::encode)d payload to the journal of its
/// [`run`](GrantEvent::run), and the store that opens next has the rule.
///
/// `Run` and `Remembered` take the pattern, else the exact one; the other two take none. `invalid_resolution` when:
///
/// - a pattern comes with an answer that adds no rule, or the request has no exact pattern and none is given;
/// - the pattern is wider than the request: another action or not the same, no match, the request's own text where that
///   has wildcards, and for `fs:write` anything but a literal (irreversible) or what is provably in the workspace
///   (compensable);
/// - there is no run to record in, or for `Run` no plan; or an identity or the event is over its bound;
/// - the tier is not that of the capability: replay would refuse such a grant.
///
/// ```
/// use flowcell_kernel::flows::capability::{Capability, CapabilityPattern};
/// use flowcell_kernel::flows::effects::Tier;
/// use flowcell_kernel::flows::rules::CapabilitySet;
/// use flowcell_kernel::{GrantEvent, ReplyContext, Resolution, plan_reply};
/// let capability = Capability::parse("fs:write:/ws/src/a").ok_or("capability")?;
/// let request = ReplyContext {
///     request_id: "permission-1",
///     capability: &capability,
///     tier: Tier::Compensable,
///     ceiling: &CapabilitySet::unrestricted(),
///     run_id: Some("run-1"),
///     plan_digest: Some("plan-1"),
///     workspace_root: "/ws",
/// };
/// let pattern = CapabilityPattern::parse("fs:write:/ws/src/**");
/// let GrantEvent::Run(grant) = plan_reply(&request, Resolution::Run, pattern)? else { return Err("event".into()) };
/// assert_eq!(grant.pattern.to_string(), "fs:write:/ws/src/**");
/// let wide = CapabilityPattern::parse("fs:write:/**");
/// assert!(plan_reply(&request, Resolution::Run, wide).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plan_reply(
    request: &ReplyContext<'_>,
    resolution: Resolution,
    pattern: Option<CapabilityPattern>,
) -> Result<GrantEvent, GrantStoreError> {
    let event = match resolution {
        Resolution::Once | Resolution::Deny => {
            if pattern.is_some() {
                return Err(GrantStoreError::invalid("a pattern goes with a grant that adds a rule"));
            }
            let own = CapabilityPattern::new(request.capability.action(), request.capability.resource())
                .ok_or_else(|| GrantStoreError::invalid("the resource is too long"))?;
            let record = request.record(request.run()?, own);
            if resolution == Resolution::Once { GrantEvent::Once(record) } else { GrantEvent::Denied(record) }
        }
        Resolution::Run => {
            let pattern = request.pattern(pattern)?;
            let run = request.run()?;
            let plan_digest = request.plan_digest.ok_or_else(|| {
                GrantStoreError::invalid("a run grant is bound to a plan, and there is none")
            })?;
            GrantEvent::Run(RunGrantRecord {
                request_id: request.request_id.to_owned(),
                run_id: run.to_owned(),
                plan_digest: plan_digest.to_owned(),
                capability: request.capability.clone(),
                pattern,
                tier: request.tier,
                ceiling: request.ceiling.clone(),
            })
        }
        Resolution::Remembered => {
            GrantEvent::Remembered(request.record(POLICY_RUN, request.pattern(pattern)?))
        }
    };
    event.encode()?;
    Ok(event)
}

impl ReplyContext<'_> {
    fn run(&self) -> Result<&str, GrantStoreError> {
        let run = self.run_id.ok_or_else(|| {
            GrantStoreError::invalid("an answer is recorded in a run, and the store has none")
        })?;
        if run == POLICY_RUN {
            return Err(GrantStoreError::invalid("the run id is that of the policy run"));
        }
        Ok(run)
    }

    fn record(&self, run: &str, pattern: CapabilityPattern) -> GrantRecord {
        GrantRecord {
            request_id: self.request_id.to_owned(),
            run_id: run.to_owned(),
            plan_digest: self.plan_digest.map(str::to_owned),
            capability: self.capability.clone(),
            pattern,
            tier: self.tier,
        }
    }

    fn pattern(&self, supplied: Option<CapabilityPattern>) -> Result<CapabilityPattern, GrantStoreError> {
        if self.tier != tier_of(self.capability, self.workspace_root) {
            return Err(GrantStoreError::invalid("the tier is not that of the capability"));
        }
        let pattern = supplied.or_else(|| CapabilityPattern::exact(self.capability)).ok_or_else(|| {
            GrantStoreError::invalid("no pattern is exactly the request: one has to be given")
        })?;
        if !valid_for(&pattern, self.capability, self.tier, self.workspace_root) {
            return Err(GrantStoreError::invalid("pattern is wider than the request"));
        }
        Ok(pattern)
    }
}
