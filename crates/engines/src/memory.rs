//! Runs in memory: for tests, and for embedders whose runs need not outlive the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use flowcell_harness::engine::EngineError;
use flowcell_harness::journal::{Kind, Row, RunId};
use flowcell_harness::kernel::PersistedEvent;
use serde_json::Value;

use crate::options::StoreOptions;
use crate::storage::{
    Access, AnswerRow, Backend, Hooks, Job, Outcome, OwnerRow, Refusal, RunRow, Storage, Transaction, lock,
    transact,
};
use crate::store::Store;

/// The data of a store in memory. It lives as long as a handle to it, or this, does.
#[derive(Clone, Default)]
pub struct Memory {
    data: Arc<Mutex<Data>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("runs", &lock(&self.data).runs.len()).finish_non_exhaustive()
    }
}

impl Memory {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new handle to the data, as a process that opens a file has one.
    pub fn open(&self, options: StoreOptions) -> Store {
        Store::over(self.storage(options.hooks.clone()), options)
    }

    pub(crate) fn storage(&self, hooks: Hooks) -> Arc<dyn Storage> {
        Arc::new(MemoryStorage { data: Arc::clone(&self.data), hooks })
    }

    /// Puts a run here as its rows stand, in place of one of that id: for tools that examine another store's journal.
    /// Nobody owns it then.
    ///
    /// # Errors
    /// `engine_failed` when a row is of another run, a `seq` does not rise, or a kind and key stand twice.
    pub fn import(&self, run: &RunId, rows: Vec<Row>) -> Result<(), EngineError> {
        let mut journal = Journal::default();
        let mut last_seq = 0;
        for row in rows {
            if row.run_id != *run || row.seq <= last_seq {
                return Err(EngineError::failed(format!(
                    "row {} does not continue the journal of run {run}",
                    row.seq
                )));
            }
            last_seq = row.seq;
            if journal.keys.insert((row.kind, row.key.clone()), row.seq).is_some() {
                return Err(EngineError::failed(format!("row {} ({}) stands twice", row.seq, row.kind)));
            }
            journal.rows.insert(row.seq, row);
        }
        let mut data = lock(&self.data);
        let number = match data.runs.get(run) {
            Some(known) => known.number,
            None => data.next_number(),
        };
        let at = |row: Option<&Row>| row.map_or(0, |row| row.at_ms);
        let created_ms = at(journal.rows.values().next());
        let updated_ms = at(journal.rows.values().next_back());
        data.runs.insert(run.clone(), RunRow { run: run.clone(), number, created_ms, updated_ms, last_seq });
        data.owners.remove(run);
        data.answers.retain(|(of, _), _| of != run);
        data.journals.insert(run.clone(), journal);
        Ok(())
    }
}

struct MemoryStorage {
    data: Arc<Mutex<Data>>,
    hooks: Hooks,
}

impl Storage for MemoryStorage {
    fn submit(&self, job: Job) {
        let Job { access, work, done } = job;
        let outcome = {
            let mut data = lock(&self.data);
            let mut backend = Undoing { data: &mut data, undo: Vec::new() };
            transact(&mut backend, &self.hooks, access, work)
        };
        done(outcome);
    }
}

#[derive(Default)]
struct Data {
    runs: BTreeMap<RunId, RunRow>,
    journals: HashMap<RunId, Journal>,
    owners: HashMap<RunId, OwnerRow>,
    answers: HashMap<(RunId, u64), AnswerRow>,
    grants: HashMap<String, Vec<PersistedEvent>>,
}

#[derive(Default)]
struct Journal {
    rows: BTreeMap<u64, Row>,
    keys: HashMap<(Kind, String), u64>,
}

impl Data {
    fn next_number(&self) -> u64 {
        self.runs.values().map(|row| row.number).max().unwrap_or(0).saturating_add(1)
    }
}

/// A change, as what takes it back.
enum Undo {
    Run(RunId, Option<RunRow>),
    Row(RunId, u64),
    Owner(RunId, Option<OwnerRow>),
    Answer((RunId, u64), Option<AnswerRow>),
    Grant(String),
}

struct Undoing<'a> {
    data: &'a mut Data,
    undo: Vec<Undo>,
}

impl Backend for Undoing<'_> {
    fn begin(&mut self, _access: Access) -> Outcome<()> {
        Ok(())
    }

    fn commit(&mut self) -> Outcome<()> {
        self.undo.clear();
        Ok(())
    }

    fn roll_back(&mut self) {
        fn put<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, before: Option<V>) {
            match before {
                Some(value) => drop(map.insert(key, value)),
                None => drop(map.remove(&key)),
            }
        }
        while let Some(change) = self.undo.pop() {
            match change {
                Undo::Run(run, Some(row)) => drop(self.data.runs.insert(run, row)),
                Undo::Run(run, None) => drop(self.data.runs.remove(&run)),
                Undo::Row(run, seq) => {
                    if let Some(journal) = self.data.journals.get_mut(&run)
                        && let Some(row) = journal.rows.remove(&seq)
                    {
                        journal.keys.remove(&(row.kind, row.key));
                    }
                }
                Undo::Owner(run, before) => put(&mut self.data.owners, run, before),
                Undo::Answer(key, before) => put(&mut self.data.answers, key, before),
                Undo::Grant(run) => {
                    if let Some(events) = self.data.grants.get_mut(&run) {
                        events.pop();
                    }
                }
            }
        }
    }
}

impl Undoing<'_> {
    fn journal(&self, run: &RunId) -> Option<&Journal> {
        self.data.journals.get(run)
    }
}

impl Transaction for Undoing<'_> {
    fn run(&mut self, run: &RunId) -> Outcome<Option<RunRow>> {
        Ok(self.data.runs.get(run).cloned())
    }

    fn runs(&mut self, skip: u64, limit: u64) -> Outcome<Vec<RunRow>> {
        let mut runs: Vec<_> = self.data.runs.values().cloned().collect();
        runs.sort_by_key(|row| std::cmp::Reverse(row.number));
        let bound = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(runs.into_iter().skip(bound(skip)).take(bound(limit)).collect())
    }

    fn put_run(&mut self, row: &RunRow) -> Outcome<()> {
        let mut row = row.clone();
        if row.number == 0 {
            row.number = self.data.next_number();
        }
        let run = row.run.clone();
        let before = self.data.runs.insert(run.clone(), row);
        self.undo.push(Undo::Run(run, before));
        Ok(())
    }

    fn row(&mut self, run: &RunId, kind: Kind, key: &str) -> Outcome<Option<Row>> {
        let found = self.journal(run).and_then(|journal| {
            let seq = journal.keys.get(&(kind, key.to_owned()))?;
            journal.rows.get(seq).cloned()
        });
        Ok(found)
    }

    fn rows(&mut self, run: &RunId, after: u64) -> Outcome<Vec<Row>> {
        let Some(journal) = self.journal(run) else { return Ok(Vec::new()) };
        Ok(after
            .checked_add(1)
            .map(|first| journal.rows.range(first..).map(|(_, row)| row.clone()).collect())
            .unwrap_or_default())
    }

    fn last_of(&mut self, run: &RunId, kinds: &[Kind]) -> Outcome<Option<Row>> {
        Ok(self
            .journal(run)
            .and_then(|journal| journal.rows.values().rfind(|row| kinds.contains(&row.kind)).cloned()))
    }

    fn frames(&mut self, run: &RunId) -> Outcome<u64> {
        let ended = |row: &&Row| row.kind == Kind::CellFrame && !row.payload.is_null();
        Ok(self.journal(run).map_or(0, |journal| journal.rows.values().filter(ended).count() as u64))
    }

    fn insert(&mut self, row: &Row) -> Outcome<()> {
        let journal = self.data.journals.entry(row.run_id.clone()).or_default();
        let key = (row.kind, row.key.clone());
        if journal.keys.contains_key(&key) || journal.rows.contains_key(&row.seq) {
            return Err(Refusal::Failed(format!("row {} ({}) is there already", row.seq, row.kind)));
        }
        journal.keys.insert(key, row.seq);
        journal.rows.insert(row.seq, row.clone());
        self.undo.push(Undo::Row(row.run_id.clone(), row.seq));
        Ok(())
    }

    fn owner(&mut self, run: &RunId) -> Outcome<Option<OwnerRow>> {
        Ok(self.data.owners.get(run).cloned())
    }

    fn put_owner(&mut self, row: &OwnerRow) -> Outcome<()> {
        let before = self.data.owners.insert(row.run.clone(), row.clone());
        self.undo.push(Undo::Owner(row.run.clone(), before));
        Ok(())
    }

    fn answer(&mut self, run: &RunId, suspended: u64) -> Outcome<Option<AnswerRow>> {
        Ok(self.data.answers.get(&(run.clone(), suspended)).cloned())
    }

    fn put_answer(&mut self, row: &AnswerRow) -> Outcome<()> {
        let key = (row.run.clone(), row.suspended);
        let before = self.data.answers.insert(key.clone(), row.clone());
        self.undo.push(Undo::Answer(key, before));
        Ok(())
    }

    fn append_grant(&mut self, run: &str, source: &str, event_type: &str, event: &Value) -> Outcome<u64> {
        let events = self.data.grants.entry(run.to_owned()).or_default();
        let seq = events.last().map_or(1, |last| last.seq.saturating_add(1));
        events.push(PersistedEvent {
            seq,
            source: source.to_owned(),
            event_type: event_type.to_owned(),
            event: event.clone(),
        });
        self.undo.push(Undo::Grant(run.to_owned()));
        Ok(seq)
    }

    fn grants(&mut self, run: &str, after: u64, limit: usize) -> Outcome<Vec<PersistedEvent>> {
        let Some(events) = self.data.grants.get(run) else { return Ok(Vec::new()) };
        Ok(events.iter().filter(|event| event.seq > after).take(limit).cloned().collect())
    }
}
