//! Transactions on a connection.

use std::path::PathBuf;

use flowcell_harness::engine::Owner;
use flowcell_harness::journal::{Kind, Resolution, Row, RunId};
use flowcell_harness::kernel::PersistedEvent;
use rusqlite::{Connection, OptionalExtension, ToSql, named_params, params};
use serde::Deserialize;
use serde_json::Value;

use super::file;
use crate::storage::{Access, AnswerRow, Backend, Outcome, OwnerRow, Refusal, RunRow, Transaction};

/// The deepest nesting of a payload that is read. Values of a cell have 128 levels at most (harness contract 3.2).
const MAX_DEPTH: usize = 192;

/// A connection of a store's file.
pub(crate) struct Rows {
    connection: Connection,
    path: PathBuf,
}

impl Rows {
    pub(crate) fn new(connection: Connection, path: PathBuf) -> Self {
        Self { connection, path }
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Refusal {
        Refusal::Failed(file::failure(&self.path, &why.to_string()).message)
    }

    fn batch(&self, sql: &str) -> Outcome<()> {
        self.connection.execute_batch(sql).map_err(|error| self.refuse(error))
    }

    fn execute(&self, sql: &str, params: &[(&str, &dyn ToSql)]) -> Outcome<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map(|_| ())
            .map_err(|error| self.refuse(error))
    }

    fn number(&self, value: u64) -> Outcome<i64> {
        i64::try_from(value).map_err(|_| self.refuse(format!("the number {value} is too large to be kept")))
    }

    fn natural(&self, value: i64) -> Outcome<u64> {
        u64::try_from(value)
            .map_err(|_| self.refuse(format!("it holds the number {value} where none below 0 belongs")))
    }

    fn run_id(&self, text: String) -> Outcome<RunId> {
        RunId::new(text).map_err(|error| self.refuse(error))
    }

    fn text(&self, value: &Value) -> Outcome<String> {
        serde_json::to_string(value).map_err(|error| self.refuse(error))
    }

    fn value(&self, text: &str, what: &str) -> Outcome<Value> {
        parse(text).map_err(|error| self.refuse(format!("{what} is not JSON: {error}")))
    }

    fn run_row(&self, raw: RawRun) -> Outcome<RunRow> {
        let RawRun(run, number, created_ms, updated_ms, last_seq) = raw;
        Ok(RunRow {
            run: self.run_id(run)?,
            number: self.natural(number)?,
            created_ms,
            updated_ms,
            last_seq: self.natural(last_seq)?,
        })
    }

    fn journal_row(&self, run: &RunId, raw: RawRow) -> Outcome<Row> {
        let RawRow(seq, kind, key, payload, owner_epoch, at_ms) = raw;
        let kind: Kind = kind.parse().map_err(|error| self.refuse(format!("row {seq}: {error}")))?;
        Ok(Row {
            run_id: run.clone(),
            seq: self.natural(seq)?,
            payload: self.value(&payload, &format!("row {seq} ({kind}) of run {run}"))?,
            kind,
            key,
            owner_epoch: self.natural(owner_epoch)?,
            at_ms,
        })
    }

    fn journal_rows(&self, run: &RunId, sql: &str, params: &[(&str, &dyn ToSql)]) -> Outcome<Vec<Row>> {
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement.query_map(params, RawRow::read)?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(|error| self.refuse(error))?;
        raw.into_iter().map(|raw| self.journal_row(run, raw)).collect()
    }
}

/// Parses JSON that may be nested deeper than the parser's own bound.
fn parse(text: &str) -> Result<Value, String> {
    if depth(text) > MAX_DEPTH {
        return Err(format!("it is nested more than {MAX_DEPTH} deep"));
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    parser.disable_recursion_limit();
    let value = Value::deserialize(&mut parser).map_err(|error| error.to_string())?;
    parser.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// How deep a text of JSON nests at most.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let mut bytes = text.bytes();
    let mut quoted = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if quoted => {
                bytes.next();
            }
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

struct RawRun(String, i64, i64, i64, i64);

impl RawRun {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    }
}

struct RawRow(i64, String, String, String, i64, i64);

impl RawRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    }
}

impl Backend for Rows {
    fn begin(&mut self, access: Access) -> Outcome<()> {
        self.batch(match access {
            Access::Write => "BEGIN IMMEDIATE",
            Access::Read => "BEGIN DEFERRED",
        })
    }

    fn commit(&mut self) -> Outcome<()> {
        self.batch("COMMIT")
    }

    fn roll_back(&mut self) {
        // Some failures end the transaction by themselves; then there is none to roll back.
        if !self.connection.is_autocommit()
            && let Err(refusal) = self.batch("ROLLBACK")
        {
            tracing::warn!(?refusal, "a transaction was not rolled back");
        }
    }
}

const ROW: &str = "SELECT seq, kind, key, payload, owner_epoch, at_ms FROM rows WHERE run = :run";

impl Transaction for Rows {
    fn run(&mut self, run: &RunId) -> Outcome<Option<RunRow>> {
        let sql = "SELECT run, number, created_ms, updated_ms, last_seq FROM runs WHERE run = ?1";
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([run.as_str()], RawRun::read).optional())
            .map_err(|error| self.refuse(error))?;
        raw.map(|raw| self.run_row(raw)).transpose()
    }

    fn runs(&mut self, skip: u64, limit: u64) -> Outcome<Vec<RunRow>> {
        let sql = "SELECT run, number, created_ms, updated_ms, last_seq FROM runs ORDER BY number DESC LIMIT ?1 OFFSET ?2";
        let bound = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                statement.query_map([bound(limit), bound(skip)], RawRun::read)?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(|error| self.refuse(error))?;
        raw.into_iter().map(|raw| self.run_row(raw)).collect()
    }

    fn put_run(&mut self, row: &RunRow) -> Outcome<()> {
        let sql = "INSERT INTO runs (run, number, created_ms, updated_ms, last_seq)
            VALUES (:run, CASE :number WHEN 0 THEN (SELECT coalesce(max(number), 0) + 1 FROM runs) ELSE :number END,
                :created, :updated, :last)
            ON CONFLICT (run) DO UPDATE SET updated_ms = excluded.updated_ms, last_seq = excluded.last_seq";
        self.execute(
            sql,
            named_params! {
                ":run": row.run.as_str(),
                ":number": self.number(row.number)?,
                ":created": row.created_ms,
                ":updated": row.updated_ms,
                ":last": self.number(row.last_seq)?,
            },
        )
    }

    fn row(&mut self, run: &RunId, kind: Kind, key: &str) -> Outcome<Option<Row>> {
        let sql = format!("{ROW} AND kind = :kind AND key = :key");
        let rows = self.journal_rows(
            run,
            &sql,
            named_params! { ":run": run.as_str(), ":kind": kind.as_str(), ":key": key },
        )?;
        Ok(rows.into_iter().next())
    }

    fn rows(&mut self, run: &RunId, after: u64) -> Outcome<Vec<Row>> {
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        let sql = format!("{ROW} AND seq > :after ORDER BY seq");
        self.journal_rows(run, &sql, named_params! { ":run": run.as_str(), ":after": after })
    }

    fn last_of(&mut self, run: &RunId, kinds: &[Kind]) -> Outcome<Option<Row>> {
        let mut last: Option<Row> = None;
        let sql = format!("{ROW} AND kind = :kind ORDER BY seq DESC LIMIT 1");
        for kind in kinds {
            let rows =
                self.journal_rows(run, &sql, named_params! { ":run": run.as_str(), ":kind": kind.as_str() })?;
            last = last.into_iter().chain(rows).max_by_key(|row| row.seq);
        }
        Ok(last)
    }

    fn frames(&mut self, run: &RunId) -> Outcome<u64> {
        let sql = "SELECT count(*) FROM rows WHERE run = ?1 AND kind = 'cell-frame' AND payload <> 'null'";
        let count = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([run.as_str()], |row| row.get(0)))
            .map_err(|error| self.refuse(error))?;
        self.natural(count)
    }

    fn insert(&mut self, row: &Row) -> Outcome<()> {
        let sql = "INSERT INTO rows (run, seq, kind, key, payload, owner_epoch, at_ms)
            VALUES (:run, :seq, :kind, :key, :payload, :epoch, :at)";
        self.execute(
            sql,
            named_params! {
                ":run": row.run_id.as_str(),
                ":seq": self.number(row.seq)?,
                ":kind": row.kind.as_str(),
                ":key": row.key,
                ":payload": self.text(&row.payload)?,
                ":epoch": self.number(row.owner_epoch)?,
                ":at": row.at_ms,
            },
        )
    }

    fn owner(&mut self, run: &RunId) -> Outcome<Option<OwnerRow>> {
        let sql = "SELECT epoch, host, pid, started, heartbeat_ms, released FROM owners WHERE run = ?1";
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| {
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, String>(1)?,
                        row.get::<_, u32>(2)?,
                        row.get::<_, i64>(3)?,
                        row.get::<_, i64>(4)?,
                        row.get::<_, bool>(5)?,
                    ))
                };
                statement.query_row([run.as_str()], read).optional()
            })
            .map_err(|error| self.refuse(error))?;
        let Some((epoch, host, pid, started, heartbeat_ms, released)) = raw else { return Ok(None) };
        let owner = Owner { host, pid, started: self.natural(started)? };
        Ok(Some(OwnerRow { run: run.clone(), epoch: self.natural(epoch)?, owner, heartbeat_ms, released }))
    }

    fn put_owner(&mut self, row: &OwnerRow) -> Outcome<()> {
        let sql = "INSERT INTO owners (run, epoch, host, pid, started, heartbeat_ms, released)
            VALUES (:run, :epoch, :host, :pid, :started, :heartbeat, :released)
            ON CONFLICT (run) DO UPDATE SET epoch = excluded.epoch, host = excluded.host, pid = excluded.pid,
                started = excluded.started, heartbeat_ms = excluded.heartbeat_ms, released = excluded.released";
        self.execute(
            sql,
            named_params! {
                ":run": row.run.as_str(),
                ":epoch": self.number(row.epoch)?,
                ":host": row.owner.host,
                ":pid": row.owner.pid,
                ":started": self.number(row.owner.started)?,
                ":heartbeat": row.heartbeat_ms,
                ":released": row.released,
            },
        )
    }

    fn answer(&mut self, run: &RunId, suspended: u64) -> Outcome<Option<AnswerRow>> {
        let sql = "SELECT request, resolution, at_ms FROM answers WHERE run = ?1 AND suspended_seq = ?2";
        let seq = self.number(suspended)?;
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
                };
                statement.query_row(params![run.as_str(), seq], read).optional()
            })
            .map_err(|error| self.refuse(error))?;
        let Some((request, resolution, at_ms)) = raw else { return Ok(None) };
        let resolution = Resolution::ALL
            .into_iter()
            .find(|known| known.as_str() == resolution)
            .ok_or_else(|| self.refuse(format!("it holds the unknown answer {resolution:?}")))?;
        Ok(Some(AnswerRow { run: run.clone(), suspended, request, resolution, at_ms }))
    }

    fn put_answer(&mut self, row: &AnswerRow) -> Outcome<()> {
        let sql = "INSERT INTO answers (run, suspended_seq, request, resolution, at_ms)
            VALUES (:run, :seq, :request, :resolution, :at)";
        self.execute(
            sql,
            named_params! {
                ":run": row.run.as_str(),
                ":seq": self.number(row.suspended)?,
                ":request": row.request,
                ":resolution": row.resolution.as_str(),
                ":at": row.at_ms,
            },
        )
    }

    fn append_grant(&mut self, run: &str, source: &str, event_type: &str, event: &Value) -> Outcome<u64> {
        let last: i64 = self
            .connection
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM grants WHERE run = ?1")
            .and_then(|mut statement| statement.query_row([run], |row| row.get(0)))
            .map_err(|error| self.refuse(error))?;
        let seq = last.checked_add(1).ok_or_else(|| self.refuse("the grant journal is full"))?;
        let sql =
            "INSERT INTO grants (run, seq, source, type, event) VALUES (:run, :seq, :source, :type, :event)";
        let text = self.text(event)?;
        self.execute(
            sql,
            named_params! { ":run": run, ":seq": seq, ":source": source, ":type": event_type, ":event": text },
        )?;
        self.natural(seq)
    }

    fn grants(&mut self, run: &str, after: u64, limit: usize) -> Outcome<Vec<PersistedEvent>> {
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql =
            "SELECT seq, source, type, event FROM grants WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let raw = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| {
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, String>(1)?,
                        row.get::<_, String>(2)?,
                        row.get::<_, String>(3)?,
                    ))
                };
                statement.query_map(params![run, after, limit], read)?.collect::<Result<Vec<_>, _>>()
            })
            .map_err(|error| self.refuse(error))?;
        raw.into_iter()
            .map(|(seq, source, event_type, event)| {
                let event = self.value(&event, &format!("grant event {seq} of run {run}"))?;
                Ok(PersistedEvent { seq: self.natural(seq)?, source, event_type, event })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_legal_depth_are_read() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for levels in [0, 1, 127, 128, 130, MAX_DEPTH] {
            let text = nested(levels);
            assert_eq!(serde_json::to_string(&parse(&text).unwrap()).unwrap(), text);
        }
        assert!(parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(parse(&"[".repeat(1_000_000)).is_err());
        assert!(parse("1 2").is_err());
        assert_eq!(depth(r#"{"a\"[[[": "]{", "b": [[]]}"#), 3);
    }
}
