//! Point 4: a run that leaves its journal.

use std::path::Path;

use flowcell_harness::engine::{Boundary, OpenError, RunStatus, recorded};
use flowcell_harness::error::Escape;
use flowcell_harness::journal::{Kind, Row};
use flowcell_harness::report::RunReport;
use serde_json::{Value, json};

use crate::crash::SCRIPT;
use crate::lab::{Failure, Flows, Lab, RUN, code, fault_at, hold, run_id, same, sound, text};
use crate::report::Report;
use crate::subject::{Factory, Fault, Moment};

/// A change to a journal, and the code that a resume has to end with.
struct Case {
    name: &'static str,
    code: &'static str,
    edit: fn(&mut Vec<Row>) -> Option<()>,
}

/// The rows of a kind, in order.
fn of(rows: &mut [Row], kind: Kind) -> Vec<&mut Row> {
    rows.iter_mut().filter(|row| row.kind == kind).collect()
}

fn nth(rows: &mut [Row], kind: Kind, n: usize) -> Option<&mut Row> {
    of(rows, kind).into_iter().nth(n)
}

fn drop_nth(rows: &mut Vec<Row>, kind: Kind, n: usize) -> Option<()> {
    let seq = nth(rows, kind, n)?.seq;
    rows.retain(|row| row.seq != seq);
    Some(())
}

fn swap(rows: &mut [Row], a: usize, b: usize) -> Option<()> {
    let first = nth(rows, Kind::CellCall, a)?.payload.clone();
    let second = std::mem::replace(&mut nth(rows, Kind::CellCall, b)?.payload, first);
    nth(rows, Kind::CellCall, a)?.payload = second;
    Some(())
}

fn set(rows: &mut [Row], kind: Kind, n: usize, pointer: &str, value: Value) -> Option<()> {
    *nth(rows, kind, n)?.payload.pointer_mut(pointer)? = value;
    Some(())
}

fn add(rows: &mut [Row], kind: Kind, n: usize, member: &str, value: Value) -> Option<()> {
    nth(rows, kind, n)?.payload.as_object_mut()?.insert(member.to_owned(), value);
    Some(())
}

fn respell(rows: &mut [Row], cell: usize) -> Option<()> {
    let pointer = format!("/params/cells/{cell}/text");
    let text =
        nth(rows, Kind::RunOpened, 0)?.payload.pointer(&pointer)?.as_str()?.replacen("\"a\"", "\"z\"", 1);
    set(rows, Kind::RunOpened, 0, &pointer, Value::from(text))
}

/// The journal: frame 0 has ended with two calls, frame 1 was cut off after two of its three.
const CASES: [Case; 19] = [
    Case {
        name: "one character of an ended cell",
        code: "incompatible_journal",
        edit: |rows| respell(rows, 0),
    },
    Case {
        name: "one character of the cell that was cut off",
        code: "incompatible_journal",
        edit: |rows| respell(rows, 1),
    },
    Case {
        name: "calls of an ended frame in another order",
        code: "incompatible_journal",
        edit: |rows| swap(rows, 0, 1),
    },
    Case {
        name: "calls of the cut frame in another order",
        code: "incompatible_journal",
        edit: |rows| swap(rows, 2, 3),
    },
    Case {
        name: "the first call of an ended frame missing",
        code: "incompatible_journal",
        edit: |rows| drop_nth(rows, Kind::CellCall, 0),
    },
    Case {
        name: "the last call of an ended frame missing",
        code: "incompatible_journal",
        edit: |rows| drop_nth(rows, Kind::CellCall, 1),
    },
    Case {
        name: "the first call of the cut frame missing",
        code: "incompatible_journal",
        edit: |rows| drop_nth(rows, Kind::CellCall, 2),
    },
    Case {
        name: "the first attempt at a frame missing",
        code: "incompatible_journal",
        edit: |rows| drop_nth(rows, Kind::CellFrame, 0),
    },
    Case {
        name: "the end of a frame missing",
        code: "incompatible_journal",
        edit: |rows| drop_nth(rows, Kind::CellFrame, 1),
    },
    Case {
        name: "another flow",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::CellCall, 3, "/flow", json!("put")),
    },
    Case {
        name: "another input",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::CellCall, 3, "/input/sum", json!(6)),
    },
    Case {
        name: "another declaration",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::CellCall, 2, "/declaration", json!("0".repeat(64))),
    },
    Case {
        name: "another checkpoint",
        code: "incompatible_journal",
        edit: |rows| add(rows, Kind::CellCall, 2, "at", json!("cp-0-1")),
    },
    Case {
        name: "an older format",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::RunOpened, 0, "/format", json!(1)),
    },
    Case {
        name: "a newer format",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::RunOpened, 0, "/format", json!(3)),
    },
    Case {
        name: "another catalog",
        code: "incompatible_journal",
        edit: |rows| set(rows, Kind::RunOpened, 0, "/catalog/0/digest", json!("0".repeat(64))),
    },
    Case {
        name: "an unknown field in a settlement",
        code: "engine_failed",
        edit: |rows| add(rows, Kind::CellCall, 0, "surplus", json!(1)),
    },
    Case {
        name: "a success that carries a code",
        code: "engine_failed",
        edit: |rows| add(rows, Kind::CellCall, 2, "code", json!("flow_failed")),
    },
    Case {
        name: "a success that lacks its value",
        code: "engine_failed",
        edit: |rows| nth(rows, Kind::CellCall, 2)?.payload.as_object_mut()?.remove("value").map(drop),
    },
];

/// The rows of a run of the script that was cut off after commit `point`.
async fn cut(factory: &dyn Factory, root: &Path, point: usize) -> Result<Vec<Row>, Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let first = lab.process(fault_at(point, Moment::After, Fault::Crash)).await?;
    let _cut: Result<RunReport, OpenError> = first.start(&run, &SCRIPT).await;
    lab.kill(first);
    let rows = lab.sound().await?.rows(&run).await?;
    same("the number of rows", &rows.len(), &point)?;
    Ok(rows)
}

/// Changes what a journal says in every way that matters, resumes, and wants the stated code and no dispatch (harness
/// contract 13.1, point 4).
///
/// # Errors
/// What did not hold, and for which change.
pub async fn divergence(factory: &dyn Factory, root: &Path) -> Result<Report, Failure> {
    // run-opened, marker, look, start, put, end, marker, look, start, pay.
    let rows = cut(factory, root, 10).await?;
    let run = run_id(RUN)?;
    let mut cases = 0;
    for case in &CASES {
        let at = |why: Failure| format!("{}: {why}", case.name);
        let mut rows = rows.clone();
        (case.edit)(&mut rows).ok_or_else(|| at("the journal is not what the suite expects".into()))?;
        let lab = Lab::new(factory, root).await?;
        lab.rewrite(&run, rows).await.map_err(at)?;
        refused(&lab, case.code).await.map_err(at)?;
        cases += 1;
    }
    reworded(factory, root, &rows).await?;
    other_start(factory, root).await?;
    unchanged(factory, root, rows).await?;
    ended(factory, root).await?;
    Ok(Report { point: "4 divergence", cases: cases + 4 })
}

async fn refused(lab: &Lab<'_>, expected: &str) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    for _ in 0..2 {
        let process = lab.sound().await?;
        let outcome = process.resume(&run).await;
        same("the code", &code(&outcome).as_deref(), &Some(expected))?;
        same("starts of flows", &lab.ledger.total(), &0)?;
        lab.kill(process);
    }
    Ok(())
}

/// The flow is declared in other words, and the run's catalog says so too.
async fn reworded(factory: &dyn Factory, root: &Path, rows: &[Row]) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let mut lab = Lab::new(factory, root).await?;
    lab.flows = Flows { reworded: true };
    lab.rewrite(&run, rows.to_vec()).await?;
    refused(&lab, "incompatible_journal").await.map_err(|why| format!("a reworded flow: {why}"))?;
    let now = lab.sound().await?.spec(&run, &SCRIPT)?.opened.catalog;
    let mut rows = rows.to_vec();
    let catalog = serde_json::to_value(now).map_err(text)?;
    set(&mut rows, Kind::RunOpened, 0, "/catalog", catalog).ok_or("there is no catalog")?;
    lab.rewrite(&run, rows).await?;
    refused(&lab, "incompatible_journal").await.map_err(|why| format!("a reworded flow and catalog: {why}"))
}

/// Another call than the one that now stands there was started and left open.
async fn other_start(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let mut rows = cut(factory, root, 9).await?;
    set(&mut rows, Kind::CallStarted, 1, "/key", json!(format!("key1_{}", "0".repeat(64))))
        .ok_or("there is no start")?;
    let lab = Lab::new(factory, root).await?;
    lab.rewrite(&run_id(RUN)?, rows).await?;
    refused(&lab, "incompatible_journal").await.map_err(|why| format!("another open start: {why}"))
}

/// The journal as it was resumes: the cases above fail for what they change.
async fn unchanged(factory: &dyn Factory, root: &Path, rows: Vec<Row>) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    lab.rewrite(&run, rows).await?;
    let process = lab.sound().await?;
    let report = process.resume(&run).await;
    same("the journal as it was: the code", &code(&report), &None)?;
    same("the journal as it was: starts of flows", &lab.ledger.total(), &3)
}

/// A run that has ended decides nothing more.
async fn ended(factory: &dyn Factory, root: &Path) -> Result<(), Failure> {
    let run = run_id(RUN)?;
    let lab = Lab::new(factory, root).await?;
    let first = lab.process(sound()).await?;
    first.start(&run, &SCRIPT).await.map_err(text)?;
    let mut rows = first.rows(&run).await?;
    let engine = first.store.open(&run, first.owner.clone()).await.map_err(text)?;
    let at = Boundary::frame(RUN, 9, "cell", 0);
    match engine.record(at, recorded(Value::Null)).await {
        Err(Escape::Harness(error)) => same("the code", &error.code.as_str(), &"incompatible_journal")?,
        other => return Err(format!("a run that has ended decided {other:?}")),
    }
    engine.release().await;
    same("the journal of a run that has ended", &first.rows(&run).await?, &rows)?;
    let summary = first.store.summary(&run).await.map_err(text)?;
    same("its status", &summary.status, &RunStatus::Completed)?;
    // A record that was edited is found by a replay, which dispatches nothing.
    lab.kill(first);
    let starts = lab.ledger.total();
    set(&mut rows, Kind::CellFrame, 1, "/prints", json!("forged\n")).ok_or("there is no ended frame")?;
    lab.rewrite(&run, rows).await?;
    let replayed = lab.sound().await?.replay(&run).await.map_err(text)?;
    hold(!replayed.ok && replayed.diverged.is_some(), || "a forged print replays".into())?;
    same("starts of flows", &lab.ledger.total(), &starts)
}
