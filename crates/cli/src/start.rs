//! From the words of a command line to an exit status.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use flowcell_engines::harness::host::supervisor;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{Cli, Common, When};
use crate::commands::{self, Session, unprinted};
use crate::engine::check_crash_at;
use crate::environment::Environment;
use crate::errors::{Exit, Failure};
use crate::render::{Messages, Surface};

/// How long work that nobody waits for any more may hold up the end of the process.
const SHUTDOWN: Duration = Duration::from_millis(500);

/// Runs the command of this process.
pub fn main() -> ExitCode {
    // Started again to own what commands leave, it is that and nothing else, before any thread is there.
    if let Some(code) = supervisor::intercept(std::env::args_os()) {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    run(words, &Environment::of_process(), &mut io::stdout()).into()
}

/// Runs a command: its words, the program's name first; what the process was started with; and where its result goes.
/// Messages go to standard error.
pub fn run(words: Vec<OsString>, environment: &Environment, out: &mut (dyn Write + Send)) -> Exit {
    // Until the words are parsed this is all that is known of how to answer.
    let json = words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json");
    let matched =
        Cli::command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match matched {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error, environment, json, out),
    };
    let common = cli.common.then(&cli.verb.common());
    let messages = messages(environment, &common);
    let mut surface = Surface { out, json: common.json, messages };
    log(&common);
    let done = check_crash_at(environment.crash_at.as_deref()).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::engine(format!("the process cannot start its threads: {error}")))?;
        let done = runtime.block_on(async {
            let mut session = Session { environment, common: &common, surface: &mut surface };
            Box::pin(commands::run(&mut session, &cli.verb)).await
        });
        runtime.shutdown_timeout(SHUTDOWN);
        done
    });
    match done {
        Ok(exit) => exit,
        Err(failure) => failed(&failure, &mut surface),
    }
}

fn messages(environment: &Environment, common: &Common) -> Messages {
    let colour = match common.color.unwrap_or_default() {
        When::Always => true,
        When::Never => false,
        When::Auto => environment.terminal && !environment.no_colour,
    };
    Messages { colour, quiet: common.quiet, progress: environment.terminal || common.verbose }
}

fn log(common: &Common) {
    let level = match (common.quiet, common.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, false) => LevelFilter::WARN,
        (false, true) => LevelFilter::INFO,
    };
    let built = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(false)
        .without_time()
        .finish();
    // A caller of this function that logs in its own way keeps it.
    let _ = tracing::subscriber::set_global_default(built);
}

/// Says that a command failed: to a person always, and as the one document of `--json`.
fn failed(failure: &Failure, surface: &mut Surface<'_>) -> Exit {
    let messages = surface.messages;
    messages.error(&failure.message);
    if let Some(hint) = &failure.hint {
        messages.say(hint);
    }
    if surface.json
        && let Err(error) = surface.document(&failure.to_json())
    {
        messages.error(&unprinted(&error).message);
    }
    failure.exit
}

/// Help and version go to standard output; anything else that clap says is a wrong command line.
fn unparsed(
    error: &clap::Error,
    environment: &Environment,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Exit {
    let messages = messages(environment, &Common::default());
    let mut surface = Surface { out, json, messages };
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match surface.text(&text) {
            Ok(()) => Exit::Done,
            Err(error) => failed(&unprinted(&error), &mut surface),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !json => {
            messages.say(&text);
            Exit::Usage
        }
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
            failed(&Failure::usage("usage", text), &mut surface)
        }
    }
}
