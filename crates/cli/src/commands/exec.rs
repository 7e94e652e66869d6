//! `exec`: cells that are there, one frame each, without a model.

use std::io::Read;
use std::path::Path;

use flowcell_engines::harness::exec::{CellText, ExecKind, ExecParams, spec};
use flowcell_engines::harness::journal::RunId;
use flowcell_engines::harness::realm::Limits;
use serde_json::Value;

use super::drive::{Begin, Driver};
use super::{Session, listen};
use crate::args::ExecArgs;
use crate::catalog::calls;
use crate::context::Context;
use crate::environment::read_text;
use crate::errors::{Exit, Failure};
use crate::policy::nearest;

/// The largest cell or reply, in bytes.
pub(super) const MAX_CELL_BYTES: u64 = 8 << 20;

pub(super) async fn run(session: &mut Session<'_, '_>, args: &ExecArgs) -> Result<Exit, Failure> {
    // Everything that is named is read before anything is made.
    let context = session.context()?;
    let params = ExecParams {
        kind: ExecKind::Exec,
        cells: cells(&context, args)?,
        reply: args.reply,
        stop: args.stop.unwrap_or_default().into(),
        checkpoints: false,
    };
    let limits = limits(&args.limit)?;
    let policy = context.policy()?;
    let calls = calls(&context, &policy, &args.mock)?;
    context.warn(&policy);

    let mut signals = listen()?;
    let run = args.run_id.clone().unwrap_or_else(|| random_run(&context));
    let store = context.store().await?;
    let driver = Driver { context: &context, policy: &policy, store, run: &run, mocks: &args.mock, calls };
    let params = ExecParams { checkpoints: driver.keeps_checkpoints(), ..params };
    let spec = spec(run.clone(), &params, limits, &driver.calls)?;
    driver.drive(session, &mut signals, Begin::Start(Box::new(spec))).await
}

fn random_run(context: &Context<'_>) -> RunId {
    let mut bytes = [0; 16];
    context.entropy.fill(&mut bytes);
    RunId::random(bytes)
}

fn cells(context: &Context<'_>, args: &ExecArgs) -> Result<Vec<CellText>, Failure> {
    if let Some(code) = &args.code {
        return Ok(vec![CellText { name: "-e".into(), text: code.clone() }]);
    }
    let stdin = Path::new("-");
    if args.files.iter().any(|file| file == stdin) && args.files.len() > 1 {
        return Err(Failure::usage("usage", "`-` stands alone: standard input holds one cell")
            .hint("Run `-` by itself, or save that cell to a file and name the file in its place."));
    }
    args.files
        .iter()
        .map(|file| {
            let text = if file == stdin {
                standard_input().map_err(|error| Failure::unreadable("the cell", file, error))?
            } else {
                let path = context.path(file)?;
                read_text(&path, MAX_CELL_BYTES).map_err(|error| {
                    Failure::unreadable("the cell", file, error).hint(
                        "Name a regular file of UTF-8 text that you may read, or `-` for standard input.",
                    )
                })?
            };
            Ok(CellText { name: file.display().to_string(), text })
        })
        .collect()
}

/// Standard input as text, at most [`MAX_CELL_BYTES`] of it.
pub(super) fn standard_input() -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_CELL_BYTES + 1).read_to_end(&mut bytes)?;
    let invalid = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    if bytes.len() as u64 > MAX_CELL_BYTES {
        return Err(invalid(format!("it is larger than {MAX_CELL_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8 text".into()))
}

fn limits(given: &[String]) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    for text in given {
        let wrong = |why: String| {
            let names = Limits::names().collect::<Vec<_>>().join(", ");
            Failure::usage("invalid_limit", format!("--limit {text}: {why}"))
                .at("--limit")
                .hint(format!("The limits are {names}, each a whole number."))
        };
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("it is not NAME=VALUE".into()))?;
        if !Limits::names().any(|known| known == name) {
            let near = nearest(name, Limits::names());
            let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
            return Err(wrong(format!("there is no {name} limit{near}")));
        }
        let value: Value =
            serde_json::from_str(value).map_err(|_| wrong(format!("{value:?} is not a number")))?;
        limits.set(name, &value).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_contracts_names() {
        let limits = limits(&["timeMs=7".into(), "calls=0".into(), "timeMs=9".into()]).unwrap();
        assert_eq!((limits.time_ms, limits.calls), (9, 0));
        for (bad, why) in [
            ("timeMs", "it is not NAME=VALUE"),
            ("time_ms=1", "the nearest is timeMs"),
            ("timeMs=x", "is not a number"),
            ("timeMs=0", "timeMs limit must be"),
            ("memoryBytes=1", "memoryBytes limit must be"),
            ("calls=1.5", "calls limit must be"),
            ("calls=-1", "calls limit must be"),
        ] {
            let error = super::limits(&[bad.to_owned()]).unwrap_err();
            assert!(error.message.contains(why), "{bad}: {}", error.message);
            assert_eq!((error.exit.status(), error.code.as_str()), (2, "invalid_limit"));
        }
    }
}
