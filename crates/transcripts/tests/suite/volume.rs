//! Large inputs: constant memory for a whole session file, and lines that arrive in small pieces.

use std::process::Command;
use std::time::Instant;

use flowcell_transcripts::{ClaudeState, CodexState, Decoder, State};

use crate::corpus;
use crate::decode::Format;

/// Whether the full volume was asked for.
#[allow(clippy::disallowed_methods)]
pub(crate) fn full() -> bool {
    std::env::var("FLOWCELL_VOLUME").is_ok_and(|volume| volume == "full")
}

/// Set in the process that is measured.
const CHILD: &str = "FLOWCELL_TRANSCRIPTS_MEASURED";

/// A session file of 2 GiB (in CI: of 6 MiB), made as it is read, takes the memory of its longest line.
#[test]
#[allow(clippy::disallowed_methods)]
fn a_large_file_in_constant_memory() {
    if std::env::var_os(CHILD).is_some() {
        constant::<CodexState>("codex");
        constant::<ClaudeState>("claude-code");
        return;
    }
    if corpus::peak().is_none() || !corpus::forget_peak() {
        println!("skipped: a large file in constant memory: /proc/self does not say");
        assert!(std::env::var("CI").is_err(), "it has to be measured in CI");
        return;
    }
    // A process of its own: the memory of the other tests is not counted.
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "volume::a_large_file_in_constant_memory", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let measured: Vec<&str> = said.lines().filter(|line| line.contains("measured: ")).collect();
    assert_eq!(measured.len(), 2, "{said}");
    for line in measured {
        println!("{}", &line[line.find("measured: ").unwrap()..]);
    }
}

fn constant<S: Format>(agent: &str) {
    let size: u64 = if full() { 2 << 30 } else { 6 << 20 };
    let captures = corpus::captures(agent);
    let longest = captures.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    let mut decoder = Decoder::<S>::new();
    let mut feed = |round: u32| {
        let bytes = corpus::round(&captures, round);
        let mut entries = 0;
        for chunk in bytes.chunks(65_536) {
            entries += decoder.feed(chunk).unwrap().len();
        }
        (bytes.len() as u64, entries)
    };
    let (_, first) = feed(0);
    let before = corpus::resident().unwrap();
    assert!(corpus::forget_peak());
    let (mut fed, mut entries, mut round, start) = (0, 0, 1, Instant::now());
    while fed < size {
        let (bytes, more) = feed(round);
        assert_eq!(more, first, "every round gives what the first gave");
        (fed, entries, round) = (fed + bytes, entries + more, round + 1);
    }
    // Calls that the captures leave unanswered stay held, round after round.
    let above = corpus::peak().unwrap().saturating_sub(before);
    let took = start.elapsed();
    let state = serde_json::to_vec(decoder.state()).unwrap().len();
    // The generated round, the chunk, what waits in the state, the lines, and what an allocator keeps.
    let bound = 2 * captures.len() + 65_536 + 4 * (longest + state) + (4 << 20);
    println!(
        "\nmeasured: constant memory, {agent}: {fed} bytes, {entries} entries, {above} bytes above, bound {bound}, {took:?}"
    );
    assert!(above <= bound, "{agent}: {above} bytes above, bound {bound}");
}

/// The time of a line that arrives byte by byte grows with its length, not with its square.
#[test]
fn a_line_in_chunks_of_one_byte() {
    fn decode<S: State>(length: usize) {
        let line = format!("{{\"type\":\"mode\",\"text\":\"{}\"}}\n", "é ".repeat(length / 3));
        let mut decoder = Decoder::<S>::new();
        for byte in line.as_bytes() {
            decoder.feed(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!(decoder.state().line(), 1);
    }
    // Copying what is held for each byte would move half a terabyte for 1 MiB: this would not end.
    let lengths = if full() { &[1 << 20, 8 << 20][..] } else { &[1 << 20] };
    for length in lengths {
        let start = Instant::now();
        decode::<ClaudeState>(*length);
        println!("measured: a line of {length} bytes in chunks of 1 byte: {:?}", start.elapsed());
    }
}
