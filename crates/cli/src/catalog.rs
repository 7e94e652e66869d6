//! The catalog of a run: the standard flows that have a handler here, and mocks in their place or beside them.

use std::path::{Path, PathBuf};

use flowcell_engines::harness::binding::Binding;
use flowcell_engines::harness::calls::CellCalls;
use flowcell_engines::harness::catalog::Catalog;
use flowcell_engines::harness::{mock, standard};
use serde_json::Value;

use crate::context::Context;
use crate::environment::read_text;
use crate::errors::Failure;
use crate::policy::Policy;

/// The largest file of mocks, in bytes.
pub const MAX_MOCK_BYTES: u64 = 16 << 20;

/// The standard catalog with the mocks of some files: a mock takes the place of the flow of its name, and one of a new
/// name comes after the others. Of two mocks of a name the later file's counts.
///
/// # Errors
/// A file that cannot be read or is no document of mocks (exit 2).
pub fn calls(context: &Context<'_>, policy: &Policy, files: &[PathBuf]) -> Result<CellCalls, Failure> {
    let mut bindings = standard::bindings_with(&context.standard(policy))?;
    for file in files {
        for mock in mocks(context, file)? {
            match bindings.iter_mut().find(|binding| binding.name() == mock.name()) {
                Some(place) => *place = mock,
                None => bindings.push(mock),
            }
        }
    }
    Ok(CellCalls::of_catalog(Catalog::of(bindings)?))
}

fn mocks(context: &Context<'_>, file: &Path) -> Result<Vec<Binding>, Failure> {
    let path = context.path(file)?;
    let text = read_text(&path, MAX_MOCK_BYTES)
        .map_err(|error| Failure::unreadable("the mock file", file, error))?;
    let wrong = |why: String| {
        Failure::usage("invalid_input", format!("the mock file {} is wrong: {why}", file.display()))
            .at(file.display().to_string())
            .hint(
                "It is a JSON object from flow names to {tier?, input?} and one of returns, fails, ident, counter, \
                 never, permission, engine_error.",
            )
    };
    let document: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    mock::mocks(&document).map_err(|error| wrong(error.to_string()))
}
