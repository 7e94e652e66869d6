//! What a file can be when it is opened.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flowcell_engines::harness::engine::{Boundary, EngineCode, EngineError, OpenError, RunStore, recorded};
use flowcell_engines::harness::error::{Escape, HarnessCode};
use flowcell_engines::harness::journal::{Row, RunId};
use flowcell_engines::sqlite::{self, APPLICATION_ID, SCHEMA_VERSION};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::world::{empty, options, owner, run};

/// Puts these rows in place of a run's.
pub(crate) fn write_rows(path: &Path, run: &RunId, rows: &[Row]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let tx = connection.transaction()?;
    for table in ["rows", "owners", "runs"] {
        tx.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run.as_str()])?;
    }
    let int = |value: u64| i64::try_from(value).unwrap();
    for row in rows {
        tx.execute(
            "INSERT INTO rows VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                run.as_str(),
                int(row.seq),
                row.kind.as_str(),
                row.key,
                row.payload.to_string(),
                int(row.owner_epoch),
                row.at_ms
            ],
        )?;
    }
    let last = rows.last().map_or(0, |row| int(row.seq));
    tx.execute(
        "INSERT INTO runs VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM runs), 0, 0, ?2)",
        params![run.as_str(), last],
    )?;
    tx.commit()
}

fn refused(path: &Path) -> EngineError {
    let before = fs::read(path).ok();
    let error = sqlite::open(path, options()).unwrap_err();
    assert_eq!(fs::read(path).ok(), before, "the file was changed");
    assert!(error.message.contains(&path.display().to_string()), "{error}");
    error
}

#[tokio::test]
async fn a_file_is_made_for_its_owner_alone() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = sqlite::open(&path, options()).unwrap();
    store.create(empty("r")).await.unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
    }
    let connection = Connection::open(&path).unwrap();
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).unwrap();
    assert_eq!(number("application_id"), APPLICATION_ID);
    assert_eq!(number("user_version"), SCHEMA_VERSION);
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    // Opened again, it is the same store.
    let again = sqlite::open(&path, options()).unwrap();
    assert_eq!(again.rows(&run("r"), 0).await.unwrap().len(), 1);
}

#[test]
fn what_is_not_a_store_stays_as_it_is() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "not a database, and longer than the magic\n").unwrap();
    let error = refused(&path);
    assert_eq!(error.code, EngineCode::EngineFailed);
    assert!(error.message.contains("not a SQLite database"), "{error}");

    for length in [1, 3, 99, 100, 511, 512, 4096, 10_000] {
        let path = folder.path().join("text");
        fs::write(&path, "S".repeat(length)).unwrap();
        assert!(refused(&path).message.contains("not a SQLite database"), "{length} bytes");
    }

    let path = folder.path().join("head.db");
    fs::write(&path, b"SQLite format 3\0 and nothing of one").unwrap();
    assert_eq!(refused(&path).code, EngineCode::EngineFailed);

    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x); PRAGMA application_id = 7;").unwrap();
    assert!(refused(&path).message.contains("another program"));

    let path = folder.path().join("plain.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE runs (x);").unwrap();
    assert!(refused(&path).message.contains("another program"));

    let path = folder.path().join("folder");
    fs::create_dir(&path).unwrap();
    assert!(refused(&path).message.contains("not a regular file"));

    let path = folder.path().join("missing").join("runs.db");
    assert_eq!(refused(&path).code, EngineCode::EngineFailed);
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_newer_version_is_incompatible() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("runs.db");
    drop(sqlite::open(&path, options()).unwrap());
    for version in [SCHEMA_VERSION + 1, i32::MAX, 0, -1] {
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        let error = sqlite::open(&path, options()).unwrap_err();
        assert_eq!(error.code, EngineCode::IncompatibleJournal, "{error}");
        assert!(error.message.contains(&version.to_string()), "{error}");
    }
    Connection::open(&path).unwrap().pragma_update(None, "user_version", SCHEMA_VERSION).unwrap();
    sqlite::open(&path, options()).unwrap();
}

#[test]
fn a_file_that_was_made_and_not_filled_is_a_new_store() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("runs.db");
    fs::write(&path, "").unwrap();
    drop(sqlite::open(&path, options()).unwrap());
    let path = folder.path().join("blank.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x); DROP TABLE t;").unwrap();
    drop(sqlite::open(&path, options()).unwrap());
}

#[test]
fn a_path_is_a_path_whatever_it_looks_like() {
    let name = "sqlite::a_path_is_a_path_whatever_it_looks_like";
    if Path::new("here").exists() {
        for path in [":memory:", "file:uri.db", "file:uri.db?mode=memory"] {
            drop(sqlite::open(Path::new(path), options()).unwrap());
            assert!(Path::new(path).is_file(), "{path}");
        }
        assert_eq!(sqlite::open(Path::new(""), options()).unwrap_err().code, EngineCode::EngineFailed);
        return;
    }
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("here"), "").unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}

#[test]
fn processes_that_make_one_file_at_once_share_it() {
    for _ in 0..60 {
        let folder = tempdir().unwrap();
        let path = folder.path().join("runs.db");
        std::thread::scope(|scope| {
            let opened: Vec<_> =
                (0..8).map(|_| scope.spawn(|| sqlite::open(&path, options()).map(drop))).collect();
            for store in opened {
                store.join().unwrap().unwrap();
            }
        });
    }
}

/// Asks until something holds, for ten seconds at most.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within ten seconds");
}

#[tokio::test]
async fn a_lease_is_renewed_and_its_loss_is_noticed() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = sqlite::open(&path, options()).unwrap();
    let id = store.create(empty("r")).await.unwrap();
    let engine = store.open(&id, owner(1)).await.unwrap();
    let connection = Connection::open(&path).unwrap();
    let heartbeat =
        || connection.query_row("SELECT heartbeat_ms FROM owners", [], |row| row.get::<_, i64>(0)).unwrap();
    let first = heartbeat();
    eventually("a renewal", async || heartbeat() > first).await;
    connection.execute("UPDATE owners SET epoch = epoch + 1", []).unwrap();
    eventually("the loss", async || matches!(engine.resumed("x").await, Err(Escape::LeaseLost))).await;
    engine.release().await;
    drop(engine);
    let released = |value: bool| {
        connection.query_row("SELECT released FROM owners", [], |row| row.get::<_, bool>(0)).unwrap() == value
    };
    assert!(released(false), "the release took another owner's run");
    assert_eq!(store.rows(&id, 0).await.unwrap().len(), 1);
}

/// A store with one run of many rows, closed and in one file.
async fn filled(folder: &Path) -> PathBuf {
    let path = folder.join("runs.db");
    {
        let store = sqlite::open(&path, options()).unwrap();
        let id = store.create(empty("r")).await.unwrap();
        let engine = store.open(&id, owner(1)).await.unwrap();
        for frame in 0..100 {
            let at = Boundary::frame("r", frame, "cell", 0);
            engine.record(at, recorded(json!("x".repeat(200)))).await.unwrap();
        }
        engine.release().await;
    }
    Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    path
}

#[tokio::test]
async fn a_corrupted_file_fails_with_its_path_and_is_not_mended() {
    let folder = tempdir().unwrap();
    let path = filled(folder.path()).await;
    let mut bytes = fs::read(&path).unwrap();
    let (_, pages) = bytes.split_at_mut(4096);
    pages.fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let error = match sqlite::open(&path, options()) {
        Err(error) => error,
        Ok(store) => store.rows(&run("r"), 0).await.unwrap_err(),
    };
    assert_eq!(error.code, EngineCode::EngineFailed, "{error}");
    assert!(error.message.contains("runs.db"), "{error}");
    assert!(path.exists());
}

#[tokio::test]
async fn a_row_that_does_not_read_is_named() {
    let folder = tempdir().unwrap();
    let path = filled(folder.path()).await;
    let edit = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let store = sqlite::open(&path, options()).unwrap();
    for (sql, says) in [
        ("UPDATE rows SET payload = '{' WHERE seq = 3", "row 3"),
        ("UPDATE rows SET payload = '1', kind = 'no-such' WHERE seq = 3", "no-such"),
    ] {
        edit(sql);
        let error = store.rows(&run("r"), 0).await.unwrap_err();
        assert!(error.code == EngineCode::EngineFailed && error.message.contains(says), "{error}");
        let error = store.open(&run("r"), owner(1)).await.map(drop).unwrap_err();
        assert!(matches!(error, OpenError::Engine(_)), "{error}");
    }
    // The refused opening took nothing: once it reads again, it opens.
    edit("UPDATE rows SET payload = '1', kind = 'cell-frame' WHERE seq = 3");
    store.open(&run("r"), owner(1)).await.unwrap().release().await;
    edit("INSERT INTO rows VALUES ('r', 900, 'suspended', 'suspended:1', '{\"code\":\"engine\"}', 1, 0)");
    edit("UPDATE runs SET last_seq = 900 WHERE run = 'r'");
    match store.open(&run("r"), owner(1)).await.map(drop) {
        Err(OpenError::Harness(error)) => assert_eq!(error.code, HarnessCode::EngineFailed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn another_content_under_a_key_in_use_is_refused() {
    let folder = tempdir().unwrap();
    let path = filled(folder.path()).await;
    let store = sqlite::open(&path, options()).unwrap();
    let engine = store.open(&run("r"), owner(1)).await.unwrap();
    let at = Boundary::frame("r", 500, "cell", 0);
    // A row that this engine did not write, as a defect of another program would leave it.
    Connection::open(&path)
        .unwrap()
        .execute(
            "INSERT INTO rows VALUES ('r', 500, 'cell-frame', ?1, '{\"b\":1.0,\"a\":1}', 1, 0)",
            [at.key().unwrap()],
        )
        .unwrap();
    for frame in 0..100 {
        engine.record(Boundary::frame("r", frame, "cell", 0), recorded(Value::Null)).await.unwrap();
    }
    match engine.record(at.clone(), recorded(json!(2))).await {
        Err(Escape::Harness(error)) => {
            assert_eq!(error.code, HarnessCode::EngineFailed);
            assert!(error.message.contains("idempotency_conflict"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let repeat = engine.record(at, recorded(json!({ "a": 1, "b": 1 }))).await.unwrap();
    assert_eq!(repeat.value, json!({ "a": 1, "b": 1.0 }));
    assert_eq!(store.rows(&run("r"), 499).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_store_that_another_program_locks_fails_and_goes_on_later() {
    let folder = tempdir().unwrap();
    let path = filled(folder.path()).await;
    let store = sqlite::open(&path, options()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.create(empty("s")).await.unwrap_err();
    assert!(error.code == EngineCode::EngineFailed && error.message.contains("locked"), "{error}");
    // Reading goes on meanwhile.
    assert_eq!(store.rows(&run("r"), 0).await.unwrap().len(), 101);
    other.execute_batch("ROLLBACK").unwrap();
    store.create(empty("s")).await.unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_fails_with_its_path() {
    let name = "sqlite::a_folder_that_cannot_be_written_fails_with_its_path";
    if Path::new("read-only").exists() {
        let error = refused(Path::new("read-only/new.db"));
        assert_eq!(error.code, EngineCode::EngineFailed);
        assert!(error.message.to_lowercase().contains("denied"), "{error}");
        let error = refused(Path::new("read-only/runs.db"));
        assert_eq!(error.code, EngineCode::EngineFailed);
        assert!(!Path::new("read-only/new.db").exists());
        return;
    }
    let folder = tempdir().unwrap();
    let inner = folder.path().join("read-only");
    fs::create_dir(&inner).unwrap();
    drop(sqlite::open(&inner.join("runs.db"), options()).unwrap());
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&inner.join("runs.db"), 0o400);
    mode(&inner, 0o500);
    let status = Command::new("setpriv")
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg("--inh-caps=-dac_override,-dac_read_search")
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .current_dir(folder.path())
        .output();
    mode(&inner, 0o700);
    match status {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: setpriv is not there");
        }
        Err(error) => panic!("{error}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
    }
}
