//! `transcript serve`: the endpoint over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Answer, Bench};
use crate::transcript::{fixtures, full, prompt};

const TOKEN: &str = "a-token-of-this-test.0123456789";

struct Server {
    child: Option<Child>,
    address: String,
}

impl Server {
    fn start(bench: &Bench) -> Self {
        bench.write("token", &format!("  {TOKEN}\n"));
        let mut child = bench.spawn(&[
            "transcript",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--token-file",
            "token",
            "--json",
        ]);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let document: Value = serde_json::from_str(&line).unwrap();
        let url = document["listening"].as_str().unwrap();
        let address =
            url.strip_prefix("http://").and_then(|url| url.strip_suffix("/v1/transcript/normalize")).unwrap();
        Self { address: address.to_owned(), child: Some(child) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes on a connection of their own; the status and the body.
    fn raw(&self, request: &[u8]) -> (u16, String, Value) {
        let (status, head, body) = self.text(request);
        (status, head, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    fn text(&self, request: &[u8]) -> (u16, String, String) {
        let mut stream = self.connect();
        // The server may answer, and close, before all of a large body is sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    fn ask(&self, method: &str, path: &str, authorization: &str, body: &str) -> (u16, String, Value) {
        self.raw(&request(method, path, authorization, body))
    }

    fn post(&self, body: &str) -> (u16, Value) {
        let (status, head, document) =
            self.ask("POST", "/v1/transcript/normalize", &format!("Bearer {TOKEN}"), body);
        assert!(head.to_ascii_lowercase().contains("content-type: application/json"), "{head}");
        (status, document)
    }

    /// Ends it as a person would.
    fn stop(mut self, signal: &str) -> Answer {
        let child = self.child.take().unwrap();
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        Bench::wait(child)
    }
}

fn request(method: &str, path: &str, authorization: &str, body: &str) -> Vec<u8> {
    let authorization =
        if authorization.is_empty() { String::new() } else { format!("authorization: {authorization}\r\n") };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{authorization}connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn body(profile: &str, record: &str, state: Option<&Value>) -> String {
    let mut body = json!({"profile": profile, "owner": "ada", "participant": "agent-7", "session": "b-1", "record": record});
    if let Some(state) = state {
        body["state"] = state.clone();
    }
    body.to_string()
}

#[test]
fn one_record_a_request_gives_what_the_file_gives() {
    let bench = Bench::new();
    let server = Server::start(&bench);
    for (name, profile) in [("codex-turns", "codex-rollout/0.159"), ("claude-session", "claude-code/2.1")] {
        let text = std::fs::read_to_string(fixtures().join(name).with_extension("jsonl")).unwrap();
        let expected: Value = serde_json::from_slice(
            &std::fs::read(fixtures().join(name).with_extension("expected.json")).unwrap(),
        )
        .unwrap();
        // The state goes back as it came, byte for byte: held requests keep the order of their members.
        let (mut state, mut entries) = (String::from("null"), Vec::new());
        // What follows the last newline is no record yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (number, record) in whole.split('\n').enumerate() {
            let body = body(profile, record, None);
            let body = format!("{},\"state\":{state}}}", body.strip_suffix('}').unwrap());
            let asked = request("POST", "/v1/transcript/normalize", &format!("Bearer {TOKEN}"), &body);
            let (status, _, answer) = server.text(&asked);
            assert_eq!(status, 200, "{answer}");
            // The same question has the same answer: nothing was kept.
            if number % 7 == 0 {
                assert_eq!(server.text(&asked).2, answer);
            }
            let document: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(crate::bench::keys(&document), ["entries", "state"]);
            for entry in document["entries"].as_array().unwrap() {
                let mut entry = entry.clone();
                let author = entry.as_object_mut().unwrap().remove("author").unwrap();
                assert_eq!(author, if entry["role"] == "user" { "ada" } else { "agent-7" });
                entries.push(entry);
            }
            answer.rsplit_once("],\"state\":").unwrap().1.strip_suffix('}').unwrap().clone_into(&mut state);
        }
        let mut state: Value = serde_json::from_str(&state).unwrap();
        state["pending"] = expected["state"]["pending"].clone();
        assert_eq!(json!(entries), expected["entries"], "{name}");
        assert_eq!(state, expected["state"], "{name}");
    }
    let answer = server.stop("-INT");
    answer.is(0);
    assert!(!answer.err.contains(TOKEN) && !answer.out.contains(TOKEN));
}

#[test]
fn what_is_wrong_has_its_status() {
    let bench = Bench::new();
    let server = Server::start(&bench);
    let record = prompt("x");
    let good = body("claude-code/2.1", record.trim_end(), None);
    let path = "/v1/transcript/normalize";
    let bearer = format!("Bearer {TOKEN}");
    for authorization in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer a-token-of-this-test.012345678",
        "Bearer a-token-of-this-test.01234567890",
        "Basic a-token-of-this-test.0123456789",
        TOKEN,
    ] {
        let (status, head, answer) = server.ask("POST", path, authorization, &good);
        assert_eq!(status, 401, "{authorization}");
        assert!(
            head.to_ascii_lowercase().contains("www-authenticate: bearer") && answer["entries"].is_null()
        );
    }
    assert_eq!(server.ask("POST", path, &format!("bearer {TOKEN}"), &good).0, 200);
    assert_eq!(server.ask("POST", "/", &bearer, &good).0, 404);
    assert_eq!(server.ask("POST", "/v1/transcript/normalize/", &bearer, &good).0, 404);
    let (status, head, _) = server.ask("GET", path, &bearer, "");
    assert_eq!((status, head.to_ascii_lowercase().contains("allow: post")), (405, true));
    for wrong in ["", "{", "[]", "{}", &body("gemini/1", "", None), &body("codex-rollout", "", None)] {
        let (status, answer) = server.post(wrong);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("invalid_input")), "{wrong}");
    }
    let (status, answer) = server.post(&body("claude-code/2.1", "[]", None));
    let message = "Claude Code transcript line 1 is not a JSON record.";
    assert_eq!(
        (status, answer),
        (422, json!({"error": {"code": "malformed_record", "message": message, "line": 1}}))
    );
    assert_eq!(server.post(&good).0, 200);
    server.stop("-TERM").is(0);
}

#[test]
fn what_is_too_large_has_its_status() {
    let bench = Bench::new();
    let server = Server::start(&bench);
    let good = body("claude-code/2.1", prompt("x").trim_end(), None);
    let path = "/v1/transcript/normalize";
    let bearer = format!("Bearer {TOKEN}");
    // A record over 1 MiB, and one of 1 MiB.
    assert_eq!(server.post(&body("claude-code/2.1", &"x".repeat(1_048_577), None)).0, 413);
    assert_eq!(server.post(&body("claude-code/2.1", &"x".repeat(1_048_576), None)).0, 422);
    // A body over its limit, said before or not.
    let (status, answer) = server.post(&"x".repeat(16_777_217));
    assert_eq!((status, &answer["error"]["code"]), (413, &json!("too_large")));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: {bearer}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000)).repeat(17);
    assert_eq!(server.raw(format!("{head}{chunk}0\r\n\r\n").as_bytes()).0, 413);
    // Deeply nested bodies and heads that are none are answered, and the server goes on.
    assert_eq!(server.post(&"[".repeat(100_000)).0, 400);
    assert_eq!(server.post(&body("claude-code/2.1", &"[".repeat(100_000), None)).0, 422);
    assert_eq!(server.raw(b"nonsense\r\n\r\n").0, 400);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000));
    assert!((400..500).contains(&server.raw(long.as_bytes()).0));
    assert_eq!(server.post(&good).0, 200);
    server.stop("-TERM").is(0);
}

#[test]
fn a_connection_serves_several_requests_and_ends_with_the_process() {
    let bench = Bench::new();
    let server = Server::start(&bench);
    let record = prompt("x");
    let good = body("claude-code/2.1", record.trim_end(), None);
    let request = format!(
        "POST /v1/transcript/normalize HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n{good}",
        good.len()
    );
    let mut stream = server.connect();
    stream.write_all(request.repeat(3).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..3 {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
    // The idle connection does not hold the end up.
    let begin = Instant::now();
    server.stop("-INT").is(0);
    assert!(begin.elapsed() < Duration::from_secs(8));
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn slow_clients_do_not_stay() {
    let bench = Bench::new();
    let server = Server::start(&bench);
    // Some of them take nothing from others. That they are let go of takes the time of its limits: the full volume.
    let idle: Vec<TcpStream> = (0..32).map(|_| server.connect()).collect();
    assert_eq!(server.post(&body("claude-code/2.1", "", None)).0, 200);
    drop(idle);
    if !full() {
        return;
    }
    let head = format!(
        "POST /v1/transcript/normalize HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 10\r\n\r\n"
    );
    for (sent, least, most) in [("POST /", 5, 20), (&*head, 10, 40)] {
        let begin = Instant::now();
        let mut stream = server.connect();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let took = begin.elapsed().as_secs();
        assert!((least..most).contains(&took), "{took} s: {answer}");
        println!("measured: slow client after {} bytes: let go of after {took} s", sent.len());
    }
    // Many of them leave room for others: the others wait for a place, not for ever.
    let idle: Vec<TcpStream> = (0..64).map(|_| server.connect()).collect();
    assert_eq!(server.post(&body("claude-code/2.1", "", None)).0, 200);
    drop(idle);
}

#[test]
fn a_token_file_is_judged() {
    let bench = Bench::new();
    for (text, what) in
        [("", "empty"), (" \n\t", "empty"), ("a b", "word"), ("a\u{1b}", "word"), ("é", "word")]
    {
        bench.write("token", text);
        let answer =
            bench.run(&["transcript", "serve", "--listen", "127.0.0.1:0", "--token-file", "token", "--json"]);
        assert_eq!(answer.is(2).code(), "invalid_input");
        assert!(answer.err.contains(what), "{}", answer.err);
    }
    bench.write("token", &"x".repeat(5_000));
    bench.run(&["transcript", "serve", "--listen", "127.0.0.1:0", "--token-file", "token"]).is(2);
    bench.run(&["transcript", "serve", "--listen", "127.0.0.1:0", "--token-file", "absent"]).is(2);
    // One that others can read is used, and that is said.
    let server = Server::start(&bench);
    let answer = server.stop("-TERM");
    assert!(answer.is(0).err.contains("can be read by others"), "{}", answer.err);
    // An address that is taken.
    let server = Server::start(&bench);
    let answer =
        bench.run(&["transcript", "serve", "--listen", &server.address, "--token-file", "token", "--json"]);
    assert_eq!(answer.is(2).code(), "invalid_input");
}
