//! All points.

use std::path::Path;

use crate::lab::Failure;
use crate::report::Report;
use crate::subject::Factory;
use crate::{
    boundaries, concurrency, crashes_after, crashes_before, crashes_during, divergence, effect_ledger,
    permission_park, replay_purity, storage_faults,
};

/// Runs every point, one after the other, in a workspace that has to be there and that nothing is written to.
///
/// # Errors
/// The first thing that did not hold.
pub async fn all(factory: &dyn Factory, root: &Path) -> Result<Vec<Report>, Failure> {
    Ok(vec![
        boundaries(factory, root).await?,
        crashes_before(factory, root).await?,
        crashes_during(factory, root).await?,
        crashes_after(factory, root).await?,
        effect_ledger(factory, root).await?,
        replay_purity(factory, root).await?,
        divergence(factory, root).await?,
        permission_park(factory, root).await?,
        concurrency(factory, root).await?,
        storage_faults(factory, root).await?,
    ])
}
