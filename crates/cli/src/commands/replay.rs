//! `replay`: a run against its journal, with dispatch forbidden.

use flowcell_engines::harness::exec::Host;
use flowcell_engines::harness::replay::replay;

use super::{Session, listen};
use crate::args::ReplayArgs;
use crate::catalog::calls;
use crate::errors::{Exit, Failure};
use crate::progress::Progress;
use crate::render::{count, line};

pub(super) async fn run(session: &mut Session<'_, '_>, args: &ReplayArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let policy = context.policy()?;
    let calls = calls(&context, &policy, &args.mock)?;
    let store = context.store_of(&args.run).await?;
    let hosted = context.hosted(&policy, store.grants(), Some(&args.run), calls).await?;
    let progress = Progress::of_replay(session.surface.messages);
    let host = Host { calls: &hosted.calls, services: &hosted.services, observer: &progress };
    let replayed = listen()?.or(replay(store.as_ref(), &args.run, &host), &context.cancel).await;
    let Some(report) = replayed else {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted",
            format!("the replay of run {} was interrupted", args.run),
        ));
    };
    let report = report?;
    let text = match &report.diverged {
        None => format!("run {}: {} reproduced\n", report.run, count(report.records, "record")),
        Some(diverged) => format!(
            "run {}: diverged in frame {} at {} after {}: {}\n",
            report.run,
            diverged.frame,
            line(&diverged.key),
            count(report.records, "record"),
            line(&diverged.why)
        ),
    };
    session.print(&report, &text)?;
    Ok(if report.ok { Exit::Done } else { Exit::Failed })
}
