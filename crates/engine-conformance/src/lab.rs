//! A host in a jar: processes that can be killed, a clock that can be set, flows that count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use flowcell_harness::binding::{Binding, Body, BodyError, Invocation};
use flowcell_harness::calls::CellCalls;
use flowcell_harness::catalog::Catalog;
use flowcell_harness::engine::{OpenError, Owner, RunSpec, RunStore};
use flowcell_harness::exec::{self, CellText, ExecKind, ExecParams, Host, Unobserved};
use flowcell_harness::extract::StopReason;
use flowcell_harness::flows::capability::Capability;
use flowcell_harness::flows::descriptor::Declared;
use flowcell_harness::flows::effects::{Effects, Mode, OnConflict, Tier};
use flowcell_harness::flows::schema::SchemaDoc;
use flowcell_harness::journal::{Row, RunId};
use flowcell_harness::kernel::{
    Authority, Clock, FileSystem, FsOptions, GrantStore, GrantStoreOptions, Meta, PermissionError,
    SeededEntropy, Workspace,
};
use flowcell_harness::realm::Limits;
use flowcell_harness::replay::{ReplayReport, replay};
use flowcell_harness::report::{FrameReport, RunReport};
use flowcell_harness::services::Services;
use serde_json::{Value, json};

use crate::subject::{Factory, Fault, Faults, Hooks, Life, Moment, Subject};

/// What the suite says when an engine does not hold.
pub type Failure = String;

/// The run of every single-run case.
pub(crate) const RUN: &str = "run-under-test";

/// A capability that no rule allows, which `ask` needs.
pub(crate) const ASKED: &str = "net:get:https://example.com";

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails unless a condition holds.
pub(crate) fn hold(condition: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if condition { Ok(()) } else { Err(what()) }
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), Failure> {
    hold(found == expected, || format!("{what}: found {found:?}, expected {expected:?}"))
}

pub(crate) fn text(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub(crate) struct LabClock {
    ms: AtomicI64,
    asked: AtomicU64,
}

impl LabClock {
    pub(crate) fn advance(&self, ms: i64) {
        self.ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for LabClock {
    fn now(&self) -> Duration {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Duration::from_millis(self.wall_ms().unsigned_abs())
    }
    fn wall_ms(&self) -> i64 {
        self.ms.load(Ordering::SeqCst)
    }
}

/// What the flows did: by frame and ordinal, the call key of every start of a body.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    starts: Mutex<BTreeMap<(u64, u64), Vec<String>>>,
    acts: Mutex<BTreeMap<String, u64>>,
}

impl Ledger {
    pub(crate) fn starts(&self, frame: u64, ordinal: u64) -> Vec<String> {
        lock(&self.starts).get(&(frame, ordinal)).cloned().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> usize {
        lock(&self.starts).values().map(Vec::len).sum()
    }

    /// How often a flow did what it is for.
    pub(crate) fn acts(&self, flow: &str) -> u64 {
        lock(&self.acts).get(flow).copied().unwrap_or(0)
    }

    fn start(&self, invocation: &Invocation<'_>) {
        let call = invocation.call;
        let key = invocation.context.idempotency_key.clone().unwrap_or_default();
        lock(&self.starts).entry((call.identity.frame, call.identity.ordinal)).or_default().push(key);
    }

    fn act(&self, flow: &str) {
        *lock(&self.acts).entry(flow.to_owned()).or_default() += 1;
    }
}

/// A flow that counts, and answers with something made of its input alone.
struct Counting {
    ledger: Arc<Ledger>,
    answer: fn(&Value) -> Value,
    needs: Option<Capability>,
}

#[async_trait]
impl Body for Counting {
    async fn answer(&self, invocation: Invocation<'_>, input: Value) -> Result<Value, BodyError> {
        self.ledger.start(&invocation);
        if let Some(capability) = &self.needs {
            match invocation.context.authority.check(capability.clone(), Meta::new()).await {
                Ok(()) => {}
                Err(PermissionError::Denied(denied)) => return Err(BodyError::Refused(denied.to_string())),
                Err(error) => return Err(BodyError::Permission(error)),
            }
        }
        self.ledger.act(&invocation.call.flow);
        Ok((self.answer)(&input))
    }
}

/// Which flows a lab has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flows {
    /// Whether `look` is declared in other words than usual.
    pub(crate) reworded: bool,
}

fn bindings(ledger: &Arc<Ledger>, flows: Flows) -> Vec<Binding> {
    let flow = |name: &str, tier: Tier, needs: Option<&str>, answer: fn(&Value) -> Value| {
        let reworded = flows.reworded && name == "look";
        let declared = Declared {
            name: name.to_owned(),
            description: if reworded { "Look again." } else { "Do one thing." }.to_owned(),
            input: SchemaDoc::from_document(json!({})),
            output: SchemaDoc::from_document(json!({})),
            effects: Effects::new(Vec::new(), Vec::new(), Mode::Expected, OnConflict::Serialize, tier),
            capabilities: needs.iter().map(|&text| text.to_owned()).collect(),
            flows: Vec::new(),
            model: None,
        };
        let body = Counting { ledger: Arc::clone(ledger), answer, needs: needs.and_then(Capability::parse) };
        Binding::of_body(declared, b"conformance", Arc::new(body))
    };
    vec![
        flow("look", Tier::Sealed, None, |input| json!({ "path": input["path"] })),
        flow("put", Tier::Compensable, None, |input| json!({ "n": input["n"] })),
        flow("pay", Tier::Irreversible, None, |input| json!({ "paid": input["sum"] })),
        flow("mail", Tier::Irreversible, None, |input| json!({ "sent": input["to"] })).idempotent(),
        flow("ask", Tier::Irreversible, Some(ASKED), |input| json!({ "asked": input["n"] })),
        flow("peek", Tier::Sealed, Some(ASKED), |input| json!({ "peeked": input["n"] })),
    ]
}

/// One set of data, and the world around it.
pub(crate) struct Lab<'a> {
    root: &'a Path,
    subject: Box<dyn Subject>,
    pub(crate) clock: Arc<LabClock>,
    pub(crate) services_clock: Arc<LabClock>,
    pub(crate) ledger: Arc<Ledger>,
    lives: Arc<Mutex<BTreeMap<u32, Life>>>,
    next_pid: AtomicU32,
    pub(crate) flows: Flows,
}

/// A process with a handle to the store.
pub(crate) struct Process {
    pub(crate) owner: Owner,
    pub(crate) store: Arc<dyn RunStore>,
    calls: CellCalls,
    services: Services,
}

impl<'a> Lab<'a> {
    pub(crate) async fn new(factory: &dyn Factory, root: &'a Path) -> Result<Self, Failure> {
        Ok(Self {
            root,
            subject: factory.subject().await?,
            clock: Arc::default(),
            services_clock: Arc::default(),
            ledger: Arc::default(),
            lives: Arc::default(),
            next_pid: AtomicU32::new(1),
            flows: Flows::default(),
        })
    }

    /// A new process, alive, with a new handle to the data.
    pub(crate) async fn process(&self, faults: Faults) -> Result<Process, Failure> {
        let pid = self.next_pid.fetch_add(1, Ordering::SeqCst);
        self.set(pid, Life::Alive);
        let lives = Arc::clone(&self.lives);
        let hooks = Hooks {
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            probe: Arc::new(move |owner| lock(&lives).get(&owner.pid).copied().unwrap_or(Life::Unknown)),
            faults,
        };
        let store = self.subject.open(hooks).await?;
        let grants = GrantStore::open(GrantStoreOptions {
            run_id: Some(RUN.to_owned()),
            ..GrantStoreOptions::new(self.root, store.grants()).unattended()
        });
        let authority = Authority::root(grants.await.map_err(text)?);
        let workspace = Workspace::open(self.root).map_err(text)?;
        let entropy = Arc::new(SeededEntropy::new(1));
        let options = FsOptions::default();
        let files =
            FileSystem::new(authority, workspace, options, Arc::clone(&entropy) as _).map_err(text)?;
        let services = Services::new(files, Arc::clone(&self.services_clock) as _, entropy);
        let catalog = Catalog::of(bindings(&self.ledger, self.flows)).map_err(text)?;
        let owner = Owner { host: "lab".to_owned(), pid, started: u64::from(pid) };
        Ok(Process { owner, store, calls: CellCalls::of_catalog(catalog), services })
    }

    /// A new process whose store works.
    pub(crate) async fn sound(&self) -> Result<Process, Failure> {
        self.process(sound()).await
    }

    fn set(&self, pid: u32, life: Life) {
        lock(&self.lives).insert(pid, life);
    }

    /// Says what is known of a process from now on.
    pub(crate) fn declare(&self, process: &Process, life: Life) {
        self.set(process.owner.pid, life);
    }

    /// Ends a process without its help.
    pub(crate) fn kill(&self, process: Process) {
        self.declare(&process, Life::Dead);
        drop(process);
    }

    pub(crate) async fn rewrite(&self, run: &RunId, rows: Vec<Row>) -> Result<(), Failure> {
        self.subject.rewrite(run, rows).await
    }
}

impl Process {
    fn host(&self) -> Host<'_> {
        Host { calls: &self.calls, services: &self.services, observer: &Unobserved }
    }

    pub(crate) fn spec(&self, run: &RunId, cells: &[&str]) -> Result<RunSpec, Failure> {
        let params = ExecParams {
            kind: ExecKind::Exec,
            cells: cells
                .iter()
                .map(|text| CellText { name: "cell".into(), text: (*text).to_owned() })
                .collect(),
            reply: false,
            stop: StopReason::End,
            checkpoints: false,
        };
        exec::spec(run.clone(), &params, Limits::default(), &self.calls).map_err(text)
    }

    pub(crate) async fn start(&self, run: &RunId, cells: &[&str]) -> Result<RunReport, OpenError> {
        let spec = self.spec(run, cells).map_err(flowcell_harness::HarnessError::engine)?;
        exec::start(self.store.as_ref(), spec, self.owner.clone(), &self.host()).await
    }

    pub(crate) async fn resume(&self, run: &RunId) -> Result<RunReport, OpenError> {
        exec::resume(self.store.as_ref(), run, self.owner.clone(), &self.host()).await
    }

    pub(crate) async fn replay(&self, run: &RunId) -> Result<ReplayReport, OpenError> {
        replay(self.store.as_ref(), run, &self.host()).await
    }

    pub(crate) async fn rows(&self, run: &RunId) -> Result<Vec<Row>, Failure> {
        let rows = self.store.rows(run, 0).await.map_err(text)?;
        let mut seen = BTreeSet::new();
        let mut last = 0;
        for row in &rows {
            hold(row.seq > last, || format!("row {} does not come after row {last}", row.seq))?;
            last = row.seq;
            hold(seen.insert((row.kind, row.key.clone())), || format!("row {} stands twice", row.seq))?;
        }
        Ok(rows)
    }
}

/// The calls that the services' clock saw.
pub(crate) fn asked(clock: &LabClock) -> u64 {
    clock.asked.load(Ordering::SeqCst)
}

pub(crate) fn sound() -> Faults {
    Arc::new(|_, _| None)
}

/// One fault at the `point`th commit of a row, counted from 1.
pub(crate) fn fault_at(point: usize, when: Moment, fault: Fault) -> Faults {
    let committed = Mutex::new(0usize);
    Arc::new(move |moment, _| {
        let mut committed = lock(&committed);
        let nth = match moment {
            Moment::Before | Moment::During => *committed + 1,
            Moment::After => {
                *committed += 1;
                *committed
            }
        };
        (nth == point && moment == when).then_some(fault)
    })
}

pub(crate) fn run_id(name: &str) -> Result<RunId, Failure> {
    RunId::new(name).map_err(text)
}

/// A report without what may differ between two executions: where settlements came from, and how long they took.
pub(crate) fn stable(mut report: RunReport) -> RunReport {
    for call in report.frames.iter_mut().flat_map(|frame: &mut FrameReport| &mut frame.calls) {
        call.replayed = false;
        call.ms = 0;
    }
    report
}

/// The code that a run failed with, or that it did not open with.
pub(crate) fn code(outcome: &Result<RunReport, OpenError>) -> Option<String> {
    match outcome {
        Ok(report) => report.error.as_ref().map(|error| error.code.clone()),
        Err(OpenError::Harness(error)) => Some(error.code.to_string()),
        Err(OpenError::Engine(error)) => Some(error.code.as_str().to_owned()),
        Err(OpenError::NotFound(_)) => Some("not_found".into()),
        Err(OpenError::Held(_)) => Some("held".into()),
    }
}
