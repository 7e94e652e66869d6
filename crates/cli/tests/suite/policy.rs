//! Policy (CLI contract 3): order, variables, errors, and what a workspace cannot do.

use serde_json::{Value, json};

use crate::bench::Bench;

fn rule(effect: &str, pattern: &str) -> String {
    format!("[[rule]]\neffect = \"{effect}\"\npattern = \"{pattern}\"\n")
}

/// What policy says of a capability, with more flags.
fn check(bench: &Bench, capability: &str, flags: &[&str]) -> Value {
    let mut words = vec!["grants", "check", "--json", capability];
    words.extend(flags);
    bench.run(&words).is(0).json()
}

fn effect(bench: &Bench, capability: &str, flags: &[&str]) -> String {
    check(bench, capability, flags)["effect"].as_str().unwrap().to_owned()
}

#[test]
fn an_untrusted_allow_changes_nothing_but_a_warning() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    let capabilities = ["fs:write:/x", "net:get:example.com", "proc:spawn:true", "fs:read:/etc/passwd"];
    let before: Vec<String> = capabilities.iter().map(|one| effect(&bench, one, &[])).collect();
    assert_eq!(before, ["ask"; 4]);
    bench.write(
        ".flowcell.toml",
        &format!("attended = true\n{}[host]\nallow_pseudo_fs = true\n", rule("allow", "*")),
    );
    let after: Vec<String> = capabilities.iter().map(|one| effect(&bench, one, &[])).collect();
    assert_eq!(after, before);
    let answer = bench.run(&["exec", "-e", "await ctx.call('write', {path: 'b.txt', content: 'x'})"]);
    answer.is(3);
    let warnings: Vec<&str> = answer.err.lines().filter(|line| line.starts_with("warning: ")).collect();
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    for part in [".flowcell.toml is not trusted", "allow *", "attended", "[host]", "`flowcell trust`"] {
        assert!(warning.contains(part), "{part} is missing in {warning}");
    }
    assert!(!bench.ws().join("b.txt").exists());
    let pseudo = bench.run(&["grants", "check", "--json", "--read", "/proc/self/status"]).is(0).json();
    assert_eq!(pseudo["effect"], json!("deny"), "allow_pseudo_fs was left out");
    assert!(!bench.run(&["-q", "runs"]).err.contains("warning"));
    assert!(!bench.run(&["-q", "exec", "-e", "1"]).err.contains("warning"));
}

#[test]
fn an_untrusted_ask_lifts_no_deny() {
    let bench = Bench::new();
    bench.user_policy(&format!("{}{}", rule("deny", "net:get:a"), rule("allow", "net:get:b")));
    bench.write(
        ".flowcell.toml",
        &format!(
            "{}{}{}",
            rule("ask", "net:get:*"),
            rule("deny", "fs:read:${workspace}/secret"),
            rule("ask", "fs:read:${workspace}/asked/**")
        ),
    );
    let denied = check(&bench, "net:get:a", &[]);
    assert_eq!((&denied["effect"], &denied["rule"]["effect"]), (&json!("deny"), &json!("deny")));
    assert!(denied["rule"]["source"].as_str().unwrap().ends_with("flowcell/policy.toml"));
    let asked = check(&bench, "net:get:b", &[]);
    assert_eq!(asked["effect"], json!("ask"), "it turns an allow into an ask");
    assert_eq!(asked["rule"]["source"], json!(".flowcell.toml (not trusted)"));
    assert_eq!(effect(&bench, "net:get:c", &["--deny", "net:get:c"]), "deny");
    assert_eq!(effect(&bench, "net:get:c", &["--allow", "net:get:c"]), "ask");
    let root = bench.root();
    assert_eq!(
        effect(&bench, &format!("fs:read:{root}/secret"), &["--allow", "*"]),
        "deny",
        "a deny turns allow into deny"
    );
    assert_eq!(effect(&bench, &format!("fs:read:{root}/asked/x"), &[]), "ask");
    assert_eq!(effect(&bench, &format!("fs:read:{root}/free"), &[]), "allow");
    assert!(!bench.run(&["exec", "-e", "1"]).err.contains("warning"), "nothing was left out");
    // The kernel enforces what the check says.
    bench.write("asked/x", "1");
    bench.write("secret", "2");
    bench.run(&["exec", "-e", "await ctx.call('read', {path: 'asked/x'})"]).is(3);
    let run = bench.run(&[
        "exec",
        "--json",
        "-e",
        "ctx.done((await ctx.call('read', {path: 'secret'})).error.flowCode)",
    ]);
    assert_eq!(run.is(0).json()["output"], json!("permission_denied"));
}

#[test]
fn an_untrusted_ask_follows_a_link() {
    let bench = Bench::new();
    bench.write("real/x", "1");
    std::os::unix::fs::symlink("real", bench.ws().join("link")).unwrap();
    bench.write(".flowcell.toml", &rule("ask", "fs:read:${workspace}/link/**"));
    assert_eq!(
        bench.run(&["grants", "check", "--json", "--read", "link/x"]).is(0).json()["effect"],
        json!("ask")
    );
}

#[test]
fn allowing_everything_does_not_open_the_data_folder() {
    let bench = Bench::new();
    bench.run(&["exec", "-e", "1"]).is(0);
    bench.user_policy(&rule("allow", "fs:*:**"));
    let root = bench.root();
    let config = bench.config().display().to_string();
    for path in [
        ".flowcell".to_owned(),
        ".flowcell/flowcell.db".to_owned(),
        config.clone(),
        format!("{config}/policy.toml"),
    ] {
        for flag in ["--read", "--write"] {
            let answer =
                bench.run(&["grants", "check", "--json", flag, &path, "--allow", "*", "--allow", "fs:*:**"]);
            let said = answer.is(0).json();
            assert_eq!(
                (&said["effect"], &said["rule"]["source"]),
                (&json!("deny"), &json!("built-in")),
                "{path}"
            );
        }
    }
    let cell = "const r = []; for (const path of ['.flowcell/flowcell.db', '.flowcell/../.flowcell/.gitignore', 'way/in']) \
                r.push((await ctx.call('read', {path})).error.flowCode); ctx.done(r)";
    std::fs::create_dir(bench.ws().join("way")).unwrap();
    std::os::unix::fs::symlink("../.flowcell/.gitignore", bench.ws().join("way/in")).unwrap();
    let run = bench.run(&["exec", "--json", "--allow", "*", "-e", cell]).is(0).json();
    assert_eq!(run["output"], json!(["permission_denied", "permission_denied", "permission_denied"]));
    let cell =
        "ctx.done((await ctx.call('write', {path: '.flowcell/.gitignore', content: ''})).error.flowCode)";
    let run = bench.run(&["exec", "--json", "--allow", "*", "-e", cell]).is(0).json();
    assert_eq!(run["output"], json!("permission_denied"));
    assert_eq!(bench.read(".flowcell/.gitignore"), "*\n");
    // A data folder elsewhere, reached by its real name and through a link.
    std::fs::create_dir(bench.ws().join("real")).unwrap();
    std::os::unix::fs::symlink("real", bench.ws().join("alias")).unwrap();
    for path in ["real/d/x", "alias/d/x"] {
        let words = ["grants", "check", "--json", "--data-dir", "alias/d", "--allow", "*", "--read", path];
        assert_eq!(bench.run(&words).is(0).json()["effect"], json!("deny"), "{path} of {root}");
    }
}

#[test]
fn a_journal_that_came_with_the_workspace_grants_nothing() {
    let bench = Bench::new();
    bench.run(&["exec", "--run-id", "r", "-e", "ctx.done(1)"]).is(0);
    let capability = serde_json::json!({"action": "net:get", "resource": "example.com"});
    let event = serde_json::json!({
        "eventType": "flowcell.kernel.grant.remembered.v1", "requestId": "permission-1", "runId": "flowcell.policy",
        "capability": capability, "pattern": capability, "scope": "remembered", "tier": "sealed",
    });
    let database = rusqlite::Connection::open(bench.database()).unwrap();
    database
        .execute(
            "INSERT INTO grants VALUES ('flowcell.policy', 1, 'flowcell.kernel', ?1, ?2)",
            [event["eventType"].as_str().unwrap(), &event.to_string()],
        )
        .unwrap();
    drop(database);
    assert_eq!(effect(&bench, "net:get:example.com", &[]), "ask");
    bench.write("m.json", r#"{"gate": {"permission": "net:get:example.com"}}"#);
    bench.run(&["exec", "--mock", "m.json", "-e", "await ctx.call('gate')"]).is(3);
}

#[test]
fn a_journal_that_is_kept_elsewhere_is_closed_too() {
    let bench = Bench::new();
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = format!("runs.db{end}");
        let words =
            ["grants", "check", "--json", "--engine", "sqlite:runs.db", "--allow", "*", "--write", &path];
        assert_eq!(bench.run(&words).is(0).json()["effect"], json!("deny"), "{path}");
    }
    let words =
        ["grants", "check", "--json", "--engine", "sqlite:runs.db", "--allow", "*", "--write", "runs.db2"];
    assert_eq!(bench.run(&words).is(0).json()["effect"], json!("allow"));
}

#[test]
fn sources_are_read_in_order() {
    let bench = Bench::new();
    bench.user_policy(&rule("deny", "net:get:a"));
    assert_eq!(effect(&bench, "net:get:a", &[]), "deny");
    bench.write(".flowcell.toml", &rule("allow", "net:get:a"));
    bench.run(&["trust"]).is(0);
    assert_eq!(effect(&bench, "net:get:a", &[]), "allow");
    bench.write("one.toml", &rule("ask", "net:get:a"));
    bench.write("two.toml", &rule("deny", "net:get:a"));
    assert_eq!(effect(&bench, "net:get:a", &["--policy", "one.toml"]), "ask");
    assert_eq!(effect(&bench, "net:get:a", &["--policy", "one.toml", "--policy", "two.toml"]), "deny");
    assert_eq!(effect(&bench, "net:get:a", &["--policy", "two.toml", "--policy", "one.toml"]), "ask");
    assert_eq!(effect(&bench, "net:get:a", &["--policy", "two.toml", "--allow", "net:get:a"]), "allow");
    let flags = ["--allow", "net:*:**", "--deny", "net:get:a", "--ask", "net:get:*"];
    assert_eq!(effect(&bench, "net:get:a", &flags), "ask");
    let swapped = ["--ask", "net:get:*", "--deny", "net:get:a", "--allow", "net:*:**"];
    let said = check(&bench, "net:get:a", &swapped);
    assert_eq!(said["rule"], json!({"effect": "allow", "pattern": "net:*:**", "source": "--allow"}));
    // Flags before the word come before those after it.
    let words = ["--deny", "net:get:z", "grants", "check", "--json", "net:get:z", "--allow", "net:get:z"];
    assert_eq!(bench.run(&words).is(0).json()["effect"], json!("allow"));
    assert_eq!(
        effect(&bench, "net:private:http://10.0.0.1", &["--allow", "*"]),
        "ask",
        "only an exact rule allows it"
    );
}

#[test]
fn trust_pins_a_file_as_it_is() {
    let bench = Bench::new();
    let missing = bench.run(&["trust", "--json"]);
    assert_eq!(missing.is(2).code(), "unreadable_file");
    assert!(missing.json()["error"]["hint"].as_str().unwrap().contains(".flowcell.toml"));
    bench.write(".flowcell.toml", &rule("allow", "net:get:a"));
    assert_eq!(effect(&bench, "net:get:a", &[]), "ask");
    let trusted = bench.run(&["trust", "--json"]).is(0).json();
    assert_eq!((&trusted["trusted"], trusted["sha256"].as_str().unwrap().len()), (&json!(true), 64));
    assert_eq!(effect(&bench, "net:get:a", &[]), "allow");
    assert_eq!(check(&bench, "net:get:a", &[])["rule"]["source"], json!(".flowcell.toml"));
    // A changed file is untrusted again; changed back, it is the file that was trusted.
    bench.write(".flowcell.toml", &format!("{}# more\n", rule("allow", "net:get:a")));
    let answer = bench.run(&["grants", "check", "--json", "net:get:a"]);
    assert_eq!(answer.is(0).json()["effect"], json!("ask"));
    assert!(answer.err.contains(".flowcell.toml has changed since it was trusted"), "{}", answer.err);
    bench.write(".flowcell.toml", &rule("allow", "net:get:a"));
    assert_eq!(effect(&bench, "net:get:a", &[]), "allow");
    let text = bench.run(&["trust"]).is(0).out.clone();
    assert!(text.ends_with("\nwhat counts now:\n  allow  net:get:a\n"), "{text}");
    let revoked = bench.run(&["trust", "--revoke", "--json"]).is(0).json();
    assert_eq!((&revoked["trusted"], &revoked["revoked"]), (&json!(false), &json!(true)));
    assert_eq!(effect(&bench, "net:get:a", &[]), "ask");
    assert_eq!(bench.run(&["trust", "--revoke", "--json"]).is(0).json()["revoked"], json!(false));
    // Another workspace with the same file is another file.
    bench.run(&["trust"]).is(0);
    std::fs::create_dir(bench.ws().join("sub")).unwrap();
    bench.write("sub/.flowcell.toml", &rule("allow", "net:get:a"));
    assert_eq!(effect(&bench, "net:get:a", &["-C", "sub"]), "ask");
    let mode = |path: std::path::PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode(bench.config().join("trusted")), 0o700);
    // What does not read is not trusted.
    bench.write(".flowcell.toml", "rules = 1\n");
    assert_eq!(bench.run(&["trust", "--json"]).is(2).code(), "invalid_policy");
}

#[test]
fn a_file_that_is_named_is_trusted_for_that_call() {
    let bench = Bench::new();
    bench.write(".flowcell.toml", &rule("allow", "net:get:a"));
    let answer = bench.run(&["grants", "check", "--json", "net:get:a", "--policy", ".flowcell.toml"]);
    assert_eq!(answer.is(0).json()["effect"], json!("allow"));
    assert!(!answer.err.contains("warning"), "{}", answer.err);
    assert_eq!(effect(&bench, "net:get:a", &[]), "ask");
}

#[test]
fn keys_without_effect_warn_when_they_count() {
    let bench = Bench::new();
    let warnings = |words: &[&str]| -> Vec<String> {
        let answer = bench.run(words);
        let lines = answer.is(0).err.lines().filter(|line| line.contains("has no effect"));
        lines.map(ToOwned::to_owned).collect()
    };
    bench.write(
        ".flowcell.toml",
        "attended = false\n[host]\nallow_pseudo_fs = true\n[search]\nprovider = \"exa\"\ncredential = \"K\"\n[lsp.servers.x]\ncommand = \"x\"\nextensionToLanguage = { \".x\" = \"x\" }\n",
    );
    assert!(warnings(&["exec", "-e", "1"]).is_empty(), "it is not trusted");
    let trusted = bench.run(&["trust"]).is(0).out.clone();
    for part in ["[search] (no effect in this version)", "  attended\n", "  [host]\n"] {
        assert!(trusted.contains(part), "{part:?} is missing in {trusted}");
    }
    let expected = [
        "warning: lsp.servers.x (.flowcell.toml) has no effect in this version",
        "warning: search (.flowcell.toml) has no effect in this version",
    ];
    let ls = ["call", "ls", r#"{"path": "."}"#];
    for words in [&["exec", "--run-id", "r", "-e", "1"][..], &["resume", "r"], &ls] {
        let mut said = warnings(words);
        said.sort();
        assert_eq!(said, expected, "{words:?}");
    }
    assert!(warnings(&["-q", "exec", "-e", "1"]).is_empty());
    let twice = ["exec", "--policy", ".flowcell.toml", "--policy", ".flowcell.toml", "-e", "1"];
    assert_eq!(warnings(&twice).len(), 2, "once each");
}

#[test]
fn a_pattern_of_no_path_is_warned_of() {
    let bench = Bench::new();
    let answer = bench.run(&["exec", "--allow", "fs:write:src/**", "--deny", "fs:read:~/x", "-e", "1"]);
    for part in [
        "warning: --allow \"fs:write:src/**\" matches nothing, because a path is absolute; write \
         fs:write:${workspace}/src/**",
        "warning: --deny \"fs:read:~/x\" matches nothing, because a path is absolute; write fs:read:${home}/x",
    ] {
        assert!(answer.is(0).err.contains(part), "{part:?} is missing in {}", answer.err);
    }
    bench.user_policy(&rule("deny", "fs:write:secret/**"));
    let answer = bench.run(&["exec", "-e", "1"]);
    assert!(
        answer.is(0).err.contains("policy.toml:3: rule[0].pattern: \"fs:write:secret/**\""),
        "{}",
        answer.err
    );
}

#[test]
fn a_misspelt_key_names_the_nearest() {
    let bench = Bench::new();
    for (text, message, path) in [
        (
            "[host]\nallow_psuedo_fs = true\n",
            "p.toml:2: host.allow_psuedo_fs: unknown key; the nearest known key is `allow_pseudo_fs`",
            "p.toml",
        ),
        (
            "[[rules]]\neffect = \"deny\"\n",
            "p.toml:1: rules: unknown key; the nearest known key is `rule`",
            "p.toml",
        ),
        (
            "[[rule]]\neffect = \"deny\"\npattern = \"fs:raed:/x\"\n",
            "p.toml:3: rule[0].pattern: \"fs:raed:/x\" is no capability pattern",
            "p.toml",
        ),
        (
            "[[rule]]\neffect = \"deny\"\npattern = \"fs:read:${workspce}\"\n",
            "${workspce} is no variable; the nearest variable is ${workspace}",
            "p.toml",
        ),
        ("zzz = 1\n", "p.toml:1: zzz: unknown key; the known keys are `attended`, `rule`", "p.toml"),
        (
            "[[rule]]\neffect = \"deny\"\npattern = \"fs:wirte:/x\"\n",
            "did you mean \"fs:write:/x\"?",
            "p.toml",
        ),
        ("attended = \n", "p.toml:1: ", "p.toml"),
    ] {
        bench.write("p.toml", text);
        let answer = bench.run(&["exec", "--json", "--policy", "p.toml", "-e", "1"]);
        assert_eq!(answer.is(2).code(), "invalid_policy", "{text}");
        let error = answer.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(message), "{text}: {error}");
        assert_eq!((&error["path"], error["hint"].is_string()), (&json!(path), true));
        assert!(answer.err.starts_with("error: "), "{}", answer.err);
    }
    assert!(!bench.ws().join(".flowcell").exists());
    assert_eq!(
        bench.run(&["exec", "--json", "--policy", "none.toml", "-e", "1"]).is(2).code(),
        "unreadable_file"
    );
    let flag = bench.run(&["exec", "--json", "--allow", "fs:read", "-e", "1"]);
    assert_eq!(flag.is(2).code(), "invalid_policy");
    assert!(flag.err.contains("--allow \"fs:read\""), "{}", flag.err);
    bench.user_policy("attnded = true\n");
    assert_eq!(bench.run(&["exec", "--json", "-e", "1"]).is(2).code(), "invalid_policy");
    // Commands that apply no rules do not need them.
    bench.run(&["runs"]).is(0);
}

#[test]
fn variables_stand_for_the_folders() {
    let bench = Bench::new();
    let root = bench.root();
    let home = bench.outside("home").display().to_string();
    bench.user_policy(&format!(
        "{}{}{}",
        rule("allow", "fs:write:${workspace}/out/**"),
        rule("allow", "fs:read:${home}/notes/*"),
        rule("allow", "fs:read:${data}/**")
    ));
    assert_eq!(effect(&bench, &format!("fs:write:{root}/out/a"), &[]), "allow");
    assert_eq!(effect(&bench, &format!("fs:write:{root}/in/a"), &[]), "ask");
    assert_eq!(effect(&bench, &format!("fs:read:{home}/notes/n"), &[]), "allow");
    assert_eq!(effect(&bench, &format!("fs:read:{root}/.flowcell/x"), &[]), "deny");
    let odd = bench.ws().join("odd*name");
    std::fs::create_dir(&odd).unwrap();
    let answer = bench.run(&["-C", "odd*name", "exec", "--json", "-e", "1"]);
    assert_eq!(answer.is(2).code(), "invalid_policy");
    assert!(answer.err.contains("cannot spell a `*`"), "{}", answer.err);
}

#[test]
fn host_options_act() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    std::fs::hard_link(bench.ws().join("a.txt"), bench.ws().join("b.txt")).unwrap();
    let cell = "const r = await ctx.call('read', {path: 'a.txt'}); ctx.done(r.ok === false ? r.error.flowCode : r.content)";
    assert_eq!(bench.run(&["exec", "--json", "-e", cell]).is(0).json()["output"], json!("x"));
    bench.write("p.toml", "[host]\nrefuse_hard_linked_reads = true\nallow_pseudo_fs = true\n");
    let run = bench.run(&["exec", "--json", "--policy", "p.toml", "-e", cell]).is(0).json();
    assert_eq!(run["output"], json!("permission_denied"));
    let words = ["grants", "check", "--json", "--read", "/sys/kernel"];
    let refused = bench.run(&words).is(0).json();
    assert_eq!(refused["effect"], json!("deny"));
    assert!(refused.get("rule").is_none());
    let asked = bench.run(&[&words[..], &["--policy", "p.toml"]].concat()).is(0).json();
    assert_eq!(asked["effect"], json!("ask"));
}

#[test]
fn without_a_home_there_is_no_user_policy_and_no_trust() {
    let bench = Bench::new();
    let run = |words: &[&str]| {
        bench
            .command(crate::bench::BINARY, words)
            .env_remove("HOME")
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .unwrap()
    };
    assert_eq!(run(&["exec", "-e", "ctx.done(1)"]).status.code(), Some(0));
    bench.write(".flowcell.toml", &rule("allow", "net:get:a"));
    let trust = run(&["trust", "--json"]);
    assert_eq!(trust.status.code(), Some(2));
    assert!(String::from_utf8(trust.stdout).unwrap().contains("no_home"));
}
