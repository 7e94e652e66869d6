//! `resume`: a run goes on after a crash, an interruption or a suspension.

use super::drive::{Begin, Driver};
use super::{Session, listen};
use crate::args::ResumeArgs;
use crate::catalog::calls;
use crate::errors::{Exit, Failure};

pub(super) async fn run(session: &mut Session<'_, '_>, args: &ResumeArgs) -> Result<Exit, Failure> {
    let mut signals = listen()?;
    let context = session.context()?;
    let policy = context.policy()?;
    let calls = calls(&context, &policy, &args.mock)?;
    context.warn(&policy);
    let store = context.store_of(&args.run).await?;
    let driver =
        Driver { context: &context, policy: &policy, store, run: &args.run, mocks: &args.mock, calls };
    driver.drive(session, &mut signals, Begin::Resume { wait: !args.no_wait }).await
}
