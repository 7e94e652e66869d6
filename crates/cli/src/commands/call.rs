//! `call`: one flow, without a run.

use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::engine::{Call, Dispatch};
use flowcell_engines::harness::error::{Escape, HarnessCode};
use flowcell_engines::harness::failure::{CallFailure, CallFailureCode, CallOutcome};
use flowcell_engines::harness::flows::decode::decode;
use flowcell_engines::harness::flows::manifest::Manifest;
use flowcell_engines::harness::kernel::PermissionRequired;
use flowcell_engines::harness::keys::CallIdentity;
use flowcell_engines::harness::services::Services;
use serde_json::{Value, json};

use super::exec::standard_input;
use super::{Session, listen, unprinted};
use crate::args::CallArgs;
use crate::catalog::calls;
use crate::errors::{Exit, Failure};
use crate::policy::{exact_rule, meant};
use crate::progress::NO_EXACT_RULE;
use crate::render::{line, shell_word};

pub(super) async fn run(session: &mut Session<'_, '_>, args: &CallArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let calls = calls(&context, &[])?;
    check_flow(&calls, &args.flow)?;
    let input = input(args)?;
    check_input(&calls, &args.flow, &input)?;
    let policy = context.policy()?;
    context.warn(&policy);
    let hosted = context.hosted(&policy, context.grants().await?, None, calls).await?;
    let call = call_of(&hosted.calls, &args.flow, input);
    let work = settle(&hosted.calls, &call, &hosted.services);
    let value = match listen()?.or(work, &context.cancel).await {
        Some(Ok(CallOutcome::Success(value))) => value,
        Some(Ok(CallOutcome::Failure(failure))) => return Err(failed(failure)),
        Some(Err(escape)) => return Err(escaped(&args.flow, escape)),
        None => {
            return Err(Failure::new(
                Exit::Interrupted,
                "interrupted",
                format!("{} was interrupted", args.flow),
            ));
        }
    };
    let printed = if session.surface.json {
        session.surface.document(&value)
    } else {
        session.surface.indented(&value)
    };
    printed.map_err(|error| unprinted(&error))?;
    Ok(Exit::Done)
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
        Escape::Permission(required) => suspended(flow, &required),
        Escape::Harness(error) if error.code == HarnessCode::Suspended => {
            Failure::new(Exit::Failed, "permission_denied", error.message)
                .hint("`flowcell grants check` names the rule that refuses it.")
        }
        Escape::Harness(error) => error.into(),
        Escape::LeaseLost => Failure::engine(escape.to_string()),
        Escape::Aborted => Failure::new(Exit::Interrupted, "interrupted", format!("{flow} was interrupted")),
    }
}

fn suspended(flow: &str, required: &PermissionRequired) -> Failure {
    let capability = required.capability.to_string();
    let message = format!("{flow} needs {} (tier {}), which nobody gave", line(&capability), required.tier);
    let again = match exact_rule(&capability) {
        Some(rule) => format!("run it again with `--allow {}`", shell_word(&rule)),
        None => format!(
            "{NO_EXACT_RULE}: make the call in a run, with `flowcell exec`, and answer it with \
             `flowcell approve RUN --once`"
        ),
    };
    let hint = format!("{flow} waits for {}; nothing was kept; {again}", line(&capability));
    let document = json!({"suspended": {
        "reason": "permission-required",
        "request": {"capability": capability, "tier": required.tier},
    }});
    Failure::new(Exit::Suspended, PermissionRequired::CODE, message).hint(hint).with_document(document)
}
