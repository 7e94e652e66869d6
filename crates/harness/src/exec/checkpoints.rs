//! The checkpoints of a run: what was minted, and the records behind it (harness contract 7, host contract 8).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Host;
use crate::checkpoint::{BASE, CheckpointTaken};
use crate::engine::{Boundary, Engine, RecordBody};
use crate::error::{Escape, HarnessError};

/// What a run knows of its checkpoints. Rebuilt from records by every execution.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Whether the run keeps checkpoints at all.
    pub(super) enabled: bool,
    base: Option<CheckpointTaken>,
    minted: BTreeMap<String, String>,
}

impl Taken {
    pub(super) fn new(enabled: bool) -> Self {
        Self { enabled, ..Self::default() }
    }

    /// How many checkpoints the run has minted, its base aside.
    pub(super) fn minted(&self) -> usize {
        self.minted.len()
    }

    /// The snapshot behind an id, or why there is none.
    pub(super) fn reference(&self, id: &str) -> Result<String, String> {
        if id == BASE {
            let base = self.base.as_ref();
            let why = || base.and_then(|base| base.why.clone()).unwrap_or_else(none_here);
            return base.and_then(|base| base.reference.clone()).ok_or_else(why);
        }
        self.minted.get(id).cloned().ok_or_else(|| format!("This run has no checkpoint {id:?}."))
    }

    /// Takes the run's base, or finds it again. Comes before the first call that is not sealed, and before the first use.
    pub(super) async fn base(&mut self, engine: &dyn Engine, host: &Host<'_>) -> Result<(), Escape> {
        if self.base.is_none() {
            let at = Boundary::base(&engine.opened().session);
            self.base = Some(take(engine, host, at, BASE.to_owned()).await?);
        }
        Ok(())
    }

    /// Mints a checkpoint, or finds it again: its id, or why none was taken.
    pub(super) async fn mint(
        &mut self,
        engine: &dyn Engine,
        host: &Host<'_>,
        at: Boundary,
        id: String,
    ) -> Result<Result<String, String>, Escape> {
        let taken = take(engine, host, at, id).await?;
        Ok(self.add(taken))
    }

    /// Finds the record of a mint that a cut passed over. There need not be one.
    pub(super) async fn claim(&mut self, engine: &dyn Engine, at: Boundary) {
        let nothing: RecordBody<'_> = Box::new(|| Box::pin(async { Err(Escape::Aborted) }));
        if let Ok(found) = engine.record(at, nothing).await
            && let Ok(taken) = CheckpointTaken::deserialize(&found.value)
        {
            let _ = self.add(taken);
        }
    }

    fn add(&mut self, taken: CheckpointTaken) -> Result<String, String> {
        let CheckpointTaken { id, reference, why } = taken;
        let reference = reference.ok_or_else(|| why.unwrap_or_else(none_here))?;
        self.minted.insert(id.clone(), reference);
        Ok(id)
    }
}

pub(super) fn none_here() -> String {
    "This host keeps no checkpoints.".to_owned()
}

async fn take(
    engine: &dyn Engine,
    host: &Host<'_>,
    at: Boundary,
    id: String,
) -> Result<CheckpointTaken, Escape> {
    let ceiling = Duration::from_millis(engine.opened().limits.call_ms);
    let (run, services) = (engine.run().to_string(), host.services);
    let body: RecordBody<'_> = Box::new(move || {
        Box::pin(async move {
            let snapshot = match &services.checkpoints {
                None => Err(none_here()),
                Some(store) => match tokio::time::timeout(ceiling, store.capture(&run)).await {
                    Ok(snapshot) => snapshot.map_err(|unavailable| unavailable.0),
                    Err(_) => {
                        Err(format!("The snapshot was not taken within {} seconds.", ceiling.as_secs_f64()))
                    }
                },
            };
            let taken = match snapshot {
                Ok(reference) => CheckpointTaken { id, reference: Some(reference), why: None },
                Err(why) => CheckpointTaken { id, reference: None, why: Some(why) },
            };
            serde_json::to_value(taken).map_err(|error| HarnessError::engine(error.to_string()).into())
        })
    });
    let found = engine.record(at, body).await?;
    CheckpointTaken::deserialize(&found.value).map_err(|error| {
        HarnessError::engine(format!("the record of a checkpoint does not read: {error}")).into()
    })
}
