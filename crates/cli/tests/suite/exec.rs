//! `exec`, and what `runs` and `show` say of it.

use serde_json::json;

use crate::bench::{Bench, keys};

#[test]
fn the_text_of_the_last_frame_that_completed_is_printed() {
    let bench = Bench::new();
    bench.write("a.js", "const n = 20;");
    bench.write("b.js", "ctx.done({n: n + 1})");
    bench.write("c.js", "console.log('after')");
    let answer = bench.run(&["exec", "a.js", "b.js", "c.js"]);
    assert_eq!(answer.is(0).out, "{\"n\":21}\n");
    assert_eq!(bench.run(&["exec", "-e", "ctx.done('plain text')"]).is(0).out, "plain text\n");
    assert_eq!(bench.run_with(&["exec", "-"], "ctx.done('from stdin')").is(0).out, "from stdin\n");
    assert_eq!(bench.run(&["exec", "-e", "1"]).is(0).out, "");
}

#[test]
fn json_has_the_contracts_shape() {
    let bench = Bench::new();
    bench.write("data.txt", "hello\n");
    let code = "const r = await ctx.call('read', {path: 'data.txt'}); console.log(r.content); \
                ctx.justify('why'); ctx.done([r.totalLines])";
    let answer = bench.run(&["exec", "--json", "--run-id", "first", "-e", code]);
    let run = answer.is(0).json();
    assert_eq!(keys(&run), ["frames", "output", "run", "status", "text"]);
    assert_eq!(
        (&run["run"], &run["status"], &run["output"], &run["text"]),
        (&json!("first"), &json!("completed"), &json!([1]), &json!("[1]"))
    );
    let frame = &run["frames"][0];
    assert_eq!(
        keys(frame),
        ["bindings", "calls", "frame", "outcome", "output", "prints", "program", "transition"]
    );
    assert_eq!(frame["program"], json!(code));
    assert_eq!(frame["outcome"], json!("settled"));
    assert_eq!(frame["transition"], json!("complete"));
    assert_eq!(frame["prints"], json!("hello"));
    assert_eq!(frame["bindings"], json!([{"name": "r", "type": "object", "size": "5 keys"}]));
    let call = &frame["calls"][0];
    assert_eq!(keys(call), ["flow", "input", "ms", "ok", "ordinal", "replayed"]);
    assert_eq!(
        (&call["flow"], &call["ok"], &call["replayed"]),
        (&json!("read"), &json!(true), &json!(false))
    );

    let shown = bench.run(&["show", "first", "--json"]).is(0).json();
    assert_eq!(shown, run);
    let text = bench.run(&["show", "first"]).is(0).out.clone();
    for part in [
        "run first: completed",
        "frame 0",
        "call 0: read {\"path\":\"data.txt\"} -> ok",
        "names r: object (5 keys)",
        "| hello",
        "complete: [1]",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let runs = bench.run(&["runs", "--json"]).is(0).json();
    assert_eq!(keys(&runs[0]), ["created_at", "frames", "run", "status", "updated_at"]);
    assert_eq!(
        (&runs[0]["run"], &runs[0]["status"], &runs[0]["frames"]),
        (&json!("first"), &json!("completed"), &json!(1))
    );
    assert!(bench.run(&["runs"]).is(0).out.starts_with("first  completed  1 frame  20"));
}

#[test]
fn a_failed_call_shows_its_error() {
    let bench = Bench::new();
    let code = "const r = await ctx.call('read', {path: 'missing'}); ctx.done(r.error.flowCode)";
    let run = bench.run(&["exec", "--json", "-e", code]).is(0).json();
    assert_eq!(run["output"], json!("not_found"));
    let call = &run["frames"][0]["calls"][0];
    assert_eq!((&call["ok"], &call["error"]["code"]), (&json!(false), &json!("flow_failed")));
    assert_eq!(call["error"]["flowCode"], json!("not_found"));
}

#[test]
fn without_done_the_output_is_null() {
    let bench = Bench::new();
    let run = bench.run(&["exec", "--json", "-e", "console.log(1)"]).is(0).json();
    assert_eq!((&run["status"], &run["output"]), (&json!("completed"), &json!(null)));
    assert!(run.as_object().unwrap().contains_key("output"));
    assert_eq!(run["frames"][0]["transition"], json!("continue"));
    let cell = "let later; var n = 1, one = {a: 1}, list = [1]";
    bench.run(&["exec", "--run-id", "names", "-e", cell]).is(0);
    let text = bench.run(&["show", "names"]).is(0).out.clone();
    for part in ["later: undefined", "n: number", "one: object (1 key)", "list: array (1 item)"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert!(!text.contains("value"), "{text}");
}

#[test]
fn every_file_runs_whatever_the_frame_before_it_did() {
    let bench = Bench::new();
    bench.write("throws.js", "let a = 1; throw new TypeError('no')");
    bench.write("bad.js", "const (");
    bench.write("done.js", "ctx.done(a + 1)");
    let run = bench.run(&["exec", "--json", "throws.js", "bad.js", "done.js"]).is(0).json();
    assert_eq!((&run["status"], &run["output"]), (&json!("completed"), &json!(2)));
    let outcomes: Vec<_> =
        run["frames"].as_array().unwrap().iter().map(|frame| frame["outcome"].clone()).collect();
    assert_eq!(outcomes, [json!("raised"), json!("rejected"), json!("settled")]);

    let failed = bench.run(&["exec", "--json", "done.js", "throws.js"]).is(1).json();
    assert_eq!(failed["status"], json!("failed"));
    assert_eq!(failed["error"], json!({"code": "raised", "message": "TypeError: no"}));
    assert_eq!(
        (&failed["frames"][1]["name"], &failed["frames"][1]["message"]),
        (&json!("TypeError"), &json!("no"))
    );
    let answer = bench.run(&["exec", "throws.js"]);
    assert_eq!(answer.is(1).out, "");
    assert!(answer.err.contains("failed in frame 0 (throws.js): raised: TypeError: no"), "{}", answer.err);
}

/// A later frame that is fine does not hide one that is not.
#[test]
fn each_failed_frame_is_told() {
    let bench = Bench::new();
    bench.write("throws.js", "throw new TypeError('no\\u001b\\nwarning: forged')");
    bench.write("bad.js", "const (");
    bench.write("done.js", "ctx.done(1)");
    let words = ["exec", "--run-id", "r", "throws.js", "bad.js", "done.js"];
    let answer = bench.run(&words);
    assert_eq!(answer.is(0).out, "1\n");
    let raised = "warning: frame 0 (throws.js): raised: TypeError: no\\u{1b}\\nwarning: forged\n";
    assert!(answer.err.starts_with(raised), "{}", answer.err);
    assert!(
        answer.err.contains("warning: frame 1 (bad.js): rejected: compile_failed: Line 1"),
        "{}",
        answer.err
    );
    assert_eq!(bench.run(&["-q", "exec", "throws.js", "done.js"]).is(0).err, "");
    let json = bench.run(&["exec", "--json", "throws.js", "done.js"]);
    assert_eq!(json.is(0).json()["output"], json!(1));
    assert!(json.err.contains("frame 0 (throws.js): raised: TypeError"), "{}", json.err);
    // Of a run that failed, the frame that failed it is the error's.
    let failed = bench.run(&["exec", "throws.js", "throws.js"]);
    assert_eq!(failed.is(1).err.matches("warning: frame 0 (throws.js)").count(), 1, "{}", failed.err);
    assert!(
        !failed.err.contains("warning: frame 1") && !failed.err.contains("\nwarning: forged"),
        "{}",
        failed.err
    );
    // A run that is read back says so, and what failed in it.
    let again = bench.run(&words);
    assert_eq!(again.is(0).out, "1\n");
    for part in ["run r has ended; its result is read back", "warning: frame 0: raised: TypeError"] {
        assert!(again.err.contains(part), "{part:?} is missing in {}", again.err);
    }
}

#[test]
fn a_run_that_has_ended_is_read_back_and_says_so() {
    let bench = Bench::new();
    let words = ["exec", "--run-id", "r", "-e", "throw new Error('no')"];
    let said = "run r has ended; its result is read back";
    assert!(!bench.run(&words).is(1).err.contains(said));
    for words in [&words[..], &["resume", "r"], &["resume", "r", "--json"]] {
        let answer = bench.run(words);
        assert!(answer.is(1).err.contains(said), "{words:?}: {}", answer.err);
    }
    let other = bench.run(&["exec", "--run-id", "r", "-e", "1"]);
    assert!(!other.is(2).err.contains(said), "{}", other.err);
}

#[test]
fn what_a_cell_prints_is_shown_without_a_terminal() {
    let bench = Bench::new();
    bench.write("a.js", "console.log('one\\ntwo\\u001b')");
    bench.write("b.js", "console.log('three'); ctx.park('waiting-input', 'what?')");
    let answer = bench.run(&["exec", "--run-id", "r", "--json", "a.js", "b.js"]);
    answer.is(3).json();
    assert!(answer.err.starts_with("  | one\n  | two\\u{1b}\n  | three\nrun r waits for"), "{}", answer.err);
    assert_eq!(bench.run(&["resume", "r"]).is(0).err, "  | one\n  | two\\u{1b}\n  | three\n");
    let quiet = bench.run(&["-q", "exec", "a.js"]);
    assert_eq!((quiet.is(0).err.as_str(), quiet.out.as_str()), ("", ""));
    assert_eq!(bench.run(&["--quiet", "exec", "a.js"]).is(0).err, "");
    // What was shown when it ran is not shown again.
    assert_eq!(bench.run(&["replay", "r"]).is(0).err, "");
}

#[test]
fn a_cell_that_does_not_parse_fails_its_run() {
    let bench = Bench::new();
    bench.write("bad.js", "let x = ;\n");
    let answer = bench.run(&["exec", "--json", "bad.js"]);
    let run = answer.is(1).json();
    assert_eq!(run["error"]["code"], json!("compile_failed"));
    assert_eq!(
        (&run["frames"][0]["outcome"], &run["frames"][0]["code"]),
        (&json!("rejected"), &json!("compile_failed"))
    );
    assert!(answer.err.contains("compile_failed: Line 1, column 9"), "{}", answer.err);
    let typed = bench.run(&["exec", "-e", "const x: number = 1"]);
    assert!(typed.is(1).err.contains("cells are JavaScript, not TypeScript"), "{}", typed.err);
    let forbidden = bench.run(&["exec", "--json", "-e", "import('fs')"]).is(1).json();
    assert_eq!(forbidden["error"]["code"], json!("imports_forbidden"));
}

#[test]
fn an_unreadable_file_is_found_before_anything_is_made() {
    let bench = Bench::new();
    bench.write("a.js", "ctx.done(1)");
    std::fs::write(bench.ws().join("bytes.js"), [0xff, 0xfe]).unwrap();
    for (file, why) in
        [("missing.js", "No such file"), (".", "not a regular file"), ("bytes.js", "not UTF-8")]
    {
        let answer = bench.run(&["exec", "--json", "a.js", file]);
        assert_eq!(answer.is(2).code(), "unreadable_file");
        let error = answer.json()["error"].clone();
        assert_eq!(error["path"], json!(file));
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        assert!(error["hint"].is_string());
        assert!(answer.err.contains(&format!("the cell {file} cannot be read")), "{}", answer.err);
    }
    assert!(!bench.ws().join(".flowcell").exists());
    let two = bench.run(&["exec", "--json", "a.js", "-"]);
    assert_eq!(two.is(2).code(), "usage");
    assert!(two.err.contains("Run `-` by itself"), "{}", two.err);
    let pipe = bench.run_with(&["exec", "--json", "/dev/stdin"], "ctx.done(1)");
    assert_eq!(pipe.is(2).code(), "unreadable_file");
    assert!(pipe.err.contains("`-` for standard input"), "{}", pipe.err);
}

#[test]
fn a_reply_is_recovered() {
    let bench = Bench::new();
    bench.write(
        "reply.md",
        "Prose.\n```js\nno()\n```\n```cell\nconst a = 40;\n```\n```cell\nctx.done(a + 2)\n```\n",
    );
    bench.write("none.md", "Nothing here.\n");
    let run = bench.run(&["exec", "--json", "--reply", "reply.md"]).is(0).json();
    assert_eq!((&run["output"], &run["frames"][0]["blocks"]), (&json!(42), &json!(2)));
    assert_eq!(run["frames"][0]["program"], json!("const a = 40;\nctx.done(a + 2)"));
    let none = bench.run(&["exec", "--json", "--reply", "none.md"]).is(1).json();
    assert_eq!(none["error"]["code"], json!("no_cell"));
    let cut = bench.run(&["exec", "--json", "--reply", "--stop", "length", "reply.md"]).is(1).json();
    assert_eq!(cut["error"]["code"], json!("output_truncated"));
    assert!(!keys(&cut["frames"][0]).contains(&"program".to_owned()));
}

#[test]
fn limits_are_those_of_the_contract() {
    let bench = Bench::new();
    let run = bench
        .run(&[
            "exec",
            "--json",
            "--limit",
            "calls=1",
            "-e",
            "await ctx.call('ls', {path: '.'}); await ctx.call('ls', {path: '.'})",
        ])
        .is(1)
        .json();
    assert_eq!(
        (&run["error"]["code"], &run["frames"][0]["outcome"]),
        (&json!("limit_exceeded"), &json!("rejected"))
    );
    let told = bench.run(&["exec", "--limit", "calls=0", "-e", "await ctx.call('ls', {path: '.'})"]);
    assert!(told.is(1).err.contains("a new run takes a higher one with `--limit calls=N`"), "{}", told.err);
    let heap = bench.run(&[
        "exec",
        "--limit",
        "memoryBytes=4194304",
        "-e",
        "const a = []; for (;;) a.push('x'.repeat(1e5) + a.length)",
    ]);
    assert!(heap.is(1).err.contains("`--limit memoryBytes=BYTES`"), "{}", heap.err);
    let endless = bench.run(&["exec", "--json", "--limit=timeMs=100", "-e", "while (true) {}"]).is(1).json();
    assert_eq!(endless["error"]["code"], json!("limit_exceeded"));
    for bad in ["timeMs=0", "timeMs=x", "timems=5", "timeMs", "memoryBytes=1"] {
        let answer = bench.run(&["exec", "--json", "--limit", bad, "-e", "1"]);
        assert_eq!(answer.is(2).code(), "invalid_limit");
        assert!(answer.json()["error"]["hint"].as_str().unwrap().contains("timeMs"), "{answer:?}");
    }
}

#[test]
fn a_run_id_names_one_run() {
    let bench = Bench::new();
    bench.write("mocks.json", r#"{"count": {"counter": "n.txt"}}"#);
    let words = [
        "exec",
        "--json",
        "--run-id",
        "r1",
        "--mock",
        "mocks.json",
        "-e",
        "ctx.done(await ctx.call('count'))",
    ];
    let first = bench.run(&words).is(0).json();
    let again = bench.run(&words).is(0).json();
    assert_eq!(first["output"], json!({"n": 1}));
    assert_eq!(again["output"], json!({"n": 1}));
    assert_eq!(again["frames"][0]["calls"][0]["replayed"], json!(true));
    assert_eq!(bench.read("n.txt"), "1");
    let other = bench.run(&["exec", "--json", "--run-id", "r1", "-e", "ctx.done(2)"]);
    assert_eq!(other.is(2).code(), "idempotency_conflict");
    assert_eq!(bench.run(&["exec", "--json", "--run-id", "../x", "-e", "1"]).is(2).code(), "usage");
    let random = bench.run(&["exec", "--json", "-e", "1"]).is(0).json()["run"].as_str().unwrap().to_owned();
    assert!(random.starts_with("run-") && random.len() == 36, "{random}");
}

#[test]
fn control_characters_of_a_cell_are_not_live() {
    let bench = Bench::new();
    let code = r"console.log('p\u001b[2Jq'); ctx.done('a\u001b]0;t\u0007b\u009b31mc\u007f\rd\ne')";
    let answer = bench.run(&["exec", "-v", "--run-id", "r", "-e", code]);
    assert_eq!(answer.is(0).out, "a\\u{1b}]0;t\\u{7}b\\u{9b}31mc\\u{7f}\\u{d}d\ne\n");
    let live = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    assert!(answer.err.contains("p\\u{1b}[2Jq") && !live(&answer.err), "{:?}", answer.err);
    for words in [&["show", "r"][..], &["show", "r", "--json"], &["runs"]] {
        assert!(!live(&bench.run(words).is(0).out), "{words:?}");
    }
    let json = bench.run(&["show", "r", "--json"]).json();
    assert_eq!(json["text"], json!("a\u{1b}]0;t\u{7}b\u{9b}31mc\u{7f}\rd\ne"));
    let thrown = bench.run(&["exec", "-e", r"throw new Error('\u001b[31mred')"]);
    assert!(!live(&thrown.is(1).err) && thrown.err.contains("\\u{1b}[31mred"), "{:?}", thrown.err);
}

#[test]
fn the_memory_engine_keeps_nothing() {
    let bench = Bench::new();
    let run = bench.run(&["exec", "--json", "--engine", "memory:", "-e", "ctx.done(7)"]).is(0).json();
    assert_eq!((&run["status"], &run["output"]), (&json!("completed"), &json!(7)));
    assert!(!bench.ws().join(".flowcell").exists());
    bench.write("mocks.json", r#"{"p": {"permission": "net:get:example.com"}}"#);
    let words = ["exec", "--engine", "memory:", "--mock", "mocks.json", "-e", "await ctx.call('p')"];
    let parked = bench.run(&words);
    assert!(
        parked.is(3).last_line().contains("run it again with `--allow net:get:example.com`"),
        "{}",
        parked.err
    );
    // A resource that a pattern cannot spell is offered no rule, which would allow more than was asked.
    for name in ["net:get:**", "net:get:a?", "fs:write:/x/${home}"] {
        bench.write("mocks.json", &format!(r#"{{"p": {{"permission": "{name}"}}}}"#));
        let parked = bench.run(&words);
        let last = parked.is(3).last_line();
        assert!(!last.contains("--allow") && last.contains("approve RUN --once"), "{last}");
    }
    assert_eq!(bench.run(&["runs", "--json", "--engine", "memory:"]).is(0).json(), json!([]));
    let missing = bench.run(&["show", "x", "--json", "--engine", "memory:"]);
    assert_eq!(missing.is(2).code(), "not_found");
    for bad in ["restate:http://127.0.0.1:1", "mysql:x", "memory"] {
        assert_eq!(bench.run(&["exec", "--json", "--engine", bad, "-e", "1"]).is(2).code(), "invalid_engine");
    }
}

#[test]
fn another_file_and_folder_can_hold_the_runs() {
    let bench = Bench::new();
    let other = bench.outside("other");
    std::fs::create_dir(&other).unwrap();
    let url = format!("sqlite:{}/runs.db", other.display());
    bench.run(&["exec", "--engine", &url, "--run-id", "r", "-e", "ctx.done(1)"]).is(0);
    assert!(other.join("runs.db").exists() && !bench.ws().join(".flowcell").exists());
    let runs = bench.run(&["runs", "--json", "--engine", &url]).is(0).json();
    assert_eq!(runs[0]["run"], json!("r"));
    bench.run(&["exec", "--data-dir", "elsewhere/data", "-e", "1"]).is(0);
    assert!(bench.ws().join("elsewhere/data/flowcell.db").exists());
    // The workspace is named, never searched for.
    std::fs::create_dir(bench.ws().join("sub")).unwrap();
    let from_sub = bench.run(&[
        "-C",
        "sub",
        "exec",
        "--json",
        "-e",
        "ctx.done((await ctx.call('ls', {path: '.'})).total)",
    ]);
    assert_eq!(from_sub.is(0).json()["output"], json!(1), "only its own .flowcell");
    assert_eq!(bench.run(&["-C", "missing", "runs", "--json"]).is(2).code(), "invalid_workspace");
}

#[test]
fn the_data_folder_is_private_and_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    assert_eq!(bench.run(&["runs", "--json"]).is(0).json(), json!([]));
    assert!(!bench.ws().join(".flowcell").exists(), "reading makes nothing");
    bench.run(&["exec", "-e", "1"]).is(0);
    let mode = |path: &str| std::fs::metadata(bench.ws().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(".flowcell"), mode(".flowcell/flowcell.db")), (0o700, 0o600));
    assert_eq!(bench.read(".flowcell/.gitignore"), "*\n");

    let linked = Bench::new();
    std::os::unix::fs::symlink(linked.outside("home"), linked.ws().join(".flowcell")).unwrap();
    let answer = linked.run(&["exec", "--json", "-e", "1"]);
    assert_eq!(answer.is(1).code(), "engine_failed");
    assert!(answer.err.contains("it is a link"), "{}", answer.err);
}

#[test]
fn a_frame_that_ran_out_of_time_is_replayed_up_to_where_it_was_cut() {
    let bench = Bench::new();
    bench.write(
        "m.json",
        r#"{"count": {"counter": "n.txt"}, "never": {"never": true}, "gate": {"permission": "net:get:a"}}"#,
    );
    bench.write(
        "a.js",
        "var a = await ctx.call('count'); var b = ctx.call('never'); await b; a = 'not reached'",
    );
    bench.write("b.js", "await ctx.call('gate'); ctx.done([a, await ctx.call('count')])");
    let flags = ["--mock", "m.json", "--json"];
    let first = bench
        .run(&[&["exec", "--run-id", "r", "--limit", "totalMs=400", "a.js", "b.js"], &flags[..]].concat());
    let run = first.is(3).json();
    assert_eq!(run["frames"][0]["code"], json!("limit_exceeded"));
    assert_eq!(run["frames"][0]["reason"], json!("totalMs"));
    bench.run(&["approve", "r", "--once"]).is(0);
    // It neither waits for the clock nor dispatches what was cut.
    let resumed = bench.run(&[&["resume", "r"], &flags[..]].concat()).is(0).json();
    assert_eq!(resumed["output"], json!([{"n": 1}, {"n": 2}]));
    assert_eq!(resumed["frames"][0]["code"], json!("limit_exceeded"));
    assert_eq!(resumed["frames"][0]["prints"], run["frames"][0]["prints"]);
    assert_eq!(bench.read("n.txt"), "2");
    let replay = bench.run(&[&["replay", "r"], &flags[..]].concat()).is(0).json();
    assert_eq!(replay["ok"], json!(true));
}
