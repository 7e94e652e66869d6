//! `approve` and `deny`: the answer to a parked permission.

use flowcell_engines::harness::journal::{Resolution, RunId};

use super::Session;
use crate::args::{ApproveArgs, DenyArgs};
use crate::errors::{Exit, Failure};
use crate::render::line;

pub(super) async fn approve(session: &mut Session<'_, '_>, args: &ApproveArgs) -> Result<Exit, Failure> {
    answer(session, &args.run, args.request.as_deref(), Resolution::Once).await
}

pub(super) async fn deny(session: &mut Session<'_, '_>, args: &DenyArgs) -> Result<Exit, Failure> {
    answer(session, &args.run, args.request.as_deref(), Resolution::Deny).await
}

async fn answer(
    session: &mut Session<'_, '_>,
    run: &RunId,
    request: Option<&str>,
    resolution: Resolution,
) -> Result<Exit, Failure> {
    let context = session.context()?;
    let store = context.store_of(run).await?;
    let answered = store.answer(run, request, resolution).await?;
    let waiting = store.summary(run).await?.waiting.and_then(|waiting| waiting.request);
    let what = match waiting.filter(|asked| asked.request_id == answered.request) {
        Some(asked) => line(&asked.capability),
        None => line(&answered.request),
    };
    let how = match answered.resolution {
        Resolution::Once => "is allowed for this one call",
        Resolution::Deny => "is refused for this call",
    };
    let text =
        format!("{what} {how}; go on with `flowcell resume {}{}`\n", answered.run, context.place_flags());
    session.print(&answered, &text)?;
    Ok(Exit::Done)
}
