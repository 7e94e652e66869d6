//! One file a command. Each is a thin call on the library.

mod answer;
mod call;
mod doctor;
mod drive;
mod exec;
mod flows;
mod grants;
mod replay;
mod resume;
mod runs;
mod show;
#[cfg(feature = "transcripts")]
mod transcript;
mod trust;

use std::io;

use serde::Serialize;

use crate::args::{Common, GrantsVerb, Verb};
use crate::context::Context;
use crate::environment::Environment;
use crate::errors::{Exit, Failure};
use crate::interrupt::Signals;
use crate::render::Surface;

/// What a command works with.
pub(crate) struct Session<'a, 'b> {
    /// The process's environment.
    pub(crate) environment: &'a Environment,
    /// The common flags, those before and those after the word.
    pub(crate) common: &'a Common,
    /// Where results and messages go.
    pub(crate) surface: &'a mut Surface<'b>,
}

impl<'a> Session<'a, '_> {
    /// What the command stands on.
    pub(crate) fn context(&self) -> Result<Context<'a>, Failure> {
        Context::open(self.environment, self.common, self.surface.messages)
    }

    /// Prints a result: one JSON document with `--json`, else the text.
    pub(crate) fn print(&mut self, document: &impl Serialize, text: &str) -> Result<(), Failure> {
        let printed =
            if self.surface.json { self.surface.document(document) } else { self.surface.text(text) };
        printed.map_err(|error| unprinted(&error))
    }
}

/// Listens for Ctrl-C and SIGTERM, which end the process at once until then: whoever waits for standard input has to be
/// stopped that way.
pub(crate) fn listen() -> Result<Signals, Failure> {
    Signals::listen()
        .map_err(|error| Failure::engine(format!("the process cannot listen for Ctrl-C: {error}")))
}

/// A result that standard output did not take.
pub(crate) fn unprinted(error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, "output_failed", format!("the result cannot be printed: {error}"))
}

/// Runs a command.
pub(crate) async fn run(session: &mut Session<'_, '_>, verb: &Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Exec(args) => Box::pin(exec::run(session, args)).await,
        Verb::Resume(args) => Box::pin(resume::run(session, args)).await,
        Verb::Runs(_) => runs::run(session).await,
        Verb::Show(args) => show::run(session, args).await,
        Verb::Replay(args) => replay::run(session, args).await,
        Verb::Call(args) => call::run(session, args).await,
        Verb::Flows(args) => flows::run(session, args),
        Verb::Grants(args) => match &args.verb {
            GrantsVerb::List(_) => grants::list(session).await,
            GrantsVerb::Revoke(args) => grants::revoke(session, args.id).await,
            GrantsVerb::Check(args) => Box::pin(grants::check(session, args)).await,
        },
        Verb::Approve(args) => answer::approve(session, args).await,
        Verb::Deny(args) => answer::deny(session, args).await,
        Verb::Trust(args) => trust::run(session, args),
        Verb::Doctor(_) => doctor::run(session).await,
        #[cfg(feature = "transcripts")]
        Verb::Transcript(args) => Box::pin(transcript::run(session, args)).await,
    }
}
