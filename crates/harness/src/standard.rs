//! The standard catalog: the standard flows that this build has a handler for.

use crate::kernel::Handler;
use flowcell_host::{EditHandler, LsHandler, ReadHandler, UpdatePlanHandler, WriteHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::binding::Binding;
use crate::error::{HarnessCode, HarnessError};
use crate::flows::manifest::Manifest;

/// The bindings of the standard flows, in the order of the manifest.
///
/// Standard handlers word their errors for the model, so their messages reach the cell.
///
/// # Errors
/// `assembly_failed` when a flow is not in the manifest, which would be a defect of this crate.
pub fn bindings() -> Result<Vec<Binding>, HarnessError> {
    let host = flowcell_host::SOURCES;
    let mut bindings = vec![
        bind("read", host, ReadHandler)?,
        bind("write", host, WriteHandler)?,
        bind("edit", host, EditHandler)?,
        bind("ls", host, LsHandler)?,
    ];
    #[cfg(feature = "search")]
    {
        use std::sync::Arc;

        use flowcell_search::{Engine, GlobHandler, GrepHandler, SOURCES, Search};
        let engine: Arc<dyn Search> = Arc::new(Engine::with_threads(1));
        bindings.push(bind("glob", SOURCES, GlobHandler::new(Arc::clone(&engine)))?);
        bindings.push(bind("grep", SOURCES, GrepHandler::new(engine))?);
    }
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
    Ok(Binding::of_handler(decl, source, handler).with_authored_errors())
}
