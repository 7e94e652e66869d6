//! The kit itself: the engine held to it alone, at several numbers of threads, and proof that it can fail.

use crate::support::{Place, block_on, volume};
use async_trait::async_trait;
use flowcell_kernel::{CallContext, HandlerError};
use flowcell_search::conformance::{Call, Entry, Known, Random, Rule, SearchConformance, Tree};
use flowcell_search::{Engine, GlobAnswer, GlobQuery, GrepAnswer, GrepQuery, Search};
use std::sync::Arc;
use tempfile::TempDir;

/// A peer with a fault: it says that matches of a file of more than two lines are one line further down.
struct Shifted(Engine);

#[async_trait]
impl Search for Shifted {
    async fn glob(&self, cx: &CallContext, query: GlobQuery) -> Result<GlobAnswer, HandlerError> {
        self.0.glob(cx, query).await
    }

    async fn grep(&self, cx: &CallContext, query: GrepQuery) -> Result<GrepAnswer, HandlerError> {
        let mut answer = self.0.grep(cx, query).await?;
        for found in answer.matches.iter_mut().filter(|found| found.line > 2) {
            found.line += 1;
        }
        Ok(answer)
    }
}

#[test]
fn a_fault_is_found_and_shrunk() {
    let scratch = TempDir::new().unwrap();
    let kit = SearchConformance::new(
        Arc::new(Engine::default()),
        Arc::new(Shifted(Engine::default())),
        scratch.path(),
    );
    let report = block_on(kit.run(1, 60)).unwrap();
    let small = report.differences.first().unwrap();
    println!("{small}");
    let files = small.tree.entries().values().filter(|entry| matches!(entry, Entry::File(_))).count();
    assert_eq!(files, 1, "{small}");
    let Call::Grep(query) = &small.call else { panic!("{small}") };
    assert_eq!(query.pattern, "", "{small}");
    assert!(small.to_string().contains("line: 4"), "{small}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn cases_repeat() {
    for number in 0..50 {
        let (tree, call) = SearchConformance::case(3, number);
        assert_eq!(
            (&tree, &call),
            (&SearchConformance::case(3, number).0, &SearchConformance::case(3, number).1)
        );
        assert!(!tree.entries().is_empty());
    }
    assert_ne!(SearchConformance::case(3, 1), SearchConformance::case(4, 1));
    let mut random = Random::new(1);
    assert!((0..1000).all(|_| random.below(7) < 7));
    assert_eq!(random.pick::<u8>(&[]), None);
}

#[test]
fn trees_are_planted_as_they_are() {
    let mut tree = Tree::new();
    assert!(
        tree.file("a/b", "x") && tree.put("a/l", Entry::Link(b"b".to_vec())) && tree.put("p", Entry::Fifo)
    );
    assert!(tree.put("s", Entry::Socket) && tree.put("d", Entry::Dir) && tree.file(&b"\xff"[..], "y"));
    for bad in ["a/b/c", "a", "", "x//y", "../x", "a/."] {
        assert!(!tree.file(bad, ""), "{bad}");
    }
    assert!(!tree.deny("a*") && tree.deny("a/b"));
    let place = Place::new();
    tree.plant(place.path()).unwrap();
    assert_eq!(std::fs::read(place.at("a/l")).unwrap(), b"x");
    assert!(place.at("d").is_dir());
    assert_eq!(tree.list(b"").len(), 5);
    assert_eq!(tree.directories().len(), 3);
    tree.remove(b"a");
    assert_eq!((tree.at(b"a/b"), tree.denied().len()), (None, 0));
}

/// Cases of each comparison of engines.
const CASES: u64 = 60;
const FULL_CASES: u64 = 2_000;

#[test]
fn one_two_and_eight_threads_answer_alike() {
    let scratch = TempDir::new().unwrap();
    let engine = |threads| Arc::new(Engine::with_threads(threads));
    for (threads, seed) in [(1, 11), (2, 12)] {
        let kit = SearchConformance::new(engine(threads), engine(8), scratch.path());
        let report = block_on(kit.run(seed, volume(CASES, FULL_CASES))).unwrap();
        assert!(report.differences.is_empty(), "{}", report.differences[0]);
        assert!(report.matched * 2 >= report.cases, "{} of {}", report.matched, report.cases);
        assert!(report.coverage.count(Rule::Basename) > 0);
    }
}

#[test]
fn one_case_is_compared_and_a_known_difference_is_none() {
    let scratch = TempDir::new().unwrap();
    let shifted = || Arc::new(Shifted(Engine::default()));
    let kit = || SearchConformance::new(Arc::new(Engine::default()), shifted(), scratch.path());
    let mut tree = Tree::new();
    tree.file("f", "a\nb\nneedle\n");
    let call = |pattern: &str| Call::Grep(GrepQuery { pattern: pattern.to_owned(), ..GrepQuery::default() });
    let found = block_on(kit().compare(&tree, &call("needle"))).unwrap().unwrap();
    assert!(found.reference.contains("line: 3") && found.peer.contains("line: 4"));
    assert!(block_on(kit().compare(&tree, &call("a"))).unwrap().is_none());
    let agree = block_on(kit().shrink(tree.clone(), call("a"))).unwrap_err();
    assert_eq!(agree.kind(), std::io::ErrorKind::InvalidInput);
    let known = Known { name: "shifted", rule: "search contract 2.1", applies: |_, _, _, peer| peer.found() };
    assert!(block_on(kit().knowing([known]).compare(&tree, &call("needle"))).unwrap().is_none());
    let report = block_on(kit().knowing([known]).run(1, 60)).unwrap();
    assert!(report.differences.is_empty() && report.known["shifted"] > 0);
}
