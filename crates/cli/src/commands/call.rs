//! `call`: one flow, without a run.

use std::sync::Arc;

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::engine::{Call, Dispatch};
use flowcell_engines::harness::error::{Escape, HarnessCode};
use flowcell_engines::harness::failure::{CallFailure, CallFailureCode, CallOutcome};
use flowcell_engines::harness::flows::decode::decode;
use flowcell_engines::harness::flows::effects::Tier;
use flowcell_engines::harness::flows::manifest::Manifest;
use flowcell_engines::harness::journal::{self, RunId};
use flowcell_engines::harness::kernel::{
    GrantStore, MemoryPersist, POLICY_RUN, PermissionRequired, Persist, PersistError, PersistedEvent,
    Resolution, async_trait,
};
use flowcell_engines::harness::keys::CallIdentity;
use flowcell_engines::harness::services::Services;
use serde_json::{Value, json};

use super::exec::standard_input;
use super::{Session, listen, unprinted};
use crate::args::CallArgs;
use crate::ask::{Ask, Reply, ask};
use crate::catalog::calls;
use crate::context::Context;
use crate::errors::{Exit, Failure};
use crate::policy::{exact_rule, meant};
use crate::progress::NO_EXACT_RULE;
use crate::render::{line, shell_word};

pub(super) async fn run(session: &mut Session<'_, '_>, args: &CallArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let policy = context.policy()?;
    let calls = calls(&context, &policy, &[])?;
    check_flow(&calls, &args.flow)?;
    let input = input(args)?;
    check_input(&calls, &args.flow, &input)?;
    context.warn(&policy);
    let attended = context.attended(&policy);
    let journal = Arc::new(OneCall { own: MemoryPersist::new(), journal: context.grants().await? });
    let run = RunId::new("call").map_err(|error| Failure::engine(error.to_string()))?;
    let store = context.grant_store(&policy, journal, Some(&run), Some(&calls), attended).await?;
    let services = context.services(&policy, Arc::clone(&store))?;
    let call = call_of(&calls, &args.flow, input);
    let work = async {
        let settled = settle(&calls, &call, &services);
        tokio::select! {
            settled = settled => settled.map_err(|escape| escaped(&args.flow, escape)),
            failed = attend(&context, &args.flow, store) => Err(failed),
        }
    };
    let value = match listen()?.or(work, &context.cancel).await {
        Some(Ok(CallOutcome::Success(value))) => value,
        Some(Ok(CallOutcome::Failure(failure))) => return Err(failed(failure)),
        Some(Err(failure)) => return Err(failure),
        None => return Err(interrupted(&args.flow)),
    };
    let printed = if session.surface.json {
        session.surface.document(&value)
    } else {
        session.surface.indented(&value)
    };
    printed.map_err(|error| unprinted(&error))?;
    Ok(Exit::Done)
}

/// Asks for what the call waits for, as long as it runs. Ends when the person will not answer now.
async fn attend(context: &Context<'_>, flow: &str, store: Arc<GrantStore>) -> Failure {
    let mut watch = store.watch();
    let variables = context.variables();
    loop {
        let Some(request) = watch.next().await else { return std::future::pending().await };
        let capability = request.capability.to_string();
        let what = Ask {
            call: Some(format!("call {flow} waits for {} ({})", line(&capability), request.request_id)),
            capability: &capability,
            tier: request.tier,
            lasting: false,
            variables: &variables,
            cancel: &context.cancel,
        };
        let resolution = match ask(context.messages, &what).await {
            Ok(Reply::Answer(journal::Resolution::Deny, _)) => Resolution::Deny,
            Ok(Reply::Answer(..)) => Resolution::Once,
            Ok(Reply::Later) if context.cancel.is_cancelled() => return interrupted(flow),
            Ok(Reply::Later) => return suspended(flow, &capability, request.tier),
            Err(error) => {
                return Failure::engine(format!("the answer cannot be read from the terminal: {error}"));
            }
        };
        if let Err(error) = store.reply(&request.request_id, resolution, None).await {
            return Failure::from(error);
        }
    }
}

/// The grant journal of a call without a run: what is remembered is read, and what is answered is kept nowhere.
struct OneCall {
    own: MemoryPersist,
    journal: Arc<dyn Persist>,
}

#[async_trait]
impl Persist for OneCall {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        self.own.append(run, event_type, event).await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        let journal: &dyn Persist = if run == POLICY_RUN { self.journal.as_ref() } else { &self.own };
        journal.page(run, after, limit).await
    }
}

fn check_flow(calls: &CellCalls, name: &str) -> Result<(), Failure> {
    if calls.catalog().get(name).is_some() {
        return Ok(());
    }
    if Manifest::standard().get(name).is_some() {
        let message = format!("{name} is declared, and nothing in this build runs it");
        return Err(Failure::new(Exit::Failed, CallFailureCode::Unimplemented.as_str(), message)
            .hint("`flowcell flows` marks the flows that have a handler."));
    }
    let names = calls.catalog().bindings().iter().map(|binding| binding.name());
    Err(unknown_flow(name, names))
}

/// A name that no flow has.
pub(super) fn unknown_flow<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Failure {
    let meant = meant(name, "name", names, str::to_owned);
    let meant = meant.strip_prefix("the ").unwrap_or(&meant);
    Failure::usage("unknown_flow", format!("no flow is called {name:?}"))
        .hint(format!("The {meant}; `flowcell flows` says what each does."))
}

fn input(args: &CallArgs) -> Result<Value, Failure> {
    let wrong = |why: String| {
        Failure::usage("invalid_input", format!("the input of {} is not JSON: {why}", args.flow))
            .hint(format!("`flowcell flows {} --schema` shows its shape.", args.flow))
    };
    let text = match args.input.as_deref() {
        None => return Ok(json!({})),
        Some("-") => standard_input().map_err(|error| wrong(error.to_string()))?,
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// Input that does not decode is wrong before anything is done.
fn check_input(calls: &CellCalls, name: &str, input: &Value) -> Result<(), Failure> {
    let document = calls.catalog().get(name).and_then(|binding| binding.descriptor().input.document());
    let Some(Err(error)) = document.map(|document| decode::<Value>(document, input)) else { return Ok(()) };
    let failure = Failure::usage("invalid_input", format!("the input of {name} does not decode: {error}"))
        .hint(format!("`flowcell flows {name} --schema` shows its shape."));
    Err(match error.issues.first() {
        Some(issue) if !issue.path.is_empty() => failure.at(issue.path.clone()),
        _ => failure,
    })
}

/// The call, as a resolver takes it. It belongs to no run, so its key is made of what is asked alone.
fn call_of(calls: &CellCalls, flow: &str, input: Value) -> Call {
    let identified = calls.identify(flow, &input);
    let identity = CallIdentity {
        session: "call".into(),
        frame: 0,
        cell: String::new(),
        ordinal: 0,
        declaration: identified.declaration,
        layers: Vec::new(),
    };
    Call {
        identity,
        flow: flow.to_owned(),
        input,
        at: None,
        tier: identified.tier,
        key: "call".into(),
        idempotent: identified.idempotent,
        terminal: false,
    }
}

async fn settle(calls: &CellCalls, call: &Call, services: &Services) -> Result<CallOutcome, Escape> {
    Ok(calls.run(call, Dispatch::default(), services).await?.outcome)
}

fn failed(failure: CallFailure) -> Failure {
    let exit = if failure.code == CallFailureCode::InvalidInput { Exit::Usage } else { Exit::Failed };
    Failure::new(exit, failure.code.as_str(), failure.message)
        .hint(failure.hint)
        .with_flow_code(failure.flow_code)
}

fn escaped(flow: &str, escape: Escape) -> Failure {
    match escape {
        Escape::Permission(required) => suspended(flow, &required.capability.to_string(), required.tier),
        Escape::Harness(error) if error.code == HarnessCode::Suspended => {
            Failure::new(Exit::Failed, "permission_denied", error.message)
                .hint("`flowcell grants check` names the rule that refuses it.")
        }
        Escape::Harness(error) => error.into(),
        Escape::LeaseLost => Failure::engine(escape.to_string()),
        Escape::Aborted => interrupted(flow),
    }
}

fn interrupted(flow: &str) -> Failure {
    Failure::new(Exit::Interrupted, "interrupted", format!("{flow} was interrupted"))
}

fn suspended(flow: &str, capability: &str, tier: Tier) -> Failure {
    let message = format!("{flow} needs {} (tier {tier}), which nobody gave", line(capability));
    let again = match exact_rule(capability) {
        Some(rule) => format!("run it again with `--allow {}`", shell_word(&rule)),
        None => format!(
            "{NO_EXACT_RULE}: make the call in a run, with `flowcell exec`, and answer it with \
             `flowcell approve RUN --once`"
        ),
    };
    let hint = format!("{flow} waits for {}; nothing was kept; {again}", line(capability));
    let document = json!({"suspended": {
        "reason": "permission-required",
        "request": {"capability": capability, "tier": tier},
    }});
    Failure::new(Exit::Suspended, PermissionRequired::CODE, message).hint(hint).with_document(document)
}
