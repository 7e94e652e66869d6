//! Invariant 7 (kernel contract 12) over explored interleavings: actors as futures that a seeded scheduler polls by hand,
//! over a journal whose writes end, fail or hang when the schedule says so.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::event::GrantEvent;
use super::sabotage::Sabotage;
use super::{
    Envelope, EnvelopeScope, GrantStore, GrantStoreOptions, POLICY_RUN, PendingRequest, Resolution, RunRule,
    Source,
};
use crate::flows::capability::{Capability, CapabilityPattern};
use crate::flows::rules::{CapabilitySet, Effect, Rule};
use crate::permission::{GrantStoreCode, GrantStoreError, PermissionDenied, PermissionError};
use crate::{Meta, PERSIST_MILLIS};

mod journal;

use journal::{Known, Scripted};

/// Under two seconds in a debug build on an idle core.
const CI_SCHEDULES: u64 = 600;
const FULL_SCHEDULES: u64 = 20_000;
const STEPS: usize = 60;
const CHECKERS: usize = 3;
const REPLIERS: usize = 2;

const REQUESTS: [&str; 5] =
    ["fs:read:/ws/a", "fs:read:/ws/b", "fs:write:/ws/a", "proc:spawn:ls", "fs:read:/ws/secret"];
const PATTERNS: [Option<&str>; 4] = [None, None, Some("fs:read:/ws/*"), Some("fs:write:/ws/**")];
const CEILINGS: [Option<&str>; 3] = [None, Some("fs:read:/ws/**"), Some("fs:*:/ws/a")];

fn cap(text: &str) -> Capability {
    Capability::parse(text).unwrap()
}

fn pattern(text: &str) -> CapabilityPattern {
    CapabilityPattern::parse(text).unwrap()
}

fn ceiling(of: usize) -> CapabilitySet {
    CEILINGS[of].map_or_else(CapabilitySet::unrestricted, |text| CapabilitySet::of([pattern(text)]))
}

/// SplitMix64: the whole schedule follows from its seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

type Run<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A check under way.
struct Check {
    capability: Capability,
    ceiling: CapabilitySet,
    run: Run<Result<(), PermissionError>>,
    /// Once it waits.
    request_id: Option<String>,
}

/// A write under way.
struct Reply {
    request_id: String,
    run: Run<Result<PendingRequest, GrantStoreError>>,
}

struct World {
    chance: Chance,
    journal: Arc<Scripted>,
    store: Arc<GrantStore>,
    checks: [Option<Check>; CHECKERS],
    replies: [Option<Reply>; REPLIERS],
    grant: Option<Run<Result<(), GrantStoreError>>>,
    revoke: Option<Run<Result<(), GrantStoreError>>>,
    closed: bool,
    /// What the live rules have to be, and of how many known records.
    expected: (usize, Vec<(Rule, Source)>, Vec<Effect>),
    steps: Vec<&'static str>,
}

/// What a schedule came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    allowed: u64,
    denied: u64,
    records: u64,
    failures: u64,
    late: u64,
    cancelled: u64,
    closed: u64,
}

fn options(persist: Arc<dyn crate::Persist>) -> GrantStoreOptions {
    let mut options = GrantStoreOptions::new("/ws", persist);
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    options.configured = vec![Rule::deny(pattern("fs:read:/ws/secret"))];
    options.run_rules =
        vec![RunRule { rule: Rule::ask(pattern("proc:spawn:ls")), ceiling: CapabilitySet::unrestricted() }];
    options
}

fn poll<T>(run: &mut Run<T>) -> Poll<T> {
    run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn now<T>(run: impl Future<Output = T> + Send + 'static) -> T {
    let mut run: Run<T> = Box::pin(run);
    match poll(&mut run) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a replay of a journal in memory waits"),
    }
}

type Checked = Result<(), String>;

impl World {
    fn new(seed: u64) -> Self {
        let journal = Arc::new(Scripted::default());
        let store = now(GrantStore::open(options(journal.clone()))).unwrap();
        let expected = (0, store.rules(), effects(&store));
        World {
            chance: Chance(seed),
            journal,
            store,
            checks: Default::default(),
            replies: Default::default(),
            grant: None,
            revoke: None,
            closed: false,
            expected,
            steps: Vec::new(),
        }
    }

    /// One step of one actor.
    async fn step(&mut self, tally: &mut Tally) -> Checked {
        let actor = self.chance.below(24);
        match actor {
            0..=8 => self.checker(actor % CHECKERS, tally)?,
            9..=13 => self.replier(actor % REPLIERS, tally)?,
            14 => {
                // A canceller: the asker goes away.
                let which = self.chance.below(CHECKERS);
                self.steps.push("cancel");
                tally.cancelled += u64::from(self.checks[which].take().is_some());
            }
            15..=19 => {
                let open = self.journal.open();
                if open > 0 {
                    let which = self.chance.below(open);
                    let record = !self.chance.one_in(4);
                    self.steps.push(if record { "record" } else { "fail" });
                    self.journal.decide(which, record);
                }
            }
            20 => self.granter()?,
            21 => self.revoker()?,
            22 => {
                self.steps.push("time");
                tokio::time::advance(Duration::from_millis(PERSIST_MILLIS / 2 + 1)).await;
            }
            _ => {
                if self.chance.one_in(20) {
                    self.steps.push("close");
                    self.store.close();
                    tally.closed += u64::from(!self.closed);
                    self.closed = true;
                } else if self.chance.one_in(8) {
                    // A replier goes away with its write under way.
                    self.steps.push("drop reply");
                    let which = self.chance.below(REPLIERS);
                    self.replies[which] = None;
                }
            }
        }
        self.look()
    }

    fn checker(&mut self, which: usize, tally: &mut Tally) -> Checked {
        let Some(check) = &mut self.checks[which] else {
            self.steps.push("check");
            let capability = cap(REQUESTS[self.chance.below(REQUESTS.len())]);
            let ceiling = ceiling(self.chance.below(CEILINGS.len()));
            let (store, own, asked) = (self.store.clone(), ceiling.clone(), capability.clone());
            let run: Run<_> = Box::pin(async move { store.check(&own, asked, Meta::new()).await });
            self.checks[which] = Some(Check { capability, ceiling, run, request_id: None });
            return Ok(());
        };
        self.steps.push("poll check");
        match poll(&mut check.run) {
            Poll::Pending => {
                if check.request_id.is_none() {
                    check.request_id = self.store.list().last().map(|request| request.request_id.clone());
                }
                Ok(())
            }
            Poll::Ready(result) => {
                match &result {
                    Ok(()) => tally.allowed += 1,
                    Err(_) => tally.denied += 1,
                }
                let Some(check) = self.checks[which].take() else { return Ok(()) };
                self.justified(&check, &result)
            }
        }
    }

    fn replier(&mut self, which: usize, tally: &mut Tally) -> Checked {
        if self.replies[which].is_none() {
            let waiting = self.store.list();
            if waiting.is_empty() {
                return Ok(());
            }
            self.steps.push("reply");
            let request_id = waiting[self.chance.below(waiting.len())].request_id.clone();
            let all = [Resolution::Once, Resolution::Run, Resolution::Remembered, Resolution::Deny];
            let resolution = all[self.chance.below(all.len())];
            let given = match resolution {
                Resolution::Run | Resolution::Remembered => PATTERNS[self.chance.below(PATTERNS.len())],
                Resolution::Once | Resolution::Deny => None,
            };
            let (store, id) = (self.store.clone(), request_id.clone());
            let run: Run<_> = Box::pin(async move { store.reply(&id, resolution, given.map(pattern)).await });
            self.replies[which] = Some(Reply { request_id, run });
            return Ok(());
        }
        self.steps.push("poll reply");
        let Some(reply) = &mut self.replies[which] else { return Ok(()) };
        let Poll::Ready(result) = poll(&mut reply.run) else { return Ok(()) };
        let Some(reply) = self.replies[which].take() else { return Ok(()) };
        match result {
            Ok(request) if request.request_id == reply.request_id => {
                tally.records += 1;
                self.recorded(&reply.request_id)
            }
            Ok(request) => Err(format!("{} was answered as {}", reply.request_id, request.request_id)),
            Err(error) => match error.code {
                GrantStoreCode::JournalFailed => {
                    tally.failures += 1;
                    Ok(())
                }
                GrantStoreCode::RequestNotFound | GrantStoreCode::InvalidResolution => Ok(()),
                GrantStoreCode::StoreClosed if self.closed => Ok(()),
                _ => Err(format!("a reply ended in {error}")),
            },
        }
    }

    fn granter(&mut self) -> Checked {
        self.steps.push("envelope");
        let Some(grant) = &mut self.grant else {
            let scope = if self.chance.one_in(2) { EnvelopeScope::Run } else { EnvelopeScope::Remembered };
            let patterns = vec![pattern("fs:read:/ws/b"), pattern("fs:write:/ws/a")];
            let envelope = Envelope { scope, ..Envelope::new("plan-1", patterns) };
            let store = self.store.clone();
            self.grant = Some(Box::pin(async move { store.grant_envelope(envelope).await }));
            return Ok(());
        };
        if poll(grant).is_ready() {
            self.grant = None;
        }
        Ok(())
    }

    fn revoker(&mut self) -> Checked {
        self.steps.push("revoke");
        let Some(revoke) = &mut self.revoke else {
            let seqs: Vec<u64> = self
                .store
                .rules()
                .iter()
                .filter_map(|(_, source)| match source {
                    Source::Remembered { seq } => *seq,
                    _ => None,
                })
                .collect();
            if !seqs.is_empty() {
                let seq = seqs[self.chance.below(seqs.len())];
                let store = self.store.clone();
                self.revoke = Some(Box::pin(async move { store.revoke(seq).await }));
            }
            return Ok(());
        };
        if poll(revoke).is_ready() {
            self.revoke = None;
        }
        Ok(())
    }

    fn events(&self) -> Vec<GrantEvent> {
        let records = ["run-1", POLICY_RUN].map(|run| self.journal.records.events(run));
        let events = records.into_iter().flatten();
        events.filter_map(|event| GrantEvent::decode(&event.event_type, &event.event).unwrap()).collect()
    }

    fn recorded(&self, request_id: &str) -> Checked {
        let of = |event: &GrantEvent| match event {
            GrantEvent::Once(record) | GrantEvent::Denied(record) | GrantEvent::Remembered(record) => {
                record.request_id == request_id
            }
            GrantEvent::Run(record) => record.request_id == request_id,
            GrantEvent::Envelope { .. } | GrantEvent::Revoked { .. } => false,
        };
        if self.events().iter().any(of) {
            return Ok(());
        }
        Err(format!("{request_id} was answered and nothing is recorded"))
    }

    /// No check ends well without a rule or an answer recorded before, and none ends badly without a reason.
    fn justified(&self, check: &Check, result: &Result<(), PermissionError>) -> Checked {
        let is = |id: &String| check.request_id.as_ref() == Some(id);
        let denied = match result {
            Ok(()) => {
                let of = |event: &GrantEvent| match event {
                    GrantEvent::Once(record) => is(&record.request_id),
                    GrantEvent::Remembered(record) => {
                        is(&record.request_id) || record.pattern.matches(&check.capability)
                    }
                    GrantEvent::Run(record) => {
                        is(&record.request_id)
                            || (record.pattern.matches(&check.capability)
                                && record.ceiling.allows(&check.capability))
                    }
                    GrantEvent::Envelope { envelope, .. } => {
                        envelope.patterns.iter().any(|pattern| pattern.matches(&check.capability))
                    }
                    GrantEvent::Denied(_) | GrantEvent::Revoked { .. } => false,
                };
                if self.events().iter().any(of) {
                    return Ok(());
                }
                return Err(format!("{} went through and nothing is recorded", check.capability));
            }
            Err(PermissionError::Denied(denied)) => denied,
            Err(PermissionError::Store(error))
                if error.code == GrantStoreCode::StoreClosed && self.closed =>
            {
                return Ok(());
            }
            Err(other) => return Err(format!("{} ended in {other}", check.capability)),
        };
        let fine = match denied.reason.as_str() {
            PermissionDenied::OUTSIDE_CEILING => !check.ceiling.allows(&check.capability),
            PermissionDenied::BY_POLICY => check.capability == cap("fs:read:/ws/secret"),
            PermissionDenied::STORE_CLOSED => self.closed,
            PermissionDenied::ON_REQUEST => {
                let no = |event: &GrantEvent| matches!(event, GrantEvent::Denied(own) if is(&own.request_id));
                self.events().iter().any(no)
            }
            _ => false,
        };
        if fine { Ok(()) } else { Err(format!("without a reason: {denied}")) }
    }

    /// What holds after every step.
    fn look(&mut self) -> Checked {
        if self.closed {
            let waiting = self.store.list();
            return if waiting.is_empty() { Ok(()) } else { Err("a closed store keeps requests".to_owned()) };
        }
        let known = self.journal.told();
        if known != self.expected.0 {
            let replayed = now(GrantStore::open(options(Arc::new(Known(self.journal.clone())))));
            let replayed = replayed.map_err(|error| format!("the journal does not replay: {error}"))?;
            self.expected = (known, replayed.rules(), effects(&replayed));
        }
        let (rules, found) = (self.store.rules(), effects(&self.store));
        if rules != self.expected.1 || found != self.expected.2 {
            return Err(format!("live {rules:?} {found:?} and replayed {:?}", self.expected));
        }
        let askers: BTreeSet<&String> =
            self.checks.iter().flatten().filter_map(|check| check.request_id.as_ref()).collect();
        for request in self.store.list() {
            if !askers.contains(&request.request_id) {
                return Err(format!("{} waits and nobody asked", request.request_id));
            }
        }
        for check in self.checks.iter().flatten() {
            let waits = self
                .store
                .list()
                .iter()
                .any(|request| Some(&request.request_id) == check.request_id.as_ref());
            if waits && self.store.decide(&check.ceiling, &check.capability) == Effect::Allow {
                return Err(format!("{} waits for what is allowed", check.capability));
            }
        }
        Ok(())
    }

    /// Lets everything come to an end, and looks for who does not.
    async fn drain(&mut self, tally: &mut Tally) -> Checked {
        self.steps.push("drain");
        for _ in 0..64 {
            while self.journal.open() > 0 {
                self.journal.decide(0, true);
            }
            for which in 0..REPLIERS {
                if self.replies[which].is_some() {
                    self.replier(which, tally)?;
                    self.look()?;
                }
            }
            if self.grant.is_some() {
                self.granter()?;
            }
            if self.revoke.is_some() {
                self.revoker()?;
            }
            for which in 0..CHECKERS {
                if self.checks[which].is_some() {
                    self.checker(which, tally)?;
                }
            }
            self.look()?;
            let busy =
                self.replies.iter().any(Option::is_some) || self.grant.is_some() || self.revoke.is_some();
            if busy {
                continue;
            }
            // Whoever waits now has to be in the list, and a no has to reach it.
            let Some(which) = (0..CHECKERS).find(|which| self.checks[*which].is_some()) else {
                return Ok(());
            };
            let Some(id) = self.checks[which].as_ref().and_then(|check| check.request_id.clone()) else {
                continue;
            };
            if !self.store.list().iter().any(|request| request.request_id == id) {
                return Err(format!("{id} is stranded"));
            }
            let (store, own) = (self.store.clone(), id.clone());
            let run: Run<_> = Box::pin(async move { store.reply(&own, Resolution::Deny, None).await });
            self.replies[0] = Some(Reply { request_id: id, run });
        }
        Err("the end does not come".to_owned())
    }
}

fn effects(store: &GrantStore) -> Vec<Effect> {
    let ask = |request: &&str| store.ruleset().evaluate(&cap(request));
    REQUESTS.iter().map(ask).collect()
}

async fn explore(seed: u64, tally: &mut Tally) -> Checked {
    let mut world = World::new(seed);
    let mut result = Ok(());
    for _ in 0..STEPS {
        result = world.step(tally).await;
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = world.drain(tally).await;
    }
    tally.late += world.journal.late() as u64;
    result.map_err(|why| format!("schedule {seed}: {why}\nafter {:?}", world.steps))
}

/// Explores schedules until one fails or all are done; gives how many were fine.
fn explore_all(schedules: std::ops::Range<u64>) -> (u64, Tally, Checked) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut tally = Tally::default();
    let mut done = 0;
    let run = tokio::task::unconstrained(async {
        for seed in schedules {
            explore(seed, &mut tally).await?;
            done += 1;
        }
        Ok(())
    });
    let result = runtime.block_on(run);
    (done, tally, result)
}

#[test]
fn no_interleaving_breaks_the_store() {
    let full = std::env::vars_os().any(|(name, value)| name == "FLOWCELL_VOLUME" && value == "full");
    let (done, tally, result) = explore_all(0..if full { FULL_SCHEDULES } else { CI_SCHEDULES });
    if let Err(why) = result {
        panic!("{why}");
    }
    println!("measured: interleavings: {done} schedules of 11 actors, {tally:?}");
    // Every kind of end was met, or the exploration shows nothing.
    let Tally { allowed, denied, records, failures, late, cancelled, closed } = tally;
    for (what, count) in [
        ("allowed", allowed),
        ("denied", denied),
        ("records", records),
        ("failures", failures),
        ("late", late),
        ("cancelled", cancelled),
        ("closed", closed),
    ] {
        assert!(count > 0, "no schedule had {what}");
    }
}

#[test]
fn every_seeded_bug_is_found() {
    for bug in [
        Sabotage::ActivateFirst,
        Sabotage::ForgetCover,
        Sabotage::LoseOnFailure,
        Sabotage::KeepDropped,
        Sabotage::LoseCeiling,
        Sabotage::RevokeFirst,
        Sabotage::CloseForgets,
    ] {
        let (done, _, result) = Sabotage::during(Some(bug), || explore_all(400..1_400));
        let Err(found) = result else { panic!("{bug:?} survives {done} schedules") };
        println!("measured: {bug:?}: found by schedule {done}: {}", found.lines().next().unwrap_or_default());
    }
}
