//! Which grants of a journal the user gave: a line for each, in the user's configuration folder.
//!
//! The grant journal lies in the data folder, and a data folder can come with a cloned workspace (CLI contract 3: a
//! workspace cannot grant itself anything). So a grant that outlives its call counts only when it stands here too, with
//! the digest of its event: whoever ships a journal cannot write here. One file a store, named by the digest of the
//! store's path; the answers for one call stand beside it, one file a run.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use flowcell_engines::harness::flows::canonical::{self, sha256_hex};
use flowcell_engines::harness::kernel::{
    Clock, GRANT_SOURCE, GrantEvent, Persist, PersistError, PersistedEvent,
};
use serde_json::Value;

use crate::environment::read_bounded;

mod once;

pub(crate) use once::{OncePins, OnceStore};

/// The largest file of pins, in bytes: more than the kernel's bound on rules comes to.
const MAX_PINS_BYTES: u64 = 4 << 20;

/// The event types that give authority beyond the call they were asked for. `once`, `denied` and `revoked` give none.
const GIVING: [&str; 3] = [GrantEvent::RUN, GrantEvent::REMEMBERED, GrantEvent::ENVELOPE];

/// The pinned grants of one store.
#[derive(Clone, Debug)]
pub struct GrantPins {
    file: PathBuf,
}

/// A grant that the user gave: its run, its place in the journal and the digest of its event.
type Pinned = (String, u64, String);

impl GrantPins {
    /// The pins of the store at a path, in a configuration folder of flowcell.
    pub fn new(config: &Path, store: &Path) -> Self {
        let place = match (store.parent().map(fs::canonicalize), store.file_name()) {
            (Some(Ok(folder)), Some(name)) => folder.join(name),
            _ => store.to_owned(),
        };
        Self { file: config.join("grants").join(sha256_hex(place.as_os_str().as_encoded_bytes())) }
    }

    /// The pins of one run of the store.
    fn of_run(&self, run: &str) -> Self {
        let store = self.file.file_name().unwrap_or_default().to_string_lossy();
        Self { file: self.file.with_file_name(sha256_hex(format!("{store} {run}").as_bytes())) }
    }

    /// Keeps other processes from writing pins until it is dropped: one that is added while others are rewritten would
    /// be lost.
    fn lock(&self) -> io::Result<fs::File> {
        if let Some(folder) = self.file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.file.with_file_name("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// When each pinned grant was given, in milliseconds since 1970. A line that does not read pins nothing.
    fn read(&self) -> io::Result<HashMap<Pinned, i64>> {
        let bytes = match read_bounded(&self.file, MAX_PINS_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        let pin = |line: &str| {
            let mut parts = line.split(' ');
            let (run, seq, digest, at) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let whole = parts.next().is_none();
            whole.then_some(((run.to_owned(), seq.parse().ok()?, digest.to_owned()), at.parse().ok()?))
        };
        Ok(text.lines().filter_map(pin).collect())
    }

    /// Pins a grant that the user has just given.
    ///
    /// # Errors
    /// When the pin cannot be written; then the grant does not count.
    pub fn add(&self, run: &str, seq: u64, event: &Value, at_ms: i64) -> io::Result<()> {
        let _alone = self.lock()?;
        let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        // A line in one write. The break in front of it ends a torn line.
        file.write_all(format!("\n{run} {seq} {} {at_ms}\n", digest(event)?).as_bytes())?;
        file.sync_all()
    }

    /// Takes the pin of a revoked grant away, so that the grant does not come back with an older copy of the journal.
    ///
    /// # Errors
    /// When the pins cannot be rewritten.
    pub fn remove(&self, run: &str, seq: u64) -> io::Result<()> {
        let _alone = self.lock()?;
        let mut left: Vec<(Pinned, i64)> = self.read()?.into_iter().collect();
        left.retain(|((of, at, _), _)| !(of == run && *at == seq));
        left.sort();
        let text: String = left
            .into_iter()
            .map(|((run, seq, digest), at_ms)| format!("{run} {seq} {digest} {at_ms}\n"))
            .collect();
        let beside = self.file.with_extension(std::process::id().to_string());
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut out| {
                out.write_all(text.as_bytes())?;
                out.sync_all()
            })
            .and_then(|()| fs::rename(&beside, &self.file));
        if written.is_err() {
            // The pins are as they were; what is left of it is of no use.
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// When a grant was given, in milliseconds since 1970; `None` for one that the user did not give here.
    ///
    /// # Errors
    /// When the pins cannot be read.
    pub fn given_at(&self, run: &str, seq: u64, event: &Value) -> io::Result<Option<i64>> {
        Ok(self.read()?.get(&(run.to_owned(), seq, digest(event)?)).copied())
    }
}

const NO_PLACE: &str = "there is no configuration folder; set HOME or XDG_CONFIG_HOME";

fn unread(error: &io::Error) -> PersistError {
    PersistError::new(format!("the user's grants cannot be read or written: {error}"))
}

fn refused(why: &str) -> PersistError {
    PersistError::new(format!("the grant cannot be kept for this user: {why}"))
}

fn digest(event: &Value) -> io::Result<String> {
    canonical::digest(event).map_err(io::Error::other)
}

/// A grant journal of which only what the user gave stands. Without pins nothing does.
pub struct PinnedPersist {
    journal: Arc<dyn Persist>,
    pins: Option<GrantPins>,
    clock: Arc<dyn Clock>,
    /// Everything stands.
    trusting: bool,
}

impl PinnedPersist {
    /// A journal under the pins of its store.
    pub fn new(journal: Arc<dyn Persist>, pins: Option<GrantPins>, clock: Arc<dyn Clock>) -> Self {
        Self { journal, pins, clock, trusting: false }
    }

    /// A journal that nobody else can have written.
    pub fn trusting(journal: Arc<dyn Persist>, clock: Arc<dyn Clock>) -> Self {
        Self { journal, pins: None, clock, trusting: true }
    }

    /// Pins a grant that was appended to the journal past this wrapper.
    ///
    /// # Errors
    /// When the pin cannot be written; then the grant does not count.
    pub fn pin_event(&self, run: &str, event: &PersistedEvent) -> Result<(), PersistError> {
        if !GIVING.contains(&event.event_type.as_str()) {
            return Ok(());
        }
        self.pin(run, event.seq, &event.event)
    }

    /// Whether there is a place for pins.
    ///
    /// # Errors
    /// When there is none.
    pub fn check(&self) -> Result<(), PersistError> {
        if self.trusting || self.pins.is_some() { Ok(()) } else { Err(refused(NO_PLACE)) }
    }

    /// The grants of a run that stand, each with when it was given, in milliseconds since 1970.
    ///
    /// # Errors
    /// When the journal or the pins cannot be read.
    pub async fn given(&self, run: &str) -> Result<Vec<(PersistedEvent, i64)>, PersistError> {
        let Some(pins) = &self.pins else { return Ok(Vec::new()) };
        let (mut after, mut given) = (0, Vec::new());
        loop {
            let page = self.page(run, after, 256).await?;
            let Some(last) = page.last() else { return Ok(given) };
            after = last.seq;
            for event in page {
                let at = pins.given_at(run, event.seq, &event.event);
                if let Some(at) = at.map_err(|error| unread(&error))? {
                    given.push((event, at));
                }
            }
        }
    }

    /// Takes the pin of a revoked grant away.
    ///
    /// # Errors
    /// When the pins cannot be rewritten.
    pub fn unpin(&self, run: &str, seq: u64) -> Result<(), PersistError> {
        self.pins.as_ref().map_or(Ok(()), |pins| pins.remove(run, seq)).map_err(|error| unread(&error))
    }

    fn pin(&self, run: &str, seq: u64, event: &Value) -> Result<(), PersistError> {
        if self.trusting {
            return Ok(());
        }
        let pins = self.pins.as_ref().ok_or_else(|| refused(NO_PLACE))?;
        if pins.given_at(run, seq, event).map_err(|error| refused(&error.to_string()))?.is_some() {
            return Ok(());
        }
        pins.add(run, seq, event, self.clock.wall_ms()).map_err(|error| refused(&error.to_string()))
    }
}

#[async_trait]
impl Persist for PinnedPersist {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        let seq = self.journal.append(run, event_type, event).await?;
        if GIVING.contains(&event_type) {
            self.pin(run, seq, event)?;
        }
        Ok(seq)
    }

    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        let appended = self.journal.append_after(run, last, event_type, event).await?;
        if let Some(seq) = appended
            && GIVING.contains(&event_type)
        {
            self.pin(run, seq, event)?;
        }
        Ok(appended)
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        if self.trusting {
            return self.journal.page(run, after, limit).await;
        }
        let pins = match &self.pins {
            None => HashMap::new(),
            Some(pins) => pins.read().map_err(|error| unread(&error))?,
        };
        let (mut after, mut kept) = (after, Vec::new());
        while kept.len() < limit {
            let page = self.journal.page(run, after, limit).await?;
            let whole = page.len() == limit;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in page {
                let gives = event.source == GRANT_SOURCE && GIVING.contains(&event.event_type.as_str());
                let stands = !gives
                    || canonical::digest(&event.event)
                        .is_ok_and(|digest| pins.contains_key(&(run.to_owned(), event.seq, digest)));
                if stands && kept.len() < limit {
                    kept.push(event);
                }
            }
            if !whole {
                break;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use flowcell_engines::harness::kernel::{MemoryPersist, POLICY_RUN, SystemClock};
    use serde_json::json;

    use super::*;

    const REMEMBERED: &str = GIVING[1];

    #[tokio::test]
    async fn only_what_the_user_gave_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let pins = GrantPins::new(&folder.path().join("flowcell"), Path::new("/ws/.flowcell/flowcell.db"));
        let journal = Arc::new(MemoryPersist::new());
        // Shipped with the workspace: grants that nobody gave here, and events that give nothing.
        for number in 0..600 {
            journal.append(POLICY_RUN, REMEMBERED, &json!({"n": number})).await.unwrap();
        }
        journal.append(POLICY_RUN, "flowcell.kernel.grant.revoked.v1", &json!({"seq": 1})).await.unwrap();
        let clock = Arc::new(SystemClock::new());
        let pinned = |pins| PinnedPersist::new(Arc::clone(&journal) as Arc<dyn Persist>, pins, clock.clone());
        let own = pinned(Some(pins.clone()));
        let given = own.append(POLICY_RUN, REMEMBERED, &json!({"n": "mine"})).await.unwrap();
        assert_eq!(given, 602);
        let read = own.page(POLICY_RUN, 0, 256).await.unwrap();
        assert_eq!(read.iter().map(|event| event.seq).collect::<Vec<_>>(), [601, 602]);
        assert_eq!(own.page(POLICY_RUN, 0, 1).await.unwrap()[0].seq, 601);
        assert_eq!(own.page(POLICY_RUN, 601, 1).await.unwrap()[0].seq, 602);
        assert!(own.page(POLICY_RUN, 602, 1).await.unwrap().is_empty());
        // Another store's pins, and no pins at all.
        let other = GrantPins::new(&folder.path().join("flowcell"), Path::new("/other/flowcell.db"));
        assert_eq!(pinned(Some(other)).page(POLICY_RUN, 0, 256).await.unwrap().len(), 1);
        let none = pinned(None);
        assert_eq!(none.page(POLICY_RUN, 0, 256).await.unwrap().len(), 1);
        let refused = none.append(POLICY_RUN, REMEMBERED, &json!({})).await.unwrap_err();
        assert!(refused.message.contains("set HOME"), "{refused}");
        // A revoked grant has no pin, whatever journal is there later.
        let event = json!({"n": "mine"});
        assert!(pins.given_at(POLICY_RUN, given, &event).unwrap().is_some());
        pins.remove(POLICY_RUN, given).unwrap();
        assert_eq!(pins.given_at(POLICY_RUN, given, &event).unwrap(), None);
        assert_eq!(own.page(POLICY_RUN, 0, 256).await.unwrap().len(), 1);
    }

    #[test]
    fn a_pin_that_is_added_while_others_go_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let pins = GrantPins::new(folder.path(), Path::new("/ws/db"));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let pins = &pins;
                scope.spawn(move || {
                    for number in 0..20 {
                        let (kept, gone) = (thread * 100 + number, thread * 100 + number + 50);
                        pins.add("r", kept, &json!({}), 1).unwrap();
                        pins.add("r", gone, &json!({}), 1).unwrap();
                        pins.remove("r", gone).unwrap();
                    }
                });
            }
        });
        let mut left: Vec<u64> = pins.read().unwrap().into_keys().map(|(_, seq, _)| seq).collect();
        left.sort_unstable();
        let kept = (0..4).flat_map(|thread| (0..20).map(move |number| thread * 100 + number));
        assert_eq!(left, kept.collect::<Vec<u64>>());
    }

    #[test]
    fn a_torn_line_pins_nothing_and_spoils_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pins = GrantPins::new(folder.path(), Path::new("/ws/db"));
        fs::create_dir(folder.path().join("grants")).unwrap();
        fs::write(&pins.file, "policy 1 abc").unwrap();
        pins.add("r", 2, &json!({}), 7).unwrap();
        assert_eq!(pins.given_at("r", 2, &json!({})).unwrap(), Some(7));
        assert_eq!(pins.read().unwrap().len(), 1);
    }
}
