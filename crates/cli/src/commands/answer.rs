//! `approve` and `deny`: the answer to a parked permission.

use std::sync::Arc;

use flowcell_engines::harness::engine::{Answered, Decision, RunStore};
use flowcell_engines::harness::flows::capability::{Action, Capability, CapabilityPattern};
use flowcell_engines::harness::flows::rules::{Effect, Rule};
use flowcell_engines::harness::journal::{Kind, Resolution, RunId, Suspended};
use flowcell_engines::harness::kernel::process::Command;
use flowcell_engines::harness::kernel::{
    Authority, GrantStore, GrantStoreOptions, MemoryPersist, PAGE_EVENTS, POLICY_RUN,
};
use serde::Deserialize;

use super::Session;
use crate::args::{ApproveArgs, DenyArgs};
use crate::context::Context;
use crate::engine::EngineUrl;
use crate::errors::{Exit, Failure};
use crate::pins::{GrantPins, OncePins};
use crate::policy::pattern;
use crate::render::line;

pub(super) async fn approve(session: &mut Session<'_, '_>, args: &ApproveArgs) -> Result<Exit, Failure> {
    let resolution = match (args.for_run, args.remember) {
        (true, _) => Resolution::Run,
        (_, true) => Resolution::Remembered,
        _ => Resolution::Once,
    };
    answer(session, &args.run, args.request.as_deref(), resolution, args.pattern.as_deref()).await
}

pub(super) async fn deny(session: &mut Session<'_, '_>, args: &DenyArgs) -> Result<Exit, Failure> {
    answer(session, &args.run, args.request.as_deref(), Resolution::Deny, None).await
}

async fn answer(
    session: &mut Session<'_, '_>,
    run: &RunId,
    request: Option<&str>,
    resolution: Resolution,
    allowed: Option<&str>,
) -> Result<Exit, Failure> {
    let context = session.context()?;
    let allowed = allowed
        .map(|text| {
            pattern(text, &context.variables()).map_err(|why| {
                Failure::usage("invalid_input", format!("--pattern {text}: {why}"))
                    .at("--pattern")
                    .hint("Patterns look like `fs:write:${workspace}/src/**`.")
            })
        })
        .transpose()?;
    let store = context.store_of(run).await?;
    let answered = record(&context, store.as_ref(), run, request, resolution, allowed).await?;
    let waiting = store.summary(run).await?.waiting.and_then(|waiting| waiting.request);
    let what = match waiting.filter(|asked| asked.request_id == answered.request) {
        Some(asked) => line(&asked.capability),
        None => line(&answered.request),
    };
    let how = match answered.resolution {
        Resolution::Once => "is allowed for this one call",
        Resolution::Run => "is allowed for the rest of the run",
        Resolution::Remembered => "is allowed from now on",
        Resolution::Deny => "is refused for this call",
    };
    let given = answered.grant.as_ref().map(|(_, event)| {
        let pattern =
            event.event.get("pattern").and_then(|pattern| CapabilityPattern::deserialize(pattern).ok());
        let pattern =
            pattern.map(|pattern| format!(", by {}", line(&pattern.to_string()))).unwrap_or_default();
        let back = match answered.resolution {
            Resolution::Remembered => {
                format!(" (`flowcell grants revoke {}{}` takes it back)", event.seq, context.place_flags())
            }
            _ => String::new(),
        };
        format!("{pattern}{back}")
    });
    let text = format!(
        "{what} {how}{}; go on with `flowcell resume {}{}`, and the policy and mocks that the run was started with\n",
        given.unwrap_or_default(),
        answered.run,
        context.place_flags()
    );
    session.print(&answered, &text)?;
    Ok(Exit::Done)
}

/// The answers for one call that this user gave in a run.
pub(super) fn once(context: &Context<'_>, run: &RunId) -> Result<OncePins, Failure> {
    Ok(match (context.engine()?, context.environment.config()) {
        (EngineUrl::Memory, _) => OncePins::trusting(),
        (EngineUrl::Sqlite(file), Some(config)) => OncePins::new(Some(&GrantPins::new(&config, &file)), run),
        (EngineUrl::Sqlite(_), None) => OncePins::new(None, run),
    })
}

/// What a run waits for, when it waits for a permission.
async fn waits_for(store: &dyn RunStore, run: &RunId) -> Result<Option<Suspended>, Failure> {
    let rows = store.rows(run, 0).await?;
    let last = rows.iter().rfind(|row| matches!(row.kind, Kind::Suspended | Kind::Resumed));
    let suspended = last.filter(|row| row.kind == Kind::Suspended);
    Ok(suspended.map(|row| row.decode::<Suspended>()).transpose()?.filter(|why| why.request.is_some()))
}

/// Whether a pattern, as the only rule, would allow the command that is asked for. A prefix does not carry a line of
/// several commands (kernel contract 6.2): a grant of one would stand, and the run would ask again.
async fn carries(context: &Context<'_>, pattern: &CapabilityPattern, asked: &str) -> Result<(), Failure> {
    let Some(capability) = Capability::parse(asked).filter(|asked| asked.action() == Action::ProcSpawn)
    else {
        return Ok(());
    };
    // What stands on standard input is named by its digest, and is no line.
    if capability.resource().contains("<<sha256:") || capability.resource().starts_with("sha256:") {
        return Ok(());
    }
    if !pattern.matches(&capability) {
        return Ok(());
    }
    let mut options =
        GrantStoreOptions::new(context.workspace.logical(), Arc::new(MemoryPersist::new())).unattended();
    options.configured = vec![Rule::allow(pattern.clone())];
    let store = GrantStore::open(options).await?;
    let command = Command::Line { line: capability.resource().to_owned(), shell: None };
    if Authority::root(store).decide_command(&command, None) == Effect::Allow {
        return Ok(());
    }
    Err(Failure::usage(
        "invalid_resolution",
        format!(
            "{} does not carry the whole line {}: a prefix stands for one command, and the run would ask again",
            line(&pattern.to_string()),
            line(capability.resource())
        ),
    )
    .at("--pattern")
    .hint("Answer --once, or leave --pattern out: then exactly this line is allowed."))
}

/// Records an answer, and pins what it allows as given by this user.
pub(super) async fn record(
    context: &Context<'_>,
    store: &dyn RunStore,
    run: &RunId,
    request: Option<&str>,
    resolution: Resolution,
    allowed: Option<CapabilityPattern>,
) -> Result<Answered, Failure> {
    let pinned = context.pinned(store.grants())?;
    if resolution != Resolution::Deny {
        pinned.check().map_err(|error| Failure::engine(error.message))?;
    }
    let waits = match resolution {
        Resolution::Deny => None,
        Resolution::Once | Resolution::Run | Resolution::Remembered => waits_for(store, run).await?,
    };
    let request_of = waits.as_ref().and_then(|why| why.request.as_ref());
    if let (Some(pattern), Some(asked)) = (&allowed, request_of) {
        carries(context, pattern, &asked.capability).await?;
    }
    let asked = request_of.map(|asked| asked.request_id.as_str());
    let decision = Decision::grant(resolution, allowed.clone(), context.workspace.logical());
    let answered = store.answer(run, request.or(asked), decision).await?;
    let unkept =
        |why: String| Failure::engine(format!("the answer stands and is not kept for this user: {why}"));
    let Some(why) = waits.as_ref().filter(|_| asked == Some(answered.request.as_str())) else {
        return Ok(answered);
    };
    match (&answered.grant, resolution) {
        (Some((of, event)), _) => pinned.pin_event(of, event).map_err(|error| unkept(error.message))?,
        (None, Resolution::Once) => {
            let once = once(context, run)?;
            once.add(run, why, context.clock.as_ref()).map_err(|error| unkept(error.to_string()))?;
        }
        // It was there already: of a process that ended before it pinned it, or come with the workspace. Now it is given.
        (None, _) => {
            let of = if resolution == Resolution::Run { run.as_str() } else { POLICY_RUN };
            let capability = why.request.as_ref().map_or("", |asked| asked.capability.as_str());
            let exact = || CapabilityPattern::exact(&Capability::parse(capability)?);
            let pattern = allowed.or_else(exact).and_then(|pattern| serde_json::to_value(pattern).ok());
            let journal = store.grants();
            let mut after = 0;
            loop {
                let page = journal.page(of, after, PAGE_EVENTS).await;
                let page = page.map_err(|error| unkept(error.message))?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                for found in &page {
                    let same = found.event.get("pattern") == pattern.as_ref()
                        && found.event["requestId"] == answered.request
                        && found.event["runId"] == of;
                    if same {
                        pinned.pin_event(of, found).map_err(|error| unkept(error.message))?;
                    }
                }
            }
        }
    }
    Ok(answered)
}
