//! A policy as the kernel evaluates it: the grant store of a call, and which of its rules decides a request.

use std::path::PathBuf;
use std::sync::Arc;

use flowcell_engines::harness::flows::capability::Capability;
use flowcell_engines::harness::flows::rules::{Effect, Reason, Rule};
use flowcell_engines::harness::kernel::process::{By, Command};
use flowcell_engines::harness::kernel::{
    Authority, GrantStore, GrantStoreError, GrantStoreOptions, Persist, Source,
};
use serde::Serialize;

use super::{BUILT_IN, Policy, SourcedRule};
use crate::render::line;

/// What a grant store is made of, beside the policy.
pub struct StoreOptions {
    /// The run it serves.
    pub run: Option<String>,
    /// What the run's grants are bound to.
    pub plan_digest: Option<String>,
    /// The logical workspace root.
    pub root: PathBuf,
    /// The grant journal: only what this user gave.
    pub persist: Arc<dyn Persist>,
    /// Whether a request waits in place until it is answered.
    pub attended: bool,
}

/// Opens the grant store of a policy, and says what a person has to be told of its rules.
///
/// # Errors
/// As [`GrantStore::open`].
pub async fn open_store(
    policy: &Policy,
    options: StoreOptions,
) -> Result<(Arc<GrantStore>, Vec<String>), GrantStoreError> {
    let mut made = GrantStoreOptions::new(&options.root, options.persist);
    made.attended = options.attended;
    made.configured = policy.rules();
    made.narrowing = policy.narrowing.iter().map(|sourced| sourced.rule.clone()).collect();
    made.run_id = options.run;
    made.plan_digest = options.plan_digest;
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
    let decision = store.explain(capability);
    Explanation {
        effect: decision.effect,
        capability: capability.to_string(),
        rule: decision.rule.as_ref().map(|(rule, source)| named(policy, store, rule, source)),
        why: reason(decision.reason).to_owned(),
    }
}

/// Which rule of a store decides a command, and about which part of it.
pub fn explain_command(policy: &Policy, store: &Arc<GrantStore>, command: &Command) -> Explanation {
    let asked = Authority::root(Arc::clone(store)).explain_command(command, None);
    let why = match &asked.verdict.by {
        By::Whole => reason(asked.explanation.reason).to_owned(),
        By::Candidate(text) => format!("it runs {}, which a rule denies", line(text)),
        By::Segments(segments) => {
            let all: Vec<String> = segments.iter().map(|segment| line(segment)).collect();
            format!("each of its commands is allowed by itself: {}", all.join("; "))
        }
        By::Undecidable => "there is more in it than can be looked at".to_owned(),
        By::Nothing => {
            "no rule allows the whole line, and not every command of it is allowed by itself, so a person \
                        decides"
                .to_owned()
        }
    };
    // Where nothing decided, no rule is to be named: the one that selects the line was not enough.
    let rule = asked.explanation.rule.as_ref().filter(|(rule, _)| rule.effect == asked.verdict.effect);
    Explanation {
        effect: asked.verdict.effect,
        capability: command.capability().to_string(),
        rule: rule.map(|(rule, source)| named(policy, store, rule, source)),
        why,
    }
}

/// Why a rule had the last word, in words.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Default => "no rule names it, so a person decides",
        Reason::LastMatch => "the last rule that names it",
        Reason::Veto => "a configured deny stands, whatever later rules say",
        Reason::Undecidable => "matching the rule would take more work than is allowed",
    }
}

/// A rule that decided, with the file, the flag or the grant that it comes from.
pub fn named(policy: &Policy, store: &GrantStore, rule: &Rule, source: &Source) -> RuleReport {
    let source = match source {
        Source::Configured => place(&policy.configured, store, rule, source),
        Source::Workspace => place(&policy.narrowing, store, rule, source),
        Source::Envelope { seq } => grant("envelope", *seq),
        Source::Run { seq } => grant("run grant", *seq),
        Source::Remembered { seq } => grant("remembered grant", *seq),
    };
    RuleReport { effect: rule.effect, pattern: rule.pattern.to_string(), source }
}

/// Where a policy rule comes from. One that is not among the policy's own is the twin of the rule before it (kernel
/// contract 6.1).
fn place(own: &[SourcedRule], store: &GrantStore, rule: &Rule, source: &Source) -> String {
    let mut rules = own.iter().peekable();
    let (mut last, mut found) = (String::new(), String::new());
    for (listed, _) in store.rules().iter().filter(|(_, of)| of == source) {
        if let Some(sourced) = rules.next_if(|sourced| sourced.rule == *listed) {
            last.clone_from(&sourced.source);
        }
        if listed == rule {
            found.clone_from(&last);
        }
    }
    found
}

fn grant(what: &str, seq: Option<u64>) -> String {
    seq.map_or_else(|| what.to_owned(), |seq| format!("{what} {seq}"))
}
