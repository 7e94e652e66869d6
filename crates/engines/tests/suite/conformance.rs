//! Every store passes the suite.

use flowcell_engine_conformance as suite;
use flowcell_engine_conformance::Factory;

#[cfg(feature = "sqlite")]
use crate::subject::Files;
use crate::subject::Memories;

macro_rules! points {
    ($($store:ident: $factory:expr => [$($point:ident),*];)*) => {$(
        mod $store {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $point() {
                    let root = tempfile::tempdir().unwrap();
                    let factory: &dyn Factory = &$factory;
                    let report = suite::$point(factory, root.path()).await;
                    let report = report.unwrap_or_else(|why| panic!("{why}"));
                    assert!(report.cases > 0, "{report:?}");
                }
            )*
        }
    )*};
}

points! {
    memory: Memories => [
        boundaries, crashes_before, crashes_during, crashes_after, effect_ledger, replay_purity, divergence,
        permission_park, concurrency, storage_faults
    ];
}

#[cfg(feature = "sqlite")]
points! {
    sqlite: Files => [
        boundaries, crashes_before, crashes_during, crashes_after, effect_ledger, replay_purity, divergence,
        permission_park, concurrency, storage_faults
    ];
}
