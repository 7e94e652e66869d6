//! `ctx.checkpoint()`, `ctx.base` and `at` over an engine: what is recorded, what is taken once, what is refused
//! (harness contract 7, host contract 8).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::catalog::Catalog;
use flowcell_engines::harness::checkpoint::{CHECKPOINT_CAP, Checkpoints, Unavailable, View};
use flowcell_engines::harness::engine::{Page, RunStore};
use flowcell_engines::harness::exec::{
    CellText, ExecKind, ExecParams, Host, Unobserved, resume, spec, start,
};
use flowcell_engines::harness::extract::StopReason;
use flowcell_engines::harness::flows::capability::CapabilityPattern;
use flowcell_engines::harness::flows::rules::Rule;
use flowcell_engines::harness::journal::Kind;
use flowcell_engines::harness::kernel::{
    Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SeededEntropy,
    SystemClock, Workspace,
};
use flowcell_engines::harness::realm::Limits;
use flowcell_engines::harness::replay::replay;
use flowcell_engines::harness::report::{ReportStatus, RunReport};
use flowcell_engines::harness::services::Services;
use flowcell_engines::harness::standard;
use flowcell_engines::memory::Memory;
use serde_json::{Value, json};

use crate::world::{options, owner, run};

/// Keeps snapshots as folders of copied files.
struct Folders {
    files: FileSystem,
    root: PathBuf,
    kept: PathBuf,
    taken: AtomicUsize,
    opened: AtomicUsize,
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[async_trait]
impl Checkpoints for Folders {
    async fn capture(&self, _run: &str) -> Result<String, Unavailable> {
        if self.root.join("unkeepable").exists() {
            return Err(Unavailable("the tree has too much in it".into()));
        }
        let reference = format!("s{}", self.taken.fetch_add(1, Ordering::SeqCst));
        copy(&self.root, &self.kept.join(&reference));
        Ok(reference)
    }

    async fn view(&self, reference: &str) -> Result<View, Unavailable> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let gone = |error: String| Unavailable(format!("the snapshot {reference} is not there: {error}"));
        let files = self.files.over(self.kept.join(reference)).map_err(|error| gone(error.to_string()))?;
        Ok(View { files, guard: Box::new(()) })
    }

    async fn scratch(&self, reference: &str) -> Result<View, Unavailable> {
        self.view(reference).await
    }
}

/// A workspace with snapshots, and a store of runs.
struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    services: Services,
    folders: Arc<Folders>,
    calls: CellCalls,
    store: flowcell_engines::Store,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a"), "first").unwrap();
        let mut grants = GrantStoreOptions::new(&root, Arc::new(MemoryPersist::new())).unattended();
        grants.configured = vec![Rule::allow(CapabilityPattern::parse("fs:*:**").unwrap())];
        let authority = Authority::root(GrantStore::open(grants).await.unwrap());
        let entropy = Arc::new(SeededEntropy::new(1));
        let workspace = Workspace::open(&root).unwrap();
        let files =
            FileSystem::new(authority, workspace, FsOptions::default(), Arc::clone(&entropy) as _).unwrap();
        let folders = Arc::new(Folders {
            files: files.clone(),
            root: root.clone(),
            kept: folder.path().join("kept"),
            taken: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
        });
        let mut services = Services::new(files, Arc::new(SystemClock::new()), entropy);
        services.checkpoints = Some(Arc::clone(&folders) as _);
        let calls = CellCalls::of_catalog(Catalog::of(standard::bindings().unwrap()).unwrap());
        Self { _folder: folder, root, services, folders, calls, store: Memory::new().open(options()) }
    }

    fn params(cells: &[&str], checkpoints: bool) -> ExecParams {
        let cell = |text: &&str| CellText { name: "cell".into(), text: (*text).to_owned() };
        ExecParams {
            kind: ExecKind::Exec,
            cells: cells.iter().map(cell).collect(),
            reply: false,
            stop: StopReason::End,
            checkpoints,
        }
    }

    fn host(&self) -> Host<'_> {
        Host { calls: &self.calls, services: &self.services, observer: &Unobserved }
    }

    async fn start(&self, cells: &[&str], checkpoints: bool) -> RunReport {
        let spec = spec(run("r"), &Self::params(cells, checkpoints), Limits::default(), &self.calls).unwrap();
        start(&self.store, spec, owner(1), &self.host()).await.unwrap()
    }

    async fn checkpoints(&self) -> Vec<Value> {
        let rows = self.store.rows(&run("r"), 0).await.unwrap();
        rows.into_iter().filter(|row| row.kind == Kind::Checkpoint).map(|row| row.payload).collect()
    }

    fn taken(&self) -> usize {
        self.folders.taken.load(Ordering::SeqCst)
    }
}

const READ: &str = "const read = async (at) => { const r = await ctx.call('read', {path: 'a'}, {at}); return r.ok === false ? \
                    r.error.code : r.content; };";

#[tokio::test]
async fn a_checkpoint_holds_what_the_tree_was() {
    let world = World::new().await;
    let cell = format!(
        "{READ} const cp = await ctx.checkpoint(); await ctx.call('write', {{path: 'a', content: 'second'}}); \
         const later = await ctx.checkpoint(); await ctx.call('write', {{path: 'a', content: 'third'}}); \
         ctx.done([await read(), await read(cp), await read(later), await read(ctx.base), cp, later])"
    );
    let report = world.start(&[&cell], true).await;
    let handles = [json!({"checkpoint": "cp-0-0"}), json!({"checkpoint": "cp-0-2"})];
    assert_eq!(report.output, Some(json!(["third", "first", "second", "first", handles[0], handles[1]])));
    // The base is taken before the first call that is not sealed, once.
    let taken = world.checkpoints().await;
    let ids: Vec<&str> = taken.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!((ids, world.taken()), (vec!["cp-0-0", "base", "cp-0-2"], 3));
    let replayed = replay(&world.store, &run("r"), &world.host()).await.unwrap();
    assert!(replayed.ok, "{replayed:?}");
    assert_eq!(world.taken(), 3);
    assert_eq!(world.store.list(Page::default()).await.unwrap().len(), 1);
    let calls = &report.frames[0].calls;
    assert_eq!((calls[0].flow.as_str(), &calls[0].input, calls[0].ok), ("checkpoint", &Value::Null, true));
    assert_eq!(calls[5].at.as_deref(), Some("cp-0-0"));
}

#[tokio::test]
async fn a_resumed_run_finds_its_checkpoints_and_takes_none_again() {
    let world = World::new().await;
    let first = format!(
        "{READ} const cp = await ctx.checkpoint(); await ctx.call('write', {{path: 'a', content: 'second'}}); \
         ctx.park('waiting-event', 'later')"
    );
    let second = "ctx.done([await read(cp), await read(ctx.base), await read()])";
    let report = world.start(&[&first, second], true).await;
    assert_eq!(report.status, ReportStatus::Suspended);
    assert_eq!(world.taken(), 2);
    let report = resume(&world.store, &run("r"), owner(2), &world.host()).await.unwrap();
    assert_eq!(report.output, Some(json!(["first", "first", "second"])), "{report:?}");
    assert_eq!(world.taken(), 2);
}

#[tokio::test]
async fn a_reading_run_takes_its_base_when_it_is_first_used() {
    let world = World::new().await;
    let cell = format!("{READ} await read(); await read(); ctx.done(await read(ctx.base))");
    assert_eq!(world.start(&[&cell], true).await.output, Some(json!("first")));
    assert_eq!(world.taken(), 1);
    let world = World::new().await;
    let cell = format!("{READ} ctx.done(await read())");
    world.start(&[&cell], true).await;
    assert_eq!(world.taken(), 0, "a run that only reads the live tree has no base");
}

#[tokio::test]
async fn what_cannot_be_had_says_so() {
    let world = World::new().await;
    let cell = "const code = async (flow, input, at) => { const r = await ctx.call(flow, input, {at}); return r.ok === false ? \
                r.error.code : 'ok'; }; const cp = await ctx.checkpoint(); ctx.done([await code('write', {path: 'a', content: 'x'}, cp), \
                await code('update_plan', {plan: []}, cp), await code('read', {path: 'a'}, {checkpoint: 'cp-9-9'}), \
                await code('read', {path: 'a'}, {}), await code('nothing', {}, cp), await code('read', {path: 'gone'}, cp)])";
    let codes = json!([
        "checkpoint_readonly",
        "checkpoint_unsupported",
        "checkpoint_unavailable",
        "invalid_input",
        "unknown_flow",
        "flow_failed"
    ]);
    assert_eq!(world.start(&[cell], true).await.output, Some(codes));
    // A run that was started without them has none, whoever takes it up.
    let world = World::new().await;
    let cell = "const r = await ctx.checkpoint(); const s = await ctx.call('read', {path: 'a'}, {at: ctx.base}); \
                ctx.done([r.error.code, s.error.code])";
    let none = json!(["checkpoint_unavailable", "checkpoint_unavailable"]);
    assert_eq!(world.start(&[cell], false).await.output, Some(none));
    assert!(world.checkpoints().await.is_empty() && world.taken() == 0);
}

#[tokio::test]
async fn a_snapshot_that_fails_is_settled_once() {
    let world = World::new().await;
    std::fs::write(world.root.join("unkeepable"), "").unwrap();
    let first = format!(
        "{READ} const r = await ctx.checkpoint(); await ctx.call('write', {{path: 'b', content: ''}}); ctx.park('waiting-event', '')"
    );
    let second = "ctx.done([r.error.code, r.error.message, await read(ctx.base)])";
    world.start(&[&first, second], true).await;
    // The tree can be kept by now: the base of this run is still the one that could not be taken.
    std::fs::remove_file(world.root.join("unkeepable")).unwrap();
    let report = resume(&world.store, &run("r"), owner(2), &world.host()).await.unwrap();
    let why = "the tree has too much in it";
    assert_eq!(report.output, Some(json!(["checkpoint_unavailable", why, "checkpoint_unavailable"])));
    assert_eq!(world.taken(), 0);
}

#[tokio::test]
async fn a_run_mints_so_many_and_no_more() {
    let world = World::new().await;
    let cell = "const all = []; for (let i = 0; i < 10; i++) all.push(await ctx.checkpoint()); \
                ctx.done(all.map(r => r.ok === false ? r.error.code : r.checkpoint))";
    let output = world.start(&[cell], true).await.output.unwrap();
    let output = output.as_array().unwrap();
    assert_eq!(output[CHECKPOINT_CAP - 1], json!("cp-0-7"));
    assert!(output[CHECKPOINT_CAP..].iter().all(|code| code == "checkpoint_exhausted"));
    assert_eq!(world.taken(), CHECKPOINT_CAP);
}

#[tokio::test]
async fn a_snapshot_that_is_gone_is_unavailable_and_no_failure_of_the_run() {
    let world = World::new().await;
    let first = format!("{READ} const cp = await ctx.checkpoint(); ctx.park('waiting-event', '')");
    world.start(&[&first, "ctx.done(await read(cp))"], true).await;
    std::fs::remove_dir_all(&world.folders.kept).unwrap();
    let report = resume(&world.store, &run("r"), owner(2), &world.host()).await.unwrap();
    assert_eq!(report.output, Some(json!("checkpoint_unavailable")));
}
