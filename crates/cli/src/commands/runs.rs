//! `runs`: the runs of the data folder, newest first.

use flowcell_engines::harness::engine::{Page, RunStatus, RunSummary};

use super::Session;
use crate::errors::{Exit, Failure};
use crate::render::{count, date_time, line};

/// How many runs are read at once.
const PAGE: u64 = 500;

pub(super) async fn run(session: &mut Session<'_, '_>) -> Result<Exit, Failure> {
    let context = session.context()?;
    let mut runs: Vec<RunSummary> = Vec::new();
    if let Some(store) = context.existing_store().await? {
        loop {
            let page = store.list(Page { skip: runs.len() as u64, limit: PAGE }).await?;
            let last = (page.len() as u64) < PAGE;
            runs.extend(page);
            if last {
                break;
            }
        }
    }
    let text = if runs.is_empty() { "no runs\n".to_owned() } else { runs.iter().map(run_line).collect() };
    session.print(&runs, &text)?;
    Ok(Exit::Done)
}

fn run_line(run: &RunSummary) -> String {
    let status = match run.status {
        RunStatus::Running => "running",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Suspended => "suspended",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
    };
    let waiting = match &run.waiting {
        None => String::new(),
        Some(waiting) => {
            let what = waiting.request.as_ref().map_or_else(
                || waiting.reason.as_str().to_owned(),
                |request| format!("{} ({})", line(&request.capability), request.request_id),
            );
            let answered = waiting.answered.map(|answer| format!(", answered {}", answer.as_str()));
            format!("  waits for {what}{}", answered.unwrap_or_default())
        }
    };
    let frames = count(run.frames, "frame");
    format!("{}  {status}  {frames}  {}{waiting}\n", run.run, date_time(run.updated_at))
}
