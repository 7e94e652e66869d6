//! `resume`: a run goes on after a crash, an interruption or a suspension.

use std::time::Duration;

use flowcell_engines::harness::engine::OpenError;
use flowcell_engines::harness::exec::{Host, resume};

use super::drive::{Driven, drive, has_ended};
use super::{Session, listen};
use crate::args::ResumeArgs;
use crate::catalog::calls;
use crate::engine::owner;
use crate::errors::{Exit, Failure};
use crate::progress::Progress;

/// How often a run that another process works on is asked for.
const POLL: Duration = Duration::from_millis(250);

pub(super) async fn run(session: &mut Session<'_, '_>, args: &ResumeArgs) -> Result<Exit, Failure> {
    let mut signals = listen()?;
    let context = session.context()?;
    let calls = calls(&context, &args.mock)?;
    let policy = context.policy()?;
    context.warn(&policy);
    let store = context.store_of(&args.run).await?;
    let hosted = context.hosted(&policy, store.grants(), Some(&args.run), calls).await?;
    let messages = session.surface.messages;
    let progress = Progress::new(messages);
    let host = Host { calls: &hosted.calls, services: &hosted.services, observer: &progress };
    let owner = owner()?;
    let ended = has_ended(store.as_ref(), &args.run).await;
    let work = async {
        let mut said = false;
        loop {
            match resume(store.as_ref(), &args.run, owner.clone(), &host).await {
                Err(OpenError::Held(other)) if !args.no_wait => {
                    if !said {
                        messages.say(&format!(
                            "waiting for process {}, which works on run {}",
                            other.pid, args.run
                        ));
                        said = true;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(POLL) => {}
                        () = context.cancel.cancelled() => return Err(OpenError::Held(other)),
                    }
                }
                ended => return ended,
            }
        }
    };
    let driven = Driven { context: &context, run: &args.run, mocks: &args.mock, progress: &progress, ended };
    drive(session, &mut signals, &driven, Box::pin(work)).await
}
