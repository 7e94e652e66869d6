//! Faults between an answer and what comes of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flowcell_kernel::flows::rules::{CapabilitySet, Effect};
use flowcell_kernel::{
    FilePersist, GrantStore, GrantStoreCode, GrantStoreError, Meta, PERSIST_MILLIS, POLICY_RUN, Persist,
    Resolution, Source,
};
use serde_json::json;
use tokio::task::yield_now;

use crate::attended::{SLOW, Switched, WORKS, options};
use crate::support::{cap, pattern_of, rule};

type Asked = tokio::task::JoinHandle<Result<(), flowcell_kernel::PermissionError>>;

async fn park(store: &Arc<GrantStore>, request: &str) -> (String, Asked) {
    let (own, request) = (store.clone(), cap(request));
    let asked =
        tokio::spawn(async move { own.check(&CapabilitySet::unrestricted(), request, Meta::new()).await });
    yield_now().await;
    (store.list().last().unwrap().request_id.clone(), asked)
}

const CRASH: &str = "--skip=crash-with-journal-";

/// The process dies with the record in the journal and before it activates: a later process has the rule.
#[tokio::test]
async fn a_crash_between_the_record_and_its_activation() {
    if let Some(path) = std::env::args().find_map(|arg| arg.strip_prefix(CRASH).map(str::to_owned)) {
        let journal = Arc::new(DiesAfterAppend(FilePersist::open(path).await.unwrap()));
        let store = GrantStore::open(options(journal)).await.unwrap();
        let (id, _asked) = park(&store, "fs:read:/ws/a").await;
        store.reply(&id, Resolution::Run, Some(pattern_of("fs:read:/ws/*"))).await.unwrap();
        unreachable!("the process is dead");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_crash_between_the_record_and_its_activation", "--nocapture"])
        .arg(format!("{CRASH}{}", path.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(std::os::unix::process::ExitStatusExt::signal(&status).is_some(), "it did not die: {status}");
    let journal = Arc::new(FilePersist::open(&path).await.unwrap());
    let store = GrantStore::open(options(journal)).await.unwrap();
    assert_eq!(store.rules(), [(rule("allow fs:read:/ws/*"), Source::Run { seq: Some(1) })]);
    assert_eq!(store.check(&CapabilitySet::unrestricted(), cap("fs:read:/ws/a"), Meta::new()).await, Ok(()));
}

struct DiesAfterAppend(FilePersist);

#[flowcell_kernel::async_trait]
impl Persist for DiesAfterAppend {
    async fn append(
        &self,
        run: &str,
        event_type: &str,
        event: &serde_json::Value,
    ) -> Result<u64, flowcell_kernel::PersistError> {
        self.0.append(run, event_type, event).await?;
        std::process::abort()
    }

    async fn page(
        &self,
        run: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<flowcell_kernel::PersistedEvent>, flowcell_kernel::PersistError> {
        self.0.page(run, after, limit).await
    }
}

/// A journal that answers late: the reply fails in time, and the record that lands afterwards counts on replay alone.
#[tokio::test(start_paused = true)]
async fn a_record_that_lands_late_counts_when_it_is_replayed() {
    let journal = Arc::new(Switched::default());
    let store = GrantStore::open(options(Arc::new(Detached(journal.clone())))).await.unwrap();
    let (id, asked) = park(&store, "fs:read:/ws/a").await;
    journal.set(SLOW);
    let before = tokio::time::Instant::now();
    let error = store.reply(&id, Resolution::Run, None).await.unwrap_err();
    assert_eq!(error.code, GrantStoreCode::JournalFailed);
    assert_eq!(before.elapsed(), Duration::from_millis(PERSIST_MILLIS));
    journal.gate.notify_waiters();
    for _ in 0..4 {
        yield_now().await;
    }
    assert_eq!(journal.inner.events("run-1").len(), 1);
    assert!(store.rules().is_empty() && !asked.is_finished() && store.list().len() == 1);
    let again = GrantStore::open(options(journal.clone())).await.unwrap();
    assert_eq!(again.rules().len(), 1);
    // The request is answered as if nothing had been written.
    journal.set(WORKS);
    store.reply(&id, Resolution::Deny, None).await.unwrap();
    assert!(asked.await.unwrap().is_err());
}

/// Writes on even when nobody waits, as a journal of its own process does.
struct Detached(Arc<Switched>);

#[flowcell_kernel::async_trait]
impl Persist for Detached {
    async fn append(
        &self,
        run: &str,
        event_type: &str,
        event: &serde_json::Value,
    ) -> Result<u64, flowcell_kernel::PersistError> {
        let (inner, run) = (self.0.clone(), run.to_owned());
        let (event_type, event) = (event_type.to_owned(), event.clone());
        let write = tokio::spawn(async move { inner.append(&run, &event_type, &event).await });
        write.await.map_err(|error| flowcell_kernel::PersistError::new(error.to_string()))?
    }

    async fn page(
        &self,
        run: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<flowcell_kernel::PersistedEvent>, flowcell_kernel::PersistError> {
        self.0.page(run, after, limit).await
    }
}

/// A file system of a few pages, as long as it is held.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let output = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16k", "none"])
            .arg(dir.path())
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Tmpfs(dir))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg(self.0.path()).status();
        assert!(done.is_ok_and(|status| status.success()), "the file system stays mounted");
    }
}

#[tokio::test]
async fn a_full_disk_activates_nothing_and_breaks_nothing() {
    let small = match Tmpfs::mount() {
        Ok(small) => small,
        Err(why) => {
            println!("skipped: a_full_disk_activates_nothing_and_breaks_nothing: {}", why.trim());
            assert!(
                !std::env::vars_os().any(|(name, value)| name == "CI" && value == "true"),
                "CI has no tmpfs"
            );
            return;
        }
    };
    let path = small.path().join("grants");
    let journal = Arc::new(FilePersist::open(&path).await.unwrap());
    let mut recorded = 0;
    let filler = "x".repeat(700);
    let full = loop {
        match journal.append("filler", "t", &json!({ "filler": filler })).await {
            Ok(seq) => recorded = seq,
            Err(error) => break error,
        }
        assert!(recorded < 1_000, "a disk of 16 KiB takes everything");
    };
    assert!(full.message.contains("write"), "{full}");
    let store = GrantStore::open(options(journal.clone())).await.unwrap();
    let (id, asked) = park(&store, &format!("fs:read:/ws/{filler}")).await;
    for resolution in [Resolution::Run, Resolution::Remembered, Resolution::Once, Resolution::Deny] {
        let error: GrantStoreError = store.reply(&id, resolution, None).await.unwrap_err();
        assert_eq!(error.code, GrantStoreCode::JournalFailed, "{error}");
    }
    assert!(store.rules().is_empty() && !asked.is_finished() && store.list().len() == 1);
    assert_eq!(store.decide(&CapabilitySet::unrestricted(), &cap("fs:read:/ws/a")), Effect::Ask);
    // The file is what it was, for this handle and for others.
    for reader in [&*journal, &FilePersist::open(&path).await.unwrap()] {
        assert_eq!(reader.page("filler", 0, 2_000).await.unwrap().len() as u64, recorded);
        assert!(reader.page("run-1", 0, 9).await.unwrap().is_empty());
        assert!(reader.page(POLICY_RUN, 0, 9).await.unwrap().is_empty());
    }
    // With room again the same request is answered. (Nothing is ever freed in a journal: here the disk grows.)
    let grown = std::process::Command::new("mount")
        .args(["-o", "remount,size=1m"])
        .arg(small.path())
        .status()
        .unwrap();
    assert!(grown.success());
    store.reply(&id, Resolution::Run, None).await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(()));
    let again = GrantStore::open(options(Arc::new(FilePersist::open(&path).await.unwrap()))).await.unwrap();
    assert_eq!(again.rules(), store.rules());
    drop((store, again, journal));
}
