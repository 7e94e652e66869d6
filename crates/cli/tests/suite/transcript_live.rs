//! The installed command-line agents in empty temporary homes, against a scripted provider on loopback, read as they write.
//!
//! Opt-in: `FLOWCELL_REAL_AGENT_CLI=1`, with `codex` and `claude` on `PATH` (npm: `@openai/codex`, `@anthropic-ai/claude-code`). No account is needed.
#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::Bench;

/// How long the provider thinks about its last answer, so that the session is found while it runs.
const THINKS: Duration = Duration::from_secs(4);

/// A provider with one script: a command for Claude Code, then an answer; an answer for Codex.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    format!("http://{address}")
}

fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let answer = answer(&head, &String::from_utf8_lossy(&body));
        let kind = if answer.starts_with('{') { "application/json" } else { "text/event-stream" };
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", answer.len());
        if stream.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(head: &str, body: &str) -> String {
    let mut out = String::new();
    let mut event = |data: Value| {
        write!(out, "event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap()).unwrap();
    };
    if head.contains("/responses") {
        std::thread::sleep(THINKS);
        let text = json!([{"type": "output_text", "text": "All done."}]);
        let item = json!({"type": "message", "id": "m1", "role": "assistant", "content": text});
        let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1, "output_tokens_details": null, "total_tokens": 2});
        event(json!({"type": "response.created", "response": {"id": "r1"}}));
        event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        event(json!({"type": "response.completed", "response": {"id": "r1", "usage": usage}}));
    } else if head.contains("/messages") && !head.contains("count_tokens") {
        let last = body.contains("\"tool_result\"");
        let usage = json!({"input_tokens": 1, "output_tokens": 1});
        let message = json!({"id": "msg1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "usage": usage});
        event(json!({"type": "message_start", "message": message}));
        let (block, delta, stop) = if last {
            std::thread::sleep(THINKS);
            (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": "All done."}),
                "end_turn",
            )
        } else {
            let input = "{\"command\":\"echo hello; exit 3\",\"description\":\"try\"}";
            (
                json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input}),
                "tool_use",
            )
        };
        event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        event(json!({"type": "content_block_stop", "index": 0}));
        event(
            json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}}),
        );
        event(json!({"type": "message_stop"}));
    } else {
        return json!({"input_tokens": 1}).to_string();
    }
    out
}

/// The entries that `transcript follow`, without a file, prints of the session that the command begins.
fn followed(bench: &Bench, agent: &str, mut command: Command) -> Vec<Value> {
    let path = std::env::var_os("PATH").unwrap();
    let mut child = command
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        let answer = bench.run(&["transcript", "follow", "--json", "--agent", agent]);
        if answer.status != 1 {
            break answer;
        }
        assert!(Instant::now() < until, "{agent} was not found while it ran: {answer:?}");
        assert!(child.try_wait().unwrap().is_none(), "{agent} was not found while it ran: {answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(child.wait().unwrap().success());
    answer.is(0).out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["part"]["type"].as_str().unwrap()).collect()
}

#[test]
fn the_installed_agents_are_followed() {
    if std::env::var("FLOWCELL_REAL_AGENT_CLI").as_deref() != Ok("1") {
        println!("opt-in: the_installed_agents_are_followed: FLOWCELL_REAL_AGENT_CLI=1 runs it");
        return;
    }
    let bench = Bench::new();
    let provider = provider();
    let home = bench.outside("home");
    fs::create_dir_all(home.join(".codex")).unwrap();
    fs::write(
        home.join(".codex/config.toml"),
        format!(
            "model = \"m\"\nmodel_provider = \"s\"\n[model_providers.s]\nname = \"s\"\nbase_url = \"{provider}/v1\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
        ),
    )
    .unwrap();
    let codex = bench.command("codex", &["exec", "--skip-git-repo-check", "say it"]);
    let entries = followed(&bench, "codex", codex);
    assert_eq!(kinds(&entries), ["prompt", "text"], "{entries:?}");
    assert_eq!(entries[1]["part"]["text"], "All done.");
    println!("measured: live codex: {} entries of {}", entries.len(), entries[0]["format_version"]);

    let mut claude = bench.command("claude", &["-p", "run it", "--allowedTools", "Bash"]);
    claude.env("ANTHROPIC_BASE_URL", &provider).env("ANTHROPIC_API_KEY", "none");
    claude.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    let entries = followed(&bench, "claude", claude);
    assert_eq!(kinds(&entries), ["prompt", "tool", "text"], "{entries:?}");
    assert_eq!(entries[1]["part"]["exit_code"], 3);
    println!("measured: live claude-code: {} entries of {}", entries.len(), entries[0]["format_version"]);
}
