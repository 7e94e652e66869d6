//! Stores that cannot be used. Nothing is lost.

use serde_json::json;

use crate::bench::Bench;

/// A bench with one finished run.
fn with_a_run() -> Bench {
    let bench = Bench::new();
    bench.run(&["exec", "--run-id", "r", "-e", "ctx.done(1)"]).is(0);
    bench
}

#[test]
fn a_corrupted_database_is_an_engine_failure_and_stays_as_it_is() {
    let bench = with_a_run();
    std::fs::write(bench.database(), "this was never a database\n".repeat(200)).unwrap();
    let before = std::fs::read(bench.database()).unwrap();
    for words in
        [&["runs"][..], &["show", "r"], &["resume", "r"], &["exec", "-e", "1"], &["approve", "r", "--once"]]
    {
        let answer = bench.run(&[words, &["--json"]].concat());
        assert_eq!(answer.is(1).code(), "engine_failed", "{words:?}");
        assert_eq!(answer.json()["error"]["path"], json!(bench.database().display().to_string()));
    }
    assert_eq!(std::fs::read(bench.database()).unwrap(), before);
}

#[test]
fn a_newer_database_is_incompatible_and_stays_as_it_is() {
    let bench = with_a_run();
    let database = rusqlite::Connection::open(bench.database()).unwrap();
    database.pragma_update(None, "user_version", 9_999).unwrap();
    database.close().unwrap();
    let bytes = std::fs::read(bench.database()).unwrap();
    for words in [&["runs"][..], &["show", "r"], &["resume", "r"], &["exec", "-e", "1"]] {
        let answer = bench.run(&[words, &["--json"]].concat());
        assert_eq!(answer.is(4).code(), "incompatible_journal", "{words:?}");
        assert!(answer.json()["error"]["hint"].is_string());
    }
    assert_eq!(std::fs::read(bench.database()).unwrap(), bytes);
}

#[test]
fn a_read_only_data_folder_is_an_engine_failure() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let folder = bench.ws().join("locked");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    for data in ["locked", "locked/deeper"] {
        let words = ["exec", "--json", "--data-dir", data, "-e", "1"];
        let Some(answer) = bench.run_unprivileged(&words) else {
            println!("skipped: a_read_only_data_folder_is_an_engine_failure (no setpriv)");
            return;
        };
        assert_eq!(answer.is(1).code(), "engine_failed", "{data}");
        assert!(answer.err.contains("locked"), "{}", answer.err);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_database_that_may_not_be_written_loses_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let bench = with_a_run();
    let before = std::fs::read(bench.database()).unwrap();
    let folder = bench.ws().join(".flowcell");
    std::fs::set_permissions(bench.database(), std::fs::Permissions::from_mode(0o400)).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    let answer = bench.run_unprivileged(&["exec", "--json", "-e", "ctx.done(2)"]);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(bench.database(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let Some(answer) = answer else {
        println!("skipped: a_database_that_may_not_be_written_loses_nothing (no setpriv)");
        return;
    };
    assert_eq!(answer.is(1).code(), "engine_failed");
    assert_eq!(std::fs::read(bench.database()).unwrap(), before);
    assert_eq!(bench.run(&["show", "r", "--json"]).is(0).json()["output"], json!(1));
}

#[test]
fn a_store_behind_a_link_lends_no_grants() {
    let bench = with_a_run();
    bench.write("m.json", r#"{"gate": {"permission": "net:get:example.com"}}"#);
    let exec = ["exec", "--mock", "m.json", "--run-id", "g", "-e", "ctx.done(await ctx.call('gate'))"];
    bench.run(&exec).is(3);
    bench.run(&["approve", "g", "--remember"]).is(0);
    // Another workspace came with a link to this one's data folder, or to its store.
    let own = bench.database().parent().unwrap().to_owned();
    let other = bench.outside("other");
    std::fs::create_dir(&other).unwrap();
    let root = other.to_str().unwrap();
    let check = ["-C", root, "grants", "check", "net:get:example.com", "--json"];
    let exec = ["-C", root, "exec", "--json", "-e", "ctx.done(1)"];
    let data = other.join(".flowcell");
    for store in [false, true] {
        if store {
            std::fs::remove_file(&data).unwrap();
            std::fs::create_dir(&data).unwrap();
            std::os::unix::fs::symlink(own.join("flowcell.db"), data.join("flowcell.db")).unwrap();
        } else {
            std::os::unix::fs::symlink(&own, &data).unwrap();
        }
        for command in [&check[..], &exec, &["-C", root, "resume", "g", "--json"]] {
            let refused = bench.run(command).is(1).json();
            assert!(refused["error"]["message"].as_str().unwrap().contains("it is a link"), "{refused}");
        }
    }
    // A folder that a person names is theirs to share.
    let own = own.to_str().unwrap();
    let shared =
        bench.run(&["-C", root, "--data-dir", own, "grants", "check", "net:get:example.com", "--json"]);
    assert_eq!(shared.is(0).json()["effect"], "allow");
}
