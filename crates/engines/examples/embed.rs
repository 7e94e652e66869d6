//! A host of its own: the standard flows and one more, a run that parks for a permission, an answer, and the end.
//!
//! ```sh
//! cargo run -p flowcell-engines --example embed
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use flowcell_engines::harness::binding::Binding;
use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::catalog::Catalog;
use flowcell_engines::harness::engine::RunStore;
use flowcell_engines::harness::exec::{
    CellText, ExecKind, ExecParams, Host, Unobserved, resume, spec, start,
};
use flowcell_engines::harness::extract::StopReason;
use flowcell_engines::harness::flows::capability::{Capability, CapabilityPattern};
use flowcell_engines::harness::flows::descriptor::Declared;
use flowcell_engines::harness::flows::rules::Rule;
use flowcell_engines::harness::flows::schema::SchemaDoc;
use flowcell_engines::harness::journal::{Resolution, RunId};
use flowcell_engines::harness::kernel::{
    Authority, CallContext, FileSystem, FsOptions, GrantStore, GrantStoreOptions, Handler, HandlerError,
    Meta, SystemClock, SystemEntropy, Workspace,
};
use flowcell_engines::harness::realm::Limits;
use flowcell_engines::harness::services::Services;
use flowcell_engines::harness::standard;
use flowcell_engines::{StoreOptions, process_owner, sqlite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Vote {
    /// How many votes to add.
    count: u32,
}

#[derive(Serialize, JsonSchema)]
struct Votes {
    /// Votes in all.
    total: u32,
}

/// A flow of this host. It asks for what it needs; when nobody gave it, the run parks.
struct Ballot(Arc<AtomicU32>);

#[async_trait]
impl Handler for Ballot {
    type Input = Vote;
    type Output = Votes;

    async fn run(&self, cx: &CallContext, vote: Vote) -> Result<Votes, HandlerError> {
        if let Some(capability) = Capability::parse("net:post:ballot.example") {
            cx.authority.check(capability, Meta::new()).await?;
        }
        Ok(Votes { total: self.0.fetch_add(vote.count, Ordering::SeqCst) + vote.count })
    }
}

const CELL: &str = r#"
const note = await ctx.call("read", { path: "note.txt" });
const votes = await ctx.call("vote", { count: 3 });
ctx.done({ note: note.content, votes });
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("note.txt"), "hello\n")?;
    let run = RunId::new("election")?;

    // The host's services: a policy, a workspace, files behind both.
    let workspace = Workspace::open(folder.path())?;
    let clock = Arc::new(SystemClock::new());
    let entropy = Arc::new(SystemEntropy::new()?);
    let store = sqlite::open(&folder.path().join("runs.db"), StoreOptions::new(clock.clone())?)?;
    let reading = format!("fs:read:{}/**", workspace.logical());
    let mut policy = GrantStoreOptions::new(workspace.logical(), store.grants()).unattended();
    policy.configured.extend(CapabilityPattern::parse(&reading).map(Rule::allow));
    policy.run_id = Some(run.to_string());
    let authority = Authority::root(GrantStore::open(policy).await?);
    let files = FileSystem::new(authority, workspace, FsOptions::default(), entropy.clone())?;
    let services = Services::new(files, clock, entropy);

    // The catalog: the standard flows, and this host's own.
    let votes = Arc::new(AtomicU32::new(0));
    let mut declared =
        Declared::new("vote", "Add votes to the ballot.", SchemaDoc::of::<Vote>(), SchemaDoc::of::<Votes>());
    declared.capabilities = vec!["net:post:*".into()];
    let mut bindings = standard::bindings()?;
    bindings.push(Binding::of_handler(declared, include_bytes!("embed.rs"), Ballot(Arc::clone(&votes))));
    let calls = CellCalls::of_catalog(Catalog::of(bindings)?);

    let params = ExecParams {
        kind: ExecKind::Exec,
        cells: vec![CellText { name: "cell".into(), text: CELL.into() }],
        reply: false,
        stop: StopReason::End,
        checkpoints: false,
    };
    let host = Host { calls: &calls, services: &services, observer: &Unobserved };
    let opened = spec(run.clone(), &params, Limits::default(), &calls)?;
    let mut report = start(&store, opened, process_owner()?, &host).await?;
    while let Some(suspended) = &report.suspended {
        let asked = suspended.request.as_ref().map_or("an event", |request| request.capability.as_str());
        println!("the run waits for {asked}; allowing it once");
        store.answer(&run, None, Resolution::Once.into()).await?;
        report = resume(&store, &run, process_owner()?, &host).await?;
    }
    println!("{:?}: {}", report.status, report.text.unwrap_or_default());
    println!("votes cast: {}", votes.load(Ordering::SeqCst));
    Ok(())
}
