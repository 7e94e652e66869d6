//! The database file: how it is recognised, made and opened.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flowcell_harness::engine::{EngineCode, EngineError};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// What marks a database as ours: `flow` in ASCII, in its header.
pub const APPLICATION_ID: i32 = 0x666c_6f77;

/// The version of the tables, in the header too. A newer one is not opened.
pub const SCHEMA_VERSION: i32 = 1;

/// How long a transaction waits for another process's.
pub const BUSY: Duration = Duration::from_secs(5);

/// The smallest page, and so the smallest database, in bytes.
const SMALLEST: u64 = 512;

const NOT_A_DATABASE: &str = "it is not a SQLite database; it was left as it is";

/// How often a process that waits for its turn looks.
const TURN: Duration = Duration::from_millis(2);

const TABLES: &str = "
CREATE TABLE runs (
    run TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE rows (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    owner_epoch INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (run, seq),
    UNIQUE (run, kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE owners (
    run TEXT NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    heartbeat_ms INTEGER NOT NULL,
    released INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE answers (
    run TEXT NOT NULL,
    suspended_seq INTEGER NOT NULL,
    request TEXT NOT NULL,
    resolution TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (run, suspended_seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE grants (
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
";

/// What a database says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing: no table, no mark.
    Blank,
    /// Ours, of this version.
    Ours,
}

/// Opens the writer's connection, and makes the file and its tables where they are not there.
pub(crate) fn open(path: &Path) -> Result<Connection, EngineError> {
    let _turn = turn(path)?;
    if !recognise(path)? {
        create(path)?;
    }
    let mut connection = connect(path)?;
    let failed = |what: &str, error: rusqlite::Error| failure(path, &format!("{what}: {error}"));
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|error| failed("the write-ahead log cannot be set up", error))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(failure(path, &format!("the write-ahead log cannot be set up: the journal is {mode:?}")));
    }
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(|error| failed("it cannot be set up", error))?;
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed("it cannot be written", error))?;
    if shape(&tx, path)? == Shape::Blank {
        tx.execute_batch(TABLES).map_err(|error| failed("its tables cannot be made", error))?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)
            .and_then(|()| tx.pragma_update(None, "user_version", SCHEMA_VERSION))
            .map_err(|error| failed("it cannot be marked", error))?;
    }
    tx.commit().map_err(|error| failed("its tables cannot be made", error))?;
    Ok(connection)
}

/// Opens a connection that only reads, to a file that [`open`] has set up.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, EngineError> {
    let connection = connect(path)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|error| failure(path, &format!("it cannot be set up for reading: {error}")))?;
    Ok(connection)
}

/// One process at a time looks at the file and sets it up: a lock on its folder, which ends with the handle. Where the
/// folder cannot be opened there is nothing to wait for; what follows says why.
fn turn(path: &Path) -> Result<Option<File>, EngineError> {
    let literal = literal(path);
    let Some(folder) = literal.parent().and_then(|parent| File::open(parent).ok()) else { return Ok(None) };
    for _ in 0..BUSY.as_millis() / TURN.as_millis() {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(TURN),
            // A file system without locks: SQLite's own have to do.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(failure(path, "another process has been setting it up for too long; try again"))
}

/// Whether there is a file; one that is there has to be ours, or blank. Nothing is written.
fn recognise(path: &Path) -> Result<bool, EngineError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failure(path, &error.to_string())),
    };
    if !metadata.is_file() {
        return Err(failure(path, "it is not a regular file"));
    }
    match metadata.len() {
        0 => return Ok(true),
        // SQLite takes a stub for a blank database and would write over it.
        1..SMALLEST => return Err(failure(path, NOT_A_DATABASE)),
        _ => {}
    }
    // The file is looked at through SQLite alone: closing a descriptor of our own would drop the locks that this
    // process's other connections hold on it.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(literal(path), flags)
        .map_err(|error| failure(path, &format!("it cannot be opened: {error}")))?;
    connection.busy_timeout(BUSY).map_err(|error| failure(path, &error.to_string()))?;
    // One snapshot: another process may be making the tables and the mark, which come together.
    let snapshot = connection
        .unchecked_transaction()
        .map_err(|error| failure(path, &format!("it cannot be read: {error}")))?;
    shape(&snapshot, path)?;
    Ok(true)
}

/// What a database says of itself, asked in one transaction.
///
/// # Errors
/// For a database of another program or of a newer version, and one that cannot be read.
fn shape(connection: &Connection, path: &Path) -> Result<Shape, EngineError> {
    let number = |sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|error| {
            match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => failure(path, NOT_A_DATABASE),
                _ => failure(path, &format!("it cannot be read: {error}")),
            }
        })
    };
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    if application != APPLICATION_ID {
        let blank = application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
        return if blank {
            Ok(Shape::Blank)
        } else {
            Err(failure(path, "it is the database of another program; it was left as it is"))
        };
    }
    match version {
        SCHEMA_VERSION => Ok(Shape::Ours),
        newer if newer > SCHEMA_VERSION => Err(EngineError::new(
            EngineCode::IncompatibleJournal,
            format!(
                "{}: its tables are of version {newer}; this version of flowcell reads version {SCHEMA_VERSION}. Use a \
                 newer one, or another file",
                path.display()
            ),
        )),
        older => Err(EngineError::new(
            EngineCode::IncompatibleJournal,
            format!(
                "{}: its tables are of version {older}; this version of flowcell reads version {SCHEMA_VERSION}. Use \
                 another file",
                path.display()
            ),
        )),
    }
}

/// Makes an empty file that only its owner may read. Another process may be first.
fn create(path: &Path) -> Result<(), EngineError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => recognise(path).map(|_| ()),
        Err(error) => Err(failure(path, &format!("it cannot be made: {error}"))),
    }
}

fn connect(path: &Path) -> Result<Connection, EngineError> {
    let failed = |error: rusqlite::Error| failure(path, &format!("it cannot be opened: {error}"));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(literal(path), flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A path that SQLite takes as one: a relative path may look like a URI or like `:memory:`.
fn literal(path: &Path) -> PathBuf {
    if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) }
}

/// `engine_failed` that names the file.
pub(crate) fn failure(path: &Path, why: &str) -> EngineError {
    EngineError::failed(format!("{}: {why}", path.display()))
}
