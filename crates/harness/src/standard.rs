//! The standard catalog: the standard flows that this build has a handler for.

use std::fmt;
use std::sync::Arc;

use crate::kernel::{Evaluator, Handler};
use flowcell_host::container::Container;
use flowcell_host::process::ProcessOptions;
use flowcell_host::runner::TestRunner;
use flowcell_host::{
    ApplyPatchHandler, BashHandler, EditHandler, LsHandler, ReadHandler, ShellCommandHandler, TestHandler,
    UpdatePlanHandler, WriteHandler,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::binding::Binding;
use crate::checkpoint::AtCheckpoint;
use crate::error::{HarnessCode, HarnessError};
use crate::flows::manifest::Manifest;

/// What a host sets up for the standard flows.
#[derive(Clone)]
pub struct StandardOptions {
    /// How commands are run: the supervisor, the private directories, whether confinement is required.
    pub processes: ProcessOptions,
    /// The declared test runner; without one `test` answers `provider_unavailable`.
    pub runner: Option<Arc<dyn TestRunner>>,
    /// The transport into containers; without one a call that names a container answers `provider_unavailable`.
    pub container: Option<Arc<dyn Container>>,
    /// Judges whether a failed test command speaks of the tree.
    pub evaluator: Option<Arc<dyn Evaluator>>,
    /// How many threads searches share.
    pub search_threads: usize,
}

impl Default for StandardOptions {
    fn default() -> Self {
        Self {
            processes: ProcessOptions::default(),
            runner: None,
            container: None,
            evaluator: None,
            search_threads: 1,
        }
    }
}

impl fmt::Debug for StandardOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandardOptions")
            .field("processes", &self.processes)
            .field("search_threads", &self.search_threads)
            .finish_non_exhaustive()
    }
}

/// The bindings of the standard flows on a host that set up nothing.
///
/// # Errors
/// As [`bindings_with`].
pub fn bindings() -> Result<Vec<Binding>, HarnessError> {
    bindings_with(&StandardOptions::default())
}

/// The bindings of the standard flows, in the order of the manifest.
///
/// Standard handlers word their errors for the model, so their messages reach the cell.
///
/// # Errors
/// `assembly_failed` when a flow is not in the manifest, which would be a defect of this crate.
pub fn bindings_with(options: &StandardOptions) -> Result<Vec<Binding>, HarnessError> {
    let host = flowcell_host::SOURCES;
    let processes = || options.processes.clone();
    let mut bindings = vec![
        bind("read", host, ReadHandler)?,
        bind("write", host, WriteHandler)?,
        bind("edit", host, EditHandler)?,
        bind("ls", host, LsHandler)?,
    ];
    #[cfg(feature = "search")]
    {
        use flowcell_search::{Engine, GlobHandler, GrepHandler, SOURCES, Search};
        let engine: Arc<dyn Search> = Arc::new(Engine::with_threads(options.search_threads));
        bindings.push(bind("glob", SOURCES, GlobHandler::new(Arc::clone(&engine)))?);
        bindings.push(bind("grep", SOURCES, GrepHandler::new(engine))?);
    }
    bindings.push(bind(
        "bash",
        host,
        BashHandler::new(options.container.clone()).with_processes(processes()),
    )?);
    let mut test = TestHandler::new(options.runner.clone()).with_processes(processes());
    if let Some(container) = &options.container {
        test = test.with_container(Arc::clone(container));
    }
    if let Some(evaluator) = &options.evaluator {
        test = test.with_evaluator(Arc::clone(evaluator));
    }
    bindings.push(bind("test", host, test)?);
    bindings.push(bind("shell_command", host, ShellCommandHandler::new(processes()))?);
    bindings.push(bind("apply_patch", host, ApplyPatchHandler)?);
    bindings.push(bind("update_plan", host, UpdatePlanHandler)?);
    Ok(bindings)
}

/// Binds a handler to the standard declaration of its name. `sources` holds the source text of handlers by flow.
///
/// # Errors
/// `assembly_failed` when the manifest or `sources` has no such flow.
pub fn bind<H>(name: &str, sources: &[(&str, &[u8])], handler: H) -> Result<Binding, HarnessError>
where
    H: Handler + 'static,
    H::Input: DeserializeOwned + Send,
    H::Output: Serialize + Send,
{
    let failed =
        |what: &str| HarnessError::new(HarnessCode::AssemblyFailed, format!("{name:?} has no {what}"));
    let decl = Manifest::standard().get(name).ok_or_else(|| failed("standard declaration"))?;
    let (_, source) =
        sources.iter().find(|(flow, _)| *flow == name).ok_or_else(|| failed("handler source"))?;
    let at = match name {
        "read" | "ls" | "glob" | "grep" => AtCheckpoint::Reads,
        "bash" | "test" | "shell_command" => AtCheckpoint::Runs,
        _ => AtCheckpoint::Unsupported,
    };
    Ok(Binding::of_handler(decl, source, handler).with_authored_errors().at_checkpoints(at))
}
