//! Grants that outlive a call: `approve --run` and `--remember`, `grants list` and `revoke`, and whose they are.

use serde_json::{Value, json};

use crate::bench::{Bench, keys};

const MOCKS: &str =
    r#"{"gate": {"permission": "net:get:example.com"}, "other": {"permission": "net:get:other.org"}}"#;
const TWICE: &str = "ctx.done([await ctx.call('gate'), await ctx.call('gate')])";

fn exec(bench: &Bench, id: &str, cell: &str) -> crate::bench::Answer {
    bench.run(&["exec", "--json", "--mock", "m.json", "--run-id", id, "-e", cell])
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("m.json", MOCKS);
    bench
}

fn list(bench: &Bench) -> Vec<Value> {
    bench.run(&["grants", "list", "--json"]).is(0).json().as_array().unwrap().clone()
}

#[test]
fn a_grant_for_the_run_ends_with_it() {
    let bench = bench();
    exec(&bench, "r", TWICE).is(3);
    let answered = bench.run(&["approve", "r", "--run", "--json"]).is(0).json();
    assert_eq!(answered, json!({"run": "r", "request": "permission-1", "resolution": "run"}));
    // The same answer again is the same answer; another one is not.
    assert_eq!(bench.run(&["approve", "r", "--run", "--json"]).is(0).json(), answered);
    assert_eq!(bench.run(&["approve", "r", "--remember", "--json"]).is(2).code(), "idempotency_conflict");
    let resumed = bench.run(&["resume", "r", "--mock", "m.json", "--json"]).is(0).json();
    assert_eq!(resumed["output"], json!([{"granted": true}, {"granted": true}]), "both calls, one answer");
    assert!(list(&bench).is_empty());
    exec(&bench, "s", TWICE).is(3);
}

#[test]
fn what_is_remembered_holds_until_it_is_revoked() {
    let bench = bench();
    exec(&bench, "r", TWICE).is(3);
    bench.run(&["approve", "r", "permission-1", "--remember", "--pattern", "net:get:*.com"]).is(0);
    bench.run(&["resume", "r", "--mock", "m.json"]).is(0);
    exec(&bench, "s", TWICE).is(0);
    let listed = list(&bench);
    assert_eq!(listed.len(), 1);
    assert_eq!(keys(&listed[0]), ["at_ms", "effect", "id", "pattern"]);
    assert_eq!((&listed[0]["effect"], &listed[0]["pattern"]), (&json!("allow"), &json!("net:get:*.com")));
    assert!(listed[0]["at_ms"].as_i64().unwrap() > 1_600_000_000_000);
    let why = bench.run(&["grants", "check", "net:get:a.com", "--json"]).is(0).json();
    let source = format!("remembered grant {}", listed[0]["id"]);
    assert_eq!((&why["effect"], &why["rule"]["source"]), (&json!("allow"), &json!(source)));
    let id = listed[0]["id"].to_string();
    assert_eq!(bench.run(&["grants", "revoke", "999", "--json"]).is(2).code(), "not_found");
    let revoked = bench.run(&["grants", "revoke", &id, "--json"]).is(0).json();
    assert_eq!(revoked, json!({"id": listed[0]["id"], "revoked": ["net:get:*.com"]}));
    assert!(list(&bench).is_empty());
    assert_eq!(bench.run(&["grants", "revoke", &id, "--json"]).is(2).code(), "not_found");
    exec(&bench, "t", TWICE).is(3);
}

#[test]
fn a_pattern_is_no_wider_than_what_was_asked() {
    let bench = bench();
    let cell = "ctx.done(await ctx.call('write', {path: 'src/a', content: 'x'}))";
    exec(&bench, "r", cell).is(3);
    for pattern in
        ["net:get:x", "fs:write:/**", "fs:*:${workspace}/**", "fs:write:${workspace}/other/**", "*"]
    {
        let refused = bench.run(&["approve", "r", "--run", "--pattern", pattern, "--json"]);
        assert_eq!(refused.is(2).code(), "invalid_resolution", "{pattern}");
    }
    assert_eq!(
        bench.run(&["approve", "r", "--run", "--pattern", "nonsense", "--json"]).is(2).code(),
        "invalid_input"
    );
    bench.run(&["approve", "r", "--run", "--pattern", "fs:write:${workspace}/src/**"]).is(0);
    bench.run(&["resume", "r", "--mock", "m.json"]).is(0);
    assert_eq!(bench.read("src/a"), "x");
}

#[test]
fn a_shipped_journal_grants_nothing() {
    let bench = bench();
    exec(&bench, "r", TWICE).is(3);
    bench.run(&["approve", "r", "--remember"]).is(0);
    exec(&bench, "s", TWICE).is(0);
    assert_eq!(list(&bench).len(), 1);
    // The same workspace, data folder and all, in the hands of somebody who gave nothing.
    std::fs::remove_dir_all(bench.config().join("grants")).unwrap();
    assert!(list(&bench).is_empty());
    exec(&bench, "t", TWICE).is(3);
    // A journal that comes from elsewhere has another place.
    let other = bench.outside("other");
    std::fs::create_dir(&other).unwrap();
    bench.run(&["approve", "t", "--remember"]).is(0);
    std::fs::copy(bench.database(), other.join("flowcell.db")).unwrap();
    assert_eq!(list(&bench).len(), 1);
    let data = other.to_str().unwrap();
    assert_eq!(bench.run(&["grants", "list", "--json", "--data-dir", data]).is(0).json(), json!([]));
}

#[test]
fn a_shipped_answer_frees_no_call() {
    let bench = bench();
    let once = "ctx.done(await ctx.call('gate'))";
    for (run, how) in [("o", "--once"), ("r", "--run"), ("m", "--remember")] {
        exec(&bench, run, once).is(3);
        bench.run(&["approve", run, how]).is(0);
        // The same workspace, data folder and all, in the hands of somebody who answered nothing.
        std::fs::remove_dir_all(bench.config().join("grants")).unwrap();
        let again = bench.run(&["resume", run, "--mock", "m.json", "--json"]).is(3).json();
        assert_eq!(again["suspended"]["request"]["request_id"], "permission-2", "{how}");
        // Whoever answers now frees it.
        bench.run(&["approve", run, "--once"]).is(0);
        let done = bench.run(&["resume", run, "--mock", "m.json", "--json"]).is(0).json();
        assert_eq!(done["output"], json!({"granted": true}));
    }
    // An answer that is there already is given by giving it again, and for this run and this store alone.
    for (run, how) in [("o2", "--once"), ("r2", "--run"), ("m2", "--remember")] {
        exec(&bench, run, once).is(3);
        bench.run(&["approve", run, how]).is(0);
        std::fs::remove_dir_all(bench.config().join("grants")).unwrap();
        bench.run(&["approve", run, how]).is(0);
        bench.run(&["resume", run, "--mock", "m.json"]).is(0);
    }
    assert_eq!(list(&bench).len(), 1);
}

#[test]
fn an_untrusted_workspace_is_asked_for_whatever_is_remembered() {
    let bench = bench();
    exec(&bench, "r", TWICE).is(3);
    bench.run(&["approve", "r", "--remember"]).is(0);
    exec(&bench, "s", TWICE).is(0);
    bench.write(".flowcell.toml", "[[rule]]\neffect = \"ask\"\npattern = \"net:get:example.com\"\n");
    exec(&bench, "t", TWICE).is(3);
    let why = bench.run(&["grants", "check", "net:get:example.com", "--json"]).is(0).json();
    assert_eq!(
        (&why["effect"], &why["rule"]["source"]),
        (&json!("ask"), &json!(".flowcell.toml (not trusted)"))
    );
    // Whoever sees the request in this run answers it in this run.
    bench.run(&["approve", "t", "--run"]).is(0);
    bench.run(&["resume", "t", "--mock", "m.json"]).is(0);
}

#[test]
fn commands_are_judged_by_what_they_run() {
    let bench = Bench::new();
    let check = |words: &[&str]| {
        let rules =
            ["--allow", "proc:spawn:cargo *", "--allow", "proc:spawn:ls *", "--deny", "proc:spawn:dd *"];
        let words: Vec<&str> =
            ["grants", "--json"].iter().chain(&rules).chain(["check"].iter()).chain(words).copied().collect();
        bench.run(&words).is(0).json()
    };
    for (line, effect) in [
        ("cargo", "allow"),
        ("cargo test", "allow"),
        ("cargo test; id", "ask"),
        ("cargox", "ask"),
        ("cargo test && ls -l", "allow"),
        ("true | sudo /bin/dd if=a", "deny"),
        ("cat <<'E'\ndd if=a\nE", "ask"),
        ("cargo $(dd if=a)", "deny"),
    ] {
        let answer = check(&["--command", line]);
        assert_eq!(answer["effect"], json!(effect), "{line}: {answer}");
        assert_eq!(answer["capability"], json!(format!("proc:spawn:{line}")));
        assert!(!answer["why"].as_str().unwrap().is_empty());
    }
    let argv = check(&["--argv", "git", "commit", "-m", "a b"]);
    assert_eq!(argv["capability"], json!("proc:spawn:git commit -m 'a b'"));
    assert_eq!(check(&["--argv", "env", "dd", "if=a"])["effect"], json!("deny"));
}

#[test]
fn urls_and_removals_are_named_as_the_kernel_names_them() {
    let bench = Bench::new();
    let check = |words: &[&str]| {
        let words: Vec<&str> = ["grants", "check", "--json"].iter().chain(words).copied().collect();
        bench.run(&words).is(0).json()
    };
    assert_eq!(check(&["--get", "https://Example.com:443/x"])["capability"], json!("net:get:example.com"));
    let allowed = ["--allow", "net:get:http://127.0.0.1:8080", "--get", "http://2130706433:8080/"];
    let answer = check(&allowed);
    assert_eq!(
        (&answer["effect"], &answer["capability"]),
        (&json!("ask"), &json!("net:private:http://127.0.0.1:8080"))
    );
    let all = [&["--allow", "net:private:http://127.0.0.1:8080"][..], &allowed].concat();
    assert_eq!(check(&all)["effect"], json!("allow"));
    assert_eq!(check(&["--allow", "*", "--post", "http://localhost/"])["effect"], json!("ask"));
    for url in
        ["http:/user:hunter2@h/x//y@z", "http:user:hunter2@h", "http:\\\\user:hunter2@h/x", "user:hunter2@h"]
    {
        assert!(!check(&["--get", url]).to_string().contains("hunter2"), "{url}");
    }
    let refused = check(&["--post", "ftp://user:hunter2@h/"]);
    assert_eq!((&refused["effect"], refused["rule"].is_null()), (&json!("deny"), true));
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    // Removing names the link itself; writing names where it leads.
    bench.write("real", "x");
    std::os::unix::fs::symlink("real", bench.ws().join("link")).unwrap();
    let root = bench.root();
    assert_eq!(check(&["--remove", "link"])["capability"], json!(format!("fs:write:{root}/link")));
    assert_eq!(check(&["--write", "link"])["capability"], json!(format!("fs:write:{root}/real")));
    assert_eq!(check(&["--remove", "."])["effect"], json!("deny"));
    assert!(bench.ws().join("link").is_symlink() && bench.read("real") == "x");
}

#[test]
fn a_pattern_that_does_not_carry_the_line_is_refused() {
    let bench = Bench::new();
    let cell = "ctx.done(await ctx.call('bash', {command: 'echo a; printf b'}))";
    bench.run(&["exec", "--run-id", "r", "-e", cell]).is(3);
    let refused = bench.run(&["approve", "r", "--run", "--pattern", "proc:spawn:echo *", "--json"]);
    assert_eq!(refused.is(2).code(), "invalid_resolution");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("does not carry the whole line"));
    let given = bench.run(&["approve", "r", "--remember", "--pattern", "proc:spawn:*"]).is(0).out.clone();
    for part in
        ["from now on, by proc:spawn:*", "`flowcell grants revoke 1` takes it back", "`flowcell resume r`"]
    {
        assert!(given.contains(part), "{part:?} is missing in {given}");
    }
    let done = bench.run(&["resume", "r", "--json"]).is(0).json();
    assert_eq!(done["output"]["stdout"], json!("a\nb"));
}
