//! What the kernel's decisions cost, each against something known in the same run.
//!
//! Every figure is a median over [`RUNS`] runs; a ratio is the median of the ratios of the runs, in each of which the two
//! sides follow each other. Each case checks the answer that it times.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowcell_kernel::flows::capability::{Action, Capability, CapabilityPattern};
use flowcell_kernel::flows::rules::{Effect, Rule, evaluate, evaluate_text};
use flowcell_kernel::process::{Command, Part, Plan};
use flowcell_kernel::{
    Authority, FileSystem, FsOptions, GrantStore, GrantStoreOptions, MemoryPersist, SeededEntropy, Workspace,
};
use rustix::fs::{CWD, Mode, OFlags};

/// Runs a median is taken over.
const RUNS: usize = 15;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("medians over {RUNS} runs");
    rules();
    worst_pair();
    line();
    open().await;
}

fn pattern(text: &str) -> CapabilityPattern {
    CapabilityPattern::parse(text).unwrap()
}

/// Times `work` and its peer in turn, `turns` times a run.
fn compare(name: &str, peer_name: &str, turns: u32, mut work: impl FnMut(), mut peer: impl FnMut()) {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        for _ in 0..turns {
            work();
        }
        start.elapsed() / turns
    };
    let mut pairs: Vec<(Duration, Duration)> = Vec::new();
    for _ in 0..RUNS {
        let own = time(&mut work);
        pairs.push((own, time(&mut peer)));
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let micros = |value: &Duration| value.as_secs_f64() * 1e6;
    let own = median(pairs.iter().map(|(own, _)| micros(own)).collect());
    let other = median(pairs.iter().map(|(_, peer)| micros(peer)).collect());
    let ratio = median(pairs.iter().map(|(own, peer)| own.as_secs_f64() / peer.as_secs_f64()).collect());
    println!("{name:<52} {own:>10.2} us   {peer_name:<36} {other:>10.2} us   ratio {ratio:.1}");
}

/// A thousand rules, of which one speaks of the request, against a thousand comparisons of the same texts.
fn rules() {
    let rules: Vec<Rule> =
        (0..1_000).map(|n| Rule::allow(pattern(&format!("fs:read:/ws/crates/part-{n:04}/src/**")))).collect();
    let request = Capability::parse("fs:read:/ws/crates/part-0500/src/main.rs").unwrap();
    assert_eq!(evaluate(&[&rules], &request), Effect::Allow);
    let literals: Vec<String> =
        rules.iter().map(|rule| rule.pattern.resource().replace("/**", "/main.rs")).collect();
    compare(
        "evaluate, 1,000 rules",
        "1,000 prefix comparisons",
        20,
        || assert_eq!(evaluate(&[black_box(&rules)], black_box(&request)), Effect::Allow),
        || {
            let wanted = black_box(request.resource());
            let found = black_box(&literals).iter().filter(|own| wanted.starts_with(own.as_str())).count();
            assert_eq!(found, 1);
        },
    );
    let table: HashMap<&str, Effect> = literals.iter().map(|text| (text.as_str(), Effect::Allow)).collect();
    compare(
        "evaluate, 1,000 rules",
        "one lookup in a hash table",
        20,
        || assert_eq!(evaluate(&[black_box(&rules)], black_box(&request)), Effect::Allow),
        || assert!(black_box(&table).contains_key(black_box(request.resource()))),
    );
}

/// The pair that makes the two-pointer scan go back most, against as many comparisons of bytes as the bound allows.
fn worst_pair() {
    let glob = format!("proc:spawn:*{}b", "a".repeat(4_094));
    let request = Capability::new(Action::ProcSpawn, "a".repeat(4_096)).unwrap();
    let glob = pattern(&glob);
    let half = pattern(&format!("proc:spawn:*{}b", "a".repeat(2_048)));
    assert!(!glob.matches(&request) && !half.matches(&request));
    let (left, right) = (vec![b'a'; 4_096], vec![b'b'; 4_096]);
    let peer = || {
        let equal: usize = black_box(&left)
            .iter()
            .map(|one| black_box(&right).iter().filter(|other| *other == one).count())
            .sum();
        assert_eq!(equal, 0);
    };
    compare(
        "matches, 4,096 x 4,096 units",
        "4,096 x 4,096 comparisons of bytes",
        1,
        || assert!(!black_box(&glob).matches(&request)),
        peer,
    );
    compare(
        "matches, 2,050 x 4,096 units, the most steps",
        "4,096 x 4,096 comparisons of bytes",
        1,
        || assert!(!black_box(&half).matches(&request)),
        peer,
    );
}

/// A line of 4 KiB under a policy of 40 rules, against splitting the same bytes at blanks.
fn line() {
    let mut text = String::new();
    while text.len() < 4_000 {
        let _ = write!(text, "cargo test -p part-{} 2>&1 | grep -v 'a;b' && ls -l \"$HOME/x\"; ", text.len());
    }
    text.push_str("echo done");
    let mut rules =
        vec![Rule::allow(pattern("proc:spawn:cargo *")), Rule::allow(pattern("proc:spawn:grep *"))];
    rules.push(Rule::allow(pattern("proc:spawn:ls *")));
    rules.push(Rule::allow(pattern("proc:spawn:echo *")));
    rules.extend((0..36).map(|n| Rule::deny(pattern(&format!("proc:spawn:program-{n} *")))));
    let command = Command::Line { line: text.clone(), shell: None };
    let decide = |rules: &[Rule]| {
        let plan = Plan::of(black_box(&command), None);
        plan.judge(&mut |part| match part {
            // What a narrow look leaves of these rules.
            Part::Whole { .. } => Effect::Ask,
            Part::Text(text) => evaluate_text(&[rules], Action::ProcSpawn, text),
        })
        .effect
    };
    assert_eq!(decide(&rules), Effect::Allow);
    let blanks = || {
        let words = black_box(&text).split([' ', ';', '|', '&']).map(str::to_owned).collect::<Vec<_>>();
        assert!(words.len() > 100);
    };
    compare(
        "line of 4 KiB, read",
        "splitting it at blanks",
        20,
        || drop(black_box(Plan::of(&command, None))),
        blanks,
    );
    compare(
        "line of 4 KiB, decided under 40 rules",
        "splitting it at blanks",
        20,
        || assert_eq!(decide(&rules), Effect::Allow),
        blanks,
    );
    let bytes = text.as_bytes();
    compare(
        "line of 4 KiB, decided under 40 rules",
        "counting its bytes",
        20,
        || assert_eq!(decide(&rules), Effect::Allow),
        || assert!(black_box(bytes).iter().filter(|byte| **byte == b' ').count() > 100),
    );
}

/// An authorised open of a file for reading, against the host's own.
async fn open() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::fs::write(root.join("a/b/c"), "text").unwrap();
    let mut options = GrantStoreOptions::new(&root, Arc::new(MemoryPersist::new()));
    options.configured = vec![Rule::allow(pattern(&format!("fs:read:{}/**", root.display())))];
    let authority = Authority::root(GrantStore::open(options).await.unwrap());
    let files = FileSystem::new(
        authority,
        Workspace::open(&root).unwrap(),
        FsOptions::default(),
        Arc::new(SeededEntropy::new(1)),
    )
    .unwrap();
    let bare: OwnedFd =
        rustix::fs::openat(CWD, &root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let openat = || {
        drop(black_box(
            rustix::fs::openat(bare.as_fd(), "a/b/c", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .unwrap(),
        ));
    };
    // The operation never waits here: it is polled once.
    let authorised = || {
        let mut open = std::pin::pin!(files.open("a/b/c"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match open.as_mut().poll(&mut context) {
            std::task::Poll::Ready(file) => drop(black_box(file.unwrap())),
            std::task::Poll::Pending => panic!("waits"),
        }
    };
    compare("authorised open of a/b/c", "openat", 200, authorised, openat);
}
