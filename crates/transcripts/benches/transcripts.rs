//! How fast a transcript is decoded, against a tree of every line, and how much memory that takes.
//!
//! The corpus of a format is its live captures repeated with fresh ids until there are 50 MB; the shares of its record kinds
//! are asserted. The peer is `serde_json::from_slice::<Value>` over the lines of the same bytes, in the same run: the two
//! follow each other [`ROUNDS`] times, and the ratio is the median of the ratios of the rounds.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

#[path = "../tests/suite/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use flowcell_transcripts::{ClaudeState, CodexState, Decoder, Limits, State};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Rounds a median is taken over.
const ROUNDS: usize = 5;
/// The least size of a corpus, in bytes.
const CORPUS: usize = 50_000_000;
/// What a share of a record kind may differ by, of itself.
const MIX: f64 = 0.05;
/// The least ratio.
const FASTER: f64 = 1.5;
/// Asks this program for the memory of one agent.
const MEMORY: &str = "--memory=";
/// Peak memory above the state, in longest lines.
const PEAK_LINES: f64 = 4.0;

fn main() {
    // Memory is measured in a process of its own, which has had no other peak.
    match std::env::args().find_map(|argument| argument.strip_prefix(MEMORY).map(str::to_owned)).as_deref() {
        Some("codex, a prompt") => return memory::<CodexState>("codex, a prompt", &codex_line),
        Some("codex, arguments of numbers") => {
            return memory::<CodexState>("codex, arguments of numbers", &codex_numbers);
        }
        Some("claude-code, a prompt") => return memory::<ClaudeState>("claude-code, a prompt", &claude_line),
        Some("claude-code, a patch") => return memory::<ClaudeState>("claude-code, a patch", &claude_patch),
        _ => {}
    }
    println!("medians over {ROUNDS} rounds");
    speed::<CodexState>("codex");
    speed::<ClaudeState>("claude-code");
    for agent in
        ["codex, a prompt", "codex, arguments of numbers", "claude-code, a prompt", "claude-code, a patch"]
    {
        let own = std::env::current_exe().unwrap();
        let status = std::process::Command::new(own).arg(format!("{MEMORY}{agent}")).status().unwrap();
        assert!(status.success(), "memory of {agent}");
    }
    for mib in [1, 8] {
        byte_by_byte::<CodexState>(mib, &codex_line);
    }
}

fn speed<S: State>(agent: &str) {
    let captures = corpus::captures(agent);
    let mut bytes = Vec::new();
    let mut round = 0;
    while bytes.len() < CORPUS {
        bytes.extend(corpus::round(&captures, round));
        round += 1;
    }
    same_mix(&captures, &bytes);
    let (mut ours, mut theirs, mut ignored, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut entries = 0;
    for _ in 0..ROUNDS {
        let own = timed(|| {
            let decoded = S::default().decode_with(&Limits::default(), &bytes).unwrap();
            entries = decoded.entries.len();
            black_box(decoded);
        });
        let tree = timed(|| {
            for line in lines(&bytes) {
                black_box(serde_json::from_slice::<Value>(line).unwrap());
            }
        });
        ignored.push(timed(|| {
            for line in lines(&bytes) {
                black_box(serde_json::from_slice::<IgnoredAny>(line).unwrap());
            }
        }));
        ratios.push(tree.as_secs_f64() / own.as_secs_f64());
        ours.push(own);
        theirs.push(tree);
    }
    ratios.sort_by(f64::total_cmp);
    let rate = |samples: &mut Vec<Duration>| {
        samples.sort();
        bytes.len() as f64 / 1e6 / samples[samples.len() / 2].as_secs_f64()
    };
    let longest = lines(&bytes).map(<[u8]>::len).max().unwrap();
    println!(
        "{agent}: {:.1} MB, {} lines (longest {longest} bytes), {entries} entries, {round} rounds of captures",
        bytes.len() as f64 / 1e6,
        lines(&bytes).count()
    );
    let ratio = ratios[ratios.len() / 2];
    println!(
        "{agent}: decode {:.0} MB/s   serde_json Value {:.0} MB/s   IgnoredAny {:.0} MB/s   decode / Value = {ratio:.2}",
        rate(&mut ours),
        rate(&mut theirs),
        rate(&mut ignored)
    );
    assert!(ratio >= FASTER, "{agent}: {ratio:.2} times as fast, not {FASTER}");
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The share of each kind of record in the corpus is the one in the captures.
fn same_mix(captures: &[u8], corpus: &[u8]) {
    let (of_captures, of_corpus) = (mix(captures), mix(corpus));
    assert_eq!(of_captures.len(), of_corpus.len(), "the same kinds");
    for (kind, share) in of_captures {
        let other = of_corpus[&kind];
        assert!(
            (other - share).abs() <= MIX * share,
            "{kind}: {share} of the captures, {other} of the corpus"
        );
    }
}

fn mix(bytes: &[u8]) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    let mut all = 0.0;
    for line in lines(bytes) {
        let record: Value = serde_json::from_slice(line).unwrap();
        let kinds = [
            &record["type"],
            &record["payload"]["type"],
            &record["payload"]["item"]["type"],
            &record["attachment"]["type"],
        ];
        let kind: Vec<&str> = kinds.iter().filter_map(|kind| kind.as_str()).collect();
        *counts.entry(kind.join(" ")).or_insert(0.0) += 1.0;
        all += 1.0;
    }
    counts.into_iter().map(|(kind, count)| (kind, count / all)).collect()
}

/// Peak memory while a stream with long lines is decoded in chunks of 64 KiB: its entries are dropped as they come.
fn memory<S: State>(agent: &str, line: &dyn Fn(usize) -> Vec<u8>) {
    let length = 16 << 20;
    let (first, long) = (line(0), line(length));
    let longest = long.len();
    let mut decoder = Decoder::<S>::new();
    decoder.feed(&first).unwrap();
    let (Some(before), true) = (corpus::resident(), corpus::forget_peak()) else {
        println!("skipped: memory of {agent}: /proc/self does not say");
        return;
    };
    let mut entries = 0;
    for _ in 0..4 {
        for chunk in long.chunks(65_536) {
            entries += decoder.feed(chunk).unwrap().len();
        }
    }
    let peak = corpus::peak().unwrap().saturating_sub(before);
    assert_eq!(entries, 4, "one entry a line");
    let lines = peak as f64 / longest as f64;
    println!(
        "{agent}: peak {:.1} MiB above the input for lines of {:.1} MiB in chunks of 64 KiB: {lines:.2} lines",
        peak as f64 / 1_048_576.0,
        longest as f64 / 1_048_576.0
    );
    assert!(lines <= PEAK_LINES, "{agent}: {lines:.2} lines at the peak");
}

/// A line that arrives one byte at a time.
fn byte_by_byte<S: State>(mib: usize, line: &dyn Fn(usize) -> Vec<u8>) {
    let long = line(mib << 20);
    let mut state = S::default();
    state = state.decode_with(&Limits::default(), &line(0)).unwrap().state;
    let took = timed(|| {
        for byte in &long {
            // The function itself, the former state dropped: the decoder type is the same call.
            state = state.decode_with(&Limits::default(), std::slice::from_ref(byte)).unwrap().state;
        }
    });
    assert_eq!(state.seq(), 2);
    println!(
        "a line of {mib} MiB in chunks of 1 byte: {:.2} s, {:.0} ns a byte",
        took.as_secs_f64(),
        took.as_nanos() as f64 / long.len() as f64
    );
}

/// A Codex tool call with arguments of `length` bytes: a tree of them would be many times as large.
fn codex_numbers(length: usize) -> Vec<u8> {
    let session = if length == 0 { codex_line(0) } else { Vec::new() };
    let numbers = "1,".repeat(length / 2);
    let record = format!(
        "{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"item_completed\",\"item\":{{\"type\":\"McpToolCall\",\"arguments\":{{\"n\":[{numbers}1]}}}}}}}}\n"
    );
    [session, record.into_bytes()].concat()
}

/// A Claude Code result with a patch of `length` bytes, behind its call when it is empty.
fn claude_patch(length: usize) -> Vec<u8> {
    let lines = "\"+some text\",".repeat(length / 13);
    let head = "\"version\":\"2.1.0\",\"sessionId\":\"s\"";
    let call = |id: usize| {
        format!(
            "{{\"type\":\"assistant\",{head},\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"id\":\"u{id}\",\"name\":\"Edit\",\"input\":{{}}}}]}}}}\n"
        )
    };
    let result = format!(
        "{{\"type\":\"user\",{head},\"toolUseResult\":{{\"structuredPatch\":[{{\"lines\":[{lines}\" \"]}}]}},\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"u0\"}}]}}}}\n"
    );
    format!("{}{result}", call(0)).into_bytes()
}

/// A Codex prompt of `length` bytes, behind a session record when it is empty.
fn codex_line(length: usize) -> Vec<u8> {
    let session = if length == 0 {
        "{\"type\":\"session_meta\",\"payload\":{\"id\":\"s\",\"cli_version\":\"0.160.0\"}}\n"
    } else {
        ""
    };
    let text = "some text\\n".repeat(length / 11);
    format!("{session}{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"item_completed\",\"item\":{{\"type\":\"UserMessage\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}}}\n").into_bytes()
}

/// A Claude Code prompt of `length` bytes.
fn claude_line(length: usize) -> Vec<u8> {
    let text = "some text\\n".repeat(length / 11);
    format!("{{\"type\":\"user\",\"version\":\"2.1.0\",\"sessionId\":\"s\",\"message\":{{\"content\":\"x{text}\"}}}}\n").into_bytes()
}
