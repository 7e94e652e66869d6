//! The grant journals of the stores, held to the kernel's suite (kernel contract 5.1).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use flowcell_engines::harness::engine::RunStore;
use flowcell_engines::memory::Memory;
use flowcell_kernel::conformance::{self, Journals};
use flowcell_kernel::{Persist, PersistError};

use crate::world::options;

/// One set of data in memory a name.
#[derive(Default)]
struct Memories(Mutex<HashMap<String, Memory>>);

#[async_trait]
impl Journals for Memories {
    async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(name.to_owned()).or_default().open(options()).grants())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_engine_keeps_grants() {
    assert_eq!(conformance::run(Arc::new(Memories::default())).await, []);
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn the_sqlite_engine_keeps_grants() {
    /// One file a name; a handle opens it anew, as another process does.
    struct Files(tempfile::TempDir);

    #[async_trait]
    impl Journals for Files {
        async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
            let path = self.0.path().join(format!("{name}.db"));
            let opened =
                tokio::task::spawn_blocking(move || flowcell_engines::sqlite::open(&path, options()));
            let store = opened.await.map_err(|error| PersistError::new(error.to_string()))?;
            Ok(store.map_err(|error| PersistError::new(error.to_string()))?.grants())
        }
    }

    assert_eq!(conformance::run(Arc::new(Files(tempfile::tempdir().unwrap()))).await, []);
}
