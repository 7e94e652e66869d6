use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::conformance::{self, Journals};
use super::{FilePersist, MAX_RECORD_BYTES, MemoryPersist, Persist, PersistError, PersistedEvent};

#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Arc<MemoryPersist>>>);

#[async_trait]
impl Journals for Memory {
    async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
        Ok(self.0.lock().unwrap().entry(name.to_owned()).or_default().clone())
    }
}

struct Files(PathBuf);

#[async_trait]
impl Journals for Files {
    async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
        Ok(Arc::new(FilePersist::open(self.0.join(name)).await?))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() {
    assert_eq!(conformance::run(Arc::new(Memory::default())).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_conform() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(conformance::run(Arc::new(Files(dir.path().to_owned()))).await, []);
}

/// A journal that breaks one rule; the suite has to notice.
struct Broken {
    how: &'static str,
    inner: MemoryPersist,
}

#[async_trait]
impl Persist for Broken {
    async fn append(&self, run: &str, event_type: &str, event: &Value) -> Result<u64, PersistError> {
        match self.how {
            "drops" if event == &json!({ "n": 5 }) => return Ok(6),
            "folds case" => return self.inner.append(&run.to_lowercase(), event_type, event).await,
            "one seq for all" => {
                self.inner.append(run, event_type, event).await?;
                return Ok(1);
            }
            _ => {}
        }
        self.inner.append(run, event_type, event).await
    }

    async fn page(&self, run: &str, after: u64, limit: usize) -> Result<Vec<PersistedEvent>, PersistError> {
        match self.how {
            "inclusive" => self.inner.page(run, after.saturating_sub(1), limit).await,
            "short pages" => self.inner.page(run, after, limit.min(2)).await,
            "forgets types" => {
                let mut page = self.inner.page(run, after, limit).await?;
                page.iter_mut().for_each(|event| event.event_type.make_ascii_uppercase());
                Ok(page)
            }
            _ => self.inner.page(run, after, limit).await,
        }
    }

    async fn append_after(
        &self,
        run: &str,
        last: u64,
        event_type: &str,
        event: &Value,
    ) -> Result<Option<u64>, PersistError> {
        if self.how == "unconditional" {
            return self.append(run, event_type, event).await.map(Some);
        }
        if self.how == "looks, then appends" {
            let found = !self.page(run, last, 1).await?.is_empty();
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            return if found { Ok(None) } else { self.append(run, event_type, event).await.map(Some) };
        }
        self.inner.append_after(run, last, event_type, event).await
    }
}

struct BrokenOnes(&'static str, Mutex<BTreeMap<String, Arc<Broken>>>);

#[async_trait]
impl Journals for BrokenOnes {
    async fn open(&self, name: &str) -> Result<Arc<dyn Persist>, PersistError> {
        let mut all = self.1.lock().unwrap();
        let new = || Arc::new(Broken { how: self.0, inner: MemoryPersist::new() });
        Ok(all.entry(name.to_owned()).or_insert_with(new).clone())
    }
}

#[tokio::test]
async fn the_suite_notices_what_is_broken() {
    for how in [
        "drops",
        "folds case",
        "one seq for all",
        "inclusive",
        "short pages",
        "forgets types",
        "unconditional",
        "looks, then appends",
    ] {
        let failures = conformance::run(Arc::new(BrokenOnes(how, Mutex::default()))).await;
        assert!(!failures.is_empty(), "{how}");
    }
    let fine = conformance::run(Arc::new(BrokenOnes("fine", Mutex::default()))).await;
    assert_eq!(fine, []);
}

async fn written(path: &Path, events: u64) -> FilePersist {
    let journal = FilePersist::open(path).await.unwrap();
    for n in 1..=events {
        assert_eq!(journal.append("run-1", "t", &json!({ "n": n })).await.unwrap(), n);
    }
    journal
}

async fn numbers(journal: &FilePersist) -> Vec<u64> {
    let page = journal.page("run-1", 0, 99).await.unwrap();
    page.iter().map(|event| event.event["n"].as_u64().unwrap()).collect()
}

/// A kill between a write and its flush leaves any part of the last record on the disk.
#[tokio::test]
async fn a_record_that_was_cut_anywhere_counts_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    written(&path, 3).await;
    let whole = std::fs::read(&path).unwrap();
    let two = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in two..=whole.len() {
        for zeros in [0, 7] {
            // What the disk kept of the length and not of the text reads as zeros.
            if cut == whole.len() && zeros > 0 {
                continue;
            }
            let mut left = whole[..cut].to_vec();
            left.resize(cut + zeros, 0);
            std::fs::write(&path, &left).unwrap();
            let expected: &[u64] = if cut == whole.len() { &[1, 2, 3] } else { &[1, 2] };
            let journal = FilePersist::open(&path).await.unwrap();
            assert_eq!(numbers(&journal).await, expected, "cut at {cut}");
            // Reading changes nothing; the next append cuts it off.
            assert_eq!(std::fs::read(&path).unwrap(), left);
            let next = expected.len() as u64 + 1;
            assert_eq!(journal.append("run-1", "t", &json!({ "n": 9 })).await.unwrap(), next);
            let again = FilePersist::open(&path).await.unwrap();
            assert_eq!(numbers(&again).await, [expected, &[9]].concat());
        }
    }
}

#[tokio::test]
async fn what_is_no_journal_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    written(&path, 2).await;
    let good = std::fs::read_to_string(&path).unwrap();
    let first = good.lines().next().unwrap();
    let long = format!("{}\"{}\"", first.split(r#""event""#).next().unwrap(), "x".repeat(MAX_RECORD_BYTES));
    let cases: Vec<(String, &str)> = vec![
        ("a letter to a friend".to_owned(), "line 1 is no record: it is not even a piece of one"),
        ("a letter\n".to_owned(), "line 1 is no record"),
        (format!("{good}\n"), "line 3 is no record"),
        (format!("{good}null\n"), "line 3 is no record"),
        (format!("{good}{{\"run\":1"), "line 3 is no record: it is not even a piece of one"),
        (format!("{good}{first}\n"), "line 3 has seq 1 where 3 belongs"),
        (good.replacen("\"seq\":1", "\"seq\":0", 1), "line 1 has seq 0 where 1 belongs"),
        (good.replacen("\"seq\":1", "\"seq\":-1", 1), "line 1 is no record"),
        (good.replacen("\"seq\":1", "\"more\":1,\"seq\":1", 1), "line 1 is no record"),
        (good.replacen("\"seq\":1,", "", 1), "line 1 is no record"),
        (good.replacen("\"n\":1", "\"n\":\u{0}1", 1), "line 1 is no record"),
        (format!("{good}{long}"), "line 3 is longer than 1048576 bytes"),
    ];
    for (text, expected) in cases {
        std::fs::write(&path, &text).unwrap();
        let error = FilePersist::open(&path).await.unwrap_err();
        assert!(error.message.contains(expected), "{error} instead of {expected}");
        assert!(error.message.contains("grants"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // A record in the middle that lost its text refuses an open handle too.
    std::fs::write(&path, &good).unwrap();
    let journal = FilePersist::open(&path).await.unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"what is this\n").unwrap();
    for result in [
        journal.append("run-1", "t", &json!({})).await.map(drop),
        journal.page("run-1", 0, 9).await.map(drop),
    ] {
        assert!(result.unwrap_err().message.contains("line 3 is no record"));
    }
}

#[tokio::test]
async fn a_path_that_is_no_file_of_its_own_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    for refused in [dir.path().to_owned(), dir.path().join("none/grants"), PathBuf::from("/dev/null")] {
        assert!(FilePersist::open(&refused).await.is_err(), "{}", refused.display());
    }
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(FilePersist::open(&path).await.is_err());
    assert!(!dir.path().join("elsewhere").exists());
    std::fs::remove_file(&path).unwrap();
    let journal = written(&path, 2).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o600);
    // Shrunk, replaced or removed while it is open.
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..10]).unwrap();
    assert!(journal.page("run-1", 0, 9).await.unwrap_err().message.contains("shrank"));
    std::fs::write(&path, &text).unwrap();
    assert_eq!(numbers(&journal).await, [1, 2]);
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    assert!(journal.append("run-1", "t", &json!({})).await.is_err());
    std::fs::write(&path, "").unwrap();
    assert!(journal.append("run-1", "t", &json!({})).await.unwrap_err().message.contains("replaced"));
}

#[tokio::test]
async fn a_record_over_the_bound_is_refused_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    let journal = written(&path, 1).await;
    let before = std::fs::read(&path).unwrap();
    let error = journal.append("run-1", "t", &json!("x".repeat(MAX_RECORD_BYTES))).await.unwrap_err();
    assert!(error.message.contains("a record of more than"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(journal.append("run-1", "t", &json!({ "n": 2 })).await.unwrap(), 2);
}

const WRITER: &str = "--skip=journal-at-";

/// Several processes append to one file: none of them loses a record or gives a seq out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_a_file() {
    const PROCESSES: usize = 3;
    const EVENTS: u64 = 40;
    if let Some(path) = std::env::args().find_map(|arg| arg.strip_prefix(WRITER).map(str::to_owned)) {
        let journal = FilePersist::open(path).await.unwrap();
        for n in 0..EVENTS {
            let seq = journal.append("run-1", "t", &json!([std::process::id(), n])).await.unwrap();
            println!("gave {seq}");
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    let start = || {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "persist::tests::processes_share_a_file", "--nocapture"])
            .arg(format!("{WRITER}{}", path.display()))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut given = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        given.extend(text.lines().filter_map(|line| line.split("gave ").nth(1)?.parse::<u64>().ok()));
    }
    given.sort_unstable();
    let all = PROCESSES as u64 * EVENTS;
    assert_eq!(given, (1..=all).collect::<Vec<_>>());
    let page = FilePersist::open(&path).await.unwrap().page("run-1", 0, 999).await.unwrap();
    assert_eq!(page.len() as u64, all);
}
