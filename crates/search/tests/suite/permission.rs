//! Roots and entries that may not be read, deadlines and cancellation (search contract 4 and 7).

use crate::support::{Place, assert_code, block_on, lines, names, rule};
use flowcell_kernel::flows::error::Code;
use flowcell_kernel::flows::rules::Effect;
use flowcell_kernel::{Clock, HandlerError, PermissionError};
use flowcell_search::{Engine, GlobQuery, GrepQuery, Search};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn fill(place: &Place) {
    place
        .write("open/a", "needle")
        .write("open/secret", "needle")
        .write("shut/b", "needle")
        .write("shut/c", "needle")
        .write("top", "needle");
}

#[test]
fn entries_that_may_not_be_read_are_passed_over_and_it_is_said() {
    let place = Place::with_rules(|root| {
        vec![
            rule(Effect::Allow, "fs:read:**"),
            rule(Effect::Deny, &format!("fs:read:{root}/shut")),
            rule(Effect::Ask, &format!("fs:read:{root}/open/secret")),
        ]
    });
    fill(&place);
    let answer = place.grep(lines("needle"));
    let files: Vec<_> = answer.matches.iter().map(|found| found.file.as_str()).collect();
    assert_eq!(files, ["open/a", "top"]);
    assert_eq!(answer.files_searched, 2);
    let notice = "2 entries were skipped: reading them is not permitted.";
    assert_eq!(answer.notice.as_deref(), Some(notice));
    let answer = place.glob(GlobQuery { limit: Some(1), ..names("**") });
    assert_eq!((answer.paths.as_slice(), answer.total), (&["open/a".to_owned()][..], 2));
    let both = format!("Showing 1 of 2 paths; narrow the search or raise limit (at most 1000). {notice}");
    assert_eq!(answer.notice, Some(both));
    // What no rule admits is not counted either.
    assert_eq!(
        place.glob(names("top")).notice.as_deref(),
        Some("1 entries were skipped: reading them is not permitted.")
    );
    assert_eq!(place.glob(GlobQuery { root: Some("open".to_owned()), ..names("a") }).notice, None);
}

#[test]
fn rules_in_a_file_that_may_not_be_read_do_not_apply() {
    let place = Place::with_rules(|root| {
        vec![rule(Effect::Allow, "fs:read:**"), rule(Effect::Deny, &format!("fs:read:{root}/.gitignore"))]
    });
    place.write(".gitignore", "*\n").write("a", "");
    assert_eq!(place.paths("**"), ["a"]);
}

#[test]
fn the_root_itself_is_checked() {
    let place = Place::with_rules(|root| {
        vec![rule(Effect::Allow, "fs:read:**"), rule(Effect::Deny, &format!("fs:read:{root}/shut**"))]
    });
    fill(&place);
    for root in ["shut", "shut/b"] {
        let error = assert_code(
            place.try_grep(GrepQuery { root: Some(root.to_owned()), ..lines("x") }),
            Code::PermissionDenied,
        );
        assert_eq!(error.path.as_deref(), Some(root));
        // The code stands beside the message; the message does not say it again.
        let message =
            format!("Cannot read {root}: fs:read:{}: denied by policy.", place.at(root).to_str().unwrap());
        assert_eq!(error.message, message);
        let query = GlobQuery { root: Some(root.to_owned()), ..names("**") };
        let error = assert_code(place.try_glob(query), Code::PermissionDenied);
        assert_eq!(error.message, message);
    }
    // A pseudo file system is refused before any grant.
    let query = GlobQuery { root: Some("/proc/self".to_owned()), ..names("**") };
    assert_code(place.try_glob(query), Code::PermissionDenied);
}

#[test]
fn a_requirement_leaves_the_handler_unchanged() {
    let place = Place::with_rules(|_| Vec::new());
    fill(&place);
    for error in [
        place.try_grep(lines("x")).map(drop).unwrap_err(),
        place.try_glob(names("**")).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, HandlerError::Permission(PermissionError::Required(_))), "{error:?}");
    }
    // The pattern is looked at first.
    assert_code(place.try_grep(lines("(")), Code::InvalidPattern);
}

/// Time that a test moves.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

#[test]
fn the_deadline_cuts_without_a_partial_answer() {
    let mut place = Place::new();
    for number in 0..200 {
        place.write(&format!("d{number}/f"), "needle");
    }
    place.cx.clock = Arc::new(Hand(AtomicU64::new(0)));
    for deadline in [0, 50] {
        place.cx.clock = Arc::new(Hand(AtomicU64::new(0)));
        place.cx.deadline = Some(Duration::from_millis(deadline));
        assert_code(place.try_grep(lines("needle")), Code::Timeout);
        place.cx.clock = Arc::new(Hand(AtomicU64::new(0)));
        assert_code(place.try_glob(names("**")), Code::Timeout);
    }
    place.cx.deadline = Some(Duration::from_secs(3600));
    assert_eq!(place.grep(lines("needle")).files_searched, 200);
}

#[test]
fn cancellation_takes_effect_at_once() {
    let place = Place::new();
    // A pattern that the engine reads slowly, over one long line.
    place.write("long", vec![b'a'; 14 * 1024 * 1024]);
    block_on(async {
        let cx = place.cx.clone();
        let search = tokio::spawn(async move {
            let query = GrepQuery { no_symbols: true, ..lines("(a|b)*(.{900}c){8}") };
            Engine::new().grep(&cx, query).await.map(drop)
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!search.is_finished());
        let asked = Instant::now();
        place.cx.cancel.cancel();
        assert_code(search.await.unwrap(), Code::Timeout);
        assert!(asked.elapsed() < Duration::from_millis(1000), "{:?}", asked.elapsed());
    });
    assert_code(place.try_glob(names("**")), Code::Timeout);
}
