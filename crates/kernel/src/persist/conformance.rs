//! What every grant journal has to show (kernel contract 5.1).
//!
//! [`run`] holds a [`Persist`] to all cases of [`CASES`] and gives what failed. A journal in a store of its own brings a
//! [`Journals`] that opens it; the cases use names of their own, so all may lie in one store.
//!
//! ```
//! # use std::collections::BTreeMap;
//! # use std::sync::{Arc, Mutex};
//! # use flowcell_kernel::conformance::{self, Journals};
//! # use flowcell_kernel::{MemoryPersist, Persist, PersistError, async_trait};
//! #[derive(Default)]
//! struct Memory(Mutex<BTreeMap<String, Arc<MemoryPersist>>>);
//!
//! #[async_trait]
//! impl Journals for Memory {
//!     async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
//!         let mut all = self.0.lock().map_err(|error| PersistError::new(error.to_string()))?;
//!         Ok(all.entry(name.to_owned()).or_default().clone())
//!     }
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let failures = conformance::run(Arc::new(Memory::default())).await;
//! assert!(failures.is_empty(), "{failures:?}");
//! # }
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{GRANT_SOURCE, Persist, PersistError, PersistedEvent};
use crate::flows::capability::CapabilityPattern;
use crate::flows::rules::CapabilitySet;
use crate::store::{
    Envelope, EnvelopeScope, GrantEvent, GrantStore, GrantStoreOptions, MAX_EVENT_BYTES, PAGE_EVENTS,
    POLICY_RUN, ReplyContext, Resolution, plan_reply,
};

/// Opens journals by name: the same name twice gives two handles on one journal, as two processes would have them.
#[async_trait]
pub trait Journals: Send + Sync {
    /// Opens the journal of a name; one that was never opened before is empty.
    async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError>;
}

/// A case that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which case.
    pub case: &'static str,
    /// What was found instead.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)
    }
}

/// The names of the cases.
pub const CASES: &[&str] = &[
    "seqs_rise_from_one_in_each_run",
    "payloads_come_back_as_they_went",
    "pages_are_cut_where_asked",
    "an_append_is_seen_by_every_handle",
    "an_append_after_a_seq_is_conditional",
    "appends_at_once_have_their_own_seqs",
    "one_of_many_conditional_appends_wins",
    "one_envelope_of_many_constructors",
    "a_store_replays_what_another_recorded",
];

/// Holds a journal to every case. Needs a Tokio runtime with time.
pub async fn run(journals: Arc<dyn Journals>) -> Vec<Failure> {
    let mut failures = Vec::new();
    for case in CASES.iter().copied() {
        let result = match case {
            "seqs_rise_from_one_in_each_run" => seqs(&*journals, case).await,
            "payloads_come_back_as_they_went" => payloads(&*journals, case).await,
            "pages_are_cut_where_asked" => pages(&*journals, case).await,
            "an_append_is_seen_by_every_handle" => handles(&*journals, case).await,
            "an_append_after_a_seq_is_conditional" => conditional(&*journals, case).await,
            "appends_at_once_have_their_own_seqs" => at_once(&journals, case).await,
            "one_of_many_conditional_appends_wins" => one_wins(&journals, case).await,
            "one_envelope_of_many_constructors" => constructors(&journals, case).await,
            "a_store_replays_what_another_recorded" => replays(&*journals, case).await,
            other => Err(format!("there is no case {other}")),
        };
        if let Err(message) = result {
            failures.push(Failure { case, message });
        }
    }
    failures
}

type Checked = Result<(), String>;

const HANDLES: usize = 4;
const EACH: usize = 8;

fn same<T: fmt::Debug + PartialEq>(what: &str, found: &T, expected: &T) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

async fn seqs(journals: &dyn Journals, name: &str) -> Checked {
    let journal = journals.open(name).await.map_err(text)?;
    same("a new run", &journal.page("a", 0, 9).await.map_err(text)?, &Vec::new())?;
    for (run, seq) in [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("A", 1), ("a ", 1), ("", 1)] {
        let found = journal.append(run, "t", &json!({})).await.map_err(text)?;
        same(&format!("the seq of an append to {run:?}"), &found, &seq)?;
    }
    let page = journal.page("a", 0, 9).await.map_err(text)?;
    same("the seqs of a run", &seq_list(&page), &vec![1, 2, 3])?;
    match page.iter().find(|event| event.source != GRANT_SOURCE) {
        None => Ok(()),
        Some(event) => Err(format!("an appended event has the source {:?}", event.source)),
    }
}

fn seq_list(page: &[PersistedEvent]) -> Vec<u64> {
    page.iter().map(|event| event.seq).collect()
}

async fn payloads(journals: &dyn Journals, name: &str) -> Checked {
    let journal = journals.open(name).await.map_err(text)?;
    let mut deep = json!(1);
    for _ in 0..64 {
        deep = json!([deep]);
    }
    let payloads: Vec<(&str, Value)> = vec![
        ("flowcell.kernel.grant.once.v1", json!({"eventType": "flowcell.kernel.grant.once.v1", "n": 1})),
        ("other", json!({"text": "a\nb\u{0}c\u{1f600}\u{2028}\"\\", "empty": "", "": null})),
        ("", json!({"numbers": [0, -1, 9_007_199_254_740_993_u64, u64::MAX, i64::MIN, 0.1, 1e300]})),
        ("deep", deep),
        ("not an object", json!("text")),
        ("long", json!({"x": "y".repeat(MAX_EVENT_BYTES - 8)})),
    ];
    for (event_type, event) in &payloads {
        journal.append("a", event_type, event).await.map_err(text)?;
    }
    let page = journals.open(name).await.map_err(text)?.page("a", 0, 9).await.map_err(text)?;
    same("the count", &page.len(), &payloads.len())?;
    for ((event_type, event), found) in payloads.iter().zip(&page) {
        same("the type", &found.event_type.as_str(), event_type)?;
        if found.event != *event {
            return Err(format!("the payload of {event_type:?} changed"));
        }
    }
    Ok(())
}

async fn pages(journals: &dyn Journals, name: &str) -> Checked {
    let journal = journals.open(name).await.map_err(text)?;
    let count = PAGE_EVENTS as u64 + 3;
    for n in 1..=count {
        journal.append("a", "t", &json!({ "n": n })).await.map_err(text)?;
        if n % 50 == 0 {
            journal.append("b", "t", &json!({})).await.map_err(text)?;
        }
    }
    for (after, limit, first, len) in [
        (0, PAGE_EVENTS, 1, PAGE_EVENTS),
        (PAGE_EVENTS as u64, PAGE_EVENTS, PAGE_EVENTS as u64 + 1, 3),
        (0, 1, 1, 1),
        (count - 1, 9, count, 1),
        (7, 2, 8, 2),
    ] {
        let page = journal.page("a", after, limit).await.map_err(text)?;
        let expected: Vec<u64> = (first..).take(len).collect();
        same(&format!("the page after {after} of {limit}"), &seq_list(&page), &expected)?;
    }
    for after in [count, count + 1, u64::MAX] {
        same("the page after the end", &journal.page("a", after, 9).await.map_err(text)?.len(), &0)?;
    }
    Ok(())
}

async fn handles(journals: &dyn Journals, name: &str) -> Checked {
    let one = journals.open(name).await.map_err(text)?;
    let other = journals.open(name).await.map_err(text)?;
    for n in 0..EACH as u64 {
        let journal = if n % 2 == 0 { &one } else { &other };
        same("the seq", &journal.append("a", "t", &json!({ "n": n })).await.map_err(text)?, &(n + 1))?;
        for reader in [&one, &other] {
            let page = reader.page("a", n, 9).await.map_err(text)?;
            same(
                "the newest event",
                &page.first().map(|event| event.event.clone()),
                &Some(json!({ "n": n })),
            )?;
        }
    }
    Ok(())
}

async fn conditional(journals: &dyn Journals, name: &str) -> Checked {
    let journal = journals.open(name).await.map_err(text)?;
    let event = json!({});
    let after = |last: u64| journal.append_after("a", last, "t", &event);
    same("after nothing", &after(0).await.map_err(text)?, &Some(1))?;
    same("after nothing again", &after(0).await.map_err(text)?, &None)?;
    same("after the last", &after(1).await.map_err(text)?, &Some(2))?;
    same("after an earlier one", &after(1).await.map_err(text)?, &None)?;
    same("the seqs", &seq_list(&journal.page("a", 0, 9).await.map_err(text)?), &vec![1, 2])?;
    same("in another run", &journal.append_after("b", 0, "t", &event).await.map_err(text)?, &Some(1))
}

async fn at_once(journals: &Arc<dyn Journals>, name: &'static str) -> Checked {
    let mut tasks = JoinSet::new();
    for handle in 0..HANDLES {
        let journals = journals.clone();
        tasks.spawn(async move {
            let journal = journals.open(name).await.map_err(text)?;
            let mut seqs = Vec::new();
            for n in 0..EACH {
                seqs.push((handle, n, journal.append("a", "t", &json!([handle, n])).await.map_err(text)?));
            }
            Ok::<_, String>(seqs)
        });
    }
    let mut given = Vec::new();
    while let Some(result) = tasks.join_next().await {
        given.extend(result.map_err(text)??);
    }
    let distinct: BTreeSet<u64> = given.iter().map(|(_, _, seq)| *seq).collect();
    same("the seqs given out", &distinct, &(1..=(HANDLES * EACH) as u64).collect())?;
    let page =
        journals.open(name).await.map_err(text)?.page("a", 0, HANDLES * EACH + 1).await.map_err(text)?;
    for (handle, n, seq) in given {
        let found = page.iter().find(|event| event.seq == seq).map(|event| event.event.clone());
        same("the event of a seq", &found, &Some(json!([handle, n])))?;
    }
    same("the count", &page.len(), &(HANDLES * EACH))
}

async fn one_wins(journals: &Arc<dyn Journals>, name: &'static str) -> Checked {
    for round in 0..EACH as u64 {
        let mut tasks = JoinSet::new();
        for handle in 0..HANDLES {
            let journals = journals.clone();
            tasks.spawn(async move {
                let journal = journals.open(name).await.map_err(text)?;
                journal.append_after("a", round, "t", &json!(handle)).await.map_err(text)
            });
        }
        let mut won = Vec::new();
        while let Some(result) = tasks.join_next().await {
            won.extend(result.map_err(text)??);
        }
        same("who appended", &won, &vec![round + 1])?;
    }
    Ok(())
}

fn options(journal: Arc<dyn Persist>) -> GrantStoreOptions {
    let mut options = GrantStoreOptions::new("/ws", journal).unattended();
    options.run_id = Some("run-1".to_owned());
    options.plan_digest = Some("plan-1".to_owned());
    options
}

fn pattern(of: &str) -> Result<CapabilityPattern, String> {
    CapabilityPattern::parse(of).ok_or_else(|| format!("{of} is no pattern"))
}

async fn constructors(journals: &Arc<dyn Journals>, name: &'static str) -> Checked {
    for (scope, run) in [(EnvelopeScope::Run, "run-1"), (EnvelopeScope::Remembered, POLICY_RUN)] {
        let patterns = vec![pattern("fs:read:/ws/**")?, pattern("fs:write:/ws/**")?];
        let envelope = Envelope { scope, ..Envelope::new("plan-1", patterns) };
        let mut tasks = JoinSet::new();
        for _ in 0..HANDLES {
            let (journals, envelope) = (journals.clone(), envelope.clone());
            tasks.spawn(async move {
                let mut options = options(journals.open(name).await.map_err(text)?);
                options.envelope = Some(envelope);
                Ok::<_, String>(GrantStore::open(options).await.map_err(text)?.rules())
            });
        }
        let mut rules = Vec::new();
        while let Some(result) = tasks.join_next().await {
            rules.push(result.map_err(text)??);
        }
        let page = journals.open(name).await.map_err(text)?.page(run, 0, 9).await.map_err(text)?;
        same("the records of one envelope", &page.len(), &1)?;
        if rules.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("the constructors disagree: {rules:?}"));
        }
    }
    Ok(())
}

async fn replays(journals: &dyn Journals, name: &str) -> Checked {
    let journal = journals.open(name).await.map_err(text)?;
    let capability = crate::flows::capability::Capability::parse("fs:write:/ws/a").ok_or("no capability")?;
    let request = ReplyContext {
        request_id: "permission-1",
        capability: &capability,
        tier: crate::flows::effects::Tier::Compensable,
        ceiling: &CapabilitySet::of([pattern("fs:*:/ws/**")?]),
        run_id: Some("run-1"),
        plan_digest: Some("plan-1"),
        workspace_root: "/ws",
    };
    for resolution in [Resolution::Once, Resolution::Run, Resolution::Deny, Resolution::Remembered] {
        let event = plan_reply(&request, resolution, None).map_err(text)?;
        let payload = event.encode().map_err(text)?;
        journal.append(event.run(), event.event_type(), &payload).await.map_err(text)?;
        let page = journal.page(event.run(), 0, 9).await.map_err(text)?;
        let last = page.last().ok_or("nothing was recorded")?;
        let decoded = GrantEvent::decode(&last.event_type, &last.event).map_err(text)?;
        same("the recorded event", &decoded, &Some(event))?;
    }
    let open = || async {
        let journal = journals.open(name).await.map_err(text)?;
        GrantStore::open(options(journal)).await.map_err(text)
    };
    let store = open().await?;
    same("the rules", &store.rules().len(), &2)?;
    store.revoke(1).await.map_err(text)?;
    same("the rules after the revocation", &open().await?.rules(), &store.rules())
}
