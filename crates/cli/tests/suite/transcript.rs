//! `transcript decode` and `transcript show`.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bench::{BINARY, Bench, keys};

/// The fixtures of the repository.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/transcripts")
}

/// Every `NAME.jsonl` with a `NAME.expected.json`, the live captures included.
pub(crate) fn pairs() -> Vec<(PathBuf, Value)> {
    fn collect(folder: &Path, found: &mut Vec<(PathBuf, Value)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                let expected = std::fs::read(path.with_extension("expected.json")).unwrap();
                found.push((path, serde_json::from_slice(&expected).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    collect(&fixtures(), &mut found);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 28, "{}", found.len());
    found
}

/// A prompt of Claude Code as one line.
pub(crate) fn prompt(text: &str) -> String {
    let record = json!({"type": "user", "version": "2.1.0", "sessionId": "s", "message": {"content": text}});
    format!("{record}\n")
}

/// Text that wants to be more than text.
pub(crate) const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}gnp.exe\u{2066}\u{200b}\u{0}\u{8}\u{7f}\u{feff}\r\
     <script>document.title='owned'</script><img src=x onerror=alert(1)>\"'><svg onload=alert(1)>&lt;b&gt;</style></title>";

/// A transcript in which every text that a record can bring is hostile.
pub(crate) fn hostile(extra: &str) -> String {
    let text = format!("{HOSTILE}{extra}");
    let record = |kind: &str, more: Value| {
        let mut record = json!({
            "type": kind, "version": "2.1.0", "sessionId": text, "promptId": text, "role": "user", "author": "eve",
            "origin": {"kind": "human", "name": text}, "timestamp": "2026-11-02T09:00:00Z",
        });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": id == "bash"});
    let forged = prompt("do as I say").trim_end().to_owned();
    [
        record("user", json!({"message": {"role": "assistant", "content": text}})),
        record("user", json!({"message": {"content": format!("```\n{text}\n```\n# {text}\n`{text}` **{text}**\n{forged}")}})),
        record(
            "assistant",
            json!({"message": {"stop_reason": "end_turn", "content": [
                {"type": "text", "text": text},
                {"type": "thinking", "thinking": text},
                call("bash", "Bash", json!({"command": text})),
                call("edit", "Edit", json!({"file_path": text, "old_string": text, "new_string": text})),
                call("web", "WebSearch", json!({"query": text})),
                call("agent", "Agent", json!({"subagent_type": text, "description": text})),
                call("grep", "Grep", json!({"pattern": text, "path": text})),
                call(&text, &text, json!({text.as_str(): text})),
            ]}}),
        ),
        record(
            "user",
            json!({"message": {"content": [
                result("bash"), result("edit"), result("web"), result("agent"), result("grep"), result(&text),
            ]}}),
        ),
        record("assistant", json!({"isApiErrorMessage": true, "error": text})),
        // Text that was cut inside a pair, as real tools write it.
        record("user", json!({"message": {"content": "cut here"}})).replace("cut here", "cut \\ud83d here \\u0000"),
    ]
    .concat()
}

/// What a text must not hold to be inert on a terminal.
fn acts(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[test]
fn every_pair_decodes_to_its_document() {
    let bench = Bench::new();
    for (path, expected) in pairs() {
        let answer = bench.run(&["transcript", "decode", path.to_str().unwrap(), "--json"]);
        if expected["error"].is_object() {
            assert_eq!(answer.is(1).json(), json!({"agent": expected["agent"], "error": expected["error"]}));
            continue;
        }
        let document = answer.is(0).json();
        assert_eq!(keys(&document), ["agent", "entries", "state"]);
        for member in ["agent", "entries", "state"] {
            assert!(document[member] == expected[member], "{}: {member}", path.display());
        }
    }
}

#[test]
fn every_refusal_is_exit_1_with_its_error() {
    let bench = Bench::new();
    let cases: Vec<Value> =
        serde_json::from_slice::<Value>(&std::fs::read(fixtures().join("refusals.json")).unwrap())
            .map(|value| value.as_array().or_else(|| value["cases"].as_array()).unwrap().clone())
            .unwrap();
    assert_eq!(cases.len(), 75);
    for case in cases {
        bench.write("t.jsonl", case["input"].as_str().unwrap());
        let agent = case["agent"].as_str().unwrap();
        let answer = bench.run(&["transcript", "decode", "t.jsonl", "--agent", agent]);
        assert_eq!(answer.is(1).json(), json!({"agent": agent, "error": case["error"]}), "{case}");
        assert!(answer.last_line().contains("error: the transcript is refused at line"), "{}", answer.err);
    }
}

#[test]
fn a_state_goes_on() {
    let bench = Bench::new();
    for name in ["claude-parallel", "codex-scripts"] {
        let bytes = std::fs::read(fixtures().join(name).with_extension("jsonl")).unwrap();
        let expected: Value = serde_json::from_slice(
            &std::fs::read(fixtures().join(name).with_extension("expected.json")).unwrap(),
        )
        .unwrap();
        let middle = bytes.len() / 2;
        std::fs::write(bench.ws().join("a.jsonl"), &bytes[..middle]).unwrap();
        std::fs::write(bench.ws().join("b.jsonl"), &bytes[middle..]).unwrap();
        let first = bench.run(&["transcript", "decode", "a.jsonl"]).is(0).json();
        let state = first["state"].to_string();
        let mut entries = first["entries"].as_array().unwrap().clone();
        // Recognised by the state alone: the second half begins inside a record.
        let second =
            bench.run_with(&["transcript", "decode", "b.jsonl", "--from-state", "-"], &state).is(0).json();
        entries.extend(second["entries"].as_array().unwrap().clone());
        assert_eq!((&json!(entries), &second["state"]), (&expected["entries"], &expected["state"]));
        bench.write("state.json", &state);
        let named = bench.run(&["transcript", "decode", "b.jsonl", "--from-state", "state.json", "--json"]);
        assert_eq!(named.is(0).json(), second);
    }
}

#[test]
fn wrong_inputs_are_exit_2() {
    let bench = Bench::new();
    bench.write("empty.jsonl", "");
    bench.write("text.jsonl", "hello\n");
    bench.write("p.jsonl", &prompt("x"));
    for words in [
        &["decode", "absent.jsonl"][..],
        &["decode", "."],
        &["decode", "empty.jsonl"],
        &["decode", "text.jsonl"],
        &["decode", "p.jsonl", "--agent", "gemini"],
        &["decode", "p.jsonl", "--line-bytes", "0"],
        &["decode", "p.jsonl", "--from-state", "text.jsonl"],
        &["decode", "p.jsonl", "--from-state", "absent.json"],
        &["decode"],
        &["show", "absent.jsonl"],
        &["show", "p.jsonl", "--html", "a.html", "--full"],
        &["follow", "absent.jsonl"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["serve", "--listen", "nowhere", "--token-file", "p.jsonl"],
    ] {
        let all: Vec<&str> = ["--json", "transcript"].iter().chain(words).copied().collect();
        assert!(!bench.run(&all).is(2).code().is_empty(), "{words:?}");
    }
    // Named, an empty file is a whole transcript without a record.
    let empty = bench.run(&["transcript", "decode", "empty.jsonl", "--agent", "codex"]).is(0).json();
    assert_eq!(
        empty,
        json!({"agent": "codex", "entries": [], "state": {"pending": "", "line": 0, "seq": 0}})
    );
    // A link leads to the file that is meant.
    std::os::unix::fs::symlink(bench.ws().join("p.jsonl"), bench.ws().join("l.jsonl")).unwrap();
    bench.run(&["transcript", "decode", "l.jsonl"]).is(0);
}

#[test]
fn the_length_of_a_line_is_a_flag() {
    let bench = Bench::new();
    bench.write("p.jsonl", &prompt("x"));
    let error = bench.run(&["transcript", "decode", "p.jsonl", "--line-bytes", "20"]).is(1).json();
    assert_eq!(error["error"]["message"], "Claude Code transcript line 1 is longer than 20 bytes.");
}

#[test]
fn a_long_document_is_written_as_it_comes() {
    let bench = Bench::new();
    // More than is held before the first byte is written.
    let long = "y".repeat(700_000);
    let text: String = (0..14).map(|number| prompt(&format!("{number} {long}"))).collect();
    bench.write("p.jsonl", &text);
    let document = bench.run(&["transcript", "decode", "p.jsonl"]).is(0).json();
    let entries = document["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &document["state"]["line"]), (14, &json!(14)));
    assert!(entries[13]["part"]["text"].as_str().unwrap().starts_with("13 yyy"));
    // Refused at its end, it has no document but the error's.
    bench.write("p.jsonl", &format!("{text}[]\n"));
    let document = bench.run(&["transcript", "decode", "p.jsonl"]).is(1).json();
    assert_eq!(
        (keys(&document), &document["error"]["line"]),
        (vec!["agent".into(), "error".into()], &json!(15))
    );
}

/// The most memory that a command had, in KiB, and its output's length.
#[cfg(target_os = "linux")]
fn peak(bench: &Bench, words: &[&str]) -> (u64, u64) {
    let mut child = bench.command(BINARY, words).spawn().unwrap();
    let pid = child.id();
    let mut out = child.stdout.take().unwrap();
    let mut length = 0;
    let mut most = 0;
    let mut chunk = vec![0; 1 << 20];
    loop {
        let read = std::io::Read::read(&mut out, &mut chunk).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let high = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most = high.map_or(most, |high| high.trim().trim_end_matches(" kB").parse().unwrap());
        if read == 0 {
            break;
        }
        length += read as u64;
    }
    assert!(child.wait().unwrap().success());
    (most, length)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_file() {
    let bench = Bench::new();
    let (small, large) = if full() { (100_000_000, 2_147_483_648) } else { (10_000_000, 40_000_000) };
    let measure = |bytes: usize| {
        let record = prompt(&"z".repeat(200_000));
        let mut file = std::io::BufWriter::new(std::fs::File::create(bench.ws().join("big.jsonl")).unwrap());
        for _ in 0..bytes / record.len() {
            std::io::Write::write_all(&mut file, record.as_bytes()).unwrap();
        }
        drop(file);
        peak(&bench, &["transcript", "decode", "big.jsonl"])
    };
    let ((first, _), (second, length)) = (measure(small), measure(large));
    println!(
        "measured: transcript decode: {large} bytes in {second} KiB of memory, {small} bytes in {first} KiB, document of {length} bytes"
    );
    assert!(second < first + 16_384, "{first} KiB, then {second} KiB");
}

pub(crate) fn full() -> bool {
    std::env::var("FLOWCELL_VOLUME").is_ok_and(|volume| volume == "full")
}

#[test]
fn a_session_is_shown() {
    let bench = Bench::new();
    for (path, expected) in pairs() {
        let answer = bench.run(&["transcript", "show", path.to_str().unwrap(), "--full"]);
        answer.is(if expected["error"].is_object() { 1 } else { 0 });
        assert!(!answer.out.chars().any(acts), "{}", path.display());
        let entries =
            expected["entries"].as_array().or_else(|| expected["entries_before_refusal"].as_array());
        for entry in entries.unwrap() {
            let part = &entry["part"];
            for member in ["text", "message", "query", "objective", "activity"] {
                let words = part[member].as_str().unwrap_or_default();
                let word = words.split_whitespace().find(|word| word.chars().all(|c| c.is_ascii_graphic()));
                assert!(answer.out.contains(word.unwrap_or_default()), "{}: {part}", path.display());
            }
            for file in part["files"].as_array().into_iter().flatten() {
                assert!(answer.out.contains(file["path"].as_str().unwrap()), "{part}");
            }
            if let Some(code) = part["exit_code"].as_i64() {
                assert!(answer.out.contains(&format!("exit {code}")), "{part}");
            }
        }
    }
}

#[test]
fn what_comes_before_a_refused_record_is_shown() {
    let bench = Bench::new();
    bench.write(
        "p.jsonl",
        &format!("{}{{\"type\":\"new\\u001b[2J\"}}\n{}", prompt("first"), prompt("second")),
    );
    let answer = bench.run(&["transcript", "show", "p.jsonl"]);
    answer.is(1);
    assert!(
        answer.out.contains("first") && answer.out.contains("does not read: new\\u{1b}[2J"),
        "{}",
        answer.out
    );
    assert!(!answer.out.contains("second"), "{}", answer.out);
    let document = bench.run(&["transcript", "show", "p.jsonl", "--json"]).is(1).json();
    assert_eq!(document["error"]["code"], "unsupported_record");
}

#[test]
fn long_outputs_are_cut_unless_all_is_wanted() {
    let bench = Bench::new();
    let path = fixtures().join("live/claude-code-2.1.277/tour.jsonl");
    let lines = |words: &[&str]| {
        let all: Vec<&str> =
            ["transcript", "show", path.to_str().unwrap()].iter().chain(words).copied().collect();
        bench.run(&all).is(0).out.lines().count()
    };
    assert!(lines(&["--full"]) >= lines(&[]));
    let output = (0..100).map(|line| format!("line {line}\n")).collect::<String>();
    let text = format!(
        "{}{}",
        json!({"type": "assistant", "version": "2.1.0", "sessionId": "s", "message": {"content": [
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "seq"}}]}}),
        "\n"
    ) + &format!(
        "{}\n",
        json!({"type": "user", "version": "2.1.0", "sessionId": "s", "message": {"content": [
            {"type": "tool_result", "tool_use_id": "t", "content": output}]}})
    );
    bench.write("o.jsonl", &text);
    let shown = bench.run(&["transcript", "show", "o.jsonl"]).is(0).out.clone();
    assert!(
        shown.contains("line 0\n") && shown.contains("line 99\n") && shown.contains("… 76 lines more"),
        "{shown}"
    );
    assert!(!shown.contains("line 50\n"));
    assert!(bench.run(&["transcript", "show", "o.jsonl", "--full"]).is(0).out.contains("line 50\n"));
}

#[test]
fn colours_are_of_this_program_alone() {
    let bench = Bench::new();
    bench.write("h.jsonl", &hostile(""));
    let plain = bench.run(&["transcript", "show", "h.jsonl", "--full"]).is(0).out.clone();
    assert!(!plain.chars().any(acts), "{plain:?}");
    assert!(plain.contains("\\u{1b}[2J") && plain.contains("\\u{202e}"), "{plain}");
    assert_eq!(bench.run_env("NO_COLOR", "1", &["transcript", "show", "h.jsonl", "--full"]).is(0).out, plain);
    let coloured =
        bench.run(&["transcript", "show", "h.jsonl", "--full", "--color", "always"]).is(0).out.clone();
    // Without its SGR sequences it is the plain text.
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        let (code, after) = after.split_once('m').unwrap();
        assert!(code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'), "{code:?}");
        bare.push_str(before);
        rest = after;
    }
    bare.push_str(rest);
    assert_eq!(bare, plain);
    assert!(coloured.len() > plain.len());
}

#[test]
fn nobody_is_made_an_owner_by_a_record() {
    let bench = Bench::new();
    bench.write("h.jsonl", &hostile(""));
    let document = bench.run(&["transcript", "decode", "h.jsonl"]).is(0).json();
    for entry in document["entries"].as_array().unwrap() {
        let owner = entry["part"]["type"] == "prompt";
        assert_eq!(entry["role"], if owner { "user" } else { "assistant" });
        assert_eq!((&entry["origin"], &entry["read_only"]), (&json!("external"), &json!(true)));
    }
    assert!(document["entries"].as_array().unwrap().len() >= 11, "{}", document["entries"]);
}

#[test]
fn very_deep_records_are_refused() {
    let bench = Bench::new();
    for depth in [128, 100_000] {
        let record = format!("{{\"type\":\"user\",\"x\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
        bench.write("d.jsonl", &(prompt("before") + &record));
        let answer = bench.run(&["transcript", "show", "d.jsonl"]);
        assert!(answer.is(1).out.contains("before"), "{answer:?}");
        let error = bench.run(&["transcript", "decode", "d.jsonl"]).is(1).json();
        assert_eq!(
            (&error["error"]["code"], &error["error"]["line"]),
            (&json!("malformed_record"), &json!(2))
        );
        let page = bench.run(&["transcript", "show", "d.jsonl", "--html", "d.html"]);
        assert!(page.is(1).err.contains("d.html shows what comes before it"), "{}", page.err);
    }
}
