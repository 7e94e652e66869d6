//! `show`: one run, frame by frame.

use flowcell_engines::harness::exec::show;

use super::Session;
use crate::args::ShowArgs;
use crate::errors::{Exit, Failure};
use crate::progress::run_text;

pub(super) async fn run(session: &mut Session<'_, '_>, args: &ShowArgs) -> Result<Exit, Failure> {
    let context = session.context()?;
    let store = context.store_of(&args.run).await?;
    let report = show(store.as_ref(), &args.run).await?;
    session.print(&report, &run_text(&report))?;
    Ok(Exit::Done)
}
