//! `grants check`.

use serde_json::json;

use crate::bench::{Bench, keys};

#[test]
fn an_answer_names_the_rule() {
    let bench = Bench::new();
    let root = bench.root();
    let said = bench.run(&["grants", "check", "--json", "--read", "src/../a.txt"]).is(0).json();
    assert_eq!(keys(&said), ["capability", "effect", "rule", "why"]);
    assert_eq!(
        (&said["effect"], &said["capability"]),
        (&json!("allow"), &json!(format!("fs:read:{root}/a.txt")))
    );
    assert_eq!(
        said["rule"],
        json!({"effect": "allow", "pattern": format!("fs:read:{root}/**"), "source": "built-in"})
    );
    let asked = bench.run(&["grants", "check", "--json", "--write", "a.txt"]).is(0).json();
    assert_eq!(
        (&asked["effect"], &asked["capability"]),
        (&json!("ask"), &json!(format!("fs:write:{root}/a.txt")))
    );
    assert!(!bench.ws().join("a.txt").exists(), "asking writes nothing");
    assert!(!bench.ws().join(".flowcell").exists());
    let text = bench.run(&["grants", "check", "net:get:example.com", "--deny", "net:*:**"]).is(0).out.clone();
    assert!(text.starts_with("deny net:get:example.com\n  rule deny net:*:** from --deny\n"), "{text}");
}

#[test]
fn a_path_is_named_as_the_kernel_names_it() {
    let bench = Bench::new();
    let root = bench.root();
    std::fs::create_dir(bench.ws().join("dir")).unwrap();
    std::os::unix::fs::symlink("dir", bench.ws().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", bench.ws().join("out")).unwrap();
    let capability = |flag: &str, path: &str| {
        bench.run(&["grants", "check", "--json", flag, path]).is(0).json()["capability"].clone()
    };
    assert_eq!(capability("--read", "link/new"), json!(format!("fs:read:{root}/dir/new")));
    assert_eq!(capability("--write", "link/new"), json!(format!("fs:write:{root}/dir/new")));
    assert_eq!(capability("--read", "out"), json!("fs:read:/etc/hostname"));
    // Through a root that is a link, resources keep the root's own name.
    let alias = bench.outside("alias");
    std::os::unix::fs::symlink(bench.ws(), &alias).unwrap();
    let alias = alias.to_str().unwrap();
    let said = bench.run(&["-C", alias, "grants", "check", "--json", "--read", "link/new"]).is(0).json();
    assert_eq!(
        (&said["capability"], &said["effect"]),
        (&json!(format!("fs:read:{alias}/dir/new")), &json!("allow"))
    );
    let data =
        bench.run(&["-C", alias, "grants", "check", "--json", "--read", ".flowcell/x", "--allow", "*"]);
    assert_eq!(data.is(0).json()["effect"], json!("deny"));
}

#[test]
fn what_is_refused_before_any_rule_is_a_deny() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("loop", bench.ws().join("loop")).unwrap();
    for (path, why) in [
        ("loop", "symbolic links"),
        ("/proc/self/environ", "pseudo file system"),
        ("/dev/null", "pseudo file system"),
        ("", "empty"),
    ] {
        let said = bench.run(&["grants", "check", "--json", "--read", path, "--allow", "*"]).is(0).json();
        assert_eq!(
            (keys(&said), &said["effect"]),
            (vec!["capability".into(), "effect".into(), "why".into()], &json!("deny")),
            "{path:?}"
        );
        assert!(said["why"].as_str().unwrap().contains(why), "{path:?}: {said}");
    }
}

#[test]
fn a_capability_is_exact() {
    let bench = Bench::new();
    for bad in ["fs:raed:/x", "fs:read", "net:*:x", "*"] {
        let answer = bench.run(&["grants", "check", "--json", bad]);
        assert_eq!(answer.is(2).code(), "invalid_input", "{bad}");
        assert!(answer.json()["error"]["hint"].as_str().unwrap().contains("fs:read"));
    }
    let typo = bench.run(&["grants", "check", "fs:wirte:/x"]);
    assert!(typo.is(2).err.contains("did you mean \"fs:write:/x\"?"), "{}", typo.err);
    assert!(!bench.run(&["grants", "check", "zip:zap:/x"]).is(2).err.contains("did you mean"));
    let relative = bench.run(&["grants", "check", "--json", "fs:write:src/x.rs"]);
    assert_eq!(relative.is(0).json()["effect"], json!("ask"));
    for part in ["a path is absolute", "`flowcell grants check --write src/x.rs`"] {
        assert!(relative.err.contains(part), "{part:?} is missing in {}", relative.err);
    }
    for fine in ["fs:write:/x", "net:get:x"] {
        assert_eq!(bench.run(&["grants", "check", fine]).is(0).err, "");
    }
    assert_eq!(bench.run(&["grants", "check", "--json"]).is(2).code(), "usage");
    assert_eq!(bench.run(&["grants", "check", "--json", "fs:read:/x", "--read", "/x"]).is(2).code(), "usage");
    let literal =
        bench.run(&["grants", "check", "--json", "fs:read:/a*b", "--allow", "fs:read:/a*"]).is(0).json();
    assert_eq!(literal["effect"], json!("allow"));
}
