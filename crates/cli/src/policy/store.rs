//! A policy as the kernel evaluates it: the grant store of a call, and which of its rules decides a request.

use std::iter::Peekable;
use std::path::PathBuf;
use std::slice::Iter;
use std::sync::Arc;

use async_trait::async_trait;

use flowcell_engines::harness::flows::capability::Capability;
use flowcell_engines::harness::flows::rules::{Effect, Reason, Rule, explain as decide};
use flowcell_engines::harness::kernel::{
    GrantStore, GrantStoreError, GrantStoreOptions, MemoryPersist, Persist, PersistError, PersistedEvent,
    Source,
};
use serde::Serialize;
use serde_json::Value;

use super::{BUILT_IN, Policy, SourcedRule};

/// What a grant store is made of, beside the policy.
pub struct StoreOptions {
    /// The run it serves.
    pub run: Option<String>,
    /// What the run's grants are bound to.
    pub plan_digest: Option<String>,
    /// The logical workspace root.
    pub root: PathBuf,
    /// The grant journal.
    pub persist: Arc<dyn Persist>,
}

/// Opens the grant store of a policy, and says what a person has to be told of its rules.
///
/// The asks of a workspace that nobody trusted go to the last ruleset: there they are evaluated after every configured
/// allow and cannot undo a configured deny, which is a veto.
///
/// # Errors
/// As [`GrantStore::open`].
pub async fn open_store(
    policy: &Policy,
    options: StoreOptions,
) -> Result<(Arc<GrantStore>, Vec<String>), GrantStoreError> {
    let mut made = GrantStoreOptions::new(&options.root, Arc::new(NothingStands(options.persist)));
    made.attended = false;
    made.configured = policy.rules();
    made.run_id = options.run;
    made.plan_digest = options.plan_digest;
    if !policy.narrowing.is_empty() {
        made.remembered = with_twins(policy, &options.root).await?;
    }
    let store = GrantStore::open(made).await?;
    let own = |warning: &&String| {
        let built_in = policy.configured.iter().filter(|sourced| sourced.source == BUILT_IN);
        !built_in.into_iter().any(|sourced| {
            warning.contains(&format!("the rule {} {} ", sourced.rule.effect, sourced.rule.pattern))
        })
    };
    let warnings = store.warnings().iter().filter(own).cloned().collect();
    Ok((store, warnings))
}

/// A grant journal of which nothing stands: events are recorded, none is read back.
///
/// The journal lies in the data folder, and a data folder can come with a cloned workspace. This version keeps no grant
/// beyond its call, so whatever standing grant a journal holds was not given by the person at the keyboard.
struct NothingStands(Arc<dyn Persist>);

#[async_trait]
impl Persist for NothingStands {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        self.0.append(run, event_type, event).await
    }

    async fn page(
        &self,
        _run: &str,
        _after: u64,
        _limit: usize,
    ) -> Result<Vec<PersistedEvent>, PersistError> {
        Ok(Vec::new())
    }
}

/// The narrowing rules and the twins of those that name a link (kernel contract 6.1), which the kernel makes for the
/// configured ruleset alone.
async fn with_twins(policy: &Policy, root: &PathBuf) -> Result<Vec<Rule>, GrantStoreError> {
    let mut scratch = GrantStoreOptions::new(root, Arc::new(MemoryPersist::default()));
    scratch.attended = false;
    scratch.configured = policy.narrowing.iter().map(|sourced| sourced.rule.clone()).collect();
    Ok(GrantStore::open(scratch).await?.rules().into_iter().map(|(rule, _)| rule).collect())
}

/// What a policy says of a request, and why: the answer of `grants check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// `allow`, `deny` or `ask`.
    pub effect: Effect,
    /// The request.
    pub capability: String,
    /// The rule that decided, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleReport>,
    /// Why, in words.
    pub why: String,
}

/// A rule of an explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReport {
    /// What it says.
    pub effect: Effect,
    /// Of what.
    pub pattern: String,
    /// The file, the flag, `built-in`, or the grant.
    pub source: String,
}

/// Which rule of a store decides a request.
pub fn explain(policy: &Policy, store: &GrantStore, capability: &Capability) -> Explanation {
    let mut sets: [(Vec<Rule>, Vec<String>); 4] = Default::default();
    let mut configured = policy.configured.iter().peekable();
    let mut narrowing = policy.narrowing.iter().peekable();
    let (mut last, mut narrowed) = (String::new(), String::new());
    for (rule, source) in store.rules() {
        // A rule that is not the next of the policy is the twin of the one before it.
        let next = |rules: &mut Peekable<Iter<'_, SourcedRule>>, last: &mut String| {
            if let Some(sourced) = rules.next_if(|sourced| sourced.rule == rule) {
                last.clone_from(&sourced.source);
            }
            last.clone()
        };
        let (set, name) = match source {
            Source::Configured => (0, next(&mut configured, &mut last)),
            Source::Envelope { seq } => (1, grant("envelope", seq)),
            Source::Run { seq } => (2, grant("run grant", seq)),
            Source::Remembered { seq: None } => (3, next(&mut narrowing, &mut narrowed)),
            Source::Remembered { seq } => (3, grant("remembered grant", seq)),
            Source::Workspace => (3, next(&mut narrowing, &mut narrowed)),
        };
        sets[set].0.push(rule);
        sets[set].1.push(name);
    }
    let rulesets: Vec<&[Rule]> = sets.iter().map(|(rules, _)| rules.as_slice()).collect();
    let decision = decide(&rulesets, capability);
    let why = match decision.reason {
        Reason::Default => "no rule names it, so a person decides",
        Reason::LastMatch => "the last rule that names it",
        Reason::Veto => "a configured deny stands, whatever later rules say",
        Reason::Undecidable => "matching the rule would take more work than is allowed",
    };
    let rule = decision.rule.map(|(set, index)| RuleReport {
        effect: sets[set].0[index].effect,
        pattern: sets[set].0[index].pattern.to_string(),
        source: sets[set].1[index].clone(),
    });
    Explanation { effect: decision.effect, capability: capability.to_string(), rule, why: why.to_owned() }
}

fn grant(what: &str, seq: Option<u64>) -> String {
    seq.map_or_else(|| what.to_owned(), |seq| format!("{what} {seq}"))
}
